"""A four-bar linkage that falls and swings: MuJoCo."""

import mujoco
import numpy as np

FIRST = {"h": 0.02}
BARS = {"crank": 0.3, "coupler": np.hypot(0.8, 0.2), "rocker": 0.5}
inertial = {
    name: f'<inertial pos="{x / 2} 0 0" mass="{2 * x}" diaginertia="1e-3 {x**3 / 6} {x**3 / 6}"/>'
    for name, x in BARS.items()
}
# Angles about y of bars that point along x at 0: upwards -90°, and the coupler's after the crank's.
turn = np.degrees(-np.arctan2(0.2, 0.8)) + 90


def prepare(h):
    # The loop's constraint is soft; two steps is the shortest time constant that it can have.
    model = mujoco.MjModel.from_xml_string(f"""
    <mujoco><option gravity="0 0 -9.81" timestep="{h}" integrator="RK4"/>
      <default><equality solref="{2 * h} 1" solimp="0.9999 0.9999 1e-3"/></default>
      <worldbody>
        <body name="crank" euler="0 -90 0"><joint name="A" axis="0 1 0"/>{inertial["crank"]}
          <body name="coupler" pos="0.3 0 0" euler="0 {turn} 0"><joint name="B" axis="0 1 0"/>{inertial["coupler"]}
            <site name="end" pos="{BARS["coupler"]} 0 0"/></body></body>
        <body name="rocker" pos="0.8 0 0" euler="0 -90 0"><joint name="D" axis="0 1 0"/>{inertial["rocker"]}
          <site name="top" pos="0.5 0 0"/></body>
      </worldbody>
      <equality><connect site1="end" site2="top"/></equality>
    </mujoco>""")
    return model, mujoco.MjData(model), round(2 / h)


def march(prepared):
    model, data, steps = prepared
    mujoco.mj_resetData(model, data)
    coupler = model.body("coupler").id
    data.xfrc_applied[coupler, :3] = (6.0, 0, 0)
    mujoco.mj_step(model, data, nstep=steps)
    mujoco.mj_forward(model, data)
    gap = np.linalg.norm(data.site("end").xpos - data.site("top").xpos)
    x, _, z = data.xipos[coupler]
    return {"numbers": [x, z, data.joint("D").qpos[0]], "steps": steps, "loop open by": gap}

"""Actuators at sites and compensation of gravity, beside MuJoCo."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, read

import polhode as ph

DRONE = """<mujoco><compiler angle="radian"/>
<default><geom type="box" size="0.2 0.1 0.05" contype="0" conaffinity="0"/></default><worldbody>
<site name="axes" euler="0.3 -0.7 1.1"/>
<body name="hull" gravcomp="{lift}"><freejoint name="f"/><geom pos="0.05 0 0"/>
<site name="rotor" pos="0.2 0.1 0" euler="0 0.4 0.2"/>
<body name="battery" pos="0 0 -0.1" gravcomp="{lift}"><geom size="0.05 0.05 0.05"/></body>
<body name="arm" pos="0.2 0 0"><joint name="j" axis="0 1 0"/><geom pos="0.2 0 0"/>
<site name="tip" pos="0.4 0 0"/></body>
</body></worldbody>{actuators}</mujoco>"""
ROTOR = '<motor name="rotor" site="rotor" gear="0 0 3 0.2 0 -0.5" ctrlrange="0 4" forcerange="-20 5"/>'
WIND = (
    '<general name="wind" site="tip" refsite="axes" gear="2 -1 0 0 0.3 1" gainprm="1.5" biastype="affine" biasprm="1"/>'
)
BOTH = f"<actuator>{ROTOR}{WIND}</actuator>"


def write_file(tmp_path, lift=0.0, actuators=BOTH):
    path = tmp_path / "drone.xml"
    path.write_text(DRONE.format(lift=lift, actuators=actuators))
    return path


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", ["minimal", "SE3"])
@pytest.mark.parametrize("lift", [0.0, 0.7])
def test_accelerations_are_those_of_mujoco(tmp_path, lift, formulation):
    path = write_file(tmp_path, lift)
    model = read(path)
    data = at_random(model, 3)
    data.ctrl[:] = 3.0, 0.6
    mujoco.mj_forward(model, data)
    controls = {"rotor": 3.0, "wind": 0.6}
    imported = load_at(path, model, data, controls=controls)
    assert not imported.not_carried
    assert largest_difference(imported.problem(formulation), model, data) < 1e-12
    # As functions of time they have no other values.
    given = {name: lambda t, u=u: u + 0 * t for name, u in controls.items()}
    imported = load_at(path, model, data, controls=given)
    assert largest_difference(imported.problem(formulation), model, data) < 1e-12
    # Without any of it, it is another motion.
    for other in (read(write_file(tmp_path, lift, "")), read(write_file(tmp_path, lift + 0.1))):
        changed = at_random(other, 3)
        changed.ctrl[:] = (3.0, 0.6)[: other.nu]
        mujoco.mj_forward(other, changed)
        assert np.max(np.abs(changed.qacc - data.qacc)) > 0.1


def test_a_drone_hovers_in_a_run(tmp_path):
    rotor = '<actuator><motor name="rotor" site="rotor" gear="0 0 1 0 0 0"/></actuator>'
    path = write_file(tmp_path, 0.0, rotor)
    path.write_text(path.read_text().replace('pos="0.2 0.1 0" euler="0 0.4 0.2"', 'pos="0 0 0"'))
    text = path.read_text().partition('<body name="arm"')[0].replace('pos="0.05 0 0"', "") + "</body></worldbody>"
    weight = 9.81 * float(mujoco.MjModel.from_xml_string(f"{text}{rotor}</mujoco>").body_mass.sum())
    pulse = ph.PiecewiseLinear((0.25, 0.25, 0.5, 0.5), (weight, 2 * weight, 2 * weight, weight))
    run = ph.simulate(ph.load_model(f"{text}{rotor}</mujoco>", controls={"rotor": pulse}).problem(t1=0.75), h=0.1)
    # It rises by g (0.25²/2 + 0.25²): jumps of a control end steps.
    rise = run.bodies["hull"].z[-1] - run.bodies["hull"].z[0]
    assert rise == pytest.approx(9.81 * 0.25**2 * 1.5, rel=1e-12)


@pytest.mark.parametrize(
    ("actuator", "control"),
    [
        ('<general name="it" site="tip" gear="1" biastype="affine" biasprm="0 0 -2"/>', 0.0),
        ('<motor name="it" site="tip" refsite="rotor" gear="1"/>', 0.0),
        ('<motor name="it" site="tip" gear="1"/>', lambda t, s, rates: jnp.sin(s["j"])),
    ],
)
def test_what_depends_on_the_motion_is_listed(tmp_path, actuator, control):
    path = write_file(tmp_path, 0.0, f"<actuator>{actuator}</actuator>")
    (lost,) = ph.load_model(path, controls={"it": control}).not_carried
    assert (lost.what, lost.names) == ("actuators", ("it",))
    assert "at sites only" in lost.reason


def test_constant_loads_come_back_from_their_file():
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.25), position=(0, 0, -1), name="bob")
    model.add(ph.joints.Spherical(model.ground, body, point=(0, 0, 0)))
    model.add(ph.forces.PointForce(body, (1.0, 2.0, 3.0), point=(0.1, 0, -1)))
    model.add(ph.forces.Torque(body, (0.3, -0.2, 0.1), frame="body"))
    again = ph.load_model(model.to_mjcf())
    assert not again.not_carried
    found = [ph.simulate(one.problem("minimal", t1=0.5), "rkmk4", h=0.01) for one in (model, again)]
    np.testing.assert_allclose(found[1].bodies["bob"].position, found[0].bodies["bob"].position, atol=1e-12)

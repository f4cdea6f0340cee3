"""Contact, impact and friction beside MuJoCo and Drake, in one run.

python benchmarks/contact_peers.py [incline] [puck] …

Each problem has a truth of its own: a block that sticks, forces of equilibrium, a path integrated to 1e-12, an energy
that is kept. Times are processor times of this thread, without compiling. Needs the extra `benchmarks`; codes that
aren't installed are left out. Siconos has no package in PyPI.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import polhode as ph

G = 9.81
MUJOCO = {
    "MuJoCo": "",
    "MuJoCo, elliptic": 'cone="elliptic"',
    "MuJoCo, elliptic, impratio 100, noslip 10": 'cone="elliptic" impratio="100" noslip_iterations="10"',
}
MUJOCO_STEP, DRAKE_STEP = 0.002, 0.001


class Block(NamedTuple):
    """A box on a plane: half sizes, mass, friction, direction of gravity, velocity at the start."""

    half: tuple[float, float, float]
    mass: float
    friction: float
    gravity: tuple[float, float, float]
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Motion(NamedTuple):
    """Times, and positions of the centre."""

    t: np.ndarray
    x: np.ndarray


def tilted(degrees: float) -> tuple[float, float, float]:
    angle = np.radians(degrees)
    return (G * float(np.sin(angle)), 0.0, -G * float(np.cos(angle)))


def report(problem: str, code: str, result: str) -> None:
    """A row of the table."""
    print(f"| {problem} | {code} | {result} |", flush=True)


# --- one block, by each code ------------------------------------------------------------------------------------------


def by_polhode(block: Block, t1: float, h: float = 0.01) -> Motion:
    model = ph.Model(gravity=block.gravity)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape = ph.shapes.Box(tuple(2 * np.array(block.half)))
    model.add_body(mass=block.mass, shape=shape, position=(0, 0, block.half[2]), velocity=block.velocity, name="block")
    model.contacts(friction=block.friction)
    run = ph.simulate(model.problem(t1=t1, h=h))
    return Motion(np.asarray(run.t), np.asarray(run.bodies["block"].position))


def by_mujoco(block: Block, t1: float, options: str) -> Motion:
    numbers = lambda values: " ".join(f"{v:.17g}" for v in values)  # noqa: E731
    model, data = mujoco_model(
        f"""<mujoco><option timestep="{MUJOCO_STEP}" gravity="{numbers(block.gravity)}" {options}/>
        <default><geom friction="{block.friction} 0 0"/></default><worldbody><geom type="plane" size="0 0 1"/>
        <body pos="0 0 {block.half[2]}"><freejoint/>
        <geom type="box" size="{numbers(block.half)}" mass="{block.mass}"/></body></worldbody></mujoco>"""
    )
    data.qvel[:3] = block.velocity
    return march(model, data, t1)


def mujoco_model(xml: str) -> tuple[Any, Any]:
    mujoco: Any = importlib.import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(xml)
    return model, mujoco.MjData(model)


def march(model: Any, data: Any, t1: float) -> Motion:
    mujoco: Any = importlib.import_module("mujoco")
    steps = round(t1 / model.opt.timestep)
    rows = []
    for _ in range(steps + 1):
        rows.append(data.qpos[:3].copy())
        mujoco.mj_step(model, data)
    return Motion(np.arange(steps + 1) * model.opt.timestep, np.array(rows))


def by_drake(block: Block, t1: float) -> Motion:
    """SAP, with a ball of 1 mm at each corner: a box against a half-space has one point and rocks."""
    plants: Any = importlib.import_module("pydrake.multibody.plant")
    trees: Any = importlib.import_module("pydrake.multibody.tree")
    maths: Any = importlib.import_module("pydrake.math")
    geometry: Any = importlib.import_module("pydrake.geometry")
    framework: Any = importlib.import_module("pydrake.systems.framework")
    analysis: Any = importlib.import_module("pydrake.systems.analysis")
    builder = framework.DiagramBuilder()
    plant, _ = plants.AddMultibodyPlantSceneGraph(builder, DRAKE_STEP)
    plant.set_discrete_contact_approximation(plants.DiscreteContactApproximation.kSap)
    plant.mutable_gravity_field().set_gravity_vector(np.array(block.gravity))
    friction = plants.CoulombFriction(block.friction, block.friction)
    plant.RegisterCollisionGeometry(plant.world_body(), maths.RigidTransform(), geometry.HalfSpace(), "floor", friction)
    inertia = trees.SpatialInertia.SolidBoxWithMass(block.mass, *(2 * np.array(block.half)))
    body, radius = plant.AddRigidBody("block", inertia), 1e-3
    for k in range(8):
        corner = np.where([k & 1, k & 2, k & 4], 1.0, -1.0) * (np.array(block.half) - radius)
        plant.RegisterCollisionGeometry(
            body, maths.RigidTransform(corner), geometry.Sphere(radius), f"corner-{k}", friction
        )
    plant.Finalize()
    diagram = builder.Build()
    simulator = analysis.Simulator(diagram)
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    plant.SetFreeBodyPose(context, body, maths.RigidTransform([0, 0, block.half[2]]))
    velocity = importlib.import_module("pydrake.multibody.math").SpatialVelocity(np.zeros(3), np.array(block.velocity))
    plant.SetFreeBodySpatialVelocity(context=context, body=body, V_JpJc=velocity)
    times, rows = np.arange(0, t1 + 0.005, 0.01), []
    for t in times:
        simulator.AdvanceTo(t)
        rows.append(plant.EvalBodyPoseInWorld(context, body).translation())
    return Motion(times, np.array(rows))


def codes() -> dict[str, Callable[[Block, float], Motion]]:
    """Those that are installed."""
    found: dict[str, Callable[[Block, float], Motion]] = {"polhode, moreau": by_polhode}
    if importlib.util.find_spec("mujoco"):
        for name, options in MUJOCO.items():
            found[name] = lambda block, t1, options=options: by_mujoco(block, t1, options)
    if importlib.util.find_spec("pydrake"):
        found["Drake, SAP"] = by_drake
    return found


# --- problems ---------------------------------------------------------------------------------------------------------


def incline() -> None:
    """A block on 20° with friction 0.5, which sticks."""
    block = Block((0.2, 0.15, 0.1), 3.0, 0.5, tilted(20.0))
    for name, run in codes().items():
        motion = run(block, 10.0)
        late = np.searchsorted(motion.t, 5.0)
        creep = np.linalg.norm(motion.x[-1, :2] - motion.x[late, :2]) / 5
        report("block on 20°, must stick", name, f"creep {1e6 * creep:.2g} µm/s")


def thrown() -> None:
    """A cube of 0.1 m at 6 m/s and friction 0.5, which stays flat and stops after v²/2μg."""
    block = Block((0.05, 0.05, 0.05), 1.0, 0.5, (0.0, 0.0, -G), (6.0, 0.0, 0.0))
    way = 6.0**2 / (2 * 0.5 * G)
    for name, run in codes().items():
        motion = run(block, 2.0)
        lift, error = np.max(motion.x[:, 2]) - 0.05, motion.x[-1, 0] - way
        print(
            f"| cube thrown at 6 m/s | {name} | lifts {1e3 * lift:.2g} mm, stops {1e3 * error:.2g} mm off |", flush=True
        )


def puck() -> None:
    """A flat box at 3 m/s on 25°, across the slope: its path turns."""
    from scipy.integrate import solve_ivp

    gravity, friction, angle = tilted(25.0), 0.7, np.radians(70.0)
    start = 3.0 * np.array([np.cos(angle), np.sin(angle)])
    block = Block((0.1, 0.1, 0.01), 1.0, friction, gravity, (*start, 0.0))

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        v = y[2:]
        return np.concatenate((v, np.array([gravity[0], 0]) + friction * gravity[2] * v / np.linalg.norm(v)))

    rest = lambda _, y: float(np.hypot(*y[2:])) - 1e-9  # noqa: E731
    rest.terminal = True
    exact = solve_ivp(rate, (0, 1), [0, 0, *start], rtol=1e-12, atol=1e-14, events=rest, method="DOP853").y[:2, -1]
    for name, run in codes().items():
        motion = run(block, 1.0)
        error = np.linalg.norm(motion.x[-1, :2] - exact)
        report("puck with a turning path", name, f"{error:.2g} m off after 1 s")


def heavy_on_light() -> None:
    """A cube of 10⁴ kg on one of 1 kg."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape = ph.shapes.Box((0.2, 0.2, 0.2))
    for k, mass in enumerate((1.0, 1e4)):
        model.add_body(mass=mass, shape=shape, position=(0, 0, 0.1 + 0.2 * k), name=f"box-{k}")
    model.contacts(friction=0.5)
    run = ph.simulate(model.problem(t1=5.0, h=0.01))
    sink = 0.3 - run.bodies["box-1"].position[-1, 2]
    force = run.contacts["box-0", "box-1"].normal_force[-1] / (1e4 * G) - 1
    print(
        f"| cube of 10⁴ kg on 1 kg | polhode, moreau | sinks {1e3 * sink:.2g} mm, force {force:.1e} off |", flush=True
    )
    bodies = "".join(
        f'<body pos="0 0 {0.1 + 0.2 * k}"><freejoint/><geom type="box" size=".1 .1 .1" mass="{mass}"/></body>'
        for k, mass in enumerate((1.0, 1e4))
    )
    for name, options in MUJOCO.items():
        xml = f'<mujoco><option timestep="{MUJOCO_STEP}" gravity="0 0 -{G}" {options}/><worldbody>'
        m, data = mujoco_model(f'{xml}<geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>')
        march(m, data, 5.0)
        report("cube of 10⁴ kg on 1 kg", name, f"sinks {1e3 * (0.3 - data.qpos[9]):.3g} mm")


def bouncing() -> None:
    """An elastic ball dropped from 1 m: the largest energy within 10 s, over that of the start."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 1.1), name="ball")
    model.contacts(friction=0.0, restitution=1.0)
    run = ph.simulate(model.problem(t1=10.0, h=0.01))
    ball = run.bodies["ball"]
    energy = 0.5 * np.sum(ball.velocity**2, axis=1) + G * (ball.position[:, 2] - 0.1)
    print(
        f"| elastic ball, 10 s | polhode, moreau | energy {energy.min() / G:.6f} to {energy.max() / G:.6f} |",
        flush=True,
    )
    xml = (
        f'<mujoco><option timestep="{MUJOCO_STEP}" gravity="0 0 -{G}"/><worldbody><geom type="plane" size="0 0 1" '
        'solref="-10000 0"/><body pos="0 0 1.1"><freejoint/><geom size=".1" mass="1" solref="-10000 0"/></body>'
        "</worldbody></mujoco>"
    )
    m, data = mujoco_model(xml)
    mujoco: Any = importlib.import_module("mujoco")
    values = []
    for _ in range(round(10 / MUJOCO_STEP)):
        mujoco.mj_step(m, data)
        if data.ncon == 0:
            values.append(0.5 * data.qvel[:3] @ data.qvel[:3] + G * (data.qpos[2] - 0.1))
    print(
        f"| elastic ball, 10 s | MuJoCo, solref −10000 0 | energy {min(values) / G:.4f} to {max(values) / G:.4f} |",
        flush=True,
    )


def gripped() -> None:
    """A capsule of 45 g between two pads that press with 12 N."""
    model = ph.Model(gravity=(0, 0, -G))
    turn = ph.rotation_vector((np.pi / 2, 0, 0))
    capsule = model.add_body(mass=0.045, shape=ph.shapes.Capsule(0.012, 0.06), rotation=turn, name="capsule")
    for side in (1, -1):
        pad = model.add_body(mass=0.05, shape=ph.shapes.Box((0.01, 0.03, 0.08)), position=(0.017 * side, 0, 0))
        slide = model.add(ph.joints.Prismatic(model.ground, pad, axis=(-side, 0, 0)))
        model.add(ph.forces.Actuator(slide, 12.0))
        model.add_contact(pad, capsule, friction=0.5)
    run = ph.simulate(model.problem(t1=10.0, h=0.01))
    place = run.bodies["capsule"].position
    creep = np.linalg.norm(place[-1] - place[500]) / 5
    report("capsule held by two pads", "polhode, moreau", f"creep {1e6 * creep:.2g} µm/s")
    pads = "".join(
        f'<body pos="{0.017 * s} 0 0"><joint name="j{s}" type="slide" axis="{-s} 0 0"/>'
        '<geom type="box" size=".005 .015 .04" mass=".05" friction=".5 0 0"/></body>'
        for s in (1, -1)
    )
    for name, options in MUJOCO.items():
        m, data = mujoco_model(
            f'<mujoco><option timestep="{MUJOCO_STEP}" gravity="0 0 -{G}" {options}/><worldbody><body><freejoint/>'
            '<geom type="capsule" size=".012" fromto="0 -.03 0 0 .03 0" mass=".045" friction=".5 0 0"/></body>'
            f'{pads}</worldbody><actuator><motor joint="j1"/><motor joint="j-1"/></actuator></mujoco>'
        )
        data.ctrl[:] = 12.0
        motion = march(m, data, 10.0)
        late = len(motion.t) // 2
        creep = np.linalg.norm(motion.x[-1] - motion.x[late]) / 5
        report("capsule held by two pads", name, f"creep {1e6 * creep:.3g} µm/s")


def ten_boxes() -> None:
    """Ten boxes in a pile: processor time of a step."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    for k in range(10):
        model.add_body(mass=1.0, shape=ph.shapes.Box((0.2, 0.2, 0.2)), position=(0, 0, 0.1 + 0.2 * k), name=f"box-{k}")
    model.contacts(friction=0.5)
    problem = model.problem(t1=1.0, h=0.01)
    ph.simulate(problem, t1=0.05)
    with mock.patch.object(time, "perf_counter", time.thread_time):
        run = ph.simulate(problem, save_every=None)
    each = 1e6 * run.stats["wall_time_s"] / run.stats["steps"]
    print(
        f"| stack of ten boxes | polhode, moreau, 10 ms | {each:.0f} µs a step, {run.stats['compiled']['by']} code |",
        flush=True,
    )
    bodies = "".join(
        f'<body pos="0 0 {0.1 + 0.2 * k}"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>'
        for k in range(10)
    )
    xml = f'<mujoco><option timestep="{MUJOCO_STEP}" gravity="0 0 -{G}"/><worldbody><geom type="plane" size="0 0 1"/>'
    m, data = mujoco_model(f"{xml}{bodies}</worldbody></mujoco>")
    mujoco: Any = importlib.import_module("mujoco")
    began = time.thread_time()
    mujoco.mj_step(m, data, 1000)
    each = 1e3 * (time.thread_time() - began)
    report("stack of ten boxes", "MuJoCo, 2 ms", f"{each:.0f} µs a step")


PROBLEMS = {
    "incline": incline,
    "puck": puck,
    "thrown": thrown,
    "heavy-on-light": heavy_on_light,
    "bouncing": bouncing,
    "gripped": gripped,
    "ten-boxes": ten_boxes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", choices=[[], *PROBLEMS], metavar="PROBLEM")
    options = parser.parse_args()
    for package in ("polhode", "mujoco", "drake"):
        if importlib.util.find_spec("pydrake" if package == "drake" else package):
            print(f"{package} {importlib.metadata.version(package)}", flush=True)
    print(f"polhode 10 ms, MuJoCo {1e3 * MUJOCO_STEP:g} ms, Drake {1e3 * DRAKE_STEP:g} ms where nothing else is said")
    print("| problem | code | |\n|---|---|---|")
    for name in options.problems or PROBLEMS:
        PROBLEMS[name]()


if __name__ == "__main__":
    main()

"""Heaps of boxes and spheres: time of a step, energy, penetration and forces, and those of MuJoCo.

`python benchmarks/heaps.py [NAME …] [--heap-tolerance X]`
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

import numpy as np

import polhode as ph

G = 9.81
MUJOCO_STEP = 0.002


def tower(count: int) -> ph.Model:
    """Boxes on top of each other, from 0.5 to 2 kg."""
    model = _floor()
    for k in range(count):
        box = ph.shapes.Box((0.2, 0.2, 0.2))
        model.add_body(mass=0.5 + 1.5 * (k % 7) / 6, shape=box, position=(0, 0, 0.1 + 0.2 * k), name=f"box-{k}")
    return _touching(model)


def row(count: int) -> ph.Model:
    """Boxes on a floor that touch their neighbours."""
    model = _floor()
    for k in range(count):
        model.add_body(mass=1.0, shape=ph.shapes.Box((0.2,) * 3), position=(0.2 * k, 0, 0.1), name=f"box-{k}")
    return _touching(model)


def wall(count: int) -> ph.Model:
    """Bricks in courses of ten, half of them over the joints below."""
    model = _floor()
    for k in range(count):
        course, place = divmod(k, 10)
        at = (0.41 * place + 0.2 * (course % 2), 0, 0.1 + 0.2 * course)
        model.add_body(mass=1.0, shape=ph.shapes.Box((0.4, 0.2, 0.2)), position=at, name=f"brick-{k}")
    return _touching(model)


def boxes(count: int, spacing: float = 0.36) -> ph.Model:
    """Boxes, turned at random, that fall into a box of planes; ten or fewer on a floor, above each other."""
    if count > 10:
        side = max(2, round((count / 2) ** (1 / 3)))
        model = _walls(0.5 * spacing * side + 0.05)
    else:
        model, side = _floor(), 1
    rng = np.random.default_rng(0)
    for k in range(count):
        level, place = divmod(k, side * side)
        x, y = spacing * (np.array(divmod(place, side)) - 0.5 * (side - 1)) + rng.uniform(-1, 1, 2) * (
            0.1 if side == 1 else 0.005
        )
        turn = rng.normal(size=4)
        model.add_body(
            mass=1.0, shape=ph.shapes.Box((0.2,) * 3), position=(x, y, 0.25 + spacing * level),
            rotation=turn / np.linalg.norm(turn), name=f"box-{k}",
        )  # fmt: skip
    return _touching(model)


def spheres(count: int, boxes: bool = False) -> ph.Model:
    """Spheres, or spheres and boxes in turn, that fall into a box of planes."""
    side = max(2, round((count / 2) ** (1 / 3)))
    model, rng = _walls(0.11 * side + 0.05), np.random.default_rng(0)
    for k in range(count):
        level, place = divmod(k, side * side)
        x, y = np.array(divmod(place, side)) * 0.22 - 0.11 * (side - 1) + 0.005 * rng.uniform(-1, 1, 2)
        shape = ph.shapes.Box((0.11,) * 3) if boxes and k % 2 else ph.shapes.Sphere(0.1)
        model.add_body(mass=1.0, shape=shape, position=(x, y, 0.11 + 0.22 * level), name=f"body-{k}")
    return _touching(model)


def _walls(half: float) -> ph.Model:
    """A floor with four walls at this distance."""
    model = _floor()
    for axis, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
        normal = -sign * np.eye(3)[axis]
        turn = np.cross((0, 0, 1), normal) * np.pi / 2
        model.ground.add_shape(
            ph.shapes.Plane(position=-half * normal, rotation=ph.rotation_vector(turn), name=f"wall-{axis}-{sign}")
        )
    return model


def _floor() -> ph.Model:
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    return model


def _touching(model: ph.Model) -> ph.Model:
    model.contacts(friction=0.5)
    return model


CASES = {
    "tower of 100": (lambda: tower(100), 0.25),
    "row of 100": (lambda: row(100), 0.25),
    "wall of 100": (lambda: wall(100), 0.25),
    "ten boxes that tumble": (lambda: boxes(10), 2.0),
    "heap of 100 boxes": (lambda: boxes(100), 3.0),
    "heap of 100 spheres": (lambda: spheres(100), 4.0),
    "heap of 1,000 spheres": (lambda: spheres(1000), 1.5),
    "heap of 1,000 spheres and boxes": (lambda: spheres(1000, boxes=True), 1.5),
}


def measure(name: str, heap_tolerance: float) -> None:
    """Prints a row of the table."""
    make, t1 = CASES[name]
    problem = make().problem(t1=t1, h=0.005)
    method = ph.integrators.get("moreau", heap_tolerance=heap_tolerance)
    ph.simulate(problem, method, t1=0.05, throw=False)
    begin = time.thread_time()
    run = ph.simulate(problem, method, throw=False)
    taken = (time.thread_time() - begin) / max(run.stats["steps"], 1)
    energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"]
    rise = float(np.max(np.diff(energy), initial=0.0)) / float(np.max(np.abs(energy)))
    floor, coarse = run.contacts["floor"], run.audit()["coarse_steps"].max_drift
    depth = max(0.0, -float(np.min(floor.gap)))
    weight = sum(body.mass for body in make().bodies) * G
    pressure = -float(np.asarray(floor.force)[-1, 2]) / weight - 1
    print(
        f"| {name} | {run.stats['result']} | {run.stats['t_reached']:.2f} | {1e3 * taken:.1f} | "
        f"{run.stats['newton_iterations']:.1f} | {coarse:.0f} | {rise:.0e} | {depth:.1e} | "
        f"{pressure:.0e} | {run.outputs['kinetic_energy'][-1]:.0e} |",
        flush=True,
    )


def to_mujoco(model: ph.Model) -> str:
    """A heap as MJCF, with the masses and inertias of solid shapes."""
    numbers = lambda values: " ".join(f"{x:.17g}" for x in np.ravel(values))  # noqa: E731
    text = [f'<mujoco><option timestep="{MUJOCO_STEP}" gravity="0 0 {-G}"><flag energy="enable"/></option>']
    text.append('<default><geom friction="0.5"/></default><worldbody>')
    for body in (model.ground, *model.bodies):
        for shape in body.shapes:
            at = f'pos="{numbers(body.x)}" quat="{numbers(quaternion(body.R))}"'
            if isinstance(shape, ph.shapes.Plane):
                at = f'pos="{numbers(shape.position)}" quat="{numbers(quaternion(shape.rotation))}"'
                text.append(f'<geom type="plane" size="0 0 1" {at}/>')
            elif isinstance(shape, ph.shapes.Box):
                size = numbers(0.5 * np.asarray(shape.size))
                text.append(f'<body {at}><freejoint/><geom type="box" size="{size}" mass="{body.mass}"/></body>')
            else:
                size = numbers(shape.radius)
                text.append(f'<body {at}><freejoint/><geom type="sphere" size="{size}" mass="{body.mass}"/></body>')
    return "\n".join([*text, "</worldbody></mujoco>"])


def quaternion(rotation: Any) -> np.ndarray:
    """The unit quaternion of a rotation matrix, its scalar first."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(np.asarray(rotation)).as_quat(scalar_first=True)


def measure_mujoco(name: str) -> None:
    """Prints a row of the table."""
    mujoco: Any = importlib.import_module("mujoco")
    make, t1 = CASES[name]
    model = mujoco.MjModel.from_xml_string(to_mujoco(make()))
    data, steps = mujoco.MjData(model), round(t1 / MUJOCO_STEP)
    energies, depth, begin = [], 0.0, time.thread_time()
    for _ in range(steps):
        mujoco.mj_step(model, data)
        energies.append(data.energy.sum())
        depth = max(depth, -float(data.contact.dist[: data.ncon].min(initial=0.0)))
    taken = (time.thread_time() - begin) / steps
    rise = float(np.max(np.diff(energies))) / float(np.max(np.abs(energies)))
    print(
        f"| {name}, MuJoCo | | {t1:.2f} | {1e3 * taken:.2f} | | | {rise:.0e} | {depth:.1e} | | {data.energy[1]:.0e} |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all of them by default")
    parser.add_argument("--heap-tolerance", type=float, default=1e-2)
    parser.add_argument("--mujoco", action="store_true", help="measure MuJoCo, with steps of 2 ms, as well")
    arguments = parser.parse_args()
    print(
        "| case | result | t | ms a step | sweeps | coarse steps | rise of energy | depth | floor / weight - 1 | "
        "kinetic energy |\n" + "|---" * 10 + "|"
    )
    for chosen in arguments.names or CASES:
        measure(chosen, arguments.heap_tolerance)
        if arguments.mujoco:
            measure_mujoco(chosen)

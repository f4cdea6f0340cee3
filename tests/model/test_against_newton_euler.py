"""Trees of every joint with loops beside Newton's and Euler's equations of all bodies, in NumPy alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from newton_euler import Along, Body, Condition, accelerations

import polhode as ph

GRAVITY = np.array([0.7, -0.4, -9.81])
KINDS = ("Revolute", "Prismatic", "Spherical", "Universal", "Cylindrical", "Screw", "Planar", "Fixed")
ADVANCE = 0.15
"""Of screws, in metres per radian."""


def perpendicular(axis: np.ndarray) -> np.ndarray:
    """Two unit vectors across an axis, right-handed with it."""
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first /= np.linalg.norm(first)
    return np.array([first, np.cross(axis, first)])


class Machine:
    """A model, and what the independent equations need of it."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.model = ph.Model(gravity=GRAVITY)
        self.bodies: list[Any] = []
        self.joints: list[tuple[str, Any, Any, Any, np.ndarray, np.ndarray]] = []
        self.acting: list[tuple[Any, float, float, float, float]] = []

    @classmethod
    def at_random(cls, seed: int, bodies: int, loops: tuple[str, ...]) -> Machine:
        machine = cls(seed)
        machine._grow(bodies)
        for kind in loops:
            first, second = machine.random.choice(len(machine.bodies), 2, replace=False)
            machine._join(kind, machine.bodies[first], machine.bodies[second])
        return machine

    @classmethod
    def of_bars(cls) -> Machine:
        """A four-bar linkage at the end of an arm, in a plane that is skew to the axes of all frames."""
        machine, angle = cls(), 4 * np.pi / 3
        out, normal = np.array((0, np.cos(angle), np.sin(angle))), np.array((0, -np.sin(angle), np.cos(angle)))
        place = lambda x, r: np.array((x, 0, 0)) + r * out  # noqa: E731
        hip, a, b, c, d = place(-0.4, 0), place(0.02, 0.03), place(0.07, 0.08), place(0.11, 0.05), place(0.04, 0.012)
        ends = ((hip, place(0, 0)), (a, b), (b, c), (d, c))
        turns = np.array(((0, 0, 1), -out, normal, np.cross(out, normal)))
        for (start, end), velocity in zip(ends, turns, strict=True):
            x = (end - start) / np.linalg.norm(end - start)
            R = np.column_stack((x, normal, np.cross(x, normal))) if velocity[2] != 1 else np.eye(3)
            machine.bodies.append(
                machine.model.add_body(
                    mass=0.2, inertia=(1e-4, 2e-3, 2.05e-3), position=(start + end) / 2, rotation=R,
                    angular_velocity=R.T @ velocity, name=f"b{len(machine.bodies)}",
                )
            )  # fmt: skip
        ground, (arm, crank, coupler, follower) = machine.model.ground, machine.bodies
        machine._join("Revolute", ground, arm, hip, np.array((0.0, 0.6, 0.8)))
        for first, second, point in ((arm, crank, a), (crank, coupler, b), (coupler, follower, c), (follower, arm, d)):
            machine._join("Revolute", first, second, point, normal)
        return machine

    def _grow(self, count: int) -> None:
        for k in range(count):
            free = k == 0
            skew = self.random.standard_normal((3, 3))
            body = self.model.add_body(
                mass=self.random.uniform(0.5, 2.0),
                inertia=skew @ skew.T + 2 * np.trace(skew @ skew.T) * np.eye(3),
                position=self.random.uniform(-1, 1, 3),
                rotation=ph.rotation_vector(self.random.standard_normal(3)),
                velocity=self.random.standard_normal(3),
                angular_velocity=self.random.standard_normal(3),
                name=f"b{k}",
            )
            if not free:
                carrier = self.model.ground if k == 1 else self.bodies[self.random.integers(k)]
                kind = KINDS[(k + int(self.random.integers(2))) % len(KINDS)]
                self._join(kind, *((carrier, body) if self.random.random() < 0.7 else (body, carrier)))
            self.bodies.append(body)

    def _join(self, kind: str, first: Any, second: Any, point: Any = None, axis: Any = None) -> None:
        if point is None:
            point, axis = self.random.uniform(-1, 1, 3), self.random.standard_normal(3)
            axis /= np.linalg.norm(axis)
        across = perpendicular(axis)[0]
        how = {
            "Revolute": {"point": point, "axis": axis}, "Cylindrical": {"point": point, "axis": axis},
            "Prismatic": {"point": point, "axis": axis}, "Planar": {"point": point, "normal": axis},
            "Screw": {"point": point, "axis": axis, "lead": 2 * np.pi * ADVANCE},
            "Universal": {"point": point, "first_axis": axis, "second_axis": across},
        }.get(kind, {"point": point})  # fmt: skip
        joint = self.model.add(getattr(ph.joints, kind)(first, second, **how, name=f"{kind}-{len(self.joints)}"))
        self.joints.append((kind, joint, first, second, point, axis))
        if kind in ("Revolute", "Prismatic"):
            rotor, stiffness, damping, rest = self.random.uniform(0.2, 1.0, 4)
            self.model.add(ph.joints.RotorInertia(joint, rotor))
            self.model.add(ph.forces.JointSpring(joint, stiffness=9 * stiffness, damping=damping, rest=rest))
            self.acting.append((len(self.joints) - 1, rotor, 9 * stiffness, damping, rest))

    # --- the same as functions of poses -----------------------------------------------------------------------------

    def number(self, body: Any) -> int | None:
        return None if body is self.model.ground else self.bodies.index(body)

    def conditions(self, points: dict[str, np.ndarray]) -> list[Condition]:
        return [
            Condition(self.number(first), self.number(second), residual(*rest), rest[1].name, points[rest[1].name])
            for rest in self.joints
            for first, second in [rest[2:4]]
        ]

    def coordinates(self) -> list[Along]:
        rows = []
        for number, rotor, stiffness, damping, rest in self.acting:
            kind, _, first, second, point, axis = self.joints[number]
            force = lambda s, rate, k=stiffness, d=damping, r=rest: -k * (s - r) - d * rate  # noqa: E731
            value = (angle if kind == "Revolute" else slide)(first, second, point, axis)
            rows.append(Along(self.number(first), self.number(second), value, rotor, force))
        return rows


def marker(body: Any, point: np.ndarray) -> tuple[Any, Any]:
    """A point and vectors of the inertial frame at the start as functions of the pose of a body."""
    x, R = np.asarray(body.x), np.asarray(body.R)
    own = R.T @ (point - x)
    return lambda pose: pose[0] + pose[1] @ own, lambda pose, vector: pose[1] @ (R.T @ vector)


def angle(first: Any, second: Any, point: np.ndarray, axis: np.ndarray) -> Any:
    (_, on_first), (_, on_second) = marker(first, point), marker(second, point)
    a, b = perpendicular(axis)

    def value(one: Any, two: Any) -> Any:
        x = on_second(two, a)
        cosine, sine = on_first(one, a) @ x, on_first(one, b) @ x
        base = np.arctan2(sine.real, cosine.real)
        return base + np.arctan(
            (sine * np.cos(base) - cosine * np.sin(base)) / (cosine * np.cos(base) + sine * np.sin(base))
        )

    return value


def slide(first: Any, second: Any, point: np.ndarray, axis: np.ndarray) -> Any:
    (place, on_first), (other, _) = marker(first, point), marker(second, point)
    return lambda one, two: on_first(one, axis) @ (other(two) - place(one))


def residual(kind: str, joint: Any, first: Any, second: Any, point: np.ndarray, axis: np.ndarray) -> Any:
    (place, on_first), (other, on_second) = marker(first, point), marker(second, point)
    a, b = perpendicular(axis)
    gap = lambda one, two: other(two) - place(one)  # noqa: E731
    across = lambda one, two: [on_first(one, c) @ gap(one, two) for c in (a, b)]  # noqa: E731
    parallel = lambda one, two: [on_first(one, c) @ on_second(two, axis) for c in (a, b)]  # noqa: E731
    locked = lambda one, two: [*parallel(one, two), on_first(one, a) @ on_second(two, b)]  # noqa: E731
    turn, shift = angle(first, second, point, axis), slide(first, second, point, axis)
    parts = {
        "Revolute": lambda p, q: [*gap(p, q), *parallel(p, q)],
        "Prismatic": lambda p, q: [*across(p, q), *locked(p, q)],
        "Spherical": lambda p, q: list(gap(p, q)),
        "Universal": lambda p, q: [*gap(p, q), on_first(p, axis) @ on_second(q, a)],
        "Cylindrical": lambda p, q: [*across(p, q), *parallel(p, q)],
        "Screw": lambda p, q: [*across(p, q), *parallel(p, q), shift(p, q) - ADVANCE * turn(p, q)],
        "Planar": lambda p, q: [on_first(p, axis) @ gap(p, q), *parallel(p, q)],
        "Fixed": lambda p, q: [*gap(p, q), *locked(p, q)],
    }[kind]
    return lambda one, two: np.array(parts(one, two))


# --- comparison -------------------------------------------------------------------------------------------------------


def motion(system: Any, q: Any, v: Any) -> Any:
    """Poses, twists and accelerations of all bodies."""
    vdot = system.accelerations(jnp.zeros(()), q, v)[0]
    flow = lambda s: system.motion(system.flow(q, v, s), v + s * vdot).twists  # noqa: E731
    zero, one = (jnp.zeros(()),), (jnp.ones(()),)
    return system.motion(q, v).poses, *jax.jvp(flow, zero, one)


def end_of(machine: Machine, system: Any, state: Any) -> tuple[list[Body], np.ndarray]:
    """The bodies of a machine in a state, and their accelerations."""
    poses, twists, rates = evaluated(motion, system, *state)
    rows = [list(system.names).index(body.name) for body in machine.bodies]
    bodies = [
        Body(float(body.mass), np.asarray(body.inertia), *(np.asarray(x[k]) for x in (*poses, twists.u, twists.omega)))
        for body, k in zip(machine.bodies, rows, strict=True)
    ]
    return bodies, np.concatenate((rates.u, rates.omega), axis=1)[rows]


def compare(machine: Machine, formulation: str) -> None:
    problem = machine.model.problem(formulation, repair=True, t1=0.05, h=5e-3, redundant="minimum-norm")
    method = "herk4" if problem.system.m else "rkmk4"
    end = ph.simulate(problem, method)
    start = jax.tree.map(lambda x: jnp.asarray(x[-1]), end.state)
    run = ph.simulate(problem, method, state0=start, t1=5e-3)
    bodies, found = end_of(machine, problem.system, start)
    points = {row[1].name: run.joints[row[1].name].point[0] for row in machine.joints}
    expected, loads = accelerations(bodies, machine.conditions(points), machine.coordinates(), GRAVITY)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    if problem.system.dropped:
        # Loads of redundant constraints are not determined.
        return
    size = max(np.abs(load).max() for load in loads.values())
    for name, load in loads.items():
        joint = run.joints[name]
        both = np.concatenate((joint.force[0], joint.moment[0]))
        np.testing.assert_allclose(both, load, rtol=0, atol=1e-8 * size, err_msg=name)


CASES = {
    "one loop": (1, 7, ("Spherical",)),
    "two loops": (2, 9, ("Spherical", "Universal")),
    "a plane": (3, 9, ("Planar", "Spherical")),
    "a slide": (4, 10, ("Cylindrical", "Spherical")),
    "a tree": (5, 10, ()),
    "a screw": (6, 12, ("Screw", "Spherical")),
}


@pytest.mark.exhaustive
def test_plane_loops_leave_two_constraints_in_any_direction():
    machine = Machine.of_bars()
    system, state = machine.model.assemble("minimal", repair=True, redundant="minimum-norm")
    # Of the hinge's five, three rows are nothing but round-off, which is no direction. Its rotor has a coordinate.
    assert (system.n, system.m) == (4 + 1, 2 + 1)
    bodies, found = end_of(machine, system, state)
    points = {row[1].name: np.asarray(row[4]) for row in machine.joints}
    expected, _ = accelerations(bodies, machine.conditions(points), machine.coordinates(), GRAVITY)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_accelerations_and_joint_loads_in_joint_coordinates(case):
    compare(Machine.at_random(*CASES[case]), "minimal")


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ["one loop", "a slide", "a screw"])
def test_the_same_in_absolute_coordinates(case):
    compare(Machine.at_random(*CASES[case]), "SO3xR3")

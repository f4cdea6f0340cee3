"""Joints: what they leave free, and their derivatives against closed forms."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compiled, evaluated
from joint_table import AXIS, CASES, DISTANT, PIN, POINT, START, Case, X, Z, displaced_poses, moments, turn, two_bodies

import polhode as ph
from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import axis
from polhode.joints.distance import ConstantDistance
from polhode.joints.screw import ThreadConstraint
from polhode.multibody import formulations
from polhode.multibody.mechanism.poses import Pose, Twist

T = jnp.zeros(())


def hat(a: np.ndarray) -> np.ndarray:
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def rows(element: Any, poses: Any, twists: Any) -> tuple[np.ndarray, np.ndarray]:
    """B for (Ω₀, u₀, Ω₁, u₁) and Z of a constraint element, from the closed forms written for vectors by hand."""
    if isinstance(element, ThreadConstraint):
        return thread_rows(element, poses, twists)
    (x0, R0), (x1, R1) = (map(np.asarray, pose) for pose in poses)
    (w0, u0), (w1, u1) = (map(np.asarray, twist) for twist in twists)
    W0, W1 = hat(w0), hat(w1)
    s0, s1 = np.asarray(element.s0), np.asarray(element.s1)
    d = x1 + R1 @ s1 - x0 - R0 @ s0
    d_dot = u1 + R1 @ W1 @ s1 - u0 - R0 @ W0 @ s0
    point = np.hstack((R0 @ hat(s0), -np.eye(3), -R1 @ hat(s1), np.eye(3)))
    bend = R1 @ W1 @ W1 @ s1 - R0 @ W0 @ W0 @ s0
    if isinstance(element, ConstantDistance):
        L = float(element.length)
        return (d @ point / L)[None], np.array([(d_dot @ d_dot + d @ bend) / L])
    B, curvature = ([point], [bend]) if element.pinned else ([], [])
    for e in np.asarray(element.directions):
        turning = np.hstack((np.cross(e, R0.T @ d), np.zeros(9)))
        B.append((R0 @ e @ point + turning)[None])
        curvature.append([(R0 @ W0 @ W0 @ e) @ d + 2 * (R0 @ W0 @ e) @ d_dot + (R0 @ e) @ bend])
    for a, b in zip(np.asarray(element.a), np.asarray(element.b), strict=True):
        none = np.zeros(3)
        B.append(np.hstack((np.cross(a, R0.T @ R1 @ b), none, np.cross(b, R1.T @ R0 @ a), none))[None])
        curvature.append(
            [(R0 @ W0 @ W0 @ a) @ (R1 @ b) + 2 * (R0 @ W0 @ a) @ (R1 @ W1 @ b) + (R0 @ a) @ (R1 @ W1 @ W1 @ b)]
        )
    return np.vstack(B), np.concatenate(curvature)


def thread_rows(element: ThreadConstraint, poses: Any, twists: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same for a screw: of its guide, then of -p a·w with a = cos ψ e₂ - sin ψ e₁, w = R₀ᵀR₁c and ψ = z/p."""
    p, angle, z = float(element.advance), element.angle, element.displacement
    none = np.zeros((0, 3))
    along, sliding = rows(FrameConstraint(z.s0, z.s1, z.n[None], none, none, False), poses, twists)
    (x0, R0), (x1, R1) = (map(np.asarray, pose) for pose in poses)
    (w0, u0), (w1, u1) = (map(np.asarray, twist) for twist in twists)
    psi = np.asarray(z.n) @ R0.T @ (x1 + R1 @ np.asarray(z.s1) - x0 - R0 @ np.asarray(z.s0)) / p
    a = np.cos(psi) * np.asarray(angle.e2) - np.sin(psi) * np.asarray(angle.e1)
    b = np.cos(psi) * np.asarray(angle.e1) + np.sin(psi) * np.asarray(angle.e2)
    w, c = R0.T @ R1 @ np.asarray(angle.c), np.asarray(angle.c)
    # Of an axis f of body 0 against that of body 1 while f stays in its body.
    still = [rows(FrameConstraint(z.s0, z.s1, none, f[None], c[None], False), poses, twists) for f in (a, b)]
    turned, bent = still[0]
    psi_dot = (along @ np.concatenate((w0, u0, w1, u1)))[0] / p
    b_dot = (still[1][0] @ np.concatenate((w0, u0, w1, u1)))[0]
    thread = -p * (turned - (b @ w) * along / p)
    curvature = -p * (bent - 2 * psi_dot * b_dot - (a @ w) * psi_dot**2 - (b @ w) * sliding / p)
    B, Z = rows(element.guide, poses, twists)
    return np.vstack((B, thread)), np.concatenate((Z, curvature))


def in_body_frames(B: np.ndarray, Z: np.ndarray, poses: Any, twists: Any) -> tuple[np.ndarray, np.ndarray]:
    """For velocities U with u = R U, hence u̇ = R (U̇ + Ω × U)."""
    J, bias = np.eye(12), np.zeros(12)
    for k, (pose, twist) in enumerate(zip(poses, twists, strict=True)):
        R, translation = np.asarray(pose.R), slice(6 * k + 3, 6 * k + 6)
        J[translation, translation] = R
        bias[translation] = R @ np.cross(twist.omega, R.T @ twist.u)
    return B @ J, Z + B @ bias


@functools.cache
def elements() -> dict[str, Any]:
    """Constraints of all joints between two bodies."""
    _, first, second = two_bodies()
    poses = (Pose(first.x, first.R), Pose(second.x, second.R))
    return {name: case.make(first, second).place(poses) for name, case in CASES.items()}


@functools.cache
def derivatives(formulation: str) -> Any:
    """B and Z of all joints at the same poses and twists, compiled as one program."""
    form, parts = formulations.get(formulation), elements()
    # Anywhere, not only where the joints are closed.
    rng = np.random.default_rng(8)
    q = tuple((turn(*rng.normal(size=3)), rng.normal(size=3)) for _ in range(2))
    v = rng.normal(size=12)

    def residuals(q: Any, v: Any, tau: Any) -> Any:
        flown = (form.space.move(point, tau * part) for point, part in zip(q, (v[:6], v[6:]), strict=True))
        poses = tuple(form.pose(point) for point in flown)
        return {name: element.residual(T, poses) for name, element in parts.items()}

    def evaluate(q: Any, v: Any) -> Any:
        rate = lambda tau: jax.jvp(lambda s: residuals(q, v, s), (tau,), (1.0,))[1]  # noqa: E731
        B = jax.jacfwd(lambda v: residuals(q, v, 1.0))(jnp.zeros(12))
        twists = tuple(form.twist(point, part) for point, part in zip(q, (v[:6], v[6:]), strict=True))
        return B, jax.jvp(rate, (0.0,), (1.0,))[1], tuple(form.pose(point) for point in q), twists

    return evaluated(evaluate, q, v)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "SE3"])
@pytest.mark.parametrize("name", CASES)
def test_jacobian_and_curvature_against_closed_forms(name: str, formulation: str) -> None:
    B, Z, poses, twists = derivatives(formulation)
    B, Z, element = B[name], Z[name], elements()[name]
    expected_B, expected_Z = rows(element, poses, twists)
    if formulation == "SE3":
        expected_B, expected_Z = in_body_frames(expected_B, expected_Z, poses, twists)
    assert B.shape == (CASES[name].size, 12)
    np.testing.assert_allclose(B, expected_B, rtol=0, atol=4e-15 * max(1, np.abs(expected_B).max()))
    np.testing.assert_allclose(Z, expected_Z, rtol=0, atol=4e-15 * max(1, np.abs(expected_Z).max()))


HELD = {
    **CASES,
    "prescribed rotation": Case(
        lambda a, b: ph.joints.PrescribedRotation(a, b, AXIS, lambda t: 3 * t**2),
        1,
        lambda s: (s[:3], turn(0, 0, s[3])),
        held=moments(Z),
    ),
    "prescribed pose": Case(
        lambda a, b: ph.joints.PrescribedPose(a, b, lambda t: b.x, lambda t: b.R),
        6,
        lambda s: (np.zeros(3), np.eye(3)),
        START[1][0],
        PIN + moments(*START[1][1].T),
    ),
}


@functools.cache
def statics() -> dict[str, Any]:
    """Accelerations and multipliers of a body that every joint holds to the ground, under each of the loads it holds.

    One system with a body for each joint.
    """
    model, loads = ph.Model(), []
    for case in HELD.values():
        second = model.add_body(mass=1.5, inertia=(1.0, 1.2, 1.4), position=START[1][0], rotation=START[1][1])
        model.add(case.make(model.ground, second))
        loads.append((second, case))
    system, (q, v) = model.assemble("SO3xR3")

    def load(number: int) -> np.ndarray:
        wrench = np.zeros(system.n)
        for second, case in loads:
            force, moment = case.held[number % case.size]
            torque = np.asarray(second.R).T @ (moment + np.cross(case.point - START[1][0], force))
            wrench[system.columns(second)] = np.concatenate((torque, force))
        return wrench

    wrenches = [load(number) for number in range(6)]

    def evaluate(v: Any) -> Any:
        M, B = system.mass(T, q), system.jacobian(T, q)
        factors = system.kkt.factor(M, B, B)
        result = []
        for wrench in wrenches:
            vdot, multipliers = system.kkt.solve(factors, wrench, jnp.zeros(system.m))
            result.append((vdot, list(system.joint_multipliers(T, q, multipliers).values())))
        return result

    return evaluated(evaluate, v)


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", HELD)
def test_multipliers_are_the_load_on_the_first_body(name: str) -> None:
    """A load on the second body passes through the joint to the first, which is the ground."""
    case = HELD[name]
    joint = list(HELD).index(name)
    for number, (vdot, multipliers) in enumerate(statics()):
        np.testing.assert_allclose(multipliers[joint], np.eye(case.size)[number % case.size], atol=1e-12)
        np.testing.assert_allclose(vdot, 0, atol=1e-12)


@pytest.mark.exhaustive
def test_runs_are_read_frame_by_frame() -> None:
    model, first, second = two_bodies()
    joint = model.add(ph.joints.Cylindrical(first, second, POINT, AXIS, name="tube"))
    model.add(ph.joints.Cylindrical(second, model.ground, POINT, AXIS, name="guide"))
    model.add(ph.joints.PointOnLine(model.ground, second, POINT, AXIS, name="again"))
    system, (q, v) = model.assemble("SE3", redundant="minimum-norm")
    rng = np.random.default_rng(6)
    steps, multipliers = rng.normal(size=(3, system.n)), rng.normal(size=(3, system.m))

    def evaluate(steps: Any, multipliers: Any) -> Any:
        state = jax.vmap(lambda step: (system.configuration.move(q, step), v + step))(steps)
        frames = [jax.tree.map(lambda a, k=k: a[k], state) for k in range(3)]
        reads = (joint.angle, joint.displacement, joint.angle_rate, joint.displacement_rate)
        whole = [read(system, T, state) for read in reads], system.joint_multipliers(T, state[0], multipliers)
        one = [
            ([read(system, T, f) for read in reads], system.joint_multipliers(T, f[0], m))
            for f, m in zip(frames, multipliers, strict=True)
        ]
        return whole, jax.tree.map(lambda *a: jnp.stack(a), *one)

    whole, one = evaluated(evaluate, steps, multipliers)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), whole, one)
    assert whole[1]["guide"].shape == (3, 4)
    assert whole[0][0].shape == (3,)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", CASES)
def test_joints_leave_their_freedom_and_nothing_else(name: str) -> None:
    case, element = CASES[name], elements()[name]
    rng = np.random.default_rng(3)
    still = tuple(Twist(np.zeros(3), np.zeros(3)) for _ in range(2))
    for _ in range(5):
        s, rigid = rng.normal(size=6), (rng.normal(size=3), turn(*rng.normal(size=3)))
        poses = displaced_poses(case, s, rigid)
        gap = element.residual(T, poses)
        assert gap.shape == (case.size,) == (element.size,)
        assert np.abs(gap).max() < 2e-15 * 10
        # Independent, and closed for the wrong reason nowhere: any motion outside the freedom opens it.
        B, _ = rows(element, poses, still)
        assert np.linalg.matrix_rank(B, tol=1e-3) == case.size
        wrong = displaced_poses(case, s, rigid)[1]._replace(x=poses[1].x + 0.1 * rng.normal(size=3))
        turned = wrong._replace(R=wrong.R @ turn(*rng.normal(size=3)))
        assert np.abs(element.residual(T, (poses[0], turned))).max() > 1e-3


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "coordinate", "number"),
    [
        ("revolute", "angle", 0),
        ("prismatic", "displacement", 1),
        ("cylindrical", "angle", 0),
        ("cylindrical", "displacement", 1),
        ("screw", "angle", 0),
        ("planar", "angle", 0),
        ("universal", "first_angle", 0),
        ("universal", "second_angle", 1),
        ("point-on-line", "displacement", 1),
        ("generic: x y z ry rz", "rx", 0),
        ("generic: y rx rz", "x", 1),
        ("generic: y rx rz", "z", 2),
    ],
)
def test_relative_coordinates_are_the_free_parameters(name: str, coordinate: str, number: int) -> None:
    case = CASES[name]
    _, first, second = two_bodies()
    coordinates = case.make(first, second).coordinate(coordinate)
    rng = np.random.default_rng(5)
    rigid = (rng.normal(size=3), turn(*rng.normal(size=3)))
    s, rate = 0.8 * rng.normal(size=6), rng.normal(size=6)
    before, now, after = (displaced_poses(case, s + tau * rate, rigid) for tau in (-1e-4, 0.0, 1e-4))
    twists = []
    for k in range(2):
        omega = now[k].R.T @ (after[k].R - before[k].R) / 2e-4
        twists.append(Twist(jnp.stack((omega[2, 1], omega[0, 2], omega[1, 0])), (after[k].x - before[k].x) / 2e-4))
    assert abs(coordinates.difference(now, 0.0) - s[number]) < 1e-14
    assert abs(coordinates.difference(now, 0.25) - (s[number] - 0.25)) < 1e-14
    assert abs(coordinates.rate(now, tuple(twists)) - rate[number]) < 1e-6


def test_angle_and_displacement_by_name() -> None:
    model = ph.Model()
    body = model.add_body(mass=1, inertia=(1, 1, 1), angular_velocity=(0, 0, 2), velocity=(0, 0, 3))
    joint = model.add(ph.joints.Cylindrical(model.ground, body, (0, 0, 0), (0, 0, 2)))
    system, state = model.assemble("SE3")
    assert joint.angle(system, T, state) == 0
    assert joint.angle_rate(system, T, state) == pytest.approx(2)
    assert joint.displacement(system, T, state) == 0
    assert joint.displacement_rate(system, T, state) == pytest.approx(3)
    other = ph.problems.get("free-rigid-body")
    with pytest.raises(ValueError, match="a model was assembled to, not of"):
        joint.angle(other.system, T, other.state0)


def test_mass_points_join_where_no_rotation_is_needed() -> None:
    model = ph.Model((0, 0, -1))
    bead = model.add_point(mass=2.0, position=(1, 0, 0))
    bob = model.add_point(mass=1.0, position=(1, 0, -1))
    model.add(ph.joints.PointOnLine(model.ground, bead, (1, 0, 0), (1, 0, 0)))
    model.add(ph.joints.Distance(bead, bob, bead.x, bob.x))
    model.add(ph.joints.Generic(model.ground, bob, bob.x, ("y",)))
    system, (q, v) = model.assemble("SE3")
    acceleration, multipliers = evaluated(lambda v: system.accelerations(T, q, v), v)
    np.testing.assert_allclose(acceleration, np.zeros(6), atol=1e-15)
    # The line carries both weights along -y of its frame, the rod that of the bob as tension, the guide nothing.
    np.testing.assert_allclose(multipliers, [0.0, -3.0, 1.0, 0.0], atol=1e-14)


def test_axes_of_any_length_are_directions() -> None:
    for size in (1e-200, 1.0, 1e200):
        np.testing.assert_allclose(axis("axis", size * np.array([0, 3.0, 4.0])), [0, 0.6, 0.8], rtol=1e-15)
    # Also where a model is built while something else is traced.
    np.testing.assert_allclose(jax.jit(lambda x: x * axis("axis", (0, 3, 4)))(2.0), [0, 1.2, 1.6], rtol=1e-15)
    with pytest.raises(ValueError, match="zero vector"):
        jax.jit(lambda x: x * axis("axis", (0, 0, 0)))(2.0)


J = ph.joints
DRIVE = "`angle` of PrescribedRotation 'drive' can't be traced.*jnp.where instead of `if`"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m, a, b, p: J.Revolute(a, a, POINT, AXIS), "with itself"),
        (lambda m, a, b, p: J.Revolute(a, b, POINT, (0, 0, 0)), "zero vector"),
        (lambda m, a, b, p: J.Revolute(a, b, POINT, (0, 1)), "`axis` must be an array of shape"),
        (lambda m, a, b, p: J.Spherical(a, b, (0, 0, np.nan)), "`point` must be finite"),
        (lambda m, a, b, p: J.Revolute(a, p, POINT, AXIS), "needs the rotation"),
        (lambda m, a, b, p: J.PointOnLine(p, b, p.x, AXIS), "needs the rotation"),
        (lambda m, a, b, p: J.Spherical(a, p, POINT), "away from the mass point"),
        (lambda m, a, b, p: J.Universal(a, b, POINT, X, X + Z), "must be perpendicular"),
        (lambda m, a, b, p: J.Screw(a, b, POINT, AXIS, 0.0), "Join the bodies by `Revolute`"),
        (lambda m, a, b, p: J.Distance(a, b, POINT, POINT), "needs a length"),
        (lambda m, a, b, p: J.Distance(a, b, POINT, DISTANT, length=-1.0), "greater than zero"),
        (lambda m, a, b, p: J.Generic(a, b, POINT, ("x", "rw")), "`fixed` must be one of"),
        (lambda m, a, b, p: J.Generic(a, b, POINT, ()), "is empty"),
        (lambda m, a, b, p: J.Generic(a, b, POINT, 3), "`fixed` must be a list"),
        (lambda m, a, b, p: J.Revolute("a", b, POINT, AXIS), "`first` of Revolute must be a body.*got 'a'"),
        (lambda m, a, b, p: J.Distance(a, None, POINT, DISTANT), "`second` of Distance must be a body"),
        (lambda m, a, b, p: J.PrescribedRotation(a, b, AXIS, lambda t: t if t > 0 else 0.0, "drive"), DRIVE),
        (lambda m, a, b, p: J.PrescribedTranslation(a, b, AXIS, np.sin), "`displacement` of.*jax.numpy"),
        (lambda m, a, b, p: J.Generic(a, b, POINT, axes=-np.eye(3)), "right-handed"),
        (lambda m, a, b, p: J.Spherical(a, m.add_coordinate(), POINT), "single coordinate"),
        (lambda m, a, b, p: J.PrescribedRotation(a, b, AXIS, 3.0), "function of time"),
        (lambda m, a, b, p: J.PrescribedRotation(a, b, AXIS, lambda t: jnp.ones(2)), "return a number"),
        (lambda m, a, b, p: J.PrescribedMotion(a, b, POINT), "as functions of time"),
        (lambda m, a, b, p: J.PrescribedPose(a, b, rotation=lambda t: 2 * jnp.eye(3)), "rotation matrices"),
        (
            lambda m, a, b, p: J.PrescribedMotion(a, b, POINT, lambda t: t * jnp.ones(3), fixed=("rx",)),
            "prescribes nothing",
        ),
        (lambda m, a, b, p: J.Cylindrical(a, b, POINT, AXIS).coordinate(), "name one of them"),
        (lambda m, a, b, p: J.Spherical(a, b, POINT).coordinate(), "no relative coordinate"),
    ],
)
def test_invalid_data_are_refused_at_once(make: Any, message: str) -> None:
    model, a, b = two_bodies()
    point = model.add_point(mass=1, position=(5, 5, 5))
    with pytest.raises(ValueError, match=message):
        make(model, a, b, point)


def test_axes_may_be_differentiated() -> None:
    def gap(axis: Any) -> Any:
        _, first, second = two_bodies()
        poses = (Pose(first.x, first.R), Pose(second.x, second.R))
        element = ph.joints.Revolute(first, second, POINT, axis).place(poses)
        assert isinstance(element, FrameConstraint)
        return jnp.sum(element.residual(T, (poses[1], poses[0])))

    at, along = jnp.asarray(AXIS), jnp.array([0.3, -0.1, 0.2])
    slope = evaluated(lambda a: jax.jvp(gap, (a,), (along,))[1], at)
    run = compiled(gap, at)
    h = 1e-5
    assert float(slope) == pytest.approx(float(run(at + h * along) - run(at - h * along)) / (2 * h), rel=1e-8)

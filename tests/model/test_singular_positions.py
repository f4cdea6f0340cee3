"""Loops that start in singular positions or pass through them: closed by where the bodies are, or ended by a code."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import polhode as ph
from polhode.model import Model
from polhode.multibody import formulations, redundant_constraints

CLOSED = 1e-9
"""Largest distance of points that a joint holds together, m."""

Z = (0.0, 0.0, 1.0)
STILL = np.zeros(3)

FILE = """<mujoco model="parallelogram"><option gravity="0 -9.81 0" timestep="0.002"/>
<default><geom type="capsule" size="0.02" density="2000" contype="0" conaffinity="0"/><joint axis="0 0 1"/></default>
<worldbody>
<body name="crank"><joint name="crank"/><geom fromto="0 0 0 1 0 0"/>
  <body name="coupler" pos="1 0 0"><joint name="coupler"/><geom fromto="0 0 0 2 0 0"/></body></body>
<body name="rocker" pos="2 0 0"><joint name="rocker"/><geom fromto="0 0 0 1 0 0"/></body>
</worldbody><equality><connect name="pin" body1="coupler" body2="rocker" anchor="2 0 0"/></equality></mujoco>"""


def bar(model, name, ends, speeds=(STILL, STILL)):
    """A slender rod between two points, with the velocities of its ends."""
    start, end = np.array(ends, float)
    along, spread = end - start, np.subtract(speeds[1], speeds[0])
    long = np.linalg.norm(along)
    x = along / long
    y = np.cross(np.eye(3)[np.argmin(np.abs(x))], x)
    turned = np.stack([x, y / np.linalg.norm(y), np.cross(x, y / np.linalg.norm(y))], axis=1)
    return model.add_body(
        mass=long,
        inertia=long**3 * np.array([1e-3, 1 / 12, 1 / 12]),
        position=0.5 * (start + end),
        rotation=turned,
        velocity=0.5 * np.add(*speeds),
        angular_velocity=turned.T @ np.cross(along, spread) / long**2,
        name=name,
    )


def hinge(model, first, second, point, name, axis=Z):
    model.add(ph.joints.Revolute(first, second, point=point, axis=axis, name=name))


def parallelogram(spin=0.0, angle=0.0, size=1.0):
    """Stretched out along x, as in the file: crank and rocker of length 1, coupler and ground of length 2."""
    model, ground = Model(gravity=(0, -9.81, 0)), size * np.array([2.0, 0, 0])
    tip = size * np.array([np.cos(angle), np.sin(angle), 0])
    speed = np.cross((0, 0, spin), tip)
    crank = bar(model, "crank", [STILL, tip], (STILL, speed))
    coupler = bar(model, "coupler", [tip, tip + ground], (speed, speed))
    rocker = bar(model, "rocker", [ground, ground + tip], (STILL, speed))
    hinge(model, model.ground, crank, STILL, "first")
    hinge(model, crank, coupler, tip, "second")
    hinge(model, model.ground, rocker, ground, "third")
    hinge(model, coupler, rocker, ground + tip, "last")
    return model


def four_bars(links=3):
    """A row of four-bar linkages that share their rods, upright and moving, so that it gets round.

    All rods lie in one line whenever the first one is horizontal: M. González, D. Dopico, U. Lugrís, J. Cuadrado,
    A benchmarking system for MBS simulation software, Multibody System Dynamics 16, 2006.
    """
    model, push = Model(gravity=(0, -9.81, 0)), np.array([1.0, 0, 0])
    uprights = [bar(model, f"upright-{i}", [(i, 0, 0), (i, 1, 0)], (STILL, push)) for i in range(links + 1)]
    for i, upright in enumerate(uprights):
        hinge(model, model.ground, upright, (i, 0, 0), f"foot-{i}")
    for i, (left, right) in enumerate(pairwise(uprights)):
        beam = bar(model, f"beam-{i}", [(i, 1, 0), (i + 1, 1, 0)], (push, push))
        hinge(model, left, beam, (i, 1, 0), f"left-{i}")
        hinge(model, beam, right, (i + 1, 1, 0), f"right-{i}")
    return model


def bricard():
    """Six rods of length 1, one of them the ground, along the edges of a cube; the hinges are normal to both rods.

    It moves although it has no freedom by counting, and starts at rest.
    """
    model = Model(gravity=(0, -9.81, 0))
    points = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
    rods = [bar(model, f"rod-{i}", ends) for i, ends in enumerate(pairwise(points))]
    for i, (first, second) in enumerate(pairwise([model.ground, *rods, model.ground])):
        axis = np.cross(points[i] - points[i - 1], points[(i + 1) % 6] - points[i])
        hinge(model, first, second, points[i], f"hinge-{i}", axis)
    return model


def door():
    model = Model(gravity=(0, 0, -9.81))
    leaf = model.add_body(
        mass=10.0,
        inertia=(1, 1, 1),
        position=(0.5, 0, 1),
        velocity=(0, 0.5, 0),
        angular_velocity=(0, 0, 1),
        name="leaf",
    )
    hinge(model, model.ground, leaf, (0, 0, 0.5), "low")
    hinge(model, model.ground, leaf, (0, 0, 1.5), "high")
    return model


def driven(*laws):
    """A rod on a hinge, with several drives of its angle."""
    model = Model()
    arm = bar(model, "arm", [(0, 0, 0), (1, 0, 0)])
    hinge(model, model.ground, arm, (0, 0, 0), "hinge")
    for i, law in enumerate(laws):
        model.add(ph.joints.PrescribedRotation(model.ground, arm, Z, law, name=f"drive-{i + 1}"))
    return model


MODELS = {"parallelogram": lambda: parallelogram(2.0), "four-bars": four_bars, "bricard": bricard, "door": door}
COORDINATES = ("minimal", *formulations.FORMULATIONS)
"""Each with an implicit method, where its rates are velocities, and a half-explicit one."""


def marked_points(model, poses):
    """For each hinge by name two points of both bodies that were one at the start, a unit apart on the axis."""
    found = {}
    for name, joint in model.parts:
        axis = np.array(joint.axis, float)
        points = np.array(joint.point, float) + np.stack([STILL, axis / np.linalg.norm(axis)])
        found[name] = [_carried_body(model, body, points, poses) for body in joint.bodies]
    return found


def _carried_body(model, body, points, poses):
    if body is model.ground:
        return points
    x, R = poses[body.name]
    local = (points - np.asarray(body.x)) @ np.asarray(body.R)
    return x[:, None] + np.einsum("tij,pj->tpi", R, local)


def gaps(model, system, solution):
    """The largest distance of such points in each frame, by joint, from poses alone."""
    x, R = (np.asarray(solution.outputs[name]) for name in ("positions", "rotations"))
    poses = {name: (x[:, i], R[:, i]) for i, name in enumerate(system.shown)}
    ends = marked_points(model, poses)
    return {name: np.max(np.linalg.norm(a - b, axis=-1), axis=-1) for name, (a, b) in ends.items()}


def rotate(solution, body=0):
    """The angle of a body in the x-y plane, without jumps."""
    R = np.asarray(solution.outputs["rotations"])[:, body]
    return np.unwrap(np.arctan2(R[:, 1, 0], R[:, 0, 0]))


def run(model, formulation="minimal", method="generalized-alpha", t1=2.0, h=2e-3, **how):
    problem = model.problem(formulation, t1=t1, h=h, redundant="minimum-norm")
    return getattr(problem.system, "base", problem.system), ph.simulate(problem, method, **how)


def check_closed(model, system, solution):
    """To the end and closed, by poses and by the library's own residual of all constraints."""
    assert solution.stats["result"] == ph.Result.successful
    assert solution.t[-1] == solution.meta["t1"]
    for name, gap in gaps(model, system, solution).items():
        assert np.max(gap) < CLOSED, name
    assert np.max(solution.residuals["position"]) < CLOSED
    assert solution.audit()["position"].verdict in ("kept", "not promised")
    energy = np.asarray(solution.invariants["energy"])
    assert np.ptp(energy) < 2e-3 * np.ptp(solution.outputs["potential_energy"]) + 1e-10 * np.max(np.abs(energy))


def number(dropped):
    return sum(map(len, dropped.values()))


@contextlib.contextmanager
def start_alone_decides():
    """Inside of it, what depends on other constraints at the start is left out for good, as it was once."""
    with pytest.MonkeyPatch.context() as old:
        old.setattr(redundant_constraints, "lasting_dependence", redundant_constraints.dependence)
        yield


def gaps_in_file(solution):
    """Distance of the two ends of the pin, and of the points of the other hinges, from the numbers in the file."""
    centres = np.array([(0.5, 0, 0), (2, 0, 0), (2.5, 0, 0)])
    x, q = (np.asarray(solution.outputs[name]) for name in ("positions", "quaternions"))
    R = np.stack([Rotation.from_quat(q[:, i], scalar_first=True).as_matrix() for i in range(3)], axis=1)
    np.testing.assert_allclose(x[0], centres, atol=1e-15)

    def point(body, place):
        return x[:, body] + R[:, body] @ (R[0, body].T @ (np.array(place) - centres[body]))

    pairs = {
        "crank": (point(0, (0, 0, 0)), STILL),
        "coupler": (point(0, (1, 0, 0)), point(1, (1, 0, 0))),
        "rocker": (point(2, (2, 0, 0)), (2, 0, 0)),
        "pin": (point(1, (3, 0, 0)), point(2, (3, 0, 0))),
    }
    return {name: np.max(np.linalg.norm(a - b, axis=1)) for name, (a, b) in pairs.items()}


def crank(solution):
    return np.unwrap(np.asarray(solution.outputs["joint_positions"])[:, 0])


@pytest.mark.exhaustive
def test_a_loop_in_a_file_that_starts_stretched_out_stays_closed(tmp_path):
    path = tmp_path / "parallelogram.xml"
    path.write_text(FILE)
    # From rest, and through both singular positions.
    for speeds, least, most in (({}, -3.0, 0.0), ({"crank": 2.0, "coupler": -2.0, "rocker": 2.0}, -3.2, 0.1)):
        problem = ph.load_model(path, velocities=speeds).problem("minimal", t1=1.2 if not speeds else 2.0)
        assert number(problem.system.dropped) == 1
        solution = ph.simulate(problem)
        assert solution.stats["result"] == ph.Result.successful
        assert solution.meta["integrator"]["name"] == "generalized-alpha"
        assert max(gaps_in_file(solution).values()) < CLOSED
        assert np.max(solution.residuals["position"]) < CLOSED
        assert solution.audit()["position"].verdict == "kept"
        assert np.min(crank(solution)) < least
        assert np.max(crank(solution)) >= most


def test_two_hinges_of_a_door_are_redundant_along_the_whole_motion():
    system, solution = run(model := door(), t1=1.0)
    assert system.dropped == {"high": (0, 1, 2, 3, 4)}
    check_closed(model, system, solution)
    assert rotate(solution)[-1] == pytest.approx(1.0)


@pytest.mark.exhaustive
def test_drives_that_agree_at_the_start_only_end_the_run():
    laws = (lambda t: t**2, lambda t: t**2 + 0.1 * t**3)
    with pytest.raises(ph.SimulationError, match=r"joints_open.*the joints are open: `drive-2`") as error:
        run(driven(*laws), t1=1.0)
    solution = error.value.solution
    assert solution.stats["result"] == ph.Result.joints_open
    angle, t = rotate(solution), np.asarray(solution.t)
    off = np.abs(angle - laws[1](t))
    assert np.max(np.abs(angle - laws[0](t))) < CLOSED
    # At the first frame where it is open, and seen by the residual as large as it is.
    assert np.max(off[:-1]) < CLOSED < off[-1] < 1e-8
    np.testing.assert_allclose(solution.residuals["position"], off, atol=1e-12)
    assert solution.audit()["position"].verdict == "broken"


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "saved", [{"save_every": 10}, {"save_every": None}, {"save_at": np.linspace(0, 1, 3)}], ids=str
)
def test_drives_that_disagree_between_frames_only_end_the_run(saved):
    def bump(t):
        return t**2 + 0.1 * jnp.where((t > 0.23) & (t < 0.27), jnp.sin(jnp.pi * (t - 0.23) / 0.04) ** 2, 0.0)

    _, solution = run(driven(lambda t: t**2, bump), t1=1.0, h=1e-2, throw=False, **saved)
    assert solution.stats["result"] is ph.Result.joints_open
    assert solution.stats["t_reached"] == pytest.approx(0.24)
    assert "drive-2" in solution.stats["diagnosis"]


@pytest.mark.exhaustive
def test_a_choice_for_the_start_is_refused():
    model = parallelogram()
    right = model.assemble("minimal", redundant="minimum-norm")[0].dropped
    with start_alone_decides():
        wrong = model.assemble("minimal", redundant="minimum-norm")[0].dropped
    assert (number(right), number(wrong)) == (3, 4)
    with pytest.raises(ValueError, match="drops 4 components, but 3 follow from others"):
        model.assemble("minimal", redundant=wrong)
    assert model.assemble("minimal", redundant=right)[0].dropped == right


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SE3"])
def test_what_is_left_out_does_not_depend_on_the_start(formulation):
    starts = [(angle, 1.0) for angle in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, np.pi)]
    for angle, size in (*starts, (0.0, 1e-3), (0.0, 1e3)):
        system, _ = parallelogram(angle=angle, size=size).assemble(formulation, redundant="minimum-norm")
        assert number(system.dropped) == 3, (angle, size)


@pytest.mark.exhaustive
def test_what_is_left_out_for_the_start_alone_opens_and_ends_the_run():
    """The control: the measure of the other tests sees it open, and the run is not called successful."""
    with start_alone_decides():
        system, solution = run(model := parallelogram(2.0), throw=False)
    assert number(system.dropped) == 4
    assert solution.stats["result"] == ph.Result.joints_open
    assert "`last`" in solution.stats["diagnosis"]
    assert solution.t[-1] < 0.1
    gap, residual = gaps(model, system, solution)["last"], np.asarray(solution.residuals["position"])
    assert gap[-1] > CLOSED > np.max(gap[:-1])
    assert 0.5 * gap[-1] < residual[-1] <= gap[-1]
    # The constraints that are imposed are kept, and don't tell.
    imposed = system.constraint(solution.t[-1], jax.tree.map(lambda x: x[-1], solution.state[0]))
    assert np.max(np.abs(imposed)) < 1e-12


@pytest.mark.exhaustive
def test_a_loop_that_starts_stretched_out_stays_closed():
    # At rest first, which takes it down on the side of the parallelogram.
    system, solution = run(model := parallelogram(), t1=1.2)
    check_closed(model, system, solution)
    assert np.max(np.abs(rotate(solution, 1))) < 1e-9
    assert rotate(solution)[-1] < -3
    # Up, back through the first singular position and through the second.
    system, solution = run(model := parallelogram(2.0))
    check_closed(model, system, solution)
    assert np.min(rotate(solution)) < -np.pi - 0.1
    assert np.max(rotate(solution)) > 0.1


@pytest.mark.exhaustive
def test_bricards_linkage_stays_closed():
    system, solution = run(model := bricard())
    assert number(system.dropped) == 1
    check_closed(model, system, solution)
    assert np.max(np.ptp(solution.outputs["positions"], axis=0)) > 1


@pytest.mark.exhaustive
def test_four_bars_get_through_their_singular_positions():
    system, solution = run(model := four_bars(), t1=4.0)
    assert number(system.dropped) == 9
    check_closed(model, system, solution)
    # In one line at every multiple of half a turn.
    angle = rotate(solution)
    assert np.sum(np.diff(np.floor(angle / np.pi)) != 0) >= 4
    for upright in range(1, 4):
        np.testing.assert_allclose(rotate(solution, upright), angle, atol=1e-6)


IMPLICIT = [name for name in COORDINATES if name != "euler-angles-kinematic"]
"""Its rates are not the velocities."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("formulation", "method"),
    [
        *((name, "generalized-alpha") for name in IMPLICIT),
        *((name, "herk4") for name in COORDINATES),
        ("minimal", "herk5"),
        ("SE3", "herk5"),
        ("livens", "eml"),
    ],
)
def test_a_loop_that_starts_stretched_out_stays_closed_in_all_coordinates(formulation, method):
    system, solution = run(model := parallelogram(2.0), formulation, method, h=1e-3)
    check_closed(model, system, solution)
    assert np.min(rotate(solution)) < -np.pi - 0.1
    assert np.max(rotate(solution)) > 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["four-bars", "bricard", "door"])
@pytest.mark.parametrize(
    ("formulation", "method"),
    [
        *((name, "generalized-alpha") for name in IMPLICIT if name != "minimal"),
        ("euler-angles-kinematic", "herk4"),
        ("S3xR3", "herk4"),
        ("livens", "eml"),
    ],
)
def test_redundant_loops_stay_closed_in_absolute_coordinates(name, formulation, method):
    model = MODELS[name]()
    if formulation.startswith("euler-angles") and name != "door":
        # Links that stand upright at the start have no such angles, which is said.
        with pytest.raises(ValueError, match="gimbal lock"):
            run(model, formulation, method, h=1e-3)
        return
    system, solution = run(model, formulation, method, h=1e-3)
    assert system.dropped
    check_closed(model, system, solution)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("formulation", "method"), [("SE3", "generalized-alpha"), ("SE3", "herk4"), ("livens", "eml")])
def test_drives_that_disagree_end_the_run_in_absolute_coordinates(formulation, method):
    laws = (lambda t: t**2, lambda t: t**2 + jnp.maximum(t - 0.1, 0.0) ** 2)
    with pytest.raises(ph.SimulationError, match=r"joints_open.*the joints are open: `drive-[12]`") as error:
        run(driven(*laws), formulation, method, t1=1.0)
    assert 0.1 < error.value.solution.t[-1] < 0.11
    same = driven(laws[0], laws[0])
    system, solution = run(same, formulation, method, t1=1.0)
    assert number(system.dropped) == 1
    np.testing.assert_allclose(rotate(solution), np.asarray(solution.t) ** 2, atol=CLOSED)

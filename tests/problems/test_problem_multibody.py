import functools

import andrews_reduced
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanism_references import accelerate, motion

import polhode as ph
from polhode import problems
from polhode.compiler.numpy.eager import eager_numpy
from polhode.multibody.formulations import FORMULATIONS
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import rod_inertia
from polhode.problems.named.bennett import other_length
from polhode.problems.named.bennett import positions as bennett_positions
from polhode.problems.named.planar_four_bar import positions as four_bar_positions
from polhode.problems.named.puma import Swing, link_frames
from polhode.problems.named.slider_crank import positions as slider_crank_positions
from polhode.viewing.scene.scene import Body, Line, Trail

EVERY = {
    "heavy-top-constrained": {"centre_of_mass": (3,), "angular_velocity": (3,), "rotation": (3, 3), "reaction": (3,)},
    "rotor": {"p1": (3,), "angular_velocity": (3,), "rotation": (3, 3)},
    "slider-crank": {"slider": (), "crank_angle": (), "crank_speed": (), "joint_points": (3, 3)},
    "puma": {"joint_angles": (6,), "hand": (3,)},
    "body-chain": {"tip": (3,), "hinges": (4, 3)},
    "planar-four-bar": {"crank_angle": (), "crank_speed": (), "joint_points": (4, 3)},
    "bennett": {"crank_angle": (), "crank_speed": (), "joint_points": (4, 3)},
    "andrews": {"angles": (7,), "joint_points": (8, 3)},
}
OPTIONS = {"body-chain": {"n": 3}}
CONSERVATIVE = {"heavy-top-constrained", "slider-crank", "body-chain", "planar-four-bar", "bennett"}
TOP_AT_1 = (0.17333694, 0.64003454, -0.74853864)

WRONG = [
    ("heavy-top-constrained", {"frame": "bodies"}, "Did you mean `body`"),
    ("heavy-top-constrained", {"formulation": "SE"}, "Did you mean `SE3`"),
    ("heavy-top-constrained", {"mass": -1.0}, "greater than zero"),
    ("rotor", {"stiffness": 0.0}, "greater than zero"),
    ("slider-crank", {"rod_length": 0.1}, "can't reach the slide.*lengthen"),
    ("slider-crank", {"masses": (1.0, 2.0)}, r"shape \(3,\)"),
    ("puma", {"start": (0.0,) * 5}, r"shape \(6,\)"),
    ("puma", {"inertias": np.zeros((6, 3))}, "greater than zero"),
    ("body-chain", {"n": 0}, "at least 1"),
    ("planar-four-bar", {"lengths": (0.1, 0.1, 0.1, 1.0)}, "don't close.*lengthen"),
    ("bennett", {"twists": (0.7, 0.7)}, "two different angles"),
    ("andrews", {"d": 1.0}, "can't be closed"),
]


@pytest.fixture(scope="module")
def problem_cache():
    """Problems by name, each built when it is first used."""
    return ProblemCache()


class ProblemCache(dict):
    def __missing__(self, name):
        return self.setdefault(name, problems.get(name, **OPTIONS.get(name, {})))


def end(problem, h, t1, output, integrator="generalized-alpha"):
    return np.asarray(ph.simulate(problem, integrator, h=h, t1=t1, save_every=None).outputs[output][-1])


def extrapolate(problem, h, t1, output):
    """From two runs of second order, whose errors are in even powers of h to leading order."""
    coarse, fine = (end(problem, step, t1, output) for step in (h, h / 2))
    return fine + (fine - coarse) / 3


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_bad_parameters_are_named_with_a_remedy(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        problems.get(name, **parameters)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", EVERY)
@eager_numpy()
def test_start_outputs_and_scene(problem_cache, name):
    problem = problem_cache[name]
    result = {key: np.shape(output(jnp.zeros(()), problem.state0)) for key, output in problem.outputs.items()}
    assert result == EVERY[name]
    residuals = problem.system.residuals(jnp.zeros(()), problem.state0)
    assert all(float(value) < 1e-12 for value in residuals.values())
    assert set(problem.invariants) == ({"energy"} if name in CONSERVATIVE else set())
    assert len(problem.doc) > 200
    assert set(problem.reference) <= set(problem.outputs)
    for part in problem.scene.parts:
        if isinstance(part, Body):
            position, rotation = part.pose(jnp.zeros(()), problem.state0)
            assert (position.shape, rotation.shape, np.shape(part.size)) == ((3,), (3, 3), (3,))
        elif isinstance(part, Line):
            assert part.points(jnp.zeros(()), problem.state0).shape[1:] == (3,)
        else:
            assert isinstance(part, Trail)
            assert part.output in problem.outputs


@pytest.mark.exhaustive
def test_numbers_that_stay_the_same_keep_the_references_and_others_drop_them():
    assert problems.get("slider-crank", crank_length=0.08).reference
    assert not problems.get("slider-crank", crank_length=0.07).reference


@pytest.mark.exhaustive
def test_redundant_constraints_of_loops_are_dropped(problem_cache):
    redundant = {"planar-four-bar": 3, "bennett": 3, "andrews": 9}
    for name, number in redundant.items():
        assert sum(map(len, problem_cache[name].system.dropped.values())) == number
        again = problem_cache[name].replace(duration=0.5)
        assert again.system.dropped == problem_cache[name].system.dropped
    assert not problem_cache["slider-crank"].system.dropped


@pytest.mark.exhaustive
def test_the_reaction_is_that_of_the_multipliers_and_needs_none():
    free = problems.get("heavy-top-constrained")
    constrained = problems.get("heavy-top-constrained", frame="inertial")
    tip = problems.get("heavy-top-constrained", formulation="minimal", frame="inertial")
    assert (constrained.system.m, tip.system.m) == (3, 0)
    zero = jnp.zeros(())
    forces = [problem.outputs["reaction"](zero, problem.state0) for problem in (free, constrained, tip)]
    np.testing.assert_allclose(forces[0], -free.system.accelerations(zero, *free.state0)[1], rtol=1e-12)
    np.testing.assert_allclose(forces[1], forces[0], rtol=1e-12)
    np.testing.assert_allclose(forces[2], forces[0], rtol=1e-12)


def test_controllers_are_no_part_of_the_energy_and_kinematic_angles_get_an_explicit_method():
    assert not problems.get("puma", formulation="minimal").invariants
    assert problems.get("slider-crank", formulation="euler-angles-kinematic").integrator == "herk4"


def test_constrained_top_gives_the_digits_of_the_literature():
    """R³×SO(3), ρ∞ = 0.9, h = 1e-4, t = 1, also with the constraint of a spherical joint."""
    method = ph.integrators.get("generalized-alpha", rho_inf=0.9)
    for frame in ("body", "inertial"):
        place = end(problems.get("heavy-top-constrained", frame=frame), 1e-4, 1.0, "centre_of_mass", method)
        np.testing.assert_allclose(place, TOP_AT_1, atol=5e-9)


@pytest.mark.exhaustive
def test_constrained_top_has_the_exact_multipliers():
    problem = problems.get("heavy-top-constrained")
    run = ph.simulate(problem, "herk5", h=2.0**-11, save_every=None)
    exact = -np.asarray(problem.reference["reaction"]["value"])
    np.testing.assert_allclose(run.multipliers[-1], exact, atol=2e-5)
    np.testing.assert_allclose(run.outputs["reaction"][-1], -exact, atol=2e-5)


@functools.cache
def slider_crank():
    """Parameters, accelerations and poses of the published one."""
    p = dict(problems.get("slider-crank").parameters)
    share = np.array(p["crank_inertia"]), np.array(p["rod_inertia"]), p["slider_inertia"] * np.ones(3)
    poses = slider_crank_positions(p)
    bodies = lambda q: list(poses(q[0]).values())  # noqa: E731
    height = lambda q: sum(m * pose[0][2] for m, pose in zip(p["masses"], bodies(q), strict=True))  # noqa: E731
    return p, accelerate(bodies, p["masses"], share, lambda q: p["gravity"] * height(q)), poses


def still(t, q, v):
    return np.zeros(len(q))


@pytest.mark.exhaustive
def test_slider_crank_follows_its_single_degree_of_freedom(problem_cache):
    problem = problem_cache["slider-crank"]
    p, rate, poses = slider_crank()
    theta, omega = motion(rate, still, [p["crank_angle"]], [p["crank_speed"]], 0.1)
    assert abs(extrapolate(problem, 2.5e-4, 0.1, "crank_angle") - theta[0]) < 2e-8
    slider = float(poses(jnp.asarray(theta[0]))["slider"].x[0])
    assert abs(extrapolate(problem, 2.5e-4, 0.1, "slider") - slider) < 2e-9
    assert abs(extrapolate(problem, 2.5e-4, 0.1, "crank_speed") - omega[0]) < 1e-6


@pytest.mark.exhaustive
def test_one_degree_of_freedom_reproduces_the_published_slider():
    p, rate, poses = slider_crank()
    theta, _ = motion(rate, still, [p["crank_angle"]], [p["crank_speed"]], 5.0)
    assert abs(theta[0] - 54.3333321683) < 2e-9
    assert abs(float(poses(jnp.asarray(theta[0]))["slider"].x[0]) - 0.2407195737296) < 2e-10


def loop_rate(name, p):
    if name == "planar-four-bar":
        lengths, masses = jnp.asarray(p["lengths"]), np.asarray(p["masses"])
        poses, down = four_bar_positions(lengths), 1
    else:
        a, twists = jnp.asarray(p["length"]), jnp.asarray(p["twists"])
        lengths = jnp.stack((a, other_length(a, twists), a))
        masses, poses, down = np.asarray(p["density"] * lengths), bennett_positions(a, twists), 2
    inertias = [rod_inertia(m, length, p["radius"]) for m, length in zip(masses, lengths, strict=False)]
    bodies = lambda q: list(poses(q[0]).values())  # noqa: E731
    potential = lambda q: 9.81 * sum(m * pose[0][down] for m, pose in zip(masses, bodies(q), strict=True))  # noqa: E731
    return accelerate(bodies, masses, inertias, potential)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["planar-four-bar", "bennett"])
def test_overconstrained_loops_follow_their_single_degree_of_freedom(problem_cache, name):
    p = dict(problem_cache[name].parameters)
    theta, _ = motion(loop_rate(name, p), still, [p["crank_angle"]], [p["crank_speed"]], 0.2)
    assert abs(extrapolate(problem_cache[name], 5e-4, 0.2, "crank_angle") - theta[0]) < 2e-7


def puma_rate(p):
    def poses(q):
        frames = link_frames(p, q)[1:]
        return [(f.x + f.R @ c, f.R) for f, c in zip(frames, jnp.asarray(p["centres"]), strict=True)]

    potential = lambda q: p["gravity"] * sum(m * x[2] for m, (x, _) in zip(p["masses"], poses(q), strict=True))  # noqa: E731
    return accelerate(poses, p["masses"], np.asarray(p["inertias"]), potential)


def puma_control(p):
    goal = Swing(jnp.asarray(p["goal"]) - jnp.asarray(p["start"]), jnp.asarray(p["motion_time"]))
    target = jax.jit(lambda t: jax.jvp(goal, (t,), (jnp.ones_like(t),)))

    def torque(t, q, v):
        change, speed = target(jnp.asarray(t))
        return -np.array(p["proportional"]) * (q - p["start"] - change) - np.array(p["derivative"]) * (v - speed)

    return torque


@pytest.mark.exhaustive
def test_puma_follows_the_equations_of_its_joint_angles(problem_cache):
    p = {
        key: value if isinstance(value, str) else np.asarray(value)
        for key, value in problem_cache["puma"].parameters.items()
    }
    angles, _ = motion(puma_rate(p), puma_control(p), p["start"], np.zeros(6), 0.05)
    for formulation in ("SO3xR3", "minimal"):
        problem = problem_cache["puma"].replace(formulation=formulation)
        assert np.max(np.abs(extrapolate(problem, 2.5e-4, 0.05, "joint_angles") - angles)) < 3e-8


@pytest.mark.exhaustive
def test_chain_follows_the_equations_of_its_joint_angles(problem_cache):
    p = dict(problem_cache["body-chain"].parameters)
    n, length, bend = p["n"], p["length"], np.asarray(p["bend"])

    def poses(q):
        x, R, result = jnp.zeros(3), jnp.eye(3), []
        for i in range(n):
            R = R @ about(2 if i % 2 == 0 else 1, q[i])
            result.append((x + 0.5 * length * R[:, 0], R))
            x = x + length * R[:, 0]
        return result

    potential = lambda q: p["gravity"] * p["mass"] * sum(x[2] for x, _ in poses(q))  # noqa: E731
    rate = accelerate(poses, n * [p["mass"]], n * [rod_inertia(p["mass"], length, p["radius"])], potential)
    angles, _ = motion(rate, still, np.where(np.arange(n) % 2 == 0, *bend), np.zeros(n), 0.2)
    x, R = poses(angles)[-1]
    tip = np.asarray(x + 0.5 * length * R[:, 0])
    np.testing.assert_allclose(extrapolate(problem_cache["body-chain"], 1e-3, 0.2, "tip"), tip, atol=3e-8)


@pytest.mark.exhaustive
def test_andrews_mechanism_reaches_its_published_angles(problem_cache):
    exact = np.asarray(problem_cache["andrews"].reference["angles"]["value"])
    result = extrapolate(problem_cache["andrews"], 5e-6, 0.03, "angles")
    assert np.max(np.abs(result - exact)) < 2e-6


extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs extended precision")


@functools.cache
def reduced_andrews(steps):
    return andrews_reduced.end(steps=steps)[0]


@extended
@pytest.mark.exhaustive
def test_numbers_of_steps_do_not_matter_for_the_reference_of_andrews():
    assert abs(reduced_andrews(steps=150) - reduced_andrews(steps=100)) < 1e-14


@extended
@pytest.mark.exhaustive
def test_andrews_reference_comes_from_one_degree_of_freedom(problem_cache):
    """The published value is 1.1e-9 off."""
    reference = problem_cache["andrews"].reference["angles"]
    beta = reduced_andrews(steps=100)
    np.testing.assert_allclose(andrews_reduced.angles(beta), reference["value"], rtol=0, atol=1e-13)
    assert float(andrews_reduced.acceleration(andrews_reduced.START, 0)) == pytest.approx(
        14222.4439199541138705911625887, rel=1e-14
    )


@pytest.mark.exhaustive
def test_andrews_starts_with_the_published_accelerations(problem_cache):
    problem = problem_cache["andrews"]
    vdot, _ = problem.system.accelerations(jnp.zeros(()), *problem.state0)
    # The counter of β is the only single coordinate; its number comes last.
    assert abs(float(vdot[-1]) - 14222.4439199541138705911625887) < 1e-7 * 14222


@pytest.mark.exhaustive
def test_rotor_ends_where_its_reference_does(problem_cache):
    problem = problem_cache["rotor"]
    assert np.max(np.abs(end(problem, 1e-4, 4.0, "p1", "rkmk6") - problem.reference["p1"]["value"])) < 2e-8


@pytest.mark.parametrize(
    ("name", "formulations"),
    [
        pytest.param("slider-crank", ("SO3xR3", "euler-parameters"), marks=pytest.mark.exhaustive),
        pytest.param("planar-four-bar", ("S3|xR3", "rotation-vector", "minimal"), marks=pytest.mark.exhaustive),
    ],
)
def test_mechanisms_agree_in_all_formulations_under_refinement(name, formulations):
    ends = {}
    for formulation in formulations:
        problem = problems.get(name, formulation=formulation)
        ends[formulation] = float(extrapolate(problem, 1e-3, 0.1, "crank_angle"))
    assert max(ends.values()) - min(ends.values()) < 1e-7


@pytest.mark.exhaustive
def test_a_body_agrees_in_all_formulations_under_refinement():
    """A heavy bar on a ball joint; quasi-velocities by a half-explicit method, so that two methods meet too."""
    ends = {}
    for formulation in (*FORMULATIONS, "minimal"):
        model = ph.Model(gravity=(0, 0, -9.81))
        omega, centre = np.array([0.4, -0.8, 1.5]), np.array([1.0, 0.2, 0.0])
        bar = model.add_body(
            mass=1.3,
            inertia=(0.05, 0.09, 0.1),
            position=centre,
            velocity=np.cross(omega, centre),
            angular_velocity=omega,
        )
        model.add(ph.joints.Spherical(model.ground, bar, point=(0, 0, 0)))
        problem = model.problem(formulation, t1=0.5)
        if formulation == "euler-angles-kinematic":
            ends[formulation] = end(problem, 2e-3, 0.5, "positions", "herk4")[0]
        else:
            ends[formulation] = extrapolate(problem, 4e-3, 0.5, "positions")[0]
    assert np.linalg.norm(ends["SE3"] - centre) > 0.3
    assert np.max(np.ptp(np.stack(list(ends.values())), axis=0)) < 2e-7, ends


@pytest.mark.exhaustive
def test_slider_crank_reaches_its_published_end(problem_cache):
    """By extrapolation from steps with the ratios 2 and 4, whose errors are in h² and h⁴."""
    problem = problem_cache["slider-crank"]
    for output, known in (("slider", 0.2407195737296), ("crank_angle", 54.3333321683)):
        exact = ph.integrators.get("generalized-alpha", rtol=1e-12, atol=1e-12)
        runs = [end(problem, 2e-4 / 2**k, 5.0, output, exact) for k in range(3)]
        assert (runs[0] - runs[1]) / (runs[1] - runs[2]) == pytest.approx(4, abs=0.1)
        first = [runs[k + 1] + (runs[k + 1] - runs[k]) / 3 for k in range(2)]
        assert abs(first[1] + (first[1] - first[0]) / 15 - known) < 1e-8

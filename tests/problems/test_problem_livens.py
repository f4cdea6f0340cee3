"""Problems on Livens' principle: their motion, their numbers, and other formulations of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motion_checks import along, solve
from scipy.integrate import solve_ivp

import polhode as ph
from polhode import problems
from polhode.problems import steady_precession_solution
from polhode.viewing.scene.scene import Body, Line, Trail

EVERY = [
    ("mass-spring", {}),
    ("mass-spring", {"potential": "code"}),
    ("spring-pendulum", {}),
    ("steady-precession", {}),
    ("free-rigid-body", {"formulation": "livens"}),
]
SHAPES = {
    "mass-spring": {"coordinates": (3,), "velocities": (3,), "total_energy": (), "positions": (2, 3)},
    "spring-pendulum": {"coordinates": (3,), "velocities": (3,), "total_energy": (), "position": (3,)},
    "steady-precession": {
        "coordinates": (4,), "velocities": (4,), "total_energy": (), "angular_momentum": (3,), "rotation": (3, 3),
        "angular_velocity": (3,), "centre_of_mass": (3,), "axis": (3,),
    },
    "free-rigid-body": {
        "coordinates": (4,), "velocities": (4,), "total_energy": (), "angular_momentum": (3,), "rotation": (3, 3),
        "angular_velocity": (3,),
    },
}  # fmt: skip

WRONG = [
    ("mass-spring", {"potential": "half"}, "printed.*code"),
    ("mass-spring", {"masses": (1.0, -1.0)}, "greater than zero"),
    ("mass-spring", {"stiffnesses": 3.0}, r"shape \(2,\)"),
    ("mass-spring", {"mass": 3.0}, "Did you mean `masses`"),
    ("spring-pendulum", {"length": 0.0}, "greater than zero"),
    ("spring-pendulum", {"coordinates": (1.0, 2.0)}, r"shape \(3,\)"),
    ("steady-precession", {"formulation": "s3"}, "livens.*SO3.*cotangent"),
    ("steady-precession", {"precession_rate": 0.0}, "greater than zero"),
    ("steady-precession", {"radius": (1.0, 2.0)}, "vmap"),
    ("free-rigid-body", {"formulation": "Livens"}, "Did you mean `livens`"),
]


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_bad_parameters_are_named_with_a_remedy(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        problems.get(name, **parameters)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "parameters"), EVERY)
def test_outputs_scene_and_start(name, parameters):
    problem = problems.get(name, **parameters)
    result = {key: np.shape(output(0.0, problem.state0)) for key, output in problem.outputs.items()}
    assert result == SHAPES[name]
    problem.system.check(0.0, problem.state0)
    assert problem.integrator == "eml"
    assert len(problem.doc) > 200
    assert set(problem.reference) <= set(problem.outputs)
    energy, total = (f(0.0, problem.state0) for f in (problem.invariants["energy"], problem.outputs["total_energy"]))
    np.testing.assert_allclose(energy, total, rtol=1e-14)
    for part in problem.scene.parts:
        if isinstance(part, Body):
            position, rotation = part.pose(0.0, problem.state0)
            assert (position.shape, rotation.shape, np.shape(part.size)) == ((3,), (3, 3), (3,))
            assert np.all(np.asarray(part.size) > 0)
        elif isinstance(part, Line):
            assert part.points(0.0, problem.state0).shape[1:] == (3,)
        else:
            assert isinstance(part, Trail)
            assert problem.outputs[part.output](0.0, problem.state0).shape == (3,)


@pytest.mark.exhaustive
def test_energies_at_the_start():
    energies = {name: float(p.invariants["energy"](0.0, p.state0)) for name, p in all_problems().items()}
    np.testing.assert_allclose(energies["mass-spring"], 1.0, rtol=1e-15)
    np.testing.assert_allclose(energies["spring-pendulum"], 1.496484375, rtol=1e-14)
    np.testing.assert_allclose(energies["steady-precession"], 5.6690551906, atol=1e-10)
    np.testing.assert_allclose(energies["free-rigid-body"], 2500, rtol=1e-14)


def all_problems():
    return {name: problems.get(name, **parameters) for name, parameters in reversed(EVERY)}


@pytest.mark.parametrize("potential", ["printed", "code"])
def test_mass_spring_reference_is_the_motion_of_the_two_elongations(potential):
    problem = problems.get("mass-spring", potential=potential)
    k, c = np.array([1.0, 3.0]), {"printed": 0.25, "code": 0.5}[potential]
    mass = np.array([[3.0, 1.0], [1.0, 1.0]])

    def rate(_, y):
        return np.concatenate((y[2:], np.linalg.solve(mass, -c * k * (2 * y[:2] + 4 * y[:2] ** 3))))

    x1, x2 = solve_ivp(rate, (0, 10), [0, 0, 1, -1], "DOP853", rtol=1e-13, atol=1e-14).y[:2, -1]
    np.testing.assert_allclose(problem.reference["coordinates"]["value"], (x1, x1 + 1.1, x2), atol=5e-12)
    assert not problems.get("mass-spring", potential=potential, width=0.2).reference


@pytest.mark.exhaustive
def test_mass_spring_gradient_is_the_difference_quotient():
    system = problems.get("mass-spring").system
    q0, q1 = jnp.array([0.3, 1.4, -0.5]), jnp.array([0.7, 1.8, 0.1])
    zero = jnp.zeros(3)
    (x0, x1), k = (q[::2] for q in (q0, q1)), np.array([1.0, 3.0])
    expected = 0.25 * k * (x0 + x1) * (1 + x0**2 + x1**2)
    result = system.discrete_derivatives(q0, zero, q1, zero).potential
    np.testing.assert_allclose(result[::2], expected, rtol=1e-14)
    assert result[1] == 0


def test_spring_pendulum_reference_is_the_motion_in_cartesian_coordinates():
    def rate(_, y):
        return np.concatenate((y[3:], -300 * 0.5 * (y[:3] @ y[:3] - 1) * y[:3]))

    x = solve_ivp(rate, (0, 1), [1.05, 0, 0, 0, 1.05, -1.05], "DOP853", rtol=1e-13, atol=1e-14).y[:3, -1]
    r = np.linalg.norm(x)
    expected = r, np.arccos(x[2] / r), np.arctan2(x[1], x[0])
    np.testing.assert_allclose(problems.get("spring-pendulum").reference["coordinates"]["value"], expected, atol=3e-11)


@pytest.mark.exhaustive
def test_spring_pendulum_hangs_from_its_spring_under_gravity():
    """A vertical rest position: EA ε r/l₀ = m g with r below the pivot."""
    r = 1.0 + 1e-3
    weight = 300 * 0.5 * (r**2 - 1) * r
    at_rest = {"gravity": weight, "coordinates": (r, np.pi - 0.3, 0.0), "velocities": (0.0, 0.0, 0.0)}
    system = problems.get("spring-pendulum", **at_rest).system
    force = jax.grad(system.potential_energy)(jnp.array([r, np.pi, 0.4]))
    np.testing.assert_allclose(force, 0.0, atol=1e-12)
    run = ph.simulate(problems.get("spring-pendulum", **at_rest), "eml", h=0.02)
    assert np.ptp(run.invariants["energy"]) < 1e-13
    np.testing.assert_allclose(run.outputs["coordinates"][:, 2], 0.0, atol=1e-15)
    assert run.outputs["coordinates"][-1, 1] > np.pi - 0.29


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("formulation", ["SO3", "S3", "lie-poisson"])
def test_formulations_of_the_precessing_top_agree_with_the_closed_form(formulation):
    problem = problems.get("steady-precession", formulation=formulation)
    (end,) = solve(problem, [0.5], 1e-12)
    centre, rotation = steady_precession_solution(0.075, np.pi / 3, 10.0, 135.6, 0.5)
    np.testing.assert_allclose(problem.outputs["centre_of_mass"](0.5, end), centre, atol=1e-10)
    np.testing.assert_allclose(problem.outputs["rotation"](0.5, end), rotation, atol=1e-8)
    for name in ("energy", "vertical_angular_momentum", "spin_momentum"):
        assert abs(along(problem, problem.invariants[name], 0.5, end)) < 1e-11, name
    livens = problems.get("steady-precession")
    for name in ("energy", "vertical_angular_momentum", "spin_momentum"):
        known = livens.invariants[name](0.0, livens.state0)
        np.testing.assert_allclose(problem.invariants[name](0.0, problem.state0), known, rtol=1e-13)


@pytest.mark.exhaustive
def test_precessing_top_starts_as_the_closed_form_says():
    t = jnp.asarray(0.0)
    centre, rotation = steady_precession_solution(0.075, np.pi / 3, 10.0, 135.6, t)
    rates = jax.jacfwd(lambda t: steady_precession_solution(0.075, np.pi / 3, 10.0, 135.6, t)[1])(t)
    for formulation in ("livens", "SO3", "S3", "lie-poisson", "cotangent"):
        problem = problems.get("steady-precession", formulation=formulation)
        np.testing.assert_allclose(problem.outputs["centre_of_mass"](t, problem.state0), centre, atol=1e-15)
        np.testing.assert_allclose(problem.outputs["rotation"](t, problem.state0), rotation, atol=1e-15)
        skew = rotation.T @ rates
        omega = (skew[2, 1], skew[0, 2], skew[1, 0])
        np.testing.assert_allclose(problem.outputs["angular_velocity"](t, problem.state0), omega, atol=1e-11)


def test_momenta_of_the_precessing_top():
    problem = problems.get("steady-precession")
    np.testing.assert_allclose(
        problem.invariants["vertical_angular_momentum"](0.0, problem.state0), 0.0710657711, atol=1e-10
    )
    spin = 5.301437602933e-4 * (135.6 + 10 * np.cos(np.pi / 3))
    np.testing.assert_allclose(problem.invariants["spin_momentum"](0.0, problem.state0), spin, rtol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "parameters"), EVERY)
def test_starts_can_be_differentiated_by_every_number(name, parameters):
    problem = problems.get(name, **parameters)
    skipped = ("duration", "formulation", "potential")
    numbers = {k: jnp.asarray(v, float) for k, v in problem.parameters.items() if k not in skipped}

    @jax.jit
    def value(numbers):
        changed = problem.replace(**numbers)
        q, v, p = changed.state0
        step = jnp.cos(jnp.arange(q.size))
        mean = changed.system.discrete_derivatives(q, v, q + 0.1 * step, v + 0.2 * step)
        return sum(
            (x @ step for x in (q, v, p, mean.kinetic_v, mean.potential)),
            start=changed.system.generalised_energy(changed.state0),
        )

    gradient = jax.jit(jax.grad(value))(numbers)
    for key, start in numbers.items():
        size = 1e-6 * max(1.0, float(jnp.max(jnp.abs(start))))
        up, down = (value({**numbers, key: start + sign * size}) for sign in (1, -1))
        scale = float(jnp.sum(jnp.abs(gradient[key]))) + abs(float(value(numbers)))
        assert abs(float(jnp.sum(gradient[key])) - float(up - down) / (2 * size)) < 1e-7 * scale, key
    assert sum(bool(jnp.any(g != 0)) for g in gradient.values()) >= len(numbers) - 1

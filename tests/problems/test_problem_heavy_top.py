import jax.numpy as jnp
import numpy as np
import pytest
from motion_checks import ODD, along, hat, rotation, solve

from polhode import problems
from polhode.spaces import S3

FORMULATIONS = ["SO3", "S3", "lie-poisson"]


def state_of(problem, seed):
    """A random attitude and velocity as a state of the problem's formulation, with both of them."""
    formulation, inertia = problem.parameters["formulation"], np.array(problem.parameters["inertia"])
    omega = np.random.default_rng(seed).normal(size=3)
    q = np.random.default_rng(seed + 100).normal(size=4)
    q = jnp.asarray(q / np.linalg.norm(q))
    R = S3().to_matrix(q)
    if formulation == "lie-poisson":
        return (jnp.concatenate((inertia * omega, R[2])), R), R, omega
    return ((q if formulation == "S3" else R), jnp.asarray(omega)), R, omega


@pytest.mark.sampled(9)
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("parameters", [{}, {"data": "A"}, ODD], ids=["benchmark", "A", "asymmetric"])
def test_motion_balances_the_moment_of_the_weight(formulation, parameters):
    problem = problems.get("heavy-top", formulation=formulation, **parameters)
    p = {k: np.array(v) if not isinstance(v, str) else v for k, v in problem.parameters.items()}
    state, R, omega = state_of(problem, 1)
    centre = p["length"] * R @ p["axis"]
    np.testing.assert_allclose(problem.outputs["centre_of_mass"](0.0, state), centre, atol=1e-14)
    np.testing.assert_allclose(problem.outputs["axis"](0.0, state), R @ p["axis"], atol=1e-14)
    np.testing.assert_allclose(along(problem, problem.outputs["rotation"], 0.0, state), R @ hat(omega), atol=1e-13)

    def spatial_momentum(t, state):
        return problem.outputs["rotation"](t, state) @ (p["inertia"] * problem.outputs["angular_velocity"](t, state))

    weight = np.array([0, 0, -p["mass"] * p["gravity"]])
    moment = along(problem, spatial_momentum, 0.0, state)
    np.testing.assert_allclose(moment, np.cross(centre, weight), rtol=1e-13, atol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("name", ["energy", "vertical_angular_momentum", "spin_momentum"])
def test_invariants_stay_and_notice_a_fault(formulation, name):
    problem = problems.get("heavy-top", formulation=formulation)
    state, _, _ = state_of(problem, 2)
    size = float(np.max(problem.parameters["inertia"])) * 150
    invariant = problem.invariants[name]
    assert abs(along(problem, invariant, 0.0, state)) < 1e-13 * size
    if formulation == "lie-poisson":  # a fault in ∂H/∂Γ: gravity acts on another point than the energy knows
        fault = 1e-6 * np.array([0.0, 0, 0, 1, 0, 1, 0, 0, 0])
    else:
        fault = 1e-6 * np.array([0.0, 0, 0, 1, 1, 1])
    if (name, formulation) != ("vertical_angular_momentum", "lie-poisson"):
        assert abs(along(problem, invariant, 0.0, state, fault)) > 1e-8


@pytest.mark.exhaustive
def test_lie_poisson_keeps_vertical_momentum_by_its_structure():
    """Π·Γ is a Casimir: even a wrong Hamiltonian keeps it, while turning the attitude apart from Γ does not."""
    problem = problems.get("heavy-top", formulation="lie-poisson")
    state, _, _ = state_of(problem, 2)
    casimir = lambda t, state: state[0][:3] @ state[0][3:]  # noqa: E731
    wrong = np.concatenate((np.random.default_rng(0).normal(size=6), np.zeros(3)))
    assert abs(along(problem, casimir, 0.0, state, wrong)) < 1e-12
    assert abs(along(problem, problem.invariants["vertical_angular_momentum"], 0.0, state, wrong)) > 1e-2


@pytest.mark.exhaustive
def test_spin_is_claimed_only_for_a_symmetric_top():
    assert "spin_momentum" in problems.get("heavy-top").invariants
    for change in ({"inertia": (15.0, 0.5, 15.1)}, {"axis": (0.6, 0.8, 0.0)}):
        problem = problems.get("heavy-top", **change)
        assert "spin_momentum" not in problem.invariants
        state, _, _ = state_of(problem, 3)
        weights = np.array(problem.parameters["axis"]) * np.array(problem.parameters["inertia"])
        spin = lambda t, s, p=problem, w=weights: w @ p.outputs["angular_velocity"](t, s)  # noqa: E731
        assert abs(along(problem, spin, 0.0, state)) > 1e-3


# Of the Lie–Poisson form, the slowest to compile, the precession in closed form is checked with every change.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "formulation",
    [pytest.param(f, marks=[pytest.mark.exhaustive] if f == "lie-poisson" else []) for f in FORMULATIONS],
)
def test_published_positions(formulation):
    problem = problems.get("heavy-top", formulation=formulation)
    early, end = solve(problem, [0.2, 1.0])
    position = problem.outputs["centre_of_mass"]
    np.testing.assert_allclose(position(0.2, early), [0.605550561377, 0.598957681795, -0.523983027430], atol=2e-11)
    for name, reference in problem.reference.items():
        np.testing.assert_allclose(problem.outputs[name](1.0, end), reference["value"], atol=2e-10)
    q = np.array([0.73294398068, -0.278285719338, 0.531824611334, -0.320176142736])
    np.testing.assert_allclose(problem.outputs["rotation"](1.0, end), S3().to_matrix(jnp.asarray(q)), atol=2e-10)


ENERGIES = {"fixed-point": 5435.696790865547, "A": 5275.933797, "C": 5435.696790865547}


@pytest.mark.parametrize("data", ENERGIES)
def test_energy_of_the_data_sets(data):
    problem = problems.get("heavy-top", data=data)
    np.testing.assert_allclose(problem.invariants["energy"](0.0, problem.state0), ENERGIES[data], rtol=1e-10)


def test_data_sets_pull_as_described():
    """M g l of the readings A to E: 294.3 upwards, 294.3, 147.15, 147.15, 294.3 downwards."""
    R = jnp.asarray(rotation(1))
    for data, moment in {"A": -294.3, "B": 294.3, "C": 147.15, "D": 147.15, "E": 294.3}.items():
        problem = problems.get("heavy-top", data=data)
        potential = problem.invariants["energy"](0.0, (R, jnp.zeros(3)))
        np.testing.assert_allclose(potential, moment * R[2, 1], rtol=1e-14)


def test_replacing_the_data_set_takes_its_numbers_but_keeps_own_ones():
    start = problems.get("heavy-top")
    assert start.replace(data="A").parameters["gravity"] == -9.81
    mixed = start.replace(data="A", mass=7.0)
    assert (mixed.parameters["mass"], mixed.parameters["length"]) == (7.0, 2.0)
    kept = start.replace(mass=7.0).replace(formulation="S3")
    assert (kept.parameters["mass"], kept.parameters["formulation"]) == (7.0, "S3")
    assert start.reference
    assert not start.replace(mass=7.0).reference

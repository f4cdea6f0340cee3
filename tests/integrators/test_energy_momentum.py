"""Energy–momentum and midpoint methods on Livens' and Hamilton's equations: orders, what is kept, and controls."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compiled, evaluated

import polhode as ph
from polhode import StartWarning
from polhode.integrators import EnergyMomentum, HamiltonianQuaternions, LivensMidpoint
from polhode.systems import Lagrangian, LivensState, QuaternionBody, Through

INERTIA = jnp.array([1.0, 2.0, 2.7])
CENTRE = jnp.array([0.3, -0.5, 0.8])
Q0 = np.array([0.8, 0.4, -0.2, 0.4])
OMEGA = np.array([1.0, -0.75, 0.8])


def height(q):
    """Of the point `CENTRE` of the body; quadratic in q."""
    w, x, y, z = q
    return jnp.stack((2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z)) @ CENTRE


def quartic(q):
    return height(q) ** 2 + height(q)


LINEAR = QuaternionBody(INERTIA, height)
TUMBLING = QuaternionBody(INERTIA, Through(lambda s: s[0] ** 2 + s[0], lambda q: height(q)[None]))
PLAIN = QuaternionBody(INERTIA, quartic)
FREE = QuaternionBody(INERTIA)
METHODS = ["eml", "reml", "null-eml", "mpl", "emh", "mph"]
KEEP_ENERGY = ["eml", "reml", "null-eml", "emh"]


def tumbling_state(system):
    return system.turning(Q0, OMEGA)


@cache
def run(system_name, method, h, t1=1.0):
    system = {"linear": LINEAR, "tumbling": TUMBLING, "plain": PLAIN, "free": FREE}[system_name]
    return ph.simulate(system, method, h=h, t1=t1, state0=tumbling_state(system))


@cache
def exact():
    """(q, v, p) of the tumbling body at t = 1, from Euler's equations and an explicit method of order 6."""
    space = ph.spaces.Product(ph.spaces.S3(), ph.spaces.Rn(3))

    def field(t, state):
        q, omega = state
        # The torque: rate of V under turns of the body, with the minus sign.
        turned = lambda e: quartic(ph.spaces.S3().move(q, e))  # noqa: E731
        torque = jnp.cross(INERTIA * omega, omega) - jax.grad(turned)(jnp.zeros(3))
        return jnp.concatenate((omega, torque / INERTIA))

    system = ph.systems.VectorField(space, field)
    start = (jnp.asarray(Q0), jnp.asarray(OMEGA))
    q, omega = (x[-1] for x in ph.simulate(system, "rkmk6", h=2e-3, t1=1.0, state0=start).state)
    return TUMBLING.turning(q, omega)


def errors(method, h, system="tumbling"):
    state = run(system, method, h).state
    return np.array([np.linalg.norm(a[-1] - b) for a, b in zip(state, exact(), strict=True)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["reml", "mpl", "emh", "mph"])
def test_order_is_2_with_a_quartic_potential_for_coordinates_velocities_and_momenta(method):
    coarse, fine = errors(method, 0.02), errors(method, 0.01)
    np.testing.assert_allclose(np.log2(coarse / fine), 2.0, atol=0.1)
    assert np.all(fine < 1e-3)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", METHODS)
def test_energies_and_constraint(method):
    result = run("tumbling", method, 0.1, 5.0)
    steps = np.abs(np.diff(result.invariants["energy"])).max()
    assert result.residuals["position"].max() < 5e-15
    if method in KEEP_ENERGY:
        assert steps < 2e-14
        assert {r.quantity: r.verdict for r in result.audit().rows}["energy"] == "kept"
    else:
        assert steps > 1e-5
    if method.endswith("eml"):
        # What is not kept: T + V at the nodes, and v across the sphere.
        assert np.ptp(result.outputs["total_energy"]) > 1e-4
        assert np.abs(np.sum(result.state.q * result.state.v, axis=1)).max() > 1e-4


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["reml", "emh"])
def test_energies_are_kept_without_invariants_of_the_potential_too(method):
    assert np.abs(np.diff(run("plain", method, 0.1, 5.0).invariants["energy"])).max() < 2e-14


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
def test_angular_momentum_of_a_free_body(method):
    momentum = run("free", method, 0.1, 5.0).outputs["angular_momentum"]
    assert np.abs(momentum - momentum[0]).max() < 1e-13
    forced = run("linear", method, 0.1, 5.0).outputs["angular_momentum"]
    assert np.abs(forced - forced[0])[:, 2].max() < 1e-13
    assert np.abs(forced - forced[0])[:, :2].max() > 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["reml", "emh"])
def test_momentum_about_the_vertical_needs_a_gradient_through_the_height(method):
    momentum = {s: run(s, method, 0.1, 5.0).outputs["angular_momentum"][:, 2] for s in ("tumbling", "plain")}
    assert np.ptp(momentum["tumbling"]) < 1e-13
    assert np.ptp(momentum["plain"]) > 1e-7


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["eml", "null-eml"])
@pytest.mark.parametrize("system", ["tumbling", "free"])
def test_unknowns_do_not_change_the_solution(system, method):
    one, other = run(system, "reml", 0.1, 5.0), run(system, method, 0.1, 5.0)
    for a, b in zip(one.state, other.state, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    np.testing.assert_allclose(one.multipliers[1:], other.multipliers[1:], atol=1e-10)
    assert np.abs(one.state.q - run(system, "mpl", 0.1, 5.0).state.q).max() > 1e-4


@pytest.mark.exhaustive
@pytest.mark.parametrize("unknowns", ["all", "null-space"])
def test_midpoint_does_not_depend_on_the_unknowns_either(unknowns):
    one = run("tumbling", "mpl", 0.1, 5.0)
    other = run("tumbling", LivensMidpoint(unknowns), 0.1, 5.0)
    np.testing.assert_allclose(one.state.q, other.state.q, atol=1e-11)


@pytest.mark.exhaustive
def test_momenta_across_the_sphere_stay_zero_with_emh_alone():
    across = {}
    for method in ("emh", "mph"):
        state = run("tumbling", method, 0.1, 5.0).state
        across[method] = np.abs(np.sum(state.q * state.p, axis=1)).max()
        # Velocities follow from momenta; they are those of a unit quaternion as far as these are.
        assert np.abs(np.sum(state.q * state.v, axis=1)).max() < 1e-12 + across[method]
    assert across["emh"] < 1e-12
    assert across["mph"] > 1e-4


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", ["reml", "mpl", "emh"])
def test_a_step_back_undoes_a_step(method):
    integrator, t = ph.integrators.get(method), jnp.zeros(())

    def there_and_back(state):
        carry = integrator.init(TUMBLING, t, jnp.asarray(0.1), state)
        there, _ = integrator.step(TUMBLING, t, jnp.asarray(0.1), carry)
        back, _ = integrator.step(TUMBLING, t + 0.1, jnp.asarray(-0.1), there)
        return there.state, back.state

    start = tumbling_state(TUMBLING)
    there, back = evaluated(there_and_back, start)
    for x, y, far in zip(back, start, there, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-13)
        assert np.abs(far - y).max() > 0.01


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("potential", ["printed", "code"])
def test_singular_mass_matrix(potential):
    problem = ph.problems.get("mass-spring", potential=potential)
    result = ph.simulate(problem, "eml")
    published = {
        "printed": (0.1169993183, 1.2169993183, -0.1844696872),
        "code": (0.8698906609, 1.9698906609, 0.3042679834),
    }
    np.testing.assert_allclose(result.outputs["coordinates"][-1], published[potential], atol=1e-10)
    assert np.abs(np.diff(result.invariants["energy"])).max() < 5e-15
    assert result.residuals["position"].max() < 5e-15
    np.testing.assert_allclose(result.outputs["total_energy"], result.invariants["energy"], atol=1e-14)
    control = ph.simulate(problem, "mpl")
    assert np.abs(np.diff(control.invariants["energy"])).max() > 1e-5
    reduced = ph.simulate(problem, "reml")
    np.testing.assert_allclose(reduced.state.p, result.state.p, atol=1e-12)


def test_mass_matrix_that_depends_on_the_coordinates():
    problem = ph.problems.get("spring-pendulum")
    result = ph.simulate(problem, "eml")
    np.testing.assert_allclose(result.outputs["coordinates"][-1], (1.0221519311, 2.3559702621, 1.541399188), atol=1e-10)
    assert np.abs(np.diff(result.invariants["energy"])).max() < 5e-15
    assert 4e-5 < np.abs(np.diff(result.outputs["total_energy"])).max() < 5e-5
    assert 1e-6 < np.ptp(result.invariants["vertical_angular_momentum"]) < 4e-6


PRECESSION = {
    "eml": (0.138951, 0.0342960),
    "mpl": (0.0680364, 0.0146658),
    "emh": (0.263085, 0.0730021),
    "mph": (0.146667, 0.0459901),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", PRECESSION)
def test_steady_precession_has_the_known_errors(method):
    problem = ph.problems.get("steady-precession", duration=0.1)
    centre = problem.reference["centre_of_mass"]["value"]
    result = [ph.simulate(problem, method, h=h).outputs["centre_of_mass"][-1] for h in (0.01, 0.005)]
    measured = [np.linalg.norm(x - centre) / 0.075 for x in result]
    np.testing.assert_allclose(measured, PRECESSION[method], rtol=1e-4)


@pytest.mark.exhaustive
def test_loads_do_their_work_and_energy_is_not_promised():
    system = Lagrangian(1, jnp.eye(1), lambda q: 0.5 * q @ q, loads=lambda t, q, v: jnp.cos(t)[None])
    assert "energy" not in system.invariants()
    result = ph.simulate(system, "eml", h=0.01, t1=3.0, state0=system.start([0.0], [0.0]))
    np.testing.assert_allclose(result.outputs["coordinates"][-1, 0], 1.5 * np.sin(3.0), atol=2e-4)
    finer = ph.simulate(system, "eml", h=0.005, t1=3.0, state0=system.start([0.0], [0.0]))
    ratio = (result.outputs["coordinates"][-1, 0] - 1.5 * np.sin(3.0)) / (
        finer.outputs["coordinates"][-1, 0] - 1.5 * np.sin(3.0)
    )
    assert 3.8 < ratio < 4.2


def test_frames_between_steps_are_of_second_order():
    times = np.array([0.0, 0.33, 0.77])
    ends = {
        h: ph.simulate(TUMBLING, "reml", h=h, save_at=times, t1=1.0, state0=tumbling_state(TUMBLING))
        for h in (0.1, 0.05)
    }
    reference = ph.simulate(TUMBLING, "reml", h=0.001, save_at=times, t1=1.0, state0=tumbling_state(TUMBLING))
    gaps = [np.abs(ends[h].state.q - reference.state.q)[1:].max(axis=1) for h in (0.1, 0.05)]
    assert np.all(gaps[0] / gaps[1] > 3)


def test_parametrisation_that_is_missing_is_explained():
    problem = ph.problems.get("mass-spring")
    with pytest.raises(ValueError, match=r"no parametrisation.*Use 'reduced' \(`reml`\)"):
        ph.simulate(problem, "null-eml")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EnergyMomentum("some"), "unknowns.*all.*reduced.*null-space"),
        (lambda: LivensMidpoint(max_iterations=0), "max_iterations"),
        (lambda: HamiltonianQuaternions(discrete=1), "True or False"),
    ],
)
def test_wrong_options_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_kinds_of_systems_are_explained():
    with pytest.raises(ValueError, match="eml"):
        ph.simulate(ph.problems.get("heavy-top"), "eml", h=1e-3, t1=0.01)
    with pytest.raises(ValueError, match="emh"):
        ph.simulate(ph.problems.get("mass-spring"), "emh")


def test_steps_that_are_too_large_end_the_run_with_what_there_is():
    body = QuaternionBody(jnp.array([6.0, 8.0, 3.0]))
    result = ph.simulate(body, "reml", h=1.0, t1=20.0, state0=body.turning([1.0, 0, 0, 0], [10.0, 20, 20]), throw=False)
    assert result.stats["result"] == ph.Result.newton_not_converged
    assert result.stats["t_reached"] < 20


@pytest.mark.exhaustive
def test_derivatives_by_masses_of_a_system_with_singular_mass_matrix():
    problem = ph.problems.get("mass-spring")

    def end(x):
        changed = problem.replace(masses=x[:2], stiffnesses=x[2:])
        return ph.simulate(changed, "eml", h=0.1, t1=1.0, save_every=None).outputs["coordinates"][-1] @ jnp.array(
            [1, 2, 3]
        )

    x, step = jnp.array([2.0, 1.0, 1.0, 3.0]), 1e-4
    f = compiled(jax.value_and_grad(end), x)
    difference = [(f(x + step * e)[0] - f(x - step * e)[0]) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(f(x)[1], difference, rtol=1e-6, atol=1e-8)


def test_midpoint_rule_is_that_of_another_code():
    """Reference result of the code metis: quaternion and momentum of the free body, h = 0.05, t = 0.45."""
    problem = ph.problems.get("free-rigid-body", formulation="livens")
    state = ph.simulate(problem, "mph", h=0.05, t1=0.45).state
    q = (0.113406179397, 0.255434920648, -0.90576246047, -0.318569309557)
    p = (297.420114019, 20.3580577259, 105.170485032, -176.821928336)
    np.testing.assert_allclose(state.q[-1], q, atol=1e-8)
    np.testing.assert_allclose(state.p[-1], p, atol=1e-5)


@pytest.mark.parametrize("unknowns", ["all", "reduced"])
def test_a_body_at_rest_stays_at_rest(unknowns):
    body = QuaternionBody(jnp.array([1.0, 2.0, 3.0]))
    result = ph.simulate(body, EnergyMomentum(unknowns), h=0.05, t1=0.2, state0=body.turning([1, 0, 0, 0], [0, 0, 0]))
    assert np.max(np.abs(np.asarray(result.state.v))) < 1e-15


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("h", [0.05, 0.0125])
def test_invariant_kinetic_energy_passes_turning_points(h):
    """Where q·v = 0 the invariants stand still, and what divides by their change magnifies round-off."""
    kinetic = Through(lambda s: 0.5 * (1 + s[0] ** 2) * s[1], lambda q, v: jnp.stack((q @ q, v @ v)))
    potential = Through(lambda s: jnp.sqrt(1 + s[0]) + 0.3 * s[0] ** 2, lambda q: (q @ q)[None])
    system = Lagrangian(3, kinetic, potential)
    start = system.start([1.0, 0.2, -0.3], [0.1, 0.9, 0.4])
    result = ph.simulate(system, "reml", h=h, t1=12.0, state0=start)
    distance = np.linalg.norm(np.asarray(result.state.q), axis=1)
    assert np.sum(np.diff(np.sign(np.diff(distance))) != 0) > 4
    # 3e-11 at the turning points themselves, where the round-off of T is divided by 1e-5.
    assert np.ptp(np.asarray(result.invariants["energy"])) < 1e-10
    momenta = np.cross(np.asarray(result.state.q), np.asarray(result.state.p))
    assert np.max(np.ptp(momenta, axis=0)) < 1e-10
    plain = Lagrangian(3, lambda q, v: kinetic(q, v), potential)
    control = np.cross(*(np.asarray(x) for x in ph.simulate(plain, "reml", h=0.05, t1=12.0, state0=start).state[::2]))
    assert np.max(np.ptp(control, axis=0)) > 1e-6


@pytest.mark.exhaustive
def test_a_run_goes_on_from_its_last_state_with_a_warning():
    rod = Lagrangian(2, np.eye(2), lambda q: 9.81 * q[1], lambda q: 0.5 * (q @ q - 1)[None], 1)
    start = rod.start([1.0, 0.0], [0.0, 2.0])
    whole = ph.simulate(rod, "eml", h=0.01, t1=1.0, state0=start)
    half = ph.simulate(rod, "eml", h=0.01, t1=0.5, state0=start)
    last = LivensState(*(x[-1] for x in half.state))
    with pytest.warns(StartWarning, match="when a run goes on from the end"):
        rest = ph.simulate(rod, "eml", h=0.01, t0=0.5, t1=1.0, state0=last)
    np.testing.assert_allclose(rest.state.q[-1], whole.state.q[-1], atol=1e-11)
    with pytest.raises(ValueError, match=r"momenta that differ from ∂L/∂v by 8"):
        ph.simulate(rod, "eml", h=0.01, t1=1.0, state0=start._replace(p=5 * start.p))


@pytest.mark.exhaustive
def test_frames_between_steps_break_no_promise():
    body = QuaternionBody(jnp.array([1.0, 2.0, 3.0]))
    start = body.turning([1, 0, 0, 0], [1.0, 2.0, 0.1])
    between = ph.simulate(body, "eml", h=0.05, t1=2.0, state0=start, save_at=np.linspace(0, 2, 33)).audit()
    assert between["energy"].verdict == between["position"].verdict == "between steps"
    assert ph.simulate(body, "eml", h=0.05, t1=2.0, state0=start).audit()["angular_momentum"].verdict == "kept"

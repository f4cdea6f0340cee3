"""Symplectic methods on T*G: orders, the symplectic form, momenta, energies, and controls that fail."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode import integrators, problems
from polhode.integrators import SymmetricComposition, SymplecticLieGroup
from polhode.spaces import SE3, SO3, Cotangent, Rn
from polhode.spaces.base import hat
from polhode.systems import Hamiltonian, LiePoisson

INERTIA = jnp.array([1.0, 2.0, 2.7])


class TumblingTop(eqx.Module):
    """An asymmetric body that hangs in a field along e₃, without any symmetry but that about e₃."""

    inertia: jax.Array

    def __call__(self, rotation, momentum):
        body = rotation.T @ momentum
        return 0.5 * jnp.sum(body**2 / self.inertia) + rotation[2] @ jnp.array([0.3, -0.5, 0.8])


TUMBLING = Hamiltonian(SO3(), TumblingTop(INERTIA))
START = (SO3().exp(jnp.array([0.3, -0.2, 0.5])), jnp.array([1.0, -1.5, 2.0]))


def run(method, h, t1, system=TUMBLING, state0=START, **options):
    return ph.simulate(system, method, h=h, t1=t1, state0=state0, **options)


@cache
def exact():
    return jax.tree.map(lambda x: x[-1], run("rkmk6", 1e-3, 1.0).state)


def errors(method, h):
    end = jax.tree.map(lambda x: x[-1], run(method, h, 1.0).state)
    return np.array([np.linalg.norm(a - b) for a, b in zip(end, exact(), strict=True)])


@pytest.mark.parametrize(
    "theta",
    [0.0, *(pytest.param(x, marks=pytest.mark.exhaustive) for x in (0.3, 1.0))],
)
@pytest.mark.exhaustive
def test_orders_of_attitude_and_momentum_without_symmetry(theta):
    method = SymplecticLieGroup(theta)
    assert method.order == 1
    observed = np.log2(errors(method, 0.01) / errors(method, 0.005))
    np.testing.assert_allclose(observed, 1, atol=0.25)


def form(mu):
    """The symplectic form at momentum μ, in the coordinates g → exp(ξ)g, μ → μ + ν."""
    d = mu.size
    return jnp.block([[_algebra_form(mu), jnp.eye(d)], [-jnp.eye(d), jnp.zeros((d, d))]])


def _algebra_form(mu):
    if mu.size == 3:
        return hat(mu)
    ad = lambda u, v: SE3().ad(u, v)  # noqa: E731
    basis = jnp.eye(6)
    return -jax.vmap(lambda u: jax.vmap(lambda v: mu @ ad(u, v))(basis))(basis)


def defect(system, method, state, h):
    """DΦᵀ ω₁ DΦ - ω₀ for one step Φ, by differentiation."""
    G, d = system.group, system.group.dim

    def chart(z):
        return G.compose(G.exp(z[:d]), state[0]), state[1] + z[d:]

    def step(z):
        at = chart(z)
        carry, _ = method.step(system, jnp.zeros(()), jnp.asarray(h), method.init(system, 0.0, h, at))
        return carry.state

    end = step(jnp.zeros(2 * d))

    def local(z):
        g, mu = step(z)
        return jnp.concatenate((G.log(G.compose(g, G.inverse(end[0]))), mu))

    D = jax.jacfwd(local)(jnp.zeros(2 * d))
    return D.T @ form(end[1]) @ D - form(state[1])


METHODS = [
    pytest.param(SymplecticLieGroup(0.5), id="1/2"),
    pytest.param(SymplecticLieGroup(0.0), id="0"),
    pytest.param(SymplecticLieGroup(1.0), id="1", marks=pytest.mark.exhaustive),
    pytest.param(SymplecticLieGroup(0.3), id="0.3", marks=pytest.mark.exhaustive),
    pytest.param(SymmetricComposition(SymplecticLieGroup(), 4), id="order 4", marks=pytest.mark.exhaustive),
    pytest.param(SymmetricComposition(SymplecticLieGroup(), 6), id="order 6", marks=pytest.mark.exhaustive),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", METHODS)
def test_steps_keep_the_symplectic_form(method):
    gap = evaluated(lambda state: defect(TUMBLING, method, state, 0.3), START)
    assert np.abs(gap).max() < 1e-12


def test_explicit_steps_do_not_keep_the_symplectic_form():
    field = TUMBLING.conversions()[0].at((jnp.eye(3), jnp.zeros(3))).system
    method = integrators.get("rkmk4")

    class AsHamiltonian(eqx.Module):
        group: SO3 = SO3()

    def stepped(system, t, h, carry):
        return method.step(field, t, h, carry)

    class Explicit(eqx.Module):
        def init(self, system, t, h, state):
            return method.init(field, t, h, state)

        def step(self, system, t, h, carry):
            return stepped(system, t, h, carry)

    gap = evaluated(lambda state: defect(AsHamiltonian(), Explicit(), state, 0.3), START)
    assert np.abs(gap).max() > 1e-6


class FloatingBody(eqx.Module):
    """A body on SE(3) with its centre of mass at the origin of its frame, on a spring to the inertial origin."""

    def __call__(self, pose, momentum):
        body = SE3().Ad_dual(pose, momentum)
        return 0.5 * jnp.sum(body[:3] ** 2 / INERTIA) + 0.25 * jnp.sum(body[3:] ** 2) + jnp.sum(pose[1] ** 2)


def test_momenta_of_symmetries_are_promised_and_kept():
    problem = ph.problems.get("heavy-top", formulation="quadratic")
    row = ph.simulate(problem, "symplectic", h=1e-3, t1=0.1).audit()["vertical_angular_momentum"]
    assert (row.promise, row.verdict) == ("round-off", "kept")


def test_a_momentum_without_its_symmetry_is_found_out():
    problem = ph.problems.get("heavy-top", formulation="cotangent")
    wrong = dataclasses.replace(problem.system, kept_momenta=("sideways",))
    sideways = {"sideways": lambda t, state: state[1][0]}
    problem = dataclasses.replace(problem, system=wrong, invariants={**problem.invariants, **sideways})
    assert ph.simulate(problem, "symplectic", h=1e-3, t1=0.1).audit()["sideways"].verdict == "broken"


@pytest.mark.exhaustive
def test_bodies_that_move_freely():
    """On SE(3): the form, the orders, and the total angular momentum about the centre of the spring."""
    system = Hamiltonian(SE3(), FloatingBody())
    state = (SE3().exp(jnp.array([0.2, 0.1, -0.4, 0.5, 0.3, -0.2])), jnp.array([0.5, 1.0, -0.7, 0.4, -0.3, 0.8]))
    gap = evaluated(lambda s: defect(system, SymplecticLieGroup(0.5), s, 0.2), state)
    assert np.abs(gap).max() < 1e-12
    result = run(SymplecticLieGroup(0.5), 0.02, 10.0, system, state)
    # The spatial momentum of rotations about the origin is the first half of μ itself.
    assert np.ptp(result.state[1][:, :3], axis=0).max() < 1e-12
    energy = result.invariants["energy"]
    assert np.abs(energy - energy[0]).max() < 1e-3
    finer = run(SymplecticLieGroup(0.5), 0.01, 10.0, system, state).invariants["energy"]
    assert 3.5 < np.ptp(energy) / np.ptp(finer) < 4.5


def test_momentum_about_the_field_is_kept_and_others_are_not():
    result = run(SymplecticLieGroup(0.5), 0.1, 100.0)
    assert np.ptp(result.state[1][:, 2]) < 1e-12
    assert np.ptp(result.state[1][:, 0]) > 0.1


def slope(values, t):
    """Slope of a linear fit and its standard error, from means of 20 stretches so that oscillations don't count."""
    means = np.array([part.mean() for part in np.array_split(values, 20)])
    times = np.array([part.mean() for part in np.array_split(t, 20)])
    (k, _), covariance = np.polyfit(times, means, 1, cov=True)
    return k, np.sqrt(covariance[0, 0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["symplectic", "symplectic4"])
def test_energy_without_drift(method):
    """6,000 steps of the published length on the top that can be resolved with them."""
    energy, time = _long_energy(method)
    k, error = slope(energy, time)
    assert abs(k) < 3 * error
    assert np.abs(energy).max() < 1e-2
    if method == "symplectic":
        np.testing.assert_allclose(np.abs(energy).max(), 9.22e-3, rtol=0.01)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("method", "lost"), [("rkmk4", 100.0), ("rk4", 30.0)])
def test_energy_of_explicit_methods_is_lost(method, lost):
    """The controls; that of `rk4` is lost in the first part of the run, so that it has no slope after it."""
    assert np.abs(_long_energy(method)[0]).max() > lost


def _long_energy(method):
    problem = problems.get("heavy-top", formulation="cotangent", data="A")
    result = ph.simulate(problem, method, h=0.01, t1=60.0)
    energy = np.asarray(result.invariants["energy"])
    return energy - energy[0], np.asarray(result.t)


@pytest.mark.exhaustive
def test_energy_without_drift_over_a_million_steps():
    result = run("symplectic", 0.05, 5e4, save_every=20)
    energy = np.asarray(result.invariants["energy"])
    k, error = slope(energy, np.asarray(result.t))
    assert abs(k) < 3 * error or abs(k) * 5e4 < 1e-12
    control = run("rk4", 0.05, 5e4, save_every=20)
    k, error = slope(np.asarray(control.invariants["energy"]), np.asarray(control.t))
    assert abs(k) > 10 * error


def test_midpoint_rule_on_a_linear_space():
    """On Rⁿ the method with θ = ½ is the implicit midpoint rule, which keeps quadratic energies."""
    A = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    system = Hamiltonian(Rn(2), lambda q, p: 0.5 * p @ A @ p + 0.5 * q @ q)
    state = (jnp.array([1.0, -0.5]), jnp.array([0.2, 0.4]))
    result = run("symplectic", 0.1, 0.1, system, state)
    J = np.block([[np.zeros((2, 2)), A], [-np.eye(2), np.zeros((2, 2))]])
    step = np.linalg.solve(np.eye(4) - 0.05 * J, np.eye(4) + 0.05 * J)
    np.testing.assert_allclose(np.concatenate([x[-1] for x in result.state]), step @ np.concatenate(state), rtol=1e-14)
    assert np.ptp(run("symplectic", 0.1, 50.0, system, state).invariants["energy"]) < 1e-13


@pytest.mark.exhaustive
def test_formulations_of_the_top_agree():
    """The quadratic Hamiltonian on T*(SO(3)×R³) is the same method (METHODS: only the solver differs)."""
    ends = []
    for formulation in ("cotangent", "quadratic"):
        problem = problems.get("heavy-top", formulation=formulation)
        ends.append(ph.simulate(problem, "symplectic", h=0.01, t1=0.5).outputs["rotation"][-1])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-11)
    reference = problems.get("heavy-top").reference["centre_of_mass"]
    result = ph.simulate(problems.get("heavy-top", formulation="cotangent"), "symplectic4", h=1e-3, t1=1.0)
    np.testing.assert_allclose(result.outputs["centre_of_mass"][-1], reference["value"], atol=2e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("trivialisation", ["left", "right"])
def test_reduced_systems_keep_casimirs_and_agree_with_the_whole(trivialisation):
    energy = lambda mu: 0.5 * jnp.sum(mu**2 / INERTIA)  # noqa: E731
    system = LiePoisson(SO3(), energy, trivialisation)
    mu = jnp.array([1.0, -1.5, 2.0])
    result = run("rkmk4", 0.05, 5.0, system, mu)
    assert np.ptp(np.linalg.norm(result.state, axis=1)) < 1e-13
    rate = jnp.cross(mu, mu / INERTIA) * (1 if trivialisation == "left" else -1)
    move = lambda s: system.state_space.move(mu, s * system.velocity(0.0, mu))  # noqa: E731
    np.testing.assert_allclose(jax.jvp(move, (0.0,), (1.0,))[1], rate, rtol=1e-14)
    if trivialisation == "left":
        whole = Hamiltonian(SO3(), lambda R, pi: energy(R.T @ pi))
        body = run("rkmk4", 0.05, 5.0, whole, (jnp.eye(3), mu))
        turned = np.einsum("nij,ni->nj", *body.state)
        np.testing.assert_allclose(turned, result.state, atol=1e-5)


def test_bad_input_is_explained():
    with pytest.raises(ValueError, match=r"`theta` must be a number in \[0, 1\], got 2"):
        SymplecticLieGroup(2)
    with pytest.raises(ValueError, match=r"not symmetric; for the symplectic family take theta = 0.5"):
        integrators.get("symplectic4", theta=0.3)
    with pytest.raises(ValueError, match=r"`energy\(g, mu\)` must return one array of shape \(\)"):
        run("symplectic", 0.1, 1.0, Hamiltonian(SO3(), lambda R, pi: pi), START)
    with pytest.raises(ValueError, match=r"must return a floating-point number, the energy.*got int"):
        run("symplectic", 0.1, 1.0, Hamiltonian(SO3(), lambda R, pi: 0), START)
    with pytest.raises(ValueError, match="got the class SO3"):
        run("symplectic", 0.1, 1.0, Hamiltonian(SO3(), SO3), START)
    with pytest.raises(ValueError, match="`trivialisation` must be"):
        LiePoisson(SO3(), lambda mu: mu @ mu, "middle")
    assert isinstance(TUMBLING.state_space, Cotangent)

"""The implicit midpoint rule: orders, symmetry, what it keeps on Rⁿ and on curved spaces, and controls that fail."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compiled, evaluated

import polhode as ph
from polhode import integrators
from polhode.integrators import ImplicitMidpoint, SymmetricComposition
from polhode.spaces import S2, SO3, CoadjointOrbit, Product, Rn
from polhode.systems import VectorField

INERTIA = jnp.array([1.0, 2.0, 2.7])
J = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])


class SwingSystem(eqx.Module):
    """H = ½|p|² + ½(k₁q₁² + k₂q₂²) + q₁²q₂ - q₂³/3 in (q, p), without resonance at the start."""

    stiffness: jax.Array = eqx.field(default_factory=lambda: jnp.array([1.0, 2.3]))

    def __call__(self, t, x):
        q, p = x[:2], x[2:]
        slope = self.stiffness * q + jnp.stack((2 * q[0] * q[1], q[0] ** 2 - q[1] ** 2))
        return jnp.concatenate((p, -slope))

    def energy(self, x):
        q, p = x[..., :2], x[..., 2:]
        cubic = q[..., 0] ** 2 * q[..., 1] - q[..., 1] ** 3 / 3
        return 0.5 * (p**2).sum(-1) + 0.5 * (self.stiffness * q**2).sum(-1) + cubic


def driven_field(t, state):
    """Tumbling of a body that a torque pushes periodically; (Q, Ω) on SO(3)×R³."""
    _, omega = state
    torque = jnp.cross(INERTIA * omega, omega) + jnp.array([0.3, 0.0, -0.2]) * jnp.cos(3 * t)
    return jnp.concatenate((omega, torque / INERTIA))


FLAT = VectorField(Rn(4), SwingSystem())
FLAT_START = jnp.array([0.3, 0.1, -0.2, 0.35])
BODY = VectorField(Product(SO3(), Rn(3)), driven_field)
BODY_START = (jnp.eye(3), jnp.array([1.0, -1.5, 2.0]))


def rotation_field(t, y):
    """A point on the sphere, turned about an axis that depends on where it is."""
    return jnp.stack((y[1] * y[2], 1.0 + 0 * t, y[0] ** 2 - jnp.sin(t)))


SPHERE = VectorField(S2(), rotation_field)
SPHERE_START = jnp.array([0.6, 0.0, 0.8])

CASES = {"R4": (FLAT, FLAT_START), "SO3xR3": (BODY, BODY_START), "S2": (SPHERE, SPHERE_START)}


def run(method, h, t1, system=FLAT, state0=FLAT_START, **options):
    return ph.simulate(system, method, h=h, t1=t1, state0=state0, **options)


def end(method, h, system, state0):
    result = run(method, h, 2.0, system, state0, save_every=None)
    return np.concatenate([np.ravel(x[-1]) for x in jax.tree.leaves(result.state)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("space", "target"),
    [
        ("S2", 2),
        ("R4", 4),
        ("SO3xR3", 4),
        ("R4", 6),
    ],
)
def test_orders(space, target):
    method = ImplicitMidpoint() if target == 2 else SymmetricComposition(ImplicitMidpoint(), target)
    assert method.order == target
    h = 0.1 if target == 2 else 0.2
    exact = end("rkmk6", 0.0025, *CASES[space])
    errors = [np.linalg.norm(end(method, step, *CASES[space]) - exact) for step in (h, h / 2)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(target, abs=0.25)


def one_step(method, system, state, h, t=0.0):
    carry = method.init(system, jnp.asarray(t), jnp.asarray(h), state)
    return method.step(system, jnp.asarray(t), jnp.asarray(h), carry)[0].state


@pytest.mark.sampled(2)
@pytest.mark.parametrize("space", CASES)
def test_steps_back_undo_steps(space):
    system, state = CASES[space]

    def back_and_forth(method):
        there = one_step(method, system, state, 0.3, 0.2)
        return one_step(method, system, there, -0.3, 0.5)

    gaps = jax.tree.map(lambda a, b: np.abs(a - b).max(), evaluated(lambda: back_and_forth(ImplicitMidpoint())), state)
    assert max(jax.tree.leaves(gaps)) < 1e-14
    control = evaluated(lambda: back_and_forth(integrators.get("lie-midpoint")))
    assert max(jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(a - b).max(), control, state))) > 1e-6


@pytest.mark.parametrize(("name", "keeps"), [("implicit-midpoint", True), ("lie-midpoint", False), ("rk4", False)])
def test_the_symplectic_form_on_linear_spaces(name, keeps):
    method = integrators.get(name)
    D = evaluated(jax.jacfwd(lambda x: one_step(method, FLAT, x, 0.3)), FLAT_START)
    gap = np.abs(D.T @ J @ D - J).max()
    assert gap < 1e-12 if keeps else gap > 1e-6


@pytest.mark.parametrize(("name", "keeps"), [("implicit-midpoint", True), ("rk4", False)])
def test_quadratic_invariants_of_linear_spaces(name, keeps):
    """Energy and momentum of a free body in Euler's equations."""
    euler = VectorField(Rn(3), lambda t, m: jnp.cross(m, m / INERTIA))
    result = run(name, 0.2, 100.0, euler, jnp.array([1.0, -1.5, 2.0]))
    m = np.asarray(result.state)
    changes = [np.ptp((m**2).sum(1)), np.ptp((m**2 / INERTIA).sum(1))]
    assert max(changes) < 1e-13 if keeps else min(changes) > 1e-5


@pytest.mark.parametrize(("name", "drifts"), [("implicit-midpoint", False), ("rk4", True)])
def test_energy_without_drift(name, drifts):
    """10,000 steps: thirds of the run have the same mean, unless it drifts."""
    energy = FLAT.field.energy(np.asarray(run(name, 0.2, 2000.0).state))
    change = energy - energy[0]
    third = len(change) // 3
    drift = abs(change[-third:].mean() - change[:third].mean()) / np.abs(change).max()
    assert (drift > 0.3) == drifts
    assert (drift < 0.02) != drifts


@pytest.mark.parametrize(("name", "keeps"), [("implicit-midpoint", True), ("rk4", False)])
def test_what_the_action_keeps(name, keeps):
    orbit = VectorField(CoadjointOrbit(SO3()), lambda t, m: -m / INERTIA)
    m = run(name, 0.2, 100.0, orbit, jnp.array([1.0, -1.5, 2.0])).state
    change = np.ptp(np.linalg.norm(m, axis=1))
    assert change < 1e-13 if keeps else change > 1e-5


@pytest.mark.parametrize(("name", "stays"), [("implicit-midpoint", True), ("rk4", False)])
def test_the_space(name, stays):
    gap = run(name, 0.2, 100.0, SPHERE, SPHERE_START).residuals["manifold"].max()
    assert gap < 1e-13 if stays else gap > 1e-6


def test_stiff_fields_don_t_bound_the_step():
    stiff = VectorField(Rn(2), lambda t, x: jnp.stack((-x[0], 1e6 * (jnp.cos(x[0]) - x[1]))))
    start = jnp.array([1.0, np.cos(1.0)])
    result = run("implicit-midpoint", 0.1, 2.0, stiff, start)
    np.testing.assert_allclose(result.state[-1], (np.exp(-2), np.cos(np.exp(-2))), atol=1e-2)
    failed = run("rk4", 0.1, 2.0, stiff, start, throw=False)
    assert failed.stats["result"] != ph.Result.successful


def test_matrices_whose_leading_minors_vanish():
    """Without pivots 1 - h f'/2 can't be factorised here."""
    turning = VectorField(Rn(2), lambda t, x: jnp.array([[20.0, 1.0], [-1.0, 0.0]]) @ x)
    result = run("implicit-midpoint", 0.1, 0.1, turning, jnp.array([0.2, 0.1]))
    A = 0.05 * np.array([[20.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(result.state[-1], np.linalg.solve(np.eye(2) - A, (np.eye(2) + A) @ (0.2, 0.1)))


@pytest.mark.exhaustive
def test_interpolation_has_the_order_that_it_says():
    method = ImplicitMidpoint()
    t, state = jnp.zeros(()), BODY_START

    def gap(h):
        carry = method.init(BODY, t, h, state)
        after, _ = method.step(BODY, t, h, carry)
        between = method.interpolate(BODY, t, h, carry, after, jnp.asarray(0.4))
        fine = integrators.get("rkmk6")
        exact = one_step(fine, BODY, state, 0.4 * h)
        ends = one_step(fine, BODY, state, h)
        # What the step itself is off by is not the interpolation's.
        return jnp.linalg.norm(between[0] - exact[0]), jnp.linalg.norm(after.state[0] - ends[0])

    measure = compiled(gap, jnp.asarray(0.1))
    (coarse, step), (fine, _) = (measure(jnp.asarray(h)) for h in (0.1, 0.05))
    assert coarse < step
    assert np.log2(coarse / fine) > 2.8


def test_failures_have_result_codes():
    wild = VectorField(Rn(1), lambda t, x: jnp.exp(x))
    result = run("implicit-midpoint", 5.0, 10.0, wild, jnp.array([1.0]), throw=False)
    assert result.stats["result"] in (ph.Result.newton_not_converged, ph.Result.nonfinite_state)
    with pytest.raises(ValueError, match="`max_iterations` must be"):
        ImplicitMidpoint(max_iterations=0)

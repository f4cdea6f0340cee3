"""The Rodrigues maps and Verlet's method for bodies of any shape: orders, symmetry, what is kept, any rotation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.spaces import component_arrays, quaternions
from polhode.systems import BodyStates, Separable

_MAPS = ("21", "23", "25", "exponential")
_SPHERES = np.array([0.7, 1.3])
_ELLIPSOIDS = np.array([[1.0, 2.0, 2.5], [0.6, 0.9, 1.2]])
_MASSES = np.array([1.0, 2.0])


class _Potential(eqx.Module):
    """Springs between points of two bodies and to the ground: depends on all places and attitudes."""

    stiffness: jax.Array

    def __call__(self, x, R):
        a = x[0] + R[0] @ jnp.array([0.3, 0.0, 0.2])
        b = x[1] + R[1] @ jnp.array([0.0, -0.4, 0.1])
        fixed = x[0] + R[0] @ jnp.array([-0.2, 0.1, 0.0]) - jnp.array([0.5, 0.2, -0.3])
        return self.stiffness * (jnp.sum((a - b) ** 2) + 0.5 * jnp.sum(fixed**2)) + R[1, 2, 2]


def _system(inertias):
    return Separable(_MASSES, inertias, _Potential(jnp.asarray(1.5)))


def _start():
    rng = np.random.default_rng(1)
    q = rng.standard_normal((2, 4))
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    x, v, omega = rng.standard_normal((3, 2, 3))
    return BodyStates(*map(jnp.asarray, (x, q, 0.5 * v, omega)))


def _exact(inertias, t1):
    """Euler's equations in the bodies with quaternions, by DOP853: another formulation of the same bodies."""
    potential = _system(inertias).potential
    J = np.broadcast_to(inertias[:, None], (2, 3)) if np.ndim(inertias) == 1 else inertias
    gradient = jax.jit(jax.grad(potential, (0, 1)))

    def rates(t, y):
        x, q, v, w = y[:6].reshape(2, 3), y[6:14].reshape(2, 4), y[14:20].reshape(2, 3), y[20:].reshape(2, 3)
        R = np.array([np.asarray(quaternions.to_matrix(jnp.asarray(a / np.linalg.norm(a)))) for a in q])
        of_x, of_R = (np.asarray(a) for a in gradient(x, R))
        S = np.einsum("nji,njk->nik", of_R, R)  # (∂U/∂R)ᵀ R
        M = np.stack([(S - S.transpose(0, 2, 1))[:, i, j] for i, j in ((2, 1), (0, 2), (1, 0))], axis=1)
        dq = np.array([0.5 * np.asarray(quaternions.multiply(a, np.append(0.0, b))) for a, b in zip(q, w, strict=True)])
        dw = (M - np.cross(w, J * w)) / J
        return np.concatenate((v.ravel(), dq.ravel(), (-of_x / _MASSES[:, None]).ravel(), dw.ravel()))

    s = _start()
    body = jax.vmap(lambda a, b: quaternions.rotate(quaternions.conjugate(a), b))(s.q, s.omega)
    y0 = np.concatenate([np.asarray(a).ravel() for a in (s.x, s.q, s.v, body)])
    y = solve_ivp(rates, (0, t1), y0, method="DOP853", rtol=1e-11, atol=1e-11).y[:, -1]
    q, w = y[6:14].reshape(2, 4), y[20:].reshape(2, 3)
    omega = np.array(
        [np.asarray(quaternions.rotate(jnp.asarray(a), jnp.asarray(b))) for a, b in zip(q, w, strict=True)]
    )
    return BodyStates(y[:6].reshape(2, 3), q, y[14:20].reshape(2, 3), omega)


def _method(name, **options):
    return ph.integrators.get(name, **options)


_METHODS = [(_method("rodrigues", map=m), _SPHERES) for m in (*_MAPS, "26", "27")] + [
    (_method("rigid-verlet", drift=d), _ELLIPSOIDS) for d in ("splitting", "moser-veselov")
]
_IDS = [*(f"rodrigues-{m}" for m in (*_MAPS, "26", "27")), "splitting", "moser-veselov"]


def _errors(end, exact):
    apart = jnp.stack(component_arrays.relative_rotation(tuple(end.q.T), tuple(jnp.asarray(exact.q).T)))
    pairs = (end.x, exact.x), (end.v, exact.v), (end.omega, exact.omega)
    return np.array([np.max(np.abs(apart)), *(np.max(np.abs(a - b)) for a, b in pairs)])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "inertias"), _METHODS, ids=_IDS)
def test_orders_of_attitude_place_and_velocities(method, inertias):
    system, exact = _system(inertias), _exact(inertias, 1.0)
    errors = []
    for h in (0.01, 0.005, 0.0025):
        run = ph.simulate(system, method, state0=_start(), t1=1.0, h=h, save_every=None)
        errors.append(_errors(BodyStates(*(a[-1] for a in run.state)), exact))
    orders = np.log2(np.array(errors)[:-1] / np.array(errors)[1:])
    assert np.all(np.abs(orders[-1] - method.order) < 0.12), orders


@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "inertias"), _METHODS, ids=_IDS)
def test_backward_steps_undo_forward_ones(method, inertias):
    system, start = _system(inertias), _start()
    there = ph.simulate(system, method, state0=start, t1=2.0, h=0.01, save_every=None)
    end = BodyStates(*(a[-1] for a in there.state))
    back = ph.simulate(system, method, state0=end, t0=2.0, t1=0.0, h=0.01, save_every=None)
    apart = float(np.max(_errors(BodyStates(*(a[-1] for a in back.state)), start)))
    assert (apart < 1e-12) == method.symmetric


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize(("method", "inertias"), _METHODS, ids=_IDS)
def test_maps_are_symplectic(method, inertias):
    """The Jacobian of a step in (turns, places; spins, momenta), right-trivialised, keeps the canonical form of T*G."""
    system, start = _system(inertias), _start()
    h = jnp.asarray(0.1)

    def state_of(z):
        theta, x, spin, p = z.reshape(4, 2, 3)
        q = jax.vmap(lambda a, b: quaternions.multiply(quaternions.from_vector(a), b))(theta, start.q)
        if system.spherical:
            omega = spin / system.inertias[:, None]
        else:
            inward = jax.vmap(lambda a, b: quaternions.rotate(quaternions.conjugate(a), b))(q, spin)
            omega = jax.vmap(quaternions.rotate)(q, inward / system.inertias)
        return BodyStates(x, q, p / system.masses[:, None], omega)

    z0 = jnp.concatenate([a.reshape(-1) for a in (jnp.zeros((2, 3)), start.x, system.spins(start), 2 * start.v)])
    z0 = z0.at[18:].set((system.masses[:, None] * start.v).reshape(-1))

    def step(z):
        return method.step(system, 0.0, h, method.init(system, 0.0, h, state_of(z)))[0].state

    end = step(z0)

    def chart(z):
        s = step(z)
        turn = jax.vmap(lambda a, b: quaternions.to_vector(quaternions.multiply(a, quaternions.conjugate(b))))(
            s.q, end.q
        )
        return jnp.concatenate([a.reshape(-1) for a in (turn, s.x, system.spins(s), system.masses[:, None] * s.v)])

    def form(spin):
        """ω = Σ dx∧dp + dθ∧dπ + ½ π·(dθ × dθ) at θ = 0, with the sign of the right trivialisation."""
        W = np.zeros((24, 24))
        W[:12, 12:], W[12:, :12] = np.eye(12), -np.eye(12)
        for k in range(2):
            a, b, c = np.asarray(spin)[k]
            W[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])
        return W

    A = np.asarray(jax.jit(jax.jacfwd(chart))(z0))
    W0 = form(system.spins(state_of(z0)))
    W1 = form(system.spins(end))
    gap = min(np.max(np.abs(A.T @ _same_sign(W1, s) @ A - _same_sign(W0, s))) for s in (1, -1))
    implicit = getattr(method, "map", "") == "26"
    assert (gap < 1e-12) == (not implicit)


def _same_sign(W, sign):
    """The form with the other sign of its part in π."""
    out = W.copy()
    out[:12, :12] *= sign
    return out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("map", [*_MAPS, "27"])
def test_many_turns_keep_their_accuracy(map):
    """A sphere turns freely through ten revolutions: the angle of a step is known in closed form."""
    rate, h = 2 * np.pi * np.array([0.6, -0.3, 0.7]) / np.linalg.norm([0.6, -0.3, 0.7]), 0.01
    system = Separable(np.ones(1), np.ones(1), lambda x, R: 0.0 * R[0, 0, 0])
    start = BodyStates(jnp.zeros((1, 3)), jnp.array([[1.0, 0, 0, 0]]), jnp.zeros((1, 3)), jnp.asarray(rate[None]))
    run = ph.simulate(system, _method("rodrigues", map=map), state0=start, t1=10.0, h=h)
    a = h * 2 * np.pi
    angle = {"exponential": a, "25": 2 * np.arctan(a / 2), "27": 2 * np.arctan(a / 2)}.get(map, np.arcsin(a))
    turns = np.arange(1001)[:, None] * angle * rate / (2 * np.pi)
    exact = jax.vmap(lambda t: quaternions.to_matrix(quaternions.from_vector(t)))(jnp.asarray(turns))
    result = jax.vmap(quaternions.to_matrix)(run.state[1][:, 0])
    assert float(jnp.max(jnp.abs(result - exact))) < 2e-12
    assert 1000 * angle > 19.9 * np.pi


def test_turns_that_are_too_large_are_named():
    system = Separable(np.ones(1), np.ones(1), lambda x, R: 0.0 * R[0, 0, 0])
    start = BodyStates(jnp.zeros((1, 3)), jnp.array([[1.0, 0, 0, 0]]), jnp.zeros((1, 3)), jnp.array([[0.0, 0, 11.0]]))
    for map in ("21", "23"):
        with pytest.raises(ph.SimulationError, match=r"h\|Ω\| < 1.*map='25'"):
            ph.simulate(system, _method("rodrigues", map=map), state0=start, t1=1.0, h=0.1)
    assert ph.simulate(system, _method("rodrigues", map="25"), state0=start, t1=1.0, h=0.1).stats["steps"] == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [({"map": "24"}, "`map` must be '21' or '23'"), ({"map": "26", "phi": 1.5}, r"`phi` must be a number in \[0, 1\]")],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        _method("rodrigues", **options)


def test_what_a_method_does_not_take_is_refused_with_the_one_that_does():
    start = _start()
    with pytest.raises(ValueError, match="Use `rigid-verlet`"):
        ph.simulate(_system(_ELLIPSOIDS), "rodrigues", state0=start, t1=1.0, h=0.1)
    with pytest.raises(ValueError, match="must be greater than zero"):
        Separable(_MASSES, np.array([1.0, -1.0]), _Potential(jnp.asarray(1.0)))
    bad = Separable(_MASSES, _SPHERES, lambda x, R: x)
    with pytest.raises(ValueError, match="potential"):
        ph.simulate(bad, "rodrigues", state0=start, t1=1.0, h=0.1)

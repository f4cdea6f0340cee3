"""Störmer–Verlet and RATTLE: orders, the symplectic form, constraints, momenta, energy, and controls that fail."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode import integrators
from polhode.integrators import Rattle, StormerVerlet, SymmetricComposition
from polhode.systems import Lagrangian, QuaternionBody, VectorField

MASS = jnp.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 1.5]])


def bowl(q):
    return 0.5 * q @ q + 0.3 * q[0] ** 2 * q[1] + 0.1 * q[2] ** 4


FREE = Lagrangian(3, MASS, bowl)
FREE_START = FREE.start([0.5, -0.2, 0.4], [0.1, 0.6, -0.3])

PENDULUM = Lagrangian(3, 2 * jnp.eye(3), lambda q: 2 * 9.81 * q[2], lambda q: 0.5 * (q @ q - 1)[None], 1)
PENDULUM_START = PENDULUM.start([1.0, 0.0, 0.0], [0.0, 1.5, 0.5])


def double(q):
    """Two links; the second one's direction and length couple the particles."""
    return jnp.stack((0.5 * (q[:3] @ q[:3] - 1), 0.5 * ((q[3:] - q[:3]) @ (q[3:] - q[:3]) - 1)))


DOUBLE = Lagrangian(6, jnp.diag(jnp.array([1.0, 1, 1, 2, 2, 2])), lambda q: 9.81 * (q[2] + 2 * q[5]), double, 2)
DOUBLE_START = DOUBLE.start([1.0, 0, 0, 1, 1, 0], [0.0, 0.3, 0.5, -0.4, 0.3, 0.2])

CASES = {
    "free": (FREE, FREE_START, "stormer-verlet"),
    "pendulum": (PENDULUM, PENDULUM_START, "rattle"),
    "double": (DOUBLE, DOUBLE_START, "rattle"),
}


def run(case, h, t1, method=None, **options):
    system, start, name = CASES[case] if isinstance(case, str) else case
    return ph.simulate(system, method or name, h=h, t1=t1, state0=start, **options)


def end(case, h, method=None):
    result = run(case, h, 1.0, method, save_every=None)
    parts = (result.state.q, result.state.v, result.state.p, result.multipliers)
    return [np.asarray(x[-1]) for x in parts if x is not None]


@cache
def exact(case):
    return end(case, 1 / 512, SymmetricComposition(integrators.get(CASES[case][2]), 6))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ["free", "pendulum"])
def test_compositions_raise_the_order(case):
    method = SymmetricComposition(integrators.get(CASES[case][2]), 4)
    errors = [
        [np.linalg.norm(a - b) for a, b in zip(end(case, h, method), exact(case), strict=True)] for h in (0.1, 0.05)
    ]
    np.testing.assert_allclose(np.log2(np.divide(*errors))[:2], 4, atol=0.5)


def test_the_reference_is_that_of_another_method():
    """A spherical pendulum as a vector field of q and v, order 6."""

    def field(t, x):
        q, v = x[:3], x[3:]
        g = jnp.array([0.0, 0.0, -9.81])
        return jnp.concatenate((v, g - (q @ g + v @ v) / (q @ q) * q))

    system = VectorField(ph.spaces.Rn(6), field)
    start = jnp.concatenate(PENDULUM_START[:2])
    result = ph.simulate(system, "rk6", h=1e-3, t1=1.0, state0=start, save_every=None).state[-1]
    q, v, _, multiplier = exact("pendulum")
    np.testing.assert_allclose(np.concatenate((q, v)), result, atol=1e-9)
    # 2 q̈ = 2g - λq, and q·q̈ = -v·v.
    np.testing.assert_allclose(multiplier, 2 * (v @ v - 9.81 * q[2]), atol=1e-8)


def one_step(method, system, q, v, h):
    carry = method.init(system, jnp.zeros(()), jnp.asarray(h), system.start(q, v))
    return method.step(system, jnp.zeros(()), jnp.asarray(h), carry)[0].state


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_steps_back_undo_steps(case):
    system, start, name = CASES[case]
    method = integrators.get(name)

    def back_and_forth():
        there = one_step(method, system, start.q, start.v, 0.1)
        return one_step(method, system, there.q, there.v, -0.1)

    back = evaluated(back_and_forth)
    np.testing.assert_allclose(back.q, start.q, atol=1e-14)
    np.testing.assert_allclose(back.v, start.v, atol=1e-13)


def form(n):
    return np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])


def test_stormer_verlet_keeps_the_symplectic_form():
    def step(x):
        state = one_step(StormerVerlet(), FREE, x[:3], jnp.linalg.solve(MASS, x[3:]), 0.3)
        return jnp.concatenate((state.q, state.p))

    D = evaluated(jax.jacfwd(step), jnp.concatenate((FREE_START.q, FREE_START.p)))
    assert np.abs(D.T @ form(3) @ D - form(3)).max() < 1e-12


def test_rk4_does_not_keep_the_symplectic_form():
    field = VectorField(
        ph.spaces.Rn(6),
        lambda t, x: jnp.concatenate((jnp.linalg.solve(MASS, x[3:]), -jax.grad(bowl)(x[:3]))),
    )
    method = integrators.get("rk4")

    def step(x):
        return method.step(field, 0.0, jnp.asarray(0.3), method.init(field, 0.0, 0.3, x))[0].state

    D = evaluated(jax.jacfwd(step), jnp.concatenate((FREE_START.q, FREE_START.p)))
    assert np.abs(D.T @ form(3) @ D - form(3)).max() > 1e-7


def sphere(angles):
    """Coordinates of the pendulum by two angles."""
    a, b = angles
    return jnp.stack((jnp.cos(a) * jnp.cos(b), jnp.cos(a) * jnp.sin(b), jnp.sin(a)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("projected", [True, False])
def test_rattle_keeps_the_symplectic_form_of_the_constrained_motion(projected):
    """In angles and their momenta. The control leaves the velocity as it is instead of projecting it."""

    def local(q, v):
        angles = jnp.stack((jnp.arcsin(q[2] / jnp.linalg.norm(q)), jnp.arctan2(q[1], q[0])))
        return jnp.concatenate((angles, 2 * jax.jacfwd(sphere)(angles).T @ v))

    def step(x):
        tangents = jax.jacfwd(sphere)(x[:2])
        v = tangents @ jnp.linalg.solve(2 * tangents.T @ tangents, x[2:])
        end = one_step(Rattle(), PENDULUM, sphere(x[:2]), v, 0.1)
        return local(end.q, end.v if projected else end.v + 1e-3 * jnp.cross(end.q, v) * end.q[2])

    D = evaluated(jax.jacfwd(step), jnp.array([0.3, 0.4, 0.5, 1.2]))
    gap = np.abs(D.T @ form(2) @ D - form(2)).max()
    assert gap < 1e-12 if projected else gap > 1e-6


def momentum_about_the_vertical(found):
    q, v = np.asarray(found.state.q), np.asarray(found.state.v)
    return 2 * (q[:, 0] * v[:, 1] - q[:, 1] * v[:, 0])


def test_the_spherical_pendulum_over_long_times():
    """10,000 steps: both constraints, the momentum about the vertical, and the energy without drift."""
    result = run("pendulum", 0.05, 500.0)
    q, v = np.asarray(result.state.q), np.asarray(result.state.v)
    assert result.residuals["position"].max() < 1e-13
    assert np.abs((q * v).sum(1)).max() < 1e-13
    momentum = momentum_about_the_vertical(result)
    assert np.ptp(momentum) < 1e-12
    change = np.asarray(result.invariants["energy"]) - result.invariants["energy"][0]
    third = len(change) // 3
    assert abs(change[-third:].mean() - change[:third].mean()) < 0.01 * np.abs(change).max()
    assert np.abs(change).max() < 0.25
    smaller = np.asarray(run("pendulum", 0.025, 50.0).invariants["energy"])
    assert 3.5 < np.abs(change[:1000]).max() / np.abs(smaller - smaller[0]).max() < 4.5


def test_what_other_methods_do_to_the_spherical_pendulum():
    """RK4 on the equations with the multiplier eliminated loses everything that RATTLE keeps."""

    def field(t, x):
        q, v = x[:3], x[3:]
        g = jnp.array([0.0, 0.0, -9.81])
        return jnp.concatenate((v, g - (q @ g + v @ v) / (q @ q) * q))

    system = VectorField(ph.spaces.Rn(6), field)
    start = jnp.concatenate(PENDULUM_START[:2])
    x = np.asarray(ph.simulate(system, "rk4", h=0.05, t1=20.0, state0=start).state)
    q, v = x[:, :3], x[:, 3:]
    energy = (v**2).sum(1) + 2 * 9.81 * q[:, 2]
    third = len(energy) // 3
    assert abs(energy[-third:].mean() - energy[:third].mean()) > 0.3 * np.abs(energy - energy[0]).max() > 1e-4
    assert np.abs((q * q).sum(1) - 1).max() > 1e-4
    assert np.ptp(q[:, 0] * v[:, 1] - q[:, 1] * v[:, 0]) > 1e-6


@pytest.mark.exhaustive
def test_linear_and_angular_momentum_of_particles():
    """Two free particles on a spring that is not linear; a rigid bar in place of the spring."""
    gap = lambda q: q[3:] - q[:3]  # noqa: E731
    mass = jnp.diag(jnp.array([1.0, 1, 1, 2, 2, 2]))
    q, v = [0.0, 0, 0, 1, 0, 0], [0.1, 0.5, 0.2, 0.1, -0.3, 0.4]
    spring = Lagrangian(6, mass, lambda q: (gap(q) @ gap(q) - 1) ** 2)
    bar = Lagrangian(6, mass, None, lambda q: 0.5 * (gap(q) @ gap(q) - 1)[None], 1)
    for system, method in ((spring, "stormer-verlet"), (bar, "rattle")):
        result = run((system, system.start(q, v), method), 0.1, 100.0)
        q1, p1 = (np.reshape(x, (-1, 2, 3)) for x in (result.state.q, result.state.p))
        for quantity in (p1.sum(1), np.cross(q1, p1).sum(1)):
            assert np.ptp(quantity, axis=0).max() < 1e-11
        assert np.ptp(p1[:, 0], axis=0).max() > 0.1


def test_rk4_does_not_keep_angular_momentum():
    """The particles on the spring of the test above."""

    def field(t, x):
        gap = x[3:6] - x[:3]
        pull = 4 * (gap @ gap - 1) * gap
        return jnp.concatenate((x[6:], pull, -pull / 2))

    start = jnp.array([0.0, 0, 0, 1, 0, 0, 0.1, 0.5, 0.2, 0.1, -0.3, 0.4])
    x = ph.simulate(VectorField(ph.spaces.Rn(12), field), "rk4", h=0.1, t1=100.0, state0=start).state
    q, v = (np.reshape(part, (-1, 2, 3)) for part in (x[:, :6], x[:, 6:]))
    momentum = np.cross(q[:, 0], v[:, 0]) + 2 * np.cross(q[:, 1], v[:, 1])
    assert np.ptp(momentum, axis=0).max() > 1e-5


@pytest.mark.exhaustive
@pytest.mark.parametrize(("case", "drifts"), [("free", False), ("rk4", True)])
def test_energy_of_free_systems_without_drift(case, drifts):
    if drifts:
        field = VectorField(
            ph.spaces.Rn(6),
            lambda t, x: jnp.concatenate((x[3:], -jnp.linalg.solve(MASS, jax.grad(bowl)(x[:3])))),
        )
        start = jnp.concatenate(FREE_START[:2])
        x = ph.simulate(field, "rk4", h=0.3, t1=3000.0, state0=start).state
        energy = jax.vmap(lambda x: FREE.total_energy(FREE.start(x[:3], x[3:])))(x)
    else:
        energy = run("free", 0.3, 3000.0).invariants["energy"]
    change = np.asarray(energy) - energy[0]
    third = len(change) // 3
    drift = abs(change[-third:].mean() - change[:third].mean()) / np.abs(change).max()
    assert (drift > 0.3) == drifts
    assert (drift < 0.02) != drifts


def test_rattle_without_constraints_is_stormer_verlet():
    ends = [run("free", 0.1, 2.0, method).state.v[-1] for method in ("rattle", "stormer-verlet")]
    np.testing.assert_array_equal(*ends)


class Brake(eqx.Module):
    """A drag that grows with time, and a push."""

    drag: jax.Array

    def __call__(self, t, q, v):
        return -self.drag * (1 + jnp.sin(t)) * v + jnp.array([0.1, 0.0, 0.2]) * jnp.cos(2 * t)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ["free", "pendulum"])
def test_loads_that_depend_on_time_and_velocities_keep_the_order(case):
    system, start, name = CASES[case]
    loaded = eqx.tree_at(lambda s: s.loads, system, Brake(jnp.asarray(0.7)), is_leaf=lambda x: x is None)
    result = [run((loaded, start, name), h, 1.0, save_every=None).state for h in (0.02, 0.01, 0.005)]
    q = [np.concatenate((s.q[-1], s.v[-1])) for s in result]
    ratio = np.linalg.norm(q[0] - q[1]) / np.linalg.norm(q[1] - q[2])
    assert np.log2(ratio) == pytest.approx(2, abs=0.2)
    reference = run((loaded, start, "mpl"), 1 / 1000, 1.0, save_every=None).state
    np.testing.assert_allclose(q[2], np.concatenate((reference.q[-1], reference.v[-1])), atol=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ["free", "pendulum"])
def test_interpolation_in_a_step_is_as_good_as_the_step(case):
    system, start, name = CASES[case]
    method, t = integrators.get(name), jnp.zeros(())

    def between(h):
        carry = method.init(system, t, h, start)
        after, _ = method.step(system, t, h, carry)
        return jax.vmap(lambda s: method.interpolate(system, t, h, carry, after, s))(jnp.array([0.0, 0.4, 1.0])), after

    def errors(h):
        inside, after = evaluated(between, jnp.asarray(h))
        for whole, ends in ((start, inside), (after.state, jax.tree.map(lambda x: x[2:], inside))):
            np.testing.assert_allclose(ends.q[0], whole.q, atol=1e-15)
            np.testing.assert_allclose(ends.v[0], whole.v, atol=1e-15)
        exact = run(case, h / 100, 0.4 * h, SymmetricComposition(method, 4), save_every=None).state
        gaps = [np.linalg.norm(a[1] - b[-1]) for a, b in ((inside.q, exact.q), (inside.v, exact.v))]
        return np.array([*gaps, *np.abs(system.constraint(inside.q[1]))])

    orders = np.log2(errors(0.1) / errors(0.05))
    assert orders[:2].min() > 2.7
    assert np.all(orders[2:] > 3.7)


METHODS = {"stormer-verlet": StormerVerlet(), "rattle": Rattle()}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("system", "message"),
    [
        (Lagrangian(2, jnp.diag(jnp.array([1.0, 0.0])), lambda q: q @ q), "is singular or indefinite"),
        (Lagrangian(2, jnp.array([[1.0, 1e9], [1e9, 1e18]]), lambda q: q @ q), "is singular or indefinite"),
        (Lagrangian(2, lambda q, v: 0.5 * (1 + q[0] ** 2) * (v @ v), lambda q: q @ q), "changes with q"),
    ],
    ids=["singular", "of rank one", "changing"],
)
def test_mass_matrices_that_do_not_fit_are_refused(method, system, message):
    message = rf"mass matrix of this Lagrangian system.* {message}; `{method}` .* Use `eml` or `mpl`"
    start = system.start([0.0, 1.0], [0.0, 0.0])
    with pytest.raises(ValueError, match=message):
        METHODS[method].check(system, 0.0, start)
    with pytest.raises(ValueError, match=message):
        ph.simulate(system, method, h=0.1, t1=1.0, state0=start)


def test_masses_of_very_different_size_are_regular():
    system = Lagrangian(2, jnp.diag(jnp.array([1e10, 1e-6])), lambda q: 0.5 * q @ q)
    StormerVerlet().check(system, 0.0, system.start([0.0, 1.0], [0.0, 0.0]))


def test_quaternions_are_refused():
    body = QuaternionBody(jnp.array([1.0, 2.0, 2.7]))
    with pytest.raises(ValueError, match="The mass matrix of this rigid body"):
        Rattle().check(body, 0.0, body.turning([1.0, 0, 0, 0], [1.0, 0, 0]))


def test_constraints_are_refused_by_stormer_verlet():
    with pytest.raises(ValueError, match=r"this Lagrangian system has 1\. `rattle` is"):
        run("pendulum", 0.1, 1.0, "stormer-verlet")


def test_failures_have_result_codes():
    twice = Lagrangian(3, jnp.eye(3), None, lambda q: jnp.stack((q[2], 2 * q[2])), 2)
    state = twice.start([1.0, 0, 0], [0.0, 1.0, 0])
    assert run((twice, state, "rattle"), 0.1, 1.0, throw=False).stats["result"] != ph.Result.successful
    with pytest.raises(ValueError, match="`max_iterations` must be"):
        Rattle(max_iterations=0)
    # A step with which the circle can't be reached.
    far = run("pendulum", 2.0, 20.0, throw=False)
    assert far.stats["result"] in (ph.Result.newton_not_converged, ph.Result.singular_constraints)

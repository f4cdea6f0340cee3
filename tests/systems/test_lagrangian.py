"""Discrete gradients, Lagrangian systems and the quaternion body, evaluated at single steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.spaces import quaternions
from polhode.systems import Gonzalez, Lagrangian, LivensState, MeanValue, QuaternionBody, Through
from polhode.systems.quaternion_body import E, E_transposed, G, G_transposed

EPS = np.finfo(float).eps
RNG = np.random.default_rng(4)
DIRECTION = RNG.standard_normal(3) / 2
PLACE = RNG.standard_normal(3)


def scalar(x):
    return jnp.sin(x[0]) * x[1] ** 3 + jnp.exp(0.3 * x[2]) * x[0]


def vector(x):
    return jnp.stack((jnp.sin(x[0]) * x[1], x[2] ** 4))


def squares(x):
    return jnp.stack((x @ x, x[0] * x[1]))


FUNCTIONS = {
    "scalar": scalar,
    "vector": vector,
    "through": Through(lambda s: jnp.sin(0.2 * s[0]) + s[1] ** 3, squares),
    "vector through": Through(lambda s: jnp.stack((jnp.cos(s[0]), s[0] * s[1])), squares),
}
GRADIENTS = {"gonzalez": Gonzalez(), "mean-value": MeanValue(2)}


def of_a_step(name, gradient, size, shift=0.0):
    """|∇̄f·Δx - Δf|, and the sizes of f and of its derivative."""
    f = FUNCTIONS[name]
    x0 = jnp.asarray(PLACE + shift)
    x1 = x0 + size * DIRECTION
    step = x1 - x0
    lack = jnp.max(jnp.abs(GRADIENTS[gradient](f, x0, x1) @ step - (f(x1) - f(x0))))
    return float(lack), float(jnp.max(jnp.abs(f(x0)))), float(jnp.max(jnp.abs(jax.jacfwd(f)(x0))))


@pytest.mark.exhaustive
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_product_with_the_step_is_the_change(name, gradient, size, shift):
    lack, value, slope = of_a_step(name, gradient, size, shift)
    # f(x1) - f(x0) itself is known to this.
    assert lack <= 16 * EPS * (value + slope * (1 + shift))


def test_midpoint_gradients_do_not_satisfy_that():
    x0, x1 = jnp.asarray(PLACE), jnp.asarray(PLACE + DIRECTION)
    step = x1 - x0
    for f in (scalar, vector):
        assert jnp.max(jnp.abs(jax.jacfwd(f)(0.5 * (x0 + x1)) @ step - (f(x1) - f(x0)))) > 1e-3


@pytest.mark.exhaustive
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_second_order_close_to_the_midpoint(name, gradient):
    f = FUNCTIONS[name]

    def gap(size):
        x0, x1 = jnp.asarray(PLACE - 0.5 * size * DIRECTION), jnp.asarray(PLACE + 0.5 * size * DIRECTION)
        return float(jnp.max(jnp.abs(GRADIENTS[gradient](f, x0, x1) - jax.jacfwd(f)(jnp.asarray(PLACE)))))

    assert 1.9 < np.log2(gap(0.02) / gap(0.01)) < 2.1


@pytest.mark.sampled(12)
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [0.0, 1e-14, 1e-7])
def test_gradients_of_tiny_steps_are_those_of_the_point(name, gradient, size):
    """Without amplifying round-off, and with derivatives that are finite."""
    f, x0 = FUNCTIONS[name], jnp.asarray(PLACE)
    at = lambda x1: GRADIENTS[gradient](f, x0, x1)  # noqa: E731
    x1 = x0 + size * DIRECTION
    gradients, forward, reverse, exact = evaluated(
        lambda x: (at(x), jax.jacfwd(at)(x), jax.jacrev(at)(x), jax.jacfwd(f)(x0)), x1
    )
    np.testing.assert_allclose(gradients, exact, atol=1e-6 * float(jnp.max(jnp.abs(exact))))
    assert np.isfinite(forward).all()
    assert np.isfinite(reverse).all()


@pytest.mark.exhaustive
def test_mean_value_is_exact_for_polynomials_without_its_correction():
    f = lambda x: x[0] ** 5 * x[1] + x[2] ** 3  # noqa: E731
    x0, x1 = jnp.asarray(PLACE), jnp.asarray(PLACE + DIRECTION)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    exact = sum(0.5 * w * jax.grad(f)(x0 + 0.5 * (1 + s) * (x1 - x0)) for s, w in zip(nodes, weights, strict=True))
    np.testing.assert_allclose(MeanValue(3)(f, x0, x1), exact, rtol=1e-13)
    assert np.max(np.abs(Gonzalez()(f, x0, x1) - exact)) > 1e-3


def test_gradients_through_invariants_respect_the_symmetry():
    """Rotations about e₃ leave x₁² + x₂² unchanged: no torque about e₃, which Gonzalez' gradient has."""
    inner = lambda x: jnp.stack((x[0] ** 2 + x[1] ** 2, x[2]))  # noqa: E731
    f = Through(lambda s: jnp.exp(0.3 * s[0]) * jnp.cos(s[1]), inner)
    x0, x1 = jnp.asarray(PLACE), jnp.asarray(PLACE + DIRECTION)
    middle = 0.5 * (x0 + x1)
    torque = lambda g: float(middle[0] * g[1] - middle[1] * g[0])  # noqa: E731
    assert abs(torque(Gonzalez()(f, x0, x1))) < 1e-14
    assert abs(torque(Gonzalez()(lambda x: f(x), x0, x1))) > 1e-3


def kinetic(q, v):
    return 0.5 * (v[0] ** 2 + q[0] ** 2 * (v[1] ** 2 + (jnp.sin(q[1]) * v[2]) ** 2))


KINETIC = {
    "function": kinetic,
    "matrix": jnp.array([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]),
    "through": Through(lambda s: 0.5 * s @ s, lambda q, v: jnp.stack((q[0] * v[1] - q[1] * v[0], q[2] * v[0]))),
}


def potential(q):
    return jnp.cos(q[1]) * q[0] + q[2] ** 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", KINETIC)
@pytest.mark.parametrize("size", [1e-8, 1e-2, 1.0])
def test_kinetic_energy_changes_by_the_products_with_both_steps(name, gradient, size):
    system = Lagrangian(3, KINETIC[name], potential, gradient=GRADIENTS[gradient])
    rng = np.random.default_rng(7)
    q0, v0, dq, dv = (jnp.asarray(x) for x in rng.standard_normal((4, 3)))
    q1, v1 = q0 + size * dq, v0 + size * dv
    derivatives = system.discrete_derivatives(q0, v0, q1, v1)
    change = system.kinetic_energy(q1, v1) - system.kinetic_energy(q0, v0)
    products = derivatives.kinetic_q @ (q1 - q0) + derivatives.kinetic_v @ (v1 - v0)
    energy = float(jnp.abs(system.kinetic_energy(q0, v0)) + jnp.abs(system.kinetic_energy(q1, v1)))
    assert abs(float(products - change)) < 32 * EPS * (1 + energy)
    lack = derivatives.potential @ (q1 - q0) - (potential(q1) - potential(q0))
    assert abs(float(lack)) < 32 * EPS * (1 + float(jnp.abs(potential(q1))))
    if name != "matrix" and size == 1.0:
        middle = system.midpoint_derivatives(q0, v0, q1, v1)
        wrong = middle.kinetic_q @ (q1 - q0) + middle.kinetic_v @ (v1 - v0)
        assert abs(float(wrong - change)) > 1e-4


@pytest.mark.exhaustive
def test_partitioned_derivative_by_velocities_has_the_mean_mass_matrix():
    system = Lagrangian(3, kinetic)
    q0, v0, q1, v1 = (jnp.asarray(x) for x in np.random.default_rng(8).standard_normal((4, 3)))
    mass = lambda q: jax.hessian(lambda v: kinetic(q, v))(v0)  # noqa: E731
    expected = 0.5 * (mass(q0) + mass(q1)) @ (0.5 * (v0 + v1))
    np.testing.assert_allclose(system.discrete_derivatives(q0, v0, q1, v1).kinetic_v, expected, atol=1e-13)


BODY = QuaternionBody(jnp.array([6.0, 8.0, 3.0]), lambda q: 0.7 * (q[0] ** 2 - q[1] ** 2 - q[2] ** 2 + q[3] ** 2))


def quaternion_step(seed):
    q0, v0, q1, v1 = np.random.default_rng(seed).standard_normal((4, 4))
    q0, q1 = q0 / np.linalg.norm(q0), q1 / np.linalg.norm(q1)
    return tuple(jnp.asarray(x) for x in (q0, v0, q1, v1))


def test_matrices_of_quaternions_are_products():
    a, b, _, _ = quaternion_step(1)
    inverse = a * jnp.array([1.0, -1.0, -1.0, -1.0])
    x = jnp.asarray(DIRECTION)
    np.testing.assert_allclose(G(a, b), quaternions.multiply(inverse, b)[1:], atol=1e-15)
    np.testing.assert_allclose(E(a, b), quaternions.multiply(b, inverse)[1:], atol=1e-15)
    np.testing.assert_allclose(G_transposed(a, x) @ b, x @ G(a, b), atol=1e-15)
    np.testing.assert_allclose(E_transposed(a, x) @ b, x @ E(a, b), atol=1e-15)


@pytest.mark.exhaustive
def test_body_has_the_energy_and_momentum_of_its_angular_velocity():
    omega = jnp.array([1.0, -2.0, 0.5])
    state = BODY.turning(quaternion_step(2)[0], omega)
    R, inertia = quaternions.to_matrix(state.q), jnp.array([6.0, 8.0, 3.0])
    np.testing.assert_allclose(BODY.angular_velocity(state.q, state.v), omega, atol=1e-14)
    np.testing.assert_allclose(BODY.angular_momentum(state.q, state.p), R @ (inertia * omega), atol=1e-13)
    energy = 0.5 * omega @ (inertia * omega) + 0.7 * R[2, 2]
    np.testing.assert_allclose([BODY.generalised_energy(state), BODY.total_energy(state)], energy, rtol=1e-14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_body_changes_its_energy_by_the_products(seed):
    q0, v0, q1, v1 = quaternion_step(seed)
    derivatives = BODY.discrete_derivatives(q0, v0, q1, v1)
    change = BODY.kinetic_energy(q1, v1) - BODY.kinetic_energy(q0, v0)
    products = derivatives.kinetic_q @ (q1 - q0) + derivatives.kinetic_v @ (v1 - v0)
    np.testing.assert_allclose(products, change, atol=2e-13)
    np.testing.assert_allclose(derivatives.constraint @ (q1 - q0), 0, atol=1e-15)
    middle = BODY.midpoint_derivatives(q0, v0, q1, v1)
    assert abs(float(middle.kinetic_q @ (q1 - q0) + middle.kinetic_v @ (v1 - v0) - change)) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_midpoint_derivatives_of_the_body_are_those_of_its_energy(seed):
    step = quaternion_step(seed)
    q, v = 0.5 * (step[0] + step[2]), 0.5 * (step[1] + step[3])
    Tq, Tv = jax.grad(BODY.kinetic_energy, (0, 1))(q, v)
    derivatives = BODY.midpoint_derivatives(*step)
    np.testing.assert_allclose(derivatives.kinetic_q, Tq, atol=1e-12)
    np.testing.assert_allclose(derivatives.kinetic_v, Tv, atol=1e-12)
    np.testing.assert_allclose(derivatives.potential, jax.grad(BODY.potential_energy)(q), atol=1e-15)


def test_increments_of_the_body_stay_on_the_sphere_and_begin_with_its_velocity():
    q, _, _, _ = quaternion_step(3)
    state = BODY.turning(q, jnp.array([3.0, -2.0, 1.0]))
    h = 1e-4
    end = BODY.advance(state.q, BODY.increments(jnp.asarray(h), state.q, state.v))
    np.testing.assert_allclose(end @ end, 1.0, atol=1e-15)
    np.testing.assert_allclose((end - state.q) / h, state.v, atol=1e-3)
    far = BODY.advance(state.q, jnp.array([0.4, 2.0, -1.0]))
    np.testing.assert_allclose(far @ far, 1.0, atol=1e-15)
    np.testing.assert_allclose(BODY.project(state.q, far, 0.5 * (state.q + far)), 0.0, atol=1e-15)


def test_start_has_consistent_momenta_and_equal_energies():
    system = Lagrangian(3, kinetic, potential)
    state = system.start([1.1, 0.7, 0.2], [0.3, -1.0, 0.4])
    np.testing.assert_allclose(state.p, [0.3, -(1.1**2), (1.1 * np.sin(0.7)) ** 2 * 0.4], rtol=1e-14)
    np.testing.assert_allclose(system.generalised_energy(state), system.total_energy(state), rtol=1e-14)


CIRCLE = {"constraints": lambda q: 0.5 * (q @ q - 1)[None], "number": 1}

WRONG = {
    "size": (lambda: Lagrangian(0, kinetic), "positive integer"),
    "number without constraints": (lambda: Lagrangian(2, jnp.eye(2), number=1), "number=1 without"),
    "constraints without number": (lambda: Lagrangian(2, jnp.eye(2), constraints=lambda q: q), "number=0 with"),
    "mass matrix": (lambda: Lagrangian(2, jnp.eye(3)), r"shape \(2, 2\), got shape \(3, 3\)"),
    "inertia": (lambda: QuaternionBody(jnp.array([1.0, 2.0])), r"inertia.*shape \(3,\)"),
    "points": (lambda: MeanValue(0), "at least 1"),
}

WRONG_STARTS = {
    "pair": (lambda s: (Lagrangian(2, jnp.eye(2)), tuple(s[:2])), "tuple of 3 parts"),
    "shapes": (lambda s: (Lagrangian(3, jnp.eye(3)), s), r"shape \(3,\), got"),
    "not quadratic": (lambda s: (Lagrangian(2, lambda q, v: v @ v + v[0]), s), "quadratic form in v"),
    "vector kinetic": (lambda s: (Lagrangian(2, lambda q, v: v), s), r"kinetic\(q, v\).*shape \(\)"),
    "vector potential": (lambda s: (Lagrangian(2, jnp.eye(2), lambda q: q), s), r"potential\(q\).*shape \(\)"),
    "constraints": (
        lambda s: (Lagrangian(2, jnp.eye(2), constraints=lambda q: q, number=1), s),
        "as many as `number` says",
    ),
    "loads": (lambda s: (Lagrangian(2, jnp.eye(2), loads=lambda t, q, v: t), s), "one load for each coordinate"),
    "off": (
        lambda s: (Lagrangian(2, jnp.eye(2), **CIRCLE), LivensState(*(2 * x for x in s))),
        "on coordinates: number 0",
    ),
    "across": (
        lambda s: (Lagrangian(2, jnp.eye(2), **CIRCLE), s._replace(v=jnp.ones(2))),
        "on velocities: number 0",
    ),
    "inner": (
        lambda s: (Lagrangian(2, jnp.eye(2), Through(lambda s: s[0], lambda q: q[:1] ** 3)), s),
        "`inner` of `potential` must be quadratic",
    ),
    "body": (
        lambda _: (QuaternionBody(jnp.ones(3), lambda q: q), BODY.turning([1.0, 0, 0, 0], jnp.ones(3))),
        r"potential\(q\)",
    ),
}
"""Of a state of a free point in the plane."""


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_explained(case):
    make, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("case", WRONG_STARTS)
def test_wrong_starts_are_explained_before_compiling(case):
    make, message = WRONG_STARTS[case]
    system, state = make(Lagrangian(2, jnp.eye(2)).start([1.0, 0.0], [0.0, 1.0]))
    with pytest.raises(ValueError, match=message):
        ph.simulate(system, "eml", h=0.1, t1=0.2, state0=state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinetic": np.array([[1.0, 0.9], [0.0, 1.0]])}, "must be a symmetric mass matrix"),
        ({"kinetic": np.diag([1.0, -1.0])}, "the least one is -1"),
        ({"kinetic": np.eye(2), "number": -1}, "`number` must be how many"),
        ({"kinetic": np.eye(2), "gradient": "gonzalez"}, "`gradient` must be a discrete gradient"),
    ],
)
def test_wrong_systems_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        Lagrangian(2, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kinetic", [np.diag([1.0, 0.0]), lambda q, v: 0.5 * v[0] ** 2])
def test_massless_coordinates_must_start_in_balance(kinetic):
    system = Lagrangian(2, kinetic, lambda q: 0.5 * q @ q)
    with pytest.raises(ValueError, match=r"along its null space, \[.*1\.0\], are not in balance"):
        ph.simulate(system, "eml", h=0.1, t1=1.0, state0=system.start([1.0, 1.0], [0.0, 0.0]))
    run = ph.simulate(system, "eml", h=0.1, t1=1.0, state0=system.start([1.0, 0.0], [0.0, 0.0]))
    assert float(run.state.q[-1, 0]) == pytest.approx(np.cos(1.0), abs=1e-3)

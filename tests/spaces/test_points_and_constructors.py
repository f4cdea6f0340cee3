"""Bad input says what is wrong and what to do; factories, coordinate choices and rotation helpers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from space_table import EPS

from polhode import spaces as sp
from polhode.spaces import quaternions


def test_check_point_accepts_and_converts():
    q = sp.check_point(sp.S3R3(), ([1, 0, 0, 0], [1, 2, 3]))
    assert all(isinstance(part, jax.Array) and part.dtype == jnp.float64 for part in q)
    nested = sp.product(sp.power(sp.TS2(), 2), sp.Rn(1))
    point = nested.random(jax.random.key(0))
    for values, kept in zip(jax.tree.leaves(point), jax.tree.leaves(sp.check_point(nested, point)), strict=True):
        np.testing.assert_array_equal(values, kept)


@pytest.mark.parametrize(
    ("space", "q", "message"),
    [
        (sp.S3(), [1.0, 0.0, 0.0], r"`state` must have shape \(4,\), got \(3,\)"),
        (sp.S3(), [1.0, 0.1, 0.0, 0.0], r"`state` lies 0.00499 off S3.*space.project"),
        (sp.S3(), [1.0, np.nan, 0.0, 0.0], r"`state` must be finite"),
        (sp.S3(), ["w", 0.0, 0.0, 0.0], r"`state` must be numeric"),
        (sp.SO3(), 2 * np.eye(3), r"lies 7 off SO3"),
        (sp.SE3(), np.eye(4), r"`state` must be a tuple of 2 parts, got ndarray"),
        (sp.SE3(), (np.eye(3), np.zeros(3), 1), r"must be a tuple of 2 parts, got tuple of 3"),
        (sp.SE3(), (np.eye(3), np.zeros(2)), r"`state\[1\]` must have shape \(3,\), got \(2,\)"),
        (sp.TS2(), ([0, 0, 1.0], [0, 0, 0.5]), r"lies 0.5 off TS2"),
        (sp.RotationVector(), [7.0, 0, 0], r"off RotationVector"),
        (sp.Power(sp.S2(), 2), [[0, 0, 1.0]], r"must have shape \(2, 3\)"),
    ],
)
def test_check_point_refuses(space: sp.AbstractSpace, q: object, message: str):
    with pytest.raises(ValueError, match=message):
        sp.check_point(space, q, "state")


def test_check_point_lets_traced_values_through_but_checks_their_shape():
    scaled = jax.jit(lambda s: sp.check_point(sp.S3(), s * jnp.array([1.0, 0, 0, 0])))(3.0)
    np.testing.assert_array_equal(scaled, [3.0, 0, 0, 0])
    with pytest.raises(ValueError, match="shape"):
        jax.jit(lambda s: sp.check_point(sp.S3(), s * jnp.ones(3)))(3.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sp.Rn(-1), "0 or more, got -1"),
        (lambda: sp.Rn(5, blocks=(3, 3)), "add up to n = 5"),
        (lambda: sp.product(), "at least one space"),
        (lambda: sp.ProductGroup(sp.S2()), "groups only, got S2"),
        (lambda: sp.power(sp.S3(), 0), "at least 1 \\(copies of a space\\), got 0"),
        (lambda: sp.CoadjointOrbit(sp.Rn(3)), "so\\(3\\) or se\\(3\\)"),
        (lambda: sp.Cayley(sp.Rn(3)), "use `with_coordinates`"),
        (lambda: sp.with_coordinates(sp.S2(), "cayley"), "not on `S2`; use coordinates='exp'"),
        (lambda: sp.with_coordinates(sp.product(sp.S3(), sp.S2()), "cayley"), "not on `S2`"),
        (lambda: sp.with_coordinates(sp.S3(), "caley"), "must be one of exp, cayley, second-kind, got 'caley'"),
    ],
)
def test_constructors_refuse(build: object, message: str):
    with pytest.raises(ValueError, match=message):
        build()


def test_factories_give_groups_exactly_where_all_parts_are_groups():
    assert isinstance(sp.product(sp.S3(), sp.Rn(2)), sp.AbstractGroup)
    assert not isinstance(sp.product(sp.S3(), sp.S2()), sp.AbstractGroup)
    assert isinstance(sp.power(sp.SE3(), 2), sp.AbstractGroup)
    assert not isinstance(sp.power(sp.TS2(), 2), sp.AbstractGroup)


def test_coordinates_are_chosen_through_products_and_powers():
    space = sp.product(sp.power(sp.SO3(), 2), sp.S3R3(), sp.Rn(2))
    assert sp.with_coordinates(space, "exp") is space
    inner = sp.with_coordinates(space, "second-kind").spaces
    assert isinstance(inner[0].space, sp.SecondKind)
    assert isinstance(inner[1], sp.SecondKind)
    assert inner[2] is space.spaces[2]
    mixed = sp.with_coordinates(sp.Product(sp.Power(sp.S3(), 2), sp.Rn(1)), "cayley")
    assert isinstance(mixed.spaces[0].space, sp.Cayley)
    orbit = sp.CoadjointOrbit(sp.SO3())
    assert sp.with_coordinates(orbit, "exp") is orbit


@pytest.mark.exhaustive
def test_cayley_and_second_kind_are_the_maps_they_claim():
    """Against the matrix formula (1 - X/2)⁻¹(1 + X/2) and against the product of one-parameter subgroups."""
    theta = np.array([0.3, -0.8, 0.5, 1.0, 2.0, -1.0])
    x, y, z = theta[:3]
    X = np.zeros((4, 4))
    X[:3, :3], X[:3, 3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]], theta[3:]
    expected = np.linalg.solve(np.eye(4) - X / 2, np.eye(4) + X / 2)
    R, translation = sp.Cayley(sp.SE3()).increment(jnp.asarray(theta))
    np.testing.assert_allclose(R, expected[:3, :3], atol=8 * EPS)
    np.testing.assert_allclose(translation, expected[:3, 3], atol=8 * EPS)

    G = sp.SE3()
    q = G.origin()
    for k in range(6):
        q = G.compose(q, G.exp(jnp.asarray(theta[k] * np.eye(6)[k])))
    R, translation = sp.SecondKind(G).increment(jnp.asarray(theta))
    np.testing.assert_allclose(R, q[0], atol=8 * EPS)
    np.testing.assert_allclose(translation, q[1], atol=8 * EPS)


def test_rotation_from_matrix_at_every_switch():
    """Quaternion and rotation vector of half turns about all kinds of axes, where the trace is least informative."""
    generator = np.random.default_rng(0)
    for axis in [*np.eye(3), *generator.normal(size=(20, 3))]:
        axis = axis / np.linalg.norm(axis)
        for angle in (1e-14, 1.0, 2 * np.pi / 3, np.pi - 1e-9, np.pi - 1e-14):
            p = jnp.concatenate((jnp.cos(jnp.array([angle / 2])), jnp.sin(angle / 2) * axis))
            R = quaternions.to_matrix(p)
            np.testing.assert_allclose(quaternions.from_matrix(R), p, atol=4 * EPS)
            np.testing.assert_allclose(quaternions.vector_from_matrix(R), angle * axis, atol=1e-15 * (4 + angle))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("space", [sp.SO3(), sp.S3(), sp.SE3(), sp.TS2(), sp.S2()], ids=lambda s: type(s).__name__)
def test_an_increment_beyond_three_turns_is_nan_not_wrong(space: sp.AbstractSpace):
    theta = jnp.zeros(space.dim).at[0].set(18.9)
    q = jax.tree.leaves(space.move(space.random(jax.random.key(0)), theta))
    assert all(bool(jnp.all(jnp.isnan(part))) for part in q[:1])


def test_wrapped_rotation_vectors_name_the_same_rotation():
    G = sp.RotationVector()
    axis = np.array([2.0, -1.0, 2.0]) / 3
    for angle in (3.0, 3.3, 6.2, 6.4, 9.0, 100.0):
        psi = G.exp(jnp.asarray(angle * axis))
        assert float(jnp.linalg.norm(psi)) <= np.pi * (1 + EPS)
        np.testing.assert_allclose(G.to_matrix(psi), sp.SO3().exp(jnp.asarray(angle * axis)), atol=1e-14 * (1 + angle))


@pytest.mark.parametrize("opposite", [[0, 0, -1.0], [0, 1e-9, -1.0], [1e-5, 0, -1.0]])
def test_difference_of_opposite_directions(opposite: list[float]):
    S2 = sp.S2()
    q0, q1 = S2.origin(), S2.project(jnp.array(opposite))
    theta = S2.difference(q0, q1)
    np.testing.assert_allclose(S2.move(q0, theta), q1, atol=1e-15)
    assert float(jnp.linalg.norm(theta)) <= np.pi * (1 + EPS)


def test_cotangent_exponential_is_the_flow_of_its_vector_field():
    """ġ = ξg, μ̇ = ν - ad*_ξ μ with constant (ξ, ν): velocities in the ambient coordinates at the end of the flow."""
    G = sp.Cotangent(sp.SO3())
    q, sigma = G.random(jax.random.key(1)), jnp.array([0.3, -1.0, 0.4, 1.0, 0.2, -0.7])
    (R, mu), (dR, dmu) = jax.jvp(lambda s: G.move(q, s * sigma), (1.0,), (1.0,))
    xi, nu = sigma[:3], sigma[3:]
    np.testing.assert_allclose(dR, jnp.cross(xi, R.T).T, atol=8 * EPS)
    np.testing.assert_allclose(dmu, nu + jnp.cross(xi, mu), atol=8 * EPS)


@pytest.mark.exhaustive
def test_coadjoint_motion_in_body_variables():
    """The heavy top's μ̇ = ad*_{∂H/∂μ} μ with the algebra element -∂H/∂μ (Celledoni et al., (18))."""
    orbit, inertia, weight = sp.CoadjointOrbit(sp.SE3()), jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 0.0, 4.0])
    mu = jnp.array([0.5, -1.0, 2.0, 0.6, 0.0, 0.8])
    Pi, Gamma = mu[:3], mu[3:]
    gradient = jnp.concatenate((Pi / inertia, weight))
    velocity = jax.jvp(lambda s: orbit.move(mu, -s * gradient), (0.0,), (1.0,))[1]
    expected = jnp.concatenate((jnp.cross(Pi, Pi / inertia) + jnp.cross(Gamma, weight), jnp.cross(Gamma, Pi / inertia)))
    np.testing.assert_allclose(velocity, expected, atol=8 * EPS)

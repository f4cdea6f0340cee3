from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from scipy.signal import StateSpace

import polhode as ph


def cart_pole(formulation: str) -> ph.Problem:
    model = ph.Model(gravity=(0, 0, -9.81))
    cart = model.add_body(mass=1.5, inertia=(0.1, 0.1, 0.1), name="cart")
    rod = model.add_body(mass=0.5, inertia=(0.001, 0.02, 0.02), position=(0, 0, 0.4), name="rod")
    model.add(ph.joints.Prismatic(model.ground, cart, point=(0, 0, 0), axis=(1, 0, 0), name="slide"))
    model.add(ph.joints.Revolute(cart, rod, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    return model.problem(formulation, t1=1.0)


MASS = np.array([[2.0, 0.2], [0.2, 0.1]])
"""Of the cart and the rod upright: M + m, m l, I + m l²."""


def test_an_upright_pole_on_a_cart_is_that_of_the_textbook():
    linear = ph.linearise(cart_pole("minimal"), inputs=["slide", "pin"], outputs=["pin", "slide.rate"])
    assert linear.state_names == ("slide.displacement", "pin.angle", "slide.rate", "pin.rate")
    assert linear.input_names == ("slide", "pin")
    assert linear.output_names == ("pin.angle", "pin.rate", "slide.rate")
    K = np.diag([0, -0.5 * 9.81 * 0.4])
    expected = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(MASS, K), np.zeros((2, 2))]])
    np.testing.assert_allclose(linear.A, expected, atol=1e-12)
    np.testing.assert_allclose(linear.B, np.vstack((np.zeros((2, 2)), np.linalg.inv(MASS))), atol=1e-12)
    np.testing.assert_array_equal(linear.C, np.eye(4)[[1, 3, 2]])
    assert not linear.stable
    assert not linear.offset.any()
    assert (linear.controllable, linear.observable) == (4, 3)
    assert isinstance(linear.to_scipy(), StateSpace)
    assert "4 states, 2 inputs, 3 outputs" in repr(linear)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SE3", pytest.param("euler-angles", marks=pytest.mark.exhaustive)])
def test_the_response_does_not_depend_on_coordinates(formulation):
    result = [ph.linearise(cart_pole(f), inputs="slide", outputs=["slide", "pin"]) for f in ("minimal", formulation)]
    for s in (1j, 3 + 2j):
        one, other = (x.C @ np.linalg.solve(s * np.eye(4) - x.A, x.B) + x.D for x in result)
        np.testing.assert_allclose(one, other, atol=1e-10)


def pendulum(angle: float, rate: float = 0.0) -> ph.Problem:
    """A hanging rod, m = 2, l = 0.5, J = 0.67 about the pin, with a motor, turned out of the vertical."""
    model = ph.Model(gravity=(0, 0, -9.81))
    c, s = np.cos(angle), np.sin(angle)
    arm = model.add_body(
        mass=2.0, inertia=(0.17, 0.17, 0.01), position=(-0.5 * s, 0, -0.5 * c), angular_velocity=(0, rate, 0),
        rotation=np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]), name="arm",
        velocity=(-0.5 * c * rate, 0, 0.5 * s * rate),
    )  # fmt: skip
    pin = model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    model.add(ph.forces.JointSpring(pin, stiffness=0.0, damping=ph.Parameter("damping", 0.3)))
    return model.problem("minimal", t1=1.0)


@pytest.mark.exhaustive
def test_away_from_equilibrium_an_offset_is_told():
    angle, rate, J = 0.8, 1.5, 0.67
    with pytest.raises(ValueError, match=r"no steady motion: .* accelerations: `arm` turns"):
        ph.linearise(pendulum(angle, rate))
    linear = ph.linearise(pendulum(angle, rate), inputs=["damping", "pin"], anyway=True)
    stiffness, load = 9.81 * np.cos(angle), -9.81 * np.sin(angle)
    np.testing.assert_allclose(linear.A, [[0, 1], [-stiffness / J, -0.3 / J]], atol=1e-10)
    np.testing.assert_allclose(linear.B, [[0, 0], [-rate / J, 1 / J]], atol=1e-10)
    np.testing.assert_allclose(linear.offset, [0, (load - 0.3 * rate) / J], atol=1e-10)
    np.testing.assert_array_equal(linear.C, np.eye(2))
    assert not linear.steady
    assert linear.stable is None


@pytest.mark.exhaustive
def test_a_run_near_an_equilibrium_follows_the_linear_model():
    problem = cart_pole("SE3")
    linear = ph.linearise(problem, outputs=["slide", "pin"])
    x0 = 1e-5 * np.array([0.3, -0.7, 0.2, 0.5])
    start = problem.system.state_space.move(problem.state0, jnp.asarray(linear.basis @ x0))
    run = ph.simulate(problem, "herk4", h=2e-3, t1=0.2, state0=start, save_every=None)
    end = scipy.linalg.expm(0.2 * linear.A) @ x0
    moved = [run.joints[n].coordinate(c)[-1] for n, c in (("slide", "displacement"), ("pin", "angle"))]
    np.testing.assert_allclose(moved, (linear.C @ end)[[0, 2]], atol=2e-9)


@pytest.mark.exhaustive
def test_a_sleeping_top_sleeps_above_its_critical_spin():
    r"""Stable for $J_3^2 ω^2 > 4 J_1 m g l$."""
    model = ph.Model(gravity=(0, 0, -9.81))
    J1, J3, m, l = 0.4, 0.1, 2.0, 0.3  # noqa: E741
    critical = np.sqrt(4 * J1 * m * 9.81 * l) / J3
    for factor, stable in ((1.05, True), (0.95, False)):
        model = ph.Model(gravity=(0, 0, -9.81))
        top = model.add_body(
            mass=m, inertia=(J1 - m * l**2, J1 - m * l**2, J3), position=(0, 0, l),
            angular_velocity=(0, 0, factor * critical), name="top",
        )  # fmt: skip
        model.add(ph.joints.Spherical(model.ground, top, point=(0, 0, 0)))
        linear = ph.linearise(model.problem("SE3", t1=1.0))
        assert linear.stable is stable
        assert np.abs(linear.offset).max() < 1e-9


INERTIA = np.array([6.0, 8.0, 3.0])
GROWTH = 3.0 * np.sqrt((8 - 6) * (6 - 3) / (3 * 8))
"""Of a free body that turns with 3 rad/s about its middle axis: σ² = ω² (J₂ - J₁)(J₁ - J₃)/(J₂ J₃)."""


def test_first_order_systems_are_linearised_too():
    problem = ph.problems.get("free-rigid-body", formulation="SO3", inertia=INERTIA)
    linear = ph.linearise(problem, state=(np.eye(3), np.array([3.0, 0.0, 0.0])), outputs="angular_velocity")
    np.testing.assert_allclose(np.max(np.real(linear.eigenvalues)), GROWTH, rtol=1e-10)
    assert linear.output_names == tuple(f"angular_velocity[{k}]" for k in range(3))


def test_where_the_algebra_is_larger_than_the_space_only_directions_of_the_space_count():
    space = ph.spaces.CoadjointOrbit(ph.spaces.SO3())
    system = ph.VectorField(space, lambda t, momentum: -momentum / INERTIA)
    linear = ph.linearise(system, state=np.array([18.0, 0.0, 0.0]))
    np.testing.assert_allclose(np.sort(np.real(linear.eigenvalues)), [-GROWTH, GROWTH], rtol=1e-10)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": ["pim"]}, "Did you mean `pin`"),
        ({"inputs": "formulation"}, "no number"),
        ({"outputs": ["pin.ange"]}, "Did you mean `pin.angle`"),
        ({"inputs": 3}, "`inputs` must be a list"),
        ({"t": "now"}, "`t`"),
        ({"state": 1.0}, "state"),
    ],
)
def test_what_is_not_there_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        ph.linearise(cart_pole("minimal"), **given)


def test_systems_without_a_velocity_and_bare_ones_are_refused():
    with pytest.raises(ValueError, match="no function of its state"):
        ph.linearise(ph.problems.get("four-bar-loop"))
    with pytest.raises(ValueError, match="needs `state`"):
        ph.linearise(cart_pole("minimal").system)
    with pytest.raises(ValueError, match=r"problems\.get"):
        ph.linearise("heavy-top")
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda t: ph.linearise(cart_pole("minimal"), state=t).A)(0.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_a_driven_pendulum_is_linear_about_rest_and_named_where_it_moves(formulation):
    """On a column that a drive turns: about rest with its closed form, in words where the start is no steady motion."""

    def problem(angle):
        model = ph.Model(gravity=(0, 0, -9.81))
        column = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), name="column")
        bob = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(1, 0, -1), name="bob")
        model.add(ph.joints.Revolute(model.ground, column, point=(0, 0, 0), axis=(0, 0, 1)))
        hinge = model.add(ph.joints.Revolute(column, bob, point=(1, 0, 0), axis=(0, 1, 0)))
        model.add(ph.joints.PrescribedRotation(model.ground, column, (0, 0, 1), angle))
        model.add(ph.forces.JointSpring(hinge, stiffness=2.0, damping=0.3))
        return model.problem(formulation, t1=1.0, h=0.01, repair=True)

    decay, square = 0.3 / 1.1 / 2, (9.81 + 2.0) / 1.1
    for angle in (lambda t: 0.0 * t, lambda t: 0.5 * (1 - jnp.cos(t))):
        found = ph.linearise(problem(angle)).eigenvalues
        np.testing.assert_allclose(np.abs(np.imag(found)), np.sqrt(square - decay**2), rtol=1e-9)
        np.testing.assert_allclose(np.real(found), -decay, rtol=1e-9)
    with pytest.raises(ValueError, match=r"no steady motion") as refusal:
        ph.linearise(problem(lambda t: 0.5 * t))
    assert "` ." not in str(refusal.value)
    assert "`," not in str(refusal.value)

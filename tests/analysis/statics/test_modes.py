"""Eigenfrequencies against closed forms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import jn_zeros

import polhode as ph
from polhode.analysis.statics import equilibrium, modes
from polhode.spaces import Rn
from polhode.systems.mechanical import Mechanical

G = 9.81


def hanging(formulation: str = "SE3", height: float = -0.7) -> tuple[Any, Any]:
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0, 0, height), name="bob")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    return model.assemble(formulation)


SLOW = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("euler-parameters", "euler-angles-kinematic")]


@pytest.mark.parametrize("formulation", ["SE3", "minimal", *SLOW])
def test_pendulum(formulation: str) -> None:
    system, state = hanging(formulation)
    result = modes(system, state)
    expected = np.sqrt(2.0 * G * 0.7 / (0.2 + 2.0 * 0.7**2))
    np.testing.assert_allclose(result.frequencies, [expected], rtol=1e-12)
    np.testing.assert_allclose(result.hertz, [expected / (2 * np.pi)], rtol=1e-12)
    assert result.stable
    np.testing.assert_array_equal(result.damping, [0])
    turns = result.displacements()
    np.testing.assert_allclose(np.abs(turns.omega[0, 0, 1]), 1 / np.sqrt(0.2 + 2.0 * 0.7**2), rtol=1e-12)
    np.testing.assert_allclose(np.abs(turns.u[0, 0]), [0.7 * abs(turns.omega[0, 0, 1]), 0, 0], atol=1e-12)


def test_standing_pendulum_diverges() -> None:
    result = modes(*hanging(height=0.7))
    rate = np.sqrt(2.0 * G * 0.7 / (0.2 + 2.0 * 0.7**2))
    np.testing.assert_allclose(result.eigenvalues, [rate], rtol=1e-12)
    assert (result.frequencies[0], result.damping[0]) == (0, -1)
    assert not result.stable


def test_double_pendulum() -> None:
    # Equal masses on equal strings: ω² = (2 ± √2) g / l.
    system = Mechanical(
        Rn(2),
        jnp.array([[2.0, 1.0], [1.0, 1.0]]),
        lambda t, q, v: jnp.array([-2 * G * q[0], -G * q[1]]),
    )
    result = modes(system, (jnp.zeros(2), jnp.zeros(2)))
    np.testing.assert_allclose(result.frequencies**2, (2 + np.array([-1, 1]) * np.sqrt(2)) * G, rtol=1e-12)
    model = ph.Model(gravity=(0, 0, -G))
    points = [model.add_point(mass=0.3, position=(0, 0, -k)) for k in (1, 2)]
    model.add(ph.joints.Distance(model.ground, points[0], first_point=(0, 0, 0), second_point=(0, 0, -1)))
    model.add(ph.joints.Distance(*points, first_point=(0, 0, -1), second_point=(0, 0, -2)))
    result = modes(*model.assemble())
    expected = np.repeat((2 + np.array([-1, 1]) * np.sqrt(2)) * G, 2)
    np.testing.assert_allclose(result.frequencies**2, expected, rtol=1e-12)
    shapes, mass = result.shapes, 0.3 * np.eye(6)
    np.testing.assert_allclose(shapes @ mass @ shapes.T, np.eye(4), atol=1e-12)


@pytest.mark.exhaustive
def test_body_on_a_bushing_with_damping() -> None:
    K, C, inertia, m = np.array([100.0, 400, 900]), np.array([8.0, 18, 32]), np.array([0.5, 0.7, 0.9]), 2.0
    model = ph.Model()
    body = model.add_body(mass=m, inertia=inertia, position=(0.3, 0, 0))
    model.add(ph.forces.Bushing(model.ground, body, point=(0.3, 0, 0), stiffness=K, rotational_stiffness=C))
    free = modes(*model.assemble())
    expected = np.sort(np.concatenate((np.sqrt(K / m), np.sqrt(C / inertia))))
    np.testing.assert_allclose(free.frequencies, expected, rtol=1e-12)
    np.testing.assert_allclose(free.moved(0, 0.0)[0][1][0], (0.3, 0, 0))


def oscillators(damping: float, stiffness: float = 4.0) -> Any:
    """Two masses between walls, the first one damped against the ground, and a third one without spring."""
    K = jnp.array([[2 * stiffness, -stiffness, 0], [-stiffness, 2 * stiffness, 0], [0, 0, 0]])
    C = jnp.diag(jnp.array([damping, damping, 0.0]))
    return Mechanical(Rn(3), jnp.eye(3), lambda t, q, v: -K @ q - C @ v)


def test_damping_ratios() -> None:
    rest = (jnp.zeros(3), jnp.zeros(3))
    result = modes(oscillators(0.6), rest)
    omega = np.array([2.0, np.sqrt(12.0)])
    np.testing.assert_allclose(result.frequencies, [0, *np.sqrt(omega**2 - 0.09)], atol=1e-10)
    np.testing.assert_allclose(result.damping, [0, *(0.3 / omega)], atol=1e-10)
    # Beyond critical damping of the lower one: two real eigenvalues.
    strong = modes(oscillators(5.0), rest)
    np.testing.assert_allclose(np.real(strong.eigenvalues), [0, -1, -2.5, -4], atol=1e-9)
    np.testing.assert_allclose(strong.damping, [0, 1, 2.5 / np.sqrt(12.0), 1], atol=1e-12)
    assert strong.stable
    assert not modes(oscillators(-0.1), rest).stable


def test_long_spring_line_by_lanczos() -> None:
    count = 700
    K = line
    system = Mechanical(Rn(count), 0.5 * jnp.eye(count), lambda t, q, v: -K(q))
    result = modes(system, (jnp.zeros(count), jnp.zeros(count)), number=5)
    expected = 2 * np.sqrt(30.0 / 0.5) * np.sin(np.arange(1, 6) * np.pi / (2 * (count + 1)))
    np.testing.assert_allclose(result.frequencies, expected, rtol=1e-9)
    assert result.shapes.shape == (5, count)
    damped = Mechanical(Rn(count), 0.5 * jnp.eye(count), lambda t, q, v: -K(q) - K(0.01 * v))
    result = modes(damped, (jnp.zeros(count), jnp.zeros(count)), number=5)
    np.testing.assert_allclose(np.abs(result.eigenvalues), expected, rtol=1e-8)
    np.testing.assert_allclose(result.damping, 0.005 * expected, rtol=1e-6)


def line(q: Any) -> Any:
    """Forces of springs of stiffness 30 between masses in a line and two walls."""
    return 30.0 * (2 * q - jnp.concatenate((q[1:], jnp.zeros(1))) - jnp.concatenate((jnp.zeros(1), q[:-1])))


def test_free_masses_have_a_zero_mode() -> None:
    K = jnp.array([[3.0, -3.0], [-3.0, 3.0]])
    system = Mechanical(Rn(2), 0.5 * jnp.eye(2), lambda t, q, v: -K @ q)
    result = modes(system, (jnp.zeros(2), jnp.zeros(2)))
    assert result.eigenvalues[0] == 0
    np.testing.assert_allclose(result.frequencies[1], np.sqrt(12.0), rtol=1e-13)


def ziegler(load: float) -> Any:
    """Two massless rods of length 1 with springs 1 at their joints, masses 2 and 1, and a follower load at the tip."""
    model = ph.Model()
    first = model.add_body(mass=2.0, inertia=1e-9 * np.ones(3), position=(1, 0, 0))
    second = model.add_body(mass=1.0, inertia=1e-9 * np.ones(3), position=(2, 0, 0))
    model.add(ph.joints.Revolute(model.ground, first, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.joints.Revolute(first, second, point=(1, 0, 0), axis=(0, 1, 0)))
    for a, b in ((model.ground, first), (first, second)):
        model.add(ph.forces.TorsionalSpringDamper(a, b, axis=(0, 1, 0), stiffness=1.0))
    model.add(ph.forces.PointForce(second, (-load, 0, 0), frame="body"))
    return modes(*model.assemble("minimal"))


def test_ziegler_column_flutters_beyond_its_critical_load() -> None:
    critical = 3.5 - np.sqrt(2)
    below, above = ziegler(0.99 * critical), ziegler(1.01 * critical)
    assert below.stable
    assert np.all(np.diff(below.frequencies) > 0.01)
    assert not above.stable
    assert above.damping.min() < -0.01
    assert np.all(above.frequencies > 0.1)


@pytest.mark.exhaustive
def test_hanging_chain_has_the_frequencies_of_the_cable() -> None:
    errors = []
    for count in (10, 20):
        # Links of a cable of length 1; half the mass of a link at its end.
        masses = np.full(count, 1 / count)
        masses[-1] /= 2
        model = ph.Model(gravity=(0, 0, -G))
        ends: list[Any] = [model.ground]
        for k, mass in enumerate(masses):
            ends.append(model.add_point(mass=mass, position=(0, 0, -(k + 1) / count)))
            places = {"first_point": (0, 0, -k / count), "second_point": (0, 0, -(k + 1) / count)}
            model.add(ph.joints.Distance(ends[-2], ends[-1], **places))
        lowest = modes(*model.assemble(), number=4).frequencies
        np.testing.assert_allclose(lowest[::2], lowest[1::2], rtol=1e-10)
        errors.append(lowest[::2] / (jn_zeros(0, 2) / 2 * np.sqrt(G)) - 1)
    assert np.abs(errors[1]).max() < 1e-2
    np.testing.assert_allclose(errors[0] / errors[1], [4, 4], rtol=0.1)


@pytest.mark.exhaustive
def test_four_bar_vibrates_as_it_runs() -> None:
    # Two points on cranks from (0, 0) and (3, 0), a coupler between them.
    def constraints(t: Any, q: Any) -> Any:
        a, b = q[:2], q[2:]
        d, e = b - jnp.array([3.0, 0.0]), b - a
        return jnp.stack((a @ a - 1, d @ d - 2.25, e @ e - 4)) / 2

    system = Mechanical(
        Rn(4), jnp.diag(jnp.array([1.0, 1.0, 2.0, 2.0])), lambda t, q, v: -G * jnp.array([0, 1, 0, 2.0]), constraints, 3
    )
    a = np.array([0.2, -np.sqrt(1 - 0.04)])
    middle = (np.array([3.0, 0.0]) - a) / 2
    far = np.linalg.norm(2 * middle)
    # The corner of the triangle with sides 2 and 1.5 on the line from a to the second pivot.
    along = (4 - 2.25 + far**2) / (2 * far)
    side = 2 * middle / far
    b = a + along * side + np.sqrt(4 - along**2) * np.array([side[1], -side[0]])
    rest = equilibrium(system, (np.concatenate((a, b)), np.zeros(4)))
    (omega,) = modes(system, rest.state).frequencies
    push = 1e-4 * modes(system, rest.state).shapes[0]
    run = ph.simulate(system, "herk4", h=2e-3, t1=2.2 * np.pi / omega, state0=(rest.state[0], push))
    x = np.asarray(run.state[0][:, 0]) - float(rest.state[0][0])
    turns = np.flatnonzero(x[1:-1] * x[2:] < 0) + 1
    crossing = run.t[turns] - x[turns] * (run.t[turns + 1] - run.t[turns]) / (x[turns + 1] - x[turns])
    assert len(crossing) == 2
    np.testing.assert_allclose(crossing, np.pi / omega * np.array([1, 2]), rtol=1e-4)


@pytest.mark.exhaustive
def test_sleeping_top() -> None:
    # (θx + iθy) e^{st}: I s² - i I3 Ω s - m g l = 0 in the inertial frame.
    mass, length, inertia, axial, spin = 1.0, 0.5, 0.4, 0.3, 12.0
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(
        mass=mass,
        inertia=(inertia - 0.25, inertia - 0.25, axial),
        position=(0, 0, length),
        angular_velocity=(0, 0, spin),
    )
    model.add(ph.joints.Spherical(model.ground, body, point=(0, 0, 0)))
    system, state = model.assemble("SE3")
    result = modes(system, state)
    root = np.sqrt((axial * spin) ** 2 - 4 * inertia * mass * G * length + 0j)
    turning = (axial * spin + np.array([1, -1]) * root) / (2 * inertia)
    assert np.allclose(turning.imag, 0) is bool((axial * spin) ** 2 > 4 * inertia * mass * G * length)
    for s in 1j * turning:
        assert np.min(np.abs(np.concatenate((result.eigenvalues, np.conj(result.eigenvalues))) - s)) < 1e-8


def test_no_equilibrium_is_refused_and_linearised_on_request() -> None:
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0.7, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    system, state = model.assemble()
    with pytest.raises(ValueError, match=r"no equilibrium; unbalanced forces: .* at `bob`.*polhode.equilibrium"):
        modes(system, state)
    assert modes(system, state, anyway=True).frequencies == pytest.approx([0.0], abs=1e-6)
    falling = ph.Model(gravity=(0, 0, -G))
    falling.add_point(mass=1.0, position=(0, 0, 0))
    with pytest.raises(ValueError, match="no equilibrium"):
        modes(*falling.assemble())
    with pytest.raises(ValueError, match="needs `state`"):
        modes(system)
    with pytest.raises(ValueError, match="`number` must be an integer"):
        modes(system, state, number=0)

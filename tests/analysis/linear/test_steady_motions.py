"""Linear models about steady motions against closed forms: the same in all coordinates, for any order of bodies."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import polhode as ph

G = 9.81


def contains(result: Any, expected: Any, atol: float) -> None:
    """Each expected eigenvalue is among those found."""
    off = [float(np.min(np.abs(np.asarray(result) - s))) for s in np.atleast_1d(expected)]
    assert max(off) < atol, (off, result)


# --- rotors ---------------------------------------------------------------------------------------------------------

MASS, AXIAL, ACROSS, ARMS = 12.0, 0.09, 0.06, (-0.15, 0.35)


def rotor(rate: float, stiffness: tuple[float, float], inertia: tuple[float, float] = (ACROSS, ACROSS)) -> ph.Model:
    """A rotor along x in two elastic bearings."""
    model = ph.Model()
    body = model.add_body(mass=MASS, inertia=(AXIAL, *inertia), angular_velocity=(rate, 0, 0), name="rotor")
    for k, arm in enumerate(ARMS):
        bearing = (1e6, *stiffness)
        model.add(ph.forces.Bushing(model.ground, body, point=(arm, 0, 0), stiffness=bearing, name=f"bearing {k}"))
    return model


def whirl(rate: float, stiffness: tuple[float, float]) -> np.ndarray:
    """Frequencies of M q̈ + G q̇ + K q = 0 in the inertial frame, q = (y, z, θy, θz)."""
    M, gyroscopic, K = np.diag([MASS, MASS, ACROSS, ACROSS]), np.zeros((4, 4)), np.zeros((4, 4))
    gyroscopic[2, 3], gyroscopic[3, 2] = AXIAL * rate, -AXIAL * rate
    for arm in ARMS:
        for row, k in zip(([1, 0, 0, arm], [0, 1, -arm, 0]), stiffness, strict=True):
            K += k * np.outer(row, row)
    A = np.block([[np.zeros((4, 4)), np.eye(4)], [-np.linalg.solve(M, K), -np.linalg.solve(M, gyroscopic)]])
    return np.sort(np.abs(np.linalg.eigvals(A).imag))[::2]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "formulation",
    ["SE3", *(pytest.param(f, marks=pytest.mark.exhaustive) for f in ("SO3xR3", "S3|xR3", "rotation-vector"))],
)
@pytest.mark.parametrize("stiffness", [(2e6, 2e6), (2e6, 5e6)])
def test_whirl_of_a_rotor_is_that_of_rotor_dynamics(formulation: str, stiffness: tuple[float, float]) -> None:
    problem = rotor(400.0, stiffness).problem(formulation, t1=0.1)
    linear = ph.linearise(problem)
    expected = whirl(400.0, stiffness)
    contains(linear.eigenvalues, np.concatenate((1j * expected, -1j * expected)), 1e-6)
    assert linear.stable
    np.testing.assert_array_equal(linear.turn, np.zeros(3))
    contains(ph.modes(problem).frequencies, expected, 1e-6)


@pytest.mark.exhaustive
def test_an_unround_rotor_in_round_bearings_is_seen_in_its_own_frame_and_else_refused() -> None:
    W, B, C, k = 300.0, 0.06, 0.03, 2e6
    linear = ph.linearise(rotor(W, (k, k), inertia=(B, C)).problem("SE3", t1=1.0))
    np.testing.assert_allclose(linear.turn, (W, 0, 0), atol=1e-9)
    # M q̈ + D q̇ + K q = 0 in the frame that turns with it.
    M, D = np.diag([MASS, MASS, B, C]), np.zeros((4, 4))
    D[0, 1], D[1, 0], D[2, 3], D[3, 2] = -2 * MASS * W, 2 * MASS * W, (AXIAL - B - C) * W, (B + C - AXIAL) * W
    K = W**2 * np.diag([-MASS, -MASS, AXIAL - C, AXIAL - B])
    for arm in ARMS:
        for row in ([1, 0, 0, arm], [0, 1, -arm, 0]):
            K += k * np.outer(row, row)
    A = np.block([[np.zeros((4, 4)), np.eye(4)], [-np.linalg.solve(M, K), -np.linalg.solve(M, D)]])
    contains(linear.eigenvalues, np.linalg.eigvals(A), 1e-6)
    with pytest.raises(ValueError, match=r"no steady motion: coefficients change .* Floquet multipliers"):
        ph.linearise(rotor(W, (2e6, 5e6), inertia=(B, C)).problem("SE3", t1=1.0))


# --- rolling --------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("rate", [2.0, 3.0])
@pytest.mark.parametrize(
    "formulation",
    ["SE3", *(pytest.param(f, marks=pytest.mark.exhaustive) for f in ("SO3xR3", "minimal", "euler-parameters"))],
)
def test_a_disc_rolls_upright_from_its_critical_rate_on(rate: float, formulation: str) -> None:
    """Routh: (A + m r²) φ̈ + (C (C + m r²)/A ω² - m g r) φ = 0, stable above ω² = g / 3r = 6.54."""
    mass, r = 2.0, 0.5
    A, C = mass * r**2 / 4, mass * r**2 / 2
    model = ph.Model(gravity=(0, 0, -G))
    disc = model.add_body(
        mass=mass, inertia=(A, C, A), position=(0, 0, r), velocity=(r * rate, 0, 0), angular_velocity=(0, rate, 0)
    )
    model.add(ph.joints.RollingDisc(model.ground, disc, axis=(0, 1, 0), radius=r))
    linear = ph.linearise(model.problem(formulation, t1=1.0))
    square = (mass * G * r - C * (C + mass * r**2) / A * rate**2) / (A + mass * r**2)
    contains(linear.eigenvalues, np.array([1, -1]) * np.sqrt(complex(square)), 1e-9)
    assert linear.stable is bool(rate**2 > G / (3 * r))


def bicycle(speed: float, backwards: bool = False) -> ph.Model:
    """The benchmark of Meijaard, Papadopoulos, Ruina & Schwab (2007); z points down."""
    model = ph.Model(gravity=(0, 0, G))
    across = (0, 1, 0)
    fork, steered = ((0.05892, 0, -0.00756), (0, 0.06, 0), (-0.00756, 0, 0.00708)), np.pi / 10
    parts: dict[str, tuple[float, Any, tuple[float, float, float], float]] = {
        "rear": (2.0, (0.0603, 0.12, 0.0603), (0, 0, -0.3), -speed / 0.3),
        "frame": (85.0, ((9.2, 0, 2.4), (0, 11.0, 0), (2.4, 0, 2.8)), (0.3, 0, -0.9), 0.0),
        "fork": (4.0, fork, (0.9, 0, -0.7), 0.0),
        "front": (3.0, (0.1405, 0.28, 0.1405), (1.02, 0, -0.35), -speed / 0.35),
    }
    names = list(parts)[::-1] if backwards else list(parts)
    bodies = {}
    for name in names:
        mass, inertia, place, rate = parts[name]
        bodies[name] = model.add_body(
            mass=mass, inertia=inertia, position=place, velocity=(speed, 0, 0), angular_velocity=(0, rate, 0), name=name
        )
    steering = (np.sin(steered), 0, np.cos(steered))
    model.add(ph.joints.Revolute(bodies["frame"], bodies["rear"], point=(0, 0, -0.3), axis=across))
    model.add(ph.joints.Revolute(bodies["frame"], bodies["fork"], point=(1.1, 0, 0), axis=steering))
    model.add(ph.joints.Revolute(bodies["fork"], bodies["front"], point=(1.02, 0, -0.35), axis=across))
    for name, radius in (("rear", 0.3), ("front", 0.35)):
        rolling = ph.joints.RollingDisc(model.ground, bodies[name], axis=across, radius=radius, normal=(0, 0, -1))
        model.add(rolling)
    return model


PUBLISHED = {
    4.0: (0.413253315 + 3.079108186j, 0.413253315 - 3.079108186j, -1.429444273, -12.158614266),
    5.0: (-0.775341882 + 4.464867714j, -0.775341882 - 4.464867714j, -0.322866429, -14.078389693),
}
"""Eigenvalues of the benchmark at two speeds, in m/s."""


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("formulation", ["SO3xR3", "minimal", "SE3"])
@pytest.mark.parametrize("speed", [5.0, 4.0])
def test_the_bicycle_has_its_published_eigenvalues(speed: float, formulation: str, backwards: bool) -> None:
    model = bicycle(speed, backwards)
    linear = ph.linearise(model.problem(formulation, t1=1.0, redundant="minimum-norm"))
    contains(linear.eigenvalues, PUBLISHED[speed], 2e-9)
    assert linear.stable is (speed == 5.0)
    assert len(linear.A) == 10


# --- tops and satellites --------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "formulation", ["S3|xR3", *(pytest.param(f, marks=pytest.mark.exhaustive) for f in ("minimal", "SO3xR3", "SE3"))]
)
def test_a_top_that_precesses_steadily_nods(formulation: str) -> None:
    J1, J3, mass, l, tilt, spin = 0.4, 0.1, 2.0, 0.3, 0.5, 60.0  # noqa: E741
    c, s, weight = np.cos(tilt), np.sin(tilt), mass * G * l
    turn = (J3 * spin - np.sqrt((J3 * spin) ** 2 - 4 * J1 * c * weight)) / (2 * J1 * c)
    R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    omega = np.array([0, 0, turn]) + (spin - turn * c) * R[:, 2]
    model = ph.Model(gravity=(0, 0, -G))
    top = model.add_body(
        mass=mass, inertia=(J1 - mass * l**2, J1 - mass * l**2, J3), position=l * R[:, 2], rotation=R,
        angular_velocity=R.T @ omega, velocity=np.cross(omega, l * R[:, 2]), name="top",
    )  # fmt: skip
    model.add(ph.joints.Spherical(model.ground, top, point=(0, 0, 0)))
    linear = ph.linearise(model.problem(formulation, t1=1.0))
    p = J1 * turn * s**2 + J3 * spin * c

    def effective(angle: Any) -> Any:
        """J₁ θ̈ = -V'(θ)."""
        height = jnp.cos(angle)
        return (p - J3 * spin * height) ** 2 / (2 * J1 * jnp.sin(angle) ** 2) + weight * height

    frequency = np.sqrt(float(jax.hessian(effective)(tilt)) / J1)
    contains(linear.eigenvalues, (1j * frequency, -1j * frequency), 1e-8)
    np.testing.assert_allclose(linear.turn, (0, 0, turn), atol=1e-9)


INERTIA = np.array([6.0, 8.0, 3.0])


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_satellite_spins_steadily_about_its_largest_and_smallest_axes_alone(axis: int) -> None:
    rate, other = 3.0, [k for k in range(3) if k != axis]
    J, (A, B) = INERTIA[axis], INERTIA[other]
    square = -(rate**2) * (J - A) * (J - B) / (A * B)
    model = ph.Model()
    model.add_body(
        mass=2.0, inertia=INERTIA, position=(5, 1, 2), velocity=(0.3, 0.2, -0.1),
        angular_velocity=rate * np.eye(3)[axis],
    )  # fmt: skip
    linear = ph.linearise(model.problem("SE3", t1=1.0))
    contains(linear.eigenvalues, np.array([1, -1]) * np.sqrt(complex(square)), 1e-9)
    assert linear.stable is (axis != 0)
    np.testing.assert_allclose(linear.turn, rate * np.eye(3)[axis], atol=1e-12)


def gyrostat(rate: float, wheel: float, backwards: bool, place: Any, speed: Any) -> tuple[ph.Model, complex]:
    """A satellite that spins about an axis with a wheel on it, askew in space, and the eigenvalue of its nutation."""
    body, disc = np.array([9.0, 6.0, 7.5]), np.array([0.05, 0.03, 0.03])
    R = Rotation.from_rotvec((0.3, -0.5, 0.9)).as_matrix()
    parts = {"bus": (10.0, body, rate), "wheel": (1.0, disc, rate + wheel)}
    model, bodies = ph.Model(), {}
    for name in list(parts)[::-1] if backwards else parts:
        mass, inertia, turn = parts[name]
        bodies[name] = model.add_body(
            mass=mass, inertia=inertia, position=place, rotation=R, velocity=speed,
            angular_velocity=(turn, 0, 0), name=name,
        )  # fmt: skip
    model.add(ph.joints.Revolute(bodies["bus"], bodies["wheel"], point=place, axis=R[:, 0]))
    A, B, C = body + disc
    return model, np.sqrt(complex(((C - A) * rate - 0.05 * wheel) * ((A - B) * rate + 0.05 * wheel) / (B * C)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("rate", "wheel", "place", "speed", "formulation", "backwards"),
    [
        (0.4, 200.0, (0, 0, 0), (1, 0.2, 0.1), "minimal", False),
        (0.02, -310.0, (4e3, -7e3, 33.0), (-3e3, 7e3, 2e3), "minimal", True),
        *(
            pytest.param(*one, marks=pytest.mark.exhaustive)
            for one in itertools.product(
                (0.02,), (-310.0,), ((4e3, -7e3, 33.0),), ((-3e3, 7e3, 2e3),), ("SE3",), (True, False)
            )
        ),
        pytest.param(-0.2, 8.0, (4e3, -7e3, 33.0), (-3e3, 7e3, 2e3), "SE3", False, marks=pytest.mark.exhaustive),
        pytest.param(2.0, -31.0, (4e2, -7e2, 33.0), (-3, 7, 2), "SE3", False, marks=pytest.mark.exhaustive),
    ],
)
def test_a_satellite_with_a_wheel_nutates_wherever_and_however_fast_it_flies(
    rate: float, wheel: float, place: Any, speed: Any, formulation: str, backwards: bool
) -> None:
    model, s = gyrostat(rate, wheel, backwards, place, speed)
    linear = ph.linearise(model.problem(formulation, t1=1.0, repair=True))
    contains(linear.eigenvalues, (s, -s), 1e-7)
    assert linear.stable is bool(s.real == 0)
    np.testing.assert_allclose(np.linalg.norm(linear.turn), abs(rate), rtol=1e-6)


def test_a_body_that_wobbles_is_refused() -> None:
    model = ph.Model()
    model.add_body(mass=2.0, inertia=INERTIA, angular_velocity=(1.0, 0.2, 0.1), name="tumbler")
    problem = model.problem("SE3", t1=1.0)
    for linearised in (ph.linearise, ph.modes):
        with pytest.raises(ValueError, match=r"no steady motion: .*`tumbler` turns"):
            linearised(problem)
    assert ph.linearise(problem, anyway=True).stable is None


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rate", "formulation", "scale"),
    [
        (3.0, "minimal", 1.0),
        (6.0, "minimal", 1.0),
        (6.0, "SO3xR3", 5e-11),
        *(pytest.param(6.0, f, k, marks=pytest.mark.exhaustive) for f in ("SE3", "SO3xR3") for k in (1e-8, 1e-12)),
    ],
)
def test_a_pendulum_on_a_hoop_that_is_driven_falls_from_its_critical_rate_on(
    rate: float, formulation: str, scale: float
) -> None:
    """Also with a bob that is a point nearly."""
    r, mass, inertia = 0.5, 1.0, scale * np.array([0.02, 0.05, 0.04])
    model = ph.Model(gravity=(0, 0, -G))
    hoop = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), angular_velocity=(0, 0, rate), name="hoop")
    bob = model.add_body(
        mass=mass, inertia=inertia, position=(0, 0, -r), angular_velocity=(0, 0, rate), name="bob"
    )  # fmt: skip
    axle = ph.joints.Revolute(model.ground, hoop, point=(0, 0, 0), axis=(0, 0, 1))
    model.add(axle)
    model.add(ph.joints.PrescribedRotation(model.ground, hoop, axis=(0, 0, 1), angle=lambda t: rate * t))
    model.add(ph.joints.Revolute(hoop, bob, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    linear = ph.linearise(model.problem(formulation, t1=1.0))
    J = inertia + mass * r**2 * np.array([1, 1, 0])
    square = (rate**2 * (J[0] - J[2]) - mass * G * r) / J[1]
    np.testing.assert_allclose(
        np.sort_complex(linear.eigenvalues**2), [square, square], atol=1e-7 if scale < 1 else 1e-9
    )
    assert linear.stable is bool(square < 0)


@pytest.mark.exhaustive
def test_coefficients_that_depend_on_time_are_refused_at_rest() -> None:
    """A pendulum whose support is shaken: at the start it is at rest, and its stiffness is that of one instant."""
    model = ph.Model(gravity=(0, 0, -G))
    slider = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), name="slider")
    bob = model.add_body(mass=1.0, inertia=(1e-3, 1e-3, 1e-3), position=(0, 0, -0.5), name="bob")
    model.add(ph.joints.Prismatic(model.ground, slider, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(
        ph.joints.PrescribedTranslation(
            model.ground, slider, axis=(0, 0, 1), displacement=lambda t: 0.1 - 0.1 * jnp.cos(20.0 * t)
        )
    )
    model.add(ph.joints.Revolute(slider, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    with pytest.raises(ValueError, match="coefficients depend on time"):
        ph.linearise(model.problem("minimal", t1=1.0))

"""One tumbling body in every form that a method can take, with its exact motion: the systems of the table of methods.

The body hangs on a fixed point under gravity, asymmetric enough that nothing about it is steady. A method that takes a
kind of system which no form here has is not in the table until one is added to `FORMS`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.integrators import AbstractIntegrator, HamiltonianQuaternions
from polhode.spaces import S3
from polhode.spaces.base import hat
from polhode.systems import BodyStates, Lagrangian, QuaternionBody, Separable
from polhode.systems.base import AbstractSystem

GRAVITY = 9.81
CENTRAL = np.array([0.25, 0.15, 0.3])
"""Principal moments about the centre of mass."""

ABOUT = np.array([1.0, 0.0, 1.0])
SPIN = np.array([1.0, 3.0, -1.5])
STIFFNESS = 20.0
MOVING = "sideways_momentum"
VALUES = np.array([1.2, 0.5, 1.0])
"""Mass, distance of the centre of mass from the fixed point along e₂ of the body, and a factor of the spin `SPIN`."""

Motion = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Attitude, body-fixed angular velocity and its derivative; for the soft body F, Ḟ and F̈."""


def moments(values: Any) -> Any:
    """Principal moments about the fixed point."""
    mass, length, _ = values
    return CENTRAL + mass * length**2 * ABOUT


def sphere(values: Any) -> Any:
    """The same of a body that is a sphere as far as inertia goes."""
    return jnp.full(3, jnp.mean(moments(values)))


def weight(values: Any) -> Any:
    return values[0] * values[1] * GRAVITY


def second_moments(values: Any) -> Any:
    """∫ x² dm, ∫ y² dm, ∫ z² dm about the fixed point."""
    J = moments(values)
    return jnp.sum(J) / 2 - J


@dataclasses.dataclass(frozen=True)
class Form:
    """The body as a system.

    - `make`: masses, lengths and speeds as in `VALUES` → system, start and further invariants.
    - `view`: state and values → attitude and velocity. - `rates`: acceleration of attitude and velocity, for DOP853.
    - `multipliers`: motion → λ; None if there are none. `averages`: of so many last steps their mean is to be looked
      at, and it belongs to the time `steps_before_end` times h before the end.
    - `takes`: the class of methods that the form is for. - `lighter`: the same in fewer operations, for what XLA has to
      compile; None if this is the lightest.
    """

    name: str
    make: Callable[[Any], tuple[AbstractSystem, Any, dict[str, Callable[..., Any]]]]
    view: Callable[[Any, Any], tuple[Any, Any]]
    rates: Callable[[np.ndarray, np.ndarray], np.ndarray]
    multipliers: Callable[[Motion], np.ndarray] | None = None
    averages: int = 1
    steps_before_end: float = 0.0
    takes: type[AbstractIntegrator] = AbstractIntegrator
    lighter: Form | None = None

    @functools.cached_property
    def system_and_start(self) -> tuple[AbstractSystem, Any, dict[str, Callable[..., Any]]]:
        """With the usual values: the same system for all methods."""
        return self.make(VALUES)

    def fits(self, method: AbstractIntegrator) -> bool:
        """Whether the method takes this form, by its kinds and by what it says itself."""
        system, state, _ = self.system_and_start
        if not (isinstance(method, self.takes) and isinstance(system, method.kinds)):
            return False
        try:
            method.check(system, 0.0, state)
        except ValueError:
            return False
        return True

    def problem(self) -> ph.Problem:
        """The body with all invariants, and with a quantity that not even the exact motion keeps."""
        system, state, known = self.system_and_start

        def sideways(t: Any, state: Any) -> Any:
            attitude, velocity = self.view(state, VALUES)
            return attitude[0] @ (moments(VALUES) * velocity if velocity.ndim == 1 else velocity[:, 0])

        return ph.Problem(
            name="tumbling-body",
            system=system,
            state0=state,
            t_span=(0.0, 1.0),
            parameters={},
            doc="",
            outputs={},
            invariants={**system.invariants(), **known, MOVING: sideways},
            reference={},
            integrator="",
            h=1e-2,
        )

    def motion(self, t: float) -> Motion:
        """Exact to 1e-12."""
        return _motion(self.rates, t)


@functools.cache
def _motion(rates: Callable[..., np.ndarray], t: float) -> Motion:
    """Of positions F (3×3) and rates: velocities are Ω, or Ḟ where bodies are not rigid."""
    soft = rates is stretch_rates
    start = np.concatenate((np.eye(3).ravel(), (hat_np(SPIN) if soft else SPIN).ravel()))

    def both(_: float, y: np.ndarray) -> np.ndarray:
        F, w = y[:9].reshape(3, 3), y[9:]
        moved = w if soft else (F @ hat_np(w)).ravel()
        return np.concatenate((moved, rates(F, w).ravel()))

    y = start if t == 0 else solve_ivp(both, (0, t), start, method="DOP853", rtol=3e-14, atol=1e-14).y[:, -1]
    F, w = y[:9].reshape(3, 3), y[9:].reshape((3, 3) if soft else 3)
    return F, w, rates(F, w)


def hat_np(w: np.ndarray) -> np.ndarray:
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def euler(J: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Euler's equations with gravity."""

    def rates(R: np.ndarray, w: np.ndarray) -> np.ndarray:
        return (np.cross(J * w, w) + weight(VALUES) * np.cross(R[2], [0.0, 1.0, 0.0])) / J

    return rates


TURN_RATES, ROLL_RATES = euler(np.asarray(moments(VALUES))), euler(np.asarray(sphere(VALUES)))


def stretch_rates(F: np.ndarray, _: np.ndarray) -> np.ndarray:
    """F̈ of a body that may deform by any matrix F, with a penalty on FᵀF - 1."""
    force = -STIFFNESS * F @ (F.T @ F - np.eye(3))
    force[2, 1] -= weight(VALUES)
    return force / np.asarray(second_moments(VALUES))


# --- forms ------------------------------------------------------------------------------------------------------------


def _named_problem(name: str, values: Any, **options: Any) -> ph.Problem:
    mass, length, speed = values
    if name == "heavy-top-constrained":
        place = {"inertia": CENTRAL, "centre": length * jnp.array([0.0, 1.0, 0.0]), "frame": "inertial"}
    else:
        place = {"inertia": moments(values), "axis": (0.0, 1.0, 0.0), "length": length}
    return ph.problems.get(name, mass=mass, gravity=GRAVITY, angular_velocity=speed * SPIN, **place, **options)


def _of_problem(name: str, **options: Any) -> Callable[..., Any]:
    def make(values: Any) -> Any:
        problem = _named_problem(name, values, **options)
        return problem.system, problem.state0, dict(problem.invariants)

    return make


def _support(motion: Motion) -> np.ndarray:
    """Minus the force of the support on the body."""
    R, w, dw = motion
    arm = VALUES[1] * np.array([0.0, 1.0, 0.0])
    acceleration = R @ (np.cross(dw, arm) + np.cross(w, np.cross(w, arm)))
    return -VALUES[0] * (acceleration + np.array([0.0, 0.0, GRAVITY]))


class Height(eqx.Module):
    """Potential of gravity in a quaternion: quadratic, and the same after turns about the vertical."""

    weight: Any

    def __call__(self, q: Any) -> Any:
        return self.weight * 2 * (q[2] * q[3] + q[0] * q[1])


def _quaternion(values: Any) -> Any:
    body = QuaternionBody(jnp.asarray(moments(values)), Height(jnp.asarray(weight(values))))

    def at_nodes(t: Any, state: Any) -> Any:
        """T + V of the velocities, which scatters where momenta belong to steps."""
        return body.total_energy(state)

    return body, body.turning(S3().origin(), values[2] * SPIN), {"energy_at_nodes": at_nodes}


# Multipliers of single steps scatter by O(h), up and down in turns: see the two forms in quaternions.


def _of_livens(motion: Motion) -> np.ndarray:
    """q·(ṗ - ∂T/∂q + ∂V/∂q + λq) = 0 with p = ∂T/∂v: λ = 4T - 2V."""
    kinetic, potential = _energies(motion)
    return np.array([4 * kinetic - 2 * potential])


def _of_hamilton(motion: Motion) -> np.ndarray:
    """q·(ṗ + ∂H/∂q + λq) = 0: λ = -2V."""
    return np.array([-2 * _energies(motion)[1]])


def _energies(motion: Motion) -> tuple[float, float]:
    R, w, _ = motion
    return 0.5 * w @ (np.asarray(moments(VALUES)) * w), weight(VALUES) * R[2, 1]


class WeightPotential(eqx.Module):
    """Potential of gravity and of stretch in the columns of F, one after the other."""

    weight: Any
    stiffness: Any

    def __call__(self, q: Any) -> Any:
        columns = q.reshape(3, 3)
        gap = columns @ columns.T - jnp.eye(3)
        return self.weight * columns[1, 2] + 0.25 * self.stiffness * jnp.sum(gap**2)


_PAIRS = np.array([(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0)])


def rigid(q: Any) -> Any:
    """That the columns are orthonormal: six conditions."""
    columns = q.reshape(3, 3)
    gap = columns @ columns.T - jnp.eye(3)
    return jnp.stack([0.5 * gap[i, j] if i == j else gap[i, j] for i, j in _PAIRS])


def _columns(values: Any, constrained: bool) -> Any:
    mass = jnp.diag(jnp.repeat(jnp.asarray(second_moments(values)), 3))
    potential = WeightPotential(jnp.asarray(weight(values)), jnp.asarray(0.0 if constrained else STIFFNESS))
    system = Lagrangian(9, mass, potential, *((rigid, 6) if constrained else ()))
    return system, system.start(jnp.eye(3).ravel(), hat(values[2] * jnp.asarray(SPIN)).T.ravel()), {}


def _view_columns(state: Any, values: Any) -> Any:
    return state.q.reshape(3, 3).T, state.v.reshape(3, 3).T


def _rigid_columns_seen(state: Any, values: Any) -> Any:
    F, rate = _view_columns(state, values)
    turning = F.T @ rate
    return F, jnp.stack((turning[2, 1], turning[0, 2], turning[1, 0]))


def _of_columns(motion: Motion) -> np.ndarray:
    """Gᵀλ = -∂V/∂q - M q̈."""
    R, w, dw = motion
    acceleration = R @ (hat_np(w) @ hat_np(w) + hat_np(dw))
    force = -acceleration * np.asarray(second_moments(VALUES))
    force[2, 1] -= weight(VALUES)
    gradients = []
    for i, j in _PAIRS:
        G = np.zeros((3, 3))
        G[:, i] += R[:, j]
        G[:, j] += R[:, i] if i != j else 0.0
        gradients.append(G.ravel())
    return np.linalg.lstsq(np.array(gradients).T, force.ravel(), rcond=None)[0]


class HeightPotential(eqx.Module):
    """Gravity on the attitude; the place is held by a spring of its own."""

    weight: Any

    def __call__(self, x: Any, R: Any) -> Any:
        return self.weight * R[0, 2, 1] + 2.0 * jnp.sum(x**2)


def _separable(values: Any, spherical: bool) -> Any:
    J = sphere(values)[:1] if spherical else jnp.asarray(moments(values))[None]
    system = Separable(jnp.asarray(values[0])[None], J, HeightPotential(jnp.asarray(weight(values))))
    place, attitude = jnp.array([[0.1, -0.2, 0.3]]), jnp.array([[1.0, 0.0, 0.0, 0.0]])
    state = BodyStates(place, attitude, jnp.zeros((1, 3)), values[2] * jnp.asarray(SPIN)[None])
    return system, state, {"vertical_spin": lambda t, state: system.spins(state)[0, 2]}


def _view_separable(state: Any, values: Any) -> Any:
    R = S3().to_matrix(state[1][0])
    return R, R.T @ state[3][0]


FORMS = (
    Form(
        "momentum on its coadjoint orbit",
        _of_problem("heavy-top", formulation="lie-poisson"),
        lambda state, values: (state[1], state[0][:3] / moments(values)),
        TURN_RATES,
        lighter=Form(
            "quaternion and angular velocity",
            _of_problem("heavy-top", formulation="S3"),
            lambda state, values: (S3().to_matrix(state[0]), state[1]),
            TURN_RATES,
        ),
    ),
    Form(
        "free body with a joint",
        _of_problem("heavy-top-constrained", formulation="S3xR3"),
        lambda state, values: (S3().to_matrix(state[0][0][0][0]), state[1][:3]),
        TURN_RATES,
        _support,
    ),
    Form(
        "Hamiltonian on T*SO(3)",
        _of_problem("heavy-top", formulation="cotangent"),
        lambda state, values: (state[0], state[0].T @ state[1] / moments(values)),
        TURN_RATES,
    ),
    Form(
        "Hamilton's equations in quaternions",
        _quaternion,
        lambda state, values: (S3().to_matrix(state.q), _quaternion(values)[0].angular_velocity(state.q, state.v)),
        TURN_RATES,
        _of_hamilton,
        averages=2,
        steps_before_end=1.0,
        takes=HamiltonianQuaternions,
    ),
    Form(
        "Livens' equations in quaternions",
        _quaternion,
        lambda state, values: (S3().to_matrix(state.q), _quaternion(values)[0].angular_velocity(state.q, state.v)),
        TURN_RATES,
        _of_livens,
        averages=2,
        steps_before_end=1.0,
    ),
    Form(
        "columns of the attitude, constrained",
        functools.partial(_columns, constrained=True),
        _rigid_columns_seen,
        TURN_RATES,
        _of_columns,
    ),
    Form("columns of a soft body", functools.partial(_columns, constrained=False), _view_columns, stretch_rates),
    Form("separable, any shape", functools.partial(_separable, spherical=False), _view_separable, TURN_RATES),
    Form("separable, spherical", functools.partial(_separable, spherical=True), _view_separable, ROLL_RATES),
)
"""The first that a method takes is the one that it is tried on."""


def form_of(method: AbstractIntegrator) -> Form:
    """Raises LookupError for a method that takes none."""
    for form in FORMS:
        if form.fits(method):
            return form
    raise LookupError(f"No form of the tumbling body is a system for {method!r}; add one to `FORMS`.")

"""A rigid body with one fixed point, or free of forces, in unit quaternions as coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.jax_context import inside_transformation
from polhode.spaces import quaternions
from polhode.spaces.base import cross
from polhode.systems.base import Observable, State, shape_of
from polhode.systems.discrete_gradients import AbstractDiscreteGradient, Gonzalez
from polhode.systems.lagrangian import AbstractParametrisedLagrangian, Derivatives, LivensState

Quaternion = Float[Array, "4"]
Vector3 = Float[Array, "3"]


def _numbers(inertia: Any) -> Array:
    """Moments of inertia as an array. Raises ValueError for other shapes."""
    return checks.array("inertia", inertia, (3, 3) if np.ndim(inertia) == 2 else (3,), "moments of inertia")


class QuaternionBody(AbstractParametrisedLagrangian):
    r"""A rigid body that turns about a point: $T = \tfrac12\Omega\cdot J\Omega$ with $\Omega = 2G(q)v$, V(q), |q| = 1.

    Coordinates are the quaternion q = (w, x, y, z) of the attitude; the mass matrix 4GᵀJG depends on it and has rank
    3. The discrete derivatives of T go through Ω, which turns of the inertial frame leave unchanged:
    $\bar\partial_vT = 2G(\bar q)^TJ\bar\Omega,\ \bar\partial_qT = -2G(\bar v)^TJ\bar\Omega$ with
    $\bar\Omega = \tfrac12(\Omega_0+\Omega_1)$. So a free body keeps its angular momentum ½E(q)p.

    **Arguments:**

    - `inertia`: J about the point, principal moments of shape (3,), or (3, 3) in any body-fixed axes.
    - `potential`: callable q → V, or None. Quadratic functions, such as the height of a point of the body, keep the
      momentum about the vertical too.
    - `gradient`: how V is averaged.

    ??? cite "Reference"
        P. L. Kinon, P. Betsch, Conserving integration of multibody systems with singular and non-constant mass matrix
        including quaternion-based rigid body dynamics, equations (84) to (86) and (103) to (105).
    """

    kind_name: ClassVar = "rigid body that turns about a point, in quaternions"

    inertia: Float[Array, "..."] = eqx.field(converter=_numbers)
    potential: Callable[[Quaternion], Float[Array, ""]] | None = None
    gradient: AbstractDiscreteGradient = eqx.field(default_factory=Gonzalez)

    def __check_init__(self) -> None:
        J = self.inertia
        if J.ndim == 1:
            checks.positive("inertia", J, (3,), "principal moments of inertia")
        elif checks.is_concrete(J) and not _is_positive_definite(np.asarray(J)):
            raise ValueError(
                f"`inertia` must be symmetric and positive definite, got {checks.short_repr(self.inertia)}."
            )

    @property
    def n(self) -> int:
        return 4

    @property
    def m(self) -> int:
        return 1

    @property
    def null_dim(self) -> int:
        return 3

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        """All momenta of a free body; the vertical one if V is quadratic and invariant under turns about e₃."""
        if self.potential is None:
            return ("angular_momentum", "vertical_angular_momentum")
        return ("vertical_angular_momentum",) if _is_symmetric_about_vertical(self.potential) else ()

    @property
    def pivots(self) -> bool:
        return False

    def kinetic_energy(self, q: Quaternion, v: Quaternion) -> Float[Array, ""]:
        omega = self.angular_velocity(q, v)
        return 0.5 * omega @ self.spin(omega)

    def spin(self, omega: Vector3) -> Vector3:
        """JΩ."""
        return self.inertia @ omega if self.inertia.ndim == 2 else self.inertia * omega

    def potential_energy(self, q: Quaternion) -> Float[Array, ""]:
        return jnp.zeros(()) if self.potential is None else self.potential(q)

    def constraint(self, q: Quaternion) -> Float[Array, "1"]:
        return 0.5 * (q @ q - 1)[None]

    def discrete_derivatives(self, q0: Quaternion, v0: Quaternion, q1: Quaternion, v1: Quaternion) -> Derivatives:
        q, v = 0.5 * (q0 + q1), 0.5 * (v0 + v1)
        momentum = self.spin(G(q0, v0) + G(q1, v1))
        V = jnp.zeros(4) if self.potential is None else self.gradient(self.potential, q0, q1)
        return Derivatives(-2 * G_transposed(v, momentum), 2 * G_transposed(q, momentum), V, q[None])

    def midpoint_derivatives(self, q0: Quaternion, v0: Quaternion, q1: Quaternion, v1: Quaternion) -> Derivatives:
        q, v = 0.5 * (q0 + q1), 0.5 * (v0 + v1)
        momentum = 2 * self.spin(G(q, v))
        V = jnp.zeros(4) if self.potential is None else jax.grad(self.potential)(q)
        return Derivatives(-2 * G_transposed(v, momentum), 2 * G_transposed(q, momentum), V, q[None])

    def advance(self, q: Quaternion, x: Vector3) -> Quaternion:
        """exp(ϑ/2) ∘ q for x = tan(|ϑ|/4) ϑ/|ϑ|, ϑ a rotation vector in the inertial frame: no trigonometry."""
        square = x @ x
        turn = jnp.concatenate(((1 - square)[None], 2 * x)) / (1 + square)
        return quaternions.multiply(turn, q)

    def increments(self, h: Array, q: Quaternion, v: Quaternion) -> Vector3:
        return 0.5 * h * E(q, v)

    def project(self, q0: Quaternion, q1: Quaternion, force: Quaternion) -> Vector3:
        # Normalised: otherwise the projection vanishes for steps of half a turn.
        q = 0.5 * (q0 + q1)
        return G(q / jnp.sqrt(q @ q), force)

    def angular_velocity(self, q: Quaternion, v: Quaternion) -> Vector3:
        """Ω = 2G(q)v, body frame."""
        return 2 * G(q, v)

    def angular_momentum(self, q: Quaternion, p: Quaternion) -> Vector3:
        """½E(q)p, inertial frame."""
        return 0.5 * E(q, p)

    def turning(self, attitude: Any, angular_velocity: Any) -> LivensState:
        """The state with the given quaternion and body-fixed angular velocity."""
        q = checks.array("attitude", attitude, (4,), "a unit quaternion")
        angular_velocity = checks.array("angular_velocity", angular_velocity, (3,), "body frame")
        return self.start(q, 0.5 * G_transposed(q, jnp.asarray(angular_velocity, float)))

    def outputs(self) -> dict[str, Observable]:
        return {
            "rotation": lambda t, state: quaternions.to_matrix(state.q),
            "angular_velocity": lambda t, state: self.angular_velocity(state.q, state.v),
            "angular_momentum": lambda t, state: self.angular_momentum(state.q, state.p),
            **super().outputs(),
        }

    def invariants(self) -> dict[str, Observable]:
        functions = super().invariants()
        if self.potential is None:
            functions["angular_momentum"] = lambda t, state: self.angular_momentum(state.q, state.p)
        elif self.kept_momenta:
            functions["vertical_angular_momentum"] = lambda t, state: self.angular_momentum(state.q, state.p)[2]
        return functions

    def check(self, t: float, state: State) -> None:
        if self.potential is not None:
            q, *_ = state
            shape_of("potential(q)", self.potential, (q,), (), "the potential energy")
        super().check(t, state)


def _is_positive_definite(J: np.ndarray) -> bool:
    return bool(np.allclose(J, J.T, rtol=1e-12, atol=0) and np.linalg.eigvalsh(J)[0] > 0)


def _is_symmetric_about_vertical(potential: Callable[[Quaternion], Float[Array, ""]]) -> bool:
    """Whether V is quadratic and invariant under turns about e₃, by evaluation; False inside JAX transformations."""
    if inside_transformation() or not checks.is_concrete(potential):
        return False
    a, b, none = jnp.array([0.7, -0.4, 0.2, 0.5]), jnp.array([-0.3, 0.6, 0.8, 0.1]), jnp.zeros(4)
    rotated_a = quaternions.multiply(jnp.array([jnp.cos(0.6), 0.0, 0.0, jnp.sin(0.6)]), a)
    V = [float(potential(q)) for q in (a, b, a + b, a - b, none, rotated_a)]
    size = 1e-12 * max(map(abs, V))
    return abs(V[2] + V[3] - 2 * V[0] - 2 * V[1] + 2 * V[4]) <= 8 * size and abs(V[5] - V[0]) <= 8 * size


def G(a: Quaternion, b: Quaternion) -> Vector3:
    """The vector part of a⁻¹∘b for a unit quaternion a: G(a)b."""
    return a[0] * b[1:] - b[0] * a[1:] - cross(a[1:], b[1:])


def E(a: Quaternion, b: Quaternion) -> Vector3:
    """The vector part of b∘a⁻¹ for a unit quaternion a: E(a)b."""
    return a[0] * b[1:] - b[0] * a[1:] + cross(a[1:], b[1:])


def G_transposed(a: Quaternion, x: Vector3) -> Quaternion:
    """G(a)ᵀx = a∘(0, x)."""
    return jnp.concatenate((-(a[1:] @ x)[None], a[0] * x + cross(a[1:], x)))


def E_transposed(a: Quaternion, x: Vector3) -> Quaternion:
    """E(a)ᵀx = (0, x)∘a."""
    return jnp.concatenate((-(a[1:] @ x)[None], a[0] * x - cross(a[1:], x)))

"""A point mass on an elastic bar in spherical coordinates."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.problem import Reference
from polhode.problems.declaration import Draft, Number, Positive, declare
from polhode.systems.base import State
from polhode.systems.discrete_gradients import Through
from polhode.systems.lagrangian import Lagrangian
from polhode.viewing.scene.scene import Body, Line, Scene, Trail

Vector3 = Float[Array, "3"]

_DOC = """A point mass at the end of a massless elastic bar, in spherical coordinates q = (r, θ, φ), θ from e₃.

T = ½ m (ṙ² + r² θ̇² + r² sin²θ φ̇²): the mass matrix depends on q. V = ½ EA l₀ ε² + m g r cosθ with the strain
ε = ½((r/l₀)² - 1). T doesn't depend on φ, but its discrete derivative along Δq lets p_φ change by O(h²).

Source: P. L. Kinon & P. Betsch, *Conserving integration of multibody systems with singular and non-constant mass
matrix*, (110)–(112); they print EA ε r/l₀² for dV/dr, which is the same with l₀ = 1. Start: q = (1.05, π/2, 0),
v = (0, 1, 1); m = 1, EA = 300, l₀ = 1, no gravity.
"""

_SOURCE = "Cartesian coordinates, DOP853 at 1e-13"
# At t = 1.
_END = (1.023990836187, 2.355977500928, 1.541337346285)


class _Kinetic(eqx.Module):
    mass: Float[Array, ""]

    def __call__(self, q: Vector3, v: Vector3) -> Float[Array, ""]:
        across = v[1] ** 2 + (jnp.sin(q[1]) * v[2]) ** 2
        return 0.5 * self.mass * (v[0] ** 2 + q[0] ** 2 * across)


class _Potential(eqx.Module):
    """Of (r², r, θ): quadratic in r², and without φ, so that its discrete gradient has no part along φ."""

    stiffness: Float[Array, ""]
    length: Float[Array, ""]
    weight: Float[Array, ""]

    def __call__(self, x: Vector3) -> Float[Array, ""]:
        strain = 0.5 * (x[0] / self.length**2 - 1)
        return 0.5 * self.stiffness * self.length * strain**2 + self.weight * x[1] * jnp.cos(x[2])


class _Inner(eqx.Module):
    def __call__(self, q: Vector3) -> Vector3:
        return jnp.stack((q[0] ** 2, q[0], q[1]))


@declare("spring-pendulum", _DOC)
def spring_pendulum(
    mass: Positive = 1.0,
    stiffness: Positive = 300.0,
    length: Positive = 1.0,
    gravity: Number = 0.0,
    coordinates: Number = (1.05, float(np.pi / 2), 0.0),
    velocities: Number = (0.0, 1.0, 1.0),
    duration: Positive = 1.0,
) -> Draft:
    """The elastic spherical pendulum.

    **Arguments**, in any consistent units:

    - `mass`: mass.
    - `stiffness`: stiffness EA of the bar; a force.
    - `length`: length of the bar at rest; l₀.
    - `gravity`: gravitational acceleration towards -e3.
    - `coordinates`: (r, θ, φ) at t = 0; shape (3,).
    - `velocities`: rates of (r, θ, φ) at t = 0; shape (3,).
    - `duration`: end time.
    """
    inner = Through(_Potential(stiffness, length, mass * gravity), _Inner())
    system = Lagrangian(3, _Kinetic(mass), inner)
    reference: dict[str, Reference] = {"coordinates": {"t": 1.0, "value": _END, "error": 2e-11, "source": _SOURCE}}
    return Draft(
        system=system,
        state0=system.start(coordinates, velocities),
        outputs={**system.outputs(), "position": lambda t, state: position(state)},
        invariants={**system.invariants(), "vertical_angular_momentum": lambda t, state: state.p[2]},
        reference=reference,
        independent_of=(),
        integrator="eml",
        h=0.01,
        scene=_scene(length),
    )


def position(state: State) -> Vector3:
    """Place of the mass in the inertial frame."""
    r, theta, phi = state.q
    s = jnp.sin(theta)
    return r * jnp.stack((s * jnp.cos(phi), s * jnp.sin(phi), jnp.cos(theta)))


def _scene(length: Array) -> Scene:
    return Scene(
        parts=(
            Line("bar", lambda t, state: jnp.stack((jnp.zeros(3), position(state)))),
            Body("mass", "ellipsoid", 0.1 * length * jnp.ones(3), lambda t, state: (position(state), jnp.eye(3))),
            Trail("position"),
        )
    )

"""The heavy top in steady precession, known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.problem import Observable, Reference
from polhode.problems import heavy_top_motion
from polhode.problems.declaration import Draft, Number, Positive, declare
from polhode.problems.heavy_top_forms import FORMULATIONS as FIRST_ORDER
from polhode.problems.heavy_top_forms import TopParameters
from polhode.problems.rotation_forms import Formulation, in_quaternions
from polhode.spaces import S3
from polhode.systems.base import State
from polhode.systems.quaternion_body import QuaternionBody

Vector3 = Float[Array, "3"]
Quaternion = Float[Array, "4"]

_DOC = """A cone that turns about its apex and precesses at a constant rate and inclination.

Formulations: `livens` carries (q, v, p) in unit quaternions, for energy–momentum methods; `SO3` and `S3` (attitude, Ω),
`lie-poisson` (Π, Γ) and the attitude, and `cotangent` (Q, π) are those of the problem `heavy-top`. With `livens` the
invariants are those of the momenta p: the generalised energy p·v - T + V, and the angular momentum ½E(q)p.

A cone of the given density, height a and radius r: m = ρπr²a/3, centre of mass at l = ¾a, moments about the apex
J₁ = J₂ = 3/80 m(4r² + a²) + m l² and J₃ = 3/10 m r². Its axis starts at (0, -sin ϑ, cos ϑ), and the angular velocity
is ω_p e₃ + ω_s d₃ with ω_s = m g l/(J₃ω_p) + (J₁ - J₃)/J₃ ω_p cos ϑ, for which ϑ and both rates stay. The centre of
mass moves as l (sin ϑ sin ω_p t, -sin ϑ cos ω_p t, cos ϑ).

Source: P. L. Kinon & P. Betsch, *Conserving integration of multibody systems with singular and non-constant mass
matrix*, §5.4, (114) with m l² in the first two components, (118), (120). ρ = 2700, a = 0.1, r = a/2, g = 9.81,
ϑ = π/3, ω_p = 10, hence ω_s = 135.6.
"""


class _Weight(eqx.Module):
    """m g l R₃₃, quadratic in q."""

    moment: Float[Array, ""]

    def __call__(self, q: Quaternion) -> Float[Array, ""]:
        return self.moment * (q[0] ** 2 - q[1] ** 2 - q[2] ** 2 + q[3] ** 2)


_FORMULATIONS: dict[str, Callable[[TopParameters], Formulation]] = {
    "livens": lambda top: in_quaternions(QuaternionBody(top.inertia, _Weight(top.weight_moment)), 0.01),
    **{name: FIRST_ORDER[name] for name in ("SO3", "S3", "lie-poisson", "cotangent")},
}

_STARTS: dict[str, Callable[[TopParameters, Quaternion, Vector3], State]] = {
    "livens": lambda top, q, omega: QuaternionBody(top.inertia).turning(q, omega),
    "SO3": lambda top, q, omega: (S3().to_matrix(q), omega),
    "S3": lambda top, q, omega: (q, omega),
    "lie-poisson": lambda top, q, omega: (
        jnp.concatenate((top.inertia * omega, S3().to_matrix(q)[2])),
        S3().to_matrix(q),
    ),
    "cotangent": lambda top, q, omega: (S3().to_matrix(q), S3().to_matrix(q) @ (top.inertia * omega)),
}


@declare("steady-precession", _DOC)
def steady_precession(
    formulation: str = "livens",
    density: Positive = 2700.0,
    height: Positive = 0.1,
    radius: Positive = 0.05,
    gravity: Positive = 9.81,
    inclination: Number = float(np.pi / 3),
    precession_rate: Positive = 10.0,
    duration: Positive = 2.0,
) -> Draft:
    """A cone in steady precession about the vertical through its apex.

    **Arguments**, in SI units:

    - `formulation`: "livens", "SO3", "S3", "lie-poisson" or "cotangent".
    - `density`: density of the cone.
    - `height`: height of the cone.
    - `radius`: radius of the cone's base.
    - `gravity`: gravitational acceleration towards -e3.
    - `inclination`: angle of the axis from e3; ϑ.
    - `precession_rate`: rate of the axis about e3; ω_p.
    - `duration`: end time.
    """
    checks.choice("formulation", formulation, _FORMULATIONS)
    theta, rate = inclination, precession_rate
    top = _cone(density, height, radius, gravity)
    spin = spin_rate(top, theta, rate)
    tilt = jnp.stack((jnp.cos(theta / 2), jnp.sin(theta / 2), jnp.zeros(()), jnp.zeros(())))
    omega = jnp.stack((jnp.zeros(()), rate * jnp.sin(theta), rate * jnp.cos(theta) + spin))
    form = _FORMULATIONS[formulation](top)
    exact = steady_precession_solution(top.length, theta, rate, spin, duration)
    return Draft(
        system=form.system,
        state0=_STARTS[formulation](top, tilt, omega),
        outputs=heavy_top_motion.outputs(top, form),
        invariants=_invariants(top, form),
        reference=_reference(exact, duration) if checks.is_concrete(exact, duration) else {},
        integrator=form.integrator,
        h=form.h,
        # A disc at the centre of mass: of the cone's base, and half as thick as the cone is high.
        scene=heavy_top_motion.scene(top, form, jnp.stack((2 * radius, 2 * radius, 0.5 * height))),
    )


def _cone(density: Array, height: Array, radius: Array, gravity: Array) -> TopParameters:
    mass = density * jnp.pi * radius**2 * height / 3
    length = 0.75 * height
    across = 3 / 80 * mass * (4 * radius**2 + height**2) + mass * length**2
    inertia = jnp.stack((across, across, 0.3 * mass * radius**2))
    return TopParameters(mass, length, gravity, inertia, jnp.array([0.0, 0.0, 1.0]))


def spin_rate(top: TopParameters, inclination: Any, precession_rate: Any) -> Array:
    """ω_s about the axis for steady precession, besides ω_p about the vertical."""
    J1, _, J3 = top.inertia
    return top.weight_moment / (J3 * precession_rate) + (J1 - J3) / J3 * precession_rate * jnp.cos(inclination)


def steady_precession_solution(
    length: Any, inclination: Any, precession_rate: Any, spin: Any, t: Any
) -> tuple[Float[Array, "... 3"], Float[Array, "... 3 3"]]:
    """Centre of mass and attitude at the times `t` of any shape."""
    precession_angle, spin_angle = jnp.asarray(precession_rate * t), jnp.asarray(spin * t)
    c, s = jnp.cos(inclination), jnp.sin(inclination)
    one, zero = jnp.ones_like(precession_angle), jnp.zeros_like(precession_angle)

    def about_axis(angle: Array) -> Array:
        rows = ((jnp.cos(angle), -jnp.sin(angle), zero), (jnp.sin(angle), jnp.cos(angle), zero), (zero, zero, one))
        return jnp.stack([jnp.stack(row, -1) for row in rows], -2)

    tilt = jnp.stack((jnp.stack((1.0 + 0 * c, 0 * c, 0 * c)), jnp.stack((0 * c, c, -s)), jnp.stack((0 * c, s, c))))
    rotation = about_axis(precession_angle) @ tilt @ about_axis(spin_angle)
    return length * rotation[..., 2], rotation


def _invariants(top: TopParameters, form: Formulation) -> dict[str, Observable]:
    """Of the momenta with `livens`, otherwise of the angular velocity."""
    body = form.system if isinstance(form.system, QuaternionBody) else None

    def momentum(state: State) -> Vector3:
        if body is not None:
            return body.angular_momentum(state.q, state.p)
        return form.attitude(state) @ (top.inertia * form.omega(state))

    def energy(t: Array, state: State) -> Array:
        if body is not None:
            return body.generalised_energy(state)
        height = form.attitude(state)[2] @ top.axis
        return 0.5 * jnp.sum(top.inertia * form.omega(state) ** 2) + top.weight_moment * height

    return {
        "energy": energy,
        "vertical_angular_momentum": lambda t, state: momentum(state)[2],
        "spin_momentum": lambda t, state: momentum(state) @ (form.attitude(state) @ top.axis),
    }


def _reference(exact: tuple[Array, Array], duration: Any) -> dict[str, Reference]:
    source = "steady precession in closed form, polhode.problems.steady_precession_solution"
    centre, rotation = (np.asarray(x) for x in exact)
    t1 = float(duration)
    return {
        "centre_of_mass": {"t": t1, "value": centre, "error": 1e-14, "source": source},
        "rotation": {"t": t1, "value": rotation, "error": 1e-12, "source": source},
    }

"""The free rigid body: as a group motion, on a coadjoint orbit, and in quaternions with momenta of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.problem import Reference
from polhode.problems.declaration import Draft, Number, Positive, declare
from polhode.problems.rigid_rotation import free_rigid_body_solution
from polhode.problems.rotation_forms import Formulation, in_quaternions, on_group
from polhode.spaces import S3, SO3, CoadjointOrbit, Product
from polhode.spaces.base import cross
from polhode.systems.base import Observable, State
from polhode.systems.quaternion_body import QuaternionBody
from polhode.systems.vector_field import VectorField
from polhode.viewing.scene.scene import Body, Line, Scene

Vector3 = Float[Array, "3"]

_DOC = """A rigid body that turns freely: Ṙ = R Ω^, I Ω̇ = I Ω × Ω.

Formulations: `SO3` and `S3` carry (attitude, Ω) on SO(3)×R³ and S³×R³; `coadjoint` carries the body momentum
μ = I Ω on its coadjoint orbit of so(3)*, μ̇ = ad*(I⁻¹μ) μ, together with the attitude. There the two move by the same
rotation in opposite senses, so every method of the action keeps |μ| and the spatial momentum R μ to round-off.
`livens` carries (q, v, p) in unit quaternions for energy–momentum methods. Its invariants are those of the momenta p,
the generalised energy p·v - T and ½E(q)p; ½ Ω·IΩ at the nodes is the output `total_energy`, which scatters by O(h²).

Default data: P. L. Kinon & P. Betsch, *Conserving integration of multibody systems with singular and non-constant mass
matrix*, §5.3: I = diag(6, 8, 3), Ω(0) = (10, 20, 20), R(0) = 1, T = 2. Reference: the exact solution in elliptic
functions (`free_rigid_body_solution`).
"""


class FreeRotation(eqx.Module):
    """Euler's equations on (attitude, Ω): the velocity (Ω, I⁻¹(IΩ × Ω)), body frame, shape (6,)."""

    inertia: Vector3

    def __call__(self, t: Array, state: tuple[Array, Vector3]) -> Float[Array, "6"]:
        del t
        omega = state[1]
        return jnp.concatenate((omega, 1 / self.inertia * cross(self.inertia * omega, omega)))


class FreeCoadjointRotation(eqx.Module):
    """Lie–Poisson form on (μ, R): generators (-I⁻¹μ, I⁻¹μ) of the coadjoint action and of the attitude.

    The Hamiltonian ½ μ·I⁻¹μ is left-invariant, μ̇ = +ad*(∂H/∂μ) μ, which the left action generates by -∂H/∂μ.
    """

    inertia: Vector3

    def __call__(self, t: Array, state: tuple[Vector3, Array]) -> Float[Array, "6"]:
        del t
        omega = 1 / self.inertia * state[0]
        return jnp.concatenate((-omega, omega))


def _coadjoint(inertia: Vector3) -> Formulation:
    return Formulation(
        system=VectorField(Product(CoadjointOrbit(SO3()), SO3()), FreeCoadjointRotation(inertia)),
        start=lambda omega: (inertia * omega, SO3().origin()),
        attitude=lambda state: state[1],
        omega=lambda state: state[0] / inertia,
        h=1e-3,
    )


_FORMULATIONS: dict[str, Callable[[Vector3], Formulation]] = {
    "SO3": lambda inertia: on_group(SO3(), FreeRotation(inertia), 1e-3),
    "S3": lambda inertia: on_group(S3(), FreeRotation(inertia), 1e-3),
    "coadjoint": _coadjoint,
    "livens": lambda inertia: in_quaternions(QuaternionBody(inertia), 0.05),
}


@declare("free-rigid-body", _DOC)
def free_rigid_body(
    formulation: str = "SO3",
    inertia: Positive = (6.0, 8.0, 3.0),
    angular_velocity: Number = (10.0, 20.0, 20.0),
    duration: Positive = 2.0,
) -> Draft:
    """A freely turning rigid body.

    **Arguments**, in any consistent units:

    - `formulation`: "SO3", "S3", "coadjoint" or "livens".
    - `inertia`: principal moments of inertia; shape (3,).
    - `angular_velocity`: body-fixed angular velocity at t = 0; Ω(0), shape (3,).
    - `duration`: end time.
    """
    checks.choice("formulation", formulation, _FORMULATIONS)
    form = _FORMULATIONS[formulation](inertia)
    return Draft(
        system=form.system,
        state0=form.start(angular_velocity),
        outputs={**form.system_outputs(), **form.rotations()},
        invariants=_invariants(inertia, form),
        reference=_reference(inertia, angular_velocity, duration),
        integrator=form.integrator,
        h=form.h,
        scene=_scene(inertia, form),
    )


def _invariants(moments: Vector3, form: Formulation) -> dict[str, Observable]:
    body = form.system
    if isinstance(body, QuaternionBody):
        return {
            "energy": lambda t, state: body.generalised_energy(state),
            "angular_momentum": lambda t, state: body.angular_momentum(state.q, state.p),
        }
    return {
        "energy": lambda t, state: 0.5 * jnp.sum(moments * form.omega(state) ** 2),
        "angular_momentum": lambda t, state: form.attitude(state) @ (moments * form.omega(state)),
    }


def _reference(inertia: Any, angular_velocity: Any, duration: Any) -> dict[str, Reference]:
    """The exact state at the end; none while parameters are being traced."""
    if not checks.is_concrete(inertia, angular_velocity, duration):
        return {}
    t1 = float(duration)
    rotation, omega = free_rigid_body_solution(np.asarray(inertia), np.asarray(angular_velocity), np.asarray(t1))
    source = "exact solution in elliptic functions, polhode.problems.free_rigid_body_solution"
    return {
        "rotation": {"t": t1, "value": rotation, "error": 1e-12, "source": source},
        "angular_velocity": {"t": t1, "value": omega, "error": 1e-11, "source": source},
    }


def _scene(inertia: Vector3, form: Formulation) -> Scene:
    """A box with these principal moments, and its angular velocity, whose tip stays in a fixed plane."""
    squares = jnp.clip(jnp.sum(inertia) - 2 * inertia, min=0.01 * jnp.sum(inertia))
    size = jnp.sqrt(squares / jnp.max(squares))
    centre = jnp.zeros(3)

    def rate_arrow(t: Array, state: State) -> Float[Array, "2 3"]:
        omega = form.attitude(state) @ form.omega(state)
        return jnp.stack((centre, omega / jnp.linalg.norm(omega)))

    return Scene(
        parts=(
            Body("body", "box", size, lambda t, state: (centre, form.attitude(state))),
            Line("angular velocity", rate_arrow),
        )
    )

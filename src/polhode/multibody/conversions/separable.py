"""Models without joints for explicit variational integrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.formulations.lie_groups import DirectProduct
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Pose
from polhode.multibody.system import MultibodySystem
from polhode.spaces import component_arrays, quaternions
from polhode.systems.base import Observable, State
from polhode.systems.separable import AbstractSeparable, BodyStates, Loads, PoseComponents, Rest, Surroundings

SEPARABLE = "separable"
_EQUAL = 1e-12
"""Relative difference of principal moments below which a body counts as spherical."""


class SeparableMultibody(AbstractSeparable):
    """A model as a separable system: bodies with forces from potentials, and no joints.

    States are `systems.BodyStates`, with attitudes of the principal axes of the bodies; `rigid-verlet` takes them, and
    `rodrigues` if all bodies are spherical. Outputs are those of the model in other formulations.

    - `base`: the same model in coordinates (quaternion, x).
    - `axes`: quaternions of the principal axes in the frames of the bodies, shape (n, 4).
    - `masses`: shape (n,). - `inertias`: principal moments, shape (n, 3), or (n,) if all bodies are spherical.
    - `free`: whether nothing acts from outside.
    """

    base: MultibodySystem[AbsoluteCoordinates]
    axes: Float[Array, "n 4"]
    masses: Float[Array, " n"]
    inertias: Array
    free: bool = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the bodies in the order of the rows of states and outputs."""
        return self.base.names

    @property
    def dropped(self) -> dict[str, tuple[int, ...]]:
        """Redundant components; none, without constraints."""
        return {}

    @property
    def conservative(self) -> bool:
        """Whether energy is kept; always, as `assemble` checks the forces."""
        return True

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        return ("linear_momentum", "angular_momentum") if self.free else ()

    def loads(self, places: PoseComponents, rest: Rest, around: Surroundings) -> Loads:
        del rest, around
        motion = self._motion(component_arrays.rows(places.x), component_arrays.rows(places.q))
        (wrench,) = self.base.coordinates.wrenches(self.base.mechanism, jnp.zeros(()), motion)
        moment = jnp.einsum("nij,nj->ni", motion.poses.R[:-1], wrench.torque)
        return Loads(component_arrays.columns(wrench.force), component_arrays.columns(moment))

    def potential_energy(self, state: State) -> Float[Array, ""]:
        return self.base.potential_energy(jnp.zeros(()), self.coordinates(state)[0])

    def coordinates(self, state: State) -> State:
        """(q, v) of `base` at a state."""
        x, q, v, omega = state
        attitude = self._attitudes(q)
        body = jax.vmap(lambda p, w: quaternions.rotate(quaternions.conjugate(p), w))(attitude, omega)
        return ((attitude, x),), jnp.concatenate((body, v), axis=1).reshape(-1)

    def start(self, state: State) -> BodyStates:
        """The state that corresponds to (q, v) of `base`."""
        motion = self.base.motion(*state)
        assert motion.twists is not None
        R, omega = motion.poses.R[:-1], motion.twists.omega[:-1]
        q = jax.vmap(quaternions.multiply)(state[0][0][0], self.axes)
        return BodyStates(motion.poses.x[:-1], q, motion.twists.u[:-1], jnp.einsum("nij,nj->ni", R, omega))

    def outputs(self) -> dict[str, Observable]:
        return {**self.convert_observables(self.base.outputs()), **self.balances()}

    def balances(self) -> dict[str, Observable]:
        """Momenta of the whole."""
        return {
            "linear_momentum": lambda t, state: self.linear_momentum(state),
            "angular_momentum": lambda t, state: self.angular_momentum(state),
        }

    def convert_observables(self, observables: Mapping[str, Observable]) -> dict[str, Observable]:
        """Observables of `base` as ones of this system."""
        return {name: self.convert_observable(f) for name, f in observables.items()}

    def convert_observable(self, observable: Callable[[Array, Any], Any]) -> Callable[[Array, Any], Any]:
        """A function of (t, state) of `base` as one of this system."""
        return lambda t, state: observable(t, self.coordinates(state))

    def invariants(self) -> dict[str, Observable]:
        momenta = {name: f for name, f in self.balances().items() if name in self.kept_momenta}
        return {**super().invariants(), **momenta}

    @property
    def has_stiff_forces(self) -> bool:
        return self.base.has_stiff_forces

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        return self.base.explicit_limit(t, self.coordinates(state), h, share)

    def _attitudes(self, q: Float[Array, "n 4"]) -> Float[Array, "n 4"]:
        back = jax.vmap(quaternions.conjugate)(self.axes)
        return jax.vmap(quaternions.multiply)(q, back)

    def _motion(self, x: Float[Array, "n 3"], q: Float[Array, "n 4"]) -> Motion:
        """Poses of all bodies and the ground."""
        R = jax.vmap(quaternions.to_matrix)(self._attitudes(q))
        ground = jnp.zeros((1, 3)), jnp.eye(3)[None]
        return Motion(Pose(jnp.concatenate((x, ground[0])), jnp.concatenate((R, ground[1]))))


def build(base: MultibodySystem[AbsoluteCoordinates], state: State) -> tuple[SeparableMultibody, BodyStates]:
    """The system and its start, from the bodies in quaternions and positions.

    Raises ValueError for joints, mass points and other coordinates, and loads that have no potential.
    """
    _check(base)
    (group,) = base.coordinates.bodies
    moments, axes = jnp.linalg.eigh(group.inertia)
    # Columns of a rotation, not of a reflection.
    axes = axes.at[:, :, 2].multiply(jnp.linalg.det(axes)[:, None])
    concrete = checks.is_concrete(group.inertia)
    if concrete and np.all(np.ptp(np.asarray(moments), axis=1) <= _EQUAL * np.asarray(moments)[:, 2]):
        moments, axes = moments[:, 1], jnp.broadcast_to(jnp.eye(3), axes.shape)
    system = SeparableMultibody(
        base=base,
        axes=jax.vmap(quaternions.from_matrix)(axes),
        masses=group.mass,
        inertias=moments,
        free=base.mechanism.acts_inside,
    )
    return system, system.start(state)


def _check(base: MultibodySystem[AbsoluteCoordinates]) -> None:
    remedy = "Use another formulation, such as 'SE3'"
    if base.m:
        raise ValueError(
            f"formulation='separable' has no constraints, and the model has joints: `{base.labels[0]}`. {remedy}, or "
            "stiff springs and bonds in their place."
        )
    if base.counter is not None:
        raise ValueError(
            "formulation='separable' counts no turns, and some forces of the model act along angles, such as a "
            f"`TorsionalSpringDamper`. {remedy}."
        )
    for name, group, *_ in base.coordinates.places:
        if not isinstance(base.coordinates.bodies[group].formulation, DirectProduct):
            kind = type(base.coordinates.bodies[group].formulation).__name__
            raise ValueError(
                f"formulation='separable' takes rigid bodies in coordinates of its own, and `{name}` has those of "
                f"{kind}. {remedy}, or a body with an inertia."
            )
    for group in base.mechanism.forces:
        if not group.elements.conservative:
            names = [base.names[i] for slot in group.slots if slot.group is not None for i in slot.members.numbers[:1]]
            raise ValueError(
                f"formulation='separable' takes forces with a potential that doesn't depend on time, and "
                f"{type(group.elements).__name__} on {' and '.join(f'`{name}`' for name in names)} has none. {remedy}."
            )

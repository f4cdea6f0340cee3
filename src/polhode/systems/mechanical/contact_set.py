"""The interface of contacts with friction: gaps, rows of relative velocities, and the numbers of their laws."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.compiler.primitives.row_loop import map_rows
from polhode.modules import Module
from polhode.spaces.base import Point, Vector

_FEATURES = 1 << 32
"""More than there are features of a pair of shapes, which are numbers of 32 bits."""


class ContactKinematics(NamedTuple):
    """Contacts in a position: u = W v + χ are their relative velocities.

    - `gap`: positive where apart, shape (k,).
    - `rows`: W, shape (k, rows, n); per contact along the normal, along two tangents, and with spins about these; of
      joints along stop and coordinate.
    - `drift`: χ, shape (k, rows), of surfaces and walls that move by themselves.
    - `places`: whatever else `columns` needs to know of them.
    - `feature`: numbers of what touches, such as the corner of a box; impulses belong to these from step to step.
    - `hold`: largest friction forces; negative where the normal force bounds friction, None where it always does.
    """

    gap: Float[Array, " k"]
    rows: Float[Array, "k rows n"]
    drift: Float[Array, "k rows"]
    feature: Int[Array, " k"]
    places: Any = None
    hold: Float[Array, " k"] | None = None

    def held_slots(self) -> Bool[Array, " k"]:
        """Contacts whose friction has a bound of its own."""
        return jnp.zeros(len(self.gap), bool) if self.hold is None else self.hold >= 0


class StribeckCurve(eqx.Module):
    r"""Coefficients of friction that fall as contacts begin to slide: $\mu + (\mu_s - \mu)e^{-|u_T|^2/v_s^2}$.

    - `static`: μ_s, of the shape of the kinetic ones μ. - `speed`: v_s.
    """

    static: Float[Array, "k tangents"]
    speed: Float[Array, " k"]

    def coefficients(
        self, kinetic: Float[Array, "k tangents"], slips: Float[Array, "k tangents"]
    ) -> Float[Array, "k tangents"]:
        """Those of contacts that slide with these velocities."""
        fall = jnp.exp(-jnp.sum(slips**2, axis=1) / self.speed**2)
        return kinetic + (self.static - kinetic) * fall[:, None]


class ContactLaw(eqx.Module):
    """Numbers of the laws of k contacts.

    - `friction`: coefficients along the tangents, shape (k, 2), or (k, 1) where each has one.
    - `restitution`, `tangential_restitution`: of the law of impact, from 0 to 1.
    - `drilling`, `rolling`: lengths that bound moments about the normal and about the tangents by the normal force;
      None where no contact has any.
    - `bounces`: whether any of them may have a restitution; steps without bounces are shorter.
    - `stribeck`: how friction falls from static coefficients to `friction`; None where it is the same at all speeds.
    - `is_poisson`: whether restitution is that of impulses, after Poisson, in place of speeds, after Newton.
    """

    friction: Float[Array, "k tangents"]
    restitution: Float[Array, " k"]
    tangential_restitution: Float[Array, " k"]
    drilling: Float[Array, " k"] | None = None
    rolling: Float[Array, " k"] | None = None
    bounces: bool = eqx.field(static=True, default=True)
    stribeck: StribeckCurve | None = None
    is_poisson: bool = eqx.field(static=True, default=False)

    @property
    def static_friction(self) -> Float[Array, "k tangents"]:
        """Coefficients at rest."""
        return self.friction if self.stribeck is None else self.stribeck.static

    def at_rest(self) -> ContactLaw:
        """The law with coefficients of friction at rest."""
        return dataclasses.replace(self, friction=self.static_friction, stribeck=None)

    def at_slips(self, slips: Float[Array, "k rows"]) -> ContactLaw:
        """The law with the coefficients of friction of contacts that have these relative velocities."""
        if self.stribeck is None:
            return self
        along = slips[:, 1 : 1 + self.friction.shape[1]]
        return dataclasses.replace(self, friction=self.stribeck.coefficients(self.friction, along), stribeck=None)

    def without_bounces(self, there: Bool[Array, " k"]) -> ContactLaw:
        """The law with plastic impacts of some contacts."""
        normal, along = (jnp.where(there, 0.0, e) for e in (self.restitution, self.tangential_restitution))
        return dataclasses.replace(self, restitution=normal, tangential_restitution=along)

    @property
    def rows(self) -> int:
        """Rows of relative velocities per contact: 2 or 3, or 6 with spins."""
        return 1 + self.friction.shape[1] if self.drilling is None else 6

    @property
    def bounds(self) -> Float[Array, "k rows"]:
        """1 for normal rows, and what times the normal force bounds the forces and moments in the others."""
        none = jnp.zeros(len(self.friction))
        drilling, rolling = (none if x is None else x for x in (self.drilling, self.rolling))
        columns = [none + 1.0, *self.friction.T, drilling, rolling, rolling]
        return jnp.stack(columns[: self.rows], axis=1)

    def of(self, numbers: Int[Array, " c"]) -> ContactLaw:
        """The numbers of some contacts; slots that are empty have some, too."""
        return pick(numbers, self)


class PresentContacts(NamedTuple):
    """Contacts that a step takes into account.

    - `number`: which contacts of the set, beyond all of them in slots that are empty; None for all in their order.
    - `left_out`: the smallest gap of all others; infinite without any.
    """

    kinematics: ContactKinematics
    law: ContactLaw
    number: Int[Array, " c"] | None
    left_out: Array

    def spread(self, values: Array, count: int) -> Array:
        """Values in the places of all contacts of the set, zero for those that are left out."""
        if self.number is None:
            return values

        def place(consts: tuple[Array, Array], contact: Array) -> Array:
            number, values = consts
            here = number == contact
            own = lambda: jnp.einsum("i,i...->...", jnp.where(here, 1.0, 0.0), values)  # noqa: E731
            return jax.lax.cond(jnp.any(here), own, lambda: jnp.zeros(values.shape[1:]))

        return map_rows(place, (self.number, values), jnp.arange(count))


class ContactsAhead(NamedTuple):
    """Present contacts in a position that the motion comes to.

    - `slips`: relative velocities there. - `same`: which are of the same features of their shapes as before.
    - `nearest`: smallest gaps of their shapes.
    """

    gap: Float[Array, " c"]
    slips: Float[Array, "c rows"]
    same: Bool[Array, " c"]
    nearest: Float[Array, " c"]


def pick(numbers: Int[Array, " c"], values: Any) -> Any:
    """The rows of these numbers of all arrays of a pytree, the last one for numbers beyond them."""
    return jax.tree.map(lambda x: jnp.take(x, numbers, axis=0, mode="clip"), values)


class AbstractContactSet(Module):
    """k contacts of a system with unilateral laws, in slots that are fixed from the start."""

    law: eqx.AbstractVar[ContactLaw]

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """The number of slots, k."""

    @abc.abstractmethod
    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        """Gaps and rows of the contacts in a position of the system."""

    @property
    def pair_numbers(self) -> np.ndarray:
        """Numbers of the pairs of shapes that slots belong to, shape (k,): a feature is that of a pair, in any slot."""
        return np.arange(self.count)

    @property
    def capacity(self) -> int:
        """How many of them may touch at a time."""
        return self.count

    def slips(self, system: Any, t: Array, q: Point, v: Vector) -> Float[Array, "k rows"]:
        """Relative velocities u = W v + χ in a state."""
        at = self.kinematics(system, t, q)
        return at.rows @ v + at.drift

    def label(self, feature: Int[Array, " k"]) -> Int[Array, " k"]:
        """Equal in two positions for contacts of the same features of the same pairs, whatever their slots are."""
        return jnp.asarray(_FEATURES * self.pair_numbers) + feature

    @property
    def is_listed(self) -> bool:
        """Whether contacts are those of lists that change, so that a slot is not always the same contact's."""
        return False

    def present(self, system: Any, t: Array, q: Point, way: Vector | None = None) -> PresentContacts:
        """The contacts nearest to touching, as many as there is room for.

        - `way`: a velocity times the time for which the motion goes on with it. Then those come first that are nearest
          after it, where gaps close by it.
        """
        del way
        return PresentContacts(self.kinematics(system, t, q), self.law, None, jnp.inf * jnp.ones(()))

    @property
    def reads_joint_forces(self) -> bool:
        """Whether bounds of friction grow with forces of joints, which only methods with `takes_bearings` know."""
        return False

    def loaded_hold(
        self, system: Any, t: Array, q: Point, at: ContactKinematics, multipliers: Float[Array, " m"]
    ) -> Float[Array, " c"] | None:
        """`ContactKinematics.hold` of present contacts under these multipliers of joints."""
        del system, t, q, multipliers
        return at.hold

    def name(self, number: int) -> str:
        """The name of a contact in messages."""
        return f"contact {number}"

    def again(self, system: Any, t: Array, q: Point, present: PresentContacts) -> ContactKinematics:
        """Contacts that are present elsewhere, in the position q."""
        del present
        return self.kinematics(system, t, q)

    def ahead(self, system: Any, t: Array, q: Point, v: Vector, present: PresentContacts) -> ContactsAhead:
        """Present contacts in a position q that the motion comes to with the velocity v."""
        del present
        gap = self.gaps(system, t, q)
        return ContactsAhead(gap, self.slips(system, t, q, v), jnp.ones(gap.shape, bool), gap)

    @property
    def sizes(self) -> Float[Array, " k"]:
        """Sums of the radii of spheres around the shapes of each contact; infinite where there are none."""
        return jnp.full(self.count, jnp.inf)

    @property
    def thicknesses(self) -> Float[Array, " k"]:
        """Sums of the radii of spheres inside them; infinite where these are endless."""
        return jnp.full(self.count, jnp.inf)

    @property
    def gap_units(self) -> Float[Array, " k"]:
        """Lengths to which gaps are small or large: radii of the smaller shapes, 1 of angles; infinite if unknown."""
        return jnp.full(self.count, jnp.inf)

    @property
    def radius(self) -> Float[Array, ""]:
        """The largest length of a shape that gaps are computed from, 0 without shapes."""
        return jnp.zeros(())

    @property
    def are_angles(self) -> Bool[np.ndarray, " k"]:
        """Contacts whose gaps are angles."""
        return np.zeros(self.count, bool)

    @abc.abstractmethod
    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        """Gaps alone."""

    def columns(
        self, system: Any, q: Point, here: ContactKinematics, there: ContactKinematics
    ) -> Float[Array, "k rows n"]:
        """Rows W in the position q, with contacts `here`, of those `there`, in a position that the motion reaches next.

        The same as `here` where the contacts are the same ones.
        """
        del system, q, there
        return here.rows

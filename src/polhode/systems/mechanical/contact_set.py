"""The interface of contacts with friction: gaps, rows of relative velocities, and the numbers of their laws."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int

from polhode.spaces.base import Point


class ContactKinematics(NamedTuple):
    """Contacts in a position: u = W v + χ are their relative velocities.

    - `gap`: positive where apart, shape (k,).
    - `rows`: W, shape (k, rows, n); per contact along the normal, along two tangents, and with spins about these.
    - `drift`: χ, shape (k, rows), of surfaces and walls that move by themselves.
    - `places`: whatever else `columns` needs to know of them.
    - `feature`: numbers of what touches, such as the corner of a box; impulses belong to these from step to step.
    """

    gap: Float[Array, " k"]
    rows: Float[Array, "k rows n"]
    drift: Float[Array, "k rows"]
    feature: Int[Array, " k"]
    places: Any = None


class ContactLaw(eqx.Module):
    """Numbers of the laws of k contacts.

    - `friction`: coefficients along both tangents, shape (k, 2).
    - `restitution`, `tangential_restitution`: of Newton's law of impact, from 0 to 1.
    - `drilling`, `rolling`: lengths that bound moments about the normal and about the tangents by the normal force;
      None where no contact has any.
    """

    friction: Float[Array, "k 2"]
    restitution: Float[Array, " k"]
    tangential_restitution: Float[Array, " k"]
    drilling: Float[Array, " k"] | None = None
    rolling: Float[Array, " k"] | None = None

    @property
    def rows(self) -> int:
        """Rows of relative velocities per contact: 3, or 6 with spins."""
        return 3 if self.drilling is None else 6


class AbstractContactSet(eqx.Module):
    """k contacts of a system with unilateral laws, in slots that are fixed from the start."""

    law: eqx.AbstractVar[ContactLaw]

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """The number of slots, k."""

    @abc.abstractmethod
    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        """Gaps and rows of the contacts in a position of the system."""

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

"""Forces between parts that come near each other, which each evaluation searches for."""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Array, Float

from polhode.linalg.blocks import Indices
from polhode.multibody.mechanism.groups import ForceGroup, Motion, Slot
from polhode.multibody.mechanism.poses import Wrench


class NearParts(eqx.Module):
    """Parts whose nodes are bodies of the same kinds.

    - `numbers`: of the parts. - `slots`: their first and second nodes.
    """

    numbers: Indices = eqx.field(static=True)
    slots: tuple[Slot, Slot]


class AbstractNearForces(eqx.Module):
    """Forces between parts with two nodes each, of which any may come near any other.

    Matrices of methods have the `tangents` of each part against itself, where the parts have elements between their
    nodes anyhow; what couples it with others that it touches is left to the iteration.

    - `parts`: by kinds of their nodes. - `stiffest`: elements with the largest derivatives that the loads on each part
      have in a run, for limits of the step.
    """

    parts: eqx.AbstractVar[tuple[NearParts, ...]]
    stiffest: eqx.AbstractVar[tuple[ForceGroup, ...]]

    @property
    @abc.abstractmethod
    def conservative(self) -> bool:
        """Whether all loads derive from `potential`."""

    @property
    @abc.abstractmethod
    def inner(self) -> bool:
        """Whether no node is part of the ground, so that loads on bodies cancel."""

    @property
    @abc.abstractmethod
    def node_rows(self) -> list[int]:
        """Rows of all nodes in a motion, that of the ground among them where some are clamped."""

    @abc.abstractmethod
    def loads(self, motion: Motion) -> Wrench:
        """Sums of the loads on all nodes but the ground."""

    @abc.abstractmethod
    def potential(self, motion: Motion) -> Float[Array, ""]:
        """Stored energy."""

    @abc.abstractmethod
    def tangents(self, motion: Motion, along_velocities: bool) -> Float[Array, "parts 4 6 6"]:
        """Minus the derivatives of each part's loads along its own motion, or along its velocities.

        (torque, force) along twists, both in body frames, in blocks first–first, first–second, second–first and
        second–second of its nodes. Only what is positive semidefinite.
        """

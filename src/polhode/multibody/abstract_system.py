"""Multibody systems as the checks of their start, their redundant constraints and their stability read them."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import numpy as np

from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.mechanism.groups import JointGroup, Motion
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical


class AbstractMultibodySystem(AbstractMechanical):
    """A mechanism in coordinates; see `MultibodySystem`."""

    mechanism: eqx.AbstractVar[Mechanism]
    coordinates: eqx.AbstractVar[AbstractCoordinates]
    labels: eqx.AbstractVar[tuple[str, ...]]

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the bodies, in the order of the rows of poses."""

    @abc.abstractmethod
    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses of all nodes, and twists if velocities are given."""

    @abc.abstractmethod
    def columns(self, body: Body | str) -> np.ndarray:
        """Numbers of a body's velocities in v."""

    @abc.abstractmethod
    def with_joints(self, joints: tuple[JointGroup, ...], labels: tuple[str, ...] | None = None) -> Any:
        """The same system with other constraints."""

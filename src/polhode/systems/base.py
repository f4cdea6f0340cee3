"""The common face of all kinds of systems."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array

from polhode.spaces.base import AbstractSpace

State = Any
"""What evolves: a point of `system.state_space`. For mechanical systems the pair (q, v)."""


class AbstractSystem(eqx.Module):
    """Equations of motion on a space; knows nothing of step sizes.

    The fields of a system are its parameters: gradients with respect to masses, lengths or control gains are
    taken with respect to the system's leaves.
    """

    @property
    @abc.abstractmethod
    def state_space(self) -> AbstractSpace:
        """The space of which `state` is a point; errors and step sizes are measured in its algebra."""

    @abc.abstractmethod
    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        """Max-norm violations at one state: "manifold" always, "position" and "velocity" for constraints."""

    def conversions(self) -> tuple[AbstractSystem, ...]:
        """Systems of other kinds with the same state that describe the same motion without loss."""
        return ()

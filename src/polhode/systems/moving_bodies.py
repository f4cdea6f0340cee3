"""The interface of bodies with joints to energy–momentum steps; matrices are sums of few-body blocks."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.systems.base import AbstractSystem
from polhode.systems.lagrangian import LivensState

Increments = Float[Array, " d"]
Velocities = Float[Array, " n"]
Multipliers = Float[Array, " m"]


class Balance(NamedTuple):
    """Momentum gained over a step less all impulses, shape (d,), and the size of the terms."""

    value: Increments
    size: Float[Array, ""]


class AbstractMovingBodies(AbstractSystem):
    """Bodies on Livens' principle: a step is found in d increments of positions and attitudes and m multipliers.

    Conditions on the coordinates of single bodies, |q| = 1, are met by every increment.
    """

    @property
    @abc.abstractmethod
    def d(self) -> int:
        """Number of increments."""

    @property
    @abc.abstractmethod
    def m(self) -> int:
        """Number of constraints of joints."""

    @property
    @abc.abstractmethod
    def rheonomic(self) -> bool:
        """Whether joints depend on time."""

    @property
    @abc.abstractmethod
    def keeps_rates(self) -> bool:
        """Whether velocities are to keep the joints' time derivatives at the ends of steps."""

    @property
    @abc.abstractmethod
    def kept_momenta(self) -> tuple[str, ...]:
        """Invariants that energy–momentum steps keep besides the energy."""

    @property
    @abc.abstractmethod
    def kkt(self) -> AbstractKKT:
        """Solves the linear equations of a step, and those with the `impulse_matrices`."""

    @abc.abstractmethod
    def guess(self, h: Array, state: LivensState) -> Increments:
        """Increments to begin with."""

    @abc.abstractmethod
    def reached(self, h: Array, state: LivensState, x: Increments) -> LivensState:
        """The end of a step."""

    @abc.abstractmethod
    def balance(self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers) -> Balance:
        """The balance of momenta over the step, which vanishes with the constraints; t is the time at its start."""

    @abc.abstractmethod
    def gaps(self, t: Array, h: Array, state: LivensState, x: Increments) -> Multipliers:
        """The constraints at the end of the step."""

    @abc.abstractmethod
    def matrices(
        self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Derivatives of the balance by x, transposed that by λ, and of the gaps by x."""

    @abc.abstractmethod
    def impulse_matrices(
        self, t: Array, h: Array, start: LivensState, end: LivensState, share: Float[Array, ""]
    ) -> tuple[Matrix, Matrix, Matrix]:
        """M, (σB₀ + B₁)/2 and B₁ for velocities (Ω, u), with σ the `share` of impulses at the start."""

    @abc.abstractmethod
    def rates(self, t: Array, state: LivensState) -> Multipliers:
        """Time derivatives of the constraints of joints."""

    @abc.abstractmethod
    def reaction(self, t: Array, state: LivensState, multipliers: Multipliers) -> Velocities:
        """Bᵀλ, acting on the velocities of the bodies."""

    @abc.abstractmethod
    def kicked(self, state: LivensState, impulse: Velocities) -> LivensState:
        """The state after an impulse."""

    @abc.abstractmethod
    def gained(self, impulse: Velocities) -> Velocities:
        """M⁻¹ times an impulse: the velocities that it gives to bodies at rest."""

    @abc.abstractmethod
    def velocities(self, state: LivensState) -> Velocities:
        """Velocities (Ω, u) of all bodies, which impulses and the rates belong to."""

    @abc.abstractmethod
    def start(self, *state: Any) -> LivensState:
        """The state with consistent momenta."""

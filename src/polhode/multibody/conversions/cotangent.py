"""Multibody systems without constraints as Hamiltonian systems on the cotangent bundle of their configuration."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import AbstractGroup, Point, Vector
from polhode.spaces.cotangent import CotangentPoint
from polhode.systems.base import AbstractConversion, Converted, State
from polhode.systems.hamiltonian import Hamiltonian, Momentum


class ToHamiltonian(AbstractConversion):
    r"""$H(g, \mu) = \tfrac12 p^TM(g)^{-1}p + V(g)$ with $p = \mathrm{Ad}_g^T\mu = M v$, right-trivialised.

    States (q, v) become (q, μ): μ is the momentum in the inertial frame, as `Hamiltonian` has it.
    """

    source: MultibodySystem

    @property
    def kind(self) -> type[Hamiltonian]:
        return Hamiltonian

    @property
    def note(self) -> str:
        return "states are (q, μ) with the momentum μ in the inertial frame"

    @property
    def obstacle(self) -> str:
        system = self.source
        if system.m:
            return f"a Hamiltonian on a cotangent bundle has no constraints, and here are {system.m}"
        if not system.conservative:
            return "some loads have no potential, or depend on time"
        if not (system.identity_kinematics and isinstance(system.configuration, AbstractGroup)):
            return "its coordinates are no Lie group with the velocities of its algebra"
        if not system.inert:
            return "some of its coordinates have no kinetic energy"
        return ""

    def at(self, state: State) -> Converted:
        del state
        group = self.source.configuration
        assert isinstance(group, AbstractGroup)
        counter = _Counter(self.source) if self.source.counts else None
        return Converted(
            Hamiltonian(group, _Energy(self.source), counter=counter), _Into(self.source), _Back(self.source)
        )


class _Energy(eqx.Module):
    system: MultibodySystem

    def __call__(self, g: Point, mu: Momentum) -> Float[Array, ""]:
        p = _body_momentum(self.system, g, mu)
        return 0.5 * p @ _velocity(self.system, g, p) + self.system.potential_energy(jnp.zeros(()), g)


class _Into(eqx.Module):
    system: MultibodySystem

    def __call__(self, state: State) -> CotangentPoint:
        q, v = state
        group = self.system.configuration
        assert isinstance(group, AbstractGroup)
        return CotangentPoint(q, group.coadjoint(q, self.system.momentum(jnp.zeros(()), q, v)))


class _Back(eqx.Module):
    system: MultibodySystem

    def __call__(self, state: CotangentPoint) -> State:
        g, mu = state
        return g, _velocity(self.system, g, _body_momentum(self.system, g, mu))


class _Counter(eqx.Module):
    system: MultibodySystem

    def count_turns(self, before: CotangentPoint, after: CotangentPoint, h: Any) -> CotangentPoint:
        back = _Back(self.system)
        g, _ = self.system.count_turns(back(before), back(after), h)
        return CotangentPoint(g, after.mu)

    def turn_failure(self, before: CotangentPoint, after: CotangentPoint) -> Array | None:
        return self.system.turn_failure((before.g, None), (after.g, None))


def _body_momentum(system: MultibodySystem, g: Point, mu: Momentum) -> Vector:
    group = system.configuration
    assert isinstance(group, AbstractGroup)
    return group.Ad_dual(g, mu)


def _velocity(system: MultibodySystem, q: Point, p: Vector) -> Vector:
    """M⁻¹p."""
    return system.kkt.solution(system.mass(jnp.zeros(()), q), (), (), p, jnp.zeros(0))[0]

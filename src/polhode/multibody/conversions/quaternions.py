"""Conversion of bodies in other coordinates to unit quaternions and positions, and to systems in these."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx

from polhode.multibody import formulations
from polhode.multibody.conversions import livens, separable
from polhode.multibody.conversions.livens import LivensMultibody
from polhode.multibody.conversions.livens_joints import in_first_frame
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.system import MultibodySystem
from polhode.systems.base import AbstractConversion, Converted, State
from polhode.systems.separable import AbstractSeparable

_QUATERNIONS = formulations.get("S3xR3")


class ToSeparable(AbstractConversion):
    """Bodies without joints, with `systems.BodyStates`."""

    source: MultibodySystem[AbsoluteCoordinates]

    @property
    def kind(self) -> type[AbstractSeparable]:
        return AbstractSeparable

    @property
    def note(self) -> str:
        return "states are `systems.BodyStates` (x, q, v, omega) with quaternions q, in the inertial frame"

    @property
    def obstacle(self) -> str:
        if self.source.m:
            return f"it takes bodies without joints, and here are {self.source.m} constraints"
        if self.source.counter is not None:
            return "some forces act along angles whose turns are counted, which its states have no place for"
        return _obstacle(self.source)

    def at(self, state: State) -> Converted:
        change = _ToQuaternions.of(self.source)
        system, _ = separable.build(change.other, change(state))
        return Converted(system, _Composition((change, system.start)), _Composition((system.coordinates, change.back)))


class ToLivens(AbstractConversion):
    """Bodies with joints on Livens' principle, in quaternions, with joints whose angular momentum is kept."""

    source: MultibodySystem[AbsoluteCoordinates]

    @property
    def kind(self) -> type[LivensMultibody]:
        return LivensMultibody

    @property
    def note(self) -> str:
        return "states are (q, v, p) with position and quaternion of every body in q"

    @property
    def obstacle(self) -> str:
        if not self.source.inert:
            return "some of its coordinates have no kinetic energy"
        if self.source.complete is not None:
            return "redundant constraints were left out, and in quaternions its joints consist of other components"
        return _obstacle(self.source)

    def at(self, state: State) -> Converted:
        change = _ToQuaternions.of(self.source)
        in_quaternions = change(state)
        system, _ = livens.build(in_first_frame(change.other, in_quaternions), in_quaternions, "invariant")
        return Converted(system, _Composition((change, _Livens(system))), _Composition((system.to_base, change.back)))


class _Composition(eqx.Module):
    """The composition of functions, first to last."""

    functions: tuple[Callable[[Any], Any], ...]

    def __call__(self, state: State) -> State:
        for function in self.functions:
            state = function(state)
        return state


class _Livens(eqx.Module):
    """The start of a system on Livens' principle from a state (q, v)."""

    system: livens.LivensMultibody

    def __call__(self, state: State) -> State:
        return self.system.start(*state)


class _ToQuaternions(eqx.Module):
    """Converts states of bodies between other coordinates and quaternions.

    - `source`, `other`: the bodies in both.
    """

    source: MultibodySystem[AbsoluteCoordinates]
    other: MultibodySystem[AbsoluteCoordinates]

    @classmethod
    def of(cls, source: MultibodySystem[AbsoluteCoordinates]) -> _ToQuaternions:
        """The conversion from the coordinates of a system."""
        groups = tuple(
            dataclasses.replace(group, formulation=_QUATERNIONS) if group.formulation.rotates else group
            for group in source.coordinates.bodies
        )
        coordinates = dataclasses.replace(source.coordinates, bodies=groups)
        return cls(source, dataclasses.replace(source, coordinates=coordinates).solvable())

    def __call__(self, state: State) -> State:
        return self._between(self.source, self.other, state)

    def back(self, state: State) -> State:
        """The inverse conversion."""
        return self._between(self.other, self.source, state)

    @staticmethod
    def _between(
        here: MultibodySystem[AbsoluteCoordinates], there: MultibodySystem[AbsoluteCoordinates], state: State
    ) -> State:
        q, v = there.coordinates.state_of(here.motion(*state))
        return there.with_turns(q, here.turns(state[0])), v


def _obstacle(system: MultibodySystem[AbsoluteCoordinates]) -> str:
    if any(g.formulation.deforms for g in system.coordinates.bodies):
        return "some bodies deform"
    other = [g for g in system.coordinates.bodies if g.formulation.rotates and g.formulation.n != 6]
    return "the coordinates of some bodies have constraints of their own" if other else ""

"""Flexible bodies of models, with modes in a floating frame of reference."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxtyping import Array, Float

from polhode.checks import nearest, short_repr
from polhode.multibody.bodies import Body
from polhode.multibody.formulations import FORMULATIONS
from polhode.multibody.formulations.base import AbstractFormulation
from polhode.multibody.formulations.floating_frame import FloatingFrame
from polhode.multibody.formulations.lie_groups import DirectProduct, SemidirectProduct
from polhode.multibody.formulations.modal_body import ModalBody
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.systems.base import State

_GROUPS = [name for name, form in FORMULATIONS.items() if isinstance(form, DirectProduct | SemidirectProduct)]

SUPPORTED_FORMULATIONS = f"Flexible bodies take {', '.join(map(repr, _GROUPS))}."
"""A sentence that names the coordinates of flexible bodies."""


@dataclasses.dataclass(frozen=True, eq=False)
class FlexibleBody(Body):
    """A flexible body of a model, as `Model.add_flexible` returns it.

    Joints and forces take its nodes, `node(name)`. The body itself is the centre of mass with the axes of its frame.

    - `modal`: its inertia, stiffness and modes.
    - `amplitudes`, `rates`: of the modes at the start, shape (k,).
    - `nodes`: bodies without coordinates of their own, named "body-node".
    - `called`: the names of the nodes within the body.
    """

    modal: ModalBody | Any = None
    amplitudes: Float[Array, " k"] | Any = None
    rates: Float[Array, " k"] | Any = None
    nodes: tuple[Body, ...] = ()
    called: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"FlexibleBody({short_repr(self.name)}, {self.modal.count} modes)"

    def node(self, name: str) -> Body:
        """The node of that name, for joints, forces and outputs. Raises ValueError, with the names, for others."""
        if name in self.called:
            return self.nodes[self.called.index(name)]
        names = ", ".join(self.called)
        raise ValueError(f"{self!r} has no node {short_repr(name)}.{nearest(name, self.called)} It has {names}.")

    def floating_frame(self, formulation: AbstractFormulation) -> FloatingFrame:
        """Its coordinates for those of rigid bodies. Raises ValueError unless these are a Lie group."""
        if not isinstance(formulation, DirectProduct | SemidirectProduct):
            raise ValueError(
                f"{self!r} deforms, and {type(formulation).__name__} has no coordinates for that. "
                f"{SUPPORTED_FORMULATIONS}"
            )
        return FloatingFrame(formulation, self.modal)

    def start(self, form: FloatingFrame) -> State:
        """q and v at the start."""
        return form.deformed_state(Pose(self.x, self.R), Twist(self.omega, self.u), self.amplitudes, self.rates)

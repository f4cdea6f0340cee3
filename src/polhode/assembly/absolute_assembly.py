"""Layout of a model in absolute coordinates: bodies with the same coordinates are stacked in groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.compiler.numpy_jit import numpy_jit
from polhode.flexible.flexible_body import FlexibleBody
from polhode.linalg.blocks import Indices
from polhode.multibody import formulations
from polhode.multibody.bodies import SINGLE, Body
from polhode.multibody.conversions.cotangent import ToHamiltonian
from polhode.multibody.conversions.directors import ToDirectors
from polhode.multibody.conversions.fixed_point_body import ToFixedPointBody
from polhode.multibody.conversions.quaternions import ToLivens, ToSeparable
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.formulations import AbstractFormulation, MassPoint
from polhode.multibody.formulations.floating_frame import FloatingFrame
from polhode.multibody.mechanism.groups import BodyGroup, ForceGroup, JointGroup, Slot, stack_trees
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.systems.base import State

Group = TypeVar("Group", BodyGroup, JointGroup, ForceGroup)

_LOOP_THRESHOLD = 48
"""Number of velocities from which groups of elements are evaluated in loops. Steps of smaller systems are unrolled to
scalars, which loops would prevent."""


class WithoutInertia(ValueError):
    """A body without positive definite inertia, which only joint coordinates can represent."""


class AbsoluteLayout(AbstractLayout):
    """Map from bodies of the model to groups and rows of absolute coordinates."""

    conversion_types = (ToHamiltonian, ToLivens, ToDirectors, ToSeparable, ToFixedPointBody)

    def __init__(self, bodies: Sequence[Body], formulation: str) -> None:
        for body in bodies:
            if not body.inert:
                raise WithoutInertia(
                    f"{body!r} has no mass or no positive definite inertia: absolute coordinates need both. "
                    "Take joint coordinates, formulation='minimal', or give it a mass and an inertia."
                )
        default_form = formulations.get(formulation)
        kinds: dict[Hashable, tuple[AbstractFormulation, list[Body]]] = {}
        for body in bodies:
            form = _formulation(body, default_form)
            kinds.setdefault(form.likeness, (form, []))[1].append(body)
        self.members = [members for _, members in kinds.values()]
        self.groups, self.places = self._stack(list(kinds.values()))
        self._index = {name: tuple(place) for name, *place in self.places}
        self._first = np.cumsum([0] + [group.rows for group in self.groups])

    @property
    def holds_free_bodies(self) -> bool:
        return all(
            form.n == 6 and form.nodes == 1 and form.identity_kinematics and not form.internal
            for form in (group.formulation for group in self.groups)
        )

    def _stack(
        self, kinds: Sequence[tuple[AbstractFormulation, list[Body]]]
    ) -> tuple[tuple[BodyGroup, ...], tuple[tuple[str, int, int, int], ...]]:
        groups, places, at = [], [], 0
        for g, (form, members) in enumerate(kinds):
            count = len(members)
            columns = at + np.arange(count * form.n).reshape(count, form.n)
            at += count * form.n
            groups.append(
                BodyGroup(
                    form,
                    checks.stack([b.mass for b in members]),
                    checks.stack([b.inertia for b in members]),
                    Indices(columns),
                )
            )
            rows = [(b, *b.nodes) if isinstance(b, FlexibleBody) else (b,) for b in members]
            places += [(at.name, g, k, node) for k, row in enumerate(rows) for node, at in enumerate(row)]
        return tuple(groups), tuple(places)

    def slot(self, bodies: Sequence[Body]) -> Slot:
        """One end of several elements; all bodies are of one kind, or all are the ground."""
        total = int(self._first[-1])
        if bodies[0].kind == "ground":
            none = np.zeros(len(bodies), dtype=int)
            return Slot(None, Indices(none), Indices(none + total), Indices(np.zeros((len(bodies), 0), dtype=int)))
        places = [self._index[body.name] for body in bodies]
        group, _, node = places[0]
        members = np.array([member for _, member, _ in places])
        rows = self._first[group] + self.groups[group].formulation.nodes * members + node
        columns = self.groups[group].columns.numbers[members]
        return Slot(group, Indices(members), Indices(rows), Indices(columns), node)

    def kind(self, body: Body) -> tuple[int, int] | None:
        """Group of the body and number of the node, as in an element's slot."""
        if body.kind == "ground":
            return None
        group, _, node = self._index[body.name]
        return group, node

    def _internal(self, labels: tuple[str, ...]) -> tuple[tuple[Indices | None, ...], tuple[str, ...]]:
        """Rows of the internal constraints of bodies, and the labels with theirs."""
        rows: list[Indices | None] = []
        for group, members in zip(self.groups, self.members, strict=True):
            k = group.formulation.internal
            if k == 0:
                rows.append(None)
                continue
            rows.append(Indices(len(labels) + np.arange(k * len(members)).reshape(len(members), k)))
            labels += tuple(f"{body.name}, norm of its coordinates" for body in members for _ in range(k))
        return tuple(rows), labels

    def finish(
        self, mechanism: Mechanism, labels: tuple[str, ...], turns: int
    ) -> tuple[AbsoluteCoordinates, Mechanism, tuple[str, ...]]:
        internal, labels = self._internal(labels)
        looped = sum(group.columns.numbers.size for group in self.groups) >= _LOOP_THRESHOLD
        coordinates = AbsoluteCoordinates(_set_looped(self.groups, looped), internal, self.places, turns)
        joints, forces = _set_looped(mechanism.joints, looped), _set_looped(mechanism.forces, looped)
        return coordinates, dataclasses.replace(mechanism, joints=joints, forces=forces), labels

    def start(self) -> State:
        """The initial state given by the bodies of the model."""
        points, velocities = [], []
        for group, members in zip(self.groups, self.members, strict=True):
            form, motions = group.formulation, [_motion(body) for body in members]
            if isinstance(form, FloatingFrame):
                states = [body.start(form) for body in members if isinstance(body, FlexibleBody)]
                q, v = (stack_trees(parts) for parts in zip(*states, strict=True))
            elif form.regular:
                poses, twists = (stack_trees(which) for which in zip(*motions, strict=True))
                q, v = _coordinates(form, poses, twists)
            else:
                # Other coordinates may refuse a pose, which needs concrete numbers.
                each_q = [form.from_pose(pose) for pose, _ in motions]
                q = stack_trees(each_q)
                v = jnp.stack([form.from_twist(p, twist) for p, (_, twist) in zip(each_q, motions, strict=True)])
            points.append(q)
            velocities.append(v.reshape(-1))
        return tuple(points), jnp.concatenate(velocities)


def _motion(body: Body) -> tuple[Pose, Twist]:
    return Pose(body.x, body.R), Twist(body.omega, body.u)


@numpy_jit
def _coordinates(form: AbstractFormulation, poses: Pose, twists: Twist) -> tuple[Any, Any]:
    """Coordinates and velocities of several bodies."""

    def one(pose: Pose, twist: Twist) -> tuple[Any, Any]:
        q = form.from_pose(pose)
        return q, form.from_twist(q, twist)

    return jax.vmap(one)(poses, twists)


def _formulation(body: Body, default_form: AbstractFormulation) -> AbstractFormulation:
    if isinstance(body, FlexibleBody):
        return body.floating_frame(default_form)
    if body.kind == "point":
        return MassPoint(3)
    if body.kind in SINGLE:
        return MassPoint(1, energetic=body.kind == "coordinate")
    return default_form if body.formulation is None else formulations.get(body.formulation)


def _set_looped(groups: tuple[Group, ...], looped: bool) -> tuple[Group, ...]:
    return tuple(dataclasses.replace(group, looped=looped) for group in groups)

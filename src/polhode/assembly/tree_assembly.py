"""Layout of a model in joint coordinates: a tree of links with their joints and frames."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.assembly import tree_start
from polhode.assembly.coordinate_layout import AbstractLayout, PlacedElement
from polhode.assembly.dependent_coordinates import LinearCoordinateConstraints
from polhode.assembly.joint_rotors import carried_rotors, component_of
from polhode.assembly.spanning_tree import Attachment
from polhode.assembly.tree_start import PlacedLink
from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import take
from polhode.multibody import consistent_start
from polhode.multibody.bodies import SINGLE, Body
from polhode.multibody.conversions.cotangent import ToHamiltonian
from polhode.multibody.conversions.fixed_point_body import ToFixedPointBody
from polhode.multibody.conversions.joint_lagrangian import ToJointLagrangian
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.coordinates.tree.dependent_coordinates import ReducedTree, independent_part, reduce_tree
from polhode.multibody.coordinates.tree.joint_forces import (
    AbstractJointCoordinateForce,
    CoordinateIndex,
    JointEffort,
    JointFeedback,
    JointRotor,
)
from polhode.multibody.coordinates.tree.links import Inertia, Link
from polhode.multibody.coordinates.tree.motions import (
    AbstractRelativeMotion,
    FreeMotion,
    PointMotion,
)
from polhode.multibody.mechanism.groups import Slot
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.forces.joint_control import JointControl
    from polhode.forces.joint_forces import AbstractJointForce
    from polhode.joints.named_coordinates import Term
    from polhode.multibody.parts import ModelParts

MINIMAL = "minimal"
"""The name of joint coordinates for `Model.assemble`."""


class TreeLayout(AbstractLayout):
    """Map from bodies of a model to links of a tree."""

    conversion_types = (ToHamiltonian, ToJointLagrangian, ToFixedPointBody)

    def __init__(self, model: ModelParts, order: Sequence[Attachment], repair: bool) -> None:
        self.repair = repair
        self.placements: list[PlacedLink] = []
        self.carrying: set[str] = set()
        self.efforts: list[AbstractJointCoordinateForce] = []
        self._ties = LinearCoordinateConstraints(self._may_follow)
        self._carried: dict[int, int] = {}
        self._numbers: dict[str, int] = {"ground": -1}
        self._carried_rotors = carried_rotors(model, order)
        self.rotors = {part.rotor.name for part, _, _ in self._carried_rotors.values()}
        for attachment in order:
            if attachment.body.name not in self.rotors:
                self._place(attachment)
        self.carrying |= self._carried_rotors.keys()

    def _place(self, attachment: Attachment) -> None:
        """Attach a body to the tree by a joint, or as a free body."""
        body, name, joint, joint_motion = attachment
        if joint_motion is None:
            parent, frame = -1, Pose(body.x, body.R)
            motion: AbstractRelativeMotion = (
                FreeMotion() if body.kind == "rigid" else PointMotion(3 if body.kind == "point" else 1)
            )
        else:
            self.carrying.add(name)
            self._carried[id(joint)] = len(self.placements)
            parent = self._numbers[attachment.parent.name]
            frame = joint_motion.initial
            motion = joint_motion.on(self.placements[parent].frame if parent >= 0 else Pose(jnp.zeros(3), jnp.eye(3)))
        first = self.n
        centre, attitude, inertia = _in_link_frame(frame, Pose(body.x, body.R), jnp.asarray(body.mass), body.inertia)
        link = Link(
            motion=motion,
            inertia=inertia,
            centre=centre,
            attitude=attitude,
            name=body.name,
            joint=name,
            parent=parent,
            weight=0.0 if body.kind in SINGLE else 1.0,
            energetic=body.kind != "integral",
            first=first,
            last=first + motion.n,
        )
        self._numbers[body.name] = len(self.placements)
        self.placements.append(PlacedLink(link, body, frame))

    def remaining_elements(self, elements: Sequence[PlacedElement]) -> list[PlacedElement]:
        """The elements that are neither joints, couplings nor forces along coordinates of the tree."""
        rest = []
        for name, part, element in elements:
            if name in self.carrying or self._ties_up(part):
                continue
            effort = self._effort(part, element)
            if effort is None:
                rest.append((name, part, element))
            else:
                self.efforts.append(effort)
        return rest

    def _effort(self, part: Any, element: Any) -> AbstractJointCoordinateForce | None:
        """A part as forces along coordinates of the tree; None if it isn't that."""
        from polhode.forces.joint_control import JointControl
        from polhode.forces.joint_forces import AbstractJointForce

        if isinstance(part, JointControl):
            return self._feedback(part, element)
        return self._along(part, element) if isinstance(part, AbstractJointForce) else None

    def _along(self, part: AbstractJointForce, element: Any) -> JointEffort | None:
        from polhode.forces.coordinate_forces import AbstractEffort

        whole = self.tree_sum(part.joint.terms(part.along), part.joint.initial(part.along))
        if whole is None or not isinstance(element, AbstractEffort):
            return None
        ratios, zero, places = whole
        return JointEffort(element=element, zero=zero, ratios=ratios, places=places)

    def tree_sum(self, terms: Sequence[Term], zero: Any) -> tuple[Array, Any, tuple[CoordinateIndex, ...]] | None:
        places = self._places_of(terms)
        return None if places is None else (jnp.stack([term.ratio for term in terms]), zero, places)

    def _feedback(self, part: JointControl, element: Any) -> JointFeedback | None:
        sums = part.terms()
        terms = list(itertools.chain(*sums))
        places = self._places_of(terms)
        if places is None:
            return None
        rows = np.repeat(np.arange(len(sums)), list(map(len, sums)))
        ratios = jnp.zeros((len(sums), len(terms)))
        ratios = ratios.at[rows, np.arange(len(terms))].set(jnp.stack([term.ratio for term in terms]))
        zeros = jnp.stack([joint.initial() for joint in part.joints])
        return JointFeedback(element=element, zeros=zeros, ratios=ratios, places=places)

    def _places_of(self, terms: Sequence[Term]) -> tuple[CoordinateIndex, ...] | None:
        """Indices of joint coordinates in the tree; None unless it has all of them."""
        places = [place for place in map(self._place_of, terms) if place is not None]
        return tuple(places) if len(places) == len(terms) else None

    def _place_of(self, term: Term) -> CoordinateIndex | None:
        """Index of a joint coordinate in the tree; None if it hasn't got it."""
        number = self._carried.get(id(term.pair.carrier))
        if number is None:
            return None
        link = self.placements[number].link
        component = component_of(term.pair, term.name, link.motion)
        return None if component is None else CoordinateIndex(number, component, link.first + component)

    def has_coordinate(self, joint: Any, name: str) -> bool:
        number = self._carried.get(id(joint))
        return number is not None and name in self.placements[number].link.motion.names

    def _ties_up(self, part: Any) -> bool:
        """Adds the equation of a part between coordinates of the tree; returns whether it could."""
        from polhode.joints.coupling import CoupledJoints

        relation = part.relation() if isinstance(part, CoupledJoints) else None
        places = None if relation is None else self._places_of(relation.terms)
        if relation is None or places is None:
            return False
        ratios: dict[CoordinateIndex, float] = collections.defaultdict(float)
        value = relation.value
        for place, term in zip(places, relation.terms, strict=True):
            ratios[place] += float(term.ratio)
            value -= float(term.ratio * term.pair.initial(term.name))
        return self._ties.add(ratios, value)

    def _may_follow(self, place: CoordinateIndex) -> bool:
        """Whether a coordinate is not the last independent one."""
        del place
        return self.n - len(self._ties.dependents) > 1

    def link(self, body: Body) -> int | None:
        """Number of the link of a body; None for others."""
        number = self._numbers.get(body.name, -1)
        return None if number < 0 else number

    def kind(self, body: Body) -> int | None:
        return None if body.kind == "ground" else 0

    def slot(self, bodies: Sequence[Body]) -> Slot:
        """One end of several elements; all bodies are links, or all are the ground."""
        nodes = np.array([self._numbers[body.name] for body in bodies])
        nodes = np.where(nodes < 0, len(self.placements), nodes)
        columns = Indices(np.zeros((len(bodies), 0), dtype=int))
        return Slot(self.kind(bodies[0]), Indices(nodes), Indices(nodes), columns)

    def finish(
        self, mechanism: Mechanism, labels: tuple[str, ...], turns: int
    ) -> tuple[JointTree | ReducedTree, Mechanism, tuple[str, ...]]:
        if not self.n:
            raise ValueError("Fixed joints hold all bodies of the model, so no joint coordinate is left to move.")
        return self.coordinates(turns), mechanism, labels

    @property
    def n(self) -> int:
        """Number of velocities of all joints."""
        return self.placements[-1].link.last if self.placements else 0

    def coordinates(self, turns: int = 0) -> JointTree | ReducedTree:
        tree = JointTree.of(tuple(row.link for row in self.placements), tuple(self.efforts), self._rotors(), turns)
        return reduce_tree(
            tree, [(place, dependent.ratios, dependent.offset) for place, dependent in self._ties.dependents.items()]
        )

    def _rotors(self) -> tuple[JointRotor, ...]:
        rotors = []
        for part, joint, component in self._carried_rotors.values():
            place = self.placements[self._carried[id(joint)]].link.first + component
            rotors.append(JointRotor(jnp.asarray(part.rotor.mass), place))
        return tuple(rotors)

    def start(self) -> State:
        """Joint coordinates at the start. Raises UnfitStart, naming a joint, for velocities that it doesn't allow."""
        points: list[Any] = []
        velocities: list[Array] = []
        for number, (link, body, _) in enumerate(self.placements):
            point = _origin(link.motion, body)
            followers = [place.component for place in self._ties.dependents if place.link == number]
            independent = independent_part(link.motion.space, followers)
            if link.motion.n and independent is not None:
                points.append(independent.origin() if followers else point)
            parent = self.placements[link.parent] if link.parent >= 0 else None
            velocities.append(tree_start.velocity(self.placements[number], parent, point, self.repair))
        if not all(body.inert for _, body, _ in self.placements):
            tree_start.check_mass(self.coordinates(), [row.link for row in self.placements], tuple(points))
        if not self.repair:
            self._check_following(velocities)
        dependent = [place.velocity for place in self._ties.dependents]
        return tuple(points), take(jnp.concatenate(velocities), np.setdiff1d(np.arange(self.n), dependent))

    def _check_following(self, velocities: Sequence[Array]) -> None:
        """Raises UnfitStart, naming the joints, for dependent coordinates with other positions or velocities."""
        rates = jnp.concatenate(velocities)
        if not checks.is_concrete(rates):
            return
        apart = self._ties.violations(np.zeros(len(rates)))
        slips = self._ties.violations(np.asarray(rates), constant=False)
        off = [
            f"the coordinate of `{self.placements[place.link].link.joint}` is off by {gap:.3g}, its velocity by "
            f"{slips[place]:.3g}"
            for place, gap in apart.items()
            if max(abs(gap), abs(slips[place])) > consistent_start.POSITION_TOLERANCE
        ]
        if off:
            message = f"Joints that follow others start elsewhere: {'; '.join(off)}."
            raise consistent_start.InconsistentStart(
                f"{message} Correct them, or let `assemble(repair=True)` take those that fit.", own=message
            )


def _origin(motion: AbstractRelativeMotion, body: Body) -> Any:
    if isinstance(motion, FreeMotion):
        return body.R, body.x
    if isinstance(motion, PointMotion):
        return body.x[: motion.size]
    return motion.space.origin()


@numpy_jit
def _in_link_frame(frame: Pose, body: Pose, mass: Array, inertia: Array) -> tuple[Array, Array, Inertia]:
    """Centre of mass, attitude and inertia of a body in the frame of its link."""
    centre, attitude = (body.x - frame.x) @ frame.R, frame.R.T @ body.R
    own = attitude @ inertia @ attitude.T
    second = 0.5 * jnp.trace(own) * jnp.eye(3) - own + mass * jnp.outer(centre, centre)
    return centre, attitude, Inertia(mass, mass * centre, second)

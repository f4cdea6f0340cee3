"""Export of a model as MJCF: nested bodies with joints, forces, and equality constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode import checks
from polhode.exporters import equality_constraints, forces, mjcf_writer, tendons
from polhode.exporters.body_tree import Joint, Link, Tree
from polhode.exporters.joint_axes import free_axes
from polhode.exporters.mjcf_document import Document, NotExpressible
from polhode.file_warning import ModelFileWarning
from polhode.forces.coordinate_forces import AbstractEffort
from polhode.forces.file_elements import BallDamper, FreeDamper, ImportedJoint
from polhode.forces.loads import AppliedForce, BodyTorque, DeadForce, InertialTorque
from polhode.forces.spring_damper import LineSpring, LineSpringDamper
from polhode.jax_context import warn
from polhode.joints._elements import FrameConstraint
from polhode.joints.combination import Combination
from polhode.joints.coupling import Coupling
from polhode.joints.distance import ConstantDistance
from polhode.joints.rotor import AttachedRotor, FollowingCoordinate
from polhode.joints.screw import ThreadConstraint
from polhode.joints.string_length import StringLength
from polhode.multibody.parts import AbstractJoint, AbstractPart

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_MAX_NAMES = 6
"""Number of names of one kind in a message."""

_WRITERS: dict[type, Callable[[Document, str, Any, Any], str]] = {
    FollowingCoordinate: forces.rotor,
    BallDamper: forces.ball_damper,
    FreeDamper: forces.free_damper,
    LineSpring: forces.line,
    LineSpringDamper: forces.line,
    DeadForce: forces.dead_force,
    AppliedForce: forces.applied_force,
    BodyTorque: forces.torque,
    InertialTorque: forces.torque,
    FrameConstraint: equality_constraints.frames,
    ConstantDistance: equality_constraints.distance,
    Coupling: equality_constraints.coupling,
    ThreadConstraint: equality_constraints.thread,
}
"""Writers of elements that are no efforts along coordinates."""


def export(model: ModelParts, name: str, file_links: Sequence[Link] = (), *, strict: bool = False) -> str:
    """A model as text; see `Model.to_mjcf`. - `file_links`: the joints of a file that the model was read from."""
    checks.word("name", name, "of the model")
    checks.flag("strict", strict)
    elements = {part_name: part.initial_element() for part_name, part in model.parts}
    numbers = [(b.mass, b.inertia, b.x, b.R, b.u, b.omega) for b in model.bodies]
    if not checks.is_concrete(model.gravity, numbers, elements):
        raise ValueError("A file takes numbers, and JAX is tracing some of this model. Write it outside.")
    document = _document(model, elements, file_links)
    text = mjcf_writer.to_text(document, name)
    _report(document.not_expressible, strict)
    return text


def _document(model: ModelParts, elements: dict[str, Any], file_links: Sequence[Link]) -> Document:
    of_file = {id(link.part) for link in file_links}
    links = [_link(name, part, elements[name]) for name, part in model.parts if id(part) not in of_file]
    own = [link for link in links if link is not None]
    document = Document(Tree(model, [*file_links, *own]), np.asarray(model.gravity))
    _leave_out(document, model)
    for link in own:
        document.note_loss(link.name, link.part, _join(document, link, elements[link.name]))
    in_tree = of_file | {id(link.part) for link in own}
    # Rotors first: the inertia along a joint scales its stops.
    for name, part in sorted(model.parts, key=lambda item: not isinstance(item[1], AttachedRotor)):
        if id(part) not in in_tree:
            document.note_loss(name, part, _write(document, name, part, elements[name]))
    document.tree.merge()
    return document


def _leave_out(document: Document, model: ModelParts) -> None:
    """Notes the bodies that MJCF lacks; those of rotors are reported with the rotors."""
    body_ids = {id(body) for _, part in model.parts if isinstance(part, AttachedRotor) for body in part.bodies}
    for body in model.bodies:
        if body.kind in ("flexible", "coordinate") and id(body) not in body_ids:
            document.not_expressible.append(
                NotExpressible(body.name, f"{body.kind} body", "MJCF has rigid bodies and mass points")
            )


def _join(document: Document, link: Link, element: Any) -> str:
    """A joint of the model; returns what MJCF can't express of it, or ""."""
    frame = _frame(element)
    assert frame is not None
    reason = ""
    if any(link is other for other in document.tree.loop_links):
        whole = frame.pinned and len(frame.a) in (0, 3)
        reason = (
            equality_constraints.frames(document, link.name, link.part, frame)
            if whole
            else equality_constraints.cut(document, link)
        )
    if not reason and isinstance(element, ThreadConstraint):
        reason = equality_constraints.thread(document, link.name, link.part, element)
    return reason


def _write(document: Document, name: str, part: AbstractPart, element: Any) -> str:
    """Any other part; returns what MJCF can't express of it, or ""."""
    bodies = part.bodies[:2] if isinstance(part, AttachedRotor) else part.bodies
    write = _WRITERS.get(type(element))
    if isinstance(getattr(part, "joint", None), StringLength):
        return "it acts along a string, and of tendons those between two points of a `SpringDamper` are written"
    if isinstance(element, AbstractEffort):
        write = tendons.effort if isinstance(getattr(part, "joint", None), Combination) else forces.effort
    if write is None:
        return "nothing in MJCF does the same"
    if not document.has(*bodies):
        return "it is on a body that the file lacks"
    return write(document, name, part, element)


def _frame(element: Any) -> FrameConstraint | None:
    """The constraint of two frames in an element, if there is one."""
    frame = element.guide if type(element) is ThreadConstraint else element
    return frame if type(frame) is FrameConstraint else None


def _link(name: str, part: AbstractPart, element: Any) -> Link | None:
    """A part as a chain of joints, or None; connections and welds of files become equalities again."""
    frame = _frame(element)
    if not isinstance(part, AbstractJoint) or frame is None or not _have_place(part):
        return None
    if isinstance(part, ImportedJoint) and frame.pinned:
        return None
    axes = free_axes(part, frame)
    first, second = part.bodies
    return None if axes is None else Link(first, second, [Joint("", axis) for axis in axes], name, part)


def _have_place(part: AbstractPart) -> bool:
    """Whether all ends are bodies of the file; nodes of flexible bodies are not."""
    return all(body.kind in ("ground", "rigid", "point") and body.carrier is None for body in part.bodies)


def _report(unsaid: Sequence[NotExpressible], strict: bool) -> None:
    """Warns of what MJCF can't express; raises ValueError if `strict`."""
    if not unsaid:
        return
    names: dict[tuple[str, str], list[str]] = {}
    for name, what, reason in unsaid:
        names.setdefault((what, reason), []).append(f"`{name}`")
    rows = [f"{what} {_name_list(which)}: {reason}." for (what, reason), which in names.items()]
    message = "\n- ".join(("MJCF doesn't say all of this model as it is:", *rows))
    if strict:
        raise ValueError(f"{message}\nTake strict=False for a file without that.")
    warn(message, ModelFileWarning)


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more

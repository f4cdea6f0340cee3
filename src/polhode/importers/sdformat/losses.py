"""Contents of a document that affect its motion in Gazebo and have no place in a model, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from polhode.importers.losses import PASS_THROUGH, NotCarried
from polhode.importers.sdformat import values
from polhode.importers.sdformat.documents import Document
from polhode.importers.sdformat.joints import Joint
from polhode.importers.sdformat.scopes import Link, Scope

_AXIS = "xyz initial_position use_parent_model_frame dynamics limit mimic"
_KNOWN: Mapping[str, frozenset[str]] = {
    tag: frozenset(names.split())
    for tag, names in {
        "sdf": "world model light actor",
        "world": "audio wind include gravity magnetic_field atmosphere gui physics scene light frame joint model actor "
        "plugin road spherical_coordinates state population",
        "model": "static self_collide allow_auto_disable frame pose link joint plugin gripper include model "
        "enable_wind",
        "link": "gravity enable_wind self_collide kinematic must_be_base_link velocity_decay pose inertial collision "
        "visual sensor projector audio_sink audio_source battery light particle_emitter frame plugin",
        "inertial": "mass density auto_inertia_params pose frame inertia fluid_added_mass",
        "inertia": "ixx ixy ixz iyy iyz izz",
        "joint": "parent child gearbox_ratio gearbox_reference_body thread_pitch screw_thread_pitch axis axis2 physics "
        "pose sensor frame mimic plugin",
        "axis": _AXIS,
        "axis2": _AXIS,
        "dynamics": "damping friction spring_reference spring_stiffness",
        "limit": "lower upper effort velocity stiffness dissipation",
        "mimic": "multiplier offset reference",
    }.items()
}
"""Children of the elements that make a motion. What is in none of them is reported; further within, nothing moves."""
_ODE = ("velocity", "max_force", "bounce", "cfm", "suspension/cfm", "limit/cfm")
"""Numbers for Gazebo's first solver that drive or soften a joint where they are not zero."""


class _Loss(NamedTuple):
    what: str
    reason: str


_PLUGINS = _Loss("plugins", "they run only in Gazebo")
_BY_TAG: Mapping[str, _Loss] = {
    "plugin": _PLUGINS,
    "actor": _Loss("actors", "they follow scripts"),
    "population": _Loss("populations", "models that Gazebo scatters are not made; write them out"),
    "state": _Loss("states", "motions start where the poses of the models are; give positions=… and velocities=…"),
    "gripper": _Loss("grippers", "they act by contacts"),
    "fluid_added_mass": _Loss("fluid", "bodies move in a vacuum"),
}
"""Elements that are lost wherever they stand."""


def find_losses(document: Document, world: Scope, links: Sequence[Link], joints: Sequence[Joint]) -> list[NotCarried]:
    """All that is not carried, by what it is."""
    names: dict[_Loss, dict[str, None]] = {}
    for loss, name in (*_elements(document.root), *_of_links(world, links), *_of_joints(joints), *_contacts(links)):
        names.setdefault(loss, {})[name] = None
    return [NotCarried(loss.what, tuple(filter(None, members)), loss.reason) for loss, members in names.items()]


def _elements(root: Element) -> Iterator[tuple[_Loss, str]]:
    """Lost and unknown elements, outermost first."""
    ready: list[tuple[Element, str]] = [(root, "")]
    while ready:
        element, path = ready.pop()
        inner = []
        for child in element:
            tag = str(child.tag)
            name = "::".join(filter(None, (path, child.get("name", "") if tag in ("model", "link", "joint") else "")))
            if tag in _BY_TAG:
                yield _BY_TAG[tag], child.get("name") or path
            elif "}" in tag or ":" in tag:
                label = tag.rpartition("}")[2]
                yield (
                    _Loss("custom elements", "only the programs that define them know what they mean"),
                    f"<{label}> of {path}",
                )
            elif tag not in _KNOWN[element.tag]:
                yield (
                    _Loss("unknown elements", "they are not part of SDFormat 1.4 to 1.11"),
                    f"<{tag}> of {path or 'sdf'}",
                )
            elif tag in _KNOWN:
                inner.append((child, name))
        ready += reversed(inner)


def _of_links(world: Scope, links: Sequence[Link]) -> Iterator[tuple[_Loss, str]]:
    wind = values.vector(world.element, "wind/linear_velocity", "the world", (0.0, 0.0, 0.0)).any()
    for link in links:
        element, where = link.element, f"link `{link.name}`"
        if link.static:
            continue
        if values.flag(element, "kinematic", where):
            yield _Loss("kinematic links", "they move by forces as all others do"), link.name
        if any(values.number(element, f"velocity_decay/{name}", where) for name in ("linear", "angular")):
            yield _Loss("velocity_decay", "bodies move in a vacuum; add dampers to the model"), link.name
        windy = any(values.flag(scope.element, "enable_wind", where) for scope in link.scope.path)
        if wind and values.flag(element, "enable_wind", where, windy):
            yield _Loss("wind", "bodies move in a vacuum"), link.name


def _of_joints(joints: Iterable[Joint]) -> Iterator[tuple[_Loss, str]]:
    for joint in joints:
        ode = joint.element.find("physics/ode")
        if ode is not None and any(values.limit(ode, name, joint.where, 0.0) for name in _ODE):
            yield (
                _Loss("parameters of ODE", "motors, softness and rebound of its solver are none of the joint"),
                joint.name,
            )
        for tag, axis in joint.axes.items():
            where = f"<{tag}> of {joint.where}"
            if any(values.text(axis.element, f"limit/{name}") for name in ("stiffness", "dissipation")) and _stops(
                axis.element, where
            ):
                yield _Loss("stiffness and dissipation of stops", "they are as stiff as suits the inertia"), joint.name


def _stops(axis: Element | None, where: str) -> bool:
    ends = [values.limit(axis, f"limit/{end}", where, float("inf")) for end in ("lower", "upper")]
    return any(abs(end) < float("inf") for end in ends)


def _contacts(links: Sequence[Link]) -> Iterator[tuple[_Loss, str]]:
    """Links that may touch: of different models, or of one that collides with itself."""
    loss = _Loss("contacts", PASS_THROUGH)
    colliding = [link for link in links if link.element.find("collision") is not None]
    models = {id(link.scope.path[0]) for link in colliding if link.scope.path}
    for link in colliding:
        own = any(
            values.flag(e, "self_collide", f"link `{link.name}`")
            for e in (link.element, *(s.element for s in link.scope.path))
        )
        if len(models) > 1 or (own and len(colliding) > 1):
            yield loss, link.name

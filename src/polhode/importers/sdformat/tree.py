"""A spanning tree of the links of a document; joints outside of it close loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from polhode.importers import rotations
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import ORIGIN, Frame, Inertial
from polhode.importers.link_spec import LinkSpec
from polhode.importers.sdformat.inertials import read_inertial
from polhode.importers.sdformat.joints import Joint, add_motions
from polhode.importers.sdformat.scopes import Link
from polhode.importers.sdformat.values import flag

_EQ = mujoco.mjtEq
_GROUND = ""
"""The world among the names of links."""


class Branch(NamedTuple):
    """A link of the tree. - `parent`: its carrier. - `joint`: between them; None if fixed to the world or free."""

    link: Link
    parent: str
    joint: Joint | None


@dataclasses.dataclass(frozen=True)
class SpanningTree:
    """- `branches`: parents first. - `loops`: joints left over. - `free`: names of the links that nothing carries."""

    branches: list[Branch]
    loops: list[Joint]
    free: frozenset[str]


def span(links: Sequence[Link], joints: Sequence[Joint]) -> SpanningTree:
    """The tree of the joints that come first in the file, fixed ones before all, and cuts that it asks for last."""
    groups: dict[str, str] = {_GROUND: _GROUND, **{link.name: link.name for link in links}}
    neighbours: dict[str, list[Joint]] = {name: [] for name in groups}
    loops = []
    for joint in sorted(joints, key=lambda joint: (joint.closes_loops, not joint.rigid)):
        ends = _names(joint)
        first, second = (_group(groups, end) for end in ends)
        if first == second:
            loops.append(joint)
            continue
        groups[second] = first
        for end in ends:
            neighbours[end].append(joint)
    order = {joint.name: number for number, joint in enumerate(joints)}
    for each in neighbours.values():
        each.sort(key=lambda joint: order[joint.name])
    moving = {link.name: link for link in links if not link.static}
    branches = [Branch(link, _GROUND, None) for link in links if link.static]
    branches += _walk(_GROUND, moving, neighbours)
    reached = {branch.link.name for branch in branches}
    children = {_names(joint)[1] for joint in joints}
    free = []
    # A tree that nothing fixes begins with a link that is no child, if it has one.
    for name in sorted(moving, key=lambda name: name in children):
        if name not in reached:
            free.append(name)
            tree = [Branch(moving[name], _GROUND, None), *_walk(name, moving, neighbours)]
            reached.update(branch.link.name for branch in tree)
            branches += tree
    return SpanningTree(branches, loops, frozenset(free))


def _names(joint: Joint) -> tuple[str, str]:
    parent, child = (_GROUND if end is None else end.name for end in (joint.parent, joint.child))
    return parent, child


def _group(groups: dict[str, str], name: str) -> str:
    """The representative of the links that are joined to one."""
    while groups[name] != name:
        groups[name] = groups[groups[name]]
        name = groups[name]
    return name


def _walk(base: str, links: dict[str, Link], neighbours: dict[str, list[Joint]]) -> Iterator[Branch]:
    """All that joints of the tree carry, depth first, in the order of the file."""
    ready = [(base, joint) for joint in reversed(neighbours[base])]
    while ready:
        carrier, joint = ready.pop()
        parent, child = _names(joint)
        name = child if carrier == parent else parent
        yield Branch(links[name], carrier, joint)
        ready += [(name, each) for each in reversed(neighbours[name]) if each is not joint]


def build_links(name: str, tree: SpanningTree) -> LinkSpec:
    """Links and joints for MuJoCo. Where a joint of one or more coordinates closes a loop, its child is cut in two."""
    parents = {branch.link.name: branch.parent for branch in tree.branches if branch.parent != _GROUND}
    spec = LinkSpec(name, parents)
    links = {branch.link.name: branch.link for branch in tree.branches}
    cuts = {joint.name: _cut_end(joint) for joint in tree.loops if joint.axes}
    coordinates = {name for _, _, joint in tree.branches if joint for _, _, name in joint.motions()}
    for link, parent, joint in tree.branches:
        body = _add(spec, link.name, link, links.get(parent))
        if link.name in tree.free:
            body.add_freejoint(name=f"{link.name} (free)" if link.name in coordinates else link.name)
        if joint is not None:
            add_motions(spec.spec, body, joint, link.frame, backward=_names(joint)[1] == parent)
        body.gravcomp = float(not flag(link.element, "gravity", f"link `{link.name}`", True))
        shares = 1 + sum(1 for cut in cuts.values() if cut.name == link.name)
        spec.inertials[link.name] = _share(read_inertial(link), shares)
    for joint in tree.loops:
        if joint.name in cuts:
            _add_cut(spec, joint, cuts[joint.name])
        else:
            kind = _EQ.mjEQ_WELD if joint.rigid else _EQ.mjEQ_CONNECT
            _close(spec, joint, kind, [_end(spec, link) for link in (joint.parent, joint.child)], joint.frame)
    return spec


def _add(spec: LinkSpec, name: str, link: Link, parent: Link | None) -> Any:
    """A body in the frame of a link, at its place relative to its parent."""
    if parent is None:
        return spec.add(name, None, link.frame)
    return spec.add(name, parent.name, parent.frame.inverse().compose(link.frame))


def _cut_end(joint: Joint) -> Link:
    """The end of a joint that is cut: its child, or its parent if that is the world."""
    end = joint.child or joint.parent
    assert end is not None
    return end


def _add_cut(spec: LinkSpec, joint: Joint, link: Link) -> None:
    """Part of a link that a joint carries, welded to the rest."""
    backward = joint.child is None
    name = f"{link.name} ({joint.name})"
    body = _add(spec, name, link, joint.child if backward else joint.parent)
    add_motions(spec.spec, body, joint, link.frame, backward)
    body.gravcomp, spec.inertials[name] = spec.bodies[link.name].gravcomp, spec.inertials[link.name]
    _close(spec, joint, _EQ.mjEQ_WELD, [(spec.bodies[link.name], link.frame), (body, link.frame)], link.frame)


def _end(spec: LinkSpec, link: Link | None) -> tuple[Any, Frame]:
    """The body of a link, and its frame."""
    return (spec.spec.worldbody, ORIGIN) if link is None else (spec.bodies[link.name], link.frame)


def _share(inertial: Inertial, shares: int) -> Inertial:
    return Inertial(inertial.mass / shares, inertial.centre, inertial.inertia / shares)


def _close(spec: LinkSpec, joint: Joint, kind: Any, ends: Sequence[tuple[Any, Frame]], common: Frame) -> None:
    """Joins two bodies, each with its frame, where they have the frame `common`; all in the world."""
    equality = spec.spec.add_equality(name=f"{joint.name} loop", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE)
    equality.name1, equality.name2 = (f"{joint.name} {end}" for end in ("parent", "child"))
    for name, (body, frame) in zip((equality.name1, equality.name2), ends, strict=True):
        at = frame.inverse().compose(common)
        body.add_site(name=name, pos=at.x, quat=rotations.to_quaternion(at.R))

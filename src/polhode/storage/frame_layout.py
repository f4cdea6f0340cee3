"""Layout of frames as named arrays with labelled dimensions, and their reconstruction."""

from __future__ import annotations

import collections
import functools
from typing import Any

import jax
import jax.tree_util as jtu
import numpy as np

from polhode.checks import short_repr
from polhode.frames import Frames

Structure = dict[str, Any]
"""A pytree's shape as plain values: {"leaf": name}, {"tuple" | "list": […]}, {"dict" | "fields": {…}}, {"none": None}.

"fields" are those of a named tuple.
"""

_DEEPEST = 50
"""Largest nesting depth of a state that is read from a file."""

_MATRICES = {"rotation": ("inertial_axis", "body_axis"), "rotations": ("inertial_axis", "body_axis")}

_VECTORS = {
    *("angular_momentum", "angular_velocity", "axis", "centre_of_mass", "direction", "force", "joint_point"),
    *("linear_momentum", "moment", "momentum", "node", "point", "position", "rod_point", "tip", "velocity"),
}
"""Names that vectors in space have; their plurals name several."""


def flatten(frames: Frames) -> tuple[Structure, dict[str, np.ndarray]]:
    """The structure of `frames` and its leaves by name: `time`, `state.…`, `outputs.…`, `invariants.…`, ….

    Named tuples are recorded with their fields, other pytree nodes with attributes as dicts. Raises ValueError if two
    leaves would get the same name.
    """
    leaves: dict[str, np.ndarray] = {}
    structure: Structure = {"tuple": [_describe(_section(field), part, leaves) for field, part in _parts(frames)]}
    return structure, leaves


def names(structure: Structure) -> list[str]:
    """The names of all leaves."""
    ((kind, content),) = structure.items()
    if kind == "leaf":
        return [content]
    return [name for part in _inside(kind, content) for name in names(part)]


def part(structure: Structure, field: str) -> Structure:
    """The structure of one field of the frames."""
    return structure["tuple"][Frames._fields.index(field)]


def check_structure(structure: Any, depth: int = 0) -> Structure:
    """`structure` as it was read from a file. Raises ValueError for anything else."""
    if depth > _DEEPEST or not isinstance(structure, dict) or len(structure) != 1:
        raise ValueError("the structure of the frames is none")
    ((kind, content),) = structure.items()
    kinds: dict[str, Any] = {"leaf": str, "none": type(None), "dict": dict, "fields": dict, "tuple": list, "list": list}
    type_ = kinds.get(kind)
    if type_ is None or not isinstance(content, type_):
        raise ValueError(f"the structure of the frames has a part {short_repr(kind)}")
    if depth == 0 and (kind != "tuple" or len(content) != len(Frames._fields)):
        raise ValueError("the structure of the frames has other parts than frames have")
    if kind == "fields":
        # Raises ValueError for names that fields can't have.
        state_class(tuple(content))
    for each in _inside(kind, content):
        check_structure(each, depth + 1)
    return structure


def _inside(kind: str, content: Any) -> list[Structure]:
    """The parts of a structure."""
    if kind in ("dict", "fields"):
        return list(content.values())
    return content if kind in ("tuple", "list") else []


@functools.cache
def state_class(fields: tuple[str, ...]) -> Any:
    """A class of named tuples with these fields, for states whose class is not known."""
    # Names of fields are those in a file.
    return collections.namedtuple("State", fields)  # pyrefly: ignore[bad-class-definition]


def rebuild(structure: Structure, leaves: dict[str, Any]) -> Frames:
    """The frames that `flatten` has flattened."""
    return Frames(*(_rebuild(part, leaves) for part in structure["tuple"]))


def dimensions(name: str, ndim: int, last: int | None, overrides: dict[str, Any]) -> tuple[str, ...]:
    """Dimension names of the variable `name` with `ndim` axes, the first of which is time.

    `overrides` (variable or output name → names of all axes but time) goes first. Otherwise names decide: rotation
    matrices map the `body_axis` to the `inertial_axis`, the last axis of vectors is a `component`, that of quaternions
    holds (w, x, y, z). All other axes are numbered after their variable, whatever their length: three numbers may
    also be the rates of three hinges.
    """
    short = name.rsplit(".", 1)[-1]
    others = tuple(f"{name}_{i}" for i in range(ndim - 1))
    for key in (name, name.split(".", 1)[-1]):
        if key in overrides:
            if len(overrides[key]) != ndim - 1:
                raise ValueError(
                    f"`dimensions[{short_repr(key)}]` must name {ndim - 1} axes (all but time), got "
                    f"{short_repr(overrides[key])}."
                )
            return ("time", *overrides[key])
    if ndim >= 3 and short in _MATRICES:
        return ("time", *others[:-2], *_MATRICES[short])
    several = short not in _VECTORS
    if last == 3 and ndim >= 2 + several and (not several or _singular(short) in _VECTORS):
        return ("time", *others[:-1], "component")
    if ndim >= 2 and last == 4 and "quaternion" in short:
        return ("time", *others[:-1], "quaternion")
    return ("time", *others)


def _singular(word: str) -> str:
    """The singular of a regular noun."""
    return word.removesuffix("ies") + "y" if word.endswith("ies") else word.removesuffix("s")


def label(leaves: dict[str, Any], overrides: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Dimension names of all leaves."""
    return {name: dimensions(name, x.ndim, x.shape[-1] if x.ndim else None, overrides) for name, x in leaves.items()}


def _parts(frames: Frames) -> list[tuple[str, Any]]:
    return list(zip(Frames._fields, frames, strict=True))


def _section(field: str) -> str:
    return "time" if field == "t" else field


def _describe(name: str, node: Any, leaves: dict[str, np.ndarray]) -> Structure:
    if node is None:
        return {"none": None}
    if jtu.all_leaves([node]):
        if name in leaves:
            raise ValueError(f"Two parts of the run are called `{name}`; rename the one whose key has a full stop.")
        leaves[name] = np.asarray(node)
        return {"leaf": name}
    children = jtu.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)[0]
    parts = [(_key(path[0]), _describe(f"{name}.{_key(path[0])}", child, leaves)) for path, child in children]
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return {"fields": dict(parts)}
    if isinstance(node, (tuple, list)):
        return {"list" if isinstance(node, list) else "tuple": [part for _, part in parts]}
    return {"dict": dict(parts)}


def _key(entry: Any) -> str:
    match entry:
        case jtu.DictKey(key=key) | jtu.FlattenedIndexKey(key=key):
            return str(key)
        case jtu.SequenceKey(idx=index):
            return str(index)
        case jtu.GetAttrKey(name=name):
            return name
        case _:
            return str(entry)


def _rebuild(structure: Structure, leaves: dict[str, Any]) -> Any:
    ((kind, content),) = structure.items()
    match kind:
        case "leaf":
            return leaves[content]
        case "tuple":
            return tuple(_rebuild(part, leaves) for part in content)
        case "list":
            return [_rebuild(part, leaves) for part in content]
        case "dict":
            return {key: _rebuild(part, leaves) for key, part in content.items()}
        case "fields":
            return state_class(tuple(content))(*(_rebuild(part, leaves) for part in content.values()))
        case _:
            return None


def rows(frames: Frames) -> int:
    """The number of saved instants, after checking that every leaf has as many."""
    count = len(frames.t)
    for leaf in jax.tree.leaves(frames):
        if np.ndim(leaf) == 0 or np.shape(leaf)[0] != count:
            raise ValueError(f"Every array of a frame must have leading axis {count}; got shape {np.shape(leaf)}.")
    return count

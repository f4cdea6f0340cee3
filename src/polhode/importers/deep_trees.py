"""Trees deeper than MuJoCo compiles: their bodies are compiled side by side and nested afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 200
"""Depth of trees given to MuJoCo's compiler: it refuses a thousand, and its time grows with the cube of the depth."""


def is_deep(parents: Mapping[str, str]) -> bool:
    """Whether a tree is deeper than that; `parents`: of bodies by name, parents first."""
    depths: dict[str, int] = {}
    for name, parent in parents.items():
        depths[name] = depths.get(parent, 0) + 1
    return max(depths.values(), default=0) > DEEPEST


def nest(model: Any, parents: Mapping[str, str]) -> None:
    """Set the parents of bodies of a compiled model whose places are relative to these parents.

    Kinematics are then those of the tree; MuJoCo's mass matrix, which is not used here, is not.
    """
    if not parents:
        return
    for name, parent in parents.items():
        body, carrier = model.body(name).id, model.body(parent).id
        model.body_parentid[body] = carrier
        model.body_rootid[body] = model.body_rootid[carrier] if carrier else body
        if not model.body_jntnum[body]:
            model.body_weldid[body] = model.body_weldid[carrier]
    # Parents come before children.
    for body in range(model.nbody - 1, 0, -1):
        parent = model.body_parentid[body]
        if parent:
            model.body_subtreemass[parent] += model.body_subtreemass[body]

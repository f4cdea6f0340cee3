"""Trees deeper than MuJoCo compiles: their bodies are compiled side by side and put behind one another afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 200
"""Bodies in a row that MuJoCo's compiler is given: it refuses a thousand, and its time grows with their cube."""


def is_deep(parents: Mapping[str, str]) -> bool:
    """Whether there are more bodies in a row than that; `parents`: of bodies by name, each after its own parent."""
    depths: dict[str, int] = {}
    for name, parent in parents.items():
        depths[name] = depths.get(parent, 0) + 1
    return max(depths.values(), default=0) > DEEPEST


def nest(model: Any, parents: Mapping[str, str]) -> None:
    """Put bodies of a compiled model, whose places are relative to their parents, behind these.

    Kinematics are those of the tree then. MuJoCo's mass matrix is not: nothing here asks for it.
    """
    if not parents:
        return
    for name, parent in parents.items():
        body, carrier = model.body(name).id, model.body(parent).id
        model.body_parentid[body] = carrier
        model.body_rootid[body] = model.body_rootid[carrier] if carrier else body
        if not model.body_jntnum[body]:
            model.body_weldid[body] = model.body_weldid[carrier]
    # Bodies follow those that carry them.
    for body in range(model.nbody - 1, 0, -1):
        parent = model.body_parentid[body]
        if parent:
            model.body_subtreemass[parent] += model.body_subtreemass[body]

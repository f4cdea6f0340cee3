"""Links and joints as a specification for MuJoCo; masses and inertias are stored separately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polhode.importers import deep_trees, rotations
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import MASSLESS, Frame, Inertial


class LinkSpec:
    """A tree of links under construction, for MuJoCo to compile.

    - `spec`: the `mujoco.MjSpec`. - `bodies`: its bodies by the names of links.
    - `inertials`: of links by name; others have no mass.

    **Arguments:**

    - `parents`: of links that joints carry, by name, parents first.
    """

    def __init__(self, name: str, parents: Mapping[str, str]) -> None:
        self.spec = mujoco.MjSpec()
        self.spec.modelname, self.spec.compiler.degree, self.spec.compiler.fusestatic = name, False, False
        self.spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
        self.bodies: dict[str, Any] = {}
        self.inertials: dict[str, Inertial] = {}
        self._deep = deep_trees.is_deep(parents)
        self._parents: dict[str, str] = {}

    def add(self, name: str, parent: str | None, frame: Frame) -> Any:
        """The body of a link, at `frame` on its parent; on the ground without one."""
        carrier = self.spec.worldbody if parent is None or self._deep else self.bodies[parent]
        if parent is not None and self._deep:
            self._parents[name] = parent
        # A placeholder: MuJoCo would check the link's own mass link by link.
        # Placeholders: MuJoCo would check the link's own mass link by link.
        body = carrier.add_body(
            name=name, pos=frame.x, quat=rotations.to_quaternion(frame.R), mass=1.0, inertia=np.ones(3)
        )
        body.explicitinertial = True
        self.bodies[name] = body
        return body

    def compile(self) -> Any:
        """The compiled `mujoco.MjModel`."""
        model = self.spec.compile()
        deep_trees.nest(model, self._parents)
        return model

    def inertials_by_number(self, model: Any) -> dict[int, Inertial]:
        """Inertials of all bodies of the compiled model but the world."""
        names = {i: mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, i) for i in range(1, model.nbody)}
        return {number: self.inertials.get(name, MASSLESS) for number, name in names.items()}

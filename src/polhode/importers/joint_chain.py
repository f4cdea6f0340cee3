"""The successive joints between a MuJoCo body and its parent."""

from __future__ import annotations

import dataclasses

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction
from polhode.multibody.bodies import Body

HINGE, SLIDE, BALL, FREE = (
    int(mujoco.mjtJoint.mjJNT_HINGE),
    int(mujoco.mjtJoint.mjJNT_SLIDE),
    int(mujoco.mjtJoint.mjJNT_BALL),
    int(mujoco.mjtJoint.mjJNT_FREE),
)
NAMES = {HINGE: "hinge", SLIDE: "slide", BALL: "ball", FREE: "free"}


@dataclasses.dataclass(frozen=True)
class JointChain:
    """Joints between a body and its parent in the inertial frame at the start, in the order of the file.

    - `body`: number of the moving body; `name`: its name; `parent`, `child`: the bodies of the model.
    - `numbers`, `kinds`, `values`: of the joints; values of hinges and slides.
    - `anchors`, `axes`: shape (n, 3). - `armatures`: shape (n,).
    """

    body: int
    name: str
    parent: Body
    child: Body
    numbers: tuple[int, ...]
    kinds: tuple[int, ...]
    values: tuple[float, ...]
    anchors: np.ndarray
    axes: np.ndarray
    armatures: np.ndarray

    def places(self, kind: int) -> list[int]:
        """Positions in the chain of the joints of a kind."""
        return [i for i, k in enumerate(self.kinds) if k == kind]

    def part(self, first: int, last: int, parent: Body, child: Body) -> JointChain:
        """The joints from `first` to `last` as a chain between other bodies."""
        at = slice(first, last)
        return dataclasses.replace(
            self,
            parent=parent,
            child=child,
            numbers=self.numbers[at],
            kinds=self.kinds[at],
            values=self.values[at],
            anchors=self.anchors[at],
            axes=self.axes[at],
            armatures=self.armatures[at],
        )


def read_chain(construction: Construction, body: int) -> JointChain:
    """The joint chain of a MuJoCo body."""
    m, data = construction.start.compiled, construction.start.data
    first, count = int(m.body_jntadr[body]), int(m.body_jntnum[body])
    numbers = tuple(range(first, first + count))
    return JointChain(
        body=body,
        name=construction.start.name(mujoco.mjtObj.mjOBJ_BODY, body),
        parent=construction.body(int(m.body_parentid[body])),
        child=construction.carriers[body],
        numbers=numbers,
        kinds=tuple(int(m.jnt_type[j]) for j in numbers),
        values=tuple(float(data.qpos[m.jnt_qposadr[j]]) for j in numbers),
        anchors=data.xanchor[list(numbers)].copy(),
        axes=data.xaxis[list(numbers)].copy(),
        armatures=np.array([m.dof_armature[m.jnt_dofadr[j]] for j in numbers]),
    )

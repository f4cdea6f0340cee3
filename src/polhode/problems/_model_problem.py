"""Problems from multibody models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.assembly.default_choice import method_for
from polhode.assembly.name_table import build_name_table
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.conversions.livens import LivensMultibody
from polhode.multibody.conversions.separable import SeparableMultibody
from polhode.multibody.system import MultibodySystem
from polhode.problem import Observable, Problem, Reference
from polhode.problems.declaration import Head, Make
from polhode.systems.base import State
from polhode.viewing.scene import joint_symbols, scene

AssembledSystem = MultibodySystem
"""Systems of `Model.assemble`, in absolute or in joint coordinates."""

Redundant = Any
"""Values of `redundant` in `Model.assemble`."""


@dataclasses.dataclass(frozen=True, eq=False)
class ModelDraft:
    """A problem of a model that has the parameters `formulation` and `duration`.

    - `outputs`, `parts`: of the assembled system, outputs and the drawing besides symbols of joints.
    - `h`: recommended step. - `method`: the one of the literature, recommended in coordinates that take it.
    - `redundant`: as in `Model.assemble`. - `up`: of the drawing.
    - `reference`, `independent_of`: as in `AbstractDraft`.
    """

    model: Model
    outputs: Callable[[AssembledSystem], Mapping[str, Observable]]
    parts: Callable[[AssembledSystem], tuple[scene.Part, ...]]
    h: float
    method: str = "generalized-alpha"
    redundant: Redundant = "error"
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    reference: Mapping[str, Reference] = dataclasses.field(default_factory=dict)
    independent_of: tuple[str, ...] | None = None

    def problem(self, head: Head, build: Callable[..., Problem], make: Make, settled: Redundant | None) -> Problem:
        """The problem; the energy is an invariant if the model keeps it.

        The redundant constraints that were dropped (`settled`) are dropped again when parameters are replaced: inside
        JAX transformations their rank can't be determined.
        """
        del build
        parameters, redundant = head.parameters, settled or self.redundant
        joints = parameters.get("joints", "invariant")
        system, state0 = self.model.assemble(parameters["formulation"], redundant=redundant, joints=joints)
        again = system.dropped or redundant

        def rebuild(**changed: Any) -> Problem:
            return make(changed, again if changed["formulation"] == parameters["formulation"] else None)

        def all_parts(base: AssembledSystem) -> tuple[scene.Part, ...]:
            own = self.parts(base)
            return (*own, *_symbols(self.model, base, own, self.up))

        all_outputs, drawing = _outputs_and_drawing(system, self.outputs, all_parts)
        return Problem(
            system=system,
            state0=state0,
            outputs=all_outputs,
            invariants=system.invariants(),
            integrator=method_for(system, state0, 0.0, self.h, self.method)[0],
            h=self.h,
            scene=scene.Scene(parts=drawing, up=self.up),
            build=rebuild,
            named=build_name_table(self.model, system if isinstance(system, AssembledSystem) else system.base),
            **head._asdict(),
        )


def _outputs_and_drawing(
    system: AssembledSystem | LivensMultibody | SeparableMultibody,
    outputs: Callable[[AssembledSystem], Mapping[str, Observable]],
    parts: Callable[[AssembledSystem], tuple[scene.Part, ...]],
) -> tuple[dict[str, Observable], tuple[scene.Part, ...]]:
    """Outputs and drawing; of a converted system those of its `base`, with energy and momenta."""
    if isinstance(system, AssembledSystem):
        return dict(outputs(system)), parts(system)
    # Momenta are variables here, which those of a problem's own, made of velocities, must not hide.
    all_outputs = {**system.convert_observables(outputs(system.base)), **system.balances()}
    return all_outputs, tuple(scene.with_functions(part, system.convert_observable) for part in parts(system.base))


def _symbols(
    model: Model, system: AssembledSystem, parts: Sequence[scene.Part], up: tuple[float, float, float]
) -> tuple[scene.Body, ...]:
    """Marks for the joints of a model and the ground; none for numbers that JAX traces."""
    bodies = {body.name: body for body in model.bodies if body.kind not in ("ground", "coordinate", "integral")}
    solids = [part for part in parts if isinstance(part, scene.Body) and part.name in bodies]
    numbers = [(body.x, body.R) for body in bodies.values()], [part.size for part in solids], model.gravity
    if not checks.is_concrete(numbers):
        return ()
    names = list(bodies)
    boxes = [{"name": part.name, "size": part.size, "turn": np.eye(3)} for part in solids]
    symbols = joint_symbols.to_dicts(model, {name: row for row, name in enumerate(names)}, boxes, up)
    poses = {row: _pose(system, bodies[names[row]] if row >= 0 else None) for row in {each["row"] for each in symbols}}
    rows = [each.pop("row") for each in symbols]
    return tuple(scene.Body(**each, pose=poses[row]) for row, each in zip(rows, symbols, strict=True))


def _pose(system: AssembledSystem, body: Body | None) -> scene.Pose:
    """Pose of a body, or of the ground."""
    if body is None:
        return lambda t, state: (jnp.zeros(3), jnp.eye(3))
    return lambda t, state: system.pose_in(state, body)


def point_of(system: AssembledSystem, body: Body, local: Any) -> Observable:
    """A body-fixed point in the inertial frame, shape (3,)."""
    s = jnp.asarray(local, dtype=float)

    def point(t: Array, state: State) -> Float[Array, "3"]:
        x, R = system.pose_in(state, body)
        return x + R @ s

    return point


def scene_body(
    system: AssembledSystem, body: Body, size: Any, shape: Any = "box", colour: str = "#4477aa", rotation: Any = None
) -> scene.Body:
    """A body in the scene; `rotation` rotates the drawn shape into the body frame."""
    turn = jnp.eye(3) if rotation is None else jnp.asarray(rotation, dtype=float)

    def pose(t: Array, state: State) -> tuple[Array, Array]:
        x, R = system.pose_in(state, body)
        return x, R @ turn

    return scene.Body(body.name, shape, size, pose, colour)


def polyline(name: str, points: tuple[Observable, ...], colour: str = "#555555", *, coil: bool = False) -> scene.Line:
    """A line through moving points."""
    return scene.Line(name, stack_points(points), colour, coil=coil)


def stack_points(points: tuple[Observable, ...]) -> Observable:
    """Moving points as one output, shape (n, 3)."""
    return lambda t, state: jnp.stack([point(t, state) for point in points])


def rod_inertia(mass: Any, length: Any, radius: Any) -> Float[Array, "3"]:
    """Principal moments of a full cylinder along its first axis, about the centre."""
    across = mass * (3 * radius**2 + length**2) / 12
    return jnp.stack([jnp.asarray(x, dtype=float) for x in (0.5 * mass * radius**2, across, across)])

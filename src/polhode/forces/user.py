"""Potentials and loads that users write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.joints._frames import initial_pose
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement, AbstractPotentialElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Function, check_shape, result_shapes, shapes
from polhode.multibody.parts import AbstractForce
from polhode.spaces.rotation_input import rotation_vector


class AbstractUserEnergy(AbstractPotentialElement):
    """A potential from a function.

    **Arguments:**

    - `function`: (t, poses) → energy. - `of_pair`: whether it is `relative`.
    """

    brief: ClassVar[bool] = True

    function: Function
    of_pair: bool = eqx.field(static=True, default=False)

    @property
    def relative(self) -> bool:
        """Whether the potential depends on the relative pose of two nodes only."""
        return self.of_pair

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.function(t, poses)


class StoredEnergy(AbstractUserEnergy):
    """A potential that doesn't depend on time."""


class TimedEnergy(AbstractUserEnergy):
    """A potential that depends on time, so that energy is not kept."""

    conservative: ClassVar[bool] = False


class FunctionLoad(AbstractForceElement):
    """Loads from a function.

    **Arguments:**

    - `function`: (t, poses, twists) → (torque, force) for each node.
    """

    brief: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    function: Function

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        return tuple(Wrench(*wrench) for wrench in self.function(t, poses, twists))


@dataclasses.dataclass(frozen=True, eq=False)
class Potential(AbstractForce):
    """Stored energy as a function of the poses of a few bodies; forces and tangents follow by differentiation.

    **Arguments:**

    - `nodes`: one or several of rigid bodies, mass points, `model.ground`.
    - `function`: (t, poses) → energy. `poses[k].x` is the centre of mass of body k in the inertial frame, `poses[k].R`
      the rotation matrix from its frame to the inertial one. Written with `jax.numpy`; numbers in fields of an
      `equinox.Module` can be differentiated with respect to.
    - `time_dependent`: whether the function uses t; the energy of the system is an invariant only if it doesn't.
    - `relative`: whether it depends only on where two bodies see each other; then `eml` keeps angular momentum as well.
    - `name`: for messages.
    """

    nodes: Sequence[Body] | Body
    function: Callable[[Array, Poses], Any]
    time_dependent: bool = False
    relative: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        self.place(tuple(initial_pose(body) for body in self.bodies))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return _bodies(self.nodes)

    def place(self, poses: Poses) -> StoredEnergy | TimedEnergy:
        function = _callable(self.function)
        zero = jnp.zeros(())
        check_shape(self, "function", result_shapes(self, "function", function, zero, poses), (), "energy")
        if self.relative:
            self._check_relative(function, poses)
        if self.time_dependent:
            return TimedEnergy(function, self.relative)
        rate = jax.jvp(lambda t: function(t, poses), (jnp.full((), 0.37),), (jnp.ones(()),))[1]
        if checks.is_concrete(rate) and float(rate) != 0:
            raise ValueError("`function` changes with time; say so by time_dependent=True.")
        return StoredEnergy(function, self.relative)

    def _check_relative(self, function: Function, poses: Poses) -> None:
        """Turns and moves both bodies together, which must not change the energy."""
        if len(poses) != 2:
            raise ValueError(f"`relative` is for potentials of two bodies; `nodes` names {len(poses)}.")
        turn = rotation_vector((0.7, -1.1, 0.4))
        for t in (0.0, 1.3):
            before, after = (
                function(jnp.asarray(t), tuple(Pose(g @ p.x + d, g @ p.R) for p in poses))
                for g, d in ((jnp.eye(3), jnp.zeros(3)), (turn, jnp.array([3.0, -5.0, 7.0])))
            )
            if checks.is_concrete(before, after) and not abs(float(after - before)) <= 1e-9 * (1 + abs(float(before))):
                raise ValueError(
                    f"`function` says {float(before):g}, and {float(after):g} after both bodies were turned and moved "
                    "together: it doesn't depend on their relative pose only. Leave `relative` out."
                )


@dataclasses.dataclass(frozen=True, eq=False)
class Load(AbstractForce):
    """Loads on a few bodies as a function of their motion.

    **Arguments:**

    - `nodes`: one or several of rigid bodies, mass points, `model.ground`.
    - `function`: (t, poses, twists) → for each body the torque in its own frame and the force at its centre of mass in
      the inertial frame, each of shape (3,). `twists[k].omega` is body-fixed, `twists[k].u` inertial; poses are as in
      `Potential`.
    - `name`: for messages.
    """

    nodes: Sequence[Body] | Body
    function: Callable[[Array, Poses, Twists], Any]
    name: str | None = None

    def __post_init__(self) -> None:
        self.place(tuple(initial_pose(body) for body in self.bodies))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return _bodies(self.nodes)

    def place(self, poses: Poses) -> FunctionLoad:
        function = _callable(self.function)
        still = tuple(Twist(jnp.zeros(3), jnp.zeros(3)) for _ in poses)
        result = result_shapes(self, "function", function, jnp.zeros(()), poses, still)
        if not isinstance(result, list | tuple) or [_is_wrench(pair) for pair in result] != [True] * len(poses):
            pairs = ", ".join(["(torque, force)"] * len(poses))
            raise ValueError(
                f"`function` must return one pair of arrays of shape (3,) for each of {len(poses)} bodies, [{pairs}]; "
                f"it returns {shapes(result)}."
            )
        return FunctionLoad(function)


def _is_wrench(pair: Any) -> bool:
    return isinstance(pair, list | tuple) and [getattr(part, "shape", None) for part in pair] == [(3,), (3,)]


def _bodies(nodes: Any) -> tuple[Body, ...]:
    bodies = (nodes,) if isinstance(nodes, Body) else tuple(checks.as_list("nodes", nodes, "of bodies"))
    if not bodies or not all(isinstance(body, Body) for body in bodies):
        raise ValueError(f"`nodes` must be bodies of the model, got {short_repr(nodes)}.")
    if len({id(body) for body in bodies}) < len(bodies):
        raise ValueError(f"`nodes` names a body twice: {short_repr(bodies)}.")
    return bodies


def _callable(function: Any) -> Function:
    if not callable(function):
        raise ValueError(f"`function` must be callable, got {short_repr(function)}.")
    return Function(function)

"""Functions of rigid-body dynamics of a system: M, bias, forward and inverse dynamics, Jacobians of bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.native_jit import native_jit
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import to_dense
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Twist
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Vector
from polhode.systems.base import State


class BodyJacobian(NamedTuple):
    """Velocities of a body by v, in the inertial frame: ω = `angular` @ v, ẋ = `linear` @ v."""

    angular: Float[Array, "3 n"]
    linear: Float[Array, "3 n"]


class Dynamics:
    r"""Functions of the equations $M(q)\,\dot v + b(t, q, v) + B(t,q)^T\lambda = \tau$ of a model; `problem.dynamics`.

    States are pairs (q, v), as `problem.state0` and `run.state` have them, and all vectors have the components of v: in
    joint coordinates those of the joints in the order of `system.coordinates.links`, in absolute coordinates those of
    the bodies. B and λ belong to constraints, which joint coordinates have for closed loops only. Contacts of shapes
    are no part of these equations; their forces are an `effort`. Outside JAX's transformations functions are
    machine code, compiled at the first call and cached on disk; inside `jax.jit`, `jax.vmap`, `jax.grad` and others
    they are traced, and have derivatives of all orders. Numbers of the model, such as masses, are differentiated by
    `problem.replace(…).dynamics`.

    **Arguments:**

    - `system`: a multibody system.
    """

    def __init__(self, system: MultibodySystem) -> None:
        self.system = system
        self._compiled: dict[Any, Callable[..., Any]] = {}

    def without_loads(self) -> Dynamics:
        """The same with inertia and gravity alone, without springs, dampers, friction, motors and other loads."""
        mechanism = dataclasses.replace(self.system.mechanism, forces=())
        coordinates = self.system.coordinates.without_loads()
        return Dynamics(dataclasses.replace(self.system, mechanism=mechanism, coordinates=coordinates))

    def mass(self, state: State) -> Float[Array, "n n"]:
        """M(q), symmetric, with the inertia of rotors (Pinocchio's `crba`)."""
        return self._call(_mass, state)

    def bias(self, state: State, t: Any = 0.0) -> Float[Array, " n"]:
        """b(t, q, v), τ without accelerations: gyroscopic forces, weight, and minus all loads of the model.

        That of `without_loads` is Pinocchio's `nonLinearEffects`.
        """
        return self._call(_bias, state, _time(t))

    def forward(self, state: State, effort: Any = None, t: Any = 0.0) -> Float[Array, " n"]:
        """v̇ under the generalised forces τ = `effort`, zero by default (Pinocchio's `aba`); keeps the constraints."""
        return self._call(_forward, state, self._vector("effort", effort), _time(t))[0]

    def multipliers(self, state: State, effort: Any = None, t: Any = 0.0) -> Float[Array, " m"]:
        """λ under these forces, numbered as `system.labels`; `system.joint_multipliers` sorts them by joint."""
        return self._call(_forward, state, self._vector("effort", effort), _time(t))[1]

    def inverse(self, state: State, acceleration: Any, t: Any = 0.0) -> Float[Array, " n"]:
        """τ with which v̇ is `acceleration` where constraints take no forces, λ = 0 (Pinocchio's `rnea`)."""
        return self._call(_inverse, state, self._vector("acceleration", acceleration), _time(t))

    def jacobian(self, state: State, body: Body | str, point: Any = (0.0, 0.0, 0.0)) -> BodyJacobian:
        """Of a body's angular velocity, and of the velocity of a point on it.

        **Arguments:**

        - `body`: it or its name.
        - `point`: on the body, from its centre of mass, in its own frame; the centre of mass by default.
        """
        name = body.name if isinstance(body, Body) else checks.word("body", body, "a body or its name")
        if name not in self.system.names:
            names = ", ".join(self.system.names)
            raise ValueError(
                f"The system has no body `{name}`; it has {names}.{checks.nearest(name, self.system.names)}"
            )
        return self._call(_jacobian, state, checks.array("point", point, (3,), "on the body"), beside=name)

    def constraint_jacobian(self, state: State, t: Any = 0.0) -> Float[Array, "m n"]:
        """B(t, q), with the rows of `system.labels`; no rows without constraints."""
        return self._call(_constraint_jacobian, state, _time(t))

    def _vector(self, name: str, value: Any) -> Array:
        n = self.system.n
        return jnp.zeros(n) if value is None else checks.array(name, value, (n,), "the components of v")

    def _call(self, function: Callable[..., Any], state: State, *others: Any, beside: Any = None) -> Any:
        state = self.system.as_state(state, "state")
        consts = (self.system,) if beside is None else (self.system, beside)
        if inside_transformation():
            return function(*consts, state, *others)
        key = function, beside
        if key not in self._compiled:
            self._compiled[key] = native_jit(function, *consts)
        return self._compiled[key](state, *others)


def _time(t: Any) -> Array:
    return checks.array("t", t, (), "a time")


def _mass(system: MultibodySystem, state: State) -> Array:
    q, _ = state
    return to_dense(system.mass(jnp.zeros(()), q), (system.n, system.n))


def _bias(system: MultibodySystem, state: State, t: Array) -> Vector:
    return -system.force(t, *state)


def _forward(system: MultibodySystem, state: State, effort: Vector, t: Array) -> tuple[Vector, Array]:
    q, v = state
    return system.accelerations_under(t, q, v, effort)


def _inverse(system: MultibodySystem, state: State, acceleration: Vector, t: Array) -> Vector:
    q, v = state
    return system.momentum(t, q, acceleration) - system.force(t, q, v)


def _jacobian(system: MultibodySystem, name: str, state: State, point: Array) -> BodyJacobian:
    q, _ = state
    _, R = system.pose(q, name)

    def velocities(v: Vector) -> Twist:
        omega, u = system.twist(q, v, name)
        return Twist(R @ omega, u + R @ jnp.cross(omega, point))

    omega, u = jax.jacfwd(velocities)(jnp.zeros(system.n))
    return BodyJacobian(omega, u)


def _constraint_jacobian(system: MultibodySystem, state: State, t: Array) -> Array:
    q, _ = state
    return to_dense(system.jacobian(t, q), (system.m, system.n))

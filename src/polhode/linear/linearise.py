"""Linearisation of a problem about a state, in as many directions as it can move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from polhode import checks
from polhode._ambient import check_environment
from polhode.execution.eager import uncompiled
from polhode.execution.once import interpreted
from polhode.execution.placement import by_default
from polhode.linear.asked import Asked, velocity_of
from polhode.linear.inputs import input_named
from polhode.linear.model import LinearModel
from polhode.linear.outputs import Told, all_told, output_named, state_names
from polhode.problems.base import Problem
from polhode.spaces.base import Vector
from polhode.statics._linearised import null_space
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical


@by_default
@uncompiled()
def linearise(
    problem: Problem | AbstractSystem,
    t: float | None = None,
    state: State = None,
    *,
    inputs: str | Sequence[str] = (),
    outputs: str | Sequence[str] | None = None,
) -> LinearModel:
    r"""The linear model of a problem about a state, in minimal directions.

    Deviations are elements of the algebra of the state space, $(\delta q, \delta v)$ in mechanical systems, in
    coordinates that move with the velocities of `state`: coefficients are constant about equilibria and steady motions.
    Constraints on positions and velocities leave k = 2(n - m) directions, positions first, which are orthonormal in
    the coordinates of the system. In joint coordinates without constraints they are these coordinates and their rates,
    by their names; elsewhere `outputs` say what they mean.

    **Arguments:**

    - `problem`: a `Problem`, or a bare system with `state`.
    - `t`, `state`: where; by default the problem's first instant and start. Any state will do: `offset` is
      what moves it away by itself, zero at equilibria.
    - `inputs`: names of joints or of their coordinates, "pin" or "ball.x", along which a force or torque acts; or of
      numeric parameters of the problem, such as the torque of a motor that is a `polhode.Parameter`.
    - `outputs`: names of outputs of the problem, of joints (all coordinates and rates) or of their coordinates and
      rates, "pin.angle", "pin.rate". By default the states themselves.

    **Returns** a `LinearModel`. Runs on the host, outside of `jax.jit`; costs grow with the cube of the states.

    **Raises** ValueError for bad input, unknown names (with near ones), parameters that change constraints, and systems
    whose velocity isn't a function of the state, as on Livens' principle.

    ??? cite "Reference"
        Constraints are eliminated by an orthonormal basis of the null space of B, as in P. E. Nikravesh, Computer-aided
        analysis of mechanical systems, Prentice Hall (1988); the equations of deviations on a group are
        $\dot\eta = \delta\nu - [\nu, \eta]$.
    """
    check_environment()
    asked = Asked.of(problem, t, state)
    acting = [input_named(asked, name) for name in _names("inputs", inputs)]
    wanted = None if outputs is None else [output_named(asked, name) for name in _names("outputs", outputs)]
    F, offset, ambient, J, Jr = map(np.asarray, _variations(asked.system, jnp.asarray(asked.t), asked.state))
    T, L = _basis(asked.system, ambient, J, Jr)
    A, names = L @ F @ T, state_names(asked, T)
    B = np.hstack([np.zeros((len(A), 0)), *(L @ each.effect for each in acting)])
    if wanted is None:
        told = Told(np.eye(len(A)), np.zeros(B.shape), np.zeros(len(A)), names)
    else:
        told = all_told(asked, wanted, T, acting)
    return LinearModel(
        A=A,
        B=B,
        C=told.C,
        D=told.D,
        offset=_cleared(L @ offset, A),
        state_names=names,
        input_names=tuple(name for each in acting for name in each.names),
        output_names=told.names,
        y0=told.y0,
        basis=T,
        t=asked.t,
        state=asked.state,
    )


def directions(system: AbstractSystem, t: float, state: State) -> Float[np.ndarray, "dim k"]:
    """Independent small deviations of a state that keep all constraints, as columns.

    They are elements of the algebra of `system.state_space`.
    """
    _, _, ambient, J, Jr = map(np.asarray, _variations(system, jnp.asarray(t), state))
    return _basis(system, ambient, J, Jr)[0]


def _names(name: str, given: Any) -> list[Any]:
    found = [given] if isinstance(given, str) else checks.listed(name, given, "of names")
    return [checks.word(name, each, "a name") for each in found]


@interpreted
def _variations(system: AbstractSystem, t: Array, state: State) -> tuple[Array, ...]:
    """F and the offset; the ambient coordinates' derivative; those of constraints and their rates (rows × dim)."""
    space = system.state_space
    zero = jnp.zeros(space.dim)
    start = velocity_of(system, t, state)

    def rate(y: Vector) -> Vector:
        return velocity_of(system, t, space.move(state, y)) + space.bracket(start, y)

    def ambient(y: Vector) -> Array:
        return ravel_pytree(space.move(state, y))[0]

    none = jnp.zeros((0, space.dim))
    J = Jr = none
    if isinstance(system, AbstractMechanical) and system.m:
        J = jax.jacfwd(lambda y: system.constraint(t, space.move(state, y)[0]))(zero)
        Jr = jax.jacfwd(lambda y: system.constraint_rate(t, *space.move(state, y)))(zero)
    moving = start if not isinstance(system, AbstractMechanical) else start.at[: system.n].set(0.0)
    return jax.jacfwd(rate)(zero), moving, jax.jacfwd(ambient)(zero), J, Jr


def _basis(system: AbstractSystem, ambient: np.ndarray, J: np.ndarray, Jr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Deviations as columns, and the rows that give their coordinates back."""
    if not isinstance(system, AbstractMechanical):
        # Elements that leave the state where it is are no deviations.
        full = np.linalg.matrix_rank(ambient, tol=1e-8 * np.max(np.abs(ambient), initial=0.0)) == ambient.shape[1]
        N = np.eye(ambient.shape[1]) if full else _row_space(ambient)
        return N, N.T
    n = system.n
    Nq, Nv = null_space(J[:, :n]), null_space(Jr[:, n:])
    # Where positions move, velocities follow so that they keep the constraints' rates.
    follow = -np.linalg.pinv(Jr[:, n:], rcond=1e-10) @ (Jr[:, :n] @ Nq) if len(Jr) else np.zeros((n, Nq.shape[1]))
    T = np.block([[Nq, np.zeros((n, Nv.shape[1]))], [follow, Nv]])
    return T, scipy.linalg.block_diag(Nq.T, Nv.T)


def _row_space(matrix: np.ndarray) -> np.ndarray:
    _, sizes, right = np.linalg.svd(matrix)
    return right[: int(np.sum(sizes > 1e-8 * np.max(sizes, initial=0.0)))].T


def _cleared(offset: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Round-off of an equilibrium is no motion."""
    return np.where(np.abs(offset) > 1e-12 * np.max(np.abs(A), initial=1.0), offset, 0.0)

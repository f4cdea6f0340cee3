"""Linearisation of a problem about a state, in minimal directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from polhode import checks
from polhode.analysis.linear.inputs import input_named
from polhode.analysis.linear.linearisation_point import LinearisationPoint
from polhode.analysis.linear.outputs import OutputMatrices, output_matrices, output_named, state_names
from polhode.analysis.linear.state_space_model import LinearModel
from polhode.analysis.statics._deviations import Slopes, basis
from polhode.analysis.statics._steady_motion import deviations
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import with_default_device
from polhode.jax_context import check_environment
from polhode.problem import Problem
from polhode.systems.base import AbstractSystem, State


@with_default_device
@eager_numpy()
def linearise(
    problem: Problem | AbstractSystem,
    t: float | None = None,
    state: State = None,
    *,
    inputs: str | Sequence[str] = (),
    outputs: str | Sequence[str] | None = None,
    anyway: bool = False,
) -> LinearModel:
    r"""The linear model of a problem about a state, in minimal directions.

    Deviations are elements of the algebra of the state space, $(\delta q, \delta v)$ in mechanical systems. About a
    steady motion they are carried along by the group of symmetries that carries the motion: the space that translates
    and turns, and wheels and rotors that spin in themselves. The group is found from the accelerations of the bodies,
    and accepted if A is the same at later times; of several the one that turns the space least is taken, so that the
    whirl of rotors with equal moments of inertia is seen in the inertial frame (`turn` of the result). Eigenvalues
    depend neither on coordinates nor on the order of the bodies.
    Constraints on positions and velocities leave k = 2(n - m) directions, positions first, which are orthonormal in
    the coordinates of the system. In joint coordinates without constraints they are these coordinates and their rates,
    by their names; elsewhere `outputs` say what they mean.

    **Arguments:**

    - `problem`: a `Problem`, or a bare system with `state`.
    - `t`, `state`: where; by default the problem's first instant and start. At rest any state will do: `offset` is
      what moves it away by itself, zero at equilibria. A state that moves must belong to a steady motion.
    - `inputs`: names of joints or of their coordinates, "pin" or "ball.x", along which a force or torque acts; or of
      numeric parameters of the problem, such as the torque of a motor that is a `polhode.Parameter`.
    - `outputs`: names of outputs of the problem, of joints (all coordinates and rates) or of their coordinates and
      rates, "pin.angle", "pin.rate". By default the states themselves.

    - `anyway`: take the coefficients at one instant of a motion that is not steady, or of loads that depend on time;
      they give how deviations change at that instant, not whether the motion is stable.

    **Returns** a `LinearModel`. Runs on the host, outside of `jax.jit`; costs grow with the cube of the states.

    **Raises** ValueError for motions that aren't steady, with the reason, for bad input, unknown names (with near
    ones), parameters that change constraints, and systems whose velocity isn't a function of the state, as on Livens'
    principle.

    ??? cite "Reference"
        Constraints are eliminated by an orthonormal basis of the null space of B, as in P. E. Nikravesh, Computer-aided
        analysis of mechanical systems, Prentice Hall (1988); the equations of deviations on a group are
        $\dot\eta = \delta\nu - [\nu, \eta]$. Motions that a symmetry carries: J. Marsden, Lectures on mechanics,
        Cambridge University Press (1992), chapter 4.
    """
    check_environment()
    point = LinearisationPoint.of(problem, t, state)
    input_terms = [input_named(point, name) for name in _names("inputs", inputs)]
    output_terms = None if outputs is None else [output_named(point, name) for name in _names("outputs", outputs)]
    linear = deviations(point.system, point.t, point.state)
    if linear.unsteady and not anyway:
        raise ValueError(_no_steady_motion(linear.unsteady))
    A, T, L = linear.A, linear.basis, linear.coordinates
    names = state_names(point, T)
    B = np.hstack([np.zeros((len(A), 0)), *(L @ each.effect for each in input_terms)])
    if output_terms is None:
        matrices = OutputMatrices(np.eye(len(A)), np.zeros(B.shape), np.zeros(len(A)), names)
    else:
        matrices = output_matrices(point, output_terms, T, input_terms)
    return LinearModel(
        A=A,
        B=B,
        C=matrices.C,
        D=matrices.D,
        offset=linear.offset,
        state_names=names,
        input_names=tuple(name for each in input_terms for name in each.names),
        output_names=matrices.names,
        y0=matrices.y0,
        basis=T,
        t=point.t,
        state=point.state,
        turn=linear.turn,
        steady=not linear.unsteady,
    )


def directions(system: AbstractSystem, t: float, state: State) -> Float[np.ndarray, "dim k"]:
    """Independent small deviations of a state that keep all constraints, as columns.

    They are elements of the algebra of `system.state_space`.
    """
    return basis(system, Slopes.at(system, t, state))[0]


def _no_steady_motion(reason: str) -> str:
    return (
        f"The state moves and is no steady motion: {reason}. Eigenvalues of one instant say nothing about the "
        "stability of such a motion. Give the state of a steady motion; or, where it is periodic, take its "
        "Floquet multipliers by `polhode.floquet(problem, period)`. `anyway=True` gives the coefficients at this "
        "instant."
    )


def _names(name: str, values: Any) -> list[Any]:
    names = [values] if isinstance(values, str) else checks.as_list(name, values, "of names")
    return [checks.word(name, each, "a name") for each in names]

"""Floquet multipliers of periodic motions."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from polhode import checks
from polhode.analysis.linear.linearisation_point import LinearisationPoint
from polhode.analysis.linear.multipliers import FloquetModel
from polhode.analysis.linear.return_map import Return, is_of_bodies
from polhode.analysis.statics._deviations import STEADY, Instant
from polhode.analysis.statics._steady_bodies import Place, transport
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import with_default_device
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment
from polhode.multibody.light_bodies import is_inaccurate
from polhode.problem import Problem
from polhode.simulation.simulate import simulate
from polhode.simulation.stepping.step_control import StepControl
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical

_LOOKS = (0.0, 0.29, 0.61)
"""Parts of the period at whose states coefficients are compared with those a period later: no simple fractions."""

_ENOUGH = 1e-7
"""Change of the monodromy matrix by half the step, relative to its largest entry, at which steps are small enough."""

_TOO_MUCH = 1e-3
_HALVINGS = 4


@with_default_device
def floquet(
    problem: Problem | AbstractSystem,
    period: float,
    t: float | None = None,
    state: State = None,
    *,
    integrator: AbstractIntegrator | str | None = None,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    tolerance: float = 1e-6,
) -> FloquetModel:
    r"""Monodromy matrix and Floquet multipliers of a periodic motion: growth of small deviations in a period.

    The matrix is the derivative of a run over the period with respect to its start, along the deviations that
    constraints on positions and velocities leave, as of `linearise`. Loads and constraints may depend on time with the
    period. A state at rest is periodic with any period that they have.

    Motions of bodies may come back turned or displaced if that is a symmetry of the system: a satellite that spins as
    it goes around, wheels that roll, rotors that are round. Deviations are then carried back by the turn of the space
    and of each body in itself, the ones that turn the space least. It is checked that accelerations and their
    derivatives a period later are the same, at three instants. For a steady motion and any period multipliers are
    exp(s T) with the eigenvalues s of `linearise`, which measures in the same frame if the period is no full turn.

    **Arguments:**

    - `problem`: a `Problem`, or a bare system with `state`.
    - `period`: T > 0.
    - `t`, `state`: a state of the motion, by default the problem's first instant and start.
    - `integrator`, `h`, `rtol`, `atol`: of the run, as for `simulate`; by default `rkmk54`, or `herk54` with
      constraints, with rtol 1e-9. The run is repeated with half the step, or with a 32nd of the tolerances, which gives
      `accuracy` of the result; by default more often, until that is 1e-7.
    - `tolerance`: how far the motion may be from closing, as a fraction of its size and speeds.

    **Returns** a `FloquetModel`. Runs on the host, outside of `jax.jit`.

    **Raises** ValueError for motions that don't close after the period, with the body that is farthest off, for loads
    or constraints with another period, bad input, and systems without derivatives; `SimulationError` if the run fails.

    ??? cite "Reference"
        A. H. Nayfeh and B. Balachandran, Applied nonlinear dynamics, Wiley (1995), section 3.2.
    """
    check_environment()
    point = LinearisationPoint.of(problem, t, state)
    period, tolerance = checks.number("period", period, "period"), checks.number("tolerance", tolerance, "closure")
    if not period > 0:
        raise ValueError(f"`period` must be positive, got {period:.9g}.")
    if not tolerance > 0:
        raise ValueError(f"`tolerance` must be positive, got {tolerance:.9g}.")
    if is_inaccurate(point.system, point.t, point.state):
        raise ValueError(
            "Bodies are nearly massless beside others: the inertias that one joint carries differ by more than runs of "
            "these coordinates resolve. Give the light ones more mass and inertia, or take 'minimal' coordinates."
        )
    run = _Period.of(point, period, {"integrator": integrator, "h": h, "rtol": rtol, "atol": atol})
    states = run.states()
    end_of = _end_of_bodies if is_of_bodies(point.system) else _end_of_states
    end = end_of(point.system, run.times, states, tolerance)
    monodromy, accuracy = _monodromy(run, end, end.fastest)
    return FloquetModel(
        monodromy=monodromy,
        period=period,
        basis=end.basis,
        turn=end.turn,
        closure=end.closure,
        accuracy=max(end.closure, accuracy),
        t=point.t,
        state=point.state,
    )


def _monodromy(run: _Period, end: _End, rate: float) -> tuple[np.ndarray, float]:
    """The monodromy matrix, and its relative change when the step was last halved.

    The error control of a run does not see deviations, so the fastest of them limits the step.
    """
    longest = min(run.period / 16, 0.3 / rate)
    one, change = np.zeros((0, 0)), np.inf
    for k in range(_HALVINGS):
        before, one = one, end.pull_back(run.finer(k, longest).slopes(end.basis))
        if k:
            change = float(np.max(np.abs(one - before), initial=0.0)) / (np.max(np.abs(one), initial=0.0) or 1.0)
        if change <= _ENOUGH or (k and not run.by_default):
            break
    if not change <= _TOO_MUCH:
        raise ValueError(
            f"The multipliers aren't converged: half the step changes the monodromy matrix by {change:.3g} of its "
            "largest entry. Give a smaller `h` or `rtol`, or an integrator that suits the system."
        )
    return one, change


class _Period(NamedTuple):
    """Runs over one period."""

    point: LinearisationPoint
    period: float
    options: dict[str, Any]
    by_default: bool

    @classmethod
    def of(cls, point: LinearisationPoint, period: float, options: dict[str, Any]) -> _Period:
        by_default = all(value is None for value in options.values())
        if options["integrator"] is None and options["h"] is None:
            constrained = isinstance(point.system, AbstractMechanical) and point.system.m > 0
            rtol = options["rtol"] if options["rtol"] is not None or options["atol"] is not None else 1e-9
            options = {**options, "integrator": "herk54" if constrained else "rkmk54", "rtol": rtol}
        elif options["h"] is None and options["rtol"] is None and options["atol"] is None:
            options = {**options, "h": point.problem.h if point.problem is not None else None}
        return cls(point, period, options, by_default)

    @property
    def times(self) -> list[float]:
        return [self.point.t + part * self.period for part in (*_LOOKS, 1.0)]

    def finer(self, halvings: int, longest: float) -> _Period:
        """The same runs with the step, or its limit, halved `halvings` times, and tolerances to match."""
        options, part = self.options, 0.5**halvings
        if options["h"] is not None:
            return self._replace(options={**options, "h": options["h"] * part})
        tighter = {name: None if options[name] is None else options[name] * part**5 for name in ("rtol", "atol")}
        tighter = {name: None if x is None else max(x, 1e-14) for name, x in tighter.items()}
        return self._replace(options={**options, **tighter, "control": StepControl(max_step=longest * part)})

    def states(self) -> list[State]:
        frames = self._run(self.point.state, np.array(self.times)).state
        return [jax.tree.map(lambda a, k=k: jnp.asarray(a[k]), frames) for k in range(len(self.times))]

    def slopes(self, T: np.ndarray) -> np.ndarray:
        """Derivatives of the components of the last state along deviations of the first one, the columns of T."""
        space = self.point.system.state_space

        def end(x: Any) -> Any:
            start = space.move(self.point.state, jnp.asarray(T) @ x)
            return ravel_pytree(jax.tree.map(lambda a: a[-1], self._run(start, None).state))[0]

        return np.asarray(jax.jacfwd(end)(jnp.zeros(T.shape[1])))

    def _run(self, state: State, times: Any) -> Any:
        point, t1 = self.point, self.times[-1]
        source = point.problem or point.system
        return simulate(source, t0=point.t, t1=t1, state0=state, save_at=times, save_every=None, **self.options)


class _End(NamedTuple):
    """The end of a period, compared with its start.

    - `basis`: deviations of the start; `back` gives their coordinates from deviations of the end.
    - `ambient`: derivatives of the components of the last state along its deviations.
    """

    basis: np.ndarray
    back: np.ndarray
    ambient: np.ndarray
    turn: np.ndarray | None
    closure: float
    fastest: float

    def pull_back(self, columns: np.ndarray) -> np.ndarray:
        """Derivatives of the last state in the basis of deviations of the start."""
        return self.back @ np.linalg.lstsq(self.ambient, columns, rcond=1e-12)[0]


@eager_numpy()
def _end_of_bodies(system: Any, times: list[float], states: list[State], tolerance: float) -> _End:
    *path, last = (Place.of(system, t, state) for t, state in zip(times, states, strict=True))
    match = Return.of(path, last, times[-1] - times[0], tolerance)
    T = transport(match.group, 1.0, path[0], last)
    fastest = max(place.here.rate for place in path)
    ambient, group = last.here.slopes.ambient, match.group
    return _End(path[0].here.T, np.linalg.pinv(T), ambient, group.turn, match.gap.size, fastest)


@eager_numpy()
def _end_of_states(system: AbstractSystem, times: list[float], states: list[State], tolerance: float) -> _End:
    period = times[-1] - times[0]
    numbers = [np.asarray(ravel_pytree(state)[0]) for state in states]
    size = max(float(np.max(np.abs(a), initial=0.0)) for a in numbers) or 1.0
    off = np.abs(numbers[-1] - numbers[0])
    closure = float(np.max(off, initial=0.0)) / size
    if not closure <= tolerance:
        raise ValueError(
            f"The motion does not close after the period of {period:.9g}: number {int(np.argmax(off))} of its state "
            f"is off by {np.max(off):.3g}, {closure:.3g} of the largest, where {tolerance:.3g} are allowed."
        )
    path = [Instant.at(system, t, state) for t, state in zip(times, states, strict=True)]
    for here in path[:-1]:
        later = Instant.at(system, here.t + period, here.state)
        if np.max(np.abs(later.slopes.F - here.slopes.F)) > STEADY * np.max(np.abs(here.slopes.F)):
            raise ValueError(f"After the period of {period:.9g} coefficients are others: give the period of the loads.")
    return _End(path[0].T, path[0].L, path[-1].slopes.ambient, None, closure, max(here.rate for here in path))

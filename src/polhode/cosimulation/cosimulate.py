"""The function `polhode.cosimulate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from polhode import checks
from polhode.code_export import refusals
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.fmu.variables import Variable, variables_of
from polhode.code_export.free_numbers import FreeNumbers, Values
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.placement import with_default_device
from polhode.cosimulation.instances import AbstractInstance, CosimulationError, instance_of
from polhode.cosimulation.native_step import NativeStep
from polhode.cosimulation.unit import Unit, check_names
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment
from polhode.name_errors import unknown_name
from polhode.problem import Problem
from polhode.simulation.step_request import positive_step


@dataclasses.dataclass(frozen=True, eq=False)
class Cosimulation:
    """The states and signals of a problem and a unit at communication points.

    - `t`: these, shape (N,). - `outputs`: outputs of the problem, with `invariants.…` and `residuals.…`, by the names
      that units have, such as `positions.arm`; `unit`: those outputs of the unit that were used. Both have a first axis
      of length N. - `state`: the state of the problem at the end, as the method has it.
    """

    t: np.ndarray
    outputs: Mapping[str, np.ndarray]
    unit: Mapping[str, np.ndarray]
    state: Any


@with_default_device
def cosimulate(
    problem: Problem,
    method: AbstractIntegrator | str | None,
    unit: Unit,
    *,
    h: float,
    every: int = 1,
    to_unit: Mapping[str, str],
    from_unit: Mapping[str, str],
) -> Cosimulation:
    """Runs a problem beside a unit of another program: a controller, a load, or a system that it is coupled to.

    At communication points the unit gets outputs of the problem; then parameters of the problem get outputs of the
    unit, which may follow from its inputs at once, as those of controllers do. Both keep them until the next point and
    make their steps at the same time. So the coupling has order 1 in the length of communication steps, and adds or
    takes energy of that order, whatever the method; a sampled controller is what it is.

    **Arguments:**

    - `problem`, `method`: as for `simulate`, with None for the recommended method; the run has the span of the problem.
    - `unit`: by `load_fmu`.
    - `h`: constant step of the method. - `every`: steps between communication points.
    - `to_unit`: names of outputs of the problem by inputs of the unit; they are those of an exported unit, such as
      `joint_positions.hinge.angle` or `positions.arm`.
    - `from_unit`: names of outputs of the unit by numeric parameters of the problem, `polhode.Parameter`s of a model.

    **Raises** ValueError for names that neither has, with close matches, for shapes that differ, and for what
    `export_code` can't export either; `UnitError` if the unit fails, `CosimulationError` if a step of the method does,
    which have what was computed before as their `cosimulation`.
    """
    check_environment()
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    if not isinstance(unit, Unit):
        raise ValueError(f"`unit` must be a unit, got {checks.short_repr(unit)}: `polhode.load_fmu(path)` reads one.")
    size, count = positive_step("h", h, "Steps go forward in time."), checks.count("every", every, "steps")
    sources = check_names("from_unit", from_unit, lambda name: _require("output", name, unit.outputs))
    sinks = check_names("to_unit", to_unit, lambda name: None)
    for name in sinks:
        _require("input", name, unit.inputs)
    free = FreeNumbers.of(problem, (), tuple(sources))
    _check_shapes(free, sources, unit)
    try:
        step = ExportedStep.of(problem, method, size, free, (), None, restarts=bool(sources), derivatives=())
        coupling = _Coupling(NativeStep(step), step, problem, unit, sources, sinks)
    except UnsupportedNativeOperation as reason:
        raise refusals.no_code(reason, problem.name, str(method or problem.integrator)) from None
    intervals = round((step.task.t1 - step.task.t0) / (size * count))
    if intervals < 1 or abs(intervals * size * count - (step.task.t1 - step.task.t0)) > 1e-9 * size:
        raise ValueError(
            f"The span of the problem, {step.task.t1 - step.task.t0:g}, must be a multiple of `every` steps `h`, "
            f"{size * count:g}: choose another `h`, `every`, or end, `problem.replace(t_span=(t0, t1))`."
        )
    with instance_of(unit) as running:
        return coupling.run(running, intervals, size, count)


@dataclasses.dataclass
class _Exchange:
    """Outputs of a problem and of a unit at the communication points that were reached, and the last carry."""

    rows: list[np.ndarray]
    signals: list[dict[str, np.ndarray]]
    carry: np.ndarray


class _Coupling:
    """A problem and a unit, and what they exchange."""

    def __init__(
        self,
        native: NativeStep,
        step: ExportedStep,
        problem: Problem,
        unit: Unit,
        sources: Mapping[str, str],
        sinks: Mapping[str, str],
    ) -> None:
        self.native, self.step, self.sources, self.sinks = native, step, sources, sinks
        self.variables = {each.name: each for each in variables_of(step, problem, ()) if each.causality == "output"}
        for name, source in sinks.items():
            output = _require("output", source, self.variables, of="problem")
            if output.size != int(np.prod(unit.inputs[name], dtype=int)):
                raise ValueError(
                    f"Input {name!r} of the unit has shape {unit.inputs[name]}, and output {source!r} of the problem "
                    f"{output.shape}: they must have the same number of elements."
                )

    def run(self, unit: AbstractInstance, intervals: int, h: float, every: int) -> Cosimulation:
        times = self.step.task.t0 + h * every * np.arange(intervals + 1)
        done = _Exchange([], [], self.native.start(self.step.free.defaults))
        try:
            self._exchange(unit, times, every, done)
        except CosimulationError as error:
            if done.rows:
                error.cosimulation = self._result(times, done)
            raise
        return self._result(times, done)

    def _exchange(self, unit: AbstractInstance, times: np.ndarray, every: int, done: _Exchange) -> None:
        """Goes from point to point, and keeps what is done."""
        native, values, t0 = self.native, self.step.free.defaults, float(times[0])
        unit.begin(t0)
        carry = done.carry
        unit.set(self._signals(native.read(carry, values)), t0)
        unit.initialise(t0)
        names = list(dict.fromkeys(self.sources.values()))
        for k, t in enumerate(times.tolist()):
            unit.set(self._signals(native.read(carry, values)), t)
            signals = unit.get(names, t)
            before, values = values, self._values(signals)
            if k == 0:
                carry = native.start(values)
            elif self.sources and _differ(before, values):
                carry = native.jump(carry, values)
            done.rows.append(native.read(carry, values))
            done.signals.append(signals)
            done.carry = carry
            if k + 1 == len(times):
                break
            unit.advance(t, float(times[k + 1]))
            carry, code = native.advance(carry, values, every)
            if code != 0:
                raise CosimulationError(
                    f"A step of `{self.step.task.integrator_name}` failed at t = {native.time(carry):g}: {code.message}"
                )

    def _result(self, times: np.ndarray, done: _Exchange) -> Cosimulation:
        table = np.array(done.rows)
        outputs = {name: self._column(table, each) for name, each in self.variables.items()}
        names = dict.fromkeys(self.sources.values())
        signals = {name: np.array([row[name] for row in done.signals]) for name in names}
        return Cosimulation(times[: len(table)], outputs, signals, self.native.state(done.carry))

    def _column(self, table: np.ndarray, variable: Variable) -> np.ndarray:
        """The values of a variable in rows of all outputs."""
        return table[:, variable.offset : variable.offset + variable.size].reshape(-1, *variable.shape)

    def _signals(self, row: np.ndarray) -> dict[str, np.ndarray]:
        """Inputs of the unit."""
        return {name: self._column(row[None], self.variables[source])[0] for name, source in self.sinks.items()}

    def _values(self, outputs: Mapping[str, np.ndarray]) -> Values:
        """Parameters of the problem, which has no other free numbers."""
        pairs = zip(self.sources.values(), self.step.free.defaults[1], strict=True)
        return (), tuple(outputs[source].reshape(np.shape(like)) for source, like in pairs)


def _require(what: str, name: str, candidates: Mapping[str, Any], of: str = "unit") -> Any:
    if name not in candidates:
        raise unknown_name(f"{what} of the {of}", name, candidates)
    return candidates[name]


def _check_shapes(free: FreeNumbers, sources: Mapping[str, str], unit: Unit) -> None:
    for name, like in zip(free.inputs, free.defaults[1], strict=True):
        shape = unit.outputs[sources[name]]
        if int(np.prod(shape, dtype=int)) != np.size(like):
            raise ValueError(
                f"Parameter {name!r} has shape {np.shape(like)}, and output {sources[name]!r} of the unit {shape}: "
                "they must have the same number of elements."
            )


def _differ(a: Values, b: Values) -> bool:
    return any(not np.array_equal(x, y) for x, y in zip(a[1], b[1], strict=True))

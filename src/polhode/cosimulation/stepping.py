"""The function `polhode.stepping`: a run whose loop the user writes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.code_export import refusals
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.free_numbers import FreeNumbers, Values
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.placement import with_default_device
from polhode.cosimulation.native_step import NativeStep
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment
from polhode.name_errors import NameDict, unknown_name
from polhode.problem import Problem
from polhode.result_codes import Result
from polhode.simulation.step_request import positive_step


class SteppingError(RuntimeError):
    """A step that failed. `result`: a `polhode.Result`."""

    def __init__(self, reason: str, result: Result) -> None:
        super().__init__(reason)
        self.result = result


class Stepping:
    """A run that goes on by single steps of constant length, in machine code; made by `polhode.stepping`.

    - `t`: the time. - `state`: as the method has it. - `inputs`: their values by name, which `step` changes.
    - `outputs`: those of the problem by name, `invariants.…` and `residuals.…` among them.

    Iteration makes steps up to the end of the problem's span, and returns the state after each.
    """

    def __init__(self, step: ExportedStep) -> None:
        self._step, self._native = step, NativeStep(step)
        self._shapes = {name: like.shape for name, like in step.observe.program.out_shape.items()}
        self._values: Values = step.free.defaults
        self.reset()

    @property
    def h(self) -> float:
        """Length of a step."""
        return self._step.h

    @property
    def t(self) -> float:
        return self._native.time(self._carry)

    @property
    def state(self) -> Any:
        return self._native.state(self._carry)

    @property
    def inputs(self) -> Mapping[str, np.ndarray]:
        return MappingProxyType(dict(zip(self._step.free.inputs, self._values[1], strict=True)))

    @property
    def outputs(self) -> Mapping[str, np.ndarray]:
        row, at, values = self._native.read(self._carry, self._values), 0, {}
        for name, shape in self._shapes.items():
            size = int(np.prod(shape, dtype=int))
            values[name] = row[at : at + size].reshape(shape)
            at += size
        return NameDict("output", values)

    def reset(self, **inputs: Any) -> Stepping:
        """Goes back to the initial state of the problem, with its own values of the inputs that aren't given."""
        self._values = self._with(self._step.free.defaults, inputs)
        self._carry = self._native.start(self._values)
        return self

    def step(self, steps: int = 1, **inputs: Any) -> Any:
        """Makes steps with these inputs from now on; the others stay. Returns the state after them.

        **Raises** ValueError for names and shapes that aren't those of inputs; `SteppingError` for a step that fails,
        after which the run is where it began to fail.
        """
        count = checks.count("steps", steps, "steps to make")
        if inputs:
            values = self._with(self._values, inputs)
            if any(not np.array_equal(a, b) for a, b in zip(values[1], self._values[1], strict=True)):
                self._values = values
                self._carry = self._native.jump(self._carry, values)
        self._carry, code = self._native.advance(self._carry, self._values, count)
        if code != Result.successful:
            name = self._step.task.integrator_name
            raise SteppingError(f"A step of `{name}` failed at t = {self.t:g}, {code.name}: {code.message}", code)
        return self.state

    def copy(self) -> Stepping:
        """Another run that continues from here, with the same machine code, as predictive controllers need."""
        return copy.copy(self)

    def __iter__(self) -> Iterator[Any]:
        task = self._step.task
        while self.t < task.t1 - 1e-9 * self.h:
            yield self.step()

    def _with(self, values: Values, inputs: Mapping[str, Any]) -> Values:
        names = self._step.free.inputs
        for name in inputs:
            if name not in names:
                raise unknown_name("input", name, names)
        pairs = zip(names, values[1], strict=True)
        return values[0], tuple(_value(name, inputs[name], old) if name in inputs else old for name, old in pairs)


def _value(name: str, value: Any, like: Any) -> np.ndarray:
    array = checks.numbers(name, value, "value of an input")
    if np.shape(array) != np.shape(like):
        raise ValueError(f"Input {name!r} has shape {np.shape(like)}, got {short_repr(value)} of {np.shape(array)}.")
    return np.asarray(array, dtype=float)


@with_default_device
def stepping(
    problem: Problem,
    method: AbstractIntegrator | str | None = None,
    *,
    h: float | None = None,
    inputs: str | Sequence[str] = (),
    outputs: Any = None,
) -> Stepping:
    """A run whose loop is yours: single steps in machine code, with inputs that change between them.

    ```python
    loop = ph.stepping(problem, h=1e-3, inputs="torque")
    while loop.t < 10:
        angle = loop.outputs["joint_positions"][0]
        loop.step(torque=-20.0 * angle)
    ```

    Steps are those of `simulate` with the same constant `h`, bit by bit where nothing touches and as long as inputs
    don't change, to round-off with rigid contacts; where inputs change, the method begins again from the state, so that
    it keeps its order.

    **Arguments:**

    - `problem`, `method`: as for `simulate`, with None for the recommended method.
    - `h`: constant step; None for that of the problem.
    - `inputs`: names of numeric parameters of the problem, `polhode.Parameter`s of a model.
    - `outputs`: names of outputs, invariants and residuals to read; None for all.

    **Raises** ValueError for names that the problem hasn't, with close matches, and for what `export_code` can't export
    either.
    """
    check_environment()
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    size = positive_step("h", problem.h if h is None else h, "Steps go forward in time.")
    free = FreeNumbers.of(problem, (), inputs)
    try:
        step = ExportedStep.of(problem, method, size, free, (), outputs, restarts=not free.is_empty, derivatives=())
        return Stepping(step)
    except UnsupportedNativeOperation as reason:
        raise refusals.no_code(reason, problem.name, str(method or problem.integrator)) from None

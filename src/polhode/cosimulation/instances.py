"""Instances of units, which FMPy runs."""

from __future__ import annotations

import abc
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from polhode.cosimulation.unit import Unit, flat, require_fmpy


class CosimulationError(RuntimeError):
    """A step of a problem beside a unit has failed, or the unit.

    `cosimulation`: the `Cosimulation` up to the last communication point; None if there is none.
    """

    cosimulation: Any = None


class UnitError(CosimulationError):
    """A unit has failed; the message holds what it said."""


class AbstractInstance(abc.ABC):
    """A running unit.

    - `unit`: what it is an instance of. - `fmu`: that of FMPy. - `messages`: what it has said.
    """

    def __init__(self, unit: Unit, fmu: Any, messages: list[str]) -> None:
        self.unit, self.fmu, self.messages = unit, fmu, messages
        self._references = {v.name: v.valueReference for v in unit.description.modelVariables}
        self._is_new = unit.version == "3.0"

    def begin(self, t0: float) -> None:
        """Sets what differs from its own values, and initialises it."""
        from fmpy import simulation

        description, start = self.unit.description, dict(self.unit.start)
        with self._errors("at the start"):
            start = simulation.apply_start_values(
                self.fmu, description, start, settable=simulation.settable_in_instantiated
            )
            if self._is_new:
                self.fmu.enterInitializationMode(startTime=t0)
            else:
                self.fmu.setupExperiment(startTime=t0)
                self.fmu.enterInitializationMode()
            start = simulation.apply_start_values(
                self.fmu, description, start, settable=simulation.settable_in_initialization_mode
            )
            if start:
                names = ", ".join(f"`{name}`" for name in start)
                raise ValueError(f"Unit `{self.unit.path.name}` computes {names} itself: leave that out of `start`.")

    def initialise(self, t0: float) -> None:
        """Ends the initialisation, in which inputs may be set."""
        with self._errors("at the start"):
            self.fmu.exitInitializationMode()
            self._initialise(t0)

    def set(self, values: Mapping[str, Any], t: float) -> None:
        """Sets inputs."""
        with self._errors(f"at t = {t:g}"):
            for name, value in values.items():
                write = self.fmu.setFloat64 if self._is_new else self.fmu.setReal
                write([self._references[name]], flat(value))

    def get(self, names: Sequence[str], t: float) -> dict[str, np.ndarray]:
        """Values of outputs."""
        out = {}
        with self._errors(f"at t = {t:g}"):
            for name in names:
                shape = self.unit.outputs[name]
                reference = [self._references[name]]
                size = {"nValues": int(np.prod(shape, dtype=int))} if self._is_new else {}
                read = self.fmu.getFloat64 if self._is_new else self.fmu.getReal
                out[name] = np.reshape(read(reference, **size), shape)
        return out

    def advance(self, t: float, end: float) -> None:
        """Goes from one communication point to the next. Raises `UnitError` if the unit fails or ends."""
        with self._errors(f"between t = {t:g} and {end:g}"):
            self._advance(t, end)

    @abc.abstractmethod
    def _initialise(self, t0: float) -> None:
        """Do what units of this kind need after the initialisation."""

    @abc.abstractmethod
    def _advance(self, t: float, end: float) -> None:
        """Makes the steps."""

    @contextmanager
    def _errors(self, where: str) -> Generator[None]:
        """Failures of calls as `UnitError`."""
        from fmpy.fmi1 import FMICallException

        try:
            yield
        except (FMICallException, RuntimeError) as error:
            quotation = f" It says: {self.messages[-1]}" if self.messages else ""
            raise UnitError(f"Unit `{self.unit.path.name}` failed {where}: {error}.{quotation}") from error

    def _ends(self, t: float) -> RuntimeError:
        return RuntimeError(f"it ends its run at t = {t:g}")


@final
class Slave(AbstractInstance):
    """A unit that makes its steps itself."""

    def _initialise(self, t0: float) -> None:
        del t0

    def _advance(self, t: float, end: float) -> None:
        flags = self.fmu.doStep(t, end - t)
        # FMI 2.0 has the status only.
        if flags is not None and self._is_new:
            _, terminates, _, last = flags
            if terminates or last < end - 1e-9 * max(abs(end), end - t):
                raise self._ends(last)


@final
class Equations(AbstractInstance):
    """A unit whose equations CVODE solves."""

    def _initialise(self, t0: float) -> None:
        from fmpy.sundials import CVodeSolver

        self._next = self._handle_events(t0)
        description = self.unit.description
        self._solver = CVodeSolver(
            nx=description.numberOfContinuousStates,
            nz=description.numberOfEventIndicators,
            get_x=self.fmu.getContinuousStates,
            set_x=self.fmu.setContinuousStates,
            get_dx=self.fmu.getContinuousStateDerivatives if self._is_new else self.fmu.getDerivatives,
            get_z=self.fmu.getEventIndicators,
            get_nominals=self.fmu.getNominalsOfContinuousStates,
            set_time=self.fmu.setTime,
            input=_ConstantInputs(),
            startTime=t0,
            maxStep=float("inf"),
            relativeTolerance=self.unit.tolerance,
        )
        self._completes = bool(description.modelExchange.needsCompletedIntegratorStep)

    def _advance(self, t: float, end: float) -> None:
        # Inputs have jumped.
        self._restart(t)
        while t < end:
            target = min(end, self._next)
            has_event, _, t = self._solver.step(t, target)
            self.fmu.setTime(t)
            if self._completes:
                interrupts, terminates = self.fmu.completedIntegratorStep()
                has_event = has_event or interrupts
                if terminates:
                    raise self._ends(t)
            if has_event or t >= self._next:
                self._restart(t)

    def _restart(self, t: float) -> None:
        self.fmu.enterEventMode()
        self._next = self._handle_events(t)
        self._solver.reset(t)

    def _handle_events(self, t: float) -> float:
        """Goes through event mode. Returns the time of the next event that is known."""
        update = self.fmu.updateDiscreteStates if self._is_new else self.fmu.newDiscreteStates
        again, following = True, np.inf
        while again:
            again, terminates, _, _, is_defined, time = update()
            following = time if is_defined else np.inf
            if terminates:
                raise self._ends(t)
        self.fmu.enterContinuousTimeMode()
        return following


class _ConstantInputs:
    """Inputs that keep their values."""

    def apply(self, *_: Any, **__: Any) -> None:
        """Nothing changes."""


@contextmanager
def instance_of(unit: Unit) -> Generator[AbstractInstance]:
    """An instance of a unit, which is freed at the end, with the folder of its files."""
    fmpy = require_fmpy()
    from fmpy.simulation import instantiate_fmu

    folder = tempfile.mkdtemp(prefix="polhode-fmu-")
    messages: list[str] = []

    def log(*arguments: Any) -> None:
        texts = [each for each in arguments if isinstance(each, bytes)]
        messages.append(texts[-1].decode(errors="replace") if texts else "")

    try:
        fmpy.extract(str(unit.path), folder)
        is_step = unit.kind == "co-simulation"
        kind = "CoSimulation" if is_step else "ModelExchange"
        try:
            fmu = instantiate_fmu(
                folder, unit.description, kind, debug_logging=True, logger=log, require_functions=False
            )
        except Exception as error:
            raise UnitError(f"Unit `{unit.path.name}` can't be instantiated: {error}") from error
        running = (Slave if is_step else Equations)(unit, fmu, messages)
        try:
            yield running
        finally:
            _free(fmu)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free(fmu: Any) -> None:
    """Ends an instance, in whatever state it is."""
    for call in (fmu.terminate, fmu.freeInstance):
        try:
            call()
        except Exception:
            continue

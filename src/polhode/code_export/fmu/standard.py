"""Parts that versions of FMI have in common: a unit to describe, and elements of its description."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple
from xml.etree import ElementTree as xml

import polhode
from polhode.code_export.equations import DERIVATIVES, Equations
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.fmu.unit_definitions import unit_definitions
from polhode.code_export.fmu.variables import Variable
from polhode.units import unit_of


class Unit(NamedTuple):
    """A unit to describe.

    - `identifier`: the name of the model and of its library. - `token`: what an importer shows to it.
    - `units`: of the model, by what they measure, or None. - `sources`: the files in C that its library is made of.
    """

    step: ExportedStep
    variables: Sequence[Variable]
    identifier: str
    token: str
    units: Mapping[str, str] | None
    sources: Sequence[str]

    @property
    def equations(self) -> Equations | None:
        return self.step.equations

    @property
    def is_for_exchange(self) -> bool:
        """Whether importers can solve its equations themselves."""
        return self.equations is not None and self.equations.rates is not None

    @property
    def derivatives(self) -> frozenset[str]:
        """Directions of the derivatives that it has."""
        return frozenset(() if self.equations is None else {*self.equations.calls} & {*DERIVATIVES})


class AbstractStandard(abc.ABC):
    """A version of FMI.

    - `version`: its number. - `source`: the file of this package with its functions.
    """

    version: ClassVar[str]
    source: ClassVar[str]

    @abc.abstractmethod
    def variables(self, variables: Sequence[Variable]) -> list[Variable]:
        """The variables as it has them: arrays, or numbers."""

    @abc.abstractmethod
    def files(self, unit: Unit) -> dict[str, str]:
        """The files that describe a unit, by their names in the archive."""

    @abc.abstractmethod
    def platform(self, system: str, machine: str) -> str:
        """The folder of libraries for an operating system and a processor, both as FMI 3.0 names them."""


def with_common_elements(root: xml.Element, unit: Unit) -> None:
    """Adds units, categories of the log, and the run that is the default, in the order that the standard has."""
    definitions = unit_definitions(["time", *(each.quantity for each in unit.variables)], unit.units)
    if definitions is not None:
        root.append(definitions)
    categories = xml.SubElement(root, "LogCategories")
    xml.SubElement(categories, "Category", name="logStatusError", description="Why a call has failed.")
    start, end, h = (repr(float(x)) for x in (unit.step.task.t0, unit.step.task.t1, unit.step.h))
    xml.SubElement(root, "DefaultExperiment", startTime=start, stopTime=end, stepSize=h)


def attributes_of(unit: Unit, version: str) -> dict[str, str]:
    """Attributes that descriptions of all versions begin with."""
    return {
        "fmiVersion": version,
        "modelName": unit.identifier,
        "description": f"{unit.identifier} by {unit.step.task.integrator_name}, with steps of {unit.step.h!r}",
        "version": polhode.__version__,
        "generationTool": f"polhode {polhode.__version__}",
        "variableNamingConvention": "structured",
    }


CALCULATED = ("output", "state", "rate", "indicator")
"""Variables that the unit computes, by causality."""


def roles_of(variable: Variable, unit: Unit) -> dict[str, str]:
    """Attributes that say what a variable is, and how it changes."""
    name = variable.causality
    if name == "parameter":
        return {"causality": name, "variability": "fixed"}
    if name == "input":
        # Inputs of steps keep their value until they are set again; solvers of equations set them all the time.
        return {"causality": name, "variability": "continuous" if unit.is_for_exchange else "discrete"}
    causality = name if name == "output" else "local"
    return {"causality": causality, "variability": "continuous", "initial": "calculated"}


def truth(value: bool) -> str:
    """A truth value as XML has it."""
    return str(value).lower()


def unit_attribute(kind: str, units: Mapping[str, str] | None) -> dict[str, str]:
    """The attribute with the unit of a kind of quantities, where that is known."""
    name = unit_of(kind, units)
    return {"unit": name} if name else {}


def text_of(root: xml.Element) -> str:
    """A document."""
    xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.tostring(root, encoding="unicode")}\n'

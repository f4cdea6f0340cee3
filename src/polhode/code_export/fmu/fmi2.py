"""The description of a unit of FMI 2.0."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar, final
from xml.etree import ElementTree as xml

import numpy as np

from polhode.code_export.fmu.standard import (
    VARIABILITY,
    AbstractStandard,
    Unit,
    attributes_of,
    text_of,
    unit_attribute,
    with_common_elements,
)
from polhode.code_export.fmu.variables import Variable

_BITS = {"x86_64": "64", "x86": "32"}
_SYSTEMS = {"windows": "win"}


@final
class Fmi2(AbstractStandard):
    """FMI 2.0, whose variables are single numbers."""

    version: ClassVar[str] = "2.0"
    source: ClassVar[str] = "fmi2.c"

    def variables(self, variables: Sequence[Variable]) -> list[Variable]:
        return [*itertools.chain.from_iterable(map(_numbers, variables))]

    def platform(self, system: str, machine: str) -> str:
        # The standard has names for few platforms; others are named as later standards do.
        return f"{_SYSTEMS.get(system, system)}{_BITS[machine]}" if machine in _BITS else f"{machine}-{system}"

    def files(self, unit: Unit) -> dict[str, str]:
        return {"modelDescription.xml": _model_description(unit)}


def _numbers(variable: Variable) -> Iterator[Variable]:
    """The numbers of an array, which count from 1."""
    for k, index in enumerate(np.ndindex(variable.shape)):
        place = f"[{','.join(str(n + 1) for n in index)}]" if index else ""
        name, start = f"{variable.name}{place}", variable.start[k : k + 1]
        yield variable._replace(name=name, shape=(), offset=variable.offset + k, start=start)


def _model_description(unit: Unit) -> str:
    """Abilities of the unit, its variables and their dependence."""
    root = xml.Element("fmiModelDescription", attributes_of(unit, Fmi2.version), guid=unit.token)
    simulation = xml.SubElement(
        root,
        "CoSimulation",
        modelIdentifier=unit.identifier,
        canHandleVariableCommunicationStepSize="true",
        canGetAndSetFMUstate="true",
        canSerializeFMUstate="true",
    )
    files = xml.SubElement(simulation, "SourceFiles")
    for source in unit.sources:
        xml.SubElement(files, "File", name=source)
    with_common_elements(root, unit)
    variables = xml.SubElement(root, "ModelVariables")
    time = {"name": "time", "valueReference": "0", "causality": "independent", "variability": "continuous"}
    xml.SubElement(xml.SubElement(variables, "ScalarVariable", time), "Real", unit_attribute("time", unit.units))
    for number, each in enumerate(unit.variables, 1):
        is_output = each.causality == "output"
        attributes = {
            "name": each.name,
            "valueReference": str(number),
            "causality": each.causality,
            "variability": VARIABILITY[each.causality],
        }
        element = xml.SubElement(
            variables, "ScalarVariable", attributes | ({"initial": "calculated"} if is_output else {})
        )
        start = {} if is_output else {"start": repr(each.start[0])}
        xml.SubElement(element, "Real", start | unit_attribute(each.quantity, unit.units))
    # Variables are named here by their places in the list, which time begins.
    places = [str(k) for k, each in enumerate(unit.variables, 2) if each.causality == "output"]
    structure = xml.SubElement(root, "ModelStructure")
    for group in ("Outputs", "InitialUnknowns"):
        unknowns = xml.SubElement(structure, group)
        for place in places:
            xml.SubElement(unknowns, "Unknown", index=place)
    return text_of(root)

"""The description of a unit of FMI 2.0."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar, final
from xml.etree import ElementTree as xml

import numpy as np

from polhode.code_export.fmu.standard import (
    CALCULATED,
    AbstractStandard,
    Unit,
    attributes_of,
    roles_of,
    text_of,
    truth,
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
        state = f"{variable.state}{place}" if variable.state else ""
        name = f"der({state})" if state else f"{variable.name}{place}"
        start = variable.start[k : k + 1]
        yield variable._replace(name=name, shape=(), offset=variable.offset + k, start=start, state=state)


def _model_description(unit: Unit) -> str:
    """Abilities of the unit, its variables and their dependence."""
    indicators = 0 if unit.equations is None else unit.equations.indicators
    count = {"numberOfEventIndicators": str(indicators)} if unit.is_for_exchange else {}
    root = xml.Element("fmiModelDescription", attributes_of(unit, Fmi2.version), guid=unit.token, **count)
    abilities = {
        "modelIdentifier": unit.identifier,
        "canGetAndSetFMUstate": "true",
        "canSerializeFMUstate": "true",
        "providesDirectionalDerivative": truth("along" in unit.derivatives),
    }
    if unit.is_for_exchange:
        keeps = unit.equations is not None and not unit.equations.has_manifold
        _add_sources(
            xml.SubElement(root, "ModelExchange", abilities, completedIntegratorStepNotNeeded=truth(keeps)), unit
        )
    steps = {"canHandleVariableCommunicationStepSize": "true"}
    _add_sources(xml.SubElement(root, "CoSimulation", abilities | steps), unit)
    with_common_elements(root, unit)
    variables = xml.SubElement(root, "ModelVariables")
    time = {"name": "time", "valueReference": "0", "causality": "independent", "variability": "continuous"}
    xml.SubElement(xml.SubElement(variables, "ScalarVariable", time), "Real", unit_attribute("time", unit.units))
    # Variables are named here by their places in the list, which time begins.
    places = {each.name: str(k) for k, each in enumerate(unit.variables, 2)}
    for number, each in enumerate(unit.variables, 1):
        attributes = {"name": each.name, "valueReference": str(number), **roles_of(each, unit)}
        more = {} if each.causality in CALCULATED else {"start": repr(each.start[0])}
        if each.causality == "state":
            more["nominal"] = repr(each.nominal)
        if each.state:
            more["derivative"] = places[each.state]
        element = xml.SubElement(variables, "ScalarVariable", attributes)
        xml.SubElement(element, "Real", more | unit_attribute(each.quantity, unit.units))
    structure = xml.SubElement(root, "ModelStructure")
    groups = ("Outputs", ("output",)), ("Derivatives", ("rate",)), ("InitialUnknowns", ("output", "state", "rate"))
    for group, kinds in groups:
        of_kinds = [places[each.name] for each in unit.variables if each.causality in kinds]
        if of_kinds or group == "InitialUnknowns":
            unknowns = xml.SubElement(structure, group)
            for place in of_kinds:
                xml.SubElement(unknowns, "Unknown", index=place)
    return text_of(root)


def _add_sources(element: xml.Element, unit: Unit) -> None:
    files = xml.SubElement(element, "SourceFiles")
    for source in unit.sources:
        xml.SubElement(files, "File", name=source)

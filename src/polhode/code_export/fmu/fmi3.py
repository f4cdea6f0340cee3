"""The description of a unit of FMI 3.0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final
from xml.etree import ElementTree as xml

from polhode.code_export.c_compiler import OPTIONS
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


@final
class Fmi3(AbstractStandard):
    """FMI 3.0, with arrays and terminals."""

    version: ClassVar[str] = "3.0"
    source: ClassVar[str] = "fmi3.c"

    def variables(self, variables: Sequence[Variable]) -> list[Variable]:
        return list(variables)

    def platform(self, system: str, machine: str) -> str:
        return f"{machine}-{system}"

    def files(self, unit: Unit) -> dict[str, str]:
        files = {
            "modelDescription.xml": _model_description(unit),
            "sources/buildDescription.xml": _build_description(unit),
        }
        terminals = _terminals(unit)
        return files | ({} if terminals is None else {"terminalsAndIcons/terminalsAndIcons.xml": terminals})


def _model_description(unit: Unit) -> str:
    """Abilities of the unit, its variables and their dependence."""
    root = xml.Element("fmiModelDescription", attributes_of(unit, Fmi3.version), instantiationToken=unit.token)
    abilities = {
        "modelIdentifier": unit.identifier,
        "canGetAndSetFMUState": "true",
        "canSerializeFMUState": "true",
        "providesDirectionalDerivatives": truth("along" in unit.derivatives),
        "providesAdjointDerivatives": truth("back" in unit.derivatives),
    }
    if unit.is_for_exchange:
        projects = unit.equations is not None and unit.equations.has_manifold
        xml.SubElement(root, "ModelExchange", abilities, needsCompletedIntegratorStep=truth(projects))
    steps = {"canHandleVariableCommunicationStepSize": "true", "fixedInternalStepSize": repr(float(unit.step.h))}
    xml.SubElement(root, "CoSimulation", abilities | steps)
    with_common_elements(root, unit)
    _add_variables(xml.SubElement(root, "ModelVariables"), unit)
    structure = xml.SubElement(root, "ModelStructure")
    groups = ("Output", ("output",)), ("ContinuousStateDerivative", ("rate",))
    initial = "InitialUnknown", ("output", "state", "rate")
    for element, kinds in (*groups, initial, ("EventIndicator", ("indicator",))):
        for number, each in enumerate(unit.variables, 1):
            if each.causality in kinds:
                xml.SubElement(structure, element, valueReference=str(number))
    return text_of(root)


def _add_variables(element: xml.Element, unit: Unit) -> None:
    """Time has the value reference 0, variables the following ones."""
    time = {"name": "time", "valueReference": "0", "causality": "independent", "variability": "continuous"}
    xml.SubElement(element, "Float64", time | unit_attribute("time", unit.units))
    numbers = {each.name: str(number) for number, each in enumerate(unit.variables, 1)}
    for each in unit.variables:
        attributes = {"name": each.name, "valueReference": numbers[each.name], **roles_of(each, unit)}
        if each.causality not in CALCULATED:
            attributes["start"] = " ".join(map(repr, each.start))
        if each.causality == "state":
            attributes["nominal"] = repr(each.nominal)
        if each.state:
            attributes["derivative"] = numbers[each.state]
        variable = xml.SubElement(element, "Float64", attributes | unit_attribute(each.quantity, unit.units))
        for count in each.shape:
            xml.SubElement(variable, "Dimension", start=str(count))


def _build_description(unit: Unit) -> str:
    """How the library is made of the sources."""
    root = xml.Element("fmiBuildDescription", fmiVersion=Fmi3.version)
    configuration = xml.SubElement(root, "BuildConfiguration", modelIdentifier=unit.identifier)
    options = " ".join(each for each in OPTIONS if each.startswith(("-O", "-f")) and each != "-fPIC")
    files = xml.SubElement(configuration, "SourceFileSet", language="C99", compilerOptions=options)
    for source in unit.sources:
        xml.SubElement(files, "SourceFile", name=source)
    return text_of(root)


def _terminals(unit: Unit) -> str | None:
    """Outputs by the bodies and joint coordinates that they are of, to be connected together; None without any."""
    parts: dict[str, list[Variable]] = {}
    for each in unit.variables:
        if each.part:
            parts.setdefault(each.part, []).append(each)
    if not parts:
        return None
    root = xml.Element("fmiTerminalsAndIcons", fmiVersion=Fmi3.version)
    listed = xml.SubElement(root, "Terminals")
    for part, members in parts.items():
        terminal = xml.SubElement(listed, "Terminal", name=part, matchingRule="bus")
        for each in members:
            member = {"variableName": each.name, "memberName": each.member, "variableKind": "signal"}
            xml.SubElement(terminal, "TerminalMemberVariable", member)
    return text_of(root)

"""The files in XML that describe a unit of FMI 3.0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as xml

import polhode
from polhode.code_export.c_compiler import OPTIONS
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.fmu.unit_definitions import unit_definitions
from polhode.code_export.fmu.variables import Variable
from polhode.units import unit_of

VERSION = "3.0"


def model_description(
    step: ExportedStep,
    variables: Sequence[Variable],
    units: Mapping[str, str] | None,
    *,
    name: str,
    identifier: str,
    token: str,
) -> str:
    """The description of the model: what it can do, its variables and their dependence.

    - `name`: of the model. - `identifier`: of its library. - `token`: what an importer shows to it.
    """
    root = xml.Element(
        "fmiModelDescription",
        fmiVersion=VERSION,
        modelName=name,
        instantiationToken=token,
        description=f"{name} by {step.task.integrator_name}, with steps of {step.h!r}",
        version=polhode.__version__,
        generationTool=f"polhode {polhode.__version__}",
        variableNamingConvention="structured",
    )
    xml.SubElement(
        root,
        "CoSimulation",
        modelIdentifier=identifier,
        canGetAndSetFMUState="true",
        canSerializeFMUState="true",
        canHandleVariableCommunicationStepSize="true",
        fixedInternalStepSize=repr(float(step.h)),
    )
    definitions = unit_definitions(["time", *(each.quantity for each in variables)], units)
    if definitions is not None:
        root.append(definitions)
    categories = xml.SubElement(root, "LogCategories")
    xml.SubElement(categories, "Category", name="logStatusError", description="Why a call has failed.")
    start, end = map(float, (step.task.t0, step.task.t1))
    xml.SubElement(
        root, "DefaultExperiment", startTime=repr(start), stopTime=repr(end), stepSize=repr(float(step.h))
    )
    _add_variables(xml.SubElement(root, "ModelVariables"), variables, units)
    structure = xml.SubElement(root, "ModelStructure")
    outputs = [str(k) for k, each in enumerate(variables, 1) if each.causality == "output"]
    for element in ("Output", "InitialUnknown"):
        for reference in outputs:
            xml.SubElement(structure, element, valueReference=reference)
    return _text(root)


def _add_variables(element: xml.Element, variables: Sequence[Variable], units: Mapping[str, str] | None) -> None:
    """Time has the value reference 0, variables the following ones."""
    time = {"name": "time", "valueReference": "0", "causality": "independent", "variability": "continuous"}
    xml.SubElement(element, "Float64", time | _unit("time", units))
    for reference, each in enumerate(variables, 1):
        more = {"initial": "calculated"} if each.causality == "output" else {"start": " ".join(map(repr, each.start))}
        more |= _unit(each.quantity, units)
        variable = xml.SubElement(
            element,
            "Float64",
            name=each.name,
            valueReference=str(reference),
            causality=each.causality,
            variability=_VARIABILITY[each.causality],
            **more,
        )
        for count in each.shape:
            xml.SubElement(variable, "Dimension", start=str(count))


_VARIABILITY = {"parameter": "fixed", "input": "discrete", "output": "continuous"}
"""Inputs keep their value until they are set again."""


def _unit(kind: str, units: Mapping[str, str] | None) -> dict[str, str]:
    name = unit_of(kind, units)
    return {"unit": name} if name else {}


def build_description(identifier: str, sources: Sequence[str]) -> str:
    """How the library is made of the sources."""
    root = xml.Element("fmiBuildDescription", fmiVersion=VERSION)
    configuration = xml.SubElement(root, "BuildConfiguration", modelIdentifier=identifier)
    options = " ".join(each for each in OPTIONS if each.startswith(("-O", "-f")) and each != "-fPIC")
    files = xml.SubElement(configuration, "SourceFileSet", language="C99", compilerOptions=options)
    for source in sources:
        xml.SubElement(files, "SourceFile", name=source)
    return _text(root)


def terminals(variables: Sequence[Variable]) -> str | None:
    """Outputs by the bodies and joint coordinates that they are of, to be connected together; None without any."""
    parts: dict[str, list[Variable]] = {}
    for each in variables:
        if each.part:
            parts.setdefault(each.part, []).append(each)
    if not parts:
        return None
    root = xml.Element("fmiTerminalsAndIcons", fmiVersion=VERSION)
    listed = xml.SubElement(root, "Terminals")
    for part, members in parts.items():
        terminal = xml.SubElement(listed, "Terminal", name=part, matchingRule="bus")
        for each in members:
            member = {"variableName": each.name, "memberName": each.member, "variableKind": "signal"}
            xml.SubElement(terminal, "TerminalMemberVariable", member)
    return _text(root)


def _text(root: xml.Element) -> str:
    xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.tostring(root, encoding="unicode")}\n'

"""The header of exported code."""

from __future__ import annotations

import numpy as np

import polhode
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.interface import Interface
from polhode.code_export.structs import struct
from polhode.code_export.templates import DERIVATIVES, HEADER, RESTARTS
from polhode.compiler.c.expressions import literal
from polhode.result_codes import Result


def header_of(interface: Interface, step: ExportedStep, *, stack: int, operations: int, digest: str) -> str:
    """The text of the header.

    - `stack`: bytes that a call takes at most. - `operations`: of a step. - `digest`: of the source.
    """
    n = interface.name
    codes = ",\n".join(f"  {n.upper()}_{code.name.upper()} = {int(code)}" for code in Result)
    structs = [struct(f"{n}_{what}", [m.declaration for m in members]) for what, members in interface.structs]
    defaults = [f"extern const {n}_{what} {n}_default_{what};" for what in interface.pointers]
    signatures = {key: f"{text};" for key, text in interface.signatures.items()}
    return HEADER.format(
        name=n,
        NAME=n.upper(),
        guard=f"{n.upper()}_H",
        problem=interface.problem,
        method=step.task.integrator_name,
        version=polhode.__version__,
        digest=digest,
        units="SI, unless the model has others",
        stack=stack,
        operations=operations,
        h=literal(np.float64(step.h)),
        codes=codes,
        structs="\n".join(structs),
        defaults="\n".join((*defaults, "")) if defaults else "",
        count=sum(len(m.labels) for m in interface.outputs),
        derivatives="".join(f"{DERIVATIVES[key]}\n{signatures[key]}\n" for key in interface.derivatives),
        restarts=RESTARTS.format(**signatures) if interface.restarts else "",
        **signatures,
    )

"""The file in C with the equations of a unit, which all versions of FMI call by the same functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from polhode.code_export.equations import Equations
from polhode.code_export.exported_step import ExportedStep
from polhode.compiler.c.array_printer import print_function
from polhode.compiler.c.prelude import PRELUDE
from polhode.compiler.loops.packed_layout import Layout

HEADER = """\
/* The equations of the model: rates of its state, events, and derivatives. Units without some have empty functions. */
#ifndef EQUATIONS_H
#define EQUATIONS_H

#include "model.h"

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

/* Rates of the numbers of the state. Values are those of parameters and inputs. */
void equations_rates(const double *values, const model_carry *carry, double *rates);
/* How far the numbers of the state are from a state; returns 0, or the result code of an invalid one. */
int32_t equations_inspect(const double *values, const model_carry *carry, double *distance);
/* Puts the state back on its space, as rotations of length 1. */
void equations_project(const double *values, model_carry *carry);
/* Functions whose zeros are events. */
void equations_indicate(const double *values, const model_carry *carry, double *indicators);
/* The carry after the events that happen now; returns 0, or the result code of a run that ends. */
int32_t equations_respond(const double *values, model_carry *carry, int32_t *happened);
/* Changes of rates and outputs along those of values, time and state. */
void equations_along(const double *values, const model_carry *carry, const double *d_values, double d_time,
                     const double *d_state, double *d_rates, double *d_outputs);
/* Gradients with respect to values, time and state from those with respect to rates and outputs. */
void equations_back(const double *values, const model_carry *carry, const double *d_rates, const double *d_outputs,
                    double *d_values, double *d_time, double *d_state);

#endif
"""


def equations_source(step: ExportedStep) -> str:
    """The source of the functions that `HEADER` declares.

    Raises `UnsupportedNativeOperation` for operations that C has not.
    """
    return _Source(step).text()


class _Source:
    """The text of the functions, from programs that are recorded already."""

    def __init__(self, step: ExportedStep) -> None:
        self.equations: Equations | None = step.equations
        calls = {} if self.equations is None else self.equations.calls
        self.programs = {
            key: call.build(lambda _, function, key=key: print_function(function, f"{key}_program", is_static=True))
            for key, call in calls.items()
        }
        self.results = {key: call.result.size for key, call in calls.items()}
        self.parameters, self.inputs = (_size(x) for x in step.free.defaults)
        self.carry = Layout(step.begin).size
        self.state = _size(step.begin.progress.carry.state)
        self.rates = self.state if "rates" in calls else 0
        self.outputs = step.observe.result.size

    def text(self) -> str:
        programs = "\n".join(each.text for each in self.programs.values())
        return "\n".join(('#include "equations.h"\n\n#include <string.h>', PRELUDE, programs, *self._functions(), ""))

    def _functions(self) -> list[str]:
        now, keep = "const double *values, const model_carry *carry", "const double *values, model_carry *carry"
        n = self.parameters + self.inputs
        along = [f"slot {_slots(d_parameters=self.parameters, d_inputs=self.inputs, d_t=1, d_s=self.state)};"]
        along += [*_copy("d_parameters", "d_values", self.parameters), "d_t[0].number = d_time;"]
        along += [
            *_copy("d_inputs", f"d_values + {self.parameters}", self.inputs),
            *_copy("d_s", "d_state", self.state),
        ]
        back = [f"slot {_slots(d_r=self.rates, d_o=self.outputs)};"]
        back += [*_copy("d_r", "d_rates", self.rates), *_copy("d_o", "d_outputs", self.outputs)]
        d_along = ("d_parameters", "d_inputs", "d_t", "d_s")
        changes = "const double *d_values, double d_time, const double *d_state, double *d_rates, double *d_outputs"
        gradients = "const double *d_rates, const double *d_outputs, double *d_values, double *d_time, double *d_state"
        return [
            self._function("void", "rates", f"{now}, double *rates", _copy("rates", "results", self.state)),
            self._function(
                "int32_t",
                "inspect",
                f"{now}, double *distance",
                ["*distance = results[0].number;", "return (int32_t)results[1].integer;"],
                ["*distance = 0.0;", "return 0;"],
            ),
            self._function("void", "project", keep, _copy("&carry->state", "results", self.state)),
            self._function(
                "void", "indicate", f"{now}, double *indicators", _copy("indicators", "results", self._indicators)
            ),
            self._function(
                "int32_t",
                "respond",
                f"{keep}, int32_t *happened",
                [
                    *_copy("carry", "results", self.carry),
                    f"*happened = (int32_t)results[{self.carry}].integer;",
                    f"return (int32_t)results[{self.carry + 1}].integer;",
                ],
                ["*happened = 0;", "return 0;"],
            ),
            self._function(
                "void",
                "along",
                f"{now}, {changes}",
                [
                    *_copy("d_rates", "results", self.rates),
                    *_copy("d_outputs", f"results + {self.rates}", self.outputs),
                ],
                before=along,
                more=d_along,
            ),
            self._function(
                "void",
                "back",
                f"{now}, {gradients}",
                [
                    *_copy("d_values", "results", n),
                    f"*d_time = results[{n}].number;",
                    *_copy("d_state", f"results + {n + 1}", self.state),
                ],
                before=back,
                # A program has no pointer to nothing: rates without numbers are no leaves.
                more=("d_r", "d_o"),
            ),
        ]

    @property
    def _indicators(self) -> int:
        return 0 if self.equations is None else self.equations.indicators

    def _function(
        self,
        kind: str,
        key: str,
        arguments: str,
        after: Sequence[str],
        otherwise: Sequence[str] = (),
        before: Sequence[str] = (),
        more: Sequence[str] = (),
    ) -> str:
        """A function that calls its program, then does what is `after`; without a program, what is `otherwise`."""
        head = f"{kind} equations_{key}({arguments}) {{"
        program = self.programs.get(key)
        if program is None:
            return "\n".join((head, *(f"  {line}" for line in otherwise), "}"))
        sizes = {"parameters": self.parameters, "inputs": self.inputs, "now": self.carry, "results": self.results[key]}
        lines = [
            f"slot {_slots(**sizes, workspace=program.workspace)};",
            *_copy("parameters", "values", self.parameters),
            *_copy("inputs", f"values + {self.parameters}", self.inputs),
            *_copy("now", "carry", self.carry),
            *before,
            f"(void){program.name}({', '.join(('parameters', 'inputs', 'now', *more, 'results', 'workspace'))});",
            *after,
        ]
        return "\n".join((head, *(f"  {line}" for line in lines), "}"))


def _slots(**sizes: int) -> str:
    """Declarations of arrays, which have at least one element."""
    return ", ".join(f"{name}[{max(size, 1)}]" for name, size in sizes.items())


def _copy(target: str, source: str, count: int) -> list[str]:
    return [f"memcpy({target}, {source}, {8 * count});"] if count else []


def _size(tree: Any) -> int:
    return sum(int(np.size(x)) for x in jax.tree.leaves(tree))

"""The header between exported code and the functions of FMI, which are the same for all models."""

from __future__ import annotations

from collections.abc import Sequence

from polhode.code_export.equations import Equations
from polhode.code_export.fmu.variables import Variable
from polhode.code_export.interface import Interface
from polhode.compiler.c.scalar_printer import rows_of
from polhode.result_codes import Result

MODEL = "model"
"""Beginning of names of the code inside a unit."""

_TEXT = """\
/* The model without what differs between models: its free numbers together, its variables as a table. */
#ifndef MODEL_BINDING_H
#define MODEL_BINDING_H

#include <stddef.h>
#include "equations.h"

#define MODEL_TOKEN "{token}"
#define MODEL_VARIABLES {count}

/* For solvers of importers: numbers of the state, which may have to be put back on its space, and of events; none where
   the unit is for co-simulation only. Whether there are derivatives. */
#define MODEL_STATES {states}
#define MODEL_INDICATORS {indicators}
#define MODEL_HAS_MANIFOLD {manifold}
#define MODEL_ALONG {along}
#define MODEL_BACK {back}

static const double nominals[MODEL_STATES + 1] = {{
{nominals}
}};

typedef struct {{
  {values}
}} model_values;

typedef enum {{ PARAMETER, INPUT, OUTPUT, STATE, RATE, INDICATOR }} causality;

/* Where the numbers of a variable are, among those of its kind, and how many; those of parameters and
   inputs follow each other. */
typedef struct {{
  causality kind;
  size_t offset, size;
}} variable;

/* The variables of value references from 1 on; 0 is time. */
static const variable variables[] = {{
{rows}
}};

static const char *const messages[] = {{
{messages}
}};

static inline void set_defaults(model_values *values) {{
  {defaults}
}}
static inline int32_t start_model(const model_values *values, double t0, model_carry *carry) {{
  (void)values;
  return model_start({passed}t0, carry);
}}
static inline int32_t step_model(const model_values *values, model_carry *carry) {{
  (void)values;
  return model_step({passed}carry);
}}
static inline void jump_model(const model_values *values, model_carry *carry) {{
  (void)values;
  model_jump({passed}carry);
}}
static inline void resize_model(const model_values *values, double h, model_carry *carry) {{
  (void)values;
  model_resize({passed}h, carry);
}}
static inline void read_model(const model_values *values, const model_carry *carry, model_outputs *outputs) {{
  (void)values;
  model_read({passed}carry, outputs);
}}

#endif
"""


def model_header(interface: Interface, variables: Sequence[Variable], token: str, equations: Equations | None) -> str:
    """The header, for code whose names begin with `MODEL`."""
    states = [each for each in variables if each.causality == "state"]
    numbers = [repr(each.nominal) for each in states for _ in range(each.size)]
    calls = {} if equations is None else equations.calls
    rows = ",\n".join(f"  {{{each.causality.upper()}, {each.offset}, {each.size}}}" for each in variables)
    messages = ",\n".join(f'  "{code.name}: {_quote(code.message)}"' for code in Result)
    pointers = interface.pointers
    return _TEXT.format(
        token=token,
        count=len(variables),
        states=len(numbers),
        nominals=rows_of([*numbers, "1.0"]),
        indicators=0 if equations is None else equations.indicators,
        manifold=int(equations is not None and equations.has_manifold),
        along=int("along" in calls),
        back=int("back" in calls),
        values=" ".join(f"model_{what} {what};" for what in pointers) or "char none;",
        rows=rows,
        messages=messages,
        defaults=" ".join(f"values->{what} = model_default_{what};" for what in pointers) or "values->none = 0;",
        passed="".join(f"&values->{what}, " for what in pointers),
    )


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

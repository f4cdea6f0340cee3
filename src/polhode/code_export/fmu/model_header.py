"""The header between exported code and the functions of FMI, which are the same for all models."""

from __future__ import annotations

from collections.abc import Sequence

from polhode.code_export.fmu.variables import Variable
from polhode.code_export.interface import Interface
from polhode.result_codes import Result

MODEL = "model"
"""Beginning of names of the code inside a unit."""

_TEXT = """\
/* The model without what differs between models: its free numbers together, its variables as a table. */
#ifndef MODEL_BINDING_H
#define MODEL_BINDING_H

#include <stddef.h>
#include "model.h"

#define MODEL_TOKEN "{token}"
#define MODEL_VARIABLES {count}

typedef struct {{
  {values}
}} model_values;

typedef enum {{ PARAMETER, INPUT, OUTPUT }} causality;

/* Where the numbers of a variable are, among free numbers or outputs, and how many. */
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


def model_header(interface: Interface, variables: Sequence[Variable], token: str) -> str:
    """The header, for code whose names begin with `MODEL`."""
    rows = ",\n".join(f"  {{{each.causality.upper()}, {each.offset}, {each.size}}}" for each in variables)
    messages = ",\n".join(f'  "{code.name}: {_quote(code.message)}"' for code in Result)
    pointers = interface.pointers
    return _TEXT.format(
        token=token,
        count=len(variables),
        values=" ".join(f"model_{what} {what};" for what in pointers) or "char none;",
        rows=rows,
        messages=messages,
        defaults=" ".join(f"values->{what} = model_default_{what};" for what in pointers) or "values->none = 0;",
        passed="".join(f"&values->{what}, " for what in pointers),
    )


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

"""The source of exported code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import polhode
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.interface import Interface
from polhode.code_export.structs import Member
from polhode.code_export.templates import FLAGS, MAIN
from polhode.compiler.c.array_printer import CFunction
from polhode.compiler.c.expressions import literal
from polhode.compiler.c.prelude import PRELUDE
from polhode.compiler.c.scalar_printer import rows_of
from polhode.compiler.c.slots import slot_member
from polhode.compiler.loops.packed_layout import Layout

HASH = "@HASH@"
"""The place in the text for the digest of the text itself."""

_BLOCKS = 1000
"""Events in one step, above which it ends with `events_accumulate`."""

_MARGIN = 1024
"""Bytes on the stack of the functions in the header themselves, besides their arrays."""


class Source:
    """The text of the source, from functions of the step that are printed already.

    - `blocks`: a block of steps. - `functions`: the others: `initial`, `observe`, `restart` and `change`.
    """

    def __init__(
        self, interface: Interface, step: ExportedStep, blocks: CFunction, functions: Mapping[str, CFunction]
    ) -> None:
        self.interface, self.step, self.blocks, self.functions = interface, step, blocks, functions
        self.name = interface.name
        # What `change` returns: arrays of the model, then those of the initial state.
        self.now = step.steps.layouts[1].size - Layout(step.begin).size
        self.changed = 0 if step.leaves is None else step.leaves.result.size

    @property
    def stack(self) -> int:
        """Bytes on the stack of the deepest call."""
        layouts = self.step.steps.layouts
        working = 8 * (layouts[1].size + layouts[2].size + 8)
        calls = [8 * each.workspace + each.stack for each in (self.blocks, *self.functions.values())]
        # Derivatives have four carries at most, besides.
        working += 32 * Layout(self.step.begin).size if self.interface.derivatives else 0
        return max(calls) + working + 8 * (self.changed + self.step.observe.result.size) + _MARGIN

    def text(self) -> str:
        """The whole file, with `HASH` where its digest belongs."""
        n, step = self.name, self.step
        numbers, begin = Layout(step.numbers), Layout(step.begin)
        tables = [_table(f"{n}_numbers", numbers, step.numbers), _table(f"{n}_begin", begin, step.begin)]
        values: dict[str, Any] = dict(zip(("parameters", "inputs"), step.free.defaults, strict=True))
        for what, members in self.interface.free:
            texts = [literal(np.float64(x)) for array in values[what] for x in np.ravel(array)]
            tables.append(f"const {n}_{what} {n}_default_{what} = {{\n{rows_of(_initialisers(members, texts))}\n}};")
        labels = ",\n".join(f'  "{label}"' for m in self.interface.outputs for label in m.labels)
        tables.append(f"const char *const {n}_output_names[{n.upper()}_OUTPUTS] = {{\n{labels}\n}};")
        functions = [self.blocks.text, *(each.text for each in self.functions.values())]
        parts = (
            f'#include "{n}.h"\n\n#include <string.h>',
            PRELUDE,
            *tables,
            *functions,
            *self._public(),
            self._main(),
        )
        return "\n".join(("/* " + FLAGS + " */", *parts))

    def _public(self) -> list[str]:
        """The functions of the header."""
        signatures, method = self.interface.signatures, self.step.task.integrator_name
        about = f"{self.interface.problem}, {method}, h = {self.step.h:.17g}, polhode {polhode.__version__}"
        return [
            self._load(),
            self._store(),
            _function(signatures["start"], self._start()),
            _function(signatures["start_from"], self._start_from()),
            _function(signatures["step"], self._step()),
            *self._restarts(),
            *self._derivatives(),
            _function(signatures["read"], self._read()),
            _function(signatures["about"], [f'return "{about}";']),
            _function(signatures["hash"], [f"return UINT64_C(0x{HASH});"]),
        ]

    def _call(self, key: str, *arguments: str) -> list[str]:
        """A call of a recorded function with its workspace."""
        function = self.blocks if key == "block" else self.functions[key]
        space = max(function.workspace, 1)
        return [f"slot workspace[{space}];", f"(void){function.name}({', '.join((*arguments, 'workspace'))});"]

    def _values(self) -> list[str]:
        """Parameters and inputs in slots, where functions read them."""
        lines = []
        free = dict(self.interface.free)
        for what in ("parameters", "inputs"):
            size = sum(len(m.labels) for m in free.get(what, ()))
            lines.append(f"slot {what}_slots[{max(size, 1)}];")
            if size:
                lines.append(f"memcpy({what}_slots, {what}, sizeof *{what});")
        return lines

    def _load(self) -> str:
        """Fills the slots that recorded functions work on: free arrays of the model, and the carry behind them."""
        n = self.name
        arguments = ", ".join((*self.interface.arguments, f"const {n}_carry *carry", "slot *now"))
        lines = [f"memcpy(now + {self.now}, carry, sizeof *carry);"]
        if self.changed:
            lines += [
                f"slot changed[{self.changed}];",
                *self._change(),
                f"memcpy(now, changed, {self.now} * sizeof *now);",
            ]
        else:
            lines += [f"(void){what};" for what in self.interface.pointers]
        return _function(f"PART void {n}_load({arguments})", lines)

    def _store(self) -> str:
        n = self.name
        return _function(
            f"PART void {n}_store(const slot *now, {n}_carry *carry)", ["memcpy(carry, now, sizeof *carry);"]
        )

    def _begin_step(self) -> list[str]:
        total = self.step.steps.layouts[1].size
        arguments = ", ".join((*self.interface.pointers, "carry", "now"))
        return [f"slot now[{total}];", f"{self.name}_load({arguments});"]

    def _step(self) -> list[str]:
        n, layouts = self.name, self.step.steps.layouts
        places = self._places()
        limit = f"now[{places['n']}].integer + 1"
        numbers = f"(slot *){n}_numbers"
        return [
            *self._begin_step(),
            f"slot rows[{max(layouts[2].size, 1)}], targets[1], control[6];",
            f"slot workspace[{max(self.blocks.workspace, 1)}];",
            f"const int64_t last = {limit};",
            "targets[0].number = 0.0;",
            "control[0].integer = last;",
            "control[1].integer = INT64_MAX;",
            "control[2].integer = control[3].integer = control[4].integer = 0;",
            "control[5].integer = 1;",
            f"for (int count = 0; count < {_BLOCKS}; ++count) {{",
            f"  if (now[{places['result']}].integer != 0 || now[{places['n']}].integer >= last) {{ break; }}",
            f"  (void){n}_block({numbers}, now, control, targets, rows, workspace);",
            "}",
            f"if (now[{places['result']}].integer == 0 && now[{places['n']}].integer < last) {{",
            f"  now[{places['result']}].integer = {n.upper()}_EVENTS_ACCUMULATE;",
            "}",
            f"{n}_store(now + {self.now}, carry);",
            f"return (int32_t)now[{places['result']}].integer;",
        ]

    def _restarts(self) -> list[str]:
        """Functions that rebuild what the method remembers."""
        if not self.interface.restarts:
            return []
        n, size, signatures = self.name, Layout(self.step.begin).size, self.interface.signatures
        jump = [
            *self._begin_step(),
            f"slot results[{size}];",
            *self._call("restart", f"(slot *){n}_numbers", "now", "results"),
            f"{n}_store(results, carry);",
        ]
        resize = [
            "carry->t0 = carry->t;",
            "carry->spacing = h;",
            "carry->n = 0;",
            f"{n}_jump({', '.join((*self.interface.pointers, 'carry'))});",
        ]
        return [_function(signatures["jump"], jump), _function(signatures["resize"], resize)]

    def _derivatives(self) -> list[str]:
        """Functions with the derivatives of a step."""
        size, signatures = Layout(self.step.begin).size, self.interface.signatures
        free = dict(self.interface.free)
        counts = {what: sum(len(m.labels) for m in free.get(what, ())) for what in ("parameters", "inputs")}

        def slots(prefix: str) -> tuple[list[str], list[str]]:
            """Declarations of slots with a copy of parameters and inputs, and the names of these slots."""
            lines = [f"slot {prefix}{what}_slots[{max(count, 1)}];" for what, count in counts.items()]
            lines += [f"memcpy({prefix}{w}_slots, {prefix}{w}, sizeof *{prefix}{w});" for w, n in counts.items() if n]
            return lines, [f"{prefix}{what}_slots" for what in counts]

        (values, names), (changes, change_names) = slots(""), slots("d_")
        now = [*values, f"slot now[{size}], seed[{size}];", "memcpy(now, carry, sizeof *carry);"]
        out = []
        if "along" in self.interface.derivatives:
            lines = [*now, *changes, f"slot results[{size}];", "memcpy(seed, d_carry, sizeof *d_carry);"]
            lines += self._call("along", *names, "now", *change_names, "seed", "results")
            out.append(_function(signatures["along"], [*lines, "memcpy(d_next, results, sizeof *d_next);"]))
        if "back" in self.interface.derivatives:
            total = size + sum(counts.values())
            lines = [*now, f"slot results[{total}];", "memcpy(seed, d_next, sizeof *d_next);"]
            lines += self._call("back", *names, "now", "seed", "results")
            at = 0
            for what, count in counts.items():
                lines += [f"memcpy(d_{what}, results + {at}, sizeof *d_{what});"] if count else []
                at += count
            out.append(_function(signatures["back"], [*lines, f"memcpy(d_carry, results + {at}, sizeof *d_carry);"]))
        return out

    def _start(self) -> list[str]:
        """The numbers that `simulate` starts with, or, with other parameters, inputs or time, computed ones."""
        n, step = self.name, self.step
        same = [
            "t0 == T0",
            *(f"memcmp({what}, &{n}_default_{what}, sizeof *{what}) == 0" for what in self.interface.pointers),
        ]
        lines = [
            f"const double T0 = {literal(np.float64(step.task.t0))};",
            f"memcpy(carry, {n}_begin, sizeof *carry);",
            f"if ({' && '.join(same)}) {{ return (int32_t)carry->result; }}",
            f"{'' if step.free_state else 'const '}{n}_state state = carry->state;",
        ]
        if step.free_state:
            lines += [f"slot changed[{self.changed}];", *self._change()]
            sizes = [8 * int(np.size(x)) for x in jax.tree.leaves(step.task.state0)]
            at = self.now
            for k in step.free_state:
                lines.append(f"memcpy((char *)&state + {sum(sizes[:k])}, changed + {at}, {sizes[k]});")
                at += sizes[k] // 8
        arguments = ", ".join((*self.interface.pointers, "t0", "&state", "carry"))
        return [*lines, f"return {n}_start_from({arguments});"]

    def _change(self) -> list[str]:
        """Calls what computes free numbers, in a block of its own."""
        call = self._call("change", "parameters_slots", "inputs_slots", "changed")
        return ["{", *(f"  {line}" for line in (*self._values(), *call)), "}"]

    def _start_from(self) -> list[str]:
        n, size = self.name, Layout(self.step.begin).size
        state = sum(int(np.size(x)) for x in jax.tree.leaves(self.step.task.state0))
        lines = [f"slot changed[{max(self.changed, 1)}], given[{max(state, 1)}], time[1], results[{size}];"]
        if self.changed:
            lines += self._change()
        elif self.interface.pointers:
            lines += [f"(void){what};" for what in self.interface.pointers]
        return [
            *lines,
            "memcpy(given, state, sizeof *state);",
            "time[0].number = t0;",
            *self._call("initial", f"(slot *){n}_numbers", "changed", "given", "time", "results"),
            f"{n}_store(results, carry);",
            "return (int32_t)carry->result;",
        ]

    def _read(self) -> list[str]:
        size, carry = self.step.observe.result.size, Layout(self.step.begin).size
        return [
            f"slot now[{carry}], results[{max(size, 1)}];",
            *self._values(),
            "memcpy(now, carry, sizeof *carry);",
            *self._call("observe", "parameters_slots", "inputs_slots", "now", "results"),
            "memcpy(outputs, results, sizeof *outputs);",
        ]

    def _places(self) -> dict[str, int]:
        """Slots of numbers of the progress among those that functions work on."""
        begin = self.step.begin
        paths = jax.tree_util.tree_leaves_with_path(begin)
        at, places = self.now, {}
        for path, leaf in paths:
            places[jax.tree_util.keystr(path)] = at
            at += int(np.size(leaf))
        return {key: places[f".progress.{key}"] for key in ("n", "result")}

    def _main(self) -> str:
        n = self.name
        passed = ", ".join(f"&{n}_default_{what}" for what in self.interface.pointers)
        comma = f"{passed}, " if passed else ""
        return MAIN.format(name=n, NAME=n.upper(), passed=comma, t0=literal(np.float64(self.step.task.t0)))


def _table(name: str, layout: Layout, tree: Any) -> str:
    """Constants in slots."""
    texts: list[str] = []
    for leaf in jax.tree.leaves(tree):
        array = np.asarray(leaf)
        is_float = array.dtype == np.float64
        kind = "double" if is_float else "int64_t"
        values = array.reshape(-1) if is_float else array.reshape(-1).astype(np.int64)
        texts += [f"{{{slot_member('', kind)} = {literal(x)}}}" for x in values]
    return f"static const slot {name}[{max(layout.size, 1)}] = {{\n{rows_of(texts or ['{0}'])}\n}};"


def _initialisers(members: Sequence[Member], texts: Sequence[str]) -> list[str]:
    """Texts of numbers with the braces of the arrays that they are elements of."""
    out, at = [], 0
    for member in members:

        def nest(shape: tuple[int, ...]) -> str:
            nonlocal at
            if not shape:
                at += 1
                return texts[at - 1]
            return f"{{{', '.join(nest(shape[1:]) for _ in range(shape[0]))}}}"

        out.append(nest(member.shape))
    return out


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join((f"{head} {{", *(f"  {line}" for line in lines), "}"))

"""The text of a file in C with the functions of an exported step, and of its header."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import polhode
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.structs import Member, members_of, named_members, struct
from polhode.code_export.templates import FLAGS, HEADER, MAIN
from polhode.compiler.c.array_printer import CFunction, print_function
from polhode.compiler.c.expressions import literal
from polhode.compiler.c.prelude import PRELUDE
from polhode.compiler.c.scalar_printer import rows_of
from polhode.compiler.c.slots import slot_member
from polhode.compiler.loops.loop_code import AbstractLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.result_codes import Result
from polhode.simulation.loops import native
from polhode.systems.mechanical import AbstractMechanical

_BLOCKS = 1000
"""Events in one step, above which it ends with `events_accumulate`."""

_OTHER = re.compile(r"[^\w .,:;+()-]")
"""Characters that would end a comment or a string in C, or mean something else there."""

_MARGIN = 1024
"""Bytes on the stack of the functions in the header themselves, besides their arrays."""


class Library(NamedTuple):
    """A file in C and its header; `stack`: bytes that a call takes at most; `operations` of a step."""

    source: str
    header: str
    stack: int
    operations: int


def library_of(step: ExportedStep, name: str, problem: str) -> Library:
    """The library of a step, whose functions and types begin with a name.

    Raises `UnsupportedNativeOperation` for operations that C has not.
    """
    return _Writer(step, name, problem).library()


class _Writer:
    """Writes one library."""

    def __init__(self, step: ExportedStep, name: str, problem: str) -> None:
        # Names come from files, too, and this one is part of a comment and of a string.
        self.step, self.name, self.problem = step, name, _OTHER.sub("_", problem)
        self.blocks = step.steps.build(self._printer("block"), native.pattern_of((step.numbers,)))
        calls = {"initial": step.initial, "observe": step.observe}
        calls |= {} if step.restart is None else {"restart": step.restart}
        calls |= {} if step.leaves is None else {"change": step.leaves}
        self.functions = {key: call.build(self._printer(key)) for key, call in calls.items()}
        self.parameters, self.inputs = (
            named_members(names, values)
            for names, values in zip((step.free.parameters, step.free.inputs), step.free.defaults, strict=True)
        )
        observed = step.observe.program.out_shape
        self.outputs = named_members([*observed], [*observed.values()])
        self.state, self.carry = _carry_members(step, name)
        # What `change` returns: arrays of the model, then those of the initial state.
        self.now = step.steps.layouts[1].size - Layout(step.begin).size
        self.changed = 0 if step.leaves is None else step.leaves.result.size

    def _printer(self, what: str) -> Callable[[AbstractLoopCode, Any], CFunction]:
        return lambda code, function: print_function(function, f"{self.name}_{what}", is_static=True)

    # --- the header ---------------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        """Declarations of the arguments that all functions begin with."""
        return [
            *([f"const {self.name}_parameters *parameters"] if self.parameters else []),
            *([f"const {self.name}_inputs *inputs"] if self.inputs else []),
        ]

    @property
    def _signatures(self) -> dict[str, str]:
        first, n = self._arguments(), self.name
        join, state = lambda *last: ", ".join((*first, *last)), f"const {n}_state *state"
        return {
            "start": f"int32_t {n}_start({join('double t0', f'{n}_carry *carry')})",
            "start_from": f"int32_t {n}_start_from({join('double t0', state, f'{n}_carry *carry')})",
            "step": f"int32_t {n}_step({join(f'{n}_carry *carry')})",
            **({"jump": f"void {n}_jump({join(f'{n}_carry *carry')})"} if self.inputs else {}),
            "read": f"void {n}_read({join(f'const {n}_carry *carry', f'{n}_outputs *outputs')})",
            "about": f"const char *{n}_about(void)",
            "hash": f"uint64_t {n}_model_hash(void)",
        }

    def library(self) -> Library:
        source = self._source()
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        source = source.replace("@HASH@", digest.upper())
        stack, operations = self._stack(), self.blocks.operations
        return Library(source, self._header(stack, operations, digest), stack, operations)

    def _stack(self) -> int:
        """Bytes on the stack of the deepest call."""
        layouts = self.step.steps.layouts
        working = 8 * (layouts[1].size + layouts[2].size + 8)
        calls = [8 * each.workspace + each.stack for each in (self.blocks, *self.functions.values())]
        return max(calls) + working + 8 * (self.changed + self.step.observe.result.size) + _MARGIN

    def _header(self, stack: int, operations: int, digest: str) -> str:
        n, guard, step = self.name, f"{self.name.upper()}_H", self.step
        codes = ",\n".join(f"  {n.upper()}_{code.name.upper()} = {int(code)}" for code in Result)
        structs = [struct(f"{n}_{what}", [m.declaration for m in members]) for what, members in self._structs()]
        defaults = [f"extern const {n}_{what} {n}_default_{what};" for what, m in self._free() if m]
        units = "SI, unless the model has others"
        return HEADER.format(
            name=n,
            NAME=n.upper(),
            guard=guard,
            problem=self.problem,
            method=step.task.integrator_name,
            version=polhode.__version__,
            digest=digest,
            units=units,
            stack=stack,
            operations=operations,
            h=literal(np.float64(step.h)),
            codes=codes,
            structs="\n".join(structs),
            defaults="\n".join((*defaults, "")) if defaults else "",
            count=sum(len(m.labels) for m in self.outputs),
            **{"jump": "", **{key: f"{text};" for key, text in self._signatures.items()}, **self._jump_text()},
        )

    def _jump_text(self) -> dict[str, str]:
        if not self.inputs:
            return {}
        note = "To be called after inputs have jumped: rebuilds what the method remembers. They are held within steps."
        return {"jump": f"/* {note} */\n{self._signatures['jump']};\n"}

    def _free(self) -> list[tuple[str, list[Member]]]:
        return [("parameters", self.parameters), ("inputs", self.inputs)]

    def _structs(self) -> list[tuple[str, list[Any]]]:
        """Names and members of all structs, those before others that these contain."""
        free = [(what, members) for what, members in self._free() if members]
        return [("state", self.state), ("carry", self.carry), *free, ("outputs", self.outputs)]

    # --- the source ---------------------------------------------------------------------------------------------------

    def _source(self) -> str:
        n, step = self.name, self.step
        numbers, begin = Layout(step.numbers), Layout(step.begin)
        tables = [_table(f"{n}_numbers", numbers, step.numbers), _table(f"{n}_begin", begin, step.begin)]
        for (what, members), values in zip(self._free(), step.free.defaults, strict=True):
            if members:
                texts = [literal(np.float64(x)) for array in values for x in np.ravel(array)]
                tables.append(
                    f"const {n}_{what} {n}_default_{what} = {{\n{rows_of(_initialisers(members, texts))}\n}};"
                )
        labels = ",\n".join(f'  "{label}"' for m in self.outputs for label in m.labels)
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
        signatures = self._signatures
        about = (
            f"{self.problem}, {self.step.task.integrator_name}, h = {self.step.h:.17g}, polhode {polhode.__version__}"
        )
        return [
            self._load(),
            self._store(),
            _function(signatures["start"], self._start()),
            _function(signatures["start_from"], self._start_from()),
            _function(signatures["step"], self._step()),
            *([_function(signatures["jump"], self._jump())] if self.inputs else []),
            _function(signatures["read"], self._read()),
            _function(signatures["about"], [f'return "{about}";']),
            _function(signatures["hash"], ["return UINT64_C(0x@HASH@);"]),
        ]

    def _call(self, key: str, *arguments: str) -> list[str]:
        """A call of a recorded function with its workspace."""
        function = self.blocks if key == "block" else self.functions[key]
        space = max(function.workspace, 1)
        return [f"slot workspace[{space}];", f"(void){function.name}({', '.join((*arguments, 'workspace'))});"]

    def _values(self) -> list[str]:
        """Parameters and inputs in slots, where functions read them."""
        lines = []
        for what, members in self._free():
            size = sum(len(m.labels) for m in members)
            lines.append(f"slot {what}_slots[{max(size, 1)}];")
            if members:
                lines.append(f"memcpy({what}_slots, {what}, sizeof *{what});")
        return lines

    def _load(self) -> str:
        """Fills the slots that recorded functions work on: free arrays of the model, and the carry behind them."""
        n = self.name
        arguments = ", ".join((*self._arguments(), f"const {n}_carry *carry", "slot *now"))
        lines = [f"memcpy(now + {self.now}, carry, sizeof *carry);"]
        if self.changed:
            lines += [
                f"slot changed[{self.changed}];",
                *self._change(),
                f"memcpy(now, changed, {self.now} * sizeof *now);",
            ]
        elif self.parameters or self.inputs:
            lines += [f"(void){what};" for what, m in self._free() if m]
        return _function(f"PART void {n}_load({arguments})", lines)

    def _store(self) -> str:
        n = self.name
        return _function(
            f"PART void {n}_store(const slot *now, {n}_carry *carry)", ["memcpy(carry, now, sizeof *carry);"]
        )

    @property
    def _pointers(self) -> list[str]:
        return [what for what, members in self._free() if members]

    def _begin_step(self) -> list[str]:
        total = self.step.steps.layouts[1].size
        arguments = ", ".join((*self._pointers, "carry", "now"))
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

    def _jump(self) -> list[str]:
        n, size = self.name, Layout(self.step.begin).size
        return [
            *self._begin_step(),
            f"slot results[{size}];",
            *self._call("restart", f"(slot *){n}_numbers", "now", "results"),
            f"{n}_store(results, carry);",
        ]

    def _start(self) -> list[str]:
        """The numbers that `simulate` starts with, or, with other parameters, inputs or time, computed ones."""
        n, step = self.name, self.step
        same = ["t0 == T0", *(f"memcmp({what}, &{n}_default_{what}, sizeof *{what}) == 0" for what in self._pointers)]
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
        arguments = ", ".join((*self._pointers, "t0", "&state", "carry"))
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
        elif self._pointers:
            lines += [f"(void){what};" for what in self._pointers]
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
        passed = ", ".join(f"&{n}_default_{what}" for what in self._pointers)
        comma = f"{passed}, " if passed else ""
        return MAIN.format(name=n, NAME=n.upper(), passed=comma, t0=literal(np.float64(self.step.task.t0)))


def _carry_members(step: ExportedStep, name: str) -> tuple[list[Any], list[Any]]:
    """Members of the state and of all that is kept between steps, in the order of their slots."""
    p, parts = step.begin.progress, []
    state = p.carry.state
    is_pair = isinstance(step.task.run_system.system, AbstractMechanical) and isinstance(state, tuple)
    state_tree = dict(zip(("q", "v"), state, strict=True)) if is_pair and len(state) == 2 else state
    for prefix, tree in (("t0", step.begin.t0), ("n", p.n), ("t", p.t), ("h", p.h)):
        parts += members_of(prefix, tree)
    inside = members_of("" if is_pair or not isinstance(state, tuple) else "x", state_tree)
    parts.append(_StructMember("state", f"{name}_state"))
    rest = ("memory", p.carry.memory), ("multipliers", p.carry.multipliers), ("rejected", p.rejected)
    for prefix, tree in (*rest, ("newton", p.newton), ("error", p.error), ("result", p.result), ("events", p.events)):
        parts += members_of(prefix, tree)
    return inside, parts


class _StructMember(NamedTuple):
    """A member that is a struct; its type begins with the name of the library."""

    name: str
    type: str

    @property
    def declaration(self) -> str:
        return f"{self.type} {self.name};"


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

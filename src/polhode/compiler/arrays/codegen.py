"""Statements of array programs: kernels, standalone operations, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polhode.compiler.array_program import Equation, FlatProgram, Value
from polhode.compiler.arrays.array_builder import ArrayBuilder, places
from polhode.compiler.arrays.array_ir import Block, Place, Pointer, Scalar, Switch
from polhode.compiler.arrays.block_builder import INTEGER, TRUTH
from polhode.compiler.arrays.elementwise import build_elements
from polhode.compiler.arrays.elimination import factorise
from polhode.compiler.arrays.flat_program import flatten, parts_of_while
from polhode.compiler.arrays.fusion import Kernel, Schedule, axes, is_long
from polhode.compiler.arrays.loop_carry import LoopCarry
from polhode.compiler.arrays.merge_sort import sort_by_key
from polhode.compiler.arrays.op_kinds import VIEWS
from polhode.compiler.arrays.operands import (
    AbstractArray,
    Buffer,
    Constant,
    Register,
    View,
    allocate,
    allocate_rows,
    declare_like,
    dense,
    slots_of,
    strides_of,
)
from polhode.compiler.arrays.row_loops import PartlyConstant, scalar_body, scan_rows
from polhode.compiler.arrays.scatter import scatter
from polhode.compiler.arrays.views import build_views
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.scalars.program import Variable

Arrays = list[AbstractArray]


def generate(
    b: ArrayBuilder, flat: FlatProgram, inputs: Sequence[AbstractArray], targets: dict[int, Buffer] | None = None
) -> list[AbstractArray]:
    """Appends the statements of a program; returns its results: numbers, or arrays in memory.

    `targets`: memory for results by their indices, used if they are computed here.
    """
    return _CodeGenerator(b, Schedule(flat), inputs, targets or {}).results()


class _CodeGenerator:
    """Code generator of one program."""

    def __init__(
        self, builder: ArrayBuilder, schedule: Schedule, inputs: Sequence[AbstractArray], targets: dict[int, Buffer]
    ) -> None:
        self.b, self.k, self.schedule = builder, builder.k, schedule
        flat = schedule.flat
        self._arrays: dict[int, AbstractArray] = dict(zip(map(id, flat.inputs), inputs, strict=True))
        self._views = {id(v): e for e in flat.equations if e.name in VIEWS for v in e.outputs}
        self._targets = {id(flat.outputs[n]): to for n, to in targets.items()}
        # Pointers to memory that is allocated here, by the identity of the value in it.
        self._owned_memory: dict[int, Pointer] = {}
        builder.keep_alive((schedule, list(inputs)))

    def results(self) -> Arrays:
        for stage in self.schedule.stages:
            if isinstance(stage, Kernel):
                self._kernel(stage)
            else:
                self._standalone(stage)
            for v in self.schedule.last_used(stage):
                if id(v) in self._owned_memory:
                    self.k.release(self._owned_memory.pop(id(v)))
        return [self._read(x) for x in self.schedule.flat.outputs]

    def _read(self, x: Any) -> AbstractArray:
        if not isinstance(x, Value):
            return self.b.keep_alive(Constant(x))
        if id(x) not in self._arrays:
            e = self._views[id(x)]
            self._define(e, build_views(e, list(map(self._read, e.inputs))))
        return self._arrays[id(x)]

    def _define(self, e: Equation, arrays: Sequence[AbstractArray]) -> None:
        self.b.keep_alive(arrays)
        self._arrays.update(zip(map(id, e.outputs), arrays, strict=True))

    # --- loops over elements ------------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel) -> None:
        views = set(self._arrays)
        for e in kernel.equations:
            prepare = self._preparation(kernel) if is_long(e) else _no_preparation
            self._define(e, build_elements(e, list(map(self._read, e.inputs)), prepare))
        shape = axes(kernel.stored[0].shape) if kernel.stored else ()
        if any(axes(v.shape) != shape for v in kernel.stored):
            raise UnsupportedNativeOperation("results of different loops")
        targets = {id(v): self._target(v) for v in kernel.stored if v.shape}
        plain = not any(is_long(e) for e in kernel.equations)
        with self.k.scope():
            if shape:
                self._read_numbers(kernel)
            with self.k.nest(shape, independent=plain) as loop_indices:
                by_value = self._elements(kernel, shape, loop_indices)
                for v, elements in by_value.items():
                    if v in targets:
                        for place, value in elements:
                            targets[v].put(self.k, place, value)
        # Views of computed arrays are made again as views of memory.
        self._arrays = {key: x for key, x in self._arrays.items() if key in views or not isinstance(x, View)}
        for v in kernel.stored:
            self._arrays[id(v)] = targets[id(v)] if v.shape else self.b.keep_alive(Register(by_value[id(v)][0][1]))

    def _elements(
        self, kernel: Kernel, shape: Any, loop_indices: Sequence[Any]
    ) -> dict[int, list[tuple[Place, Scalar]]]:
        """The elements that one iteration stores, in the order of the equations, operands first."""
        stored, by_value = set(map(id, kernel.stored)), {}
        for e in kernel.equations:
            for v in e.outputs:
                if axes(v.shape) == shape and (id(v) in stored or not kernel.is_reduction):
                    x = self._arrays[id(v)]
                    by_value[id(v)] = [(place, x.at(self.k, place)) for place in places(v.shape, loop_indices)]
        return {v: elements for v, elements in by_value.items() if v in stored}

    def _read_numbers(self, kernel: Kernel) -> None:
        """Reads numbers that a loop needs before it."""
        for e in kernel.equations:
            for x in e.inputs:
                for v in self.schedule.sources(x):
                    a = self._arrays.get(id(v))
                    if not v.shape and isinstance(a, Buffer | Register):
                        a.at(self.k, ())

    def _preparation(self, kernel: Kernel) -> Callable[[tuple[int, ...], Place], None]:
        """Computes the elements of a long reduction's operands at one place, in the order of the equations."""

        def prepare(shape: tuple[int, ...], place: Place) -> None:
            for e in kernel.equations:
                for v in e.outputs:
                    if v.shape == shape:
                        self._arrays[id(v)].at(self.k, place)

        return prepare

    def _target(self, v: Value) -> Buffer:
        if id(v) in self._targets:
            return self._targets[id(v)]
        return self._take_ownership(v, allocate(self.k, v.shape, v.dtype))

    def _take_ownership(self, v: Value, memory: Buffer) -> Buffer:
        self._owned_memory[id(v)] = memory.pointer
        return memory

    # --- standalone operations ----------------------------------------------------------------------------------------

    def _standalone(self, e: Equation) -> None:
        x = list(map(self._read, e.inputs))
        self._define(e, _STANDALONE[e.name](self, e, x) if e.name in _STANDALONE else self._scatter(e, x))

    def _scatter(self, e: Equation, x: Arrays) -> Arrays:
        to = self._target(e.outputs[0])
        self.b.copy(x[0], to)
        with self.k.scope():
            scatter(self.k, e, to, x[1], x[2])
        return [to]

    def _place(self, e: Equation, x: Arrays) -> Arrays:
        (v,) = e.outputs
        to = self._targets.get(id(v))
        if to is None or not to.is_dense:
            to = self._take_ownership(v, dense(self.k.space(v.size), v.shape, v.dtype))
        self._fill(e.inputs[0], to)
        return [to]

    def _fill(self, x: Any, to: Buffer) -> None:
        """Copies an array to memory; one made of parts part by part, each in its own shape."""
        producer = self._views.get(id(x))
        if producer is not None and producer.name == "concatenate":
            axis, at = producer.params["dimension"], 0
            for part in producer.inputs:
                self._fill(part, to.part(self.k, axis, at, part.shape[axis]))
                at += part.shape[axis]
        elif producer is not None and producer.name == "stack":
            for at, part in enumerate(producer.inputs):
                self._fill(part, to.layer(self.k, producer.params["axis"], at))
        elif producer is not None and producer.name == "reshape" and to.is_dense:
            self._fill(producer.inputs[0], dense(to.pointer, producer.inputs[0].shape, to.dtype))
        elif x.size:
            self.b.copy(self._read(x), to)

    def _sort(self, e: Equation, x: Arrays) -> Arrays:
        return list(sort_by_key(self.k, e, list(map(self.b.materialise, x)), self.b.copy))

    def _eliminate(self, e: Equation, x: Arrays) -> Arrays:
        (v,) = e.outputs
        to = self._take_ownership(v, dense(self.k.space(v.size), v.shape, v.dtype))
        self.b.copy(x[0], to)
        with self.k.scope():
            factorise(self.k, to.pointer, len(e.params["plan"].paths))
        return [to]

    def _cond(self, e: Equation, x: Arrays) -> Arrays:
        which, *operands = x
        branches = [Schedule(flatten(c)) for c in e.params["branches"]]
        number = self.b.number(which)
        targets = [self._targets.get(id(v)) for v in e.outputs]
        blocks: list[Block] = []
        ends: list[list[Any]] = []
        with self.k.alternatives() as alternative:
            for branch in branches:
                with alternative() as block:
                    into = _branch_targets(branch, operands, targets)
                    results = _CodeGenerator(self.b, branch, operands, into).results()
                    ends.append(self._materialise_outputs(results, targets, e.outputs))
                blocks.append(block)
        results, assigned = list(ends[0]), {}
        for n, first in enumerate(ends[0]):
            if isinstance(first, Register) or any(outs[n].pointer is not first.pointer for outs in ends):
                results[n], assigned[n] = declare_like(first)
        values = tuple(tuple(_value(outs[n]) for n in assigned) for outs in ends)
        self.k.append(Switch(number, tuple(blocks), tuple(assigned.values()), values))
        return results

    def _materialise_outputs(self, outs: Arrays, targets: Sequence[Buffer | None], values: Sequence[Value]) -> Arrays:
        """Results of a branch as numbers or arrays in memory, in `targets` where these are given."""
        results: Arrays = []
        # Writing to a target changes an operand that is updated in place, which another result may be as it is.
        may_be_operand = all(to is None for to in targets)
        for x, to, v in zip(outs, targets, values, strict=True):
            if not v.shape:
                results.append(Register(self.b.number(x)))
            elif to is not None and isinstance(x, Buffer) and x.pointer == to.pointer:
                results.append(x)
            else:
                like = strides_of(v.shape)
                ready = may_be_operand and isinstance(x, Buffer) and x.strides == like
                # Copied, so that writing to its target does not change an operand that is read later.
                results.append(x if ready else self.b.new_copy(x))
        for n, (x, to) in enumerate(zip(results, targets, strict=True)):
            if to is not None and x.shape:
                self.b.copy(x, to)
                results[n] = to
        return results

    def _while(self, e: Equation, x: Arrays) -> Arrays:
        p = e.params
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        condition, step = map(flatten, parts_of_while(p))
        consts = x[nc : nc + nb]
        carry = LoopCarry(self.b, step, nb, x[nc + nb :])
        return carry.loop(
            lambda: self.b.number(generate(self.b, condition, [*x[:nc], *carry.current])[0]),
            lambda: generate(self.b, step, [*consts, *carry.current], carry.targets()),
        )

    def _scan(self, e: Equation, x: Arrays) -> Arrays:
        body = scalar_body(e.params, x)
        if body is None:
            return self._scan_of_arrays(e, x)
        results = scan_rows(self.k, e, x, body)
        for v, array in zip(e.outputs, results, strict=True):
            self._take_ownership(v, array.memory if isinstance(array, PartlyConstant) else array)
        return list(results)

    def _memory_of_rows(self, v: Value) -> Buffer:
        """Memory for the rows that a scan returns: that of a result of the program, which no operand of a scan shares
        (`Schedule.in_place`), if it has the same layout."""
        to = self._targets.get(id(v))
        strides = (slots_of(v.shape[1:]), *strides_of(v.shape[1:]))
        return to if to is not None and to.strides == strides else allocate_rows(self.k, v.shape, v.dtype)

    def _scan_of_arrays(self, e: Equation, x: Arrays) -> Arrays:
        p, k = e.params, self.k
        n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
        step = flatten(p["jaxpr"])
        rows = [self._memory_of_rows(v) for v in e.outputs[n_carry:]]
        carry = LoopCarry(self.b, step, n_consts, x[n_consts : n_consts + n_carry])

        def one_row() -> Arrays:
            at = k.apply("sub", INTEGER, length - 1, carry.count) if p["reverse"] else carry.count
            row_inputs = [_row(a, at) for a in x[n_consts + n_carry :]]
            into = [row.row(k, at) for row in rows]
            targets = {n_carry + n: to for n, to in enumerate(into) if to.shape}
            outs = generate(self.b, step, [*x[:n_consts], *carry.current, *row_inputs], {**targets, **carry.targets()})
            for out, to in zip(outs[n_carry:], into, strict=True):
                self.b.copy(out, to)
            return outs[:n_carry]

        carry.loop(lambda: k.apply("lt", TRUTH, carry.count, length), one_row, counted=True)
        return [*carry.current, *rows]


def _branch_targets(
    branch: Schedule, operands: Sequence[AbstractArray], targets: Sequence[Buffer | None]
) -> dict[int, Buffer]:
    """Those of the targets into which a branch may compute its results: memory that no operand is in, or that of an
    operand that the branch doesn't read afterwards."""
    flat, into = branch.flat, {}
    for n, to in enumerate(targets):
        if to is None:
            continue
        owners = [k for k, x in enumerate(operands) if isinstance(x, Buffer) and x.pointer is to.pointer]
        out = flat.outputs[n]
        is_repeated = sum(out is other for other in flat.outputs) > 1
        if not is_repeated and all(branch.in_place(flat.inputs[k], out) for k in owners):
            into[n] = to
    return into


def _no_preparation(shape: tuple[int, ...], place: Place) -> None:
    pass


def _value(x: Register | Buffer) -> Scalar | Pointer:
    return x.value if isinstance(x, Register) else x.pointer


def _row(table: AbstractArray, at: Variable) -> AbstractArray:
    """A row of an array."""
    return View(table.shape[1:], table.dtype, lambda k, place: table.at(k, (at, *place)))


_STANDALONE: dict[str, Callable[[_CodeGenerator, Equation, Arrays], Arrays]] = {
    "while": _CodeGenerator._while,
    "scan": _CodeGenerator._scan,
    "cond": _CodeGenerator._cond,
    "sort": _CodeGenerator._sort,
    "elimination": _CodeGenerator._eliminate,
    "placed": _CodeGenerator._place,
}

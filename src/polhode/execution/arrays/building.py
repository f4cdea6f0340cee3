"""Programs on arrays as text: operations in their order, loops that repeat them, and branches."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from polhode.execution.arrays.computing import computed
from polhode.execution.arrays.flattening import Equation, Flat, Value, flattened
from polhode.execution.arrays.loops import Loops
from polhode.execution.arrays.naming import VIEWS
from polhode.execution.arrays.places import AbstractArray, Buffer, Known, Place, Register, View, new
from polhode.execution.arrays.scheduling import UNROLLED, Kernel, Schedule, axes, is_long
from polhode.execution.arrays.sorting import sorted_together
from polhode.execution.arrays.viewing import viewed
from polhode.execution.arrays.writing import scattered
from polhode.execution.writer import NotNative, Writer, type_of

Arrays = list[AbstractArray]


class Builder:
    """Appends programs to a text.

    **Arguments:**

    - `writer`: to which they are appended.
    """

    def __init__(self, writer: Writer) -> None:
        self.w, self.k = writer, Loops(writer)
        # Elements are told apart by the arrays that they are of, as long as these live.
        self._alive: list[Any] = []

    def run(self, flat: Flat, inputs: Sequence[AbstractArray], targets: dict[int, Buffer] | None = None) -> Arrays:
        """The results: numbers, or arrays in memory. `targets`: where results are put, by their numbers, if they are
        computed here.
        """
        return _Run(self, Schedule(flat), inputs, targets or {}).results()

    def kept(self, thing: Any) -> Any:
        self._alive.append(thing)
        return thing

    def number(self, x: AbstractArray) -> str:
        """The value of a number."""
        with self.k.apart():
            return x.at(self.k, ())

    def copy(self, x: AbstractArray, to: Buffer) -> None:
        """Put all elements of `x` into `to`."""
        if isinstance(x, Buffer) and (x.pointer, x.strides) == (to.pointer, to.strides):
            return
        with self.elements(x.shape) as places:
            values = [x.at(self.k, place) for place in places]
            for place, value in zip(places, values, strict=True):
                to.put(self.k, place, value)

    @contextlib.contextmanager
    def elements(self, shape: tuple[int, ...], independent: bool = True) -> Iterator[list[Place]]:
        """A loop over an array; inside, the places of the elements of one pass."""
        with self.k.apart(), self.k.nest(axes(shape), independent) as around:
            yield places(shape, around)

    def placed(self, x: AbstractArray) -> Buffer:
        """The array in memory."""
        return x if isinstance(x, Buffer) else self.copied(x)

    def copied(self, x: AbstractArray) -> Buffer:
        """The array in memory of its own, with short axes first."""
        to = new(self.k, x.shape, x.dtype)
        self.copy(x, to)
        return to


def places(shape: tuple[int, ...], around: Sequence[Any]) -> list[Place]:
    """The places of all elements of an array that one pass of the loops around it is for."""
    left = iter(around)
    return list(itertools.product(*([next(left)] if n > UNROLLED else range(n) for n in shape)))


class _Run:
    """One program on its way."""

    def __init__(
        self, builder: Builder, schedule: Schedule, inputs: Sequence[AbstractArray], targets: dict[int, Buffer]
    ) -> None:
        self.b, self.k, self.schedule = builder, builder.k, schedule
        flat = schedule.flat
        self._found: dict[int, AbstractArray] = dict(zip(map(id, flat.inputs), inputs, strict=True))
        self._views = {id(v): e for e in flat.equations if e.name in VIEWS for v in e.outputs}
        self._targets = {id(flat.outputs[n]): to for n, to in targets.items()}
        builder.kept((schedule, list(inputs)))

    def results(self) -> Arrays:
        for stage in self.schedule.stages:
            if isinstance(stage, Kernel):
                self._kernel(stage)
            else:
                self._whole(stage)
        return [self._read(x) for x in self.schedule.flat.outputs]

    def _read(self, x: Any) -> AbstractArray:
        if not isinstance(x, Value):
            return self.b.kept(Known(x))
        if id(x) not in self._found:
            e = self._views[id(x)]
            self._know(e, viewed(e, list(map(self._read, e.inputs))))
        return self._found[id(x)]

    def _know(self, e: Equation, arrays: Sequence[AbstractArray]) -> None:
        self.b.kept(arrays)
        self._found.update(zip(map(id, e.outputs), arrays, strict=True))

    # --- loops over elements ------------------------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel) -> None:
        views = set(self._found)
        for e in kernel.equations:
            prepare = self._preparing(kernel) if is_long(e) else _nothing
            self._know(e, computed(e, list(map(self._read, e.inputs)), prepare))
        shape = axes(kernel.kept[0].shape) if kernel.kept else ()
        if any(axes(v.shape) != shape for v in kernel.kept):
            raise NotNative("results of different loops")
        targets = {id(v): self._target(v) for v in kernel.kept if v.shape}
        plain = not any(is_long(e) for e in kernel.equations)
        with self.k.apart():
            if shape:
                self._read_numbers(kernel)
            with self.k.nest(shape, independent=plain) as around:
                made = self._elements(kernel, shape, around)
                for v, elements in made.items():
                    if v in targets:
                        for place, value in elements:
                            targets[v].put(self.k, place, value)
        # What was a view of something computed is one of something in memory from now on.
        self._found = {key: x for key, x in self._found.items() if key in views or not isinstance(x, View)}
        for v in kernel.kept:
            value = made[id(v)][0][1] if not v.shape else ""
            self._found[id(v)] = targets[id(v)] if v.shape else self.b.kept(Register(value, v.dtype))

    def _elements(self, kernel: Kernel, shape: Any, around: Sequence[Any]) -> dict[int, list[tuple[Place, str]]]:
        """The elements of one pass of all that is kept; in order, so that none is asked for before its operands."""
        kept, made = set(map(id, kernel.kept)), {}
        for e in kernel.equations:
            for v in e.outputs:
                if axes(v.shape) == shape and (id(v) in kept or not kernel.is_reduction):
                    x = self._found[id(v)]
                    made[id(v)] = [(place, x.at(self.k, place)) for place in places(v.shape, around)]
        return {v: elements for v, elements in made.items() if v in kept}

    def _read_numbers(self, kernel: Kernel) -> None:
        """Numbers that a loop needs, before it."""
        for e in kernel.equations:
            for x in e.inputs:
                for v in self.schedule.behind(x):
                    a = self._found.get(id(v))
                    if not v.shape and isinstance(a, Buffer | Register):
                        a.at(self.k, ())

    def _preparing(self, kernel: Kernel) -> Callable[[tuple[int, ...], Place], None]:
        """Asks for all elements of a long reduction's operands at one place, in order."""

        def prepare(shape: tuple[int, ...], place: Place) -> None:
            for e in kernel.equations:
                for v in e.outputs:
                    if v.shape == shape:
                        self._found[id(v)].at(self.k, place)

        return prepare

    def _target(self, v: Value) -> Buffer:
        return self._targets.get(id(v)) or new(self.k, v.shape, v.dtype)

    # --- operations by themselves -------------------------------------------------------------------------------------

    def _whole(self, e: Equation) -> None:
        x = list(map(self._read, e.inputs))
        self._know(e, _WHOLE[e.name](self, e, x) if e.name in _WHOLE else self._scatter(e, x))

    def _scatter(self, e: Equation, x: Arrays) -> Arrays:
        to = self._target(e.outputs[0])
        self.b.copy(x[0], to)
        with self.k.apart():
            scattered(self.k, e, to, x[1], x[2])
        return [to]

    def _sort(self, e: Equation, x: Arrays) -> Arrays:
        return list(sorted_together(self.k, e, list(map(self.b.placed, x)), self.b.copy))

    def _cond(self, e: Equation, x: Arrays) -> Arrays:
        w, (which, *operands) = self.b.w, x
        branches = [flattened(c) for c in e.params["branches"]]
        value, kind = self.b.number(which), type_of(which)
        labels, behind = [w.label() for _ in branches], w.label()
        if kind == "i1":
            w.branch(value, labels[1], labels[0])
        else:
            cases = " ".join(f"{kind} {n}, label %{label}" for n, label in enumerate(labels[:-1]))
            w.lines.append(f"switch {kind} {value}, label %{labels[-1]} [ {cases} ]")
        fixed = [self._targets.get(id(v)) for v in e.outputs]
        ends: list[tuple[Arrays, str]] = []
        with self.k.alternatives() as alternative:
            for label, branch in zip(labels, branches, strict=True):
                w.open(label)
                with alternative():
                    outs = self._settled(self.b.run(branch, operands), fixed, e.outputs)
                ends.append((outs, w.block))
                w.jump(behind)
        w.open(behind)
        return [self._either([(outs[n], block) for outs, block in ends]) for n in range(len(e.outputs))]

    def _settled(self, outs: Arrays, fixed: Sequence[Buffer | None], values: Sequence[Value]) -> Arrays:
        """Results of a branch as numbers or arrays in memory, in their own places where these are fixed."""
        found: Arrays = []
        for x, to, v in zip(outs, fixed, values, strict=True):
            if not v.shape:
                found.append(Register(self.b.number(x), v.dtype))
            elif to is not None and isinstance(x, Buffer) and x.pointer == to.pointer:
                found.append(x)
            else:
                like = _strides_of(v)
                ready = to is None and isinstance(x, Buffer) and x.strides == like
                # Copied, so that nothing that is put into its place is read after that.
                found.append(x if ready else self.b.copied(x))
        for n, (x, to) in enumerate(zip(found, fixed, strict=True)):
            if to is not None and x.shape:
                self.b.copy(x, to)
                found[n] = to
        return found

    def _either(self, ends: list[tuple[Any, str]]) -> AbstractArray:
        """What is one or the other, by the block that was run before."""
        (first, _), w = ends[0], self.b.w
        if isinstance(first, Register):
            cases = ", ".join(f"[ {x.name}, %{block} ]" for x, block in ends)
            return Register(w.value(f"phi {type_of(first)} {cases}"), first.dtype)
        if all(x.pointer == first.pointer for x, _ in ends):
            return first
        cases = ", ".join(f"[ {x.pointer}, %{block} ]" for x, block in ends)
        return first.moved(w.value(f"phi ptr {cases}"))

    def _while(self, e: Equation, x: Arrays) -> Arrays:
        p = e.params
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        test, again = flattened(p["cond_jaxpr"]), flattened(p["body_jaxpr"])
        consts = x[nc : nc + nb]
        carried = _Carried(self.b, again, nb, x[nc + nb :])
        w = self.b.w
        body, behind = w.label(), w.label()
        carried.begin()
        with self.k.scratch():
            (goes_on,) = self.b.run(test, [*x[:nc], *carried.now])
            w.branch(self.b.number(goes_on), body, behind)
            w.open(body)
            outs = self.b.run(again, [*consts, *carried.now], carried.targets())
            carried.end(outs)
        w.open(behind)
        return carried.now

    def _scan(self, e: Equation, x: Arrays) -> Arrays:
        p, w, k = e.params, self.b.w, self.k
        n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
        again = flattened(p["jaxpr"])
        rows = [_by_rows(k, v) for v in e.outputs[n_carry:]]
        carried = _Carried(self.b, again, n_consts, x[n_consts : n_consts + n_carry])
        body, behind = w.label(), w.label()
        count = Register("", np.dtype(np.int64))
        carried.begin(count)
        with k.scratch():
            w.branch(w.value(f"icmp slt i64 {count.name}, {length}"), body, behind)
            w.open(body)
            at = w.value(f"sub i64 {length - 1}, {count.name}") if p["reverse"] else count.name
            given = [_row(a, at) for a in x[n_consts + n_carry :]]
            into = [row.row(k, at) for row in rows]
            targets = {n_carry + n: to for n, to in enumerate(into) if to.shape}
            outs = self.b.run(again, [*x[:n_consts], *carried.now, *given], {**targets, **carried.targets()})
            for out, to in zip(outs[n_carry:], into, strict=True):
                self.b.copy(out, to)
            carried.end(outs[:n_carry])
        w.open(behind)
        return [*carried.now, *rows]


def _nothing(shape: tuple[int, ...], place: Place) -> None:
    pass


def _strides_of(v: Value) -> tuple[int, ...]:
    """The strides that memory for such an array has."""
    return _Unplaced.buffer(v).strides


class _Unplaced(Loops):
    """Where no memory is taken."""

    def __init__(self) -> None:
        pass

    def space(self, slots: int) -> str:
        return ""

    @classmethod
    def buffer(cls, v: Value) -> Buffer:
        return new(cls(), v.shape, v.dtype)


def _by_rows(k: Loops, v: Value) -> Buffer:
    """Memory for an array, one row after the other."""
    row = _Unplaced.buffer(Value(v.shape[1:], v.dtype))
    size = int(np.prod(v.shape[1:]))
    return Buffer(k.space(size * v.shape[0]), v.shape, v.dtype, (size, *row.strides))


def _row(table: AbstractArray, at: str) -> AbstractArray:
    """A part of an array, along its first axis."""
    return View(table.shape[1:], table.dtype, lambda k, place: table.at(k, (at, *place)))


_WHOLE: dict[str, Callable[[_Run, Equation, Arrays], Arrays]] = {
    "while": _Run._while,
    "scan": _Run._scan,
    "cond": _Run._cond,
    "sort": _Run._sort,
}


class _Carried:
    """What one pass of a loop leaves to the next.

    Numbers are values of the text. Arrays that nothing changes stay where they are. Others are changed in place where
    nothing reads them any more by then, or else have two places, which they take in turn.
    """

    def __init__(self, builder: Builder, body: Flat, before: int, start: Sequence[AbstractArray]) -> None:
        self.b = builder
        schedule = Schedule(body)
        self._given = body.inputs[before : before + len(start)]
        self._same = [out is v for v, out in zip(self._given, body.outputs, strict=False)]
        repeated = [sum(out is other for other in body.outputs) > 1 for out in body.outputs]
        self._in_place = [not repeated[n] and schedule.in_place(v, body.outputs[n]) for n, v in enumerate(self._given)]
        self._repeated = repeated
        self._start = list(start)
        self._count: tuple[int, str] | None = None
        self.now: Arrays = list(start)
        self._phis: list[tuple[int, int, str, str]] = []
        self._others: dict[int, Buffer] = {}

    def begin(self, count: Register | None = None) -> None:
        """Opens the block at which every pass begins. `count` becomes the number of passes before."""
        w, k = self.b.w, self.b.k
        first: dict[int, str] = {}
        pairs: dict[int, tuple[Buffer, Buffer]] = {}
        for n, (x, v) in enumerate(zip(self._start, self._given, strict=True)):
            if not self._same[n] and not v.shape:
                first[n] = self.b.number(x)
            elif self._in_place[n]:
                self.now[n] = self.b.copied(x)
            elif not self._same[n]:
                pairs[n] = new(k, v.shape, v.dtype), new(k, v.shape, v.dtype)
                begin = self._begun(x, pairs[n][0])
                self.now[n], first[n] = begin, begin.pointer
        before, self._head = w.label(), w.label()
        w.jump(before)
        w.open(before)
        w.jump(self._head)
        w.open(self._head)
        if count is not None:
            self._count = len(w.lines), before
            count.name = self._number = w.value("")
        for n, begin in first.items():
            self.now[n] = self._turned(n, begin, before)
        for n, (a, b) in pairs.items():
            now: Any = self.now[n]
            is_first = w.value(f"icmp eq ptr {now.pointer}, {a.pointer}")
            self._others[n] = a.moved(w.value(f"select i1 {is_first}, ptr {b.pointer}, ptr {a.pointer}"))
        self.b.kept(list(self.now))

    def _begun(self, x: AbstractArray, place: Buffer) -> Buffer:
        """The start of an array with two places: where it is if it lies as in these, or else copied to one of them."""
        if isinstance(x, Buffer) and x.strides == place.strides:
            return x
        self.b.copy(x, place)
        return place

    def _turned(self, n: int, begin: str, before: str) -> AbstractArray:
        """What a pass begins with, from the start or from the pass before."""
        w, array = self.b.w, self.now[n]
        at, name = len(w.lines), w.value("")
        kind = "ptr" if array.shape else type_of(array)
        self._phis.append((n, at, f"{name} = phi {kind}", f"[ {begin}, %{before} ]"))
        return array.moved(name) if isinstance(array, Buffer) and array.shape else Register(name, array.dtype)

    def targets(self) -> dict[int, Buffer]:
        """Where a pass puts what it computes."""
        places: dict[int, Buffer] = {n: x for n, x in self._others.items() if not self._repeated[n]}
        return {**places, **{n: x for n, x in enumerate(self.now) if self._in_place[n] and isinstance(x, Buffer)}}

    def end(self, outs: Sequence[AbstractArray]) -> None:
        """Closes a pass."""
        w = self.b.w
        then: dict[int, str] = {}
        for n, out in enumerate(outs):
            if self._same[n]:
                continue
            if not out.shape:
                then[n] = self.b.number(out)
            elif n in self._others:
                self.b.copy(out, self._others[n])
                then[n] = self._others[n].pointer
            else:
                self.b.copy(out, self.now[n])  # type: ignore[arg-type]
        following = "" if self._count is None else w.value(f"add i64 {self._number}, 1")
        last = w.block
        w.jump(self._head)
        for n, at, phi, first in self._phis:
            w.lines[at] = f"{phi} {first}, [ {then[n]}, %{last} ]"
        if self._count is not None:
            at, before = self._count
            w.lines[at] = f"{self._number} = phi i64 [ 0, %{before} ], [ {following}, %{last} ]"

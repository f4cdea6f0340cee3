"""Choice between unrolled scalars and fused array loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeVar, cast

from jax.extend import core

from polhode.compiler import size_limits
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.primitives.elimination import ELIMINATION
from polhode.compiler.primitives.row_loop import ROWS
from polhode.compiler.scalars.cost import count_operations
from polhode.compiler.scalars.primitives import SCATTERS
from polhode.compiler.scalars.read_only import programs_inside, read_only, rows_of, views_of

T = TypeVar("T")

_READ_INDICES = {"gather": slice(1, None), "dynamic_slice": slice(1, None), "dynamic_update_slice": slice(2, None)}
_WRITE_INDICES = slice(1, 2)
_READS = frozenset(("gather", "dynamic_slice"))


def has_dynamic_indices(
    jaxpr: core.Jaxpr, is_constant: Sequence[bool] = (), is_read: Sequence[bool] = (), larger: int = 0
) -> bool:
    """Whether a program has data-dependent indices, or sorts; look-ups in constants don't count.

    `is_constant`: which arguments are constants; none by default. `is_read`: those in which they don't count, either.
    `larger`: indices in arrays of up to so many numbers don't count.
    """
    return _DynamicIndices(larger).are_in(jaxpr, tuple(is_constant), tuple(is_read))


class _DynamicIndices:
    """The search for them; a program that is called several times in the same way is searched once."""

    def __init__(self, larger: int) -> None:
        self._larger = larger
        self._earlier: dict[Hashable, bool] = {}

    def are_in(self, jaxpr: core.Jaxpr, is_constant: tuple[bool, ...], is_read: tuple[bool, ...]) -> bool:
        key = id(jaxpr), is_constant, is_read
        if key not in self._earlier:
            self._earlier[key] = self._search(jaxpr, is_constant, is_read)
        return self._earlier[key]

    def _search(self, jaxpr: core.Jaxpr, is_constant: tuple[bool, ...], is_read: tuple[bool, ...]) -> bool:
        constants = set(jaxpr.constvars)
        constants.update(v for v, k in zip(jaxpr.invars, is_constant, strict=False) if k)
        arrays = views_of(jaxpr, is_read)
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            if eqn.primitive is ELIMINATION:
                # On scalars it is a loop of its own, without the indices of the program that it stands for.
                continue
            constant_inputs = [isinstance(v, core.Literal) or v in constants for v in eqn.invars]
            read_inputs = [not isinstance(v, core.Literal) and v in arrays for v in eqn.invars]
            where = _WRITE_INDICES if name == "scatter" or name in SCATTERS else _READ_INDICES.get(name, slice(0, 0))
            looks_up = name in _READS and (read_inputs[0] or constant_inputs[0])
            unknown = not (looks_up or all(constant_inputs[where])) or (name == "sort" and not all(constant_inputs))
            if unknown and math.prod(cast(Any, eqn.invars[0].aval).shape) > self._larger:
                return True
            # Rows of loops differ from each other, even constant ones.
            varying = rows_of(eqn)
            for inner, numbers in programs_inside(eqn):
                is_constant = tuple(n is not None and n not in varying and constant_inputs[n] for n in numbers)
                if self.are_in(inner, is_constant, tuple(n is not None and read_inputs[n] for n in numbers)):
                    return True
            if all(constant_inputs):
                constants.update(eqn.outvars)
        return False


def compile_either(
    jaxpr: core.Jaxpr,
    on_arrays: Callable[[], T],
    on_scalars: Callable[[], T],
    cost: float = math.inf,
    wrt: Collection[int] = (),
) -> T:
    """Code of a program: fused array loops for large programs and data-dependent indexing, else scalars.

    `cost` is an estimate of its operations on scalars, which are preferred as long as they compile faster. `wrt`:
    inputs with respect to which it is differentiated. Raises `UnsupportedNativeOperation` where neither works.
    """
    first, second = (on_arrays, on_scalars) if _suits_arrays(jaxpr, cost, wrt) else (on_scalars, on_arrays)
    try:
        return first()
    except UnsupportedNativeOperation as reason:
        try:
            return second()
        except UnsupportedNativeOperation:
            # Report the error of the preferred choice.
            raise reason from None


def _suits_arrays(jaxpr: core.Jaxpr, cost: float, wrt: Collection[int]) -> bool:
    """Whether array loops are expected to be faster to compile or run than unrolled scalars."""
    if _longest_recursion(jaxpr) > size_limits.RECURSION:
        return True
    like: list[Any] = [v.aval for v in jaxpr.invars]
    # What a derivative is taken with respect to is written as well, at the same indices.
    reads = [is_read and k not in wrt for k, is_read in enumerate(read_only(jaxpr))]
    numbers = sum(math.prod(aval.shape) for aval, is_read in zip(like, reads, strict=True) if not is_read)
    if numbers > size_limits.ON_ARRAYS:
        count = count_operations(jaxpr)
        return count <= size_limits.OPERATIONS_ON_ARRAYS and cost > size_limits.SCALARS_EACH * count
    # Among few numbers only indices in large matrices that the program makes, such as an inverse, ask for arrays.
    few = numbers <= size_limits.SELECTED_NUMBERS or count_operations(jaxpr) > size_limits.OPERATIONS_ON_ARRAYS
    larger = size_limits.SELECTED_NUMBERS if few else 0
    return has_dynamic_indices(jaxpr, is_read=reads, larger=larger)


def _longest_recursion(jaxpr: core.Jaxpr, earlier: dict[int, int] | None = None) -> int:
    """The largest number of rows of a loop in which each needs the one before and leaves a row; 0 without any.

    `earlier`: results of programs that are called several times, by their addresses.
    """
    earlier = {} if earlier is None else earlier
    if id(jaxpr) not in earlier:
        longest = 0
        for eqn in jaxpr.eqns:
            if eqn.primitive is ROWS and 0 < eqn.params["num_carry"] < len(eqn.outvars):
                longest = max(longest, eqn.params["length"])
            longest = max([longest, *(_longest_recursion(inner, earlier) for inner, _ in programs_inside(eqn))])
        earlier[id(jaxpr)] = longest
    return earlier[id(jaxpr)]

"""Primitive of computations that machine code does in loops in memory: unrolled, they are large programs.

Everything else gets the program that such a kernel stands for.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.interpreters import ad, batching, mlir

KERNEL = core.Primitive("kernel")
"""It has the parameters `jaxpr`, the program that it stands for, and `kernel`."""


class AbstractKernel(abc.ABC):
    """What is computed; hashable.

    - `name`: by which back ends know it.
    """

    name: str

    @abc.abstractmethod
    def operands(self, *arrays: np.ndarray) -> list[Any]:
        """The numbers that it takes, from its arguments."""

    @abc.abstractmethod
    def result(self, values: list[Any], *arrays: np.ndarray) -> np.ndarray:
        """Its result, from the numbers that it returns and the arguments."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many it returns."""


def in_memory(kernel: AbstractKernel, program: Callable[..., Any], *arrays: Any) -> Any:
    """`program(*arrays)`, an array, by a kernel where there are such."""
    return KERNEL.bind(*arrays, jaxpr=jax.make_jaxpr(program)(*arrays), kernel=kernel)


def _evaluate(*arrays: Any, jaxpr: core.ClosedJaxpr, kernel: AbstractKernel) -> Any:
    del kernel
    return core.jaxpr_as_fun(jaxpr)(*arrays)[0]


def _derivative(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    along = tuple(ad.instantiate_zeros(x) for x in tangents)
    return jax.jvp(lambda *arrays: _evaluate(*arrays, **params), tuple(primals), along)


def _batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    return jax.vmap(lambda *arrays: _evaluate(*arrays, **params), in_axes=tuple(dims))(*args), 0


KERNEL.def_impl(_evaluate)
KERNEL.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals[0])
ad.primitive_jvps[KERNEL] = _derivative
batching.primitive_batchers[KERNEL] = _batch
mlir.register_lowering(KERNEL, mlir.lower_fun(_evaluate, multiple_results=False))

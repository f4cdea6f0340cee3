"""Functions traced once, to be unrolled into scalar programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.primitives.lowering import ARRAYS, Backend, lower
from polhode.compiler.scalars.backend import AbstractScalarBackend
from polhode.compiler.scalars.cost import cost
from polhode.compiler.scalars.flat_lists import split
from polhode.compiler.scalars.graph import leaf_values
from polhode.compiler.scalars.unroll import Unroller
from polhode.compiler.xla.scalar_backend import XlaBackend

_MAX_SPLIT = 1000
"""Largest size of a closed-over array that is split into elements."""


class TracedFunction:
    """`fun` traced once, to be evaluated on flat lists of scalars.

    **Arguments:**

    - `fun`: a function of pytrees of arrays.
    - `examples`: arguments to trace it with; only their structure, shapes and dtypes matter.
    - `target`: the backend that runs it.
    """

    def __init__(self, fun: Callable, *examples: Any, target: Backend = ARRAYS) -> None:
        leaves, structure = jax.tree.flatten(examples)

        def on_leaves(*flat: Any) -> Any:
            return fun(*jax.tree.unflatten(structure, flat))

        # Of trees of arrays JAX would first spell the name and the layout of each, a tenth of the time.
        closed_jaxpr, self.out_shape = jax.make_jaxpr(on_leaves, return_shape=True)(*map(_type_of, leaves))
        self.closed_jaxpr = lower(closed_jaxpr, target)
        self.cost = cost(self.closed_jaxpr.jaxpr, scans=target.rows is None)

    def call_on_arrays(self, *args: Any) -> Any:
        """The result of the function, evaluated on arrays."""
        flat = [jnp.asarray(x) for x in jax.tree.leaves(args)]
        return jax.tree.unflatten(jax.tree.structure(self.out_shape), core.jaxpr_as_fun(self.closed_jaxpr)(*flat))

    def constants(self) -> list[Any]:
        """The elements of closed-over tracers, such as the leaves of a system."""
        return [x for c in self.closed_jaxpr.consts if _is_split(c) for x in split(c)]

    def used_inputs(self) -> list[bool]:
        """Which elements of the arguments the results depend on, without products with structural zeros.

        Raises `UnsupportedScalarOperation` if an operation needs arrays.
        """
        slots = [_Slot(v.aval.dtype) for v in self.closed_jaxpr.jaxpr.invars for _ in range(math.prod(v.aval.shape))]
        unroller = Unroller(XlaBackend(None), scalars_only=True)
        inputs = unroller.restore(slots, [v.aval for v in self.closed_jaxpr.jaxpr.invars])
        consts = [unroller.unpack(c) for c in self.closed_jaxpr.consts]
        outs = unroller.evaluate(self.closed_jaxpr.jaxpr, consts, inputs)
        used = leaf_values([e for out in outs for e in out.flat])
        return [id(slot) in used for slot in slots]

    def __call__(self, flat: Sequence[Any], one: Any = None, constants: Sequence[Any] | None = None) -> list[jax.Array]:
        """The flat list of all elements of the result, from that of the arguments.

        `one` is a scalar that equals 1 at run time, which XLA does not know: see `XlaBackend`.
        `constants` stand in for `constants()`.
        """
        return self.emit(XlaBackend(one), flat, constants)

    def emit(
        self, backend: AbstractScalarBackend, flat: Sequence[Any], constants: Sequence[Any] | None = None
    ) -> list[Any]:
        """The same, emitted to a backend."""
        unroller = Unroller(backend)
        jaxpr = self.closed_jaxpr.jaxpr
        inputs = unroller.restore(flat, [v.aval for v in jaxpr.invars])
        constant_elements = iter(self.constants() if constants is None else constants)
        consts = [
            unroller.restore([next(constant_elements) for _ in range(math.prod(c.shape))], [v.aval])[0]
            if _is_split(c)
            else unroller.unpack(c)
            for v, c in zip(jaxpr.constvars, self.closed_jaxpr.consts, strict=True)
        ]
        outs = unroller.evaluate(jaxpr, consts, inputs)
        return unroller.flatten(outs, [v.aval for v in jaxpr.outvars])


def _type_of(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) if isinstance(x, jax.Array) else x


class _Slot:
    """Placeholder for a scalar of which only the dtype matters."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _is_split(constant: Any) -> bool:
    return isinstance(constant, Tracer) and math.prod(constant.shape) <= _MAX_SPLIT

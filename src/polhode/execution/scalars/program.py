"""Programs on scalars, and the choice between scalars and arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core

from polhode.execution.scalars.cost import ONE_FUNCTION, PLAIN, calls_out, cost, operations
from polhode.execution.scalars.emission import AbstractEmission
from polhode.execution.scalars.graph import leaves
from polhode.execution.scalars.on_jax import OnJax
from polhode.execution.scalars.packing import join, split
from polhode.execution.scalars.replay import Replay

SCALAR_LIMIT = 20_000
"""Steps of more scalar operations than this stay on arrays in XLA, whose compile time grows with the operations."""

# How far the count before simplification may exceed the limit: that of multibody systems falls to a quarter.
_WORTH_TRYING = 8

# Elements of an array that a program closes over, above which it stays an array.
_SPLIT = 1000

# A loop that calls a library runs as separate kernels, where scalars pay only for the smallest steps.
_CALLING_OUT = 10


class Program:
    """`fun` traced once, to be replayed on flat lists of scalars.

    **Arguments:**

    - `fun`: a function of pytrees of arrays.
    - `examples`: arguments to trace it with; only their structure, shapes and dtypes matter.
    - `scans`: whether scans become loops of scalars, which XLA knows nothing of.
    """

    def __init__(self, fun: Callable, *examples: Any, scans: bool = False) -> None:
        self.closed, self.out_shape = jax.make_jaxpr(fun, return_shape=True)(*examples)
        self.cost = cost(self.closed.jaxpr, scans=scans)

    def on_arrays(self, *args: Any) -> Any:
        """What the function returns, from its trace as it is."""
        flat = [jnp.asarray(x) for x in jax.tree.leaves(args)]
        return jax.tree.unflatten(jax.tree.structure(self.out_shape), core.jaxpr_as_fun(self.closed)(*flat))

    def constants(self) -> list[Any]:
        """The elements of what `fun` closes over and JAX traces, such as the leaves of a system."""
        return [x for c in self.closed.consts if _is_split(c) for x in split(c)]

    def reads(self) -> list[bool]:
        """Which elements of the arguments the results depend on once structural zeros are gone.

        Raises NeedsArrays for what can't be a few operations on scalars.
        """
        slots = [_Slot(v.aval.dtype) for v in self.closed.jaxpr.invars for _ in range(math.prod(v.aval.shape))]
        replay = Replay(OnJax(None), scalars_only=True)
        inputs = replay.restore(slots, [v.aval for v in self.closed.jaxpr.invars])
        consts = [replay.unpack(c) for c in self.closed.consts]
        outs = replay.evaluate(self.closed.jaxpr, consts, inputs)
        reached = leaves([e for out in outs for e in out.flat])
        return [id(slot) in reached for slot in slots]

    def __call__(self, flat: Sequence[Any], one: Any = None, constants: Sequence[Any] | None = None) -> list[jax.Array]:
        """From the flat list of all argument elements to that of all result elements.

        `one` is a scalar that equals 1 when the program runs but that XLA does not know: see `OnJax`.
        `constants` stand in for `constants()`.
        """
        return self.carried_out(OnJax(one), flat, constants)

    def carried_out(
        self, emission: AbstractEmission, flat: Sequence[Any], constants: Sequence[Any] | None = None
    ) -> list[Any]:
        """The same as operations of a program under construction."""
        replay = Replay(emission)
        jaxpr = self.closed.jaxpr
        inputs = replay.restore(flat, [v.aval for v in jaxpr.invars])
        given = iter(self.constants() if constants is None else constants)
        consts = [
            replay.restore([next(given) for _ in range(math.prod(c.shape))], [v.aval])[0]
            if _is_split(c)
            else replay.unpack(c)
            for v, c in zip(jaxpr.constvars, self.closed.consts, strict=True)
        ]
        outs = replay.evaluate(jaxpr, consts, inputs)
        return replay.flatten(outs, [v.aval for v in jaxpr.outvars])


class _Slot:
    """Stands for a scalar of which only the dtype matters."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _is_split(constant: Any) -> bool:
    return isinstance(constant, Tracer) and math.prod(constant.shape) <= _SPLIT


def scalarise(fun: Callable, limit: float, one_kernel: bool = False) -> Callable:
    """`fun` with its arithmetic done on scalars, or `fun` itself if that takes more than `limit` operations.

    Counted is what is left after structural zeros and repeated expressions are gone; a first guess without that decides
    whether it is worth trying. The result takes `one` (see `Program`) before the arguments of `fun`. `one_kernel` is
    for functions that consist of a loop: see `_one_kernel`.
    """

    def scalarised(one: Any, *args: Any) -> Any:
        program = Program(fun, *args)
        plain = not calls_out(program.closed.jaxpr, PLAIN)
        allowed = limit if plain else limit / _CALLING_OUT
        if program.cost > _WORTH_TRYING * allowed:
            return program.on_arrays(*args)
        # All that is used inside comes in as scalars, and the inputs are returned as well: XLA aborts on a parameter
        # that its own simplifications have left unused.
        given, closed_over = split(args), program.constants()
        flat, n = [one, *given, *closed_over], 1 + len(given)
        traced = jax.make_jaxpr(jax.jit(lambda x: [*program(x[1:n], x[0], x[n:]), *x]))(flat)
        if operations(traced.jaxpr) > allowed:
            return fun(*args)
        run = _one_kernel if one_kernel and plain else lambda closed, x: core.jaxpr_as_fun(closed)(*x)
        return join(run(traced, flat)[: -len(flat)], program.out_shape)

    return scalarised


def _one_kernel(closed: core.ClosedJaxpr, flat: list[jax.Array]) -> list[Any]:
    """Run a traced call and have XLA's CPU backend compile it, loops included, into one machine function.

    It does so by itself for loops that touch less than a kilobyte; a larger scalar loop would otherwise run as
    hundreds of separately called kernels, ten to thirty times slower. Other backends ignore the attributes.
    """
    (call,) = closed.eqns
    if calls_out(call.params["jaxpr"].jaxpr, ONE_FUNCTION):
        return core.jaxpr_as_fun(closed)(*flat)
    # Bound here with its body already traced: only the call may carry the attributes, not what is inside.
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        known = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *flat), strict=True))
        outs = call.primitive.bind(*(known[v] for v in call.invars), **call.params)
    # Otherwise JAX leaves out returned inputs that nobody asks for, and XLA aborts on those that only seem to be read.
    outs = jax.lax.optimization_barrier(outs)
    results = dict(zip(call.outvars, outs, strict=True))
    return [v.val if isinstance(v, core.Literal) else results.get(v, known.get(v)) for v in closed.jaxpr.outvars]

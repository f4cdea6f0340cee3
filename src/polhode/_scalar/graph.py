"""Graphs of scalar operations: folding, sharing, and emission in pieces that XLA compiles well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

Elements = np.ndarray
"""A NumPy object array with the shape of the value it stands for. Each element is a NumPy scalar, known while tracing,
or a `Node`."""

_SMALL = 10_000
"""Copies of operations that XLA may make before cuts pay; LLVM removes that many by itself."""

_CUT_ABOVE = 32
"""Operations behind a value used more than once, from which on it is computed only once."""

_NUMPY: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.invert,
    "copy": lambda a: a,
    "copy_p": lambda a: a,
    "stop_gradient": lambda a: a,
}


def _equation(function: Callable, *examples: Any) -> tuple[Any, dict]:
    """The primitive behind a function of `jax.lax`, with its parameters."""
    (eqn,) = jax.make_jaxpr(function)(*examples).eqns
    return eqn.primitive, eqn.params


_BINARY = {name: _equation(getattr(jax.lax, name), 1.0, 1.0) for name in ("add", "sub", "mul", "max", "min")}
_BINARY["and"] = _equation(jax.lax.bitwise_and, True, True)
_BINARY["or"] = _equation(jax.lax.bitwise_or, True, True)
_NEGATION = _equation(jax.lax.neg, 1.0)


def is_known(element: Any) -> bool:
    """Whether the value of an element is known while tracing."""
    return isinstance(element, np.generic)


def _equals(element: Any, number: float) -> bool:
    return is_known(element) and bool(element == number)


class Node:
    """A scalar that is known only when the program runs."""

    __slots__ = ("dtype", "operands", "params", "primitive", "value")

    def __init__(self, primitive: Any, params: dict, operands: tuple, dtype: Any, value: Any = None) -> None:
        self.dtype = dtype
        self.primitive = primitive
        self.params = params
        self.operands = operands
        self.value = value


class Graph:
    """Scalar expressions under construction; equal ones are one node.

    **Arguments:**

    - `one`: see `emit`; None leaves large graphs uncut.
    """

    def __init__(self, one: Any) -> None:
        self.one = one
        self._nodes: dict[Any, Node] = {}

    def leaf(self, value: Any) -> Node:
        """The node of a JAX scalar."""
        key = ("leaf", id(value))
        if key not in self._nodes:
            self._nodes[key] = Node(None, {}, (), value.dtype, value)
        return self._nodes[key]

    def operation(self, primitive: Any, params: dict, dtype: Any, operands: Sequence[Any]) -> Any:
        """A node, or a known scalar or an operand where that is all that is left of the operation."""
        name = primitive.name
        if name == "select_n" and is_known(operands[0]):
            return operands[1 + int(operands[0])]
        if name == "select_n" and all(o is operands[1] for o in operands[2:]):
            return operands[1]
        if all(is_known(o) for o in operands):
            if name == "convert_element_type":
                return operands[0].astype(dtype)
            if name == "integer_pow":
                return dtype.type(operands[0] ** params["y"])
            if name in _NUMPY and not (name == "div" and np.issubdtype(dtype, np.integer)):
                return dtype.type(_NUMPY[name](*operands))
        if np.issubdtype(dtype, np.floating):
            short = self._shortcut(name, *operands) if name in ("add", "sub", "mul", "div") else None
            if short is not None:
                return short
        return self._node(primitive, params, tuple(operands), dtype)

    def binary(self, name: str, a: Any, b: Any) -> Any:
        """a + b and the like, for sums and products."""
        if is_known(a) and is_known(b):
            return type(a)(_NUMPY[name](a, b))
        short = self._shortcut(name, a, b) if name in ("add", "sub", "mul") else None
        return short if short is not None else self._node(*_BINARY[name], (a, b), a.dtype)

    def _shortcut(self, name: str, a: Any, b: Any) -> Any | None:
        """Structural zeros and ones drop out; None if nothing can be saved."""
        zero_a, zero_b = _equals(a, 0), _equals(b, 0)
        zero = a if zero_a else b
        if name == "add":
            return b if zero_a else a if zero_b else None
        if name == "sub":
            return a if zero_b else self._node(*_NEGATION, (b,), b.dtype) if zero_a else None
        if name == "mul":
            if zero_a or zero_b:
                return abs(zero)
            return b if _equals(a, 1) else a if _equals(b, 1) else None
        if zero_a and not zero_b:
            return abs(zero)
        return a if _equals(b, 1) else None

    def _node(self, primitive: Any, params: dict, operands: tuple, dtype: Any) -> Node:
        identity = tuple((o.dtype, o.tobytes()) if is_known(o) else id(o) for o in operands)
        key = (primitive, tuple((k, str(v)) for k, v in params.items()), identity)
        if key not in self._nodes:
            self._nodes[key] = Node(primitive, params, operands, dtype)
        return self._nodes[key]

    def emit(self, wanted: Sequence[Any]) -> list[Any]:
        """JAX scalars (or known ones) for these elements.

        XLA copies every operation into the kernel of every value that needs it, so a graph with many outputs grows by
        that factor. It never copies divisions. So in large graphs a value that is used more than once and has much
        behind it is divided by `one`, a 1 that XLA does not know to be 1: exact, and computed once.
        """
        order = _sorted([e for e in wanted if isinstance(e, Node)])
        cuts = self._cuts(order, wanted) if self.one is not None else frozenset()
        for node in order:
            operands = (o.value if isinstance(o, Node) else o for o in node.operands)
            node.value = node.primitive.bind(*operands, **node.params)
            if node in cuts:
                node.value = jax.lax.div_p.bind(node.value, self.one)
        return [e.value if isinstance(e, Node) else e for e in wanted]

    def _cuts(self, order: list[Node], wanted: Sequence[Any]) -> frozenset[Node]:
        """Nodes that are to be computed only once."""
        uses = dict.fromkeys(order, 0)
        for node in order:
            for operand in set(node.operands):
                if operand in uses:
                    uses[operand] += 1
        for cut_above in (None, _CUT_ABOVE):
            cuts, behind, total = set(), {}, 0
            for k, node in enumerate(order):
                mask = 1 << k
                for operand in node.operands:
                    mask |= behind.get(operand, 0)
                size = mask.bit_count()
                if cut_above and uses[node] > 1 and size > cut_above and node.dtype == self.one.dtype:
                    cuts.add(node)
                    total += size
                    mask = 0
                behind[node] = mask
            total += sum(behind[e].bit_count() for e in {e for e in wanted if isinstance(e, Node)} if e in behind)
            if total <= _SMALL:
                break
        return frozenset(cuts)


def _sorted(roots: Sequence[Node]) -> list[Node]:
    """The nodes behind `roots` that have no value yet, operands first."""
    order: list[Node] = []
    seen: set[Node] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                order.append(node)
            elif node not in seen and node.value is None:
                seen.add(node)
                stack.append((node, True))
                stack.extend((o, False) for o in node.operands if isinstance(o, Node) and o.value is None)
    return order


def leaves(roots: Sequence[Any]) -> set[int]:
    """Identities of the values of all leaves behind some elements."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [root for root in roots if isinstance(root, Node)]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.primitive is None:
            found.add(id(node.value))
        stack.extend(o for o in node.operands if isinstance(o, Node))
    return found

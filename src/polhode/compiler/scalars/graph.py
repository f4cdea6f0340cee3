"""Graphs of scalar operations: constant folding, common subexpressions, topological order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from polhode.compiler.scalars.backend import AbstractScalarBackend, Kind

Elements = np.ndarray
"""A NumPy object array with the shape of the value it stands for. Each element is a NumPy scalar, for a constant, or a
`Node`."""

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


def _kind(function: Callable, *examples: Any) -> Kind:
    """The primitive of a function of `jax.lax`, with its parameters."""
    (eqn,) = jax.make_jaxpr(function)(*examples).eqns
    return Kind(eqn.primitive.name, eqn.params, eqn.primitive)


_BINARY = {name: _kind(getattr(jax.lax, name), 1.0, 1.0) for name in ("add", "sub", "mul", "max", "min")}
_BINARY["and"] = _kind(jax.lax.bitwise_and, True, True)
_BINARY["or"] = _kind(jax.lax.bitwise_or, True, True)
_NEGATION = _kind(jax.lax.neg, 1.0)
_OPPOSITE = {"add": _BINARY["sub"], "sub": _BINARY["add"]}


def is_known(element: Any) -> bool:
    """Whether an element is a constant."""
    return isinstance(element, np.generic)


def is_zero(element: Any) -> bool:
    """Whether an element is a constant zero."""
    return _equals(element, 0)


def _equals(element: Any, number: float) -> bool:
    return is_known(element) and bool(element == number)


def _power(base: Any, exponent: int) -> Any:
    """A whole power by repeated squares, with the rounding of compiled code."""
    square, result, count = base, type(base)(1), abs(exponent)
    with np.errstate(all="ignore"):
        while count:
            result = result * square if count & 1 else result
            count >>= 1
            square = square * square
        return type(base)(1) / result if exponent < 0 else result


class Node:
    """A scalar that is computed at run time."""

    __slots__ = ("dtype", "kind", "operands", "value")

    def __init__(self, kind: Kind | None, operands: tuple, dtype: Any, value: Any = None) -> None:
        self.dtype, self.kind, self.operands, self.value = dtype, kind, operands, value


class Graph:
    """Scalar expressions under construction; equal ones are one node.

    **Arguments:**

    - `backend`: to which operations are emitted.
    """

    def __init__(self, backend: AbstractScalarBackend) -> None:
        self._backend = backend
        self._nodes: dict[Any, Node] = {}

    def leaf(self, value: Any) -> Node:
        """The node of an emitted scalar or an input."""
        key = ("leaf", id(value))
        if key not in self._nodes:
            self._nodes[key] = Node(None, (), value.dtype, value)
        return self._nodes[key]

    def operation(self, kind: Kind, dtype: Any, operands: Sequence[Any]) -> Any:
        """The result of an operation: a node, or a constant or an operand if it simplifies to that."""
        name = kind.name
        if name == "select_n" and is_known(operands[0]):
            return operands[1 + int(operands[0])]
        if name == "select_n" and all(o is operands[1] for o in operands[2:]):
            return operands[1]
        is_constant = [isinstance(o, np.generic) for o in operands]
        if not any(is_constant):
            return self._node(kind, tuple(operands), dtype)
        if all(is_constant):
            if name == "convert_element_type":
                return operands[0].astype(dtype)
            if name == "integer_pow":
                return _power(operands[0], kind.params["y"])
            if name in _NUMPY and not (name == "div" and dtype.kind in "iu"):
                # Infinite or NaN without a warning, as in compiled code; it may belong to an unselected branch.
                with np.errstate(all="ignore"):
                    return dtype.type(_NUMPY[name](*operands))
        if dtype.kind == "f":
            short = self._shortcut(name, *operands) if name in ("add", "sub", "mul", "div") else None
            if short is not None:
                return short
        return self._node(kind, tuple(operands), dtype)

    def binary(self, name: str, a: Any, b: Any) -> Any:
        """A binary operation of sums, products and reductions."""
        if isinstance(a, np.generic):
            if isinstance(b, np.generic):
                return type(a)(_NUMPY[name](a, b))
        elif type(b) is Node:
            return self._node(_BINARY[name], (a, b), a.dtype)
        short = self._shortcut(name, a, b) if name in ("add", "sub", "mul") else None
        return short if short is not None else self._node(_BINARY[name], (a, b), a.dtype)

    def _shortcut(self, name: str, a: Any, b: Any) -> Any | None:
        """Drops structural zeros and ones; None if the operation does not simplify."""
        zero_a, zero_b = _equals(a, 0), _equals(b, 0)
        zero = a if zero_a else b
        if name == "add":
            return b if zero_a else a if zero_b else None
        if name == "sub":
            return a if zero_b else self._node(_NEGATION, (b,), b.dtype) if zero_a else None
        if name == "mul":
            if zero_a or zero_b:
                return abs(zero)
            return b if _equals(a, 1) else a if _equals(b, 1) else None
        if zero_a and not zero_b:
            return abs(zero)
        return a if _equals(b, 1) else None

    def _node(self, kind: Kind, operands: tuple, dtype: Any) -> Node:
        if kind.name in _OPPOSITE:
            kind, operands = _without_negation(kind, *operands)
        key = (kind.key, *[(o.dtype, o.tobytes()) if isinstance(o, np.generic) else id(o) for o in operands])
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(kind, operands, dtype)
        return node

    def emit(self, elements: Sequence[Any]) -> list[Any]:
        """Scalars of the program under construction, or constants, for these elements."""
        self._backend.emit(_topological_order([e for e in elements if isinstance(e, Node)]), elements)
        return [e.value if isinstance(e, Node) else e for e in elements]


def _without_negation(kind: Kind, a: Any, b: Any) -> tuple[Kind, tuple[Any, Any]]:
    """A sum or difference with a negative operand as the other one, with the same bits."""
    if _is_negation(b):
        return _OPPOSITE[kind.name], (a, b.operands[0])
    if kind.name == "add" and _is_negation(a):
        return _OPPOSITE["add"], (b, a.operands[0])
    return kind, (a, b)


def _is_negation(x: Any) -> bool:
    return type(x) is Node and x.kind is not None and x.kind.name == "neg"


def _topological_order(roots: Sequence[Node]) -> list[Node]:
    """The nodes without a value on which `roots` depend, operands first."""
    order: list[Node] = []
    visited: set[Node] = set()
    for root in roots:
        # A node below None has its operands before it in the order.
        stack: list[Any] = [root] if root.value is None else []
        while stack:
            node = stack.pop()
            if node is None:
                order.append(stack.pop())
            elif node not in visited:
                visited.add(node)
                stack += (node, None)
                stack += [o for o in node.operands if type(o) is Node and o.value is None]
    return order


def leaf_values(roots: Sequence[Any]) -> set[int]:
    """Identities of the values of all leaves on which elements depend."""
    values: set[int] = set()
    visited: set[int] = set()
    stack = [root for root in roots if isinstance(root, Node)]
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if node.kind is None:
            values.add(id(node.value))
        stack.extend(o for o in node.operands if isinstance(o, Node))
    return values

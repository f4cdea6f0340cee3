"""Rebuilds models with other parameters by replaying the calls that built them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from polhode.assembly.history import Call
from polhode.assembly.parameters import AbstractExpression, Parameter, substitute
from polhode.checks import short_repr
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.joints.string_length import Pulley, Wrap
from polhode.multibody.bodies import Body
from polhode.multibody.parts import AbstractComposite, AbstractPart

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


_ARRAY_FIELDS = ("x", "R", "u", "omega")


def declared_parameters(values: Any) -> dict[str, Parameter]:
    """The parameters in the arguments of a model, by name. Raises ValueError for two of one name."""
    parameters: dict[str, Parameter] = {}
    for expression in _expressions(values, set()):
        for name, parameter in expression.parameters().items():
            first = parameters.setdefault(name, parameter)
            if first is not parameter and not np.array_equal(first.default, parameter.default):
                raise ValueError(
                    f"Two parameters are called {name!r}, with the values {short_repr(first.default.tolist())} and "
                    f"{short_repr(parameter.default.tolist())}. Use one Parameter in both places, or two names."
                )
    return parameters


def _expressions(value: Any, visited: set[int]) -> Iterator[AbstractExpression]:
    if isinstance(value, AbstractExpression):
        yield value
    elif isinstance(value, Mapping):
        yield from (x for each in value.values() for x in _expressions(each, visited))
    elif isinstance(value, tuple | list):
        yield from (x for each in value for x in _expressions(each, visited))
    elif isinstance(value, eqx.Module):
        yield from (x for x in jax.tree.leaves(value) if isinstance(x, AbstractExpression))
    elif _is_part(value) and id(value) not in visited:
        visited.add(id(value))
        yield from _expressions(_fields(value), visited)


def _is_part(value: Any) -> bool:
    is_kind = isinstance(value, AbstractPart | AbstractComposite | AbstractMeasured | Wrap | Pulley)
    return is_kind and dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.init}


class Replay:
    """Replays the calls of a model on a new one, with other values of its parameters."""

    def __init__(self, old: ModelParts, new: ModelParts, values: Mapping[str, Any]) -> None:
        self._old, self._new, self._values = old, new, values
        self._known: dict[int, Any] = {id(old.ground): new.ground}

    def run(self, calls: Sequence[Call]) -> None:
        """Replay all calls."""
        for call in calls:
            options = {name: self.translate(each) for name, each in call.options.items()}
            before = len(self._new.bodies)
            result = getattr(self._new, call.name)(*map(self.translate, call.arguments), **options)
            self._known[id(call.result)] = result
            # Bodies are added in the same order; users pass arrays of them to later calls.
            for old, new in zip(self._old.bodies[before:], self._new.bodies[before:], strict=False):
                self._known |= {id(old): new, **{id(getattr(old, k)): getattr(new, k) for k in _ARRAY_FIELDS}}

    def translate(self, value: Any) -> Any:
        """The counterpart in the new model of a value of the old one."""
        if isinstance(value, AbstractExpression):
            return value.substitute(self._values)
        if id(value) in self._known:
            return self._known[id(value)]
        if isinstance(value, Body):
            return self._new.body(value.name)
        if isinstance(value, Mapping):
            return {key: self.translate(each) for key, each in value.items()}
        if type(value) in (tuple, list):
            return type(value)(map(self.translate, value))
        if isinstance(value, eqx.Module):
            module = jax.tree.map(lambda x: substitute(x, self._values), value)
            self._known[id(value)] = module
            return module
        if _is_part(value):
            part = type(value)(**{name: self.translate(each) for name, each in _fields(value).items()})
            self._known[id(value)] = part
            return part
        return value

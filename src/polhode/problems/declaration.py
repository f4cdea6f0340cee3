"""Declarations of named problems: each parameter is said once, and the rest is derived from that.

A builder's signature says the names, the defaults and which numbers are taken; the list of arguments in its docstring
says what they mean. Checks with their errors, the problem's description, its parameters and the comparison with the
defaults follow from both. The builder gets the checked values and returns a draft: a problem without all that.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, ParamSpec, Protocol

import numpy as np

from polhode import checks
from polhode.problem import Observable, Problem, Reference
from polhode.problems.registry import register
from polhode.systems.base import AbstractSystem, State
from polhode.viewing.scene.scene import Scene

P = ParamSpec("P")

_ITEM = re.compile(r"^- ((?:`\w+`(?:,\s+)?)+):\s+(.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
"""Names and text of an item in a list of arguments."""


class Check(NamedTuple):
    """The check of an annotated parameter.

    - `function`: (name, value, shape of the default, meaning) → checked value, see `polhode.checks`.
    - `meaning`: for its errors, where that is not the one in the docstring.
    """

    function: Callable[[str, Any, tuple[int, ...], str], Any]
    meaning: str | None = None


Number = Annotated[Any, Check(checks.array)]
"""A finite number, or an array of them of the shape of the default."""

Positive = Annotated[Any, Check(checks.positive)]
"""The same, greater than zero."""

NotNegative = Annotated[Any, Check(checks.not_negative)]
"""The same, at least zero."""

Directions = Annotated[Any, Check(checks.unit_vectors)]
"""Unit vectors along the last axis, in the shape of the default."""

Count = Annotated[int, Check(lambda name, value, shape, meaning: checks.count(name, value, meaning))]
"""An integer of at least one."""


class Head(NamedTuple):
    """The fields of a `Problem` that follow from its declaration."""

    name: str
    t_span: tuple[Any, Any]
    parameters: Mapping[str, Any]
    doc: str
    reference: Mapping[str, Reference]


Make = Callable[[Mapping[str, Any], Any], Problem]
"""(parameters, what an earlier draft has settled or None) → problem."""


class AbstractDraft(Protocol):
    """The result of a builder.

    - `reference`: as in `Problem`. - `independent_of`: parameters that the references don't depend on, which hold only
      where all others have their defaults; None for references that belong to any parameters.
    """

    @property
    def reference(self) -> Mapping[str, Reference]: ...

    @property
    def independent_of(self) -> tuple[str, ...] | None: ...

    def problem(self, head: Head, build: Callable[..., Problem], make: Make, settled: Any) -> Problem:
        """The complete problem; `build` rebuilds it from parameters, `make` with what this draft has settled."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Draft:
    """A problem of any system, less its head; see `Problem` for the fields and `AbstractDraft` for `independent_of`."""

    system: AbstractSystem
    state0: State
    outputs: Mapping[str, Observable]
    invariants: Mapping[str, Observable]
    integrator: str
    h: float
    scene: Scene | None = None
    reference: Mapping[str, Reference] = dataclasses.field(default_factory=dict)
    independent_of: tuple[str, ...] | None = None

    def problem(self, head: Head, build: Callable[..., Problem], make: Make, settled: Any) -> Problem:
        del make, settled
        return Problem(
            system=self.system,
            state0=self.state0,
            outputs=self.outputs,
            invariants=self.invariants,
            integrator=self.integrator,
            h=self.h,
            scene=self.scene,
            build=build,
            **head._asdict(),
        )


def declare(name: str, story: str) -> Callable[[Callable[P, AbstractDraft]], Callable[P, Problem]]:
    """Decorator that lists a builder of drafts, see `register`, as a function that returns the problem.

    **Arguments:**

    - `name`: of the problem. - `story`: what it is and where its data come from; its parameters are appended.
    """

    def add(builder: Callable[P, AbstractDraft]) -> Callable[P, Problem]:
        declaration = Declaration(name, story, builder)

        @functools.wraps(builder)
        def build(*args: P.args, **named: P.kwargs) -> Problem:
            return declaration.problem(declaration.bind(args, named), None, build_listed)

        vars(build)["__signature__"] = declaration.signature.replace(return_annotation="Problem")
        build_listed = register(name)(build)
        return build_listed

    return add


@dataclasses.dataclass(frozen=True, eq=False)
class Declaration:
    """The name, the story and the parameters of a problem, as its builder says them."""

    name: str
    story: str
    builder: Callable[..., AbstractDraft]

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """Of the builder."""
        return inspect.signature(self.builder)

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """By the name of the parameter."""
        return {name: parameter.default for name, parameter in self.signature.parameters.items()}

    @functools.cached_property
    def meanings(self) -> dict[str, str]:
        """By the name of the parameter: the text of its item up to the first semicolon or full stop."""
        items = _ITEM.findall(_arguments(self.builder))
        return {
            name: re.split(r";|\.(?:\s|$)", " ".join(text.split()))[0]
            for names, text in items
            for name in re.findall(r"`(\w+)`", names)
        }

    @property
    def doc(self) -> str:
        """The story, and the parameters."""
        return describe(self.story, self.builder)

    @functools.cached_property
    def _checks(self) -> dict[str, Check]:
        annotations = inspect.signature(self.builder, eval_str=True).parameters
        return {
            name: check
            for name, parameter in annotations.items()
            for check in getattr(parameter.annotation, "__metadata__", ())
        }

    def bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters of a call of the builder, by name."""
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{self.builder.__name__}() {error}") from None
        return {**self.defaults, **bound.arguments}

    def check(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with checked values. Raises ValueError with name, meaning and value of a wrong one."""
        values = dict(parameters)
        for name, (function, meaning) in self._checks.items():
            meaning = self.meanings.get(name, "") if meaning is None else meaning
            values[name] = function(name, values[name], np.shape(self.defaults[name]), meaning)
        return values

    def has_defaults(self, parameters: Mapping[str, Any], apart: tuple[str, ...]) -> bool:
        """Whether no parameter differs from its default, those in `apart` left out; False for traced ones."""
        return all(_same(parameters[name], self.defaults[name]) for name in self.defaults if name not in apart)

    def problem(self, parameters: Mapping[str, Any], settled: Any, build: Callable[..., Problem]) -> Problem:
        """The problem with these parameters."""
        draft = self.builder(**self.check(parameters))
        apart = draft.independent_of
        holds = apart is None or self.has_defaults(parameters, apart)
        head = Head(
            self.name,
            (0.0, parameters["duration"]),
            dict(parameters),
            self.doc,
            dict(draft.reference) if holds else {},
        )
        return draft.problem(head, build, lambda changed, again: self.problem(changed, again, build), settled)


def describe(story: str, builder: Callable[..., Any]) -> str:
    """The story of a problem, followed by the parameters as the builder's docstring says them."""
    return f"{story}\nParameters{_arguments(builder)}\n"


def _arguments(builder: Callable[..., Any]) -> str:
    return (inspect.getdoc(builder) or "").partition("**Arguments")[2].replace("**", "", 1).rstrip()


def _same(value: Any, default: Any) -> bool:
    if default is None or isinstance(default, str):
        return value is default or (isinstance(value, str) and value == default)
    return checks.is_concrete(value) and np.array_equal(value, default)

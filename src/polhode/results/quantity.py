"""Quantities of results, declared once, and results by name that have them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from polhode.checks import short_repr
from polhode.modules import Module
from polhode.name_errors import UnknownName
from polhode.results.protocols import ResultView
from polhode.systems.base import Observable

if TYPE_CHECKING:
    from polhode.assembly.name_table import NameTable
    from polhode.multibody.system import MultibodySystem


class AbstractComputation(Module):
    """Computes arrays of all bodies, joints or forces of a system from its states (q, v).

    - `axes`: the arrays, by the names of the outputs that may have them, with the names of their axes but for time.
    - `takes_multipliers`: whether the multipliers of a run, where it has them, are a last argument.
    - `reads_contacts`: whether it needs contacts in fixed slots.
    - `saved_by`: the argument of `Model.problem` with which its arrays are saved in every frame.
    """

    system: eqx.AbstractVar[MultibodySystem]
    readings: eqx.AbstractVar[Any]
    axes: ClassVar[Mapping[str, tuple[str, ...]]]
    takes_multipliers: ClassVar[bool] = False
    reads_contacts: ClassVar[bool] = False
    saved_by: ClassVar[str] = "save=[…]"

    @classmethod
    def of(cls, system: MultibodySystem, name_table: NameTable) -> AbstractComputation:
        """The computation for a system."""
        return cls(system, name_table.readings)

    def at_rest(self) -> AbstractComputation:
        """The same at equilibria, where nothing accelerates."""
        return self

    @abc.abstractmethod
    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        """The arrays in one state, by the last part of their names."""


Names = str | tuple[str, str] | None
"""A name; or two, for the only label and for one of several; or none."""

_OWN = "{name}"
"""Stands for the name of the attribute."""


@dataclasses.dataclass(eq=False)
class Quantity:
    """A quantity of a body, joint, force or contact, declared as an attribute of the class of its results.

    All that is known of it stands in its declaration: attributes of results, tables, charts, units and lists in
    documentation follow.

    **Arguments:**

    - `kind`: decides the unit: "length", "angle", "velocity", "spin", "force", "moment", "power", "energy",
      "momentum", "angular momentum", "curvature"; others have none. Two kinds are those along lengths and about angles.
    - `read`: its values as a function of the results of one body, joint or force. By default they are
      a part of `array`.
    - `array`: name of the output with the values of all bodies, joints or forces, or of several from which it can be
      read; and `computation`, which computes the first one where it is not saved.
    - `over`: what it has a value of each for, such as the "coordinates" of a joint; it is a dictionary then.
    - `components`: a letter each, "xyz" of vectors; none of scalars.
    - `column`: name in tables, to which components are appended; None for none. `title`: name in charts; None for none.
      By default that of the attribute. `{label}` is the label of a quantity with `over`, `{effort}` "torque" or
      "effort"; two names are for the only label and for one of several.
    - `first`: whether charts show it initially, if it has one label.
    - `applies`: whether a body, joint or force has it, as a function of its results.
    - `doc`: its shape and what it is, for lists of the quantities.
    """

    kind: str | tuple[str, str] = ""
    read: Callable[[Any], Any] | None = None
    _: dataclasses.KW_ONLY
    array: str | tuple[str, ...] = ()
    computation: type[AbstractComputation] | None = None
    over: str = ""
    components: str = ""
    column: Names = _OWN
    title: Names = _OWN
    first: bool = False
    applies: Callable[[Any], bool] = lambda results: True
    doc: str = ""

    def __post_init__(self) -> None:
        self.name, self.__doc__ = "", self.doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        if self.column == _OWN:
            self.column = f"{name}_" if self.components else name
        if self.title == _OWN:
            self.title = name.replace("_", " ")

    def __get__(self, results: Any, owner: Any = None) -> Any:
        if results is None:
            return self
        if self.over:
            return {label: self.part(results, label) for label in results._labels(self.over)}
        return self.part(results)

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the outputs from which it can be read."""
        return (self.array,) if isinstance(self.array, str) else self.array

    def observables(self, system: MultibodySystem, name_table: NameTable) -> dict[str, Observable]:
        """The output that saves its array with every frame, as a function of states (q, v)."""
        if self.computation is None:
            raise ValueError(f"The quantity `{self.name}` is not saved, as it follows from what is.")
        computation, (group, _, name) = self.computation.of(system, name_table), self.arrays[0].rpartition(".")
        arrays: Any = lambda t, state: computation(t, *state)  # noqa: E731
        return {group: arrays} if group else {name: lambda t, state: arrays(t, state)[name]}

    def part(self, results: AbstractNamedResults, label: str = "") -> Array:
        """The values of one body, joint or force, and of one label of a quantity with `over`."""
        if self.read is not None:
            return self.read(results)[label] if self.over else self.read(results)
        row = results._labels(self.over)[label] if self.over else results._row(self)
        values = results._array(self.arrays[0], self.computation)
        return values[..., row, :] if self.components else values[..., row]

    def is_readable(self, results: AbstractNamedResults) -> bool:
        """Whether it was saved, or follows from what was saved."""
        if self.arrays:
            return any(lookup(results._run.saved.outputs, array) is not None for array in self.arrays)
        with contextlib.suppress(UnknownName):
            return self.__get__(results) is not None
        return False

    def columns(self, results: AbstractNamedResults, label: str) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Names of its columns in tables, without that of the body, joint or force, and functions that read them."""
        stem = self._spell(self.column, results, label)
        if not self.components:
            yield stem, lambda: self.part(results, label)
        for i, component in enumerate(self.components):
            yield f"{stem}{component}", lambda i=i: self.part(results, label)[..., i]

    def title_of(self, results: AbstractNamedResults, label: str) -> str:
        """Name in charts."""
        return self._spell(self.title, results, label)

    def kind_of(self, results: Any, label: str) -> str:
        """The kind of the values of a label."""
        return self.kind if isinstance(self.kind, str) else self.kind[label in results.angles]

    def _spell(self, names: Names, results: Any, label: str) -> str:
        name = names[len(results._labels(self.over)) > 1] if isinstance(names, tuple) else names
        if not (name and self.over):
            return name or ""
        return name.format(label=label, effort="torque" if label in results.angles else "effort")


class AbstractNamedResults:
    """Results of a body, joint, force or contact by name: the quantities that its class declares."""

    _what: ClassVar[str]

    def __init__(self, run: ResultView, name: str, description: Mapping[str, Any]) -> None:
        self._run, self.name, self._description = run, name, description

    def __init_subclass__(cls) -> None:
        items = [
            f"- `{name}` {each.doc}" for name, each in vars(cls).items() if isinstance(each, Quantity) and each.doc
        ]
        text = inspect.cleandoc(cls.__doc__ or "")
        cls.__doc__ = "\n".join((text, *(() if "\n- " in text else ("",)), *items))

    @property
    def _title(self) -> str:
        """Its kind, with its name."""
        return f"{self._what} {short_repr(self.name)}"

    @property
    def _quantities(self) -> list[str]:
        """Names of its quantities without labels."""
        return [each.name for each in declarations(type(self)) if not each.over]

    def _labels(self, over: str) -> Mapping[str, int]:
        """Labels of quantities, with their rows in arrays of all bodies, joints or forces."""
        return self._description.get(over, {})

    def _row(self, quantity: Quantity) -> int:
        """Row of a quantity in arrays of all bodies, joints or forces. Raises UnknownName for what it hasn't."""
        del quantity
        return self._description["row"]

    def _array(self, array: str, computation: type[AbstractComputation] | None) -> Any:
        """An array of all bodies, joints or forces: saved, or computed from the saved states."""
        values = lookup(self._run.saved.outputs, array)
        if values is not None:
            return values
        reader, name = self._run.reader, array.rpartition(".")[2]
        if reader is None or computation is None:
            raise UnknownName(
                f"`{name}` of {self._title} was not saved, and the problem is not at hand to compute it from the "
                "states. Give it, `polhode.load(path, problem=problem)`, or save it with every frame: "
                f"`model.problem(…, {computation.saved_by if computation else 'save=[…]'})`."
            )
        if reader.obstacle is not None:
            raise UnknownName(
                f"`{name}` of {self._title} was not saved, and can't be computed from the states: {reader.obstacle} "
                "Give the problem, `polhode.load(path, problem=problem)`."
            )
        return reader.values(self._run.saved, name, computation)


def lookup(outputs: Mapping[str, Any], array: str) -> Any:
    """An array among outputs, by its own name or in its group, as "joint_loads.joint_forces"; None without it."""
    group, _, name = array.rpartition(".")
    if name in outputs:
        return outputs[name]
    return outputs[group].get(name) if group and group in outputs else None


def declarations(results: type) -> list[Quantity]:
    """The quantities that a class of results declares, those of its bases first."""
    members = {name: each for base in reversed(results.__mro__) for name, each in vars(base).items()}
    return [each for each in members.values() if isinstance(each, Quantity)]


NO_MODEL = "the problem is not one of a model, or its model has none."
"""The reason for a run without names, for messages."""


def model_names(run: ResultView) -> Mapping[str, Any]:
    """Descriptions of the bodies, joints and forces of its model by name, as they are stored with the run."""
    return run.meta.get("names", {})

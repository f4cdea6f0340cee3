"""Contacts of a run by the names of bodies, of shapes, of rules, and of stops of events."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polhode.checks import short_repr
from polhode.integrators.nonsmooth.contact_record import WORK_KINDS
from polhode.name_errors import UnknownName, unknown_name
from polhode.printable import printable
from polhode.results.contact_laws import contact_pairs
from polhode.results.contacts import ContactPoints, ContactResults
from polhode.results.grips import GripResults, grips
from polhode.results.joint_contacts import JointContactResults, joint_contacts
from polhode.results.pivots import PivotResults, pivots
from polhode.results.protocols import ResultView
from polhode.results.quantity import model_names
from polhode.results.stops import StopResults, stops

_ANYTHING = "anything"
"""The other side of a contact of which one body is named."""

_NONE = (
    "Nothing in this run can touch: its model has no `contacts()`, no `add_contact`, and no event is an `impact` or "
    "`stop` without `rests_below`."
)


class Contacts(Mapping[Any, "ContactResults | StopResults | GripResults | JointContactResults | PivotResults"]):
    """Contacts by name: `contacts["floor", "foot"]`, by bodies or shapes in either order; or one name.

    One name is that of a body or shape, for all that touches it; that of `add_contact`; that of a stop of an event; or
    that of a rigid `JointStops`, a dry `JointFriction` or `PivotFriction`; compliant contacts with exact friction, of
    rods as well, by both names or by that of `add_contact`. Iteration goes over pairs of bodies, called
    "floor/foot" unless `add_contact` named them, over stops, over friction and stops along what is no coordinate of one
    joint, and over friction of ball joints.
    """

    def __init__(self, run: ResultView) -> None:
        self._run, self._stops, self._names = run, stops(run), model_names(run)
        self._along, self._pivots, self._grips = joint_contacts(run), pivots(run), grips(run)

    @functools.cached_property
    def _pairs(self) -> list[dict[str, Any]]:
        return contact_pairs(self._run)

    @functools.cached_property
    def _lists(self) -> dict[str, list[dict[str, Any]]]:
        """Pairs of shapes by the names of the list."""
        lists: dict[str, list[dict[str, Any]]] = {}
        for pair in self._pairs:
            lists.setdefault(pair["rule"] or "/".join(pair["bodies"]), []).append(pair)
        return lists

    @functools.cached_property
    def _touchable(self) -> list[str]:
        """Names of bodies and shapes that may touch."""
        names = [name for pair in self._pairs for name in (*pair["bodies"], *pair["shapes"]) if name is not None]
        return list(dict.fromkeys(names))

    def __getitem__(self, key: Any) -> ContactResults | StopResults | GripResults | JointContactResults | PivotResults:
        if isinstance(key, str) and key in self._stops:
            return self._stops[key]
        if isinstance(key, str) and key in self._along:
            return JointContactResults(self._run, key, self._along[key])
        if isinstance(key, str) and key in self._pivots:
            return PivotResults(self._run, key, self._pivots[key])
        if (name := self._grip_name(key)) is not None:
            return GripResults(self._run, name, self._grips[name])
        self._refuse_compliant(key)
        if not self._pairs:
            raise (
                unknown_name("contact", key, (*self._stops, *self._grips, *self._along, *self._pivots))
                if self._stops or self._grips or self._along or self._pivots
                else UnknownName(f"There is no contact {short_repr(key)}. {self._why_none}")
            )
        if isinstance(key, str) and key in self._lists:
            pairs = self._lists[key]
            return self._results(key, [(pair, 1) for pair in pairs], *pairs[0]["bodies"])
        if isinstance(key, str):
            return self._of_one(key)
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            raise UnknownName(f"A contact has one name or two, `contacts['floor', 'foot']`, got {short_repr(key)}.")
        return self._of_two(*key)

    def __iter__(self) -> Iterator[str]:
        joints = self._names.get("joints", {})
        of_joints = {k for each in joints.values() for own in each.get("resisted", {}).values() for k in own}
        others = (name for name, each in self._along.items() if not of_joints.issuperset(each["numbers"]))
        return iter((*self._lists, *self._grips, *self._stops, *others, *self._pivots))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return printable(f"{{{', '.join(self)}}}")

    def _ipython_key_completions_(self) -> list[Any]:
        return [*self, *self._touchable]

    def _grip_name(self, key: Any) -> str | None:
        """The name of the compliant contact with exact friction that is meant; None for none."""
        if isinstance(key, str):
            return key if key in self._grips else None
        ends = [{own["first"], own["second"]} for own in self._grips.values()]
        is_pair = isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)
        same = [name for name, own in zip(self._grips, ends, strict=True) if is_pair and own == {*key}]
        return same[0] if len(same) == 1 else None

    @property
    def _why_none(self) -> str:
        shaped = self._names.get("untouchable", ())
        if not shaped:
            return _NONE
        return (
            f"{', '.join(shaped)} have shapes, but no rule lets them touch: call `model.contacts()` before `problem`."
        )

    def _refuse_compliant(self, key: Any) -> None:
        """Raises UnknownName if only compliant contacts have the name, or names: they are forces."""
        ends = {key} if isinstance(key, str) else {*key} if isinstance(key, tuple) else set()
        lists = (pair for pairs in self._lists.items() for pair in ((pairs[0], of) for of in pairs[1]))
        if any(ends <= {name, *of["bodies"], *of["shapes"]} for name, of in lists):
            return
        forces = self._names.get("compliant", {})
        own = [name for name, bodies in forces.items() if ends == {name} or ends <= {*bodies}]
        if own:
            listed = ", ".join(f"`run.forces[{short_repr(name)}]`" for name in own)
            raise UnknownName(
                f"Compliant contacts are forces of the model: {listed}, with `force` on the second body, `moment`, "
                "`depth` and `power`."
            )
        if any(ends <= {*pair} for pair in self._names.get("rod_contacts", ())):
            raise UnknownName(
                f"Forces between rods and what they touch, such as {short_repr(key)}, are functions of the state: "
                "`polhode.rods.contact_forces(system, rod, other)`."
            )

    def _of_one(self, name: str) -> ContactResults:
        """All contacts of a body or shape; forces are those on it."""
        sides = [(pair, 1 if end else -1) for pair in self._pairs for end in (0, 1) if self._is(pair, end, name)]
        if not sides:
            raise self._unknown(name)
        return self._results(name, sides, _ANYTHING, name)

    def _of_two(self, first: str, second: str) -> ContactResults:
        sides = [
            (pair, 1 if end else -1)
            for pair in self._pairs
            for end in (0, 1)
            if self._is(pair, end, second) and self._is(pair, 1 - end, first)
        ]
        if not sides:
            for name in (first, second):
                if name not in self._touchable:
                    raise self._unknown(name)
            partners = {
                other for pair in self._pairs for end in (0, 1) if self._is(pair, end, first)
                for other in pair["bodies"][1 - end : 2 - end]
            }  # fmt: skip
            raise UnknownName(
                f"No rule lets {short_repr(first)} and {short_repr(second)} touch; {short_repr(first)} may touch "
                f"{', '.join(sorted(partners))}."
            )
        return self._results(f"{first}/{second}", sides, first, second)

    def _is(self, pair: Mapping[str, Any], end: int, name: str) -> bool:
        """Whether a name is that of a side of a pair; names of bodies come before those of shapes."""
        if name in self._bodies:
            return pair["bodies"][end] == name
        return pair["shapes"][end] == name

    @functools.cached_property
    def _bodies(self) -> set[str]:
        return {name for pair in self._pairs for name in pair["bodies"]}

    def _unknown(self, name: str) -> UnknownName:
        if name in self._names.get("bodies", ()):
            return UnknownName(
                f"Body {short_repr(name)} touches nothing: it has no shape, or no rule lets it touch another one. "
                f"These may touch: {', '.join(self)}."
            )
        return unknown_name("contact of", name, (*self._touchable, *self._lists, *self._stops))

    def _results(self, name: str, sides: list[tuple[dict[str, Any], int]], first: str, second: str) -> ContactResults:
        numbers = [np.arange(pair["points"][0], sum(pair["points"])) for pair, _ in sides]
        signs = [np.full(pair["points"][1], float(sign)) for pair, sign in sides]
        points = ContactPoints(np.concatenate(numbers), np.concatenate(signs), first, second)
        kinds = {kind: k for k, kind in enumerate(WORK_KINDS)}
        return self._run.classes.contacts(self._run, name, {"points": points, "kinds": kinds})

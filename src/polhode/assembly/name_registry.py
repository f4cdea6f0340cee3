"""Registry of the bodies and unique names of a model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from polhode import checks
from polhode.checks import short_repr
from polhode.flexible.flexible_body import FlexibleBody
from polhode.multibody.bodies import Body

AnyBody = TypeVar("AnyBody", bound=Body)

_MAX_NAMES = 20
"""Number of names in a message."""


class Register:
    """Bodies in order of addition, and all names, which are unique among bodies, joints and forces."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        # Names of bodies map to indices in the list, since searching takes long.
        self._names: dict[str, int | None] = {"ground": None}
        self._numbered: dict[str, int] = {}

    def take(self, body: AnyBody) -> AnyBody:
        """Add a body whose name is registered already."""
        self._names[body.name] = len(self.bodies)
        self.bodies.append(body)
        return body

    def name(self, name: str | None, kind: str) -> str:
        """Register a name, by default that of its kind with the next number. Raises ValueError if it is taken."""
        if name is None:
            # Names with smaller numbers are taken.
            numbers = itertools.count(self._numbered.get(kind, 0) + 1)
            self._numbered[kind] = next(n for n in numbers if f"{kind}-{n}" not in self._names)
            name = f"{kind}-{self._numbered[kind]}"
        if not isinstance(name, str) or not name:
            raise ValueError(f"`name` must be a word, or None for a name by number, got {short_repr(name)}.")
        if name in self._names:
            raise ValueError(f"The name {short_repr(name)} is taken in this model; names must be unique.")
        self._names[name] = None
        return name

    def takes(self, name: str) -> bool:
        """Whether a name is taken."""
        return name in self._names

    def has(self, body: Body) -> bool:
        """Whether this object, or the flexible body of which it is a node, is registered."""
        if body.carrier is not None:
            carriers = (other for other in self.bodies if other.name == body.carrier)
            return any(body is node for other in carriers if isinstance(other, FlexibleBody) for node in other.nodes)
        place = self._names.get(body.name)
        if place is not None and place < len(self.bodies) and self.bodies[place] is body:
            return True
        return any(body is other for other in self.bodies)

    def find(self, name: str) -> Body:
        """The body of that name. Raises ValueError, with the nearest and all names, if there is none."""
        nodes = [node for body in self.bodies if isinstance(body, FlexibleBody) for node in body.nodes]
        for body in (*self.bodies, *nodes):
            if body.name == name:
                return body
        names = [body.name for body in (*self.bodies, *nodes)]
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        listing = ", ".join(names[:_MAX_NAMES]) or "none"
        raise ValueError(
            f"The model has no body {short_repr(name)}.{checks.nearest(name, names)} It has {listing}{more}."
        )

    def savepoint(self) -> Callable[[], None]:
        """A function that removes what is registered from now on."""
        bodies, names = len(self.bodies), len(self._names)

        def undo() -> None:
            del self.bodies[bodies:]
            while len(self._names) > names:
                self._names.popitem()
            self._numbered.clear()

        return undo

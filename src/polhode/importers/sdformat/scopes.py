"""Worlds and models: the names in them, their frames, and the links to which frames are attached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from polhode import checks
from polhode.importers.construction import ORIGIN, Frame
from polhode.importers.sdformat import values
from polhode.importers.sdformat.documents import Document, Origin

_KINDS = ("link", "joint", "frame", "model")
_OWN = ("", "__model__")
"""Names of the frame of a model within the model."""
_WORLD = "world"


class Entity(NamedTuple):
    """Something with a frame. - `base`: name of the frame that its pose is given in. - `raw`: that pose."""

    element: Element
    kind: str
    base: str
    raw: Frame


class Link(NamedTuple):
    """A link. - `name`: as the world sees it. - `frame`: in the world. - `static`: whether it never moves."""

    name: str
    element: Element
    scope: Scope
    frame: Frame
    static: bool


class Scope:
    """A world or a model.

    - `prefix`: of names within it as the world sees them.
    - `path`: the models that it lies in and itself, outermost first.
    - `entities`, `models`: by name.
    - `static`: whether it, or a model that it lies in, is static. A world is.
    """

    def __init__(self, element: Element, origin: Origin, parent: Scope | None, prefix: str) -> None:
        self.element, self.origin, self.parent, self.prefix = element, origin, parent, prefix
        self.is_model = parent is not None
        self.label = f"model `{prefix[:-2] or element.get('name', '')}`" if self.is_model else "the world"
        self.path: tuple[Scope, ...] = () if parent is None else (*parent.path, self)
        own = self.is_model and values.flag(element, "static", self.label)
        self.static = parent is None or own or (bool(parent.path) and parent.static)
        self.entities: dict[str, Entity] = {}
        self.models: dict[str, Scope] = {}
        self._frames: dict[str, Frame] = {}
        for child in element:
            if child.tag in _KINDS:
                self._add(child)

    def _add(self, element: Element) -> None:
        kind, name = element.tag, element.get("name", "")
        if not name:
            raise ValueError(f"A <{kind}> of {self.label} has no name.")
        if name == _WORLD or (name.startswith("__") and name.endswith("__")):
            raise ValueError(f"A <{kind}> of {self.label} has the name `{name}`, which is reserved; give it another.")
        twin = self.entities.get(name)
        # Up to version 1.6 a joint may have the name of a link, and no pose refers to it.
        apart = twin is not None and self.origin.version < (1, 7) and (twin.kind == "joint") != (kind == "joint")
        if twin is not None and not apart:
            raise ValueError(
                f"A <{twin.kind}> and a <{kind}> of {self.label} have the name `{name}`; give one of them another."
            )
        pose = values.pose(element, f"{kind} `{self.prefix}{name}`")
        default = {"joint": values.text(element, "child"), "frame": element.get("attached_to", "")}.get(kind, "")
        entity = Entity(element, kind, pose.relative_to or default, pose.frame)
        if twin is not None and twin.kind == "joint":
            self.entities[f"{name} (joint)"] = self.entities.pop(name)
        self.entities[f"{name} (joint)" if twin is not None and kind == "joint" else name] = entity

    def add_models(self, document: Document, single: bool = False) -> None:
        """Adds all models within it. - `single`: whether names in its only model need no prefix."""
        for name, entity in self.entities.items():
            if entity.kind == "model":
                origin = document.origins.get(entity.element, self.origin)
                scope = Scope(entity.element, origin, self, "" if single else f"{self.prefix}{name}::")
                self.models[name] = scope
                scope.add_models(document)

    def scopes(self) -> Iterator[Scope]:
        """This scope and all models within."""
        yield self
        for scope in self.models.values():
            yield from scope.scopes()

    def links(self) -> list[Link]:
        """All links, with those of models within."""
        return [scope.link(name) for scope in self.scopes() for name, e in scope.entities.items() if e.kind == "link"]

    def link(self, name: str) -> Link:
        """One of its own links."""
        entity = self.entities[name]
        return Link(self.prefix + name, entity.element, self, self.in_world(name), self.static)

    def in_world(self, name: str) -> Frame:
        """A frame, by its name here, in the world."""
        return self.place.compose(self.frame(name))

    @property
    def place(self) -> Frame:
        """The frame of a model in the world."""
        if self.parent is None:
            return ORIGIN
        return self.parent.in_world(str(self.element.get("name")))

    def frame(self, name: str) -> Frame:
        """A frame, by its name here, in the frame of this scope. Raises ValueError for unknown names and circles."""
        passed: dict[str, Frame] = {}
        while not self._is_own(name) and name not in self._frames:
            if name in passed:
                raise ValueError(f"Poses in {self.label} lead around in a circle: {' → '.join((*passed, name))}.")
            try:
                base, passed[name] = self._step(name)
            except ValueError as error:
                user = f"The pose of `{self.prefix}{[*passed][-1]}`: " if passed else ""
                raise ValueError(f"{user}{error}") from error
            name = base
        result = self._frames.get(name, ORIGIN)
        for one, offset in reversed(passed.items()):
            result = self._frames[one] = result.compose(offset)
        return result

    def _is_own(self, name: str) -> bool:
        return name in (_OWN if self.is_model else ("", _WORLD))

    def _step(self, name: str) -> tuple[str, Frame]:
        """The frame that a frame is given in, and its pose there."""
        entity = self.entities.get(name)
        if entity is None:
            model, inner = self._within(name)
            return model, self.models[model].frame(inner)
        offset = entity.raw
        if entity.kind == "model":
            offset = offset.compose(self.models[name].frame(entity.element.get("placement_frame", "")).inverse())
        elif entity.element.get("merged"):
            offset = offset.compose(self._relative(str(entity.element.get("merged")), name).inverse())
        return entity.base, offset

    def _relative(self, name: str, to: str) -> Frame:
        """A frame in another one, to which its poses lead."""
        result, count = ORIGIN, 0
        while name not in (to, *_OWN) and count <= len(self.entities):
            name, offset = self._step(name)
            result, count = offset.compose(result), count + 1
        return result

    def _within(self, name: str) -> tuple[str, str]:
        """A name as that of a model and a name within it. Raises ValueError for unknown names."""
        model, _, inner = name.partition("::")
        if not inner or model not in self.models:
            names = ", ".join([*self.entities][:12]) + (", …" if len(self.entities) > 12 else "")
            raise ValueError(
                f"There is no frame `{name}` in {self.label}.{checks.nearest(name, self.entities)} "
                f"Known: {names or 'none'}."
            )
        return model, inner

    def find(self, name: str) -> tuple[Scope, Entity]:
        """An entity by its name here, `a::b` for one of the model `a`, with the scope it is in."""
        scope: Scope = self
        while name not in scope.entities:
            model, name = scope._within(name)
            scope = scope.models[model]
        return scope, scope.entities[name]

    def link_of(self, name: str) -> Link | None:
        """The link that a frame is attached to; None for the world. Raises ValueError for unknown names and circles."""
        scope: Scope = self
        passed: dict[tuple[int, str], None] = {}
        while name != _WORLD:
            if (id(scope), name) in passed:
                raise ValueError(
                    f"In {self.label} frames are attached around in a circle: {', '.join(n for _, n in passed)}."
                )
            passed[id(scope), name] = None
            if scope._is_own(name):
                if scope.static:
                    return None
                name = scope._canonical()
                continue
            scope, entity = scope.find(name)
            match entity.kind:
                case "link":
                    own = scope.link(str(entity.element.get("name")))
                    return None if own.static else own
                case "model":
                    scope, name = scope.models[str(entity.element.get("name"))], ""
                case "joint":
                    name = values.text(entity.element, "child")
                case _:
                    name = entity.element.get("attached_to", "")
        return None

    def _canonical(self) -> str:
        """The link, or model within, that the frame of a model is attached to."""
        kinds = {kind: [name for name, e in self.entities.items() if e.kind == kind] for kind in ("link", "model")}
        name = self.element.get("canonical_link") or next(iter((*kinds["link"], *kinds["model"])), None)
        if name is None:
            raise ValueError(f"{self.label.capitalize()} has no link that its frame could be attached to.")
        return name


def build_scopes(document: Document) -> Scope:
    """The world of a document, or one around its model. Names within a single model have no prefix."""
    root, origin = document.root, document.origins[document.root]
    worlds, models = root.findall("world"), root.findall("model")
    if len(worlds) + bool(models) > 1:
        names = ", ".join(f"<{each.tag}> `{each.get('name')}`" for each in (*worlds, *models))
        raise ValueError(f"It has more than one world or model: {names}. Keep one, or put the models into one world.")
    if not worlds and not models:
        raise ValueError("It has no <world> and no <model>.")
    scope = Scope(worlds[0] if worlds else root, origin, None, "")
    scope.add_models(document, single=not worlds and len(models) == 1)
    return scope

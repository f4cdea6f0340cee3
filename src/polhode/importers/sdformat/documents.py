"""Documents with all that they include, each model with the file that it comes from."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from polhode.checks import short_repr
from polhode.file_warning import ModelFileWarning
from polhode.importers import bounds
from polhode.importers.mesh_files import Finder, UnreadableFile
from polhode.importers.sdformat import values
from polhode.jax_context import warn

_OLDEST, _NEWEST = (1, 4), (1, 11)
_DEEPEST = 20
"""Depth of models within models and files within files."""
_DOWNLOAD = re.compile(r"https?://", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Origin:
    """The file of an element. - `version`: of SDFormat. - `finder`: of files that it refers to."""

    version: tuple[int, int]
    finder: Finder


@dataclasses.dataclass(frozen=True)
class Document:
    """A document in which models stand in place of <include>.

    - `root`: the `sdf`. - `origins`: of the elements that come from another file than what they stand in; of the root.
    """

    root: Element
    origins: dict[Element, Origin]


def expand(root: Element, finder: Finder) -> Document:
    """A document with its includes. Changes `root`. Raises ValueError, with the file, for what can't be read."""
    expansion = _Expansion({})
    expansion.expand(root, Origin(_version(root), finder), ())
    expansion.origins[root] = Origin(_version(root), finder)
    return Document(root, expansion.origins)


def _version(root: Element) -> tuple[int, int]:
    words = root.get("version", "")
    match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})(\.\d+)*", words.strip())
    if match is None:
        raise ValueError(f'<sdf> has the version {short_repr(words)}; write it as in <sdf version="1.9">.')
    version = int(match[1]), int(match[2])
    if version < _OLDEST:
        raise ValueError(f"It is SDFormat {words}; versions from 1.4 on are read. Convert it: gz sdf -p FILE.")
    if version > _NEWEST:
        warn(
            f"SDFormat {words} is newer than 1.11, the last version that is known; it is read as that.",
            ModelFileWarning,
        )
    return version


@dataclasses.dataclass
class _Expansion:
    """Puts models in place of includes, and counts what comes from files."""

    origins: dict[Element, Origin]
    elements: int = 0
    size: int = 0

    def expand(self, element: Element, origin: Origin, files: tuple[Path, ...], depth: int = 0) -> None:
        """Expands the includes in an `sdf`, world or model. - `files`: of the includes that led here."""
        if depth > 2 * _DEEPEST or len(files) > _DEEPEST:
            raise ValueError(f"Models or files lie within one another more than {_DEEPEST} deep; so deep none is read.")
        for child in list(element):
            if child.tag in ("world", "model"):
                self.expand(child, origin, files, depth + 1)
            elif child.tag == "include":
                place = list(element).index(child)
                element.remove(child)
                for number, part in enumerate(self._read_include(child, element, origin, files, depth)):
                    element.insert(place + number, part)

    def _read_include(
        self, include: Element, parent: Element, origin: Origin, files: tuple[Path, ...], depth: int
    ) -> list[Element]:
        """The model that an <include> names, as it asks for it; all of its elements if it is merged."""
        uri = values.text(include, "uri")
        path = _find(uri, origin.finder)
        if path.resolve() in files:
            raise ValueError(f"The files of <include> lead around in a circle: {uri} includes itself.")
        try:
            root = self._parse(path)
            inner = Origin(_version(root), Finder(path.parent, origin.finder.paths))
            if not root.findall("model") and root.find("light") is not None:
                return []
            model = _model_of(root)
            self.expand(model, inner, (*files, path.resolve()), depth + 1)
        except ValueError as error:
            raise ValueError(f"`{uri}`: {error}") from error
        _override(model, include, uri)
        if include.get("merge", "false").lower() not in ("true", "1"):
            self.origins[model] = inner
            return [model]
        parts = _merge_elements(model, parent, uri)
        self.origins.update(dict.fromkeys(parts, inner))
        return parts

    def _parse(self, path: Path) -> Element:
        bounds.regular_file(path, f"`{path.name}`")
        self.size += path.stat().st_size
        if self.size > bounds.LARGEST_FILE:
            raise ValueError(f"All files together have more than {bounds.LARGEST_FILE // 2**20} MB.")
        root = _parse(path)
        if root.tag != "sdf":
            raise ValueError(f"It has the root <{root.tag}>; <include> takes files of SDFormat, with the root <sdf>.")
        self.elements += sum(1 for _ in root.iter())
        if self.elements > bounds.MOST_ELEMENTS:
            raise ValueError(
                f"All files together have more than {bounds.MOST_ELEMENTS} elements, the most that is read."
            )
        return root


def _parse(path: Path) -> Element:
    try:
        return ElementTree.fromstring(path.read_bytes().lstrip())
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"It is not well-formed XML: {error}.") from error


def _find(uri: str, finder: Finder) -> Path:
    """The file of a URI: itself, or the model in a folder of that name."""
    if not uri:
        raise ValueError("An <include> has no <uri>.")
    if _DOWNLOAD.match(uri):
        raise ValueError(
            f"<include> names {uri}, and nothing is downloaded. Download it and give the path of its folder."
        )
    reasons = []
    # A folder may lie beside this file or in `mesh_paths`.
    for base in dict.fromkeys((uri, uri.removeprefix("model://"))):
        for name in (base, f"{base}/model.config", f"{base}/model.sdf"):
            try:
                path = finder.find(name)
                return finder.find(f"{base}/{_newest_file(path)}") if name.endswith("/model.config") else path
            except UnreadableFile as error:
                reasons.append(str(error))
    why = next((each for each in reasons if "not found" not in each and "no regular file" not in each), None)
    raise ValueError(
        f"<include> names {uri}, which {'is not found' if why is None else f'may not be read: {why}'}. Name the folder "
        "that holds it: mesh_paths=[…]."
    )


def _newest_file(path: Path) -> str:
    """The file of the newest known version in a model.config."""
    files = [(each.get("version", ""), (each.text or "").strip()) for each in _parse(path).iter("sdf")]
    numbers = [(tuple(map(int, v.split("."))), name) for v, name in files if re.fullmatch(r"\d{1,4}\.\d{1,4}", v)]
    best = max((each for each in numbers if each[0] <= _NEWEST), default=((), files[0][1] if files else "model.sdf"))
    return best[1]


def _model_of(root: Element) -> Element:
    models = [child for child in root if child.tag in ("model", "actor")]
    if len(models) != 1:
        raise ValueError(f"It has {len(models)} models; <include> takes files with one.")
    return models[0]


def _override(model: Element, include: Element, uri: str) -> None:
    """The changes that an <include> makes to its model."""
    name, frame = values.text(include, "name"), values.text(include, "placement_frame")
    if name:
        model.set("name", name)
    for tag in ("pose", "static"):
        own = include.find(tag)
        if own is not None:
            for old in model.findall(tag):
                model.remove(old)
            model.insert(0, own)
    if frame:
        if include.find("pose") is None:
            raise ValueError(
                f"<include> of {uri} has a <placement_frame> and no <pose>; give it the pose of that frame."
            )
        model.set("placement_frame", frame)
    for child in include:
        if child.tag not in ("uri", "name", "pose", "static", "placement_frame", "namespace"):
            model.append(child)


def _merge_elements(model: Element, parent: Element, uri: str) -> list[Element]:
    """The elements of a model as those of another; what referred to the model refers to a frame in its place."""
    if parent.tag != "model":
        raise ValueError(f'<include> of {uri} has merge="true" in a <{parent.tag}>; only models take in others so.')
    if values.flag(model, "static", f"model `{model.get('name')}`") and not values.flag(parent, "static", "a model"):
        raise ValueError(f"<include> of {uri} merges a static model into one that moves; make it a model of its own.")
    home = f"_merged__{model.get('name')}__model__"
    frame = ElementTree.Element("frame", {"name": home, "merged": model.get("placement_frame", "")})
    frame.set("attached_to", model.get("canonical_link") or _first_name(model))
    parts: list[Element] = [frame]
    for child in model:
        if child.tag == "pose":
            frame.append(child)
        elif child.tag not in ("static", "self_collide", "allow_auto_disable", "enable_wind"):
            parts.append(child)
            if child.tag in ("link", "frame", "model", "joint"):
                _refer(child, home)
    return parts


def _first_name(model: Element) -> str:
    first = next((child for tag in ("link", "model") for child in model.findall(tag)), None)
    return "" if first is None else first.get("name", "")


def _refer(element: Element, home: str) -> None:
    """Lets an element of a merged model refer to the frame `home` where it refers to its model."""
    if element.tag == "frame" and not element.get("attached_to"):
        element.set("attached_to", home)
    elif element.tag in ("link", "model"):
        pose = element.find("pose")
        pose = ElementTree.SubElement(element, "pose") if pose is None else pose
        pose.set("relative_to", pose.get("relative_to") or home)
    # The elements of a model within the model refer to their own.
    for each in (element, *element.findall("pose")) if element.tag == "model" else element.iter():
        for name in ("relative_to", "attached_to", "expressed_in"):
            if each.get(name) == "__model__":
                each.set(name, home)
        if each.tag in ("parent", "child") and (each.text or "").strip() == "__model__":
            each.text = home

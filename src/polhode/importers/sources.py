"""Sources of models: a file, XML as a string, or a specification of MuJoCo."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from polhode.checks import short_repr
from polhode.importers import bounds, xacro
from polhode.importers._mujoco import mujoco
from polhode.importers.formats import BY_ROOT, ENDINGS, FORMATS, MACROS, MJCF, SUFFIXES, ModelFormat


@dataclasses.dataclass(frozen=True)
class Source:
    """A document of a format that can be read.

    - `format`: by its root. - `label`: its name in messages.
    - `stem`: the default name of the model.
    - `origin`: the path or the text, from which the model can be read again; None for a specification.
    - `root`: of the document; None for a specification.
    - `path`: of the file, if it is one.
    - `text`: the XML in place of the file: the given string, or the expanded macros.
    - `specification`: a `mujoco.MjSpec` that the user has made.
    """

    format: ModelFormat
    label: str
    stem: str
    origin: str | None
    root: ElementTree.Element | None
    path: Path | None = None
    text: str | None = None
    specification: Any = None

    def build_spec(self) -> Any:
        """A new `mujoco.MjSpec` of MJCF. Raises ValueError with MuJoCo's message."""
        if self.specification is not None:
            return self.specification.copy()
        return mujoco.MjSpec.from_file(str(self.path)) if self.text is None else mujoco.MjSpec.from_string(self.text)


def read_source(path: Any) -> Source:
    """Source from a path, XML as a string or a `mujoco.MjSpec`. Raises ValueError for others and for no model."""
    if isinstance(path, mujoco.MjSpec):
        return Source(MJCF, "`mujoco.MjSpec`", "model", None, None, specification=path)
    if isinstance(path, str) and path.lstrip("\ufeff \t\r\n").startswith("<"):
        return _from_text(path.lstrip("\ufeff \t\r\n"))
    if isinstance(path, str) and not path.strip():
        raise ValueError("`path` is empty; it must be that of a model file, or XML as a string.")
    if isinstance(path, str | os.PathLike):
        return _from_file(Path(path))
    raise ValueError(
        f"`path` must be that of a model file, XML as a string, or a `mujoco.MjSpec`, got {short_repr(path)}."
    )


def _from_text(text: str) -> Source:
    label, original = "XML text", text
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{label} is not well-formed: {error}.") from error
    if xacro.is_macro(root):
        text = xacro.expand_text(text)
        root = ElementTree.fromstring(text)
    model_format = _format(root, label)
    return Source(model_format, label, "model", original, _check_bounds(root, label, None), text=text)


def _from_file(path: Path) -> Source:
    label = f"`{path}`"
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{label} is no model file that can be read; known endings: {ENDINGS}.")
    bounds.regular_file(path, label)
    if path.suffix.lower() == MACROS:
        with contextlib.suppress(ElementTree.ParseError, UnicodeDecodeError):
            # Errors are reported by xacro.
            _check_bounds(ElementTree.parse(path).getroot(), label, path.parent)
        text = xacro.expand(path)
        root = ElementTree.fromstring(text)
        inner = Path(path.stem)
        stem = inner.stem if inner.suffix in SUFFIXES else path.stem
        return Source(_format(root, f"{label}, expanded,"), label, stem, str(path), root, path, text)
    root = _parse_xml(path, label)
    model_format = _format(root, label)
    return Source(model_format, label, path.stem, str(path), _check_bounds(root, label, path.parent), path)


def _parse_xml(path: Path, label: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(path.read_bytes().lstrip())
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{label} is not well-formed XML: {error}.") from error


def _check_bounds(root: ElementTree.Element, label: str, folder: Path | None) -> ElementTree.Element:
    """Returns `root`. Raises ValueError for sizes that are too large, before memory is allocated."""
    try:
        bounds.check(root, folder)
    except ValueError as error:
        raise ValueError(f"{label} can't be read: {error}") from error
    return root


def _format(root: ElementTree.Element, label: str) -> ModelFormat:
    """The format of a document. Raises ValueError if none has its root."""
    if root.tag not in BY_ROOT:
        *others, last = (f"<{each.root}> ({each.name})" for each in FORMATS)
        raise ValueError(f"{label} has the root <{root.tag}>; {', '.join(others)} and {last} can be read.")
    return BY_ROOT[root.tag]

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

SUFFIXES = (".urdf", ".xml", ".mjcf")


@dataclasses.dataclass(frozen=True)
class Source:
    """A robot of URDF, or MJCF.

    - `label`: its name in messages.
    - `stem`: the default name of the model.
    - `origin`: the path or the text, from which the model can be read again; None for a specification.
    - `root`: `robot` of URDF or `mujoco` of MJCF; None for a specification.
    - `path`: of the file, if it is one.
    - `text`: the XML in place of the file: the given string, or the expanded macros.
    - `specification`: a `mujoco.MjSpec` that the user has made.
    """

    label: str
    stem: str
    origin: str | None
    root: ElementTree.Element | None
    path: Path | None = None
    text: str | None = None
    specification: Any = None

    @property
    def is_robot(self) -> bool:
        """Whether it is URDF."""
        return self.root is not None and self.root.tag == "robot"

    @property
    def name(self) -> str:
        """Name of the robot or model, by default that of the file."""
        if self.root is None:
            return self.specification.modelname or self.stem
        return self.root.get("name") or self.root.get("model") or self.stem

    def build_spec(self) -> Any:
        """A new `mujoco.MjSpec` of MJCF. Raises ValueError with MuJoCo's message."""
        if self.specification is not None:
            return self.specification.copy()
        return mujoco.MjSpec.from_file(str(self.path)) if self.text is None else mujoco.MjSpec.from_string(self.text)


def read_source(path: Any) -> Source:
    """Source from a path, XML as a string or a `mujoco.MjSpec`. Raises ValueError for others and for no model."""
    if isinstance(path, mujoco.MjSpec):
        return Source("`mujoco.MjSpec`", "model", None, None, specification=path)
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
    return Source(label, "model", original, _check_bounds(_check_root(root, label), label, None), text=text)


def _from_file(path: Path) -> Source:
    label = f"`{path}`"
    if path.suffix.lower() not in (*SUFFIXES, ".xacro"):
        raise ValueError(f"{label} is no model file that can be read; known endings: {', '.join(SUFFIXES)}, .xacro.")
    bounds.regular_file(path, label)
    if path.suffix.lower() == ".xacro":
        with contextlib.suppress(ElementTree.ParseError, UnicodeDecodeError):
            # Errors are reported by xacro.
            _check_bounds(ElementTree.parse(path).getroot(), label, path.parent)
        text = xacro.expand(path)
        root = _check_root(ElementTree.fromstring(text), f"{label}, expanded,")
        return Source(label, path.stem.removesuffix(".urdf"), str(path), root, path, text)
    root = _check_bounds(_check_root(_parse_xml(path, label), label), label, path.parent)
    return Source(label, path.stem, str(path), root, path)


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


def _check_root(root: ElementTree.Element, label: str) -> ElementTree.Element:
    if root.tag not in ("robot", "mujoco"):
        raise ValueError(f"{label} has the root <{root.tag}>; <robot> (URDF) and <mujoco> (MJCF) can be read.")
    return root

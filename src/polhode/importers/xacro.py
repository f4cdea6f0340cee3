"""Expansion of xacro macros by the package `xacro`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.dom import minidom
from xml.etree import ElementTree


def is_macro(root: ElementTree.Element) -> bool:
    """Whether a document contains elements of xacro."""
    return any("xacro" in str(element.tag).rpartition("}")[0] for element in root.iter())


def expand(path: Path) -> str:
    """A file with its macros expanded. Raises ValueError with the message of xacro."""
    xacro = _package(f"`{path}` is a macro file; expand it first: xacro {path.name} > {path.stem}.urdf")
    try:
        return xacro.process_file(str(path)).documentElement.toxml()
    except Exception as error:
        # Expressions of macros may raise any exception.
        raise ValueError(f"`{path}`: xacro can't expand it{_location(xacro, path)}: {_message(error)}") from error


def expand_text(text: str) -> str:
    """A document with its macros expanded; includes are relative to the working directory."""
    xacro = _package("XML text with macros of xacro; expand them first.")
    try:
        document: Any = minidom.parseString(text)
        xacro.process_doc(document)
        return document.documentElement.toxml()
    except Exception as error:
        raise ValueError(f"XML text: xacro can't expand it: {_message(error)}") from error


def _package(otherwise: str) -> Any:
    try:
        import xacro  # pyrefly: ignore[missing-import]
    except ModuleNotFoundError as error:
        raise ValueError(f"{otherwise.rstrip('.')}. With the package (pip install xacro) that is done here.") from error
    return xacro


def _location(xacro: Any, path: Path) -> str:
    """The included file in which an error occurred, if there is one."""
    files = [name for name in getattr(xacro, "filestack", None) or () if name]
    return f", in {files[-1]}" if files and Path(files[-1]) != path else ""


def _message(error: Exception) -> str:
    return " ".join(str(error).split()) or repr(error)

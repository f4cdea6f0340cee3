"""Formats of model files: their names, roots, endings, and the modules that read them.

A reader is a module with a function `read(source, finder, options)` that returns a `CompiledModel`. It is imported when
a file of its format comes: this module is for the command line too, which waits for no MuJoCo.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class ModelFormat(NamedTuple):
    """A format. - `root`: tag of the root of its documents. - `module`: the reader, within this package."""

    name: str
    root: str
    suffixes: tuple[str, ...]
    module: str

    def reader(self) -> Any:
        """The module that reads it."""
        return importlib.import_module(f"{__package__}.{self.module}")


MJCF = ModelFormat("MJCF", "mujoco", (".xml", ".mjcf"), "mjcf_reader")
FORMATS = (
    ModelFormat("URDF", "robot", (".urdf",), "urdf_reader"),
    MJCF,
    ModelFormat("SDFormat", "sdf", (".sdf", ".world"), "sdformat.reader"),
)
MACROS = ".xacro"
"""Ending of macro files, which expand to a document of any format."""
SUFFIXES = (*(suffix for each in FORMATS for suffix in each.suffixes), MACROS)
ENDINGS = ", ".join(SUFFIXES)
BY_ROOT = {each.root: each for each in FORMATS}

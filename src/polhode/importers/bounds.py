"""Bounds of the sizes in a model file, checked in its XML before memory is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

Element = ElementTree.Element

LARGEST_FILE = 256 * 2**20
"""Bytes of one XML file."""
MOST_ELEMENTS = 200_000
"""XML elements of a model, with all copies of replicated ones."""
MOST_CELLS = 2**24
"""Numbers of a height field, pixels of a texture, nodes of a flexible body."""
MOST_VALUES = 10_000
"""User data of each object, samples of a delay."""
_MOST_BYTES = 2**34
"""Bytes that <size> reserves."""
_DEEPEST = 20
"""Depth of nested includes."""

_PRODUCTS = {
    "hfield": (("nrow", "ncol"), MOST_CELLS),
    "texture": (("width", "height"), MOST_CELLS),
    "flexcomp": (("count",), MOST_CELLS),
    "camera": (("resolution",), MOST_CELLS),
    "numeric": (("size",), MOST_CELLS),
}
"""Attributes whose product is a size, by element."""
_SINGLE = {
    "nkey": MOST_VALUES,
    "nconmax": MOST_CELLS,
    "njmax": MOST_CELLS,
    "nstack": MOST_CELLS,
    "nuserdata": MOST_CELLS,
}
"""Attributes of <size>, besides those of user data."""
_EVERYWHERE = {"nsample": MOST_VALUES, "actdim": MOST_VALUES, "maxhullvert": MOST_CELLS, "dim": MOST_CELLS}
"""Attributes of any element."""
_SUBDIVISIONS = {"sphere": 4, "hemisphere": 4}
"""Built-in meshes that grow by this factor with their first parameter."""
_FILES = {"include", "model"}


def regular_file(path: Path, label: str) -> Path:
    """`path` if it is a file of bounded size. Raises ValueError for FIFOs, devices, folders and larger ones."""
    if not path.exists():
        raise ValueError(f"There is no file {label}.")
    if not path.is_file():
        raise ValueError(f"{label} is no regular file, but a folder, a pipe or a device; only files are read.")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise ValueError(f"{label} has {size / 2**20:.0f} MB; at most {LARGEST_FILE // 2**20} MB are read.")
    return path


def check(root: Element, folder: Path | None) -> None:
    """Raises ValueError for sizes beyond their bounds, and for files within the file that are none.

    - `folder`: of the file; None for text, whose files MuJoCo looks for in the folder of work.
    """
    _ElementCounter(folder or Path()).count(root, 1, (folder or Path(),))


class _ElementCounter:
    """Counts the elements of a file and of all files that it includes."""

    def __init__(self, main: Path) -> None:
        self.main = main
        self.total = 0
        self.models: dict[str, Element] = {}

    def count(self, element: Element, copies: int, folders: tuple[Path, ...]) -> None:
        """Counts an element `copies` times, with its children. - `folders`: of the enclosing files, innermost last."""
        ready = [(element, copies)]
        while ready:
            one, times = ready.pop()
            self.total += times
            if self.total > MOST_ELEMENTS:
                raise ValueError(
                    f"it has more than {MOST_ELEMENTS} elements, copies by <replicate> and files within it included; "
                    "that is the most that is read."
                )
            _check_sizes(one)
            if one.tag == "replicate":
                times *= max(1, int(min(_numbers(one.get("count", "1"))[0], 1e12)))
            if one.tag in _FILES or one.tag.endswith("}include"):
                self._enter(one, times, folders)
            if one.tag == "attach" and one.get("model") in self.models:
                ready.append((self.models[str(one.get("model"))], times))
            ready += [(child, times) for child in one]

    def _enter(self, element: Element, times: int, folders: tuple[Path, ...]) -> None:
        """Counts the file that an element names, if it is well-formed XML."""
        name = element.get("file") or element.get("filename") or ""
        if not name or "$" in name:
            return
        if len(folders) > _DEEPEST:
            raise ValueError(f"its files include one another more than {_DEEPEST} deep; so deep none is read.")
        for path in dict.fromkeys((self.main / name, folders[-1] / name)):
            if not path.exists():
                continue
            regular_file(path, f"`{name}` of <{element.tag.rpartition('}')[2]}>")
            try:
                inner = ElementTree.parse(path).getroot()
            except (ElementTree.ParseError, UnicodeDecodeError):
                # MuJoCo reports the error.
                continue
            if element.tag == "model":
                self.models[element.get("name") or inner.get("model") or ""] = inner
            self.count(inner, times, (*folders, path.parent))
            return


def _check_sizes(element: Element) -> None:
    names, most = _PRODUCTS.get(element.tag, ((), 0))
    factors = [number for name in names for number in _numbers(element.get(name, ""))]
    if factors and math.prod(factors) > most:
        _refuse(element, " × ".join(f"{number:g}" for number in factors), most)
    for name, limit in _singles(element):
        size = _numbers(element.get(name, ""))[0]
        if size > limit:
            _refuse(element, f"`{name}` = {size:g}", limit)
    kind, parameters = element.get("builtin", ""), _numbers(element.get("params", ""))
    if element.tag == "mesh" and kind in _SUBDIVISIONS and parameters:
        size = 20 * _SUBDIVISIONS[kind] ** min(parameters[0], 100)
        if size > MOST_CELLS:
            _refuse(element, f"{size:.3g} faces", MOST_CELLS)
    elif element.tag == "mesh" and parameters and math.prod(max(1.0, number) for number in parameters) > MOST_CELLS:
        _refuse(element, " × ".join(f"{number:g}" for number in parameters), MOST_CELLS)


def _singles(element: Element) -> Iterator[tuple[str, float]]:
    """Attributes that are sizes by themselves, with their bounds."""
    if element.tag == "size":
        for name in element.attrib:
            if name.startswith("nuser_"):
                yield name, MOST_VALUES
            elif name in _SINGLE:
                yield name, _SINGLE[name]
            elif name == "memory":
                yield name, _MOST_BYTES
    elif element.tag not in ("geom", "site", "pair", "flexcomp", "flex"):
        yield from ((name, most) for name, most in _EVERYWHERE.items() if element.get(name) is not None)


def _refuse(element: Element, size: str, most: float) -> None:
    name = element.get("name")
    label = f"<{element.tag}>" + (f" `{name}`" if name else "")
    raise ValueError(f"{label} asks for a size of {size}; at most {most:.9g} is read.")


_MULTIPLES = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50, "E": 2.0**60}


def _numbers(text: str) -> list[float]:
    """Numbers of an attribute, with suffixes of bytes; words that are no numbers count as 0."""
    values = []
    for word in text.split():
        factor = _MULTIPLES.get(word[-1:].upper(), 1.0)
        try:
            value = float(word[:-1] if factor > 1 else word) * factor
        except ValueError:
            value = 0.0
        values.append(0.0 if math.isnan(value) else abs(value))
    return values or [0.0]

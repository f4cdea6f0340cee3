"""Mesh files: finds those that a model file may refer to, and reads them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from polhode.checks import short_repr
from polhode.importers.mesh_readers import read_triangles
from polhode.viewing.scene.mesh import MOST_FACES, AbstractMesh, ColouredTriangles, Triangles, decimate

LARGEST = 256 * 2**20
"""Bytes of a file at most."""
_FEWEST = 50
_PACKAGE = re.compile(r"(?:package|model):///?([^/]+)/(.+)|\$\(find ([^)]+)\)/(.+)", re.DOTALL)
_FORMATS = ("stl", "obj", "dae", "ply", "off", "glb", "gltf")
_SIBLING_SUFFIXES = (".mtl", ".bin")
"""Suffixes of files that meshes may refer to; images are not read."""
_SELF_CONTAINED = (".stl", ".dae", ".off")
"""Suffixes of files that refer to no other one that is read."""


class UnreadableFile(ValueError):
    """A file that is missing or may not be read; the message names it and the reason."""


def folders(mesh_paths: Any) -> tuple[Path, ...]:
    """Folders of the argument `mesh_paths`. Raises ValueError unless they exist."""
    if mesh_paths is None:
        return ()
    entries = [mesh_paths] if isinstance(mesh_paths, str | os.PathLike) else mesh_paths
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping | bytes):
        raise ValueError(f"`mesh_paths` must be folders, got {short_repr(mesh_paths)}.")
    paths = []
    for each in entries:
        if not isinstance(each, str | os.PathLike) or not Path(each).is_dir():
            raise ValueError(f"`mesh_paths` must be folders; {short_repr(str(each))} is none.")
        paths.append(Path(each))
    return tuple(paths)


@dataclasses.dataclass(frozen=True)
class Finder:
    """Search for the files that a model file refers to: in its own tree and in further folders.

    Its own tree is its folder and all below; all of its package, if a folder at or above it has a `package.xml`; and
    of what is called `package://name/…` the folder `name` that it lies in.

    - `folder`: of the model file; None for text. - `paths`: `mesh_paths`.
    """

    folder: Path | None
    paths: tuple[Path, ...] = ()

    def find(self, name: str) -> Path:
        """The regular file of that name. Raises `UnreadableFile`."""
        why = "not found"
        for path, roots in self._candidates(name):
            try:
                real = path.resolve()
                if not real.exists():
                    continue
            except (OSError, RuntimeError, ValueError):
                continue
            if not any(real.is_relative_to(root.resolve()) for root in roots):
                why = "outside of the folder of the file"
            elif not real.is_file():
                why = "no regular file"
            elif real.stat().st_size > LARGEST:
                why = f"larger than {LARGEST // 2**20} MB"
            else:
                return path.absolute()
        raise UnreadableFile(f"{name} ({why})")

    @functools.cached_property
    def _own(self) -> tuple[Path, ...]:
        if self.folder is None:
            return ()
        package = next((up for up in _upwards(self.folder) if (up / "package.xml").is_file()), None)
        return (self.folder,) if package is None or _is_private(package) else (self.folder, package)

    def _candidates(self, name: str) -> Iterator[tuple[Path, Sequence[Path]]]:
        """Candidate paths of a file, each with the folders of which one must contain it."""
        match = _PACKAGE.fullmatch(name)
        package, inner = ("", name) if match is None else (match[1] or match[3], match[2] or match[4])
        if package:
            if self.folder is not None:
                for root in (up for up in _upwards(self.folder) if up.name == package and not _is_private(up)):
                    yield root / inner, (*self._own, root, *self.paths)
        else:
            plain = urllib.parse.unquote(name.removeprefix("file://")) if name.startswith("file://") else name
            if self.folder is not None or Path(plain).is_absolute():
                yield (self.folder or Path()) / plain, (*self._own, *self.paths)
            inner = plain
        steps = [part for part in PurePosixPath(inner.replace("\\", "/")).parts if part not in ("/", "..", ".")]
        for path in self.paths:
            # The folder may be that of packages, the package, or hold the files in folders or flat.
            for places in ((package, *steps), steps, steps[-1:]):
                yield path.joinpath(*filter(None, places)), self.paths


def _upwards(folder: Path) -> Iterator[Path]:
    whole = folder.absolute()
    yield from (whole, *whole.parents)
    if whole.resolve() != whole:
        yield from (whole.resolve(), *whole.resolve().parents)


def _is_private(folder: Path) -> bool:
    """Whether a folder is too general for a package: the home folder or above it, or directly below the root."""
    return len(folder.parts) <= 2 or Path.home().is_relative_to(folder)


@dataclasses.dataclass(frozen=True)
class MeshFile(AbstractMesh):
    """A mesh in a file. - `label`: its name in the model file. - `path`: of the file. - `scale`: per axis, (3,)."""

    label: str
    path: Path
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def parts(self) -> tuple[ColouredTriangles, ...]:
        try:
            stat = self.path.stat()
            return _read_scaled(self.path, stat.st_mtime_ns, stat.st_size, self.scale)
        except ImportError as error:
            raise ValueError("meshes need trimesh and pycollada: pip install 'polhode[import]'") from error
        except Exception as error:
            # Readers raise any exception for files that they can't read.
            raise ValueError(f"{self.label} (can't be read: {' '.join(str(error).split()) or repr(error)})") from error

    def digest(self) -> bytes | None:
        if self.path.suffix.lower() not in _SELF_CONTAINED:
            return None
        try:
            content = hashlib.blake2b(self.path.read_bytes(), digest_size=16).digest()
        except OSError:
            return None
        return repr((str(self.path), content, self.scale, _reader_versions())).encode()


@functools.cache
def _reader_versions() -> tuple[str, ...]:
    """Versions of the libraries that read files. Raises nothing: a missing one is empty."""
    versions = []
    for name in ("trimesh", "pycollada"):
        try:
            versions.append(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            versions.append("")
    return tuple(versions)


@functools.lru_cache(maxsize=512)
def _read_scaled(path: Path, mtime: int, size: int, scale: tuple[float, ...]) -> tuple[ColouredTriangles, ...]:
    parts = _read_parts(path, mtime, size)
    return tuple(part._replace(triangles=part.triangles.scale(np.array(scale))) for part in parts)


@functools.lru_cache(maxsize=256)
def _read_parts(path: Path, mtime: int, size: int) -> tuple[ColouredTriangles, ...]:
    """The triangles of a file by colour; its modification time and size are part of the key of the cache."""
    del mtime, size
    content, suffix = path.read_bytes(), path.suffix.lower().removeprefix(".")
    if content.startswith(b"version https://git-lfs"):
        raise ValueError("it is a pointer of Git LFS, not the mesh")
    if suffix not in _FORMATS:
        raise ValueError(f"known endings are {', '.join(_FORMATS)}")
    by_colour: dict[str | None, list[Triangles]] = {}
    for piece in read_triangles(content, suffix, _SiblingFiles(path.parent)):
        by_colour.setdefault(piece.colour, []).append(piece.triangles)
    total = sum(len(one.faces) for several in by_colour.values() for one in several)
    if not total:
        raise ValueError("it has no triangles")
    parts = []
    for colour, several in by_colour.items():
        together = _concatenate(several)
        most = max(_FEWEST, MOST_FACES * len(together.faces) // total)
        parts.append(ColouredTriangles(decimate(together, min(most, MOST_FACES)), colour))
    return tuple(part for part in parts if len(part.triangles.faces))


def _concatenate(several: Sequence[Triangles]) -> Triangles:
    starts = np.cumsum([0, *(len(one.vertices) for one in several)])
    return Triangles(
        np.concatenate([one.vertices for one in several]),
        np.concatenate([one.faces + start for one, start in zip(several, starts, strict=False)]),
    )


class _SiblingFiles:
    """Resolver for trimesh: files that a mesh refers to, in its own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def get(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""
        path = (self._folder / name.strip()).resolve()
        if path.suffix.lower() not in _SIBLING_SUFFIXES or not path.is_relative_to(self._folder) or not path.is_file():
            raise FileNotFoundError(name)
        return path.read_bytes()

    def __getitem__(self, name: str) -> bytes:
        return self.get(name)

    def namespaced(self, namespace: str) -> _SiblingFiles:
        """Resolver of parts of archives, which are not read."""
        del namespace
        return self

"""The file at the root of a store: all metadata, what the run says of itself, and a digest of both."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polhode.checks import shown
from polhode.results import Result
from polhode.runs import layout
from polhode.runs.arrays import CHECKSUM_BYTES, ArrayFiles, DamageError, folder_name
from polhode.runs.errors import StoreError
from polhode.runs.plain import from_plain

FORMAT = 3
FILE = "zarr.json"
HIDDEN = ".polhode"
COPY = f"{HIDDEN}/{FILE}"


class Kept(NamedTuple):
    """A file in the hidden folder of a store: its path within the store, and a digest of what was written."""

    file: str
    digest: str

    @classmethod
    def described(cls, entry: Any) -> Kept:
        """As the root has it. Raises ValueError for anything else."""
        kept = cls(**entry)
        if not all(isinstance(part, str) for part in kept) or Path(kept.file).parts[:-1] != (HIDDEN,):
            raise ValueError(f"{shown(entry)} is no file of a store")
        return kept

    def read(self, path: Path) -> bytes:
        """The file in the store at `path`. Raises DamageError if it is missing or has other bytes."""
        try:
            data = (path / self.file).read_bytes()
        except FileNotFoundError:
            raise DamageError(f"`{self.file}` is missing") from None
        if digest(data) != self.digest:
            raise DamageError(f"`{self.file}` does not have the bytes that were written")
        return data


class Root(NamedTuple):
    """The contents of the root of a store.

    - `path`: of the store; `run`: the run that wrote it, a name that no other run has.
    - `frames`: number of published frames; `structure`: how their leaves belong together.
    - `arrays`: metadata of all arrays; `checksums`: the file with those of all chunks, array by array.
    - `checkpoint`: the file with what the method remembers, if there is one.
    """

    path: Path
    run: str
    meta: dict[str, Any]
    stats: dict[str, Any]
    frames: int
    structure: layout.Structure
    arrays: dict[str, Any]
    checksums: Kept
    checkpoint: Kept | None

    def files(self) -> dict[str, ArrayFiles]:
        """The files of all leaves by name, with the checksums of their chunks. Raises StoreError for damage."""
        found = self.unbound()
        sizes = [CHECKSUM_BYTES * files.chunks(self.frames) for files in found.values()]
        try:
            data = self.checksums.read(self.path)
        except DamageError as error:
            raise damaged(self.path, str(error)) from None
        if len(data) != sum(sizes):
            raise damaged(self.path, f"`{self.checksums.file}` has {len(data)} bytes instead of {sum(sizes)}")
        at = 0
        for (name, files), size in zip(found.items(), sizes, strict=True):
            found[name] = files._replace(count=self.frames, checksums=data[at : at + size])
            at += size
        return found

    def unbound(self) -> dict[str, ArrayFiles]:
        """The same without checksums: chunks are only compared with those that they bring themselves."""
        return {name: self._array(name) for name in layout.names(self.structure)}

    def check(self, arrays: Iterable[ArrayFiles]) -> None:
        """Compares all checksums. Raises StoreError, which says what is damaged."""
        count, said = whole(arrays, self.frames)
        if said:
            raise damaged(self.path, f"{said[0]}. Its first {count} frames are whole")

    def _array(self, name: str) -> ArrayFiles:
        """The files of one leaf. Raises StoreError where its metadata don't fit the run."""
        folder = folder_name(name)
        try:
            found = ArrayFiles.described(self.path / folder, self.arrays[folder])
            if self.arrays[folder]["shape"][0] != self.frames:
                raise DamageError(f"it has {self.arrays[folder]['shape'][0]} rows instead of {self.frames}")
        except KeyError:
            raise damaged(self.path, f"the array `{folder}` is missing") from None
        except DamageError as error:
            raise damaged(self.path, f"`{folder}`: {error}") from None
        return found

    def remembered(self) -> dict[str, Any]:
        """The checkpoint: arrays by name, and "facts". Raises StoreError without one, or for a damaged one."""
        if self.checkpoint is None:
            raise StoreError(
                f"The run `{self.path}` has no checkpoint, so it can't be gone on with: it was written by "
                "`solution.save`, or cut off before its first step."
            )
        try:
            data = self.checkpoint.read(self.path)
        except DamageError as error:
            raise StoreError(
                f"The run `{self.path}` can't be gone on with as it was: its checkpoint {error}. Its frames are not "
                "concerned: `polhode.simulate(…, initial=polhode.load(path))` begins anew in the last one."
            ) from None
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        return {**arrays, "facts": json.loads(arrays["facts"].tobytes())}


def whole(arrays: Iterable[ArrayFiles], count: int) -> tuple[int, list[str]]:
    """How many of `count` frames can be read, and what is damaged: the first chunk of each array that is."""
    checked = [files.intact(count) for files in arrays]
    return min((rows for rows, _ in checked), default=count), [what for _, what in checked if what]


def compact(value: Any) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def digest(data: bytes) -> str:
    """A name for some bytes that no others have."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def document(attributes: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """The file at the root, with a digest of itself."""
    whole = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": attributes,
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": arrays},
    }
    return compact({**whole, "attributes": {**attributes, "digest": digest(_canonical(whole))}})


def _canonical(whole: Any) -> bytes:
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def is_run(path: str | Path) -> bool:
    """Whether there is a store made by polhode at `path`, of whatever version and in whatever state."""
    try:
        place = Path(path)
        if (place / HIDDEN / FILE).is_file():
            return True
        content = json.loads((place / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
    attributes = content.get("attributes") if isinstance(content, dict) else None
    return isinstance(attributes, dict) and "polhode_format" in attributes


def run_at(path: Path) -> str | None:
    """The name of the run whose store is at `path`; None where there is none."""
    for file in (FILE, COPY):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            return json.loads((path / file).read_bytes())["attributes"]["run"]
    return None


def opened(path: Path) -> tuple[Root, dict[str, ArrayFiles]]:
    """The root of the store at `path`, and its arrays with their checksums.

    Raises StoreError where `read` does and for damaged checksums.
    """
    found = read(path)
    while True:
        try:
            return found, found.files()
        except StoreError:
            again = read(path)
            # A run that goes on has replaced the root and the checksums in between.
            if again.checksums == found.checksums:
                raise
            found = again


def read(path: Path, file: str = FILE) -> Root:
    """The root of the store at `path`.

    Raises StoreError where it is no run, is damaged, or has another format.
    """
    if not path.is_dir():
        there = "is a file" if path.exists() else "does not exist"
        raise StoreError(f"`{path}` is not a run of polhode: it {there}. A run is a folder that `store=` has made.")
    place = path / file
    try:
        content = json.loads(place.read_bytes())
        attributes = content["attributes"]
        version = attributes["polhode_format"]
    except FileNotFoundError:
        raise StoreError(
            f"`{path}` is not a run of polhode: it has no file `{file}`."
            + (" It was one: read it with `salvage=True`." if (path / COPY).is_file() and file == FILE else "")
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if not is_run(path):
            raise StoreError(f"`{path}` is not a run of polhode: its `{file}` is not one of ours.") from None
        raise damaged(path, f"`{file}` can't be read ({type(error).__name__})") from None
    if version != FORMAT:
        raise StoreError(
            f"`{path}` has the format {shown(version)}, and this version of polhode reads {FORMAT}. Read it with the "
            "version that wrote it."
        )
    known = attributes.pop("digest", None)
    if known != digest(_canonical({**content, "attributes": attributes})):
        raise damaged(path, f"`{file}` does not have the content that was written")
    return _read(path, attributes, content["consolidated_metadata"]["metadata"])


def _read(path: Path, attributes: dict[str, Any], arrays: dict[str, Any]) -> Root:
    try:
        stats = from_plain(json.loads(attributes["stats"]))
        result = stats.get("result")
        return Root(
            path=path,
            run=str(attributes["run"]),
            meta=from_plain(json.loads(attributes["meta"])),
            stats={**stats, "result": None if result is None else Result[result]},
            frames=int(attributes["frames"]),
            structure=layout.checked(json.loads(attributes["structure"])),
            arrays=dict(arrays),
            checksums=Kept.described(attributes["checksums"]),
            checkpoint=None if attributes["checkpoint"] is None else Kept.described(attributes["checkpoint"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(path, f"`{FILE}` makes no sense ({type(error).__name__}: {error})") from None


def damaged(path: str | os.PathLike[str], what: str) -> StoreError:
    """The error for a store that is not as it was written."""
    return StoreError(
        f"The run store `{path}` is damaged: {what}. `polhode.load(path, salvage=True)` reads the frames before the "
        "damage."
    )

"""The file at the root of a store: metadata of all arrays, attributes of the store, and a digest of both."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from polhode.checks import short_repr
from polhode.storage.errors import DamageError, StoreError
from polhode.storage.files import read_file
from polhode.storage.zarr_arrays import compact

FILE = "zarr.json"
HIDDEN = ".polhode"


class Kind(NamedTuple):
    """A kind of store.

    - `article`, `noun`: its name for messages. - `key`, `format`: the attribute of the root with the number of the
      format, and the number that this version writes. - `copy`: path of the copy of the root, which differs between
      kinds, so that the kind is known even if the root is damaged. - `creation_hint`, `salvage_hint`: for
      messages, how one is made and how a damaged one is read.
    """

    article: str
    noun: str
    key: str
    format: int
    copy: str
    creation_hint: str
    salvage_hint: str

    def damage_error(self, path: Any, what: str) -> StoreError:
        """The error for a damaged store."""
        return StoreError(f"The {self.noun} store `{path}` is damaged: {what}. {self.salvage_hint}")


RUN = Kind(
    article="a",
    noun="run",
    key="polhode_format",
    format=3,
    copy=f"{HIDDEN}/{FILE}",
    creation_hint="A run is a folder that `store=` has made.",
    salvage_hint="`polhode.load(path, salvage=True)` reads the frames before the damage.",
)
ENSEMBLE = Kind(
    article="an",
    noun="ensemble",
    key="polhode_ensemble",
    format=2,
    copy=f"{HIDDEN}/ensemble.json",
    creation_hint="An ensemble is a folder that `out=` has made.",
    salvage_hint="`polhode.load_ensemble(path, salvage=True)` reads the members that are whole, and the same call of "
    "`polhode.ensemble` with `resume=True` runs the others anew.",
)


class FileDigest(NamedTuple):
    """A file in the hidden folder of a store: its path within the store, and a digest of its content."""

    file: str
    digest: str

    @classmethod
    def from_dict(cls, entry: Any) -> FileDigest:
        """From the entry of a root. Raises ValueError for anything else."""
        file = cls(**entry)
        if not all(isinstance(part, str) for part in file) or Path(file.file).parts[:-1] != (HIDDEN,):
            raise ValueError(f"{short_repr(entry)} is no file of a store")
        return file

    def read(self, path: Path) -> bytes:
        """The file in the store at `path`. Raises DamageError if it is missing or has other bytes."""
        try:
            data = read_file(path / self.file)
        except FileNotFoundError:
            raise DamageError(f"`{self.file}` is missing") from None
        if digest(data) != self.digest:
            raise DamageError(f"`{self.file}` does not have the bytes that were written")
        return data


def digest(data: bytes) -> str:
    """The BLAKE2b digest of some bytes, in hexadecimal."""
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


def is_store(path: str | Path, kind: Kind) -> bool:
    """Whether there is a store of that kind at `path`, of any version and in any state."""
    try:
        place = Path(path)
        if (place / kind.copy).is_file():
            return True
        content = json.loads(read_file(place / FILE))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
    attributes = content.get("attributes") if isinstance(content, dict) else None
    return isinstance(attributes, dict) and kind.key in attributes


def store_at(path: Path, kind: Kind) -> str | None:
    """The unique name of the store at `path`; None where there is none of that kind."""
    for file in (FILE, kind.copy):
        try:
            attributes = json.loads(read_file(path / file))["attributes"]
            if kind.key in attributes:
                return attributes["run"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return None


def contents(path: Path, kind: Kind, file: str = FILE) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes, and metadata of all arrays, of the store at `path`.

    Raises StoreError where it is none of that kind, is damaged, or has another format.
    """
    if not path.is_dir():
        there = "is a file" if path.exists() else "does not exist"
        raise StoreError(f"`{path}` is not {kind.article} {kind.noun} of polhode: it {there}. {kind.creation_hint}")
    try:
        content = json.loads(read_file(path / file))
        attributes = content["attributes"]
        version = attributes[kind.key]
    except FileNotFoundError:
        has_copy = file == FILE and (path / kind.copy).is_file()
        raise StoreError(
            f"`{path}` is not {kind.article} {kind.noun} of polhode: it has no file `{file}`."
            + (" It was one: read it with `salvage=True`." if has_copy else "")
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, DamageError):
            raise kind.damage_error(path, str(error)) from None
        if not is_store(path, kind):
            raise StoreError(
                f"`{path}` is not {kind.article} {kind.noun} of polhode: its `{file}` is not one of ours."
            ) from None
        raise kind.damage_error(path, f"`{file}` can't be read ({type(error).__name__})") from None
    if version != kind.format:
        raise StoreError(
            f"`{path}` has the format {short_repr(version)}, and this version of polhode reads {kind.format}. Read it "
            "with the version that wrote it."
        )
    expected_digest = attributes.pop("digest", None)
    if expected_digest != digest(_canonical({**content, "attributes": attributes})):
        raise kind.damage_error(path, f"`{file}` does not have the content that was written")
    try:
        return attributes, dict(content["consolidated_metadata"]["metadata"])
    except (ValueError, KeyError, TypeError) as error:
        raise kind.damage_error(path, f"`{file}` makes no sense ({type(error).__name__}: {error})") from None

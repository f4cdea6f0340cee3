"""Stores of ensembles: zarr, every chunk of which is one batch, put in its place at once and with a checksum.

Batches are written by any thread or process. The results of one come behind everything else of it, so a member that has
a result is whole.
"""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polhode.driver.ensembles.batch import ENDS, PENDING, Batch
from polhode.driver.ensembles.labelling import Labels
from polhode.results import Result
from polhode.runs.arrays import ArrayFiles, DamageError, folder_name, replace
from polhode.runs.errors import StoreError, explaining
from polhode.runs.root import FILE, compact, document

FORMAT = 1
_MOST_TOLD = 5
_EMPTY = {"result": PENDING, "steps": 0, "t_reached": "NaN"}


class EnsembleStore(NamedTuple):
    """The files of an ensemble.

    - `path`: of the store. - `attributes`: of its root. - `count`: members.
    - `members`: arrays of frames and ends, a row for each member. - `coordinates`: the other ones.
    """

    path: Path
    attributes: dict[str, Any]
    count: int
    members: dict[str, ArrayFiles]
    coordinates: dict[str, ArrayFiles]

    @classmethod
    def made(
        cls, path: Path, attributes: dict[str, Any], count: int, batch: int, like: Batch, labels: Labels
    ) -> EnsembleStore:
        """A new store, for batches of so many members. Raises StoreError where it can't be made."""
        ends = {name: getattr(like, name) for name in ENDS}
        frames = {name: x for name, x in like.frames.items() if name != "time"}
        dims = {**labels.dimensions, **dict.fromkeys(ENDS, ())}
        members = {
            name: ArrayFiles(path / folder_name(name), x.dtype, x.shape[1:], batch, ("member", *dims[name]))
            for name, x in {**frames, **ends}.items()
        }
        coordinates = {
            name: ArrayFiles(path / folder_name(name), x.dtype, x.shape[1:], max(1, len(x)), axes, len(x))
            for name, (axes, x) in labels.numbers().items()
        }
        store = cls(path, {"polhode_ensemble": FORMAT, **attributes}, count, members, coordinates)
        with explaining(path):
            path.mkdir(parents=True)
            for name, (_, x) in labels.numbers().items():
                coordinates[name].write(0, x, secrets.token_hex(6))
            for name, metadata in store._metadata().items():
                replace(path / name / FILE, [compact(metadata)], secrets.token_hex(6))
            store._publish()
        return store

    @classmethod
    def opened(cls, path: Path) -> EnsembleStore:
        """The store at a path. Raises StoreError where it is none, or its root is damaged."""
        try:
            data = (path / FILE).read_bytes()
            content = json.loads(data)
            attributes, arrays = content["attributes"], content["consolidated_metadata"]["metadata"]
            version = attributes["polhode_ensemble"]
        except FileNotFoundError:
            raise StoreError(f"`{path}` is not an ensemble of polhode: it has no file `{FILE}`.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"`{path}` is not an ensemble of polhode, or its `{FILE}` is damaged: {error!r}."
            ) from None
        if version != FORMAT:
            raise StoreError(f"`{path}` has the format {version}, and this version of polhode reads {FORMAT}.")
        attributes.pop("digest", None)
        if document(attributes, arrays) != data:
            raise StoreError(f"The ensemble `{path}` is damaged: `{FILE}` does not have the content that was written.")
        files = {name: ArrayFiles.described(path / name, told) for name, told in arrays.items()}
        count = int(arrays["result"]["shape"][0])
        of_members = {name: each for name, each in files.items() if name in attributes["members"]}
        others = {name: each._replace(count=each.rows) for name, each in files.items() if name not in of_members}
        return cls(path, attributes, count, of_members, others)

    @property
    def batches(self) -> list[slice]:
        """The members of each chunk."""
        size = self.members["result"].rows
        return [slice(k, min(k + size, self.count)) for k in range(0, self.count, size)]

    def put(self, which: slice, batch: Batch) -> None:
        """The members of a batch, unless none was run. Raises StoreError where they can't be written."""
        if not batch.frames:
            return
        token = secrets.token_hex(6)
        # What was interrupted is run again.
        result = np.where(batch.result == Result.interrupted, PENDING, batch.result).astype(np.int32)
        values = {**batch.frames, "steps": batch.steps, "t_reached": batch.t_reached, "result": result}
        with explaining(self.path):
            for name, x in values.items():
                if name != "time":
                    self.members[folder_name(name)].write(which.start, np.asarray(x), token)

    def batch(self, which: slice) -> Batch | None:
        """Members that have been run before; None if any of them has not, or a file of theirs is damaged."""
        try:
            found = {name: files.read(which.start, which.stop) for name, files in self.members.items()}
        except (OSError, DamageError):
            return None
        ends = {name: found.pop(name) for name in ENDS}
        return None if (ends["result"] == PENDING).any() else Batch(found, **ends)

    def check(self) -> None:
        """Compares all checksums. Raises StoreError, which names the files that are damaged."""
        said = []
        for name, files in self.coordinates.items():
            said += _damage(name, files, 0, files.rows)
        for which in self.batches:
            if self.members["result"].chunk_path(which.start // self.members["result"].rows).exists():
                for name, files in self.members.items():
                    said += _damage(name, files, which.start, which.stop)
        if said:
            more = f", and {len(said) - _MOST_TOLD} more" if len(said) > _MOST_TOLD else ""
            raise StoreError(
                f"The ensemble `{self.path}` is damaged: {'; '.join(said[:_MOST_TOLD])}{more}. The same call of "
                "`polhode.ensemble` with `resume=True` runs the members anew that are concerned."
            )

    def finish(self, variables: dict[str, tuple[tuple[str, ...], np.ndarray]], stats: str) -> EnsembleStore:
        """With statistics over the members, and what is to be told of all."""
        store = self._replace(coordinates=dict(self.coordinates), attributes={**self.attributes, "stats": stats})
        with explaining(self.path):
            for name, (axes, x) in variables.items():
                files = ArrayFiles(self.path / folder_name(name), x.dtype, x.shape[1:], max(1, len(x)), axes, len(x))
                files.write(0, x, secrets.token_hex(6))
                replace(files.folder / FILE, [compact(files.metadata(len(x)))], secrets.token_hex(6))
                store.coordinates[folder_name(name)] = files
            store._publish()
        return store

    def _metadata(self) -> dict[str, Any]:
        found = {files.folder.name: files.metadata(self.count) for files in self.members.values()}
        for name, fill in _EMPTY.items():
            found[name]["fill_value"] = fill
        return found | {files.folder.name: files.metadata(files.count) for files in self.coordinates.values()}

    def _publish(self) -> None:
        known = {**self.attributes, "members": sorted(files.folder.name for files in self.members.values())}
        replace(self.path / FILE, [document(known, self._metadata())], secrets.token_hex(6))


def room(path: Path, said: str, resume: bool, overwrite: bool) -> EnsembleStore | None:
    """The store of the same ensemble to go on with; None where there is room for a new one.

    `said`: what it is of. Raises ValueError for a path where something else is, StoreError for damage.
    """
    if not path.exists():
        return None
    if overwrite:
        try:
            EnsembleStore.opened(path)
        except StoreError as error:
            raise ValueError(f"`overwrite` replaces ensembles only. {error}") from None
        shutil.rmtree(path)
        return None
    if not resume:
        raise ValueError(f"There is something at {path} already. Go on with it by `resume`, or `overwrite` it.")
    store = EnsembleStore.opened(path)
    if store.attributes.get("ensemble") != said:
        raise ValueError(f"The store {path} is of another ensemble. Give that one, or another path.")
    return store


def _damage(name: str, files: ArrayFiles, start: int, stop: int) -> list[str]:
    try:
        files.read(start, stop)
    except (OSError, DamageError) as error:
        return [f"`{name}`: {error}"]
    return []

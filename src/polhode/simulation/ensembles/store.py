"""Stores of ensembles: zarr, every chunk of which is one batch, put in its place at once.

Batches are written by any thread or process while one process holds the lock. The receipt of a batch, with the
checksums of its chunks, is written after them: without it, or without a chunk that matches it, its members count as
not run.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polhode.result_codes import Result
from polhode.simulation.ensembles.batch import ENDS, PENDING, Batch
from polhode.simulation.ensembles.labels import Labels
from polhode.storage import constant_arrays
from polhode.storage.constant_arrays import Constants
from polhode.storage.documents import ENSEMBLE, FILE, HIDDEN, contents, digest, document, store_at
from polhode.storage.errors import DamageError, StoreError, translate_os_errors
from polhode.storage.files import read_file, replace
from polhode.storage.paths import TOKEN, check_there, staging_folder
from polhode.storage.zarr_arrays import CHECKSUM_BYTES, ArrayFiles, compact, folder_name

_FILLS = {"result": PENDING}
_OWN = ("run", "members", "arrays", "batches", ENSEMBLE.key)
"""Attributes that the store itself needs."""


class EnsembleStore(NamedTuple):
    """The files of an ensemble.

    - `path`: of the store. - `run`: a unique name. - `attributes`: metadata of the ensemble.
    - `count`: members. - `members`: arrays of frames and ends by folder, a row for each member.
    - `metadata`, `digests`: of the other arrays, by folder. - `receipts`: digests of those of all batches at the end of
      the ensemble, by number; none before.
    """

    path: Path
    run: str
    attributes: dict[str, Any]
    count: int
    members: dict[str, ArrayFiles]
    metadata: dict[str, Any]
    digests: dict[str, str]
    receipts: dict[str, str]

    @classmethod
    def new(
        cls, path: Path, attributes: dict[str, Any], count: int, batch: int, like: Batch, labels: Labels
    ) -> EnsembleStore:
        """A store for batches of so many members, which does not exist yet."""
        ends = {name: getattr(like, name) for name in ENDS}
        frames = {name: x for name, x in like.frames.items() if name != "time"}
        dims = {**labels.dimensions, **dict.fromkeys(ENDS, ())}
        members = {}
        for name, x in {**frames, **ends}.items():
            dtype, axes = x.dtype.newbyteorder("<"), ("member", *dims[name])
            folder = folder_name(name)
            members[folder] = ArrayFiles(path / folder, dtype, x.shape[1:], batch, axes, fill=_FILLS.get(name))
        own = {**attributes, "begun": sorted(map(folder_name, labels.coordinates))}
        return cls(path, uuid.uuid4().hex, own, count, members, {}, {}, {})

    def begin(self, labels: Labels) -> EnsembleStore:
        """Creates the store at its locked path, without members. Raises StoreError where that fails."""
        with translate_os_errors(self.path), staging_folder(self.path, self.run) as aside:
            return self._create(aside, labels)

    def go_on(self, labels: Labels) -> EnsembleStore:
        """The store before its end: without statistics, and with coordinates written again."""
        extra = [name for name in self.digests if name not in self.attributes["begun"]]
        attributes = {name: value for name, value in self.attributes.items() if name != "stats"}
        with translate_os_errors(self.path):
            store = self._replace(attributes=attributes, metadata={}, digests={}, receipts={})._create(
                self.path, labels
            )
            for name in extra:
                shutil.rmtree(self.path / name, ignore_errors=True)
        return store

    def _create(self, folder: Path, labels: Labels) -> EnsembleStore:
        store = self._with(folder, labels.coordinates)
        for name, files in self.members.items():
            replace(folder / name / FILE, [compact(files.metadata(self.count))], self._token)
        store._publish(folder)
        return store

    @classmethod
    def open(cls, path: Path, file: str = FILE, ensemble: str | None = None) -> EnsembleStore:
        """The store at a path. Raises StoreError where it is none, or its root is damaged.

        `ensemble`: the expected description, if any; then its labels need not be whole.
        """
        with translate_os_errors(path):
            attributes, arrays = contents(path, ENSEMBLE, file)
        try:
            digests = constant_arrays.check_digests(attributes["arrays"])
            members = {
                name: ArrayFiles.from_metadata(path / name, arrays[name])
                for name in constant_arrays.check_digests(dict.fromkeys(attributes["members"], ""))
            }
            (count,) = {arrays[name]["shape"][0] for name in members}
            whole = all(name in members and not members[name].shape for name in ENDS)
            if not whole or len({files.rows for files in members.values()}) != 1 or set(arrays) != {*members, *digests}:
                raise ValueError("the arrays don't belong together")
            if any(files.fill != _FILLS.get(name) for name, files in members.items()):
                raise ValueError("members that were not run are not told from others")
            metadata = {name: arrays[name] for name in digests}
            if ensemble is None or ensemble != attributes["ensemble"]:
                # So many members are there, whatever the metadata say.
                _, numbers = constant_arrays.read_array(path / "member", metadata["member"], digests["member"])
                if len(numbers) != count:
                    raise ValueError(f"there are {len(numbers)} members instead of {count}")
            own = {name: value for name, value in attributes.items() if name not in (*_OWN, "digest")}
            _check_attributes(own)
            run, receipts = str(attributes["run"]), dict(attributes["batches"])
            return cls(path, run, own, int(count), members, metadata, digests, receipts)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ENSEMBLE.damage_error(path, f"`{file}` makes no sense ({type(error).__name__}: {error})") from None

    @property
    def batches(self) -> list[slice]:
        """The members of each chunk."""
        return [slice(k, min(k + self._size, self.count)) for k in range(0, self.count, self._size)]

    @property
    def _size(self) -> int:
        return self.members["result"].rows

    @property
    def _token(self) -> str:
        return self.run[:TOKEN]

    def put(self, which: slice, batch: Batch) -> None:
        """The members of a batch, unless none was run. Raises StoreError where they can't be written."""
        if not batch.frames:
            return
        # What was interrupted is run again.
        result = np.where(batch.result == Result.interrupted, PENDING, batch.result).astype(np.int32)
        values = {**batch.frames, "steps": batch.steps, "t_reached": batch.t_reached, "result": result}
        number = which.start // self._size
        with translate_os_errors(self.path):
            check_there(self.path)
            self.check_is(store_at(self.path, ENSEMBLE))
            checksums = {}
            for name, x in values.items():
                if name != "time":
                    folder = folder_name(name)
                    checksums[folder] = self.members[folder].write(which.start, np.asarray(x), self._token).hex()
            receipt = {"run": self.run, "batch": number, "checksums": dict(sorted(checksums.items()))}
            replace(self._receipt_path(number), [compact({**receipt, "digest": digest(compact(receipt))})], self._token)

    def check_is(self, run: str | None) -> None:
        """Raises StoreError unless that is its name."""
        if run != self.run:
            raise StoreError(f"The ensemble `{self.path}` has been replaced by another one since it was begun.")

    def batch(self, which: slice) -> Batch | None:
        """Members that have been run before; None if any of them has not, or a file of theirs is damaged."""
        try:
            files = self._files(which.start // self._size)
            arrays = {} if files is None else {name: each.read(which.start, which.stop) for name, each in files.items()}
        except (OSError, DamageError):
            return None
        if not arrays:
            return None
        ends = {name: arrays.pop(name) for name in ENDS}
        return None if (ends["result"] == PENDING).any() else Batch(arrays, **ends)

    def whole_batches(self, compare: bool) -> tuple[dict[int, dict[str, ArrayFiles]], list[str]]:
        """The files of all batches that were run and are whole, by number, and damage to others, in words.

        `compare`: all chunks with their checksums, or only that there is a receipt for them.
        """
        batches, problems = {}, []
        for number, which in enumerate(self.batches):
            try:
                files = self._files(number)
                if files is None:
                    continue
                for name, each in files.items() if compare else ():
                    _check(name, each, which)
                batches[number] = files
            except (OSError, DamageError) as error:
                problems.append(f"members {which.start} to {which.stop - 1}: {error}")
        return batches, problems

    def odd_metadata(self) -> list[str]:
        """Damage to the metadata of single arrays, which other readers use."""
        return [what for what in (files.odd_metadata(self.count) for files in self.members.values()) if what]

    def constants(self) -> tuple[Constants, list[str]]:
        """Coordinates and statistics that are whole, by folder, and damage to others, in words."""
        arrays: Constants = {}
        problems = []
        for name, checksum in self.digests.items():
            problem = constant_arrays.damage(self.path / name, self.metadata[name], checksum)
            try:
                arrays[name] = constant_arrays.read_array(self.path / name, self.metadata[name], checksum)
            except (OSError, DamageError) as error:
                problem = str(error)
            problems += [problem] if problem else []
        return arrays, problems

    def finish(self, variables: Constants, stats: str) -> EnsembleStore:
        """The store with statistics over the members, and statistics of the run."""
        with translate_os_errors(self.path):
            check_there(self.path)
            store = self._replace(attributes={**self.attributes, "stats": stats})._with(self.path, variables)
            receipts = {}
            for number in range(len(self.batches)):
                if self._files(number) is not None:
                    receipts[str(number)] = digest(read_file(self._receipt_path(number)))
            store = store._replace(receipts=receipts)
            store._publish(self.path)
        return store

    def _with(self, folder: Path, variables: Constants) -> EnsembleStore:
        """The same with further arrays, written to a folder."""
        metadata, digests = dict(self.metadata), dict(self.digests)
        for name, (axes, x) in variables.items():
            where = folder_name(name)
            metadata[where], digests[where] = constant_arrays.write_array(
                folder / where, axes, np.asarray(x), self._token
            )
        return self._replace(metadata=metadata, digests=digests)

    def _files(self, number: int) -> dict[str, ArrayFiles] | None:
        """The arrays of a batch with the checksums of its chunks; None if it was not run.

        Raises DamageError for a receipt that is not the one that was written.
        """
        path, expected_digest = self._receipt_path(number), self.receipts.get(str(number))
        try:
            data = read_file(path)
        except FileNotFoundError:
            if expected_digest is not None:
                raise DamageError(f"their receipt `{HIDDEN}/{path.name}` is missing") from None
            return None
        try:
            receipt = json.loads(data)
            own = receipt.pop("digest")
            checksums = {name: bytes.fromhex(text) for name, text in receipt["checksums"].items()}
            good = own == digest(compact(receipt)) and (receipt["run"], receipt["batch"]) == (self.run, number)
            good &= expected_digest in (None, digest(data)) and set(checksums) == set(self.members)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            good, checksums = False, {}
        if not good:
            raise DamageError(f"their receipt `{HIDDEN}/{path.name}` is not the one that was written there")
        before = bytes(CHECKSUM_BYTES * number)
        return {
            name: files._replace(count=self.count, checksums=before + checksums[name])
            for name, files in self.members.items()
        }

    def _receipt_path(self, number: int) -> Path:
        return self.path / HIDDEN / f"batch-{number}.json"

    def _publish(self, folder: Path) -> None:
        """Writes the metadata at the root, which readers use, and a copy of them."""
        array_metadata = {name: files.metadata(self.count) for name, files in self.members.items()}
        own = {"run": self.run, "members": sorted(self.members), "arrays": self.digests, "batches": self.receipts}
        data = document({ENSEMBLE.key: ENSEMBLE.format, **self.attributes, **own}, {**array_metadata, **self.metadata})
        replace(folder / ENSEMBLE.copy, [data], self._token)
        replace(folder / FILE, [data], self._token)


def _check(name: str, files: ArrayFiles, which: slice) -> None:
    """Raises DamageError, or OSError, for a chunk that is not as it was written."""
    try:
        files.read(which.start, which.stop)
    except DamageError as error:
        raise DamageError(f"`{name}`: {error}") from None


def _check_attributes(attributes: dict[str, Any]) -> None:
    """Raises ValueError unless the attributes are those of an ensemble."""
    texts_valid = all(
        isinstance(attributes.get(name, ""), str) for name in ("ensemble", "title", "coordinates", "stats")
    )
    initial_arrays, units = attributes["begun"], attributes["units"]
    names_valid = isinstance(initial_arrays, list) and all(isinstance(name, str) for name in initial_arrays)
    units_valid = isinstance(units, dict) and all(
        isinstance(unit, dict) and all(isinstance(text, str) for text in unit.values()) for unit in units.values()
    )
    if not (texts_valid and names_valid and units_valid):
        raise ValueError("what it says of itself has other types than were written")

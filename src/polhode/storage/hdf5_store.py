"""Stores of runs as HDF5 files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, final

from polhode.storage import hdf5_layout, hdf5_run
from polhode.storage.attributes import attributes
from polhode.storage.batch import Batch
from polhode.storage.documents import RUN
from polhode.storage.errors import OccupiedError, StoreError
from polhode.storage.hdf5_run import HDF5Array, HDF5Run
from polhode.storage.journaled_file import JournaledFile
from polhode.storage.paths import staging_path
from polhode.storage.store import AbstractRunStore


class _DiskState(NamedTuple):
    """The state on disk: the file, and the attributes that it has; empty without a file."""

    file: JournaledFile | None
    attributes: dict[str, Any]


@final
class HDF5Store(AbstractRunStore[_DiskState]):
    """An HDF5 file that is appended to while a run is going, with the layout of netCDF 4.

    Each publication is one commit of a `JournaledFile`. `polhode.load` reads the file meanwhile; other programs that
    use HDF5's library are kept out until the run has ended.
    """

    is_run = staticmethod(hdf5_run.is_run)
    run_at = staticmethod(hdf5_run.run_at)
    read_root = staticmethod(hdf5_run.read_root)
    open = staticmethod(hdf5_run.open_run)
    salvage = staticmethod(hdf5_run.salvage)

    @property
    def is_removed(self) -> bool:
        file = self._disk_state.file
        return file is not None and not file.is_at(self.path)

    @staticmethod
    def _check_is_free(path: Path, overwrite: bool) -> None:
        hdf5_layout.library()
        if not os.path.lexists(path):
            return
        if not hdf5_run.is_run(path):
            raise OccupiedError(
                f"`{path}` exists and is not {RUN.article} {RUN.noun} of polhode in HDF5, so it is left alone. Choose "
                "another place."
            )
        if not overwrite:
            raise OccupiedError(
                f"There is already {RUN.article} {RUN.noun} at `{path}`. Choose another place, or pass "
                "`overwrite=True`."
            )

    def _initial_disk_state(self) -> _DiskState:
        return _DiskState(None, {})

    def _reopen_disk_state(self, root: HDF5Run, arrays: dict[str, HDF5Array]) -> _DiskState:
        del arrays
        return _DiskState(JournaledFile.open(self.path), attributes(root.meta, root.stats))

    def _begin(self, batch: Batch, stats: dict[str, Any] | None) -> _DiskState:
        with (
            staging_path(self.path, self._run) as aside,
            JournaledFile.create(aside, self._run) as file,
            file.change() as content,
            hdf5_layout.open_file(content, "w") as target,
        ):
            hdf5_layout.create_arrays(target, batch.blocks[0], self.meta, self._expected)
            target.attrs.update({"run": self._run, "structure": json.dumps(self._structure)})
            description = self._write_to(target, {}, batch, stats)
        return _DiskState(JournaledFile.open(self.path), description)

    def _write(self, batch: Batch, stats: dict[str, Any] | None) -> _DiskState:
        file = self._disk_state.file
        assert file is not None
        if not file.is_at(self.path):
            raise StoreError(
                f"The file of the store `{self.path}` is gone: it was deleted, renamed or replaced during the run, "
                "which is written no further. Leave the file alone until the run has ended."
            )
        with file.change() as content, hdf5_layout.open_file(content, "r+") as target:
            return _DiskState(file, self._write_to(target, self._disk_state.attributes, batch, stats))

    def _write_to(
        self, target: Any, former: dict[str, Any], batch: Batch, stats: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Write a batch to an open file whose attributes are the former ones. Returns the present ones."""
        if batch.blocks:
            hdf5_layout.write_rows(target, self.length, batch.blocks)
        if batch.checkpoint is not None:
            hdf5_layout.write_checkpoint(target, batch.checkpoint.to_bytes())
        described = attributes(self.meta, stats or {"result": None})
        description = {name: hdf5_layout.text(value) for name, value in described.items()}
        target.attrs.update({name: x for name, x in description.items() if former.get(name) != x})
        return description

    def _copy(self, target: Path) -> _DiskState:
        with staging_path(target, self._run) as aside:
            shutil.copyfile(self.path, aside)
        file = JournaledFile.open(target)
        self._close_files()
        return self._disk_state._replace(file=file)

    def _close_files(self) -> None:
        if self._disk_state.file is not None:
            self._disk_state.file.close()

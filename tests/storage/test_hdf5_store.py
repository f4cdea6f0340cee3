"""Runs in HDF5 files: the bytes of zarr stores, whatever ends their writer, and no damage that is silent."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import jax
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app
from polhode.frames import Frames
from polhode.solution.live_run import StoredRun
from polhode.solution.solution import Solution
from polhode.storage import journaled_file
from polhode.storage.checkpoint import Checkpoint
from polhode.storage.errors import DamageError
from polhode.storage.hdf5_store import HDF5Store
from polhode.storage.journaled_file import VerifiedFile
from polhode.storage.store_choice import is_run

META: dict[str, Any] = {"problem": "made-by-hand", "promises": {}}
POINT = Checkpoint({"progress-0": np.arange(3.0), "stand": np.array([0, 7])}, {"signatures": {"system": "x"}})
TOP: dict[str, Any] = {"problem": ph.problems.get("heavy-top"), "integrator": "rkmk4", "h": 1e-3}
DONE = {"result": ph.Result.successful, "steps": 400, "t_reached": 2.0}


class Crash(BaseException):
    """The process ends here."""


def same(a, b, count: int | None = None) -> bool:
    """Whether the first `count` frames, or all, are equal to the last bit."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y)[:count].tobytes() for x, y in pairs)


def part(frames, start: int, stop: int):
    return jax.tree.map(lambda x: x[start:stop], frames)


def written(path: Path, frames, size: int = 50, **how: Any) -> None:
    """A finished run of several publications, with a checkpoint."""
    store = HDF5Store.create(path, META, expected=len(frames.t), **how)
    try:
        for start in range(0, len(frames.t), size):
            store.append(part(frames, start, start + size), lambda: POINT)
            store.flush()
        store.close(DONE)
    finally:
        # As the system does when a process ends.
        store.release()


@pytest.mark.exhaustive
def test_runs_have_the_bytes_of_zarr_stores_and_go_on_to_the_same(tmp_path):
    file, folder = tmp_path / "run.h5", tmp_path / "run.zarr"
    runs = [ph.simulate(**TOP, t1=0.1, store=path) for path in (file, folder)]
    assert file.is_file()
    assert same(runs[0].frames, runs[1].frames)
    a, b = ph.load(file), ph.load(folder)
    assert same(a.frames, b.frames)
    assert a.meta == b.meta
    assert set(a.stats) == set(b.stats)
    assert same(ph.resume(file, t1=0.2).frames, ph.resume(folder, t1=0.2).frames)
    assert same(ph.load(file).frames, ph.simulate(**TOP, t1=0.2).frames)
    assert len(ph.simulate(**TOP, t1=0.3, store=file, resume=True).t) == 301
    later = ph.simulate(**TOP, t1=0.4, initial=ph.load(file))
    assert same(later.frames, part(ph.simulate(**TOP, t1=0.4).frames, 300, 401))
    ph.simulate(**TOP, t1=0.1, store=file, overwrite=True, estimate_error=True)
    assert ph.load(file).stats["error_estimate"]["axis"]["digits"] > 5
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_xarray_sees_what_it_sees_of_a_zarr_store(tmp_path):
    model = ph.problems.get("pendulum-chain", n=2)
    run = ph.simulate(model, t1=0.05, store=tmp_path / "run.hdf5")
    run.save(tmp_path / "run.zarr")
    opened = xr.open_dataset(tmp_path / "run.hdf5", engine="h5netcdf")
    with opened as file, xr.open_zarr(tmp_path / "run.zarr") as folder:
        assert set(file.variables) == set(folder.variables)
        assert set(file.coords) == set(folder.coords)
        for name, x in folder.variables.items():
            assert file[name].dims == x.dims
            assert file[name].values.tolist() == x.values.tolist()
        for name in ("title", "problem", "integrator", "meta", "stats", "structure"):
            assert name in file.attrs
        assert file.attrs["meta"] == folder.attrs["meta"]


def test_states_and_names_of_all_kinds_survive(tmp_path):
    t = np.linspace(0, 1, 7)
    odd = {
        "a/b": t,
        "flag": t > 0.5,
        "complex": t * 1j,
        "whole": np.arange(7),
        "none": np.zeros((7, 0)),
        ".": t,
        "ü": t,
    }
    frames = Frames(t, {"q": [t, (t,)], "r": None}, odd, {}, {}, None)
    names = {"bodies": ["left\0", "\ud800"], "joints": {}}
    meta = {**META, "problem": "a\0b\ud800", "names": names, "dimensions": {"outputs.pair": ["body"]}}
    frames = frames._replace(outputs={**odd, "pair": np.ones((7, 2))})
    Solution(frames, {"result": ph.Result.successful}, meta).save(tmp_path / "run.h5")
    again = ph.load(tmp_path / "run.h5")
    assert same(again.frames, frames)
    assert again.meta == meta
    with pytest.raises(ValueError, match="too long"):
        Solution(frames._replace(outputs={"x" * 300: t}), {}, META).save(tmp_path / "long.h5")


@pytest.fixture
def crashing(monkeypatch):
    """From now on so many pieces are written, of the next one the first half, and then the process ends."""
    plain = journaled_file.write_bytes

    def after(count: int, error: BaseException) -> list[int]:
        left = [count]

        def write(handle, at, data):
            left[0] -= 1
            if left[0] < 0:
                if left[0] == -1:
                    plain(handle, at, memoryview(data)[: len(data) // 2])
                raise error
            plain(handle, at, data)

        monkeypatch.setattr(journaled_file, "write_bytes", write)
        return left

    return after


@pytest.mark.exhaustive
def test_a_process_that_ends_at_any_write_leaves_an_exact_prefix(tmp_path, spin_frames, crashing, monkeypatch):
    whole, path, number, plain = spin_frames(400), tmp_path / "run.h5", 0, journaled_file.write_bytes
    seen: list[int] = []
    while True:
        left = crashing(number, Crash())
        with contextlib.suppress(Crash):
            written(path, whole, 100)
        monkeypatch.setattr(journaled_file, "write_bytes", plain)
        if left[0] >= 0:
            break
        number += 1
        if not path.exists():
            continue
        run = ph.load(path)
        assert same(run.frames, whole, len(run.t)), number
        seen.append(len(run.t))
        readable = plain_frames(path)
        assert readable is None or (readable <= len(run.t) and readable % 100 == 0)
        store, root = HDF5Store.reopen(path)
        assert root.read_checkpoint()["stand"].tolist() == [0, 7]
        # What the last writer left in the journal is made up for.
        assert plain_frames(path, locked=True) == len(run.t)
        store.append(part(whole, len(run.t), 400), lambda: POINT)
        store.close(DONE)
        assert same(ph.load(path).frames, whole)
        path.unlink()
    assert set(seen) == {100, 200, 300, 400}
    assert number > 30


def plain_frames(path: Path, locked: bool = False) -> int | None:
    """The frames that HDF5's library sees without polhode; None where it refuses the file."""
    try:
        with h5py.File(path, "r", locking=not locked) as file:
            return len(file["time"])
    except OSError:
        return None


@pytest.mark.exhaustive
def test_errors_of_the_disk_lose_nothing(tmp_path, spin_frames, crashing, monkeypatch):
    whole, plain = spin_frames(200), journaled_file.write_bytes
    for number in range(12):
        path = tmp_path / f"run-{number}.h5"
        store = HDF5Store.create(path, META)
        store.append(part(whole, 0, 100), lambda: POINT)
        crashing(number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        failed = ""
        try:
            store.append(part(whole, 100, 150), lambda: POINT)
            store.flush()
        except ph.StoreError as error:
            failed = str(error)
        assert not failed or "disk is full" in failed
        assert store.pending == (50 if failed else 0)
        assert same(ph.load(path).frames, whole, len(ph.load(path).t))
        monkeypatch.setattr(journaled_file, "write_bytes", plain)
        if failed and number % 2:
            store.move(tmp_path / f"other-{number}.h5")
            path = store.path
        store.append(part(whole, 150, 200), lambda: POINT)
        store.close(DONE)
        assert same(ph.load(path).frames, whole)
        assert plain_frames(path) == 200


@pytest.mark.exhaustive
def test_a_run_on_a_full_disk_says_where_its_frames_are_and_goes_on(tmp_path, monkeypatch):
    plain, left, path = journaled_file.write_bytes, [10**9], tmp_path / "run.h5"

    def write(handle, at, data):
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(handle, at, data)

    monkeypatch.setattr(journaled_file, "write_bytes", write)
    monkeypatch.setattr("polhode.storage.store._INTERVAL_S", 0.0)
    monkeypatch.setattr("polhode.simulation.loops.host._next_block", lambda *_: 50)
    ph.simulate(**TOP, t1=2.0, store=tmp_path / "whole.h5")
    # How much is written in all depends on the version of HDF5.
    left[0] = (10**9 - left[0]) // 3
    with pytest.raises(ph.SimulationError, match="disk is full") as caught:
        ph.simulate(**TOP, t1=2.0, store=path)
    monkeypatch.setattr(journaled_file, "write_bytes", plain)
    on_disk = ph.load(path)
    # A slow disk may be full when everything is computed.
    assert 0 < len(on_disk.t) < len(caught.value.solution.t) <= 2001
    assert f"holds the first {len(on_disk.t)} frames" in str(caught.value)
    assert same(ph.resume(path).frames, ph.simulate(**TOP, t1=2.0).frames)


def test_no_damage_is_silent(tries, tmp_path, spin_frames):
    whole, path = spin_frames(400), tmp_path / "run.h5"
    written(tmp_path / "whole.h5", whole)
    written(tmp_path / "other.h5", jax.tree.map(lambda x: x + 0.5, whole))
    data, other = (Path(tmp_path / f"{name}.h5").read_bytes() for name in ("whole", "other"))
    count, random = tries(500, 7)
    silent, raw, refused = [], [], 0
    for k in range(count):
        path.unlink(missing_ok=True)
        said = damage(path, data, other, k, random)
        for salvage in (False, True):
            try:
                found = ph.load(path, salvage=salvage)
                n = len(found.t)
                if not same(found.frames, whole, n) or (n < 400 and not (salvage and "damage" in found.stats)):
                    silent.append(f"{said}, salvage={salvage}: {n} frames")
            except ph.StoreError as error:
                refused += 1
                if str(path) not in str(error):
                    raw.append(f"{said}: no name of the store: {error}")
            except Exception as error:
                raw.append(f"{said}, salvage={salvage}: {type(error).__name__}: {error}")
        try:
            store, root = HDF5Store.reopen(path)
            store.release()
            if store.length != 400 or root.read_checkpoint()["stand"].tolist() != [0, 7]:
                silent.append(f"{said}: reopened with other frames or another checkpoint")
        except ph.StoreError as error:
            if str(path) not in str(error):
                raw.append(f"{said}, reopened: no name of the store: {error}")
        except Exception as error:
            raw.append(f"{said}, reopened: {type(error).__name__}: {error}")
    assert not silent, "\n".join(silent)
    assert not raw, "\n".join(raw)
    assert refused > count / 2


def damage(path: Path, data: bytes, other: bytes, k: int, random) -> str:
    """A damaged copy of a file; what was done, in words."""
    changed, at, length = bytearray(data), int(random.integers(len(data))), int(random.integers(1, 70_000))
    if k % 5 == 1:
        # The beginning, which has the description.
        at = int(random.integers(20_000))
    match k % 5:
        case 0:
            del changed[at:]
        case 1 | 2:
            changed[at] ^= 1 << int(random.integers(8))
        case 3:
            changed[at : at + length] = random.bytes(len(changed[at : at + length]))
        case _:
            changed[at : at + length] = other[at : at + length]
    path.write_bytes(changed)
    return f"kind {k % 5} at {at}, {length} bytes"


@pytest.mark.parametrize("cut", [0, 1, 50, 51, 1024, 1100, 2048, 4095, 4096, 4104, 10_000, -1])
def test_files_that_were_cut_off_are_refused(tmp_path, spin_frames, cut):
    path = tmp_path / "run.h5"
    written(path, spin_frames(100))
    path.write_bytes(path.read_bytes()[:cut])
    for how in ({}, {"salvage": True}):
        with pytest.raises(ph.StoreError, match=r"cut off|of another kind|header"):
            ph.load(path, **how)
    with pytest.raises(ph.StoreError):
        ph.resume(path)


def test_a_file_that_cannot_be_read_is_closed_once(tmp_path, spin_frames, monkeypatch):
    path, plain, closed = tmp_path / "run.h5", os.close, []
    written(path, spin_frames(100))
    path.write_bytes(path.read_bytes()[:1100])
    monkeypatch.setattr(journaled_file.os, "close", lambda handle: (closed.append(handle), plain(handle)))
    with contextlib.suppress(DamageError):
        VerifiedFile(path)
    gc.collect()
    assert len(closed) == 1


def test_frames_before_damaged_ones_are_salvaged(tmp_path, spin_frames):
    path, whole = tmp_path / "run.h5", spin_frames(20_000)
    written(path, whole, 5000)
    data = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        array = file["outputs.rotation"].id
        chunk = array.get_chunk_info(array.get_num_chunks() - 1)
    data[chunk.byte_offset + chunk.size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ph.StoreError, match=r"not those that were written\. Its first .* frames are whole"):
        ph.load(path)
    run = ph.load(path, salvage=True)
    assert chunk.chunk_offset[0] // 2 <= len(run.t) < 20_000
    assert same(run.frames, whole, len(run.t))
    assert "not those that were written" in run.stats["damage"]


def test_a_file_that_another_program_has_changed_is_refused(tmp_path, spin_frames):
    path = tmp_path / "run.h5"
    written(path, spin_frames(100))
    with h5py.File(path, "r+") as file:
        file["time"][3] = 17.0
    with pytest.raises(ph.StoreError, match=r"changed by another program|cut off|not those that were written"):
        ph.load(path)


@pytest.mark.exhaustive
def test_a_run_is_read_while_it_is_written(tmp_path, spin_frames, monkeypatch):
    monkeypatch.setattr("polhode.storage.store._INTERVAL_S", 0.0)
    monkeypatch.setattr("polhode.storage.store._SHARE", 1e9)
    path, whole, over = tmp_path / "run.h5", spin_frames(6000), threading.Event()
    store = HDF5Store.create(path, META)
    store.append(part(whole, 0, 10))

    def write() -> None:
        for start in range(10, 6000, 50):
            store.append(part(whole, start, start + 50), lambda: POINT)
            store.flush()
        store.close(DONE)
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts, live = [], StoredRun(path)
        assert live.look()[1]
        with pytest.raises(OSError, match="lock"):
            h5py.File(path, "r")
        while not over.is_set():
            run = ph.load(path)
            assert same(run.frames, whole, len(run.t))
            counts.append(len(run.t))
    finally:
        writer.join()
    assert counts == sorted(counts)
    assert len(set(counts)) > 3
    assert not live.look()[1]
    assert plain_frames(path) == 6000


def test_what_is_there_stays_and_one_writes_at_a_time(tmp_path, spin_frames):
    path, frames = tmp_path / "run.h5", spin_frames(100)
    written(path, frames)
    with pytest.raises(ph.StoreError, match="already a run"):
        HDF5Store.create(path, META)
    with h5py.File(path, "r"), pytest.raises(ph.StoreError, match="open in another program"):
        HDF5Store.reopen(path)
    store, _ = HDF5Store.reopen(path)
    with pytest.raises(ph.StoreError, match="in use"):
        HDF5Store.reopen(path)
    store.release()


def test_places_that_are_no_runs_are_left_alone(tmp_path, spin_solution):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = 1
    (tmp_path / "folder.h5").mkdir()
    for name in ("data.h5", "folder.h5"):
        assert not is_run(tmp_path / name)
        with pytest.raises(ph.StoreError, match="is not a run of polhode in HDF5, so it is left alone"):
            spin_solution.save(tmp_path / name, overwrite=True)
        with pytest.raises(ph.StoreError, match="is not a run of polhode in HDF5"):
            ph.load(tmp_path / name)
    with pytest.raises(ph.StoreError, match="does not exist"):
        ph.load(tmp_path / "none.h5")
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(ph.StoreError):
        ph.load(tmp_path / "pipe.h5")


def test_a_file_that_is_taken_away_during_the_run_is_not_written_again(tmp_path, spin_frames):
    path, frames = tmp_path / "run.h5", spin_frames(100)
    store = HDF5Store.create(path, META)
    store.append(part(frames, 0, 50))
    path.rename(tmp_path / "moved.h5")
    store.append(part(frames, 50, 100))
    with pytest.raises(ph.StoreError, match="is gone"):
        store.flush()
    assert store.is_removed
    store.release()
    assert not path.exists()
    assert same(ph.load(tmp_path / "moved.h5").frames, frames, 50)


def test_other_kinds_are_refused_in_words(tmp_path, monkeypatch, spin_solution):
    with pytest.raises(ValueError, match="give the same suffix"):
        ph.simulate(**TOP, t1=0.01, store=tmp_path / "run.h5", when_full=tmp_path / "other.zarr")
    with pytest.raises(ValueError, match="zarr stores only"):
        ph.ensemble(TOP["problem"], parameters={"mass": [13.0, 14.0]}, t1=0.01, out=tmp_path / "many.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"pip install 'polhode\[hdf5\]'"):
        spin_solution.save(tmp_path / "run.h5")


def test_the_command_takes_such_files(tmp_path):
    path, run = str(tmp_path / "run.h5"), CliRunner()
    for line in (
        ["run", "heavy-top", "--t1", "0.02", "--out", path],
        ["resume", path, "--t1", "0.03"],
        ["export", path, str(tmp_path / "run.csv")],
        ["export", path, str(tmp_path / "run.html")],
    ):
        result = run.invoke(app, line)
        assert result.exit_code == 0, result.output
    assert len((tmp_path / "run.csv").read_text().splitlines()) == len(ph.load(path).t) + 1
    result = run.invoke(app, ["export", str(tmp_path / "none.h5"), str(tmp_path / "x.csv")])
    assert result.exit_code == 2


KILLED = """
import sys
import polhode as ph
ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-6, t1=6.0, store=sys.argv[1], save_every=50)
"""


@pytest.fixture(scope="module")
def long_run():
    return ph.simulate(TOP["problem"], "rkmk4", h=1e-6, t1=6.0, save_every=50)


@pytest.mark.exhaustive
@pytest.mark.parametrize("wait", [0.0, 0.05, 0.3, 0.7, 1.1])
def test_killed_runs_go_on_to_the_same_bytes(tmp_path, wait, long_run):
    path = tmp_path / "run.h5"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = ph.load(path)
    assert 0 < len(run.t) < len(long_run.t)
    assert same(run.frames, long_run.frames, len(run.t))
    assert same(ph.resume(path).frames, long_run.frames)

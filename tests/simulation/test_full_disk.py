"""Runs whose disk fills up: what is said, what is kept, and how they go on."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import pytest

import polhode as ph
from polhode.storage import store, zarr_arrays, zarr_store

TOP = ph.problems.get("heavy-top")
GIVEN = {"integrator": "rkmk4", "h": 2e-5, "t1": 0.2}


class Disk:
    """A folder with room for so many bytes; other places have all they want."""

    def __init__(self, folder: Path, room: int) -> None:
        self.folder, self.room = folder, room
        self._plain = zarr_arrays.replace

    def replace(self, path: Path, parts: Sequence[bytes | memoryview], token: str) -> None:
        if path.is_relative_to(self.folder):
            size = sum(map(len, parts))
            if size > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            self.room -= size
        self._plain(path, parts, token)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    made = Disk(tmp_path / "small", 600_000)
    for module in (zarr_arrays, zarr_store):
        monkeypatch.setattr(module, "replace", made.replace)
    monkeypatch.setattr(store, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(store, "_SHARE", 1.0)
    # Many small blocks, so that the disk fills up on the way.
    monkeypatch.setattr("polhode.simulation.loops.host._next_block", lambda *_: 50)
    return made


@pytest.fixture(scope="module")
def whole():
    return ph.simulate(TOP, **GIVEN)


def same(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def test_the_message_says_what_is_on_disk_and_what_is_in_memory_only(disk, whole):
    path = disk.folder / "run.zarr"
    with pytest.raises(ph.SimulationError) as caught:
        ph.simulate(TOP, **GIVEN, store=path)
    result, kept = ph.load(path), caught.value.solution
    message = str(caught.value)
    assert kept.stats["result"] is ph.Result.store_failed
    assert 0 < len(result.t) < len(kept.t) < len(whole.t)
    assert f"holds the first {len(result.t)} frames" in message
    assert f"{len(kept.t) - len(result.t)} later ones are in memory only and end with this process" in message
    assert "disk is full" in message
    assert same(result.frames, jax.tree.map(lambda x: x[: len(result.t)], whole.frames))
    assert same(kept.frames, jax.tree.map(lambda x: x[: len(kept.t)], whole.frames))

    disk.room = 10**9
    assert same(ph.resume(path).frames, whole.frames)


@pytest.mark.exhaustive
def test_a_run_waits_for_space(disk, whole, capsys):
    path = disk.folder / "run.zarr"

    def free():
        deadline = time.monotonic() + 100
        while "waits for space" not in said() and time.monotonic() < deadline:
            time.sleep(0.05)
        disk.room = 10**9

    heard = []

    def said():
        heard.append(capsys.readouterr().err)
        return "".join(heard)

    thread = threading.Thread(target=free)
    thread.start()
    run = ph.simulate(TOP, **GIVEN, store=path, when_full="wait")
    thread.join()
    assert "waits for space" in said()
    assert same(run.frames, whole.frames)
    assert same(ph.load(path).frames, whole.frames)


@pytest.mark.exhaustive
def test_a_run_continues_elsewhere_with_a_copy(disk, whole, tmp_path, capsys):
    elsewhere = tmp_path / "large" / "run.zarr"
    run = ph.simulate(TOP, **GIVEN, store=disk.folder / "run.zarr", when_full=elsewhere)
    assert f"goes on in `{elsewhere}`" in capsys.readouterr().err
    assert same(run.frames, whole.frames)
    assert same(ph.load(elsewhere).frames, whole.frames)
    before = ph.load(disk.folder / "run.zarr")
    assert same(before.frames, jax.tree.map(lambda x: x[: len(before.t)], whole.frames))


@pytest.mark.parametrize("value", ["", 3, None])
def test_nonsense_for_when_full_is_refused(value):
    with pytest.raises(ValueError, match="when_full"):
        ph.simulate(TOP, **GIVEN, store="never.zarr", when_full=value)

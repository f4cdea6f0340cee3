"""Locks touch nothing but locks: links, files of others, damaged ones, clocks that go wrong."""

from __future__ import annotations

import json
import os
import time

import pytest

import polhode as ph
from polhode.storage import locks
from polhode.storage.locks import Lock, LockedError

OWNER = {"host": "elsewhere", "pid": 1, "run": "x", "since": 0}
DAMAGED = [
    b"my notes",
    b"{}",
    b"[]",
    b"null",
    b"[" * 3000,
    b"\xff\xfe",
    b"x" * 5000,
    json.dumps(OWNER | {"pid": 10**30}).encode(),
    json.dumps(OWNER | {"pid": 0}).encode(),
    json.dumps(OWNER | {"pid": -1}).encode(),
    json.dumps(OWNER | {"pid": True}).encode(),
    json.dumps(OWNER | {"pid": "1"}).encode(),
    json.dumps(OWNER | {"since": 1e300}).encode(),
    json.dumps(OWNER | {"since": float("nan")}).encode(),
    json.dumps(OWNER | {"since": float("inf")}).encode(),
    json.dumps(OWNER | {"host": None}).encode(),
    json.dumps(OWNER | {"more": 1}).encode(),
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_file_that_is_no_lock_is_left_as_it_is(content, tmp_path):
    path, file = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock"
    file.write_bytes(content)
    with pytest.raises(LockedError, match="Move it away"):
        Lock(path, "run").acquire()
    assert not locks.is_locked(path)
    assert file.read_bytes() == content


def test_links_are_not_followed(tmp_path, spin_solution):
    path, file, mine = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock", tmp_path / "thesis.txt"
    for content in ("years of work", "", json.dumps(OWNER | {"host": locks.Owner.now("").host})):
        mine.write_text(content)
        for link in (os.symlink, os.link):
            if link is os.link and content.startswith("{"):
                # A lock by any name is a lock.
                continue
            link(mine, file)
            with pytest.raises(ph.StoreError, match="Move it away"):
                spin_solution.save(path)
            assert not locks.is_locked(path)
            assert mine.read_text() == content
            assert file.is_symlink() == (link is os.symlink)
            file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ph.StoreError, match="Move it away"):
        spin_solution.save(path)
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_file_neither_hangs_nor_counts(tmp_path):
    path, file = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock"
    for make, remove in ((os.mkdir, os.rmdir), (os.mkfifo, os.unlink)):
        make(file)
        assert not locks.is_locked(path)
        with pytest.raises(LockedError, match="Move it away"):
            Lock(path, "run").acquire()
        remove(file)


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0, 1e9])
def test_a_lock_of_another_machine_whose_clock_is_wrong_is_not_kept_for_ever(ahead, tmp_path):
    path, file = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock"
    file.write_text(json.dumps(OWNER))
    os.utime(file, (time.time() + ahead,) * 2)
    assert not locks.is_locked(path)
    lock = Lock(path, "run")
    lock.acquire()
    assert locks.is_locked(path)
    lock.release()
    assert not list(tmp_path.iterdir())


def test_an_empty_lock_is_one_whose_owner_ended_before_it_was_written(tmp_path):
    path, file = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock"
    file.touch()
    lock = Lock(path, "run")
    lock.acquire()
    lock.release()
    assert not file.exists()


def test_another_file_in_the_place_of_a_lock_is_not_deleted(tmp_path):
    path, file = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock"
    lock = Lock(path, "run")
    lock.acquire()
    file.unlink()
    file.write_text("mine")
    os.utime(file, (0, 0))
    lock.beat()
    lock.release()
    assert file.read_text() == "mine"
    assert file.stat().st_mtime == 0


def test_the_owner_is_named_without_control_characters(tmp_path):
    path, file = tmp_path / "run.zarr", tmp_path / ".run.zarr.lock"
    file.write_text(json.dumps(OWNER | {"host": "a\x1b[2Jb\u202e"}))
    with pytest.raises(LockedError, match=r"process 1 on a\\x1b\[2Jb\\u202e has been writing"):
        Lock(path, "run").acquire()

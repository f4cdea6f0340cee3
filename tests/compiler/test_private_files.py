"""Programs kept between processes are read from nobody else, and nothing but programs is deleted."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from polhode.cli import app
from polhode.compiler.cache import disk_cache, pickles
from polhode.storage import RunStore

KEEPING = disk_cache.Serialiser(dump=lambda made: made, load=lambda state, inputs: state)
CALLS = []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return disk_cache.folder()


def recall(value, key=b"key"):
    return disk_cache.load_or_build(key, lambda: value, KEEPING, None)


def cache(*options):
    done = CliRunner().invoke(app, ["cache", *options, "--json"])
    return json.loads(done.stdout) if done.exit_code == 0 else done.stderr


class Evil:
    def __reduce__(self):
        return CALLS.append, ("called",)


class EvilFile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return np.memmap, (self.path, "u1", "w+", 0, (8,))


def planted(state):
    """A file in the place of a program, with the right checksum."""
    path, body = disk_cache._path(b"key"), pickle.dumps(state)
    path.write_bytes(disk_cache._MAGIC + disk_cache._checksum(path, body) + body)
    path.chmod(0o600)


def test_folders_and_files_are_for_their_owner_alone(folder):
    former = os.umask(0)
    try:
        recall("mine")
    finally:
        os.umask(former)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder, *disk_cache.files())] == [
        0o700,
        0o700,
        0o600,
    ]


@pytest.mark.parametrize("where", ["folder", "parent", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_read(where, mode, folder):
    recall("theirs")
    path = {"folder": folder, "parent": folder.parent, "file": disk_cache._path(b"key")}[where]
    path.chmod(path.stat().st_mode | mode)
    assert recall("made") == "made"
    if where == "file":
        # Another one has taken its place.
        assert recall("again") == "made"
    else:
        assert recall("again") == "again"
        assert "chmod 700" in cache()["because"]
        assert cache()["on"] is False
        assert "chmod 700" in cache("--clear")
        assert disk_cache._path(b"key").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("where", ["folder", "parent", "file"])
def test_what_belongs_to_others_is_not_read(where, folder):
    recall("theirs")
    path = {"folder": folder, "parent": folder.parent, "file": disk_cache._path(b"key")}[where]
    os.chown(path, 12345, 12345)
    assert recall("made") == "made"
    assert where == "file" or "another user" in cache()["because"]


def test_links_are_followed_nowhere(folder, tmp_path):
    recall("program")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    (elsewhere / "thesis.txt").write_text("years of work")
    listed = sorted(path.name for path in elsewhere.iterdir())
    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    assert recall("made", b"other") == "made"
    assert "is a link" in cache("--clear")
    assert sorted(path.name for path in elsewhere.iterdir()) == listed
    # Nor are links among the programs.
    folder.unlink()
    folder.mkdir(mode=0o700)
    disk_cache._path(b"key").symlink_to(elsewhere / disk_cache._path(b"key").name)
    assert recall("made") == "made"


def test_only_programs_are_deleted(folder, monkeypatch):
    recall(bytes(1000))
    mine = {"thesis.txt": b"years of work", "0" * 32: b"named like a program", ".hidden": b"x"}
    for name, content in mine.items():
        (folder / name).write_bytes(content)
    (folder / "a").mkdir()
    unfinished = folder / f".{'0' * 32}.{'1' * 16}"
    unfinished.touch()
    monkeypatch.setattr(disk_cache, "LARGEST", 10)
    recall(bytes(2000), b"other")
    assert cache("--clear")["deleted"] >= 1 or not disk_cache._path(b"other").exists()
    assert not unfinished.exists()
    assert not disk_cache._path(b"key").exists()
    assert {name: (folder / name).read_bytes() for name in mine} == mine
    assert sorted(path.name for path in folder.iterdir()) == sorted([*mine, "a"])


def test_a_switch_that_is_a_link_is_not_followed(folder, tmp_path):
    folder.parent.mkdir(mode=0o700)
    (folder.parent / "nothing-is-kept").symlink_to(tmp_path / "nowhere")
    cache("--off")
    assert not disk_cache.is_on()
    assert not (tmp_path / "nowhere").exists()


def test_nothing_is_called_that_a_file_names(folder, tmp_path):
    recall("program")
    planted(Evil())
    assert recall("made") == "made"
    target = tmp_path / "thesis.txt"
    target.write_text("years of work")
    planted(EvilFile(str(target)))
    assert recall("made again") == "made again"
    assert CALLS == []
    assert target.read_text() == "years of work"
    for evil in (os.system, eval, np.load, disk_cache.clear, type, print, subprocess.Popen, RunStore):
        with pytest.raises(pickle.UnpicklingError):
            pickles.loads(pickle.dumps(evil))


def test_a_program_by_the_name_of_another_is_none(folder):
    recall("one", b"one")
    recall("other", b"other")
    shutil.copyfile(disk_cache._path(b"one"), disk_cache._path(b"other"))
    assert recall("made", b"other") == "made"

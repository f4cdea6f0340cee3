"""Stores of ensembles: one writer, chunks and metadata that belong to their ensemble, and an end at any moment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import ensembles_by_hand as by_hand
import numpy as np
import pytest
import xarray as xr

import polhode as ph
from polhode.simulation.ensembles import store as stores
from polhode.simulation.ensembles.executors import CompiledExecutor
from polhode.storage import constant_arrays, documents, zarr_arrays
from polhode.storage.paths import acquire_lock

MASSES = np.linspace(13.0, 17.0, 20)
HOW: dict[str, Any] = {"integrator": "rkmk4", "h": 1e-3, "t1": 0.01, "save_every": 5, "workers": 1}


@pytest.fixture(scope="module")
def top():
    return ph.problems.get("heavy-top", formulation="S3")


def sweep(top, path, masses=MASSES, **how):
    return ph.ensemble(top, parameters={"mass": masses}, out=path, **{**HOW, **how})


@pytest.fixture(scope="module")
def whole(top, tmp_path_factory):
    """A sweep of three batches, with statistics, and its data."""
    path = tmp_path_factory.mktemp("whole") / "tops.zarr"
    sweep(top, path, statistics=True)
    return path, ph.load_ensemble(path).load()


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole[0], tmp_path / "copy.zarr"))


def assert_equal(found: xr.Dataset, wanted: xr.Dataset) -> None:
    assert set(found.variables) == set(wanted.variables)
    for name in wanted.variables:
        np.testing.assert_array_equal(found[name].values, wanted[name].values, err_msg=str(name))


@pytest.fixture
def batches(monkeypatch):
    """First members of the batches that are run from now on."""
    made: list[int] = []
    run = CompiledExecutor.batch
    monkeypatch.setattr(
        CompiledExecutor, "batch", lambda self, which, stop: (made.append(which.start), run(self, which, stop))[1]
    )
    return made


@pytest.mark.exhaustive
def test_a_store_has_what_memory_has_and_continues(top, tmp_path, batches):
    memory = ph.ensemble(top, parameters={"mass": MASSES}, **HOW).dataset
    path = tmp_path / "tops.zarr"
    assert_equal(sweep(top, path).dataset, memory)
    with pytest.raises(ph.StoreError, match=r"already an ensemble.*resume=True"):
        sweep(top, path)
    batches.clear()
    assert_equal(sweep(top, path, resume=True).dataset, memory)
    # One member is run to know shapes.
    assert batches == [0]
    (path / documents.HIDDEN / "batch-1.json").unlink()
    with pytest.raises(ph.StoreError, match=r"members 8 to 15: their receipt `\.polhode/batch-1\.json` is missing"):
        ph.load_ensemble(path)
    batches.clear()
    assert_equal(sweep(top, path, resume=True).dataset, memory)
    assert batches == [0, 8]
    assert_equal(ph.load_ensemble(path), memory)
    with pytest.raises(ph.StoreError, match="another ensemble"):
        sweep(top, path, resume=True, h=5e-4)
    assert sweep(top, path, overwrite=True, h=5e-4).stats["failed"] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tops.zarr"]


def test_rows_are_read_as_numpy_would(whole):
    path, expected = whole
    result = ph.load_ensemble(path)
    name = "outputs.centre_of_mass"
    for key in (3, -1, slice(2, 19, 3), slice(None, None, -1), slice(15, 2, -4), slice(5, 5), [0, 19, 7], (2, 1)):
        np.testing.assert_array_equal(result[name][key].values, expected[name].values[key])
    np.testing.assert_array_equal(result[name].sel(member=8)[-1, 2].values, expected[name].values[8, -1, 2])


def test_nobody_else_writes_meanwhile(top, tmp_path):
    path = tmp_path / "tops.zarr"
    lock = acquire_lock(path, "x")
    with pytest.raises(ph.StoreError, match=f"in use: process {os.getpid()}"):
        sweep(top, path)
    lock.release()
    sweep(top, path)
    lock = acquire_lock(path, "x")
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(ph.StoreError, match="in use"):
            sweep(top, path, **how)
    with pytest.raises(ph.StoreError, match="in use"):
        ph.simulate(top, "rkmk4", h=1e-3, t1=0.01, store=path)
    lock.release()


def test_two_sweeps_at_one_place_leave_one_whole_store(top, tmp_path):
    path, ends, refused = tmp_path / "tops.zarr", [], []

    def run(gravity):
        try:
            sweep(top.replace(gravity=gravity), path)
            ends.append(gravity)
        except ph.StoreError as error:
            refused.append("in use" in str(error) or "already an ensemble" in str(error))

    threads = [threading.Thread(target=run, args=(g,)) for g in (9.81, 1.62)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 1
    assert refused == [True]
    alone = ph.ensemble(top.replace(gravity=ends[0]), parameters={"mass": MASSES}, **HOW).dataset
    assert_equal(ph.load_ensemble(path), alone)


def test_each_kind_replaces_its_own_only(top, tmp_path, copy):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("years of work")
    ph.simulate(top, "rkmk4", h=1e-3, t1=0.01, store=tmp_path / "run.zarr")
    for place in ("folder", "run.zarr"):
        for how in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(ph.StoreError, match="is not an ensemble of polhode"):
                sweep(top, tmp_path / place, **how)
    with pytest.raises(ph.StoreError, match="is not a run of polhode"):
        ph.simulate(top, "rkmk4", h=1e-3, t1=0.01, store=copy, overwrite=True)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "years of work"
    assert len(ph.load(tmp_path / "run.zarr").t) == 11
    ph.load_ensemble(copy)


def exchange(a: Path, b: Path) -> None:
    kept = a.read_bytes()
    shutil.copyfile(b, a)
    b.write_bytes(kept)


def test_chunks_of_other_places_and_other_ensembles_are_damage(top, copy, tmp_path, whole):
    other = tmp_path / "other.zarr"
    sweep(top, other, statistics=True, masses=MASSES + 0.1)
    name = Path("outputs.axis/c/1/0/0")
    for here, there in ((copy / name, other / name), (copy / name, copy / "outputs.axis/c/0/0/0")):
        exchange(here, there)
        with pytest.raises(ph.StoreError, match=r"members 8 to 15: `outputs\.axis`: the chunk c/1/0/0 is another one"):
            ph.load_ensemble(copy)
        salvaged = ph.load_ensemble(copy, salvage=True)
        assert "c/1/0/0" in salvaged.attrs["damage"]
        assert (salvaged["result"][8:16] == -1).all()
        assert np.isnan(salvaged["outputs.axis"][8:16]).all()
        np.testing.assert_array_equal(salvaged["outputs.axis"][16:], whole[1]["outputs.axis"][16:])
        exchange(here, there)
    ph.load_ensemble(copy)
    for file in ("mass/c/0", "outputs.axis.mean/c/0/0", f"{documents.HIDDEN}/batch-2.json"):
        exchange(copy / file, other / file)
        with pytest.raises(ph.StoreError, match="damaged"):
            ph.load_ensemble(copy)
        exchange(copy / file, other / file)
    # All files of a batch, with its receipt.
    for file in [
        *(p.relative_to(copy) for p in copy.glob("*/c/1/**/*") if p.is_file()),
        f"{documents.HIDDEN}/batch-1.json",
    ]:
        exchange(copy / file, other / file)
    with pytest.raises(ph.StoreError, match="is not the one that was written there"):
        ph.load_ensemble(copy)
    assert_equal(sweep(top, copy, statistics=True, resume=True).dataset, whole[1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("array", ["outputs.axis", "mass", "outputs.axis.mean"])
def test_metadata_that_scale_numbers_are_damage(copy, array, top, whole):
    place = copy / array / "zarr.json"
    content = json.loads(place.read_text())
    content["attributes"]["scale_factor"] = 2.0
    kept = place.read_bytes()
    place.write_bytes(zarr_arrays.compact(content))
    with pytest.raises(ph.StoreError, match=rf"`{array}/zarr\.json` does not have the content"):
        ph.load_ensemble(copy)
    place.write_bytes(kept)
    attributes, metadata = documents.contents(copy, documents.ENSEMBLE)
    metadata[array]["attributes"]["scale_factor"] = 2.0
    (copy / "zarr.json").write_bytes(documents.document(attributes, metadata))
    with pytest.raises(ph.StoreError, match="none that polhode writes"):
        ph.load_ensemble(copy)
    salvaged = sweep(top, copy, statistics=True, resume=True).dataset
    assert_equal(salvaged, whole[1])


def test_damaged_labels_are_left_out_of_what_is_salvaged_and_rebuilt(copy, top, whole):
    (copy / "mass" / "c" / "0").write_bytes(b"noise")
    (copy / "member" / "c" / "0").write_bytes(b"noise")
    with pytest.raises(ph.StoreError, match="member"):
        ph.load_ensemble(copy)
    assert_equal(sweep(top, copy, statistics=True, resume=True).dataset, whole[1])
    (copy / "mass" / "c" / "0").write_bytes(b"noise")
    salvaged = ph.load_ensemble(copy, salvage=True)
    assert "mass" not in salvaged
    np.testing.assert_array_equal(salvaged["state.0"], whole[1]["state.0"])
    (copy / "zarr.json").write_bytes(b"noise")
    with pytest.raises(ph.StoreError, match="salvage"):
        ph.load_ensemble(copy)
    np.testing.assert_array_equal(ph.load_ensemble(copy, salvage=True)["state.0"], whole[1]["state.0"])


def test_what_is_damaged_after_it_was_loaded_is_not_read(copy):
    loaded = ph.load_ensemble(copy)
    (copy / "outputs.axis/c/1/0/0").unlink()
    with pytest.raises(ph.StoreError, match=r"`outputs\.axis`: the chunk c/1/0/0 is missing"):
        loaded["outputs.axis"].load()


@pytest.mark.parametrize(
    "file", ["zarr.json", "outputs.axis/c/1/0/0", "mass/c/0", "mass/zarr.json", ".polhode/batch-0.json"]
)
def test_pipes_are_not_waited_for(copy, file):
    (copy / file).unlink()
    os.mkfifo(copy / file)
    with pytest.raises(ph.StoreError, match=r"regular file|bytes instead"):
        ph.load_ensemble(copy)


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def crashing(monkeypatch):
    """From now on so many files are put in place, and then none."""
    plain = zarr_arrays.replace

    def begin(left: int) -> list[int]:
        counted = [left]

        def replace(path: Path, parts: Any, token: str) -> None:
            counted[0] -= 1
            if counted[0] < 0:
                raise Crash
            plain(path, parts, token)

        for module in (zarr_arrays, constant_arrays, stores):
            monkeypatch.setattr(module, "replace", replace)
        # A process that is killed clears nothing up.
        monkeypatch.setattr("polhode.storage.paths.shutil.rmtree", lambda *a, **k: None)
        return counted

    yield begin
    monkeypatch.undo()


FILES = 39
"""Of a sweep by hand: 17 where it begins, 6 of each batch, 2 of statistics, and the root with its copy."""

AGAIN = 21
"""Of one that goes on, besides those of its batches: 17 where it begins anew, and 4 at its end."""

EVERY = [5, pytest.param(1, marks=pytest.mark.exhaustive)]


@pytest.mark.parametrize("every", EVERY)
def test_any_file_that_a_sweep_writes_may_be_its_last(tmp_path, crashing, monkeypatch, every):
    by_hand.write(tmp_path / "whole.zarr")
    expected = ph.load_ensemble(tmp_path / "whole.zarr").load()
    for number in range(FILES % every, FILES, every):
        path = tmp_path / "cut" / "tops.zarr"
        crashing(number)
        with pytest.raises(Crash):
            by_hand.write(path)
        monkeypatch.undo()
        assert path.exists() == (number >= 17)
        if path.exists():
            result = ph.load_ensemble(path).load()
            ran = result["result"].values == 0
            assert ran.sum() == min(by_hand.COUNT, (number - 17) // 6 * by_hand.SIZE)
            for name in ("outputs.positions", "state", "steps"):
                np.testing.assert_array_equal(result[name].values[ran], expected[name].values[ran])
            assert "stats" not in result.attrs
        by_hand.write(path, resume=True)
        assert_equal(ph.load_ensemble(path), expected)
        assert [p.name for p in path.parent.iterdir()] == ["tops.zarr"]
        shutil.rmtree(path)


@pytest.mark.parametrize("every", EVERY)
def test_a_sweep_that_continues_may_end_at_any_file_too(tmp_path, crashing, monkeypatch, every):
    by_hand.write(tmp_path / "whole.zarr")
    expected = ph.load_ensemble(tmp_path / "whole.zarr").load()
    for number in range(0, AGAIN + 6, every):
        path = Path(shutil.copytree(tmp_path / "whole.zarr", tmp_path / "copy.zarr"))
        (path / "state" / "c" / "1" / "0").write_bytes(b"noise")
        crashing(number)
        with pytest.raises(Crash):
            by_hand.write(path, resume=True)
        monkeypatch.undo()
        assert by_hand.write(path, resume=True) == ([1] if number <= 18 else [])
        assert_equal(ph.load_ensemble(path), expected)
        shutil.rmtree(path)


SWEEP = """
import sys, numpy as np, polhode as ph
from polhode.simulation.ensembles.executors import CompiledExecutor
plain = CompiledExecutor.batch
def slowly(self, which, stop):
    found = plain(self, which, stop)
    print("batch", flush=True)
    sys.stdin.readline()
    return found
CompiledExecutor.batch = slowly
top = ph.problems.get("heavy-top", formulation="S3")
ph.ensemble(top, "rkmk4", h=1e-3, t1=0.01, save_every=5, workers=1, statistics=True,
            parameters={"mass": np.linspace(13.0, 17.0, 20)}, out=sys.argv[1])
"""


@pytest.mark.exhaustive
def test_a_killed_sweep_lets_go_of_its_place_and_continues(top, tmp_path, whole):
    path = tmp_path / "tops.zarr"
    command = [sys.executable, "-c", SWEEP, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(3):
            assert writer.stdout.readline() == "batch\n"
            writer.stdin.write("\n")
            writer.stdin.flush()
        with pytest.raises(ph.StoreError, match=f"in use: process {writer.pid}"):
            sweep(top, path, resume=True)
        writer.kill()
    result = ph.load_ensemble(path)
    assert (result["result"][:8] == 0).all()
    assert (result["result"][16:] == -1).all()
    assert_equal(sweep(top, path, statistics=True, resume=True).dataset, whole[1])
    assert [p.name for p in tmp_path.iterdir()] == ["tops.zarr"]


def test_plain_xarray_has_the_same_with_all_labels(whole):
    path, expected = whole
    with xr.open_zarr(path) as plain:
        assert set(plain.coords) == set(expected.coords)
        assert "mass" in plain.coords
        assert_equal(plain, expected)

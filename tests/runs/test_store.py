from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import xarray as xr

import polhode as ph
from polhode.runs import RunStore, layout
from polhode.solution import Frames, Solution

META = {"problem": "p", "integrator": {"name": "rkmk4"}, "promises": {}}


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def as_tuples(frames):
    return frames._replace(state=tuple(frames.state))


def test_round_trip_keeps_everything(tmp_path, spin_solution):
    spin_solution.save(tmp_path / "run.zarr")
    loaded = ph.load(tmp_path / "run.zarr")
    assert_same(loaded.frames, as_tuples(spin_solution.frames))
    assert loaded.meta == spin_solution.meta
    assert loaded.stats == spin_solution.stats
    assert loaded.stats["result"] is ph.Result.successful


@pytest.mark.parametrize(
    "state",
    [
        np.arange(12.0).reshape(4, 3),
        (np.zeros((4, 3, 3)), (np.ones((4, 2)), [np.arange(4)])),
        {"q": np.ones((4, 4)), "parts": {"b": np.zeros(4), "a": ()}},
        None,
    ],
    ids=["array", "nested", "dict", "none"],
)
def test_any_state_tree_survives(tmp_path, state):
    frames = Frames(np.arange(4.0), state, {}, {}, {}, None)
    Solution(frames, {"result": ph.Result.successful}, META).save(tmp_path / "run.zarr")
    assert_same(ph.load(tmp_path / "run.zarr").frames, frames)


def test_names_that_collide_are_refused(tmp_path):
    frames = Frames(np.arange(2.0), np.zeros(2), {"a.b": np.zeros(2), "a": {"b": np.ones(2)}}, {}, {}, None)
    with pytest.raises(ValueError, match=r"outputs\.a\.b"):
        RunStore.create(tmp_path / "run.zarr", META).append(frames)


def test_frames_of_unequal_length_are_refused(tmp_path, spin_frames):
    frames = spin_frames(8)._replace(multipliers=np.zeros((7, 2)))
    with pytest.raises(ValueError, match="leading axis 8"):
        RunStore.create(tmp_path / "run.zarr", META).append(frames)


def test_open_zarr_gives_the_labelled_data_set(tmp_path, spin_solution):
    spin_solution.save(tmp_path / "run.zarr")
    with xr.open_zarr(tmp_path / "run.zarr") as stored:
        in_memory = spin_solution.to_xarray()
        assert set(stored.variables) == set(in_memory.variables)
        for name in in_memory.variables:
            xr.testing.assert_equal(stored[name].load(), in_memory[name])
        assert stored["outputs.rotation"].dims == ("time", "inertial_axis", "body_axis")
        assert stored["outputs.tip"].dims == ("time", "axis")
        assert stored["outputs.nodes"].dims == ("time", "outputs.nodes_0", "axis")
        assert stored["state.velocity"].dims == ("time", "axis")
        assert json.loads(stored.attrs["meta"])["parameters"]["shape"] == "ring"


def test_declared_dimensions_win(spin_solution):
    meta = {**spin_solution.meta, "dimensions": {"nodes": ["node", "inertial_axis"]}}
    dataset = Solution(spin_solution.frames, spin_solution.stats, meta).to_xarray()
    assert dataset["outputs.nodes"].dims == ("time", "node", "inertial_axis")
    with pytest.raises(ValueError, match="must name 2 axes"):
        Solution(spin_solution.frames, {}, {**meta, "dimensions": {"nodes": ["node"]}}).to_xarray()


def test_blocks_of_any_size_add_up(tmp_path, spin_frames):
    whole = as_tuples(spin_frames(40_000))
    store = RunStore.create(tmp_path / "run.zarr", META)
    for start, stop in [(0, 1), (1, 1), (1, 700), (700, 17_000), (17_000, 39_999), (39_999, 40_000)]:
        store.append(jax.tree.map(lambda x, a=start, b=stop: x[a:b], whole))
        store.flush()
    store.close({"result": ph.Result.successful})
    assert_same(ph.load(tmp_path / "run.zarr").frames, whole)


READER = """
import sys, time, warnings
warnings.simplefilter("error")
import numpy as np, xarray as xr, polhode as ph
lengths = []
print("ready", flush=True)
for line in sys.stdin:
    with xr.open_zarr(sys.argv[1]) as run:
        assert len({run[v].sizes["time"] for v in run.variables}) == 1
        t = run["time"].values
        assert np.all(np.diff(t) > 0), "a time that was not yet written"
        assert np.all(run["outputs.tip"].values[:, 0] == np.cos(3 * t))
    loaded = ph.load(sys.argv[1])
    assert loaded.stats["result"] is ph.Result.interrupted and len(loaded.t) >= len(t)
    print(len(t), flush=True)
"""


def test_another_process_reads_while_the_run_goes_on(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", spin_frames(3000)
    store = RunStore.create(path, META)
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "ready\n"
        seen = []
        for start in range(0, 3000, 250):
            store.append(jax.tree.map(lambda x, a=start: x[a : a + 250], whole))
            store.flush()
            # The reader works while the next blocks are written, not in turns with them.
            reader.stdin.write("\n")
            reader.stdin.flush()
        reader.stdin.close()
        seen = [int(line) for line in reader.stdout]
        assert reader.wait() == 0
    assert len(seen) == 12
    assert seen == sorted(seen)
    assert set(seen) <= set(range(250, 3001, 250))


def test_what_was_cut_off_is_loaded_up_to_the_last_complete_block(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", spin_frames(600)
    store = RunStore.create(path, META)
    store.append(jax.tree.map(lambda x: x[:500], whole))
    store.flush()
    # A crash after numbers and array lengths are written, before they are published.
    store._write(jax.tree.map(lambda x: x, {name: array[:] for name, array in store._arrays.items()}))
    loaded = ph.load(path)
    assert_same(loaded.frames, as_tuples(jax.tree.map(lambda x: x[:500], whole)))
    assert loaded.stats == {"result": ph.Result.interrupted, "t_reached": whole.t[499]}


def test_a_run_without_frames_says_so(tmp_path):
    RunStore.create(tmp_path / "run.zarr", META)
    with pytest.raises(ph.StoreError, match="no frames yet"):
        ph.load(tmp_path / "run.zarr")


def test_a_run_whose_arrays_are_still_empty_says_so(tmp_path, spin_frames):
    # What a reader finds between the creation of the arrays and the first frames in them.
    store = RunStore.create(tmp_path / "run.zarr", META)
    store._structure, block = layout.flatten(spin_frames(3))
    store._create_arrays(block)
    with pytest.raises(ph.StoreError, match="no frames yet"):
        ph.load(tmp_path / "run.zarr")


def test_appending_is_cheap(tmp_path, spin_frames):
    blocks = [spin_frames(1000, k, k + 1) for k in range(200)]
    store = RunStore.create(tmp_path / "run.zarr", META)
    store.append(blocks[0])
    began = time.perf_counter()
    for block in blocks[1:]:
        store.append(block)
    # One write in half a second costs tens of milliseconds; writing each block would cost seconds.
    assert (time.perf_counter() - began) / 199 < 5e-3
    store.close({"result": ph.Result.successful})
    assert len(ph.load(tmp_path / "run.zarr").t) == 200_000


def test_existing_things_are_not_overwritten(tmp_path, spin_solution):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ph.StoreError, match="not a run of polhode"):
            spin_solution.save(tmp_path / "folder", overwrite=overwrite)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "years of work"
    spin_solution.save(tmp_path / "run.zarr")
    with pytest.raises(ph.StoreError, match="overwrite=True"):
        spin_solution.save(tmp_path / "run.zarr")
    shorter = Solution(jax.tree.map(lambda x: x[:5], spin_solution.frames), spin_solution.stats, spin_solution.meta)
    shorter.save(tmp_path / "run.zarr", overwrite=True)
    assert len(ph.load(tmp_path / "run.zarr").t) == 5


def test_a_failing_disk_is_explained_and_nothing_is_lost(tmp_path, spin_frames):
    store = RunStore.create(tmp_path / "run.zarr", META)
    store.append(spin_frames(100, 0, 1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Files may not grow: the operating system refuses the write, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        store.append(spin_frames(100, 2, 3))
        with pytest.raises(ph.StoreError, match=r"run\.zarr.*fewer frames"):
            store.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(ph.load(tmp_path / "run.zarr").t) == 100
    store.close({"result": ph.Result.successful})
    t = np.asarray(ph.load(tmp_path / "run.zarr").t)
    np.testing.assert_array_equal(t, np.r_[np.linspace(0, 1, 100), np.linspace(2, 3, 100)])


def test_impossible_places_are_explained(tmp_path, spin_solution):
    (tmp_path / "file").write_text("")
    with pytest.raises(ph.StoreError, match="not a folder"):
        spin_solution.save(tmp_path / "file" / "run.zarr")
    with pytest.raises(ph.StoreError, match="not a run of polhode"):
        ph.load(tmp_path / "nothing.zarr")

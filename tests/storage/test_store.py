from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import polhode as ph
from polhode.frames import Frames
from polhode.solution.solution import Solution
from polhode.storage import RunStore, documents, frame_layout, locks

META = {"problem": "p", "integrator": {"name": "rkmk4"}, "promises": {}}


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def as_loaded(frames):
    return frames._replace(state=frame_layout.state_class(frames.state._fields)(*frames.state))


def test_round_trip_keeps_everything(tmp_path, spin_solution):
    spin_solution.save(tmp_path / "run.zarr")
    loaded = ph.load(tmp_path / "run.zarr")
    assert_same(loaded.frames, as_loaded(spin_solution.frames))
    assert loaded.meta == spin_solution.meta
    assert loaded.stats == spin_solution.stats
    assert loaded.stats["result"] is ph.Result.successful
    np.testing.assert_array_equal(loaded.state.velocity, spin_solution.state.velocity)
    loaded.save(tmp_path / "again.zarr")
    assert set(xr.open_zarr(tmp_path / "again.zarr")) == set(xr.open_zarr(tmp_path / "run.zarr"))
    assert set(loaded.to_xarray()) == set(spin_solution.to_xarray())


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
        assert stored["outputs.tip"].dims == ("time", "component")
        assert stored["outputs.nodes"].dims == ("time", "outputs.nodes_0", "component")
        assert stored["state.velocity"].dims == ("time", "component")
        assert json.loads(stored.attrs["meta"])["parameters"]["shape"] == "ring"


MODEL = {
    "bodies": ["rocker", "β"],
    "joints": {
        name: {"kind": "Revolute", "bodies": ["a", "b"], "coordinates": {"angle": k}, "angles": ["angle"], "load": k}
        for k, name in enumerate(("left", "right", "top"))
    },
}


@pytest.fixture
def hinges():
    """Three hinge rates, three multipliers and two bodies in five instants."""
    three, places = np.arange(15.0).reshape(5, 3), np.arange(30.0).reshape(5, 2, 3)
    outputs = {"positions": places, "efforts": three, "velocities": three, "tip": three, "rates": places}
    frames = Frames(np.linspace(0, 1, 5), (three, three), outputs, {}, {}, three)
    dimensions = {"positions": ["body", "component"], "efforts": ["joint_coordinate"]}
    return Solution(frames, {"result": ph.Result.successful}, {**META, "names": MODEL, "dimensions": dimensions})


def test_labels_come_from_names_and_not_from_a_length_of_three(hinges):
    dims = {name: x.dims[1:] for name, x in hinges.to_xarray().data_vars.items()}
    assert dims == {
        "state.0": ("state.0_0",),
        "state.1": ("state.1_0",),
        "multipliers": ("multipliers_0",),
        "outputs.positions": ("body", "component"),
        "outputs.efforts": ("joint_coordinate",),
        # Three of several velocities are no components of one.
        "outputs.velocities": ("outputs.velocities_0",),
        "outputs.tip": ("component",),
        "outputs.rates": ("outputs.rates_0", "outputs.rates_1"),
    }


def test_plain_xarray_has_the_labels_too(hinges, tmp_path):
    hinges.save(tmp_path / "run.zarr")
    in_memory = hinges.to_xarray()
    with xr.open_zarr(tmp_path / "run.zarr") as stored:
        assert set(stored.coords) == set(in_memory.coords) == {"time", "body", "component", "joint_coordinate"}
        for name in in_memory.variables:
            assert stored[name].dims == in_memory[name].dims
            assert stored[name].values.tolist() == in_memory[name].values.tolist()
        assert stored["outputs.positions"].sel(body="β", component="z").values.tolist() == [5, 11, 17, 23, 29]
    (tmp_path / "run.zarr" / "body" / "c" / "0").write_bytes(b"noise")
    with pytest.raises(ph.StoreError, match="the chunk of `body` does not have the bytes"):
        ph.load(tmp_path / "run.zarr")
    salvaged = ph.load(tmp_path / "run.zarr", salvage=True)
    assert len(salvaged.t) == 5
    assert "body" in salvaged.stats["damage"]


def test_a_resumed_store_keeps_its_labels(hinges, tmp_path):
    hinges.save(tmp_path / "run.zarr")
    store, _ = RunStore.reopen(tmp_path / "run.zarr")
    store.append(hinges.frames._replace(t=hinges.t + 2))
    store.close({"result": ph.Result.successful})
    assert len(ph.load(tmp_path / "run.zarr").t) == 10
    with xr.open_zarr(tmp_path / "run.zarr") as stored:
        assert stored["body"].values.tolist() == MODEL["bodies"]


AT_EXIT = """
import atexit, sys
import numpy as np
from polhode.frames import Frames
from polhode.storage import RunStore

def write():
    store = RunStore.create(sys.argv[1], {})
    for k in range(3):
        store._next = 0.0
        store.append(Frames(np.arange(4.0) + 4 * k, np.zeros((4, 2)), {}, {}, {}, None))
    store.close({"result": None})

atexit.register(write)
"""


@pytest.mark.exhaustive
def test_a_process_that_is_ending_writes_too(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, tmp_path / "run.zarr"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(ph.load(tmp_path / "run.zarr").t, np.arange(12.0))


def test_what_a_killed_beginning_has_left_is_cleared_away_and_nothing_else(tmp_path, spin_solution):
    remains, links = tmp_path / ".run.zarr.0123456789ab.begun", tmp_path / ".run.zarr.ba9876543210.begun"
    (remains / "state.x").mkdir(parents=True)
    others = [".run.zarr.thesis.begun", ".other.zarr.0123456789ab.begun"]
    for name in others:
        (tmp_path / name).mkdir()
    links.symlink_to(tmp_path / others[0])
    spin_solution.save(tmp_path / "run.zarr")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["run.zarr", links.name, *others])


@pytest.mark.parametrize("file", ["zarr.json", "outputs.tip/c/0/0", "outputs.tip/zarr.json", "checksums", ""])
def test_pipes_are_not_waited_for(tmp_path, spin_solution, file):
    path = tmp_path / "run.zarr"
    spin_solution.save(path)
    place = path / file if file != "checksums" else next((path / documents.HIDDEN).glob("checksums-*"))
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    os.mkfifo(place)
    for act in (ph.load, RunStore.reopen):
        with pytest.raises(ph.StoreError, match=r"regular file|bytes instead|is a file|can't be read"):
            act(path)


def test_declared_dimensions_win(spin_solution):
    meta = {**spin_solution.meta, "dimensions": {"nodes": ["node", "inertial_axis"]}}
    dataset = Solution(spin_solution.frames, spin_solution.stats, meta).to_xarray()
    assert dataset["outputs.nodes"].dims == ("time", "node", "inertial_axis")
    with pytest.raises(ValueError, match="must name 2 axes"):
        Solution(spin_solution.frames, {}, {**meta, "dimensions": {"nodes": ["node"]}}).to_xarray()


def test_blocks_of_any_size_add_up(tmp_path, spin_frames):
    whole = as_loaded(spin_frames(40_000))
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


@pytest.mark.exhaustive
def test_another_process_reads_while_the_run_goes_on(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", spin_frames(3000)
    store = RunStore.create(path, META)
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "ready\n"
        counts = []
        for start in range(0, 3000, 250):
            store.append(jax.tree.map(lambda x, a=start: x[a : a + 250], whole))
            store.flush()
            # The reader works while the next blocks are written, not in turns with them.
            reader.stdin.write("\n")
            reader.stdin.flush()
        reader.stdin.close()
        counts = [int(line) for line in reader.stdout]
        assert reader.wait() == 0
    assert len(counts) == 12
    assert counts == sorted(counts)
    assert set(counts) <= set(range(250, 3001, 250))


def test_what_was_cut_off_is_loaded_up_to_the_last_published_block(tmp_path, spin_frames, monkeypatch):
    path, whole = tmp_path / "run.zarr", spin_frames(600)
    store = RunStore.create(path, META)
    store.append(jax.tree.map(lambda x: x[:500], whole))
    store.flush()
    # A crash after numbers and the metadata of arrays are written, before the file at the root is.
    document = documents.document
    monkeypatch.setattr(documents, "document", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    store.append(jax.tree.map(lambda x: x[500:], whole))
    with pytest.raises(KeyboardInterrupt):
        store.flush()
    monkeypatch.setattr(documents, "document", document)
    loaded = ph.load(path)
    assert_same(loaded.frames, as_loaded(jax.tree.map(lambda x: x[:500], whole)))
    assert loaded.stats == {"result": ph.Result.interrupted, "t_reached": whole.t[499]}
    with xr.open_zarr(path) as run:
        assert run.sizes["time"] == 500
    store.close({"result": ph.Result.successful})
    assert_same(ph.load(path).frames, as_loaded(whole))


def test_nothing_is_there_before_the_first_frames(tmp_path, spin_frames):
    store = RunStore.create(tmp_path / "run.zarr", META)
    assert not (tmp_path / "run.zarr").exists()
    with pytest.raises(ph.StoreError, match="does not exist"):
        ph.load(tmp_path / "run.zarr")
    store.close({"result": ph.Result.interrupted})
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_frames_says_so(tmp_path, spin_frames):
    store = RunStore.create(tmp_path / "run.zarr", META)
    store.append(spin_frames(3, 0, 1)._replace(**jax.tree.map(lambda x: x[:0], spin_frames(3)._asdict())))
    store.close({"result": ph.Result.interrupted})
    with pytest.raises(ph.StoreError, match="no frames that can be read"):
        ph.load(tmp_path / "run.zarr")
    with xr.open_zarr(tmp_path / "run.zarr") as run:
        assert run.sizes["time"] == 0


def test_appending_writes_now_and_then_only(tmp_path, spin_frames, monkeypatch):
    """Blocks wait for the next publication; otherwise each would cost some fifty files."""
    blocks = [spin_frames(1000, k, k + 1) for k in range(200)]
    store = RunStore.create(tmp_path / "run.zarr", META)
    written = []
    publish = store._publish
    monkeypatch.setattr(store, "_publish", lambda *a: (written.append(a), publish(*a)))
    for block in blocks:
        store.append(block)
    assert len(written) < 30
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


@pytest.mark.parametrize("name", ["notes.txt", "outputs.tip/notes.txt", "link"])
def test_what_others_have_put_into_a_store_is_not_lost(tmp_path, spin_solution, name):
    path = tmp_path / "run.zarr"
    spin_solution.save(path)
    for remaining in (".DS_Store", ".zarr.json.0123456789ab"):
        (path / remaining).touch()
    spin_solution.save(path, overwrite=True)
    (path / name).symlink_to(tmp_path) if name == "link" else (path / name).write_text("years of work")
    with pytest.raises(ph.StoreError, match=f"`{name}` in it is none of its files"):
        spin_solution.save(path, overwrite=True)
    assert (path / name).exists()
    assert len(ph.load(path).t) == len(spin_solution.t)


def test_the_folder_in_which_a_process_works_is_not_taken_from_it(tmp_path, monkeypatch, spin_solution):
    (tmp_path / "empty").mkdir()
    spin_solution.save(tmp_path / "run.zarr")
    for folder, place in (("empty", "."), ("run.zarr", "."), ("run.zarr/outputs.tip", tmp_path / "run.zarr")):
        monkeypatch.chdir(tmp_path / folder)
        with pytest.raises(ph.StoreError, match="is where this process works"):
            spin_solution.save(place, overwrite=True)
    assert os.path.samefile(tmp_path / "empty", tmp_path.joinpath("empty"))
    with pytest.raises(ValueError, match="must have a name"):
        spin_solution.save("/")
    monkeypatch.chdir(tmp_path / "empty")
    (tmp_path / "empty").rmdir()
    with pytest.raises(ph.StoreError, match="the folder that this process works in is gone"):
        spin_solution.save("run.zarr")
    spin_solution.save(tmp_path / "other.zarr")


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
    (tmp_path / "sealed").mkdir()
    with pytest.raises(ph.StoreError, match="too long"):
        spin_solution.save(tmp_path / ("x" * 300))
    for nonsense in ("", 3, None, b"x", "a\0b"):
        with pytest.raises((ValueError, ph.StoreError)):
            spin_solution.save(nonsense)


def test_a_symbolic_link_stays_one(tmp_path, spin_solution):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run.zarr").symlink_to(tmp_path / "disk" / "real.zarr")
    spin_solution.save(tmp_path / "run.zarr")
    spin_solution.save(tmp_path / "run.zarr", overwrite=True)
    assert (tmp_path / "run.zarr").is_symlink()
    assert len(ph.load(tmp_path / "disk" / "real.zarr").t) == len(spin_solution.t)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["disk", "run.zarr"]


def test_what_is_not_ours_stays(tmp_path, spin_solution):
    spin_solution.save(tmp_path / "run.zarr")
    (tmp_path / "run.zarr.replaced").mkdir()
    (tmp_path / "run.zarr.replaced" / "thesis.txt").write_text("years of work")
    spin_solution.save(tmp_path / "run.zarr", overwrite=True)
    assert (tmp_path / "run.zarr.replaced" / "thesis.txt").read_text() == "years of work"


def test_an_earlier_run_stays_until_the_new_one_has_a_frame(tmp_path, spin_solution, spin_frames):
    spin_solution.save(tmp_path / "run.zarr")
    store = RunStore.create(tmp_path / "run.zarr", META, overwrite=True)
    assert len(ph.load(tmp_path / "run.zarr").t) == 64
    store.append(spin_frames(5))
    assert len(ph.load(tmp_path / "run.zarr").t) == 5
    store.close({"result": ph.Result.successful})
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_a_run_that_was_replaced_is_not_read_as_the_new_one(tmp_path, spin_solution, spin_frames):
    spin_solution.save(tmp_path / "run.zarr")
    old = ph.load(tmp_path / "run.zarr")
    shorter = Solution(spin_frames(9, 5.0, 6.0), spin_solution.stats, spin_solution.meta)
    shorter.save(tmp_path / "run.zarr", overwrite=True)
    with pytest.raises(ph.StoreError, match="replaced by another run"):
        _ = old.outputs["tip"]


WRITER = """
import sys
from polhode.storage import RunStore
store = RunStore.create(sys.argv[1], {})
print("locked", flush=True)
sys.stdin.readline()
"""


def test_one_writer_at_a_time_and_a_dead_one_counts_for_nothing(tmp_path, spin_solution):
    path = tmp_path / "run.zarr"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "locked\n"
        with pytest.raises(ph.StoreError, match=rf"in use: process {writer.pid} on .* has been writing there since"):
            spin_solution.save(path)
        writer.kill()
    spin_solution.save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.zarr"]


def test_a_writer_on_another_machine_counts_as_long_as_it_gives_signs_of_life(tmp_path, spin_solution):
    lock = tmp_path / ".run.zarr.lock"
    lock.write_text(json.dumps({"host": "elsewhere", "pid": 1, "run": "x", "since": 0}))
    with pytest.raises(ph.StoreError, match="process 1 on elsewhere"):
        spin_solution.save(tmp_path / "run.zarr")
    old = time.time() - 100
    os.utime(lock, (old, old))
    spin_solution.save(tmp_path / "run.zarr")


NAMES = ["a/b", "..", "c\\d", "x%2Fy", "<!--<script>", "zarr.json", "c", "ω·r", "tab\there", " "]


def test_names_of_all_kinds_survive(tmp_path):
    frames = Frames(np.arange(4.0), np.zeros(4), {n: k + np.zeros(4) for k, n in enumerate(NAMES)}, {}, {}, None)
    Solution(frames, {"result": ph.Result.successful}, META).save(tmp_path / "run.zarr")
    assert_same(ph.load(tmp_path / "run.zarr").frames, frames)
    with xr.open_zarr(tmp_path / "run.zarr") as run:
        assert len(run.variables) == len(NAMES) + 2
    long = frames._replace(outputs={"n" * 300: np.zeros(4)})
    with pytest.raises(ValueError, match="too long"):
        Solution(long, {"result": ph.Result.successful}, META).save(tmp_path / "long.zarr")


def test_damage_is_named_and_what_is_whole_is_salvaged(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", spin_frames(40_000)
    Solution(whole, {"result": ph.Result.successful}, META).save(path)
    chunk = path / "outputs.tip" / "c" / "2" / "0"
    data = bytearray(chunk.read_bytes())
    data[1000] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(ph.StoreError, match=r"`outputs\.tip`: the chunk c/2/0 does not have.*first 10000 frames.*salv"):
        ph.load(path)
    saved = ph.load(path, salvage=True)
    assert len(saved.t) == 10000
    assert_same(saved.frames, as_loaded(jax.tree.map(lambda x: x[:10000], whole)))
    assert saved.stats["result"] is ph.Result.interrupted
    assert "c/2/0" in saved.stats["damage"]
    chunk.unlink()
    with pytest.raises(ph.StoreError, match="c/2/0 is missing"):
        ph.load(path)
    (path / "zarr.json").write_text("{")
    with pytest.raises(ph.StoreError, match=r"`zarr\.json` can't be read"):
        ph.load(path)
    assert len(ph.load(path, salvage=True).t) == 10000


def test_labels_that_are_not_as_many_as_the_numbers_are_refused(hinges, tmp_path):
    path = tmp_path / "run.zarr"
    hinges.save(path)
    content = json.loads((path / "zarr.json").read_text())
    attributes = content["attributes"]
    attributes.pop("digest")
    meta = json.loads(attributes["meta"])
    for joint in meta["names"]["joints"].values():
        joint["coordinates"] = {}
    attributes["meta"] = json.dumps(meta)
    (path / "zarr.json").write_bytes(documents.document(attributes, content["consolidated_metadata"]["metadata"]))
    with pytest.raises(ph.StoreError, match=r"0 labels for the 3 of `joint_coordinate` in `outputs\.efforts`"):
        ph.load(path)


def test_other_formats_and_hostile_metadata_are_refused(tmp_path, spin_solution):
    path = tmp_path / "run.zarr"
    spin_solution.save(path)
    content = json.loads((path / "zarr.json").read_text())

    def written(change):
        altered = json.loads(json.dumps(content))
        attributes = altered["attributes"]
        attributes.pop("digest")
        change(altered, attributes)
        (path / "zarr.json").write_bytes(documents.document(attributes, altered["consolidated_metadata"]["metadata"]))

    def deep(whole, attributes):
        attributes["structure"] = '{"tuple": [' * 500 + "]}" * 500

    def huge(whole, attributes):
        attributes["frames"] = 10**15
        for array in whole["consolidated_metadata"]["metadata"].values():
            array["shape"][0] = 10**15

    def wide(whole, attributes):
        whole["consolidated_metadata"]["metadata"]["outputs.tip"]["chunk_grid"]["configuration"]["chunk_shape"] = [
            10**12,
            3,
        ]

    def other(whole, attributes):
        attributes["polhode_format"] = 999

    def kind(whole, attributes):
        whole["consolidated_metadata"]["metadata"]["outputs.tip"]["data_type"] = []

    def elsewhere(whole, attributes):
        attributes["checksums"]["file"] = "../run.zarr/zarr.json"

    def result(whole, attributes):
        attributes["stats"] = '{"result": "splendid"}'

    for change, message in [
        (other, "has the format 999"),
        (deep, "damaged"),
        (huge, "is missing|damaged"),
        (wide, "bytes instead of"),
        (kind, "no sense: numbers of type"),
        (elsewhere, "no sense"),
        (result, "damaged"),
    ]:
        written(change)
        with pytest.raises(ph.StoreError, match=message):
            ph.load(path)


def test_frames_are_read_from_disk_when_they_are_looked_at(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", spin_frames(5000)
    Solution(whole, {"result": ph.Result.successful}, META).save(path)
    loaded = ph.load(path)
    np.testing.assert_array_equal(loaded.outputs["tip"], whole.outputs["tip"])
    assert set(loaded.outputs) == {"tip", "rotation", "energies", "nodes"}
    np.testing.assert_array_equal(loaded.outputs["energies"]["potential"], whole.outputs["energies"]["potential"])
    shapes = jax.tree.map(lambda x: x.shape, loaded.outputs)
    assert shapes["nodes"] == (5000, 2, 3)
    with pytest.raises(ValueError, match="read-only"):
        loaded.t[0] = 1.0


def chunk(path, name, number):
    return path / name / "c" / str(number) / "0"


def test_intact_chunks_in_other_places_are_damage(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", spin_frames(40_000)
    Solution(whole, {"result": ph.Result.successful}, META).save(path)
    older = tmp_path / "older.zarr"
    Solution(spin_frames(40_000, 1.0, 3.0), {"result": ph.Result.successful}, META).save(older)
    for source, number in [(path, 0), (older, 1)]:
        name = chunk(path, "outputs.tip", 1)
        content = name.read_bytes()
        shutil.copyfile(chunk(source, "outputs.tip", number), name)
        with pytest.raises(ph.StoreError, match=r"the chunk c/1/0 is another one than.*first 5000 frames are whole"):
            ph.load(path)
        assert_same(ph.load(path, salvage=True).t, whole.t[:5000])
        name.write_bytes(content)
    ph.load(path)


@pytest.mark.parametrize("damage", ["noise", "missing"])
def test_without_the_kept_checksums_chunks_are_compared_with_their_own(tmp_path, spin_frames, damage):
    path, whole = tmp_path / "run.zarr", spin_frames(40_000)
    Solution(whole, {"result": ph.Result.successful}, META).save(path)
    (file,) = (path / documents.HIDDEN).glob("checksums-*")
    if damage == "noise":
        file.write_bytes(b"noise")
    else:
        file.unlink()
    with pytest.raises(ph.StoreError, match=rf"{file.name}` (does not have|is missing)"):
        ph.load(path)
    with pytest.raises(ph.StoreError, match=rf"{file.name}` (does not have|is missing)"):
        RunStore.reopen(path)
    saved = ph.load(path, salvage=True)
    assert_same(saved.frames, as_loaded(whole))
    assert file.name in saved.stats["damage"]
    data = bytearray(chunk(path, "outputs.tip", 2).read_bytes())
    data[1000] ^= 1
    chunk(path, "outputs.tip", 2).write_bytes(data)
    assert len(ph.load(path, salvage=True).t) == 10000


def test_stores_that_went_on_after_a_cut_have_the_checksums_of_all_chunks(tmp_path, spin_frames):
    path, whole = tmp_path / "run.zarr", as_loaded(spin_frames(40_000))
    store = RunStore.create(path, META)
    for start, stop in [(0, 5), (5, 11_000), (11_000, 11_001), (11_001, 33_000)]:
        store.append(jax.tree.map(lambda x, a=start, b=stop: x[a:b], whole))
        store.flush()
        assert len(ph.load(path).t) == stop
    store.release()
    store, _ = RunStore.reopen(path)
    store.append(jax.tree.map(lambda x: x[33_000:], whole))
    store.close({"result": ph.Result.successful})
    assert_same(ph.load(path).frames, whole)
    assert len(list((path / documents.HIDDEN).glob("checksums-*"))) == 2


def test_damaged_stores_are_not_gone_on_with(tmp_path, spin_frames):
    path = tmp_path / "run.zarr"
    Solution(spin_frames(40_000), {"result": ph.Result.successful}, META).save(path)
    for number in (0, 3):
        name = chunk(path, "outputs.tip", number)
        content = name.read_bytes()
        name.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ph.StoreError, match=rf"run\.zarr` is damaged: `outputs\.tip`: the chunk c/{number}/0 does"):
            RunStore.reopen(path)
        name.write_bytes(content)
    store, _ = RunStore.reopen(path)
    store.release()


@pytest.mark.parametrize("damage", ["is missing", "does not have the bytes"])
def test_without_its_checkpoint_a_run_begins_anew_in_its_last_frame(tmp_path, damage):
    path, top = tmp_path / "run.zarr", ph.problems.get("heavy-top")
    ph.simulate(top, "rkmk4", h=1e-2, t1=0.1, store=path)
    (file,) = (path / documents.HIDDEN).glob("checkpoint-*")
    if damage == "is missing":
        file.unlink()
    else:
        file.write_bytes(b"noise")
    with pytest.raises(ph.StoreError, match=rf"checkpoint `.*{file.name}` {damage}.*`polhode.simulate") as caught:
        ph.resume(path)
    assert "salvage" not in str(caught.value)
    loaded = ph.load(path)
    assert loaded.saved.read_checkpoint() is None
    on = ph.simulate(top, "rkmk4", h=1e-2, initial=loaded, t1=0.2)
    np.testing.assert_allclose(on.t[[0, -1]], [0.1, 0.2])


@pytest.mark.parametrize("what", ["deleted", "renamed", "emptied"])
def test_a_folder_that_is_taken_away_during_the_run_is_not_made_anew(tmp_path, spin_frames, what):
    path = tmp_path / "run.zarr"
    store = RunStore.create(path, META)
    store.append(spin_frames(100, 0, 1))
    if what == "renamed":
        path.rename(tmp_path / "moved.zarr")
    else:
        shutil.rmtree(path)
    if what == "emptied":
        path.mkdir()
    store.append(spin_frames(100, 2, 3))
    for act in (store.flush, lambda: store.close({"result": ph.Result.successful})):
        with pytest.raises(ph.StoreError, match=r"run\.zarr` is gone: it was deleted, renamed"):
            act()
    store.release()
    assert not path.exists() or not any(path.iterdir())
    if what == "renamed":
        assert len(ph.load(tmp_path / "moved.zarr").t) == 100


def test_a_run_whose_folder_is_taken_away_says_so(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    take = RunStore._record

    def taken(self, written):
        take(self, written)
        shutil.rmtree(path)

    monkeypatch.setattr(RunStore, "_record", taken)
    with pytest.raises(ph.SimulationError, match=r"run\.zarr` is gone") as caught:
        ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-3, t1=1.0, store=path)
    assert caught.value.solution.stats["result"] is ph.Result.store_failed
    assert not path.exists()


def test_a_solution_whose_store_is_gone_says_so(tmp_path, spin_solution):
    path = tmp_path / "run.zarr"
    spin_solution.save(path)
    loaded = ph.load(path)
    (path / "zarr.json").unlink()
    shutil.rmtree(path / documents.HIDDEN)
    with pytest.raises(ph.StoreError, match="no run of polhode any more"):
        _ = loaded.outputs["tip"]
    shutil.rmtree(path)
    with pytest.raises(ph.StoreError, match="is gone: it was deleted or renamed"):
        _ = loaded.outputs["tip"]


def test_a_writer_gives_signs_of_life_also_while_it_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_S", 0.02)
    store, lock = RunStore.create(tmp_path / "run.zarr", META), tmp_path / ".run.zarr.lock"
    os.utime(lock, (0, 0))
    deadline = time.monotonic() + 20
    while lock.stat().st_mtime == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lock.stat().st_mtime > 0
    assert "polhode-lock" in [thread.name for thread in threading.enumerate()]
    store.release()
    assert not lock.exists()
    assert not store._lock._heart.is_alive()


def test_locks_need_nothing_that_only_one_system_has(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    for name in ("pread", "pwrite"):
        monkeypatch.delattr(os, name)
    first = locks.Lock(tmp_path / "run.zarr", "x")
    first.acquire()
    with pytest.raises(locks.LockedError, match=f"process {os.getpid()}"):
        locks.Lock(tmp_path / "run.zarr", "y").acquire()
    first.release()
    assert not list(tmp_path.iterdir())


def test_large_frames_are_published_as_often_as_others(tmp_path, spin_frames, monkeypatch):
    store = RunStore.create(tmp_path / "run.zarr", META)
    store.append(spin_frames(100, 0, 1))
    take = store._record
    monkeypatch.setattr(store, "_record", lambda written: take(written._replace(seconds=1.0)))
    store.append(spin_frames(100, 2, 3))
    store.flush()
    assert store._next - time.perf_counter() <= 0.2
    store.release()


def test_batches_are_saved_case_by_case(tmp_path):
    field = ph.VectorField(ph.spaces.Rn(1), lambda t, y: -y)

    def run(state0):
        return ph.simulate(field, "rkmk4", h=1e-2, t1=0.2, state0=state0)

    batch = jax.vmap(run)(jnp.arange(1.0, 4.0)[:, None])
    with pytest.raises(ValueError, match=r"`t` of this solution has 2 axes.*save each case: `jax.tree.map"):
        batch.save(tmp_path / "batch.zarr")
    assert not list(tmp_path.iterdir())
    one = jax.tree.map(lambda x: x[1], batch)
    one.save(tmp_path / "one.zarr")
    loaded = ph.load(tmp_path / "one.zarr")
    assert_same(loaded.state, batch.state[1])
    assert loaded.stats["result"] is ph.Result.successful
    assert loaded.stats["steps"] == 20


READING_WHILE_WRITING = """
import sys, polhode as ph
while True:
    found = ph.load(sys.argv[1])
    print(len(found.t), flush=True)
    if found.stats["result"] is ph.Result.successful:
        break
"""


@pytest.mark.parametrize("blocks", [100, pytest.param(400, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_readers_never_take_a_run_that_goes_on_for_damaged(blocks, tmp_path, spin_frames):
    """Checksums are replaced between the reading of the root and theirs."""
    path = tmp_path / "run.zarr"
    store = RunStore.create(path, META)
    store.append(spin_frames(10, 0, 1))
    command = [sys.executable, "-c", READING_WHILE_WRITING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "10\n"
        for k in range(1, blocks):
            store.append(spin_frames(10, k, k + 0.9))
            store.flush()
        store.close({"result": ph.Result.successful})
        out, err = reader.communicate(timeout=60)
    assert reader.returncode == 0, err
    assert int(out.splitlines()[-1]) == 10 * blocks

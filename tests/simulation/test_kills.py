"""Runs that are killed at random moments: what is on disk is an exact, fresh prefix, and goes on to the same bytes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import killed_run
import numpy as np
import pytest
import xarray as xr

import polhode as ph
from polhode.simulation import store_sink
from polhode.simulation.loops import host
from polhode.storage import RunStore, documents, store, zarr_store

HERE = Path(__file__).parent
SECONDS = 3.0
"""What a run takes without interruption."""

OLDEST = 0.5
"""Seconds of a run that may be lost."""

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
WAYS = ("SIGKILL twice", "SIGTERM", "SIGINT", "full disk", "refused writes twice")
"""`full disk`: a small file system of its own where one can be mounted; `refused writes`: the process itself pretends,
after a random number of bytes. `twice`: the rest of the run is killed as well, which makes seven kills."""

EVERY: dict[str, tuple[str, ...]] = {
    kind: WAYS for kind in ("controlled", "herk5", "generalized-alpha", "eml", "rod", "particles")
}
EVERY["unconstrained"] = (*WAYS, "SIGKILL")

Reference = dict[str, np.ndarray]


class Place(NamedTuple):
    """Where runs are written. `disk`: a file system that can be filled; None where none can be mounted."""

    folder: Path
    disk: Path | None


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("kills")
    disk = folder / "disk"
    disk.mkdir()
    mounted = (
        shutil.which("mount") is not None
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(disk)], capture_output=True, check=False
        ).returncode
    )
    yield Place(folder, disk if mounted else None)
    if mounted:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Other moments with each `--fuzz-seed` and for each test."""
    return np.random.default_rng((request.config.getoption("--fuzz-seed"), zlib.crc32(request.node.name.encode())))


class Child:
    """A process that makes runs of one kind, made again after it was killed."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.errors = kind, folder / f"{kind}.errors"
        self.process: subprocess.Popen[bytes] | None = None

    def order(self, **what: Any) -> None:
        if self.process is not None and self.process.poll() is not None:
            # A signal that came when a run had just ended took the process with it.
            self.end()
        if self.process is None:
            with self.errors.open("ab") as errors:
                self.process = subprocess.Popen(
                    [sys.executable, "-W", "error", str(HERE / "killed_run.py"), self.kind],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                )
        self._pipes[0].write(json.dumps(what).encode() + b"\n")

    @property
    def _pipes(self) -> Any:
        assert self.process is not None
        return self.process.stdin, self.process.stdout

    def answered(self) -> bool:
        """Whether the order is carried out."""
        return bool(select.select([self._pipes[1]], [], [], 0)[0])

    def answer(self, timeout: float = 300.0) -> dict[str, Any]:
        assert select.select([self._pipes[1]], [], [], timeout)[0], "it hangs"
        line = self._pipes[1].readline()
        assert line, self.errors.read_text()
        return json.loads(line)

    def signalled(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in self._pipes:
                pipe.close()
            self.process = None


class Trial(NamedTuple):
    """A kind of run, in a process of its own, and its uninterrupted run."""

    child: Child
    reference: Reference
    whole: dict[str, Any]


@pytest.fixture(scope="module")
def tried(place) -> Iterator[Any]:
    made: dict[str, Trial] = {}

    def of(kind: str, seconds: float = SECONDS) -> Trial:
        if kind not in made:
            child, out = Child(kind, place.folder), place.folder / f"{kind}.npz"
            child.order(do="reference", seconds=seconds, out=str(out))
            whole = child.answer()
            assert whole["result"] == "successful"
            with np.load(out) as result:
                made[kind] = Trial(child, {name: result[name] for name in result.files}, whole)
            numbers = [x for x in made[kind].reference.values() if x.dtype.kind not in "US"]
            assert not any(np.isnan(x).any() for x in numbers)
        return made[kind]

    yield of
    for each in made.values():
        each.child.end()


def assert_prefix(path: Path, reference: Reference) -> int:
    """That the store has the first frames of the reference, to the last bit, also for plain xarray; how many."""
    leaves = jax.tree.leaves(ph.load(path).frames)
    count = len(leaves[0])
    assert 0 < count <= len(reference["time"])
    assert {f"leaf {k}" for k in range(len(leaves))} == {name for name in reference if name.startswith("leaf ")}
    for k, leaf in enumerate(leaves):
        assert_same_bytes(np.asarray(leaf), reference[f"leaf {k}"][:count])
    with xr.open_zarr(path) as plain:
        assert plain.sizes["time"] == count
        assert set(plain.variables) == {name for name in reference if not name.startswith("leaf ")}
        for name, values in plain.variables.items():
            expected = reference[str(name)]
            if expected.dtype.kind in "US":  # labels, whose width in memory may differ
                assert values.values.tolist() == expected.tolist()
            else:
                assert_same_bytes(values.values, expected[:count] if "time" in values.dims else expected)
    return count


def assert_same_bytes(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()


def seconds_lost(log: Path, frames: int, at: float) -> float:
    """How long before the instant `at` the run had come to the last of so many frames.

    Time before the first block of steps, when there is nothing that could be written, isn't counted.
    """
    lines = [line.split() for line in log.read_text().splitlines()]
    began = [float(line[1]) for line in lines if line[0] == "began"]
    ended = {int(line[2]): float(line[1]) for line in reversed(lines) if line[0] == "ended"}
    # The first block makes no steps; it is compiled.
    known = {**ended, min(ended): began[1] if len(began) > 1 else at}
    return at - known[frames]


def computed_steps(log: Path) -> int:
    """Frames by the end of the last block."""
    return max(int(line.split()[2]) for line in log.read_text().splitlines() if line.startswith("ended"))


def last_moment(log: Path) -> float:
    """When the last block began or ended."""
    return float(log.read_text().splitlines()[-1].split()[1])


def seconds_in_block(log: Path, at: float) -> float:
    """How long the block was under way that was being computed then; none can be interrupted."""
    last = log.read_text().splitlines()[-1].split()
    return max(0.0, at - float(last[1])) if last[0] == "began" else 0.0


class Kill(NamedTuple):
    """A kill and what was left: frames, seconds of the run that were not, and those of them in the last block."""

    kind: str
    way: str
    frames: int
    of: int
    lost: float
    block: float


def kill_run(order: dict[str, Any], way: str, run: Trial, within: float, rng: np.random.Generator) -> Kill:
    """Give an order, break off what it begins, and look at what is on disk."""
    child, path, log = run.child, Path(order["store"]), Path(order["log"])
    log.unlink(missing_ok=True)
    flag = Path(order["refusing"]) if order["refusing"] else None
    child.order(**order)
    began = time.monotonic()
    while not (log.exists() and log.read_text().count("began") > 1):
        assert not child.answered() or child.answer() is None
        assert time.monotonic() - began < 300
        time.sleep(0.002)
    # Frames were published before the first block of steps.
    assert (path / documents.FILE).is_file()
    time.sleep(rng.uniform(0, within))
    filler = path.with_name("filler")
    at = time.monotonic()
    if way in SIGNALS:
        child.signalled(SIGNALS[way])
        at = time.monotonic()
    elif flag is not None:
        _complete(flag, str(rng.integers(1_000_000)))
    else:
        fill(filler, spare=int(rng.integers(100)))
    if way in ("SIGKILL", "SIGTERM"):
        assert child.process is not None
        status = child.process.wait(timeout=300)
        child.end()
        frames = assert_prefix(path, run.reference)
        if way == "SIGTERM":
            # What is computed is written before the process ends, with the status that whoever sent it waits for.
            assert status == -signal.SIGTERM
            assert frames == computed_steps(log)
            at = last_moment(log)
    else:
        answer = child.answer()
        frames = assert_prefix(path, run.reference)
        if answer["result"] == "successful":
            assert frames == len(run.reference["time"])
        elif way in SIGNALS:
            # What is computed is written before the process ends.
            at = last_moment(log)
            assert answer["result"] == "interrupted"
            assert frames == computed_steps(log)
        else:
            # What was computed up to then, and not what it takes to say so.
            at = last_moment(log)
            assert answer["result"] == "store_failed"
            assert "No space left on device" in answer["said"]
            assert f"holds the first {frames} frames" in answer["said"]
        filler.unlink(missing_ok=True)
        if flag is not None:
            flag.unlink(missing_ok=True)
    lost = max(0.0, seconds_lost(log, frames, at))
    return Kill(child.kind, way, frames, len(run.reference["time"]), lost, min(lost, seconds_in_block(log, at)))


def fill(path: Path, spare: int) -> None:
    """Take what is free of a disk but so many blocks; the run takes some at the same time."""
    with path.open("wb") as file:
        while (free := os.statvfs(path.parent)).f_bavail > spare:
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, (free.f_bavail - spare) * free.f_bsize)
                return


def _complete(path: Path, text: str) -> None:
    aside = path.with_suffix(".aside")
    aside.write_text(text)
    aside.rename(path)


def strays(folder: Path) -> list[str]:
    """Files that are neither frames nor metadata nor a checkpoint."""
    here = [p.name for p in folder.parent.iterdir() if p.name.startswith(".")]
    return here + [str(p) for p in folder.rglob(".*") if p.name != documents.HIDDEN]


def broken_off(run: Trial, meant: str, place: Place, rng: np.random.Generator, part: float = 0.8) -> list[Kill]:
    """One run that is killed, once or twice, checked, and gone on with; what was found at each kill.

    It is killed within that part of the time that it should take.
    """
    way, times = meant.removesuffix(" twice"), 2 if meant.endswith(" twice") else 1
    ground = place.folder
    if way == "full disk":
        ground, way = (place.disk, way) if place.disk is not None else (ground, "refused writes")
    folder = ground / f"run-{rng.integers(1 << 62):x}"
    folder.mkdir()
    try:
        path, log, flag = folder / "run.zarr", place.folder / "run.log", place.folder / "refusing"
        common = {"log": str(log), "when_full": "fail", "refusing": str(flag) if way == "refused writes" else ""}
        kills: list[Kill] = []
        order = {"do": "run", "store": str(path), "t1": run.whole["t1"], **common}
        for k in range(times):
            left = 1 - kills[-1].frames / kills[-1].of if kills else 1.0
            kill = kill_run(order, way, run, part * left * run.whole["took"] / (times - k), rng)
            if kill.frames == kill.of:
                # It was faster than meant.
                assert part > 0.05, "the run always comes to its end before it is killed"
                shutil.rmtree(folder)
                return broken_off(run, meant, place, rng, part / 3)
            kills.append(kill)
            order = {"do": "resume", "store": str(path), **common}
        run.child.order(**{**order, "refusing": ""})
        answer = run.child.answer()
        assert answer["result"] == "successful", answer
        assert (answer["steps"], answer["rejected"]) == (run.whole["steps"], run.whole["rejected"])
        assert assert_prefix(path, run.reference) == len(run.reference["time"])
        assert strays(path) == []
        return kills
    finally:
        # The disk is small.
        shutil.rmtree(folder, ignore_errors=True)


def assert_fresh(kills: list[Kill]) -> None:
    """That hardly anything was lost but what was being computed."""
    for kill in kills:
        message = (
            f"{kill.frames:6} of {kill.of:6} frames, {kill.lost:.3f} s lost, {kill.block:.3f} s of them in a block"
        )
        print(f"{kill.kind:18} {kill.way:15} {message}")
    assert [kill for kill in kills if kill.lost - kill.block > OLDEST] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", EVERY)
def test_runs_killed_at_random_moments_leave_what_continues_to_the_same_bytes(kind, tried, place, rng):
    kills = [kill for way in EVERY[kind] for kill in broken_off(tried(kind), way, place, rng)]
    assert_fresh(kills)


@pytest.mark.exhaustive
def test_a_run_of_them(tried, place, rng):
    assert_fresh(broken_off(tried("unconstrained", seconds=SECONDS / 2), "SIGKILL", place, rng))


def test_the_check_sees_a_byte_and_a_frame(tmp_path):
    top, path = ph.problems.get("heavy-top"), tmp_path / "run.zarr"
    how: dict[str, Any] = {"h": 1e-3, "t1": 0.1}
    ph.simulate(top, "rkmk4", **how, store=path)
    reference = killed_run.recorded(ph.simulate(top, "rkmk4", **how))
    assert assert_prefix(path, reference) == 101
    for name, whole in reference.items():
        other = whole.copy()
        other.reshape(-1).view(np.uint8)[other.nbytes // 2] ^= 1
        with pytest.raises(AssertionError):
            assert_prefix(path, {**reference, name: other})
    with pytest.raises(AssertionError):
        assert_prefix(path, {name: np.delete(whole, 50, axis=0) for name, whole in reference.items()})
    log = tmp_path / "log"
    log.write_text("began 1\nended 2 1\nbegan 10\nended 10.2 5\nbegan 10.3\nended 10.5 9\nbegan 10.6\n")
    assert [seconds_lost(log, frames, 11.0) for frames in (9, 5, 1)] == pytest.approx([0.5, 0.8, 1.0])


class Crash(BaseException):
    """The process ends here."""


def crashing(monkeypatch, left: int, error: BaseException) -> list[int]:
    """From now on so many files are put in place, and then none; how many are left."""
    counted, put = [left], zarr_store.replace

    def replace(path: Path, data: bytes, token: str) -> None:
        counted[0] -= 1
        if counted[0] < 0:
            raise error
        put(path, data, token)

    monkeypatch.setattr("polhode.storage.zarr_store.replace", replace)
    monkeypatch.setattr("polhode.storage.zarr_arrays.replace", replace)
    return counted


@pytest.fixture
def publishing_often(monkeypatch) -> None:
    monkeypatch.setattr(host, "_next_block", lambda *_: 100)
    monkeypatch.setattr(store, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(store, "_SHARE", 1e9)
    append = RunStore.append

    def slowly(self: RunStore, *args: Any) -> Any:
        # Steps are made faster than stores are published. Not by `time.sleep`, which tests put something else for.
        threading.Event().wait(0.02)
        return append(self, *args)

    monkeypatch.setattr(RunStore, "append", slowly)


def run_crashing(*_: Any) -> None:
    raise Crash


TOP: dict[str, Any] = {"h": 1e-3, "t1": 0.8}
FILES = 11 + 4
"""In each publication of a heavy top: chunks of 11 arrays, their checksums, the checkpoint, the root and its copy."""
FIRST = FILES + 11
"""In the first one the metadata of the arrays besides."""


@pytest.mark.usefixtures("publishing_often")
@pytest.mark.exhaustive
def test_any_file_that_a_resumed_run_writes_may_be_its_last(tmp_path, monkeypatch):
    top, begun = ph.problems.get("heavy-top"), tmp_path / "begun.zarr"
    reference = killed_run.recorded(ph.simulate(top, "rkmk4", **TOP))
    writes = iter([RunStore._write, RunStore._write, run_crashing])
    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "_write", lambda *a: next(writes)(*a))
        with pytest.raises(Crash):
            ph.simulate(top, "rkmk4", **TOP, store=begun)
    known, lost = assert_prefix(begun, reference), []
    assert 1 < known < 801
    for number in range(0, FILES + 2, 2):
        path = shutil.copytree(begun, tmp_path / f"{number}.zarr")
        with monkeypatch.context() as patch:
            crashing(patch, number, Crash())
            with pytest.raises(Crash):
                ph.resume(path)
        assert (assert_prefix(path, reference) > known) == (number >= FILES)
        lost += not_going_on(path, number, reference)
    assert lost == []


@pytest.mark.exhaustive
@pytest.mark.usefixtures("publishing_often")
def test_a_run_that_waited_for_space_and_was_killed_continues(tmp_path, monkeypatch):
    top, path, lost = ph.problems.get("heavy-top"), tmp_path / "run.zarr", []
    reference = killed_run.recorded(ph.simulate(top, "rkmk4", **TOP))
    for number in range(0, FILES, 2):
        waits = iter([False, False, True])
        with monkeypatch.context() as patch:
            left = crashing(patch, FIRST + FILES + number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

            def sleep(_: float, left=left, waits=waits, number=number) -> None:
                if next(waits):
                    raise Crash
                # There is space for some of the files again.
                left[0] = number

            patch.setattr(store_sink.time, "sleep", sleep)
            with pytest.raises(Crash):
                ph.simulate(top, "rkmk4", **TOP, store=path, when_full="wait")
        assert 1 < assert_prefix(path, reference) < 801
        lost += not_going_on(path, number, reference)
    assert lost == []


def not_going_on(path: Path, number: int, reference: Reference) -> list[tuple[int, str]]:
    """Whether a store can't be gone on with, and why."""
    try:
        ph.resume(path)
    except ph.StoreError as error:
        return [(number, str(error))]
    else:
        assert assert_prefix(path, reference) == len(reference["time"])
        return []
    finally:
        shutil.rmtree(path)

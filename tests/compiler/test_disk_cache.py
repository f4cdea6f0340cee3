"""Programs kept between processes: found again where nothing has changed, and nowhere else."""

from __future__ import annotations

import functools
import json
import operator
import os
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app
from polhode.compiler import fingerprint
from polhode.compiler.cache import disk_cache, source_version
from polhode.compiler.fingerprint.object_walk import input_digest

RUN = """
import json, sys
import jax, numpy as np
import polhode as ph
from polhode.compiler.cache import disk_cache

found = []
load_or_build = disk_cache.load_or_build

def recorded(key, build, serialiser, inputs):
    built = []
    value = load_or_build(key, lambda: built.append(1) or build(), serialiser, inputs)
    found.append((key is not None, not built))
    return value

disk_cache.load_or_build = recorded
problem = ph.problems.get(sys.argv[1], **json.loads(sys.argv[2]))
run = ph.simulate(problem, h=1e-3, t1=0.02)
last = jax.tree.leaves(run.frames)
print(json.dumps({"found": found, "bytes": [np.asarray(x).tobytes().hex() for x in last]}))
"""


def in_a_process(home: Path, name: str, **parameters) -> dict:
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "HOME": str(home)}
    command = [sys.executable, "-c", RUN, name, json.dumps(parameters)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Callable[[str], tuple[Path, dict]]:
    """A folder in which a first process has kept its programs, and its run."""

    @functools.cache
    def of(name: str) -> tuple[Path, dict]:
        home = tmp_path_factory.mktemp(name)
        return home, in_a_process(home, name)

    return of


def n_loaded(run: dict) -> int:
    return sum(was_there for _, was_there in run["found"])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("heavy-top-constrained", {"gravity": 3.0}),
        pytest.param("slider-crank", {"gravity": 3.0}, marks=pytest.mark.exhaustive),
        pytest.param("torus", {"contact": 9.0}, marks=pytest.mark.exhaustive),
        pytest.param("roll-up", {"bending_stiffness": 400.0}, marks=pytest.mark.exhaustive),
    ],
)
def test_the_next_process_finds_everything_and_computes_the_same_bytes(name, other, begun, tmp_path):
    home, first = begun(name)
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    again = in_a_process(tmp_path, name)
    assert n_loaded(first) == 0
    assert all(key for key, _ in first["found"])
    assert n_loaded(again) == len(again["found"]) == len(first["found"])
    assert again["bytes"] == first["bytes"]
    # Other numbers are inputs of the same programs.
    with_others = in_a_process(tmp_path, name, **other)
    assert with_others["bytes"] != first["bytes"]
    assert with_others["bytes"] == in_a_process(tmp_path / "empty", name, **other)["bytes"]


@pytest.mark.exhaustive
def test_damaged_files_count_as_missing(begun, tmp_path, monkeypatch):
    home, first = begun("heavy-top-constrained")
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = disk_cache.files()
    assert files
    for k, path in enumerate(files):
        content = bytearray(path.read_bytes())
        if k % 3 == 0:
            content[len(content) // 2] ^= 1
        path.write_bytes(content[: len(content) // 2] if k % 3 == 1 else b"" if k % 3 == 2 else content)
    again = in_a_process(tmp_path, "heavy-top-constrained")
    assert n_loaded(again) == 0
    assert again["bytes"] == first["bytes"]
    assert n_loaded(in_a_process(tmp_path, "heavy-top-constrained")) == len(again["found"])


def test_nothing_is_kept_or_found_once_sources_have_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(source_version, "_UNCHANGED_MODULES", set())
    keeping = disk_cache.Serialiser(dump=lambda made: made, load=lambda state, _: state)

    def recall(key: bytes, value: str) -> str:
        return disk_cache.load_or_build(key, lambda: value, keeping, None)

    recall(b"before", "old")
    assert recall(b"before", "new") == "old"
    module = types.ModuleType("polhode.changed")
    module.__file__ = str(tmp_path / "changed.py")
    (tmp_path / "changed.py").write_text("")
    # It is loaded while the program is made.
    disk_cache.load_or_build(
        b"meanwhile", lambda: monkeypatch.setitem(sys.modules, module.__name__, module), keeping, None
    )
    assert len(disk_cache.files()) == 1
    assert recall(b"before", "new") == "new"
    assert recall(b"after", "one") == "one"
    assert len(disk_cache.files()) == 1
    # One that was written before this process began, however late it is loaded, is no change.
    monkeypatch.setattr(source_version, "_BEGAN", time.time_ns() + 1_000_000_000)
    assert recall(b"before", "new") == "old"


CHANGING = """
import pathlib, sys
import jax, numpy as np
import polhode as ph
from polhode.compiler.cache import disk_cache

path = pathlib.Path(ph.__file__).parent / "integrators" / "explicit" / "half_explicit.py"
assert "polhode.integrators.explicit.half_explicit" not in sys.modules
text = path.read_text()
if sys.argv[1] == "edited":
    assert text.count("q, v = end.q,") == 1
    path.write_text(text.replace("q, v = end.q,", "q, v = carry.state[0],"))
run = ph.simulate(ph.problems.rotor(), "herk5", h=1e-4, t1=1e-2, save_every=None)
path.write_text(text)
start, end = np.asarray(jax.tree.leaves(run.state)[0])
print("stands" if (start == end).all() else "turns")
"""


@pytest.mark.exhaustive
def test_a_change_that_is_taken_back_leaves_no_program(tmp_path):
    """A module edited between the beginning of a process and its loading; without the edit again afterwards."""
    shutil.copytree(Path(ph.__file__).parent, tmp_path / "src" / "polhode", ignore=shutil.ignore_patterns("*.pyc"))
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path / "src")}

    def last(*how: str) -> str:
        command = [sys.executable, "-c", CHANGING, *how]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert last("edited") == "stands"
    assert last("as it is") == "turns"


class Loaded(eqx.Module):
    value: float
    function: object = eqx.field(static=True, default=None)


@pytest.mark.exhaustive
def test_problems_that_need_jax_for_a_part_run_again(tmp_path):
    first, again = (in_a_process(tmp_path, "torus", n=12, dtype="float32") for _ in range(2))
    assert n_loaded(again) > 0
    assert again["bytes"] == first["bytes"]


OTHERS = """
import equinox as eqx

class Field(eqx.Module):
    gain: float

    def __call__(self, t, q):
        return {factor} * self.gain + 0 * q
"""


def test_modules_of_other_packages_are_the_users_own(tmp_path, monkeypatch):
    place = tmp_path / "site-packages"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    (place / "a_package_of_others.py").write_text(OTHERS.format(factor=1))
    import a_package_of_others

    assert fingerprint.persistent_key(a_package_of_others.Field(1.0)) is None
    assert fingerprint.persistent_key(a_package_of_others.Field) is None


class Either(eqx.Module):
    gain: object = None
    drift: object = None

    def __call__(self, t, q):
        return q * (0.0 if self.gain is None else self.gain) + (0.0 if self.drift is None else self.drift)


def test_which_of_two_arrays_is_there_counts():
    def end(field):
        return ph.simulate(ph.VectorField(ph.spaces.Rn(2), field), "rk4", state0=np.ones(2), t1=1.0, h=0.1).state[-1]

    ones = jnp.ones(2)
    np.testing.assert_allclose(end(Either(gain=ones)), np.e, rtol=1e-5)
    np.testing.assert_allclose(end(Either(drift=ones)), 2.0, rtol=1e-12)


def test_getters_of_items_are_told_apart():
    def end(get):
        field = ph.VectorField(ph.spaces.Rn(2), lambda t, q: get((1.0, 2.0)) + 0 * q)
        return ph.simulate(field, "rk4", state0=np.zeros(2), t1=1.0, h=0.1).state[-1]

    np.testing.assert_allclose(end(operator.itemgetter(0)), 1.0, rtol=1e-12)
    np.testing.assert_allclose(end(operator.itemgetter(1)), 2.0, rtol=1e-12)


def test_what_belongs_to_the_user_has_no_lasting_key():
    assert (
        fingerprint.persistent_key("a", 1.5, np.arange(3), jnp.sin, ph.spaces.SO3(), ph.integrators.get("rkmk4"))
        is not None
    )

    @functools.wraps(ph.time_functions.breakpoints_of)
    def disguised(x):
        return x

    class Number(float):
        def __mul__(self, other):
            return 7.0

    hidden = disguised, Number(1.0), np.frompyfunc(lambda x: x, 1, 1), np.random.default_rng(0)
    for mine in (
        *hidden,
        lambda x: x,
        in_a_process,
        Loaded,
        Loaded(1.0),
        object(),
        disk_cache.Serialiser(len, lambda x: x),
        pytest,
    ):
        assert fingerprint.persistent_key(mine) is None
        assert fingerprint.persistent_key((1, {"a": [mine]})) is None
    assert fingerprint.persistent_key(ph.PiecewiseLinear([0.0, 1.0], [0.0, 2.0])) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, np.nextafter(1.0, 2.0)),
        (1, 1.0),
        (1, True),
        ("ab", b"ab"),
        (("a", "b"), ("ab",)),
        ((1, (2,)), ((1, 2),)),
        (np.arange(3), np.arange(3.0)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([0.0]), np.array([-0.0])),
        (jnp.sin, jnp.cos),
        (np.sin, np.cos),
        (ph.spaces.SO3(), ph.spaces.S3()),
        (ph.integrators.get("rkmk4"), ph.integrators.get("rkmk5")),
        (ph.integrators.get("generalized-alpha", rho_inf=0.8), ph.integrators.get("generalized-alpha", rho_inf=0.9)),
        (None, False),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([1.0, 2.0])),
        (..., None),
    ],
)
def test_lasting_keys_tell_values_apart(one, other):
    assert fingerprint.persistent_key(one) == fingerprint.persistent_key(one)
    assert fingerprint.persistent_key(one) != fingerprint.persistent_key(other)


ARM = (
    '<mujoco><worldbody><body><joint name="j" axis="{axis}"/><geom size="0.1" pos="1 0 0" mass="{mass}"/>'
    "</body></worldbody></mujoco>"
)


def test_outputs_of_models_from_files_have_short_keys_with_their_constants():
    def key(**more):
        model = ph.load_model(ARM.format(**{"axis": "0 1 0", "mass": 1} | more))
        return input_digest(model.problem("SO3xR3").outputs["joint_positions"])

    assert key() == key() is not None
    # Axes of joints are constants of the program, masses are inputs.
    assert key(axis="0 0 1") != key() == key(mass=2)


def test_what_has_been_worked_out_changes_no_key():
    method = ph.integrators.get("herk5")
    before = fingerprint.persistent_key(method)
    assert method.tableau.A.shape == (method.tableau.all_stages + 1, method.tableau.all_stages)
    assert fingerprint.persistent_key(method) == before is not None


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return disk_cache.folder()


KEEPING = disk_cache.Serialiser(dump=lambda made: made, load=lambda state, inputs: state)


def test_what_was_used_longest_ago_goes(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "LARGEST", 5000)
    for k in range(10):
        disk_cache.load_or_build(bytes([k]), lambda k=k: bytes([k]) * 1000, KEEPING, None)
        os.utime(disk_cache._path(bytes([k])), (k, k))
        disk_cache.load_or_build(bytes([0]), lambda: bytes(1000), KEEPING, None)
    assert sum(path.stat().st_size for path in disk_cache.files()) <= 5000
    assert disk_cache._path(bytes([0])).exists()
    assert disk_cache._path(bytes([9])).exists()
    assert not disk_cache._path(bytes([1])).exists()


def test_a_folder_that_can_only_be_read_is_read(folder, monkeypatch):
    keeping = disk_cache.Serialiser(dump=lambda made: made, load=lambda state, _: state)
    disk_cache.load_or_build(b"key", lambda: "made", keeping, None)

    def refused(path):
        raise PermissionError(path)

    monkeypatch.setattr(os, "utime", refused)
    assert disk_cache.load_or_build(b"key", lambda: "made again", keeping, None) == "made"


def test_what_cannot_be_kept_is_made_every_time(folder):
    for value in (lambda: None, None):
        assert disk_cache.load_or_build(b"key", lambda value=value: value, KEEPING, None) is value
    assert disk_cache.files() == []
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file in the place of the folder")
    assert disk_cache.load_or_build(b"key", lambda: 5, KEEPING, None) == 5
    assert disk_cache.files() == []


def test_the_command_shows_and_clears(folder):
    def told(*options: str) -> dict:
        done = CliRunner().invoke(app, ["cache", *options, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert told() == {"folder": str(folder), "on": True, "programs": 0, "bytes": 0}
    disk_cache.load_or_build(b"key", lambda: 5, KEEPING, None)
    assert told()["programs"] == 1
    assert told("--off")["on"] is False
    disk_cache.load_or_build(b"other", lambda: 5, KEEPING, None)
    assert told()["programs"] == 1
    assert told("--on", "--clear") == {"folder": str(folder), "on": True, "programs": 0, "bytes": 0, "deleted": 1}
    assert "0 programs, 0 kB of at most 256 MB." in CliRunner().invoke(app, ["cache"]).stdout
    disk_cache.load_or_build(b"key", lambda: bytes(5000), KEEPING, None)
    assert "1 program, 6 kB of at most 256 MB." in CliRunner().invoke(app, ["cache"]).stdout
    assert CliRunner().invoke(app, ["cache", "--clear"]).stdout.startswith("Deleted 1 program, 6 kB.\n")


def test_the_command_says_where_nothing_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = CliRunner().invoke(app, ["cache", "--off"])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"polhode: The folder `{disk_cache.folder().parent}` can't be changed: ")
    assert done.stderr.count("\n") == 1

"""Where JAX and polhode lie doesn't matter: in a user's folder, on `PYTHONPATH`, in an archive, among own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import polhode
from polhode.compiler.fingerprint.provenance import is_installed, is_library_file

FIRST_MODEL = """
import json, time
try:
    import resource
except ImportError:
    pass
else:
    # What goes through all of JAX doesn't end by itself.
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
import polhode as ph

began = time.process_time()
{before}
model = ph.Model(gravity=(0, 0, -9.81))
arm = model.add_body(mass=1.0, inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0))
model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
{force}
problem = model.problem("SE3", t1=1.0)
took = time.process_time() - began

import jax
from polhode.compiler.fingerprint import persistent_key
from polhode.compiler.fingerprint.provenance import is_library_file

print(json.dumps(dict(
    took=took, jax=jax.__file__, library=is_library_file(jax.__file__), keyed=persistent_key(jax.lax.add) is not None,
)))
"""

SECONDS = 6.0
"""Of processor time for a first model, which takes 1.4: three, and as much again where others share the core."""


def packages() -> Path:
    """Where the packages of this environment lie."""
    import jax

    return Path(jax.__file__).parents[1]


def links(place: Path, records: bool = True) -> Path:
    """A folder with links to all packages, `records`: and to their metadata with the lists of what was installed."""
    place.mkdir(parents=True)
    for item in packages().iterdir():
        if item.name.endswith(".dist-info") and not records:
            (place / item.name).mkdir()
            (place / item.name / "METADATA").symlink_to(item / "METADATA")
        elif not item.name.endswith((".pth", ".egg-link")):
            (place / item.name).symlink_to(item)
    return place


def first_model(*command: str | Path, before: str = "", force: str = "", **environment: str | Path) -> dict:
    """What a process tells of its first model."""
    script = FIRST_MODEL.format(before=before, force=force)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    told = subprocess.run(
        [*map(str, command), "-c", script],
        check=False, capture_output=True, text=True, env={**kept, **{k: str(v) for k, v in environment.items()}},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-2000:]
    return json.loads(told.stdout.splitlines()[-1])


def path(*folders: Path) -> str:
    """A search path, with the sources of polhode behind it."""
    return os.pathsep.join(map(str, (*folders, Path(polhode.__file__).parents[1])))


def base() -> str:
    """The Python that this environment was made from."""
    return getattr(sys, "_base_executable", sys.executable)


@pytest.mark.exhaustive
def test_a_folder_on_the_search_path(tmp_path):
    """As `pip install --target` and the modules of clusters have it."""
    told = first_model(sys.executable, "-S", PYTHONPATH=path(links(tmp_path / "modules")))
    assert Path(told["jax"]).is_relative_to(tmp_path)
    assert told["library"]
    assert told["keyed"]
    assert told["took"] < SECONDS


@pytest.mark.exhaustive
def test_sources_of_jax_that_can_be_edited(tmp_path):
    """They are known by a version alone, so they are not gone through, and nothing is kept that was made with them."""
    told = first_model(sys.executable, "-S", PYTHONPATH=path(links(tmp_path / "sources", records=False)))
    assert Path(told["jax"]).is_relative_to(tmp_path)
    assert told["library"]
    assert not told["keyed"]
    assert told["took"] < SECONDS


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name == "nt", reason="Windows wants rights for links")
def test_the_folder_of_a_user(tmp_path):
    where = [base(), "-m", "site", "--user-site"]
    environment = {**os.environ, "PYTHONUSERBASE": str(tmp_path)}
    folder = Path(subprocess.run(where, check=False, capture_output=True, text=True, env=environment).stdout.strip())
    folder.parent.mkdir(parents=True)
    folder.symlink_to(packages())
    told = first_model(base(), PYTHONUSERBASE=tmp_path, PYTHONPATH=path())
    assert Path(told["jax"]).is_relative_to(tmp_path)
    assert told["library"]
    assert told["keyed"]
    assert told["took"] < SECONDS


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["site-packages", "lower"])
def test_an_environment_above_another(tmp_path, name):
    """The lower one is added to the search path by a file beside the packages of the upper one."""
    lower = links(tmp_path / name)
    venv.create(tmp_path / "upper", symlinks=True)
    variables = {"base": str(tmp_path / "upper"), "platbase": str(tmp_path / "upper")}
    upper = Path(sysconfig.get_path("purelib", "venv", variables))
    (upper / "lower.pth").write_text(path(lower).replace(os.pathsep, "\n"))
    python = Path(sysconfig.get_path("scripts", "venv", variables)) / Path(sys.executable).name
    told = first_model(python)
    assert Path(told["jax"]).is_relative_to(lower)
    assert told["library"]
    assert told["keyed"]
    assert told["took"] < SECONDS


PROJECT = '''
"""A project of one's own, with what reaches JAX by a name in its module and by a closure."""

import jax
import jax.numpy as jnp


@jax.jit
def drag(v):
    return -jnp.linalg.norm(v) * v


def load(t, poses, twists):
    return [(jnp.zeros(3), drag(twists[0].u))]
'''


@pytest.mark.exhaustive
def test_a_project_that_is_edited_beside_packages_anywhere(tmp_path):
    project = tmp_path / "project" / "src" / "of_my_own"
    project.mkdir(parents=True)
    (project / "__init__.py").write_text(PROJECT)
    told = first_model(
        sys.executable, "-S",
        before="import of_my_own; from polhode.compiler.fingerprint import provenance; "
        "assert provenance.is_user_module(of_my_own)",
        force="model.add(ph.forces.Load(arm, of_my_own.load))",
        PYTHONPATH=path(links(tmp_path / "modules"), project.parent),
    )  # fmt: skip
    assert told["took"] < SECONDS


def installed(folder: Path, *files: str, record: str = "RECORD") -> None:
    """A distribution with these files, and a list of them."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    metadata = folder / "a_library-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-library\nVersion: 1.0\n")
    (metadata / record).write_text("".join(f"{name},sha256=0,0\n" for name in files))


def test_what_lies_beside_installed_packages_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "a_library/__init__.py", "a_library/inner/x.py", "single.py")
    for name in ("a_library/__init__.py", "a_library/inner/x.py", "a_library", "single.py"):
        assert is_installed(str(tmp_path / name))
    for name in ("mine.py", "a_library_of_mine/__init__.py", "inner/a_library/x.py", "single/x.py"):
        assert not is_library_file(str(tmp_path / name))
    assert not is_library_file(f"{tmp_path}.py")
    assert not is_library_file("<stdin>")


def test_sources_with_metadata_beside_them_are_the_users_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "a_library/__init__.py", record="top_level.txt")
    assert not is_library_file(str(tmp_path / "a_library/__init__.py"))


def test_packages_in_an_archive(tmp_path, monkeypatch):
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a_library/__init__.py", "")
        file.writestr("a_library-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: a-library\nVersion: 1.0\n")
        file.writestr("a_library-1.0.dist-info/RECORD", "a_library/__init__.py,sha256=0,0\n")
        file.writestr("mine.py", "")
    monkeypatch.syspath_prepend(archive)
    assert is_installed(str(archive / "a_library" / "__init__.py"))
    assert not is_library_file(str(archive / "mine.py"))


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_folders_for_packages_need_no_lists(tmp_path, folder):
    assert is_installed(str(tmp_path / folder / "a_library.py"))
    assert not is_library_file(str(tmp_path / f"my-{folder}" / "a_library.py"))

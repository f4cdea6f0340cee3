"""What is built installs and runs by itself: from the wheel, and from the archive of the sources."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def done(*words: str | Path, **options) -> str:
    """What a process prints on standard output; it has to succeed."""
    process = subprocess.run([*map(str, words)], check=False, capture_output=True, text=True, **options)
    assert process.returncode == 0, process.stdout[-1000:] + process.stderr[-3000:]
    return process.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the backend that builds, the wheel, and the archive of the sources."""
    place = tmp_path_factory.mktemp("built")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    done(*pip, "--target", place / "tools", "hatchling")
    environment = {**os.environ, "PYTHONPATH": str(place / "tools")}
    done(sys.executable, "-m", "hatchling", "build", "-d", place / "dist", cwd=ROOT, env=environment)
    (wheel,), (archive,) = (list((place / "dist").glob(end)) for end in ("*.whl", "*.tar.gz"))
    return place / "tools", wheel, archive


@pytest.fixture(scope="module", params=["wheel", "sources"])
def installed(request, built, tmp_path_factory):
    """The command `polhode` of an environment that has nothing but it, above the packages of this one."""
    tools, wheel, archive = built
    place = tmp_path_factory.mktemp(request.param)
    venv.create(place, symlinks=os.name != "nt")
    variables = {"base": str(place), "platbase": str(place)}
    packages, scripts = (Path(sysconfig.get_path(name, "venv", variables)) for name in ("purelib", "scripts"))
    pip = (sys.executable, "-m", "pip", "--python", place, "--disable-pip-version-check", "install", "--quiet")
    # What is needed comes from the environment of the tests, in which files for the search path are not looked at:
    # its own polhode isn't seen.
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    what = wheel if request.param == "wheel" else archive
    done(*pip, "--no-deps", "--no-index", "--no-build-isolation", what, env=environment)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return scripts / "polhode"


def command(polhode: Path, where: Path, *words: str | Path) -> str:
    return done(polhode, *words, cwd=where)


@pytest.mark.exhaustive
def test_what_is_in_them(built):
    _, wheel, archive = built
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = file.read(metadata).decode()
    for name in (
        "py.typed",
        "references.bib",
        "_benchmarks/measure.py",
        "viewing/page/web/page.html",
        "experiments/report.html",
    ):
        assert f"polhode/{name}" in names
    assert not [name for name in names if name.startswith(("tests", "docs")) or "__pycache__" in name]
    assert "](docs/" not in text
    with tarfile.open(archive) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    assert {"README.md", "LICENSE", "hatch_build.py", "pyproject.toml", "tests/conftest.py"} <= inside


@pytest.mark.exhaustive
def test_a_problem_a_view_and_a_reproduction(installed, tmp_path):
    about = json.loads(command(installed, tmp_path, "about", "--json"))
    assert about["untested"] == []
    run = json.loads(command(installed, tmp_path, "run", "heavy-top", "--t1", "0.01", "--out", "run.zarr", "--json"))
    assert run["result"] == "successful"
    assert "Which models" in command(installed, tmp_path, "benchmark", "--help")
    assert "@article" in command(installed, tmp_path, "cite", "rkmk4")
    report = json.loads(command(installed, tmp_path, "reproduce", "004-1", "--quick", "--out", "report", "--json"))
    assert report["passed"]
    assert (tmp_path / "report" / "index.html").exists()


@pytest.mark.exhaustive
def test_a_view(installed, tmp_path):
    command(installed, tmp_path, "run", "heavy-top", "--t1", "0.01", "--out", "run.zarr", "--quiet")
    words = [str(installed), "view", "run.zarr", "--no-browser"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().strip()
            with urllib.request.urlopen(address, timeout=60) as page:
                assert b"<canvas" in page.read()
        finally:
            process.terminate()


@pytest.mark.exhaustive
def test_scripts_of_the_benchmark_are_found_where_it_is_installed(installed, tmp_path):
    python = installed.with_name(Path(sys.executable).name)
    told = done(python, "-c", "from polhode.cli import peers; print(peers.folder())", cwd=tmp_path).strip()
    assert Path(told).is_relative_to(installed.parents[1])
    assert (Path(told) / "heavy_top_polhode.py").is_file()


def readme():
    """`hatch_build.absolute`, without the backend that it is part of."""
    pytest.importorskip("hatchling", reason="the backend is in the environment that builds only")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.absolute


@pytest.mark.exhaustive
def test_links_of_the_readme_hold_on_an_index(built, monkeypatch):
    monkeypatch.syspath_prepend(built[0])
    absolute = readme()
    text = "A [page](docs/start.md#x), [site](https://a.b/c), ![picture](docs/a.png)\n\n```python\nf[0](x)\n```\n"
    with_address = absolute(text, "https://a.b/")
    assert "[page](https://a.b/blob/HEAD/docs/start.md#x)" in with_address
    assert "![picture](https://a.b/raw/HEAD/docs/a.png)" in with_address
    without = absolute(text, None)
    assert without == "A page, [site](https://a.b/c), \n\n```python\nf[0](x)\n```\n"
    assert "f[0](x)" in with_address

"""Exports that fail leave the former file; links, permissions and pipes stay what they are."""

from __future__ import annotations

import contextlib
import os
import resource
import signal

import numpy as np
import pytest

import polhode as ph
from polhode.replacement import replacement
from polhode.solution import export
from polhode.solution.export import _FILMS, _WRITERS

QUICK, SLOW = (".csv", ".parquet", ".nc", ".html", ".glb", ".pvd"), (".png", ".gif", ".mp4")
ENDINGS = [*QUICK, *(pytest.param(ending, marks=pytest.mark.exhaustive) for ending in SLOW)]


@contextlib.contextmanager
def no_room(size):
    """No file can have more bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(scope="module")
def run():
    return ph.simulate(ph.problems.get("spring-pendulum"), t1=0.5)


def test_all_formats_are_here():
    assert {*QUICK, *SLOW} == {*_WRITERS, *_FILMS, ".pvd"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_export_that_fails_leaves_the_former_file(ending, run, tmp_path):
    path = tmp_path / f"run{ending}"
    path.write_bytes(b"former")
    # So that nothing but the export itself writes files.
    export(run, tmp_path / f"first{ending}")
    before = sorted(tmp_path.iterdir())
    with no_room(100), pytest.raises(OSError, match=r"too large|could not write|wrote|[Ff]ile"):
        export(run, path)
    assert path.read_bytes() == b"former"
    assert sorted(tmp_path.iterdir()) == before
    export(run, path)
    assert path.stat().st_size > 100
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_headings_of_tables_are_no_formulas(tmp_path):
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0.5, 0, 0), name="=cmd|' /C calc'!A0")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="@SUM(1)"))
    run = ph.simulate(model.problem("minimal", t1=0.01), h=5e-3)
    export(run, tmp_path / "run.csv")
    headings = (tmp_path / "run.csv").read_text().splitlines()[0].replace('"', "").split(",")
    assert any("cmd" in heading for heading in headings)
    assert any("SUM" in heading for heading in headings)
    assert not any(heading.startswith(("=", "+", "-", "@", "\t")) for heading in headings)
    values = np.genfromtxt(tmp_path / "run.csv", delimiter=",", skip_header=1)
    np.testing.assert_array_equal(values[:, 0], run.t)


def test_links_permissions_and_pipes_stay_what_they_are(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("former")
    target.chmod(0o640)
    link.symlink_to(target)
    with replacement(link) as part:
        part.write_text("new")
        assert target.read_text() == "former"
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe.csv")
    with replacement(tmp_path / "pipe.csv") as part:
        assert part == tmp_path / "pipe.csv"
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OSError, match="folder"), replacement(tmp_path / "folder.csv"):
        pass
    with pytest.raises(OSError, match=r"nowhere/a.csv"), replacement(tmp_path / "nowhere" / "a.csv") as part:
        part.write_text("x")


def test_an_interrupt_leaves_the_former_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("former")

    def interrupted():
        with replacement(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "former"

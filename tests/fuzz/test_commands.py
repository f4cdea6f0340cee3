"""Command lines put together at random: they end with status 0, 1 or 2 and a sentence, never with a traceback."""

from __future__ import annotations

import json
import os
import re
import warnings

import jax
import pytest
from typer.testing import CliRunner

from polhode.cli import app

WORDS = {
    "problem": [
        "heavy-top",
        "heavy-top",
        "heavy-top",
        "free-rigid-body",
        "heavy",
        "",
        "../x",
        "ω",
        "a\tb",
        "x.urdf",
        "a\x1b[31mb",
        "[/]",
        "\udc80",
        "evil.urdf",
    ],
    "integrator": [
        "rkmk4",
        "rkmk54",
        "cf4",
        "lie-euler",
        "eml",
        "none",
        "",
        "RKMK4",
        "rk4;",
        ",",
        "rkmk4,,",
        "\x1b[1m",
    ],
    "t1": ["0.002", "0.002", "0.001", "-0.001", "0", "nan", "inf", "x", "1e-320", "", "0.002s"],
    "step": ["1e-3", "1e-3", "5e-4", "0", "-1", "nan", "inf", "x", "1e300", "1e-300", "1e-17"],
    "rtol": ["1e-3", "1e-6", "0", "-1", "nan", "x", "inf"],
    "set": [
        "mass=3",
        "mass=-1",
        "mass",
        "=3",
        "nothing=1",
        "mass=[1,2",
        "mass=1e400",
        "formulation=S3",
        "mass=NaN",
        "a=" * 50,
        "mass=" + "[" * 3000,
        "mass=" + '{"a":' * 3000,
        "mass=" + "9" * 5000,
        "mass=-1" + "0" * 400,
        "\x1b[2J=1",
        "mass=\u202e\x07",
        "mass=[/]",
    ],
    "option": ["coordinates=cayley", "coordinates=x", "rho_inf=2", "theta", "=", "dexpinv=truncated"],
    "out": [
        "run.zarr",
        "run.zarr",
        "mine",
        "file.txt",
        "no/where/run.zarr",
        "",
        "/proc/x.zarr",
        "w" * 300,
        "a\x1b[2Jb.zarr",
        "locked.zarr",
        "linked.zarr",
        "odd.zarr",
        "pipe",
    ],
    "file": ["a.csv", "a.html", "a.png", "a.xyz", "a", "", "no/where/a.csv", "mine", "a\x1b]0;x\x07.csv", "link.csv"],
    "run": ["run.zarr", "run.zarr", "nothing.zarr", "mine", "file.txt", "", "damaged.zarr", "\x1b[2J.zarr", "pipe"],
    "steps": [
        "2e-3:1e-3:2",
        "1e-3",
        "1:2",
        "x:y:z",
        "2e-3:1e-3:0",
        "-1:1:2",
        "2e-3:1e-3:1",
        "2e-3:1e-3:100000000000",
        "::",
        "1e-320:1:2",
    ],
    "param": [
        "mass=14,15",
        "mass=14,15",
        "mass=14:15:2",
        "mass=1:2:100000000000",
        "mass=",
        "x=1,2",
        "mass=nan",
        "mass",
        "=1",
        "mass=1e400",
    ],
    "samples": ["a.csv", "nowhere.csv", "mine", "file.txt", ""],
    "scheduler": ["local:0", "local:x", "local:" + "9" * 5000, "nowhere", "", "tcp://[", "tls://127.0.0.1:1"],
    "experiment": ["009-9", "", "002-", "x", "--nothing"],
    "kind": ["problems", "integrators", "spaces", ""],
    "when": ["fail", "wait", "elsewhere.zarr", ""],
    "number": ["1", "3", "0", "-2", "x", "1e3", ""],
    "breakpoint": ["0.001", "nan", "x", "-5", "0.0005"],
}

COMMANDS = {
    "run": (
        ["problem"],
        {
            "--integrator": "integrator",
            "--step": "step",
            "--rtol": "rtol",
            "--atol": "rtol",
            "--set": "set",
            "--option": "option",
            "--out": "out",
            "--save-every": "number",
            "--breakpoint": "breakpoint",
            "--when-full": "when",
            "--estimate-error": None,
            "--json": None,
            "--quiet": None,
        },
    ),
    "resume": (
        ["run"],
        {"--t1": "t1", "--max-steps": "number", "--when-full": "when", "--json": None, "--quiet": None},
    ),
    "export": (["run", "file"], {"--quiet": None}),
    "convergence": (["problem"], {"--integrator": "integrator", "--steps": "steps", "--t1": "t1", "--json": None}),
    "sweep": (
        ["problem"],
        {
            "--param": "param",
            "--samples": "samples",
            "--seeds": "number",
            "--out": "out",
            "--statistics": None,
            "--resume": None,
            "--overwrite": None,
            "--integrator": "integrator",
            "--step": "step",
            "--set": "set",
            "--scheduler": "scheduler",
            "--workers": "number",
            "--json": None,
        },
    ),
    "inspect": (["problem"], {"--set": "set", "--json": None}),
    "cache": ([], {"--json": None}),
    "reproduce": (["experiment"], {"--out": "out"}),
    "list": (["kind"], {"--json": None}),
    "nothing": (["kind"], {"--x": "number"}),
}


PARTS = [0.4, 0.1, 0.1, 0.1, 0.15, 0.03, 0.02, 0.03, 0.04, 0.03]
"""Shares of the commands."""

EVIL = """
<robot name="a\u202eb">
  <link name="=cmd()"><inertial>
    <mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="\u009b2J[/]"><inertial>
    <mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="\u2066[bold]" type="revolute"><parent link="=cmd()"/><child link="\u009b2J[/]"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>
"""
"""A model with names that a terminal would obey, and that markup would."""

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, but colours."""


def line(random) -> list[str]:
    """A command line; runs always have a short span."""

    def word(kind):
        return WORDS[kind][int(random.integers(len(WORDS[kind])))]

    command = list(COMMANDS)[int(random.choice(len(COMMANDS), p=PARTS))]
    places, options = COMMANDS[command]
    words = [command, *(word(kind) for kind in places if random.random() < 0.97)]
    if command == "run":
        words += ["--t1", word("t1"), *([] if random.random() < 0.3 else ["--step", "1e-3"])]
    if command == "sweep":
        words += ["--t1", "0.002", "--step", "1e-3", "--statistics", "--param", word("param")]
    if command == "convergence":
        words += ["--steps", "2e-3:1e-3:2", "--t1", "0.004", "--integrator", "rkmk4"]
    for option in options:
        if random.random() < 1.5 / len(options):
            words += [option] if options[option] is None else [option, word(options[option])]
    if random.random() < 0.03:
        words.insert(int(random.integers(len(words) + 1)), "--" + word("problem"))
    return words


@pytest.mark.exhaustive
def test_no_command_ends_in_a_traceback(tries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "file.txt").write_text("mine too")
    runner = CliRunner()
    (tmp_path / "evil.urdf").write_text(EVIL)
    (tmp_path / ".locked.zarr.lock").write_text("mine three")
    (tmp_path / ".linked.zarr.lock").symlink_to(tmp_path / "file.txt")
    (tmp_path / ".odd.zarr.lock").write_text('{"host": "x", "pid": 1e999, "run": 3, "since": 1e300}')
    (tmp_path / "link.csv").symlink_to(tmp_path / "table.csv")
    os.mkfifo(tmp_path / "pipe")
    runner.invoke(app, ["run", "heavy-top", "--t1", "0.002", "--out", "damaged.zarr", "--quiet"])
    (tmp_path / "damaged.zarr" / "time" / "c" / "0").write_bytes(b"x")
    count, random = tries(2000, 2, 24)
    bad = []
    for k in range(count):
        words = line(random)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = runner.invoke(app, words)
        crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
        if crashed or result.exit_code not in (0, 1, 2) or "Traceback" in result.output:
            bad.append(f"{words}: {type(result.exception).__name__}: {str(result.exception)[:100]}")
        elif result.exit_code and not result.stderr.strip() and words[0] in COMMANDS:
            bad.append(f"{words}: status {result.exit_code} without a word")
        elif "--json" in words and result.exit_code == 0:
            json.loads(result.stdout)
        if OBEYED.search(result.output + result.stderr):
            bad.append(f"{words}: control characters in {OBEYED.findall(result.output + result.stderr)}")
        if k % 200 == 199:
            jax.clear_caches()
    assert not bad, "\n".join(bad)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "file.txt").read_text() == "mine too"
    assert (tmp_path / ".locked.zarr.lock").read_text() == "mine three"

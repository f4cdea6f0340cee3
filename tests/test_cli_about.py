"""`polhode about` says what runs here."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import jax
import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode import environment
from polhode.cli import app
from polhode.compiler.llvm import jit


def about_json() -> dict:
    return json.loads(CliRunner().invoke(app, ["about", "--json"], catch_exceptions=False).stdout)


def test_what_is_said():
    report = about_json()
    assert report["polhode"] == ph.__version__
    assert report["packages"]["jax"] == jax.__version__
    assert report["processor"]["name"]
    assert report["processor"]["doubles in a vector"] in (4, 8)
    assert report["back end"].startswith("machine code by LLVM")
    assert report["cache"]["programs"] >= 0
    assert report["untested"] == []
    text = CliRunner().invoke(app, ["about"]).stdout
    assert all(line.strip().startswith(key) for line, key in zip(text.splitlines(), report, strict=True))


def test_without_llvmlite(monkeypatch):
    monkeypatch.setattr(jit, "llvm", None)
    report = about_json()
    assert report["back end"].startswith("XLA, since llvmlite can't be imported")
    assert "llvm" not in report["processor"]


def test_with_a_jax_that_is_not_known(monkeypatch):
    monkeypatch.setattr(jit, "IS_KNOWN", False)
    assert about_json()["back end"].startswith("XLA, since this JAX is not known to polhode")


def test_on_another_device(monkeypatch):
    monkeypatch.setattr("polhode.compiler.placement.on_processor", lambda: False)
    assert about_json()["back end"].startswith("XLA, since JAX computes on another device")


def test_versions_that_are_not_tested_are_named(monkeypatch):
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0" if name == "jax" else version(name))
    monkeypatch.setattr("platform.python_version_tuple", lambda: ("3", "99", "0"))
    python, package = about_json()["untested"]
    assert python.startswith("Python 3.99 is none of 3.11,")
    assert package.startswith("jax 99.0 is not <")


def test_from_sources(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "metadata", missing)
    assert environment.report()["extras"] == {}
    assert about_json()["untested"] == ["polhode runs from its sources, so bounds of versions are not known"]


@pytest.mark.exhaustive
def test_a_process_without_llvmlite():
    lines = "import sys; sys.modules['llvmlite'] = None; from polhode import cli; cli.main()"
    command = [sys.executable, "-c", lines, "about", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["back end"].startswith("XLA, since llvmlite can't be imported")

"""What is installed along with the library."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PLATFORMS = [
    ("linux", "x86_64", True),
    ("linux", "aarch64", True),
    ("darwin", "arm64", True),
    ("win32", "AMD64", True),
    ("darwin", "x86_64", False),
    ("win32", "ARM64", False),
    ("linux", "ppc64le", False),
    ("linux", "riscv64", False),
]
"""Operating system, processor, and whether llvmlite has wheels of its present versions there (PyPI, 2026)."""


@pytest.mark.parametrize(("system", "machine", "expected"), PLATFORMS)
def test_llvm_is_never_built_by_an_installation(system, machine, expected):
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = [found for text in project["dependencies"] if (found := Requirement(text)).name == "llvmlite"]
    here = {"sys_platform": system, "platform_machine": machine}
    assert any(each.marker is None or each.marker.evaluate(here) for each in wanted) == expected

"""The gallery shows every named problem, in its own words."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from PIL import Image

import polhode as ph

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
_found = importlib.util.spec_from_file_location("write_gallery", FOLDER.parent / "write_gallery.py")
assert _found is not None
assert _found.loader is not None
gallery = importlib.util.module_from_spec(_found)
_found.loader.exec_module(gallery)

PAGE = (FOLDER / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ph.problems.names())
def test_a_problem_has_its_entry_and_a_picture_of_something(name):
    assert gallery.entry(name) in PAGE
    assert f"polhode run {name} " in gallery.entry(name)
    picture = Image.open(FOLDER / f"{name}.webp")
    assert picture.size == gallery.SIZE
    # Sky, ground and grid alone are pale.
    assert min(low for low, _ in picture.convert("RGB").getextrema()) < 130


def test_pictures_are_few_and_light():
    files = [*FOLDER.glob("*.webp")]
    assert {file.stem for file in files} == {*ph.problems.names()}
    assert sum(file.stat().st_size for file in files) < 1_500_000

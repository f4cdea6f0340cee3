"""Model files with random damage: read, or refused by name."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import polhode as ph

EXAMPLES = Path(__file__).parents[2] / "examples"
PIECES = [
    "<",
    ">",
    "/>",
    '"',
    "&",
    "nan",
    "1e400",
    "-1",
    "0",
    " ",
    "\0",
    "é",
    "name",
    "<!--",
    "]]>",
    "9" * 400,
    "<a>" * 300,
]


def mutated(text: str, random) -> str:
    """A file with one to four changes."""
    for _ in range(int(random.integers(1, 5))):
        at, kind = int(random.integers(len(text))), int(random.integers(6))
        end = min(len(text), at + int(random.integers(1, 60)))
        match kind:
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + PIECES[int(random.integers(len(PIECES)))] + text[at:]
            case 2:
                text = text[:at] + text[at:end] + text[at:]
            case 3:
                text = text[:at]
            case 4:
                words = text.split('"')
                k = int(random.integers(len(words)))
                words[k] = PIECES[int(random.integers(len(PIECES)))]
                text = '"'.join(words)
            case _:
                text = text[:at] + chr(int(random.integers(32, 127))) + text[at + 1 :]
        if not text:
            return "<"
    return text


@pytest.mark.parametrize("name", ["arm.urdf", "four_bar.xml", "press.sdf"])
def test_damaged_model_files_are_read_or_refused_by_name(name, tries, tmp_path):
    count, random = tries(100, {"arm.urdf": 3, "four_bar.xml": 4, "press.sdf": 5}[name])
    original = (EXAMPLES / name).read_text()
    raw, read = [], 0
    for k in range(count):
        path = tmp_path / f"{k}-{name}"
        text = mutated(original, random)
        path.write_text(text, errors="surrogateescape")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = ph.load_model(path)
                read += 1
                assert model.model.bodies
            except ValueError as error:
                if str(path) not in str(error):
                    raw.append(f"{k}: no name of the file: {error}")
            except Exception as error:
                raw.append(f"{k}: {type(error).__name__}: {error}")
    assert not raw, "\n".join(raw)
    # Of a few files all may be beyond reading, or none.
    assert count < 50 or 0 < read < count

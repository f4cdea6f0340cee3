"""Everything that has a name has a source, or is this library's own, and the entries are BibTeX."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode import experiments, references
from polhode.cli import app

NEEDED = {
    "article": {"author", "journal", "year"},
    "book": {"title"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"author", "title"},
    "incollection": {"author", "title", "booktitle", "publisher", "year"},
}


def parsed(entry: str) -> tuple[str, str, dict[str, str]]:
    """The kind, the key and the fields of an entry, whose braces have to close."""
    head = re.fullmatch(r"@(\w+)\{([\w-]+),\n(.*)\n\}", entry, re.DOTALL)
    assert head, entry
    fields = {}
    for line in re.sub(r"\n    +", " ", head[3]).splitlines():
        field = re.fullmatch(r"  (\w+) = \{(.*)\},", line)
        assert field, line
        depth = 0
        for letter in field[2]:
            depth += (letter == "{") - (letter == "}")
            assert depth >= 0, line
        assert depth == 0, line
        assert not re.search(r"(?<!\\)[&%#_]", field[2]) or field[1] == "doi", line
        assert field[2].isascii(), line
        assert field[1] not in fields, line
        fields[field[1]] = field[2]
    return head[1], head[2], fields


def test_entries_are_bibtex_and_none_is_there_in_vain():
    everything = {key for table in (references.METHODS, references.PROBLEMS) for keys in table.values() for key in keys}
    everything |= {*references.PAPERS.values(), "polhode"}
    entries = references._entries()
    assert set(entries) == everything
    for key, entry in entries.items():
        kind, found, fields = parsed(entry)
        assert found == key
        assert NEEDED[kind] <= set(fields) | ({"year"} if key == "love" else set()), key
        assert "year" not in fields or re.fullmatch(r"(19|20)\d\d", fields["year"])
    assert list(entries)[:-1] == sorted(list(entries)[:-1])


def test_every_method_problem_and_experiment_has_an_entry():
    assert set(references.METHODS) == set(ph.integrators.names())
    assert all(references.METHODS.values())
    assert {each.replace("_", "-") for each in references.PROBLEMS} == set(ph.problems.registry._modules())
    for name in experiments.names():
        assert references.keys(name) == (references.PAPERS[experiments.get(name).paper],)


def test_the_papers_are_those_of_the_documentation():
    from pathlib import Path

    page = (Path(__file__).parents[1] / "docs" / "audit.md").read_text(encoding="utf-8")
    for number, key in references.PAPERS.items():
        _, _, fields = parsed(references._entries()[key])
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{number}`")]
        assert fields.get("doi", fields.get("eprint")) in row


def test_the_command():
    call = lambda *words: CliRunner().invoke(app, ["cite", *words])  # noqa: E731
    assert "@misc{polhode," in call().stdout
    assert call("rkmk4").stdout.startswith("@article{munthekaas1999,")
    assert "@misc{polhode," in call("grain-pile").stdout
    assert json.loads(call("002-1", "--json").stdout)["keys"] == ["celledoni2022"]
    assert json.loads(call("002", "--json").stdout)["keys"] == ["celledoni2022"]
    wrong = call("rkmk7")
    assert wrong.exit_code == 2
    assert "There is no integrator, problem or experiment `rkmk7`. Did you mean" in wrong.stderr
    with pytest.raises(ValueError, match="002-99"):
        references.keys("002-99")

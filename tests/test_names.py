"""Names and words of the house: no module, class or function is named by a bare participle or a gerund."""

import ast
import functools
import io
import re
import tokenize

import pytest
from source_counts import ROOT, is_participle, source_tree

PUBLIC = {
    *("Fixed", "dropped", "failed", "interrupted", "measured", "moved", "reduced", "repaired", "saved", "scaled"),
    *("dissipated", "sharded", "shown", "smoothing", "suited", "turning", "Converted", "pending"),
}
"""Names that users know, and that stay."""
OTHERS = {"__missing__", "namespaced"}
"""Names that Python and other packages call."""
MODULES = {"polhode.problems.named", "polhode.simulation.loops.traced", "polhode.simulation.stepping.controlled"}
"""Adjectives among modules: of problems, loops and steps."""

LISTS = {"polhode.experiments.papers", "polhode.problems.named", "polhode.results.audit"}
"""Packages of modules beside each other, none of which comes first; the page of audits has their rules."""

GLOSSARY = {
    r"\banew\b": "again, or rebuild",
    r"\btold apart\b": "distinguished",
    r"\b(is|are|was|were) told\b": "is reported, is passed",
    r"\bfound again\b": "looked up",
    r"\basked for\b": "requested, first used",
    r"\b(goes|go|gone) on from\b": "continues from",
    r"\bworked out\b": "computed",
    r"\bwritten anew\b": "overridden",
    r"\bin vain\b": "without effect",
    r"\bmade of what\b": "built from",
}
"""Private idiom in docstrings and comments, and what to say instead."""


@functools.cache
def words() -> list[tuple[str, str]]:
    """Docstrings and comments of the modules that have an idiom anywhere, with where they are."""
    tree, places, any_idiom = source_tree(), [], re.compile("|".join(GLOSSARY))
    for module, path in tree.paths.items():
        assert path.suffix == ".py"
        if not any_idiom.search(tree.texts[module]):
            continue
        places += [
            (f"{module}:{getattr(node, 'lineno', 1)}", ast.get_docstring(node) or "")
            for node in tree.nodes[module]
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        tokens = tokenize.generate_tokens(io.StringIO(tree.texts[module]).readline)
        places += [(f"{module}:{token.start[0]}", token.string) for token in tokens if token.type == tokenize.COMMENT]
    return places


def test_names_are_nouns_and_imperatives():
    entries = [line.split(" ") for line in source_tree().participles()]
    assert {place for place, name in entries if name == "module"} <= MODULES
    assert {name for _, name in entries if name != "module"} <= PUBLIC | OTHERS
    assert len(entries) <= 40


def test_variables_say_what_they_are():
    assert source_tree().participle_variables() == []


@pytest.mark.parametrize("idiom", GLOSSARY)
def test_sentences_are_plain_english(idiom):
    places = [f"{where}: {text.strip()[:90]}" for where, text in words() if re.search(idiom, text)]
    assert places == [], f"say “{GLOSSARY[idiom]}”"


def test_packages_say_which_file_to_open_first():
    """The page of each package, and of each part of one that has some modules, names files that exist."""
    tree, few, faults = source_tree(), 3, []
    for module in filter(tree.is_package, tree.paths):
        folder, page = tree.paths[module].parent, ast.get_docstring(tree.trees[module]) or ""
        if module == "polhode" or (module.count(".") > 1 and len([*folder.glob("*.py")]) <= few):
            continue
        _, _, rest = " ".join(page.split()).partition("first: ")
        files = re.findall(r"`([\w/]+(?:\.py|/))`", rest)
        if not files and module not in LISTS:
            faults.append(f"{module} doesn't say which file to open first")
        places = folder, ROOT / "src", ROOT
        absent = [name for name in files if not any((place / name).exists() for place in places)]
        faults += [f"{module}: there is no {name}" for name in absent]
    assert faults == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("found", True), ("_Asked", True), ("marching", True), ("moved_on", False), ("spring", False), ("SPEED", False)],
)
def test_participles_are_recognised(name, expected):
    assert is_participle(name) == expected

"""What stands around the library: forms, workflows, links and commands that the pages at the root name."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import polhode

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / ".github").rglob("*.md")), ROOT / "examples" / "README.md"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def load_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def targets() -> set[str]:
    """The names that can be given to `make`."""
    return set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))


def make_targets(words: str) -> set[str]:
    """The targets in calls of `make`, of which settings and options are no part."""
    calls = re.findall(r"\bmake((?: +(?:[A-Z]+=(?:\"[^\"]*\"|\S+)|-\S+|[a-z]+\b))+)", words)
    return {word for call in calls for word in re.sub(r"[A-Z]+=(?:\"[^\"]*\"|\S+)|-\S+", "", call).split()}


# --- what other programs read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_what_there_is(path):
    flow = load_yaml(path)
    # YAML 1.1 takes `on` for a truth.
    assert flow["name"]
    assert flow[True]
    for job in flow["jobs"].values():
        assert job["runs-on"]
        assert job["steps"]
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "@" in step.get("uses", "@")
            assert make_targets(step.get("run", "")) - {"install"} <= targets()
            for script in re.findall(r"(?<!\S)\.ci/\w+", step.get("run", "")):
                assert (ROOT / script).stat().st_mode & 0o100


def test_the_newest_stack_is_run_on_three_systems():
    matrix = load_yaml(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["fast"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert len(matrix["python"]) == 2


@pytest.mark.parametrize("path", [path for path in FORMS if path.stem != "config"], ids=lambda path: path.stem)
def test_forms_for_issues_are_complete(path):
    form = load_yaml(path)
    assert {"name", "description", "body"} <= {*form}
    names = [part["id"] for part in form["body"]]
    assert len({*names}) == len(names)
    assert all(part["attributes"]["label"] for part in form["body"])
    assert path.stem != "bug" or "polhode about" in path.read_text(encoding="utf-8")


def test_hooks_and_settings_of_editors_parse():
    (repository,) = load_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert {hook["id"] for hook in repository["hooks"]} == {"ruff", "ruff-format", "pyrefly"}
    settings = configparser.ConfigParser()
    settings.read_string("[first]\n" + text(".editorconfig"))
    assert settings["Makefile"]["indent_style"] == "tab"


def test_a_release_has_one_version_and_one_date():
    citation = load_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version", "date-released", "license"} <= {*citation}
    sections = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert sections[1] == f"{citation['version']} - {citation['date-released']}"
    assert citation["version"] == polhode.__version__


# --- what people read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}, link


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "releasing.md"], ids=lambda page: page.name)
def test_commands_are_targets(page):
    words = page.read_text(encoding="utf-8")
    commands = "\n".join(a or b for a, b in re.findall(r"`([^`\n]+)`|^(make [^#\n]+)", words, re.MULTILINE))
    assert make_targets(commands) <= targets()
    if page.name == "CONTRIBUTING.md":
        assert {"one", "format", "lint", "types", "docs", "test", "verify"} <= make_targets(commands)


@pytest.mark.skipif(shutil.which("make") is None, reason="There is no make.")
def test_one_test_runs_with_the_quick_flags():
    call = ["make", "--no-print-directory", "--dry-run", "one", "T=tests/joints", "ARGS=-k screw"]
    lines = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-1].startswith('XLA_FLAGS="--xla_backend_optimization_level=0 ')
    assert lines[-1].endswith("pytest tests/joints -k screw")


def test_the_architecture_has_every_package():
    rows = [row.split("|") for row in text("ARCHITECTURE.md").partition("\n## ")[0].splitlines() if row[:1] == "|"]
    packages = {path.parent.name for path in (ROOT / "src" / "polhode").glob("*/__init__.py")}
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row[1])} == packages


def test_figures_of_the_readme_were_recorded():
    rows = [row for row in text("README.md").splitlines() if re.search(r"\| [\d,.]+ \|$", row)]
    figures = {*re.findall(r"[\d,.]*\d", text("benchmarks/RESULTS.md"))}
    assert len(rows) >= 5
    for row in rows:
        assert {*re.findall(r"(?<![\w-])[\d,.]*\d(?= µs| s|  \||\s\|$)", row)} <= figures, row


def test_cells_of_tables_are_short():
    for name in ("README.md", "docs/features.md"):
        cells = [cell for row in text(name).splitlines() if row.startswith("|") for cell in row.split("|")]
        assert max(len(cell.split()) for cell in cells) <= 25


def test_pages_of_the_root_link_within_the_site():
    spec = importlib.util.spec_from_file_location("root_pages", ROOT / "docs" / "root_pages.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    page = pages.as_page("CONTRIBUTING.md")
    assert "](architecture.md)" in page
    assert "](extend.md)" in page
    for path in re.findall(r"\]\(([^)#\s]+)", page):
        assert (ROOT / "docs" / path).exists() or path in pages.PAGES.values()

"""Writes `docs/matrix.md`, which methods take which problems: `python THIS`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import polhode as ph

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
HEAD = """# Problems × methods

Which methods take which problem, in the coordinates of the problem unless others are named, and what stands in the way
of the others. Written by `tests/verification/write_matrix_page.py` from `ph.integrators.suited`, as the command shows
it: `polhode list integrators --for PROBLEM`. [Here](choose.md#any-model-any-method) is how a method takes a system of
another kind.

"""
FORMS = {
    "puma": ("SE3", "minimal"),
    "slider-crank": ("SE3", "minimal"),
    "body-chain": ("SO3xR3", "minimal"),
    "heavy-top": ("SO3", "cotangent"),
    "free-rigid-body": ("SO3", "livens"),
}
"""Formulations of problems that have several, of which more than their own are shown."""


def page() -> str:
    """The page as text."""
    made = [(name, form) for name in ph.problems.names() for form in FORMS.get(name, (None,))]
    return HEAD + "\n".join(_section(name, form) for name, form in made)


def _section(name: str, form: str | None) -> str:
    problem = ph.problems.get(name, **({} if form is None else {"formulation": form}))
    rows = ph.integrators.suited(problem)
    title = f"`{name}`" if form is None else f"`{name}`, `{form}`"
    lines = [
        f"## {title}",
        "",
        f"{sum(row.suited for row in rows)} of {len(rows)} methods run it.",
        "",
        "| runs | methods | how, or why not |",
        "|---|---|---|",
    ]
    key = lambda row: (not row.suited, row.reason)  # noqa: E731
    listed = sorted(rows, key=lambda row: ph.integrators.names().index(row.name))
    for (unsuited, reason), group in itertools.groupby(sorted(listed, key=key), key):
        lines.append(f"| {'no' if unsuited else 'yes'} | {_names(row.name for row in group)} | {_cell(reason)} |")
    return "\n".join(lines) + "\n"


def _names(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

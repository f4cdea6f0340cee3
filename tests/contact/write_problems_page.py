"""Writes `docs/contact-problems.md`, errors of problems of contact by all methods: `python THIS`."""

from __future__ import annotations

from pathlib import Path

from reference_problems import REFERENCES, Reference, run
from test_located_contacts import LOCATED

PAGE = Path(__file__).parents[2] / "docs" / "contact-problems.md"
HEAD = """# Problems of contact

Problems with exact motions, and the errors of [methods for contacts](contact.md#run) in SI units: of `moreau`,
`rattle` and `generalized-alpha` with the same step, of `rkmk54` with rtol = 1e-9. Written by
`tests/contact/write_problems_page.py` from the models of `tests/contact/reference_problems.py`;
`test_reference_problems.py` holds them. Errors below 1e-9 are those of round-off or of the tolerance of the contact
problem, 1e-10.

| problem | h | measured | `moreau` | `rattle` | `generalized-alpha` | `rkmk54` |
|---|---|---|---|---|---|---|
"""
METHODS = ("moreau", "rattle", "generalized-alpha")


def page() -> str:
    """The page as text."""
    return HEAD + "".join(
        row
        for reference in REFERENCES.values()
        for form in (("SO3xR3", "minimal") if reference.joints else ("SO3xR3",))
        for row in _rows(reference, form)
    )


def _rows(reference: Reference, form: str) -> list[str]:
    errors = [reference.errors(run(reference, method, formulation=form)) for method in METHODS]
    if reference in [REFERENCES[name] for name in LOCATED]:
        errors.append(reference.errors(run(reference, "rkmk54", formulation=form, rtol=1e-9)))
    title = reference.title if form == "SO3xR3" else f"{reference.title}, in joint coordinates"
    rows = []
    for place, what in enumerate(errors[0]):
        head = f"{title} | {reference.h:g} s" if place == 0 else " | "
        cells = [*(_number(each[what]) for each in errors), ""][: len(METHODS) + 1]
        rows.append(f"| {head} | {what} | {' | '.join(cells)} |\n")
    return rows


def _number(error: float) -> str:
    size = abs(float(error))
    return "0" if size < 1e-15 else f"{size:.0e}".replace("e-0", "e-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

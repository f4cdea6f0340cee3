"""Writes `docs/contact-problems.md`, errors of problems of contact by all methods: `python THIS [PROBLEM …]`.

With names of problems (`incline-stop`, …) other rows stay. The page is written after each problem.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from reference_problems import REFERENCES, Reference, run
from test_located_contacts import LOCATED

PAGE = Path(__file__).parents[2] / "docs" / "contact-problems.md"
HEAD = """# Problems of contact

Problems with exact motions, and the errors of [methods for contacts](contact.md#run) in SI units: of `moreau`,
`rattle` and `generalized-alpha` with the same step, of `rkmk54` with rtol = 1e-9. Written by
`tests/contact/write_problems_page.py` from the models of `tests/contact/reference_problems.py`;
`test_reference_problems.py` and `test_located_contacts.py` hold them. Errors below 1e-9 are those of round-off or of
the tolerance of the contact problem, 1e-10.

Cells of `rkmk54` are empty where a problem has more than the 8 contact points that explicit methods take, and for the
box of 10,000 kg, which has just 8 and takes long to compile.

| problem | h | measured | `moreau` | `rattle` | `generalized-alpha` | `rkmk54` |
|---|---|---|---|---|---|---|
"""
TAIL = """
## Machines and arches

| problem | exact by | measured |
|---|---|---|
| chain of 6 and of 12 balls over half a cylinder, μ = 0.3 (`test_capstan.py`) | at each ball tension grows by (1 \
+ μ tan ½δ)/(1 − μ tan ½δ), δ the turn of the chain | at 0.999 of the limit, for 1 s: speeds below 3e-9 m/s; at \
1.001 it slips, acceleration to 3e-6, by `rkmk54` to 4e-9 |
| half ring of 5 blocks, thickness over mean radius 0.0950, or tilted to 17.47° with 0.2 (`test_arch.py`) | \
linear programme of equilibrium; 0.1075 for many blocks | `moreau`, 0.5 % inside of \
the limit, of the tilt 0.1 %, for 1 s: motion below 1e-11 m; as much outside it falls |
| slider–crank at 5000 rpm, 0.5 mm clearance, e = 0.9 and 0, μ = 0 and 0.1 (`test_clearance.py`) | another \
formulation with located impacts | `rkmk54`, rtol = 1e-10: first 14 impacts to 1e-10 s; `moreau`: order 2 across \
bounces, 1 across plastic impacts |
"""
METHODS = ("moreau", "rattle", "generalized-alpha")
Table = dict[str, list[str]]
"""Rows of each problem, by its title."""


def table(page: str) -> Table:
    """The rows of a page."""
    rows: Table = {}
    title = ""
    for line in page.splitlines(keepends=True):
        cells = line.split(" | ")
        if len(cells) == len(METHODS) + 4 and cells[0] != "| problem":
            title = cells[0].removeprefix("| ").strip() or title
            rows.setdefault(title, []).append(line)
    return rows


def text(rows: Table) -> str:
    """The page, with its problems in their order."""
    return HEAD + "".join(line for title, *_ in cases() for line in rows.get(title, ())) + TAIL


def cases() -> list[tuple[str, str, str]]:
    """Title, name and formulation of all problems."""
    both = [(name, form) for name, form in itertools.product(REFERENCES, ("SO3xR3", "minimal"))]
    return [
        (REFERENCES[name].title + (", in joint coordinates" if form == "minimal" else ""), name, form)
        for name, form in both
        if form == "SO3xR3" or REFERENCES[name].joints
    ]


def measure(title: str, name: str, form: str) -> list[str]:
    """The rows of one problem."""
    reference = REFERENCES[name]
    errors = [reference.errors(run(reference, method, formulation=form)) for method in METHODS]
    if name in LOCATED:
        errors.append(reference.errors(run(reference, "rkmk54", formulation=form, rtol=1e-9)))
    return [_row(title if place == 0 else "", reference, what, errors) for place, what in enumerate(errors[0])]


def _row(title: str, reference: Reference, what: str, errors: list[dict[str, float]]) -> str:
    cells = [*(_number(each[what]) for each in errors), ""][: len(METHODS) + 1]
    return f"| {title} | {f'{reference.h:g} s' if title else ''} | {what} | {' | '.join(cells)} |\n"


def _number(error: float) -> str:
    size = abs(float(error))
    return "0" if size < 1e-15 else f"{size:.0e}".replace("e-0", "e-")


def main(names: list[str]) -> None:
    for title, name, form in cases():
        if not names or name in names:
            rows = measure(title, name, form)
            # What others have written meanwhile stays.
            PAGE.write_text(text({**table(PAGE.read_text(encoding="utf-8")), title: rows}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

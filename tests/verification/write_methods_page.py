"""Writes `docs/methods.md` from the cells of the table of methods: `PYTHONPATH=tests python THIS [--figures FILE]`."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cells
from tumbling import MOVING

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
HEAD = """# Methods, measured

Every integrator on one tumbling body: asymmetric, hung up at a fixed point under gravity, in the form that the method
takes; those for bodies that touch, `moreau` among them, are in [Contact](theory/contact.md). Written by
`tests/verification/write_methods_page.py` from the cells of the table of methods, to which
`tests/verification/test_methods.py` holds every other name of the registry (orders and promises of every second one in
each run of the tests, the other columns in a smaller sample, and all of them in `make verify`).

- **Order**: declared, and as observed of attitude, velocity and multipliers against the exact motion at t = 1, from
  two steps.
- **Kept**: what the method promises and the [audit](audit.md) of 500 coarse steps calls kept. **Not kept**: what the
  exact motion keeps and the run breaks, measured as if it had been promised to round-off. What is in neither column
  was kept without a promise. The energy is promised to be bounded by symplectic methods (`stormer-verlet`, `rattle`,
  `rodrigues` and `rigid-verlet` among them), everything else to round-off or to the tolerance of Newton's method.

Methods in quaternions find one multiplier a step. Those of single steps scatter about the motion's by O(h), up and down
in turns (but with `emh`); the column has the mean of the two last ones.

"""
DERIVED = """## Back ends, batches and derivatives

{which}: 200 steps of 1/200, compared with runs in machine code; vector fields are in quaternions here. Differences
are relative to the larger of 1 and the state, those of derivatives to the size of the gradient.

- **XLA**, **NumPy**: the same run by XLA, as where there is no compiler of machine code, and operation by operation by
  NumPy, which computes starts; 1e-11 is allowed.
- **Batch**: two members under `vmap` by XLA, with other masses, lengths and speeds, each against a run of its own;
  1e-11 is allowed.
- **Goes on**: bytes in which all frames of a run that goes on from its middle, in memory and from its store, differ
  from those of a run that never stopped; none is allowed.
- **Reverse**, **forward**: derivatives by mass, length and speed of a number made of attitude, velocity and
  multipliers, in machine code, against JAX's compiled by XLA; 1e-10 is allowed.
- **Differences**: the worse of both against central differences, which are no better than 1e-9; 1e-6 is allowed.

`generalized-alpha` finds multipliers from constraints of positions, so what rounding leaves in them is that of
positions over h². Derivatives of them differ by more than those of states, too, and in reverse mode by more than JAX's
own two modes differ: in this method alone {rounded:.0e} is allowed.

"""
COLUMNS = ("method", "order", "attitude", "velocity", "multipliers", "kept", "not kept")
DERIVED_COLUMNS = ("method", "XLA", "NumPy", "batch", "goes on", "reverse", "forward", "differences")


def figures(name: str) -> dict[str, Any]:
    """Orders and promises."""
    row = cells.Row.of(name)
    return {
        "form": row.form.name,
        "order": row.method.order,
        **cells.orders(row),
        "kept": [q for q, (_, verdict) in cells.promises(row).items() if verdict == "kept"],
        "not kept": [q for q, verdict in cells.wrongly_promised(row).items() if verdict == "broken" and q != MOVING],
    }


def back_ends(name: str) -> dict[str, float]:
    """How far back ends differ, and runs that go on from those that never stopped."""
    row = cells.Row.of(name).light
    end = cells.on_host(row)
    gaps = {"XLA": cells.gap(cells.by_xla(row), end), "NumPy": cells.gap(cells.by_numpy(row), end)}
    gaps["batch"] = cells.gap_of_batch(row, cells.run_batch(row))
    with tempfile.TemporaryDirectory() as folder:
        differing = cells.differing_bytes(row) + cells.differing_bytes(row, Path(folder) / "run.zarr")
    multipliers = max(gap["multipliers"] for gap in gaps.values())
    return {**{by: gap["state"] for by, gap in gaps.items()}, "goes on": differing, "of multipliers": multipliers}


def derived(name: str) -> dict[str, float]:
    """How far derivatives differ."""
    row = cells.Row.of(name).light
    result = cells.derivatives(row)
    differences = cells.errors_of_derivatives(result, cells.by_differences(row))
    errors = cells.errors_of_derivatives(result, cells.derivatives_by_xla(row))
    return {"differences": max(differences.values()), **errors}


def page(table: dict[str, dict[str, Any]]) -> str:
    """The page: methods of one form stand together under its name, in the order of the registry."""
    parts = [HEAD]
    for form in dict.fromkeys(row["form"] for row in table.values()):
        rows = [[f"`{name}`", *_cells(row)] for name, row in table.items() if row["form"] == form]
        parts += [f"## {form[0].upper()}{form[1:]}\n\n", *_lines(COLUMNS, rows)]
    known = [column for column in DERIVED_COLUMNS[1:] if any(column in row for row in table.values())]
    measured = {name: row for name, row in table.items() if any(column in row for column in known)}
    if measured:
        whole = all(column in row for row in table.values() for column in DERIVED_COLUMNS[1:])
        which = "All methods" if whole else "What has been measured so far"
        parts.append(DERIVED.format(which=which, rounded=cells.ROUND_OFF["generalized-alpha"]))
        rows = [[f"`{n}`", *(_small(row.get(c)) for c in known)] for n, row in measured.items()]
        parts += _lines(("method", *known), rows)
    return "".join(parts).rstrip() + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    observed = [f"{row[part]:.2f}" if part in row else "" for part in COLUMNS[2:5]]
    kept, lost = (", ".join(map(_words, row[column])) for column in ("kept", "not kept"))
    return [str(row["order"]), *observed, kept, lost]


def _small(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.0e}" if figure else "0"


def _words(quantity: str) -> str:
    return _CASIMIRS.get(quantity, quantity.replace("_", " "))


_CASIMIRS = {"gamma_squared[0]": "Γ²", "pi_dot_gamma[0]": "Π·Γ"}


def _lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    whole = (headings, ["---"] * len(headings), *rows)
    return [*(f"| {' | '.join(row)} |\n" for row in whole), "\n"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, help="keeps figures, so that none is measured twice")
    parser.add_argument("--quick", action="store_true", help="orders and promises, and what is known of the rest")
    given = parser.parse_args()
    file: Path | None = given.figures
    table = json.loads(file.read_text()) if file is not None and file.exists() else {}
    more = () if given.quick else ((back_ends, "XLA"), (derived, "reverse"))
    for measure, column in ((figures, "order"), *more):
        for name in cells.METHODS:
            if column not in table.setdefault(name, {}):
                table[name].update(measure(name))
                cells.forget()
                print(name, table[name], flush=True)
                if file is not None:
                    file.write_text(json.dumps(table))
    PAGE.write_text(page({name: table[name] for name in cells.METHODS}), encoding="utf-8")


if __name__ == "__main__":
    main()

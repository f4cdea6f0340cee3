"""Writes `docs/methods.md` from the cells of the table of methods: `PYTHONPATH=tests python THIS [--figures FILE]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cells
from tumbling import MOVING

from polhode import integrators

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
HEAD = """# Methods, measured

Every integrator on one tumbling body: asymmetric, hung up at a fixed point under gravity, in the form that the method
takes. Written by `tests/verification/write_methods_page.py` from the cells of the table of methods, to which
`tests/verification/test_methods.py` holds every name of the registry (orders and promises in each run of the tests,
the other columns in a sample, and all of them in `make verify`).

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

{which}, compared with runs in machine code; by XLA vector fields are in quaternions.

"""
SAID = {
    "NumPy": """
- **NumPy**: largest difference of the state after 20 steps by NumPy, which computes starts, relative to the larger of 1
  and the state; 1e-11 is allowed.
""",
    "batch": """
- **Batch**: the same of two states by XLA, under `vmap` with other masses, lengths and speeds, after 200 steps; 1e-11
  is allowed.
""",
    "reverse": """
- **Reverse, forward**: relative error of derivatives by mass, length and speed through 200 steps, against central
  differences; 1e-6 is allowed, and the differences are no better than 1e-9.
""",
}
COLUMNS = ("method", "order", "attitude", "velocity", "multipliers", "kept", "not kept")
DERIVED_COLUMNS = ("method", "NumPy", "batch", "reverse", "forward")


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


def by_numpy(name: str) -> dict[str, float]:
    """How far back ends on the host differ."""
    row = cells.Row.of(name)
    return {"NumPy": cells.difference(cells.on_host(row, cells.FEW), cells.by_numpy(row))}


def derived(name: str) -> dict[str, float]:
    """What takes minutes to compile for some methods."""
    row = cells.Row.of(name).light
    errors = cells.errors_of_derivatives(cells.derivatives(row), cells.by_differences(row))
    return {"batch": cells.gap_of_batch(row, cells.batched(row)), **errors}


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
        parts.append(DERIVED.replace("{which}", "All methods" if whole else "What has been measured so far"))
        parts += [*(SAID[column].lstrip() for column in known if column in SAID), "\n"]
        rows = [[f"`{n}`", *(f"{row[c]:.0e}" if c in row else "" for c in known)] for n, row in measured.items()]
        parts += _lines(("method", *known), rows)
    return "".join(parts).rstrip() + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    observed = [f"{row[part]:.2f}" if part in row else "" for part in COLUMNS[2:5]]
    kept, lost = (", ".join(map(_words, row[column])) for column in ("kept", "not kept"))
    return [str(row["order"]), *observed, kept, lost]


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
    more = () if given.quick else ((by_numpy, "NumPy"), (derived, "batch"))
    for measure, column in ((figures, "order"), *more):
        for name in integrators.names():
            if column not in table.setdefault(name, {}):
                table[name].update(measure(name))
                cells.forget()
                print(name, table[name], flush=True)
                if file is not None:
                    file.write_text(json.dumps(table))
    PAGE.write_text(page({name: table[name] for name in integrators.names()}), encoding="utf-8")


if __name__ == "__main__":
    main()

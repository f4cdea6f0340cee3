"""Writes `docs/methods.md` from the cells of the table of methods: PYTHONPATH=tests python THIS [--figures FILE]."""

from __future__ import annotations

import argparse
import json
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
  was kept without a promise.
- **XLA, NumPy**: largest difference of the state from that of a run as `simulate` makes it, after 200 steps, relative
  to the larger of 1 and the state; XLA's is of two members of a batch under `vmap` with other masses, lengths and
  speeds, and runs of their own. 1e-11 is allowed.
- **Reverse, forward**: relative error of derivatives by mass, length and speed through 200 steps, against central
  differences of runs; 1e-6 is allowed, and the differences are no better than 1e-9.

{by_xla}

Methods in quaternions find one multiplier a step. Those of single steps scatter about the motion's by O(h), up and down
in turns (but with `emh`); the column has the mean of the two last ones.

"""
COLUMNS = (
    "method",
    "order",
    "attitude",
    "velocity",
    "multipliers",
    "kept",
    "not kept",
    "XLA",
    "NumPy",
    "reverse",
    "forward",
)


def figures(name: str) -> dict[str, Any]:
    """Everything that the table has of a method."""
    row = cells.Row.of(name)
    found = cells.transformed(row)
    exact = cells.differences_of_values(row, cells.BATCH[0])
    known = {
        "form": row.form.name,
        "order": row.method.order,
        **cells.orders(row),
        "kept": [q for q, (_, verdict) in cells.promises(row).items() if verdict == "kept"],
        "not kept": [q for q, verdict in cells.wrongly_promised(row).items() if verdict == "broken" and q != MOVING],
        "XLA": cells.gap_of_batch(row, found),
        "NumPy": cells.difference(cells.on_host(row), cells.by_numpy(row)),
        **cells.errors_of_gradients(found, exact),
    }
    cells.forget()
    return known


def page(table: dict[str, dict[str, Any]]) -> str:
    """The page; methods that take the same form stand together under its name, in the order of the registry."""
    forms = list(dict.fromkeys(row["form"] for row in table.values()))
    parts = [HEAD.replace("{by_xla}", _by_xla())]
    for form in forms:
        parts.append(f"## {form[0].upper()}{form[1:]}\n\n")
        parts += [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
        parts += [_line([f"`{name}`", *_cells(row)]) for name, row in table.items() if row["form"] == form]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _by_xla() -> str:
    others = "; ".join(f"`{name}`, because {why}" for name, why in cells.BY_XLA.items())
    return f"Runs are machine code, but for those that XLA makes: {others}."


def _cells(row: dict[str, Any]) -> list[str]:
    observed = [f"{row[part]:.2f}" if part in row else "" for part in COLUMNS[2:5]]
    kept, lost = (", ".join(map(_words, row[column])) for column in ("kept", "not kept"))
    return [str(row["order"]), *observed, kept, lost, *(f"{row[column]:.0e}" for column in COLUMNS[7:])]


def _words(quantity: str) -> str:
    return _CASIMIRS.get(quantity, quantity.replace("_", " "))


_CASIMIRS = {"gamma_squared[0]": "Γ²", "pi_dot_gamma[0]": "Π·Γ"}


def _line(parts: Any) -> str:
    return f"| {' | '.join(parts)} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, help="keeps figures, so that none is measured twice")
    file = parser.parse_args().figures
    table = json.loads(file.read_text()) if file is not None and file.exists() else {}
    for name in integrators.names():
        if name not in table:
            table[name] = figures(name)
            print(name, table[name], flush=True)
            if file is not None:
                file.write_text(json.dumps(table))
    PAGE.write_text(page({name: table[name] for name in integrators.names()}), encoding="utf-8")


if __name__ == "__main__":
    main()

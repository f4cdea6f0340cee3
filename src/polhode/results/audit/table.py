"""The table of promises and measurements, as text, rich table, dictionary and HTML."""

from __future__ import annotations

import collections
import dataclasses
import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from polhode import summary
from polhode.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

Verdict = Literal["kept", "broken", "undecided", "between steps", "not promised"]

Accuracy = Literal["accurate", "coarse", "wrong"]

_HEADINGS = ("quantity", "promise", "max drift", "at the end", "slope", "relative", "verdict")


@dataclasses.dataclass(frozen=True)
class Row:
    """One audited quantity.

    - `max_drift`, `end_drift`: max-norm of the change since the first frame (for residuals: the residual).
    - `slope`: of a straight line fitted to the drift, per unit of time; the steepest component of a vector.
    - `allowed`: the largest drift that a numeric promise leaves, None for "bounded" and without a promise.
    - `relative`, `accuracy`: the drift relative to its scale, and the judgement of the run that follows.
    - `remark`: on its accuracy, in words; empty where it is accurate.
    - `verdict`: "undecided" where fewer than 32 frames, or a motion that hardly oscillates, can't distinguish a drift
      from an oscillation; "between steps" where only frames between ends of steps exceed a promise for these.
    """

    quantity: str
    promise: str | None
    max_drift: float
    end_drift: float
    slope: float
    allowed: float | None
    verdict: Verdict
    relative: float
    accuracy: Accuracy
    remark: str


@dataclasses.dataclass(frozen=True, repr=False)
class Audit:
    """A table of promises and measurements; `str`, rich, dict and notebook representations.

    - `exceeded`: remarks on joints that moved faster than their model file lets them.
    """

    rows: tuple[Row, ...]
    exceeded: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether no promise was found broken."""
        return all(row.verdict != "broken" for row in self.rows)

    @property
    def accurate(self) -> bool:
        """Whether nothing that the exact motion keeps has changed by more than a hundredth."""
        return all(row.accuracy != "wrong" for row in self.rows)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the accuracy of the run, and on limits that it exceeds."""
        return (*(row.remark for row in self.rows if row.remark), *self.exceeded)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, quantity: str) -> Row:
        for row in self.rows:
            if row.quantity == quantity:
                return row
        raise KeyError(f"The audit has no `{quantity}`; it has {', '.join(row.quantity for row in self.rows)}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values: `kept`, `accurate`, `remarks` and the rows."""
        rows = [dataclasses.asdict(row) for row in self.rows]
        return {"kept": self.kept, "accurate": self.accurate, "remarks": list(self.remarks), "rows": rows}

    def cells(self) -> list[tuple[str, ...]]:
        """The table as text, headings first."""
        return [_HEADINGS, *(_cells(row) for row in self.rows)]

    def to_rich(self) -> Table:
        """A table for `rich`."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(title="Audit", title_justify="left", title_style="bold")
        for heading in _HEADINGS:
            table.add_column(heading, justify="right" if heading in _HEADINGS[2:6] else "left")
        styles = {
            "kept": "green",
            "broken": "bold red",
            "undecided": "yellow",
            "between steps": "yellow",
            "not promised": "dim",
        }
        for row in self.rows:
            *cells, verdict = _cells(row)
            table.add_row(*map(escape, cells), f"[{styles[row.verdict]}]{verdict}[/]")
        return table

    def __repr__(self) -> str:
        verdicts = collections.Counter(row.verdict for row in self.rows)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        return f"Audit({counts or 'nothing audited'}; print it for the table)"

    def __str__(self) -> str:
        return printable("\n".join([*summary.lines(self.cells()), *self.remarks]))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
        body = "".join(
            f'<tr class="{row.verdict.replace(" ", "-")}">'
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
            + "</tr>"
            for row in self.rows
        )
        remarks = "".join(f'<p class="remark">{html.escape(remark)}</p>' for remark in self.remarks)
        return f'<table class="audit"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{remarks}'


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (f"{row.max_drift:.2e}", f"{row.end_drift:.2e}", f"{row.slope:+.1e}", f"{row.relative:.0e}")
    return (row.quantity.replace("_", " "), row.promise or "–", *numbers, row.verdict)

"""The report of a run by the command: a table, JSON, and the exit status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polhode._signals import end, number_of
from polhode.cli.output import (
    RUN_FAILED,
    console,
    emit,
    fail,
    number,
    say,
)
from polhode.printable import printable

if TYPE_CHECKING:
    from polhode.results.audit import Audit
    from polhode.solution.solution import Solution


_LONG_ENOUGH_S = 0.05
"""Seconds below which the time of a step is not reported: every run costs some milliseconds besides its steps."""


class Outcome(NamedTuple):
    """A run up to its end, the message if it ended early, and the signal that ended it, if any."""

    solution: Solution
    message: str = ""
    signal: int | None = None


def carry_out(out: Path | None, act: Callable[[], Solution]) -> Outcome:
    """The outcome of a run; ends with status 1 where nothing does, and at once if Ctrl-C is pressed twice."""
    import polhode as ph

    try:
        return Outcome(act())
    except ph.SimulationError as error:
        return Outcome(error.solution, f"{error.reason} {where_stored(out, error.solution)}")
    except KeyboardInterrupt as error:
        solution = getattr(error, "solution", None)
        if solution is None or getattr(error, "repeated", False):
            raise
        return Outcome(solution, signal=number_of(error) or signal.SIGINT)
    except OSError as error:
        fail(str(error), RUN_FAILED)


def report(outcome: Outcome, out: Path | None, more: dict[str, Any], as_json: bool, quiet: bool) -> None:
    """Print what came of a run; end with a message if it did not reach its end, as the signal does that ended it.

    Ctrl-C asks for the end of a run rather than of everything, and has the status 1 of all runs that are not whole.
    """
    import polhode as ph

    solution = outcome.solution
    # An audit takes a while, and evaluates the whole run.
    audit = solution.audit() if as_json or not quiet else None
    if audit is not None:
        summary = _summary(solution, audit) | more
        if as_json:
            emit({**summary, "store": None if out is None else str(out)})
        else:
            if "written_as" in summary:
                say(f"  {summary['written_as']}")
            _show(solution, summary, audit, out)
    whole = solution.stats["result"] == ph.Result.successful
    message = "" if whole else outcome.message or f"{solution.stats['result'].message} {where_stored(out, solution)}"
    if outcome.signal is not None and (whole or outcome.signal != signal.SIGINT):
        sys.stdout.flush()
        end(outcome.signal, printable(message))
    if not whole:
        fail(message, RUN_FAILED)


def where_stored(out: Path | None, solution: Solution) -> str:
    """A sentence on where the frames of an incomplete run are stored."""
    import polhode as ph

    if solution.stats["result"] == ph.Result.store_failed:
        return ""
    if out is None:
        return "With `--out RUN.zarr` that much is stored, and can be gone on with."
    go_on = f" Go on with `polhode resume {out}`." if solution.stats["result"] == ph.Result.interrupted else ""
    return f"It is stored in {out}.{go_on}"


def _summary(solution: Solution, audit: Audit) -> dict[str, Any]:
    """The object that `--json` prints."""
    import jax
    import numpy as np

    from polhode.result_codes import TIMES

    meta, stats = solution.meta, solution.stats
    largest = {row.quantity: row.max_drift for row in audit.rows}

    def of(section: str) -> dict[str, float]:
        names = [name.partition(".") for name in solution.columns()]
        return {quantity: largest[quantity] for part, _, quantity in names if part == section}

    return {
        "problem": meta["problem"],
        "parameters": meta["parameters"],
        "integrator": meta["integrator"]["name"],
        **{key: meta[key] for key in ("choice", "written_as") if key in meta},
        **{key: meta[key] for key in ("h", "rtol", "atol") if key in meta},
        "t0": meta["t0"],
        "t1": meta["t1"],
        **{key: stats.get(key) for key in ("steps", *TIMES)},
        "us_per_step": _time_of_a_step(stats),
        "final": jax.tree.map(lambda x: np.asarray(x)[-1], dict(solution[-1].outputs)),
        "invariants": of("invariants"),
        "residuals": of("residuals"),
        "audit": audit.to_dict(),
        "stats": stats,
        "result": stats["result"].name,
        **({"error_estimate": stats["error_estimate"]} if "error_estimate" in stats else {}),
    }


def _time_of_a_step(stats: dict[str, Any]) -> float | None:
    """Microseconds an attempted step; None for runs so short that what every run costs would be most of it."""
    if "wall_time_s" not in stats:
        return None
    attempts = stats["steps"] + stats["rejected"]
    return 1e6 * stats["wall_time_s"] / attempts if attempts and stats["wall_time_s"] >= _LONG_ENOUGH_S else None


def _show(solution: Solution, summary: dict[str, Any], audit: Audit, out: Path | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    from polhode.json_values import to_plain
    from polhode.result_codes import Result
    from polhode.simulation.progress_display import preparation

    screen, stats = console(), solution.stats
    table = Table(title=f"At t = {stats['t_reached']:.6g}", title_justify="left", title_style="bold", show_header=False)
    for name, value in to_plain(summary["final"]).items():
        table.add_row(escape(name.replace("_", " ")), escape(number(value)))
    screen.print(table)
    screen.print(audit.to_rich())
    for remark in audit.remarks:
        screen.print(f"[bold yellow]{escape(remark)}[/]", highlight=False)
    for line in _digits(stats.get("error_estimate")):
        screen.print(escape(line), highlight=False)
    rejections = f", {stats['rejected']} rejected" if stats["rejected"] else ""
    step_time = summary["us_per_step"]
    each = f" ({step_time:.3g} µs a step, saving included)" if step_time is not None else ""
    screen.print(
        f"{summary['result'].replace('_', ' ')}: {stats['steps']} steps{rejections} in {stats['wall_time_s']:.3g} s"
        f"{each}; {preparation(stats)}",
        highlight=False,
    )
    if out is not None and solution.stats["result"] == Result.successful:
        hint = f"stored in {out}; look at it: polhode view {out} (or polhode export {out} run.html)"
        screen.print(escape(hint), highlight=False, soft_wrap=True)


def _digits(estimate: dict[str, Any] | None) -> list[str]:
    """Lines on the estimated error, one for each output."""
    if estimate is None:
        return []
    if "failed" in estimate:
        return [f"no estimate of the error: {estimate['failed']}"]
    lines = ["estimated error over the run, and right digits of the largest value:"]
    for name, estimates in estimate.items():
        parts = estimates.items() if "digits" not in estimates else [("", estimates)]
        for part, each in parts:
            label = f"{name} {part}".replace("_", " ").strip()
            lines.append(f"  {label}: {each['error']:.2g}, {each['digits']:.1f} digits")
    return lines

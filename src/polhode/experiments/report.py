"""The report on disk: one HTML page, its checks as JSON, figures and data by experiment."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np

from polhode.experiments.registry import Check, Experiment, Outcome
from polhode.json_values import to_plain
from polhode.replacement import replacement
from polhode.viewing.style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Drawings with very many points are smaller and quicker to show as pixels.
_LARGEST_SVG = 500_000


class _ReportEntry(NamedTuple):
    line: str
    section: str
    checks: list[dict[str, Any]]
    wall_time_s: float


class Writer:
    """Grows a report in the folder `out`, complete after each experiment, in the order of `names`.

    `small`: figures have few pixels, and there are no files beside the page but `checks.json`.
    """

    def __init__(self, out: Path, names: Sequence[str], quick: bool = False, small: bool = False):
        self._out = out
        self._small = small
        self._names = list(names)
        self._quick = quick
        self._entries: dict[str, _ReportEntry] = {}
        out.mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> Path:
        """The HTML report."""
        return self._out / "index.html"

    def add(self, experiment: Experiment, outcome: Outcome, wall_time_s: float, error: str) -> None:
        """Adds the outcome of one experiment and rewrites the report."""
        figures = [self._figure(experiment.name, name, figure) for name, figure in outcome.figures.items()]
        data = {} if self._small else outcome.data
        links = [self._data(experiment.name, name, columns) for name, columns in data.items()]
        rows = [
            {
                "experiment": experiment.name,
                "name": check.name,
                "claimed": to_plain(check.claimed),
                "measured": to_plain(check.measured),
                "passed": check.passed,
                "explanation": check.explanation,
            }
            for check in outcome.checks
        ]
        passed = all(check.passed for check in outcome.checks)
        self._entries[experiment.name] = _ReportEntry(
            _entry(experiment, outcome.checks, passed),
            _section(experiment, outcome.checks, figures, links, wall_time_s, error),
            rows,
            wall_time_s,
        )
        with replacement(self._out / "checks.json") as part:
            part.write_text(json.dumps(self._checks(), indent=1), encoding="utf-8")
        with replacement(self.path) as part:
            part.write_text(self._page(), encoding="utf-8")

    def _in_order(self) -> list[_ReportEntry]:
        return [self._entries[name] for name in self._names if name in self._entries]

    def _checks(self) -> list[dict[str, Any]]:
        return [check for one in self._in_order() for check in one.checks]

    def _page(self) -> str:
        from polhode import __version__

        rows = self._checks()
        failed, total = sum(not check["passed"] for check in rows), len(rows)
        took = sum(one.wall_time_s for one in self._in_order())
        remaining_count = len(self._names) - len(self._entries)
        notes = [
            f"polhode {__version__}",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            f"{platform.machine()}, {os.cpu_count()} cores",
            f"{len(self._entries)} experiments in {took / 60:.1f} minutes of one after the other",
            *(["quick: fewer steps and shorter spans"] if self._quick else []),
            *([f"{remaining_count} not run yet"] if remaining_count else []),
        ]
        parts = {
            "CSS": resources.files("polhode.experiments").joinpath("report.css").read_text(encoding="utf-8"),
            "VERDICT": "bad" if failed else "ok",
            "SUMMARY": f"{failed} of {total} checks failed" if failed else f"all {total} checks passed",
            "MADE": " · ".join(notes),
            "CONTENTS": "\n".join(one.line for one in self._in_order()),
            "SECTIONS": "\n".join(one.section for one in self._in_order()),
        }
        pieces = resources.files("polhode.experiments").joinpath("report.html").read_text(encoding="utf-8").split("@")
        return "".join(parts.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))

    def _figure(self, experiment: str, name: str, figure: Figure) -> str:
        content, kind = _pixels(figure, "webp", 72) if self._small else _draw(figure)
        if not self._small:
            path = self._folder("figures", experiment) / f"{_file_name(name)}.{kind.partition('+')[0]}"
            with replacement(path) as part:
                part.write_bytes(content)
        source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
        caption = html.escape(name)
        return f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'

    def _data(self, experiment: str, name: str, columns: Mapping[str, Any]) -> str:
        arrays: dict[str, Any] = {key: np.asarray(values) for key, values in columns.items()}
        stem = self._folder("data", experiment) / _file_name(name)
        lengths = {array.shape for array in arrays.values()}
        if len(lengths) == 1 and len(next(iter(lengths))) == 1:
            path = stem.with_name(stem.name + ".csv")
            _write_csv(path, arrays)
        else:
            path = stem.with_name(stem.name + ".npz")
            with replacement(path) as part, part.open("wb") as file:
                np.savez_compressed(file, **arrays)
        relative = html.escape(path.relative_to(self._out).as_posix())
        return f'<a href="{relative}">{html.escape(name)} ({path.suffix[1:]})</a>'

    def _folder(self, kind: str, experiment: str) -> Path:
        folder = self._out / kind / _file_name(experiment)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _draw(figure: Figure) -> tuple[bytes, str]:
    text = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    content = text.getvalue()
    return (content, "svg+xml") if len(content) <= _LARGEST_SVG else _pixels(figure, "png", 150)


def _pixels(figure: Figure, kind: str, dpi: int) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi)
    return buffer.getvalue(), kind


def _write_csv(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    lines = [",".join(columns)]
    # `repr` of a float is the shortest text that gives it back.
    lines += [
        ",".join(str(value) for value in row) for row in zip(*(c.tolist() for c in columns.values()), strict=True)
    ]
    with replacement(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _entry(experiment: Experiment, checks: list[Check], passed: bool) -> str:
    count = f"{sum(check.passed for check in checks)}/{len(checks)}"
    return (
        f'<li><a href="#{html.escape(experiment.name)}"><b>{html.escape(experiment.name)}</b> '
        f'{html.escape(experiment.title)}</a> <span class="{"ok" if passed else "bad"}">{count}</span></li>'
    )


def _section(
    experiment: Experiment,
    checks: list[Check],
    figures: list[str],
    links: list[str],
    wall_time_s: float,
    error: str,
) -> str:
    doc = "".join(f"<p>{html.escape(' '.join(part.split()))}</p>" for part in experiment.doc.split("\n\n") if part)
    rows = "\n".join(_row(check) for check in checks)
    failure = f"<details open><summary>Traceback</summary><pre>{html.escape(error)}</pre></details>" if error else ""
    data = f"<p class='data'>Data: {' · '.join(links)}</p>" if links else ""
    return f"""<section id="{html.escape(experiment.name)}">
<h2><span>{html.escape(experiment.name)}</span> {html.escape(experiment.title)}</h2>
<p class="meta">paper {html.escape(experiment.paper)} · {wall_time_s:.1f} s</p>
{doc}
<table><thead><tr><th>check</th><th>claimed</th><th>measured</th><th></th></tr></thead><tbody>
{rows}
</tbody></table>
{failure}
<div class="figures">{"".join(figures)}</div>
{data}
</section>"""


def _row(check: Check) -> str:
    mark = '<td class="ok">passed</td>' if check.passed else '<td class="bad">failed</td>'
    cells = "".join(
        f"<td>{html.escape(text)}</td>" for text in (check.name, in_words(check.claimed), in_words(check.measured))
    )
    note = f'<tr class="note"><td colspan="4">{html.escape(check.explanation)}</td></tr>' if check.explanation else ""
    return f"<tr>{cells}{mark}</tr>{note}"


def in_words(value: Any) -> str:
    """A claimed or measured value for a table."""
    plain = to_plain(value)
    match plain:
        case bool():
            return "yes" if plain else "no"
        case float():
            return f"{plain:.6g}"
        case list():
            return ", ".join(in_words(item) for item in plain)
        case dict():
            return ", ".join(f"{key}: {in_words(item)}" for key, item in plain.items())
        case _:
            return str(plain)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "unnamed"

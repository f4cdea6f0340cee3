"""The data of a page: plain values, and one block of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from polhode.json_values import to_plain
from polhode.result_codes import Result
from polhode.viewing import text_summary, unit_labels
from polhode.viewing.charts.chart_series import Chart, catalogue, row_names
from polhode.viewing.charts.downsample import downsample
from polhode.viewing.page.binary_packing import PackedArrays
from polhode.viewing.scene import arrow_fields
from polhode.viewing.scene.sampled_motion import Motion, sample
from polhode.viewing.scene.scene import Body, Cloud, Line, Scene, Trail
from polhode.viewing.style import COLOURS

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST_ENTRIES = 8
"""Largest number of entries in a legend."""
_MOST_NUMBERS = 1_000_000
"""Largest number of samples in all charts of a run; further quantities are only listed by name."""


def payload(runs: Sequence[tuple[Run, Scene | None]], labels: Sequence[str] = ()) -> tuple[dict[str, Any], bytes]:
    """All data of a page of some runs, and its block of numbers. Without a scene it has charts only.

    **Arguments:**

    - `runs`: each with its scene. - `labels`: what to call them where they are compared.

    Raises ValueError for a run without a finite frame.
    """
    arrays = PackedArrays()
    names = labels or [str(solution.meta.get("problem") or "system") for solution, _ in runs]
    descriptions = [
        _describe_run(solution, scene, name, arrays) for (solution, scene), name in zip(runs, names, strict=True)
    ]
    return to_plain({"colours": COLOURS, "runs": descriptions}), arrays.to_bytes()


def _describe_run(solution: Run, scene: Scene | None, label: str, arrays: PackedArrays) -> dict[str, Any]:
    finite = _finite(solution)
    if len(finite.t) == 0:
        raise ValueError("The run has no finite frame, so there is nothing to show.")
    if len(finite.t) == 1 and not solution.stats.get("steps"):
        return _describe_start(finite, scene, label, arrays)
    times, motion = (None, None) if scene is None or not scene.parts else _motion(scene, finite, arrays)
    result = solution.stats.get("result", Result.successful)
    audit = solution.audit()
    headings, *rows = audit.cells()
    charts, left_out = _charts(finite, arrays)
    return {
        "label": label,
        "title": solution.meta.get("problem") or "system",
        "subtitle": " · ".join(text_summary.headline(solution.meta)),
        "badge": {"text": result.name.replace("_", " "), "good": result == Result.successful},
        "facts": text_summary.facts(solution),
        "audit": {
            "sentences": text_summary.sentences(audit, solution),
            "headings": headings,
            "rows": rows,
            "remarks": audit.remarks,
        },
        "times": times or arrays.floats(np.sort(np.asarray(finite.t))),
        "unit": unit_labels.time(solution.meta),
        "scene": motion,
        "charts": charts,
        "left_out": left_out,
    }


def _describe_start(solution: Run, scene: Scene | None, label: str, arrays: PackedArrays) -> dict[str, Any]:
    """A pose without curves and audit, and without what was not saved, which would have to be compiled."""
    start = _with(solution, solution.frames, None)
    times, picture = (None, None) if scene is None or not scene.parts else _motion(scene, start, arrays)
    return {
        "label": label,
        "title": solution.meta.get("problem") or "system",
        "subtitle": "initial state",
        "badge": {"text": "start", "good": True},
        "facts": text_summary.facts_of_start(solution),
        "audit": {"sentences": [], "headings": [], "rows": [], "remarks": []},
        "times": times or arrays.floats(np.asarray(solution.t)),
        "unit": unit_labels.time(solution.meta),
        "scene": picture,
        "charts": [],
        "left_out": [],
    }


def _motion(scene: Scene, solution: Run, arrays: PackedArrays) -> tuple[list[int], dict[str, Any]]:
    motion = sample(scene, solution)
    centre, radius, floor = motion.bounds(scene)
    bodies, lines, trails = scene.of(Body), scene.of(Line), scene.of(Trail)
    places = {id(values): arrays.floats(values) for values in (*motion.positions, *motion.quaternions)}
    description = {
        "up": list(scene.up),
        "centre": centre,
        "radius": radius,
        "floor": floor,
        "meshes": scene.meshes,
        "bodies": [
            {
                **{
                    key: getattr(body, key)
                    for key in ("name", "shape", "size", "colour", "at", "turn", "mesh", "marked", "symbol")
                },
                "position": places[id(x)],
                "quaternion": places[id(q)],
            }
            for body, x, q in zip(bodies, motion.positions, motion.quaternions, strict=True)
        ],
        "lines": [
            _line(line, points, tints, solution, arrays)
            for line, points, tints in zip(lines, motion.lines, motion.tints, strict=True)
        ],
        "trails": [
            {"colour": trail.colour, "points": arrays.floats(points)}
            for trail, points in zip(trails, motion.trails, strict=True)
        ],
        "clouds": _clouds(scene.of(Cloud), motion, arrays),
        "arrows": [
            {
                **{"name": each.name, "kind": each.kind, "colour": each.colour, "count": each.feet.shape[1]},
                "unit": unit_labels.of_kind(each.kind, solution.meta),
                "longest": each.longest,
                "feet": arrays.floats(each.feet),
                "vectors": arrays.floats(each.vectors),
            }
            for each in arrow_fields.of_run(scene, motion, solution)
        ],
        "legend": _legend(scene, row_names(solution.meta, 1 << 30)),
    }
    return arrays.floats(motion.t), description


def _line(line: Line, points: np.ndarray, tints: np.ndarray | None, solution: Run, arrays: PackedArrays) -> Any:
    tint_entries = []
    if line.tints is not None and tints is not None:
        for k, (name, kind) in enumerate(zip(line.tints.names, line.tints.kinds, strict=True)):
            values = tints[:, :, k]
            limits = [float(np.min(values)), float(np.max(values))]
            unit = unit_labels.of_kind(kind, solution.meta)
            tint_entries.append({"name": name, "unit": unit, "limits": limits, "values": arrays.floats(values)})
    return {
        "name": line.name,
        "colour": line.colour,
        "radius": line.radius,
        "coil": line.coil,
        "count": points.shape[1],
        "points": arrays.floats(points),
        "tints": tint_entries,
    }


def _clouds(clouds: list[Cloud], motion: Motion, arrays: PackedArrays) -> list[dict[str, Any]]:
    entries = []
    for cloud, places, stride in zip(clouds, motion.clouds, motion.strides, strict=True):
        sizes = np.asarray(cloud.diameters, dtype=float)[::stride]
        entries.append(
            {
                "name": cloud.name,
                "colour": cloud.colour,
                "count": places.shape[1],
                "of": len(cloud.diameters),
                "stride": stride,
                "diameters": arrays.floats(sizes),
                "points": arrays.points(places),
            }
        )
    return entries


def _legend(scene: Scene, bodies: dict[int, str]) -> list[dict[str, str]]:
    solid = {part.name: part.colour for part in (*scene.of(Body), *scene.of(Cloud)) if getattr(part, "marked", True)}
    lines = {part.name: part.colour for part in scene.of(Line)}
    paths = {f"path of {_trail_name(trail, bodies)}": trail.colour for trail in scene.of(Trail)}
    # Many entries would hide the view: then only bodies are named, and of many the first.
    entries = next((some for some in (solid | lines | paths, solid) if len(some) <= _MOST_ENTRIES), None)
    if entries is None:
        first = list(solid.items())[: _MOST_ENTRIES - 1]
        entries = {**dict(first), f"{len(solid) - len(first)} more": "transparent"}
    return [{"name": name, "colour": colour} for name, colour in entries.items()]


def _trail_name(trail: Trail, bodies: dict[int, str]) -> str:
    if trail.output == "positions" and trail.index in bodies:
        return bodies[trail.index]
    return trail.output.replace("_", " ")


def _charts(solution: Run, arrays: PackedArrays) -> tuple[list[dict[str, Any]], list[str]]:
    """Charts up to `_MOST_NUMBERS` samples, and the titles of the others."""
    entries, left_out, room = [], [], _MOST_NUMBERS
    for chart in catalogue(solution):
        order = np.argsort(chart.t, kind="stable")
        rows = order[downsample(np.stack([values[order] for values in chart.curves.values()]))]
        room -= len(rows) * (1 + len(chart.curves))
        if room >= 0:
            entries.append(_chart(chart, rows, arrays))
        else:
            left_out.append(chart.title)
    return entries, left_out


def _chart(chart: Chart, rows: np.ndarray, arrays: PackedArrays) -> dict[str, Any]:
    return {
        **{key: getattr(chart, key) for key in ("title", "log", "group", "unit", "time", "first")},
        "t": arrays.floats(chart.t[rows]),
        "curves": [{"name": name, "values": arrays.floats(values[rows])} for name, values in chart.curves.items()],
    }


def _finite(solution: Run) -> Run:
    """The run up to its first frame with a NaN or an infinity in the state."""
    n = len(solution.t)
    good = np.ones(n, dtype=bool)
    for leaf in jax.tree.leaves(solution.state):
        good &= np.isfinite(np.asarray(leaf, dtype=float).reshape(n, -1)).all(axis=1)
    end = n if good.all() else int(np.argmin(good))
    frames = jax.tree.map(lambda x: x[:end], solution.frames)
    return _with(solution, frames, solution.reader)


def _with(solution: Run, frames: Any, reader: Any) -> Run:
    solution_type: Any = type(solution)
    return solution_type(frames, solution.stats, solution.meta, reader=reader, classes=solution.classes)

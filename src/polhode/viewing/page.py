"""A run as one HTML page that needs no network: the motion in three dimensions, charts, audit, data."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from polhode.results import Result
from polhode.runs.plain import to_plain
from polhode.solution import TIMES, Solution
from polhode.viewing.motion import sample
from polhode.viewing.scene import Body, Line, Scene, Trail
from polhode.viewing.series import Chart, charts
from polhode.viewing.style import COLOURS

_SCRIPTS = ("maths.js", "meshes.js", "shaders.js", "view.js", "charts.js", "page.js")
_BUCKETS = 1200


class _Floats:
    """Arrays packed as float32 one after the other; `add` returns [offset, count] in numbers."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._length = 0

    def add(self, values: Any) -> list[int]:
        # Values beyond single precision (of a run that blew up) become infinite, which charts leave out.
        with np.errstate(over="ignore"):
            part = np.asarray(values, dtype="<f4").ravel()
        self._parts.append(part)
        self._length += part.size
        return [self._length - part.size, part.size]

    def text(self) -> str:
        return base64.b64encode(np.concatenate(self._parts).tobytes()).decode()


def page(solution: Solution, scene: Scene | None = None) -> str:
    """The page's text. Without a scene, or without a finite frame, it shows the charts only."""
    finite = _finite(solution)
    if len(finite.t) == 0:
        raise ValueError("The run has no finite frame, so there is nothing to show.")
    floats = _Floats()
    times, shown = (None, None) if scene is None or not scene.parts else _motion(scene, finite, floats)
    run = {
        **_description(solution),
        "colours": COLOURS,
        "times": times or floats.add(np.sort(np.asarray(finite.t))),
        "scene": shown,
        "charts": [_chart(chart, floats) for chart in charts(finite)],
    }
    parts = {
        "TITLE": html.escape(f"{run['title']} · polhode"),
        "VERSION": html.escape(str(solution.meta.get("version", ""))),
        "CSS": _read("page.css"),
        "JS": "\n".join(_read(name) for name in _SCRIPTS),
        # Tags and comments inside a string would end the script element, or keep it open.
        "RUN": json.dumps(to_plain(run)).replace("<", "\\u003c"),
        "DATA": floats.text(),
    }
    pieces = _read("page.html").split("@")
    return "".join(parts.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))


def _description(solution: Solution) -> dict[str, Any]:
    meta, stats = solution.meta, solution.stats
    result = stats.get("result", Result.successful)
    audit = solution.audit()
    headings, *rows = audit.cells()
    name = meta.get("problem") or "system"
    return {
        "title": name,
        "subtitle": " · ".join(_how(meta)),
        "badge": {"text": result.name.replace("_", " "), "good": result == Result.successful},
        "facts": [[key, _short(value)] for key, value in _facts(meta, stats)],
        "audit": {"headings": headings, "rows": rows, "remarks": audit.remarks},
    }


def _how(meta: Mapping[str, Any]) -> list[str]:
    integrator = meta.get("integrator")
    words = [str(integrator.get("name") if isinstance(integrator, dict) else integrator or "")]
    words += [f"{key} = {meta[key]:g}" for key in ("h", "rtol", "atol") if meta.get(key) is not None]
    return [word for word in words if word]


def _facts(meta: Mapping[str, Any], stats: Mapping[str, Any]) -> list[tuple[str, Any]]:
    wanted = ("steps", "rejected", "evaluations", "newton_iterations", "t_reached", *TIMES)
    facts = [(key.removesuffix("_s").replace("_", " "), stats[key]) for key in wanted if stats.get(key)]
    return facts + [(str(key), value) for key, value in meta.get("parameters", {}).items() if value is not None]


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else json.dumps(to_plain(value)).strip('"')
    return text if len(text) <= 90 else text[:87] + "…"


def _motion(scene: Scene, solution: Solution, floats: _Floats) -> tuple[list[int], dict[str, Any]]:
    motion = sample(scene, solution)
    bodies = [part for part in scene.parts if isinstance(part, Body)]
    lines = [part for part in scene.parts if isinstance(part, Line)]
    trails = [part for part in scene.parts if isinstance(part, Trail)]
    up = np.asarray(scene.up, dtype=float)
    centre, radius, floor = motion.bounds(bodies, up / np.linalg.norm(up))
    packed = {id(values): floats.add(values) for values in (*motion.positions, *motion.quaternions)}
    shown = {
        "up": list(scene.up),
        "centre": centre,
        "radius": radius,
        "floor": floor if scene.floor is None else scene.floor,
        "meshes": scene.meshes,
        "bodies": [
            {
                **{key: getattr(body, key) for key in ("shape", "size", "colour", "at", "turn", "mesh", "marked")},
                "position": packed[id(x)],
                "quaternion": packed[id(q)],
            }
            for body, x, q in zip(bodies, motion.positions, motion.quaternions, strict=True)
        ],
        "lines": [
            {"colour": line.colour, "count": points.shape[1], "points": floats.add(points)}
            for line, points in zip(lines, motion.lines, strict=True)
        ],
        "trails": [
            {"colour": trail.colour, "points": floats.add(points)}
            for trail, points in zip(trails, motion.trails, strict=True)
        ],
        "legend": _legend(bodies, lines, trails),
    }
    return floats.add(motion.t), shown


def _legend(bodies: list[Body], lines: list[Line], trails: list[Trail]) -> list[dict[str, str]]:
    named = [(part.name, part.colour) for part in (*(body for body in bodies if body.marked), *lines)]
    named += [(f"path of {trail.output.replace('_', ' ')}", trail.colour) for trail in trails]
    by_name = dict(named)
    # Many parts make a legend that hides the view; one entry a colour still says what is what.
    return [{"name": name, "colour": colour} for name, colour in by_name.items()] if len(by_name) <= 8 else []


def _chart(chart: Chart, floats: _Floats) -> dict[str, Any]:
    order = np.argsort(chart.t, kind="stable")
    kept = order[_thin(np.stack([values[order] for values in chart.curves.values()]))]
    return {
        "title": chart.title,
        "log": chart.log,
        "t": floats.add(chart.t[kept]),
        "curves": [{"name": name, "values": floats.add(values[kept])} for name, values in chart.curves.items()],
    }


def _thin(curves: np.ndarray) -> np.ndarray:
    """Indices of few enough samples of curves (c, n), with the extremes of every curve in every bucket."""
    c, n = curves.shape
    buckets = max(_BUCKETS // c, 100)
    if n <= 2 * buckets:
        return np.arange(n)
    width = -(-n // buckets)
    starts = np.arange(0, n, width)
    padded = np.pad(curves, ((0, 0), (0, len(starts) * width - n)), mode="edge").reshape(c, len(starts), width)
    extremes = np.concatenate([np.argmin(padded, axis=2), np.argmax(padded, axis=2)]) + starts
    return np.unique(np.clip(np.concatenate([extremes.ravel(), [0, n - 1]]), 0, n - 1))


def _finite(solution: Solution) -> Solution:
    """The run up to its first frame with a NaN or an infinity in the state."""
    import jax

    n = len(solution.t)
    good = np.ones(n, dtype=bool)
    for leaf in jax.tree.leaves(solution.state):
        good &= np.isfinite(np.asarray(leaf, dtype=float).reshape(n, -1)).all(axis=1)
    end = n if good.all() else int(np.argmin(good))
    return Solution(jax.tree.map(lambda x: x[:end], solution.frames), solution.stats, solution.meta)


def _read(name: str) -> str:
    return resources.files("polhode.viewing").joinpath("web", name).read_text(encoding="utf-8").rstrip("\n")

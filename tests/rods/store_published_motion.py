"""Writes `published_motion.json`: nodes and multipliers of both beam tests, by the absolute route alone.

Takes a few minutes: `python store_published_motion.py`.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from absolute_route import TOLERANCE, Beam, Edges, Motion, dot, follow, roll_up, spaghetti

STORED = Path(__file__).with_name("published_motion.json")
TIMES = (1.0, 2.5, 5.0)
COARSER = 1e-12


BEAMS: dict[str, Callable[[], Beam]] = {
    "roll-up, damping 100": lambda: roll_up(100.0),
    "roll-up, damping 50": lambda: roll_up(50.0),
    "spaghetti": spaghetti,
}


def description(beam: Beam) -> dict[str, Any]:
    fine, coarse = (follow(beam, TIMES, tolerance) for tolerance in (TOLERANCE, COARSER))
    motion = Motion(beam)
    multipliers = [motion.accelerations(t, s)[1] for t, s in zip(TIMES, fine, strict=True)]
    others = [motion.accelerations(t, s)[1] for t, s in zip(TIMES, coarse, strict=True)]
    return {
        "positions": [np.round(s.x.T, 13).tolist() for s in fine],
        "multipliers": [np.round(m, 9).tolist() for m in multipliers],
        "change of positions with the tolerance": _apart([s.x for s in fine], [s.x for s in coarse]),
        "change of multipliers with the tolerance": _apart(multipliers, others),
        "largest shear": [_round(np.abs(Edges(s.p, s.x).log[3:5]).max() / beam.spacing) for s in fine],
        "largest change of a quaternion's norm": [_round(np.abs(dot(s.p, s.p) - 1).max()) for s in fine],
    }


def _apart(these: list[np.ndarray], others: list[np.ndarray]) -> list[float]:
    return [_round(np.abs(a - b).max()) for a, b in zip(these, others, strict=True)]


def _round(value: Any) -> float:
    return float(f"{value:.1e}")


def write() -> None:
    source = (
        "tests/rods/absolute_route.py: index-1 equations in absolute coordinates, DOP853 of SciPy "
        f"{scipy.__version__} with NumPy {np.__version__} on {platform.machine()}, relative and absolute tolerance "
        f"{TOLERANCE:g}, restarted at the times listed; changes are those from a run with {COARSER:g}. "
        "Positions: time, node, component. "
        "Multipliers: time, edge, component; they belong to Δs(Γ₁, Γ₂) = 0 and enter as -Bᵀλ."
    )
    found = {name: description(make()) for name, make in BEAMS.items()}
    STORED.write_text(readable({"source": source, "times": TIMES, **found}) + "\n", "utf-8")


def readable(tree: Any, depth: int = 0) -> str:
    """JSON with one line for each node or edge."""
    items: list[str]
    if isinstance(tree, dict):
        items, ends = [f"{json.dumps(k, ensure_ascii=False)}: {readable(v, depth + 1)}" for k, v in tree.items()], "{}"
    elif isinstance(tree, list) and any(isinstance(v, list) for v in tree):
        items, ends = [readable(v, depth + 1) for v in tree], "[]"
    else:
        return json.dumps(tree, ensure_ascii=False)
    indent = "\n" + " " * depth
    return f"{ends[0]}{indent} " + f",{indent} ".join(items) + f"{indent}{ends[1]}"


if __name__ == "__main__":
    write()

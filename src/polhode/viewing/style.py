"""Colours and type that figures, films and pages share."""

from __future__ import annotations

from typing import Any

COLOURS = ("#3b6fb6", "#d1495b", "#2a9d6f", "#e09f3e", "#7a5ea8", "#4aa8c0", "#8c6d4f", "#b0578d", "#6b7f2a")

DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (5, 1.5, 1.2, 1.5)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
"""Line styles of curves in figures, which differ without colours."""

AXES = ("#d1495b", "#2a9d6f", "#3b6fb6")
"""Colours of the axes x, y, z."""

RISING = ("#31446b", "#3b6fb6", "#3f97b5", "#58b79b", "#a8cf6e", "#f2df5c")
SIGNED = ("#2f5d9e", "#7fa6d6", "#dfe3e8", "#e39a8f", "#b8323f")
"""Colour scales: sequential in lightness, or diverging from zero; suitable for any colour vision."""

STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "figure.facecolor": "white",
    "font.size": 9.5,
    "font.family": "sans-serif",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.edgecolor": "#8a8f98",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.7,
    "xtick.color": "#5b616b",
    "ytick.color": "#5b616b",
    "xtick.labelcolor": "#2b2f36",
    "ytick.labelcolor": "#2b2f36",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.hashsalt": "polhode",
}
"""Settings for `matplotlib.rc_context`."""

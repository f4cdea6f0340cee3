"""The heavy tops of paper 002, its symplectic methods, and the curve of gravity in the frame of a top."""

from __future__ import annotations

import functools

import numpy as np
from matplotlib.figure import Figure

import polhode as ph
from polhode.viewing.style import COLOURS

THETAS = {"θ = 0": 0.0, "θ = ½": 0.5, "θ = 1": 1.0}


@functools.cache
def top(data: str, formulation: str = "cotangent") -> ph.Problem:
    """The heavy top with a set of data; one object for all experiments, which shares what is compiled for it."""
    return ph.problems.get("heavy-top", formulation=formulation, data=data)


def method(label: str) -> ph.integrators.AbstractIntegrator:
    """The symplectic method of a θ, or the named one."""
    if label in THETAS:
        return ph.integrators.get("symplectic", theta=THETAS[label])
    return ph.integrators.get(label)


def gravity_curve(figure: Figure, place: int, run: ph.Solution, title: str) -> None:
    """Draws the curve of gravity in the frame of the top, as in the paper."""
    problem = top("A")
    scale = problem.parameters["mass"] * problem.parameters["length"] * problem.parameters["gravity"]
    x = scale * np.asarray(run.outputs["rotation"])[:, 2]
    axis = figure.add_subplot(place, projection="3d")
    axis.plot(*x.T, color=COLOURS[0], lw=0.4)
    axis.set(title=title, xlim=(-abs(scale), abs(scale)), zlim=(-abs(scale), abs(scale)))

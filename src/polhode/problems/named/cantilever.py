"""A clamped rod with a force on its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from polhode import checks
from polhode.forces import PointForce
from polhode.model.model import Model
from polhode.problem import Problem, Reference
from polhode.problems._model_problem import model_problem
from polhode.problems._rods import outputs_and_scene
from polhode.problems.named.roll_up import material
from polhode.problems.registry import register

_DOC = """A straight rod along e₁, clamped at its first node, is bent by a force -P e₃ on its end.

The force is constant, so that the energy is kept without damping; at rest at the start, the rod swings about the static
shape. That is the elastica: tip deflections at P L²/EI = 1, 2, 5, 10 are those that K. Mattiasson, Numerical results
from large deflection beam and frame problems analysed by means of elliptic integrals, Int. J. Numer. Methods Eng. 17
(1981), 145-153, gives to five digits (K. Bisshopp & D. Drucker, 1945). `polhode.equilibrium` finds the static shape;
the reference is the place of the tip at t = ∞, where damping takes the motion.

Parameters: `n`, `formulation`, `load` (P), `damping` (C_d), `bending_stiffness` (all of C^K, EI), `axial_stiffness`
(all of C^Γ, unless constrained), `length`, `mass` and `inertia` (per length), `constrained`, `duration`. Any consistent
units.
"""

_SOURCE = "K. Mattiasson (1981), elliptic integrals, to five digits; the discretisation adds an error of order 1/n²"
_ELASTICA = {1.0: (0.05643, 0.30172), 2.0: (0.16064, 0.49346), 5.0: (0.38763, 0.71379), 10.0: (0.55500, 0.81061)}
"""By P L²/EI: displacements of the tip towards the clamp and across, by length."""


@register("cantilever")
def cantilever(
    n: int = 16,
    formulation: str = "S3|xR3",
    load: Any = 10.0,
    damping: Any = 0.0,
    bending_stiffness: Any = 1.0,
    axial_stiffness: Any = 1e4,
    length: Any = 1.0,
    mass: Any = 1.0,
    inertia: Any = 1e-3,
    constrained: Any = "both",
    duration: Any = 2.0,
) -> Problem:
    """A clamped rod with a force on its end.

    **Arguments:**

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `load`: P, towards -e₃.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `bending_stiffness`, `axial_stiffness`: C^K of bending and torsion, C^Γ of shear and extension.
    - `length`: of the rod.
    - `mass`, `inertia`: per length.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    checks.positive("duration", p["duration"], (), "end time")
    length = checks.positive("length", p["length"], (), "of the rod")
    load = checks.array("load", p["load"], (), "force on the tip towards -e3")
    model = Model()
    rod = model.add_rod(
        points=jnp.linspace(0.0, 1.0, n + 1)[:, None] * length * jnp.array([1.0, 0.0, 0.0]),
        section=material(p),
        constrained=p["constrained"],
        clamped="first",
        name="rod",
    )
    model.add(PointForce(rod.last, load * jnp.array([0.0, 0.0, -1.0]), name="load"))

    return model_problem(
        "cantilever",
        _make,
        p,
        model,
        redundant,
        *outputs_and_scene(rod),
        doc=_DOC,
        h=5e-3,
        reference=_reference(p),
    )


def _reference(p: Mapping[str, Any]) -> dict[str, Reference]:
    numbers = [p[name] for name in ("load", "length", "bending_stiffness")]
    if p["constrained"] != "both" or not checks.is_concrete(numbers):
        return {}
    load, length, stiffness = (float(number) for number in numbers)
    tip = _ELASTICA.get(round(load * length**2 / stiffness, 12))
    if tip is None:
        return {}
    value = (length * (1 - tip[0]), 0.0, -length * tip[1])
    return {"tip": {"t": math.inf, "value": value, "error": length * (1e-5 + 1.0 / p["n"] ** 2), "source": _SOURCE}}

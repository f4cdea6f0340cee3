"""A clamped rod with a force on its end."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from polhode import checks
from polhode.forces import PointForce
from polhode.model.model import Model
from polhode.problem import Reference
from polhode.problems._model_problem import ModelDraft
from polhode.problems._rods import equal_section, rod_problem
from polhode.problems.declaration import Count, Number, Positive, declare

_DOC = """A straight rod along e₁, clamped at its first node, is bent by a force -P e₃ on its end.

The force is constant, so that the energy is kept without damping; at rest at the start, the rod swings about the static
shape. That is the elastica: tip deflections at P L²/EI = 1, 2, 5, 10 are those that K. Mattiasson, Numerical results
from large deflection beam and frame problems analysed by means of elliptic integrals, Int. J. Numer. Methods Eng. 17
(1981), 145-153, gives to five digits (K. Bisshopp & D. Drucker, 1945). `polhode.equilibrium` finds the static shape;
the reference is the place of the tip at t = ∞, where damping takes the motion.
"""

_SOURCE = "K. Mattiasson (1981), elliptic integrals, to five digits; the discretisation adds an error of order 1/n²"
_ELASTICA = {1.0: (0.05643, 0.30172), 2.0: (0.16064, 0.49346), 5.0: (0.38763, 0.71379), 10.0: (0.55500, 0.81061)}
"""By P L²/EI: displacements of the tip towards the clamp and across, by length."""


@declare("cantilever", _DOC)
def cantilever(
    n: Count = 16,
    formulation: str = "S3|xR3",
    load: Number = 10.0,
    damping: Number = 0.0,
    bending_stiffness: Positive = 1.0,
    axial_stiffness: Positive = 1e4,
    length: Positive = 1.0,
    mass: Any = 1.0,
    inertia: Positive = 1e-3,
    constrained: Any = "both",
    duration: Positive = 2.0,
) -> ModelDraft:
    """A clamped rod with a force on its end.

    **Arguments**, in any consistent units:

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `load`: force on the tip towards -e3; P.
    - `damping`: C_d, of strain rates; the stress has the part 2 C_d ẇ.
    - `bending_stiffness`: C^K; EI, all of it, of bending and torsion.
    - `axial_stiffness`: C^Γ; all of it, of shear and extension, unless constrained.
    - `length`: of the rod.
    - `mass`, `inertia`: per length.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    model = Model()
    rod = model.add_rod(
        points=jnp.linspace(0.0, 1.0, n + 1)[:, None] * length * jnp.array([1.0, 0.0, 0.0]),
        section=equal_section(bending_stiffness, axial_stiffness, mass, inertia, damping),
        constrained=constrained,
        clamped="first",
        name="rod",
    )
    model.add(PointForce(rod.last, load * jnp.array([0.0, 0.0, -1.0]), name="load"))

    return rod_problem(
        model,
        rod,
        h=5e-3,
        reference=_reference(n, load, length, bending_stiffness) if constrained == "both" else {},
    )


def _reference(n: int, *numbers: Any) -> dict[str, Reference]:
    if not checks.is_concrete(numbers):
        return {}
    load, length, stiffness = (float(number) for number in numbers)
    tip = _ELASTICA.get(round(load * length**2 / stiffness, 12))
    if tip is None:
        return {}
    value = (length * (1 - tip[0]), 0.0, -length * tip[1])
    return {"tip": {"t": math.inf, "value": value, "error": length * (1e-5 + 1.0 / n**2), "source": _SOURCE}}

"""Mass and inertia of bodies from their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.contact.shapes import AbstractShape

_CENTRED = 1e-9
"""Distance of the centre of the shapes from the origin of the body, over their size, that counts as zero."""


def check_shapes(value: Any) -> list[AbstractShape]:
    """One or several shapes as a list. Raises ValueError for anything else."""
    shapes = [value] if isinstance(value, AbstractShape) else value
    if not isinstance(shapes, Sequence) or not all(isinstance(shape, AbstractShape) for shape in shapes):
        raise ValueError(
            "`shape` takes one or several of `polhode.shapes`, such as polhode.shapes.Sphere(0.1), got "
            f"{short_repr(value)}."
        )
    return list(shapes)


def fill_shapes(shapes: Sequence[AbstractShape], mass: Any, inertia: Any, density: Any) -> tuple[Any, Any]:
    """Mass and inertia about the centre of mass, as given or from shapes of uniform density.

    Raises ValueError where neither says what they are, and for shapes whose centre is not that of the body.
    """
    if density is not None and (mass is not None or inertia is not None):
        raise ValueError("`density` stands in place of `mass` and `inertia`: give either.")
    if mass is not None and inertia is not None:
        return mass, inertia
    if mass is None and density is None:
        raise ValueError("A body needs its `mass`, or the `density` of its `shape`.")
    if not shapes:
        raise ValueError(
            "Without `inertia` a body needs a `shape` to compute it from, such as shape=polhode.shapes.Box((1, 1, 1))."
        )
    if mass is not None:
        checks.positive("mass", mass, (), "mass of a body")
    shapes = [shape.as_arrays() for shape in shapes]
    parts = [shape.mass_properties(1.0 if density is None else density) for shape in shapes]
    total = sum(part.mass for part in parts)
    centre = sum(part.mass * part.centre for part in parts) / total
    size = (
        max(float(np.max(np.abs(np.asarray(shape.bounding_radius)))) for shape in shapes)
        if checks.is_concrete(parts)
        else 1.0
    )
    if checks.is_concrete(centre) and float(np.max(np.abs(np.asarray(centre)))) > _CENTRED * size:
        raise ValueError(
            f"The shapes have their centre of mass at {np.asarray(centre).tolist()}, and a body's frame is at its own: "
            "place the shapes about (0, 0, 0), or give `mass` and `inertia`."
        )
    whole = sum(part.inertia + part.mass * _about(part.centre - centre) for part in parts)
    return (total, whole) if mass is None else (mass, whole * (jnp.asarray(mass) / total))


def _about(r: Any) -> Any:
    return (r @ r) * jnp.eye(3) - jnp.outer(r, r)

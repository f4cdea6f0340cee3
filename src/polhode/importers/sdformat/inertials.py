"""Masses and inertias of links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

import numpy as np

from polhode.importers.construction import Frame, Inertial
from polhode.importers.sdformat import values
from polhode.importers.sdformat.scopes import Link

_MOMENTS = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
_WATER = 1000.0
"""Density of shapes that have none."""


def read_inertial(link: Link) -> Inertial:
    """Mass, centre of mass and inertia of a link; one and the unit matrix by default."""
    where, element = f"link `{link.name}`", link.element.find("inertial")
    if element is not None and element.get("auto", "false").lower() in ("true", "1"):
        return _from_shapes(link, element, where)
    mass = values.number(element, "mass", where, 1.0)
    if mass < 0:
        raise ValueError(f"The mass of {where} is {mass:g}; it can't be negative.")
    inertia = np.zeros((3, 3))
    for name, (i, j) in _MOMENTS.items():
        inertia[i, j] = inertia[j, i] = values.number(element, f"inertia/{name}", where, float(i == j))
    if element is None:
        return Inertial(mass, np.zeros(3), inertia)
    frame = values.pose(element, f"<inertial> of {where}").frame
    return Inertial(mass, frame.x, frame.R @ inertia @ frame.R.T)


def frame_on_link(link: Link, element: Element, where: str) -> Frame:
    """The frame of a visual or collision in that of its link."""
    pose = values.pose(element, where)
    if not pose.relative_to:
        return pose.frame
    return link.frame.inverse().compose(link.scope.in_world(pose.relative_to)).compose(pose.frame)


def _from_shapes(link: Link, element: Element, where: str) -> Inertial:
    """The inertial of the collision shapes of a link, from their densities; scaled to the mass if that is given."""
    density = values.positive(element, "density", where, _WATER)
    parts = []
    for collision in link.element.findall("collision"):
        inside = f"collision `{collision.get('name')}` of {where}"
        unit = values.positive(collision, "density", inside, density)
        volume, moments = _solid(collision.find("geometry"), inside)
        frame = frame_on_link(link, collision, inside)
        parts.append(Inertial(unit * volume, frame.x, unit * frame.R @ np.diag(moments) @ frame.R.T))
    if not parts:
        raise ValueError(
            f'<inertial auto="true"> of {where} has no collision to take masses from; give <mass> and <inertia>.'
        )
    mass = sum(part.mass for part in parts)
    centre = sum((part.mass * part.centre for part in parts), start=np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for part in parts:
        arm = part.centre - centre
        inertia += part.inertia + part.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    scale = values.positive(element, "mass", where, mass) / mass
    return Inertial(scale * mass, centre, scale * inertia)


def _solid(geometry: Element | None, where: str) -> tuple[float, np.ndarray]:
    """Volume and principal moments of unit density of a shape, about its centre."""
    form = None if geometry is None else next((child for child in geometry if child.tag in _SOLIDS), None)
    if form is None:
        kind = "nothing" if geometry is None or not len(geometry) else f"<{geometry[0].tag}>"
        raise ValueError(f'<inertial auto="true"> has no mass for {kind} in {where}; give <mass> and <inertia>.')
    return _SOLIDS[form.tag](form, where)


def _box(form: Element, where: str) -> tuple[float, np.ndarray]:
    size = values.vector(form, "size", where, (1.0, 1.0, 1.0))
    if not np.all(size > 0):
        raise ValueError(f"<size> of <box> in {where} must be positive, it is {values.text(form, 'size')}.")
    return _moments(float(np.prod(size)), size**2 / 12)


def _sphere(form: Element, where: str) -> tuple[float, np.ndarray]:
    r = values.positive(form, "radius", where, 1.0)
    return _moments(4 / 3 * np.pi * r**3, np.full(3, r**2 / 5))


def _ellipsoid(form: Element, where: str) -> tuple[float, np.ndarray]:
    radii = values.vector(form, "radii", where, (1.0, 1.0, 1.0))
    if not np.all(radii > 0):
        raise ValueError(f"<radii> of <ellipsoid> in {where} must be positive, they are {values.text(form, 'radii')}.")
    return _moments(4 / 3 * np.pi * float(np.prod(radii)), radii**2 / 5)


def _cylinder(form: Element, where: str) -> tuple[float, np.ndarray]:
    r, length = (values.positive(form, name, where, 1.0) for name in ("radius", "length"))
    return _moments(np.pi * r**2 * length, np.array([r**2 / 4, r**2 / 4, length**2 / 12]))


def _capsule(form: Element, where: str) -> tuple[float, np.ndarray]:
    """A cylinder between two half spheres."""
    r, length = (values.positive(form, name, where, default) for name, default in (("radius", 0.5), ("length", 1.0)))
    middle, ends = np.pi * r**2 * length, 4 / 3 * np.pi * r**3
    axial = (middle / 4 + ends / 5) * r**2
    # The centre of a half sphere is 3 r / 8 from its base.
    along = middle * length**2 / 12 + ends * (r**2 / 5 + length**2 / 4 + 3 * r * length / 8)
    return _moments(middle + ends, np.array([axial, axial, along]) / (middle + ends))


def _moments(volume: float, squares: np.ndarray) -> tuple[float, np.ndarray]:
    """Moments of inertia from the mean squares along the axes."""
    return volume, volume * (np.sum(squares) - squares)


_SOLIDS: Mapping[str, Callable[[Element, str], tuple[float, np.ndarray]]] = {
    "box": _box,
    "sphere": _sphere,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
    "capsule": _capsule,
}

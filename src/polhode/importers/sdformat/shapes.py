"""Visuals of links, and collision geometry of links that have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from polhode.importers import link_shapes, rotations
from polhode.importers.compiled_model import Drawing
from polhode.importers.construction import ORIGIN, Construction, Frame
from polhode.importers.link_shapes import Form
from polhode.importers.mesh_files import Finder, MeshFile
from polhode.importers.sdformat import values
from polhode.importers.sdformat.documents import Document
from polhode.importers.sdformat.inertials import frame_on_link
from polhode.importers.sdformat.scopes import Link
from polhode.viewing.scene.robot_appearance import Shape

_NOT_DRAWN = ("heightmap", "image", "polyline", "cone")


def draw(document: Document, links: Sequence[Link], construction: Construction) -> Drawing:
    """The shapes of all links, and those that can't be drawn, with the reason."""
    shapes: list[Shape] = []
    undrawn: dict[str, None] = {}
    for link in links:
        finder = document.origins.get(link.element, link.scope.origin).finder
        for element in link.element.findall("visual") or link.element.findall("collision"):
            try:
                shapes += _shapes(link, element, finder, construction)
            except ValueError as error:
                undrawn[str(error).rstrip(".")] = None
    return tuple(shapes), list(undrawn)


def collision_shapes(
    document: Document, links: Sequence[Link], construction: Construction
) -> list[tuple[Shape, int | None]]:
    """The shapes by which links touch. Raises ValueError for those that have no counterpart."""
    entries: list[tuple[Shape, int | None]] = []
    for link in links:
        finder = document.origins.get(link.element, link.scope.origin).finder
        for element in link.element.findall("collision"):
            entries += [(shape, None) for shape in _shapes(link, element, finder, construction)]
    return entries


def _shapes(link: Link, element: Element, finder: Finder, construction: Construction) -> Iterator[Shape]:
    where = f"{element.tag} `{element.get('name')}` of link `{link.name}`"
    rgba = _colour(element, where)
    if values.number(element, "transparency", where) >= 1 or (rgba is not None and rgba[3] <= 0):
        return
    at, geometry = frame_on_link(link, element, where), element.find("geometry")
    for child in () if geometry is None else geometry:
        if child.tag in _NOT_DRAWN:
            raise ValueError(f"<{child.tag}> of {where}")
        form, inner = _form(child, where, finder)
        if form is not None:
            yield link_shapes.place(construction, link.name, at.compose(inner), form, rgba)


def _form(form: Element, where: str, finder: Finder) -> tuple[Form | None, Frame]:
    """A geometry, and its frame in that of its visual; None for unknown ones."""
    match form.tag:
        case "box":
            return link_shapes.box(values.vector(form, "size", where, (1.0, 1.0, 1.0)), where), ORIGIN
        case "sphere":
            return Form("ellipsoid", np.full(3, 2 * values.positive(form, "radius", where, 1.0))), ORIGIN
        case "ellipsoid":
            return Form("ellipsoid", 2 * values.vector(form, "radii", where, (1.0, 1.0, 1.0))), ORIGIN
        case "cylinder":
            radius, length = (values.positive(form, name, where, 1.0) for name in ("radius", "length"))
            return link_shapes.cylinder(radius, length), ORIGIN
        case "capsule":
            radius, length = values.positive(form, "radius", where, 0.5), values.positive(form, "length", where, 1.0)
            return link_shapes.capsule(radius, length), ORIGIN
        case "plane":
            turn = rotations.towards(values.direction(form, "normal", where))
            return Form("plane", np.append(values.vector(form, "size", where, (1.0, 1.0)), 0.0)), Frame(
                np.zeros(3), turn
            )
        case "mesh":
            name = values.text(form, "uri")
            if not name:
                raise ValueError(f"<mesh> in {where} has no <uri>.")
            x, y, z = values.vector(form, "scale", where, (1.0, 1.0, 1.0))
            return Form("mesh", np.zeros(3), MeshFile(name, finder.find(name), (float(x), float(y), float(z)))), ORIGIN
        case _:
            return None, ORIGIN


def _colour(element: Element, where: str) -> np.ndarray | None:
    """Red, green, blue and opacity of a visual; None if the file has none."""
    for path in ("material/diffuse", "material/ambient"):
        words = values.text(element, path).split()
        if words:
            # Opacity may be left out.
            rgba = values.vector(element, path, where, np.ones(len(words)).tolist())
            return np.append(rgba, np.ones(4))[:4] if len(words) == 3 else rgba
    return None

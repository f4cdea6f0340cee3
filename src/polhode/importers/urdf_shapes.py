"""Visual geometry of URDF, and collision geometry of links that have no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

import numpy as np

from polhode.importers import link_shapes
from polhode.importers.compiled_model import Drawing
from polhode.importers.construction import Construction
from polhode.importers.link_shapes import Form
from polhode.importers.mesh_files import Finder, MeshFile, UnreadableFile
from polhode.importers.urdf import numbers, origin
from polhode.viewing.scene.robot_appearance import Shape


def robot_shapes(root: ElementTree.Element, finder: Finder, construction: Construction) -> Drawing:
    """The shapes of all links, and those that can't be drawn, with the reason."""
    palette = {m.get("name", ""): rgba for m in root.findall("material") if (rgba := _rgba(m)) is not None}
    shapes: list[Shape] = []
    undrawn: dict[str, None] = {}
    for link in root.findall("link"):
        for element in _geometries(link):
            try:
                shapes += _shapes(link.get("name", ""), element, palette, construction, finder)
            except UnreadableFile as error:
                undrawn[str(error)] = None
            except ValueError as error:
                undrawn[str(error).rstrip(".")] = None
    return tuple(shapes), list(undrawn)


def collision_shapes(
    root: ElementTree.Element, finder: Finder, construction: Construction
) -> list[tuple[Shape, int | None]]:
    """The shapes by which links touch. Raises ValueError for those that make no sense."""
    entries: list[tuple[Shape, int | None]] = []
    for link in root.findall("link"):
        for element in link.findall("collision"):
            if element.find("geometry") is not None:
                entries += [(shape, None) for shape in _shapes(link.get("name", ""), element, {}, construction, finder)]
    return entries


def _geometries(link: ElementTree.Element) -> list[ElementTree.Element]:
    for tag in ("visual", "collision"):
        elements = [element for element in link.findall(tag) if element.find("geometry") is not None]
        if elements:
            return elements
    return []


def _shapes(
    link: str,
    element: ElementTree.Element,
    palette: Mapping[str, np.ndarray],
    construction: Construction,
    finder: Finder,
) -> Iterator[Shape]:
    where = f"the shape of link `{link}`"
    geometry = element.find("geometry")
    assert geometry is not None
    rgba = _material(element, palette)
    if rgba is not None and rgba[3] <= 0:
        return
    frame = origin(element, where)
    for geometry_form in geometry:
        form = _form(geometry_form, where, finder)
        if form is not None:
            yield link_shapes.place(construction, link, frame, form, rgba)


def _form(form: ElementTree.Element, where: str, finder: Finder) -> Form | None:
    """A geometry; None for unknown ones."""

    def length(name: str) -> float:
        value = float(numbers(form, name, where, (0.0,))[0])
        if not value > 0:
            raise ValueError(f"`{name}` of <{form.tag}> in {where} must be greater than zero, it is {value:g}.")
        return value

    match form.tag:
        case "box":
            return link_shapes.box(numbers(form, "size", where, (0.0, 0.0, 0.0)), where)
        case "sphere":
            return Form("ellipsoid", np.full(3, 2 * length("radius")))
        case "cylinder":
            return link_shapes.cylinder(length("radius"), length("length"))
        case "capsule":
            return link_shapes.capsule(length("radius"), length("length"))
        case "mesh":
            name = (form.get("filename") or "").strip()
            if not name:
                raise ValueError(f"<mesh> in {where} has no `filename`.")
            x, y, z = numbers(form, "scale", where, (1.0, 1.0, 1.0))
            return Form("mesh", np.zeros(3), MeshFile(name, finder.find(name), (float(x), float(y), float(z))))
        case _:
            return None


def _material(element: ElementTree.Element, palette: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Red, green, blue and opacity of a shape; None if the file has none."""
    material = element.find("material")
    if material is None:
        return None
    own = _rgba(material)
    return palette.get(material.get("name", "")) if own is None else own


def _rgba(material: ElementTree.Element) -> np.ndarray | None:
    colour = material.find("color")
    try:
        return None if colour is None else numbers(colour, "rgba", "a material", (0.5, 0.5, 0.5, 1.0))
    except ValueError:
        return None

"""Visual geometry of URDF, and collision geometry of links that have no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.importers.compiled_model import Drawing
from polhode.importers.construction import Construction
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
    start = construction.start
    number = mujoco.mj_name2id(start.compiled, mujoco.mjtObj.mjOBJ_BODY, link)
    pose, frame = start.pose(number), origin(element, where)
    for form in geometry:
        kind, size, mesh = _form(form, where, finder)
        if kind:
            yield Shape(
                body=construction.body(number).name,
                link=link,
                kind=kind,
                size=size,
                x=construction.local(number, pose.x + pose.R @ frame.x),
                R=construction.direction(number, pose.R @ frame.R),
                colour=None if rgba is None else "#" + "".join(f"{round(255 * c):02x}" for c in rgba[:3].clip(0, 1)),
                mesh=mesh,
            )


def _form(form: ElementTree.Element, where: str, finder: Finder) -> tuple[str, np.ndarray, MeshFile | None]:
    """Kind, full extents and mesh of a geometry; kind "" for unknown ones."""

    def length(name: str) -> float:
        value = float(numbers(form, name, where, (0.0,))[0])
        if not value > 0:
            raise ValueError(f"`{name}` of <{form.tag}> in {where} must be greater than zero, it is {value:g}.")
        return value

    match form.tag:
        case "box":
            size = numbers(form, "size", where, (0.0, 0.0, 0.0))
            if np.any(size < 0) or not np.any(size):
                raise ValueError(f"`size` of <box> in {where} must be positive, it is {form.get('size')}.")
            return "box", size, None
        case "sphere":
            return "ellipsoid", np.full(3, 2 * length("radius")), None
        case "cylinder":
            d = 2 * length("radius")
            return "cylinder", np.array([d, d, length("length")]), None
        case "capsule":
            # The length is that of its cylinder.
            d = 2 * length("radius")
            return "capsule", np.array([d, d, length("length") + d]), None
        case "mesh":
            name = (form.get("filename") or "").strip()
            if not name:
                raise ValueError(f"<mesh> in {where} has no `filename`.")
            x, y, z = numbers(form, "scale", where, (1.0, 1.0, 1.0))
            return "mesh", np.zeros(3), MeshFile(name, finder.find(name), (float(x), float(y), float(z)))
        case _:
            return "", np.zeros(3), None


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

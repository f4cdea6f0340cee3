"""Pieces of SDFormat, and poses computed without the reader."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

import polhode as ph


def sdf(*parts, version="1.9"):
    return f'<sdf version="{version}">{"".join(parts)}</sdf>'


def model(*parts, name="m", attributes="", version="1.9"):
    return sdf(f'<model name="{name}" {attributes}>{"".join(parts)}</model>', version=version)


def pose(values, relative_to="", more=""):
    words = " ".join(f"{value:.17g}" for value in values)
    return (
        f'<pose relative_to="{relative_to}" {more}>{words}</pose>' if relative_to or more else f"<pose>{words}</pose>"
    )


def link(name, *inside, mass=None, moments=(0.3, 0.4, 0.5), products=(0, 0, 0), at=None):
    """`at`: pose of the inertial. Mass one and the unit matrix without `mass`."""
    if mass is not None:
        names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        inertia = "".join(f"<{n}>{value}</{n}>" for n, value in zip(names, (*moments, *products), strict=True))
        frame = "" if at is None else pose(at)
        inside = (*inside, f"<inertial>{frame}<mass>{mass}</mass><inertia>{inertia}</inertia></inertial>")
    return f'<link name="{name}">{"".join(inside)}</link>'


def axis(direction, *inside, tag="axis", attributes=""):
    xyz = " ".join(f"{value:.17g}" for value in direction)
    return f"<{tag}><xyz {attributes}>{xyz}</xyz>{''.join(inside)}</{tag}>"


def joint(name, kind, parent, child, *inside):
    return (
        f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{"".join(inside)}</joint>'
    )


def frame(name, values, relative_to="", attached_to=""):
    return f'<frame name="{name}" attached_to="{attached_to}">{pose(values, relative_to)}</frame>'


def matrix(values):
    """A pose as a matrix (4, 4)."""
    result = np.eye(4)
    result[:3, :3] = Rotation.from_euler("xyz", values[3:]).as_matrix()
    result[:3, 3] = values[:3]
    return result


def place(loaded, name):
    """Where a link of mass one without a pose of its inertial is at the start, as a matrix."""
    body = loaded.links[name]
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = np.asarray(body.R), np.asarray(body.x)
    return result


def accelerations(problem):
    """Accelerations of the coordinates at the start."""
    system, (q, v) = problem.system, problem.state0
    return np.asarray(system.accelerations(0.0, q, v)[0])


def load(text, **options):
    return ph.load_model(text, **{"stick_velocity": None, "limits": False, **options})

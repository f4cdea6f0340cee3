"""Numbers, flags and poses in the elements of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from polhode.checks import short_repr
from polhode.importers import rotations
from polhode.importers.construction import ORIGIN, Frame

UNBOUNDED = 1e16
"""Limits from here on stand for none; older versions write infinity so."""
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class Pose(NamedTuple):
    """A <pose>. - `relative_to`: name of the frame that it is given in; empty for the default of its element."""

    frame: Frame = ORIGIN
    relative_to: str = ""


def text(element: Element | None, path: str, default: str = "") -> str:
    """Text of a child."""
    child = None if element is None else element.find(path)
    return default if child is None else (child.text or "").strip() or default


def flag(element: Element, path: str, where: str, default: bool = False) -> bool:
    """A child that is true or false."""
    word = text(element, path)
    if word.lower() not in _FLAGS and word:
        raise ValueError(f"<{path}> of {where} must be true or false, it is {short_repr(word)}.")
    return _FLAGS.get(word.lower(), default)


def number(element: Element | None, path: str, where: str, default: float = 0.0) -> float:
    """A finite number in a child."""
    return float(vector(element, path, where, (default,))[0])


def limit(element: Element | None, path: str, where: str, default: float) -> float:
    """A number in a child that may be infinite."""
    value = float(_numbers(text(element, path), path, where, 1)[0]) if text(element, path) else default
    if np.isnan(value):
        raise ValueError(f"<{path}> of {where} must be a number, it is nan.")
    return value if abs(value) < UNBOUNDED else float(np.copysign(np.inf, value))


def vector(element: Element | None, path: str, where: str, default: Sequence[float]) -> np.ndarray:
    """Finite numbers in a child, as many as in `default`, which replaces a missing or empty child."""
    words = text(element, path)
    return _finite(words, path, where, len(default)) if words else np.array(default, dtype=float)


def positive(element: Element | None, path: str, where: str, default: float = 0.0) -> float:
    """A number above zero in a child."""
    value = number(element, path, where, default)
    if not value > 0:
        raise ValueError(f"<{path}> of {where} must be greater than zero, it is {value:g}.")
    return value


def direction(element: Element | None, path: str, where: str) -> np.ndarray:
    """A unit vector in a child, z by default."""
    values = vector(element, path, where, (0.0, 0.0, 1.0))
    length = np.linalg.norm(values)
    if not length > 0:
        raise ValueError(f"<{path}> of {where} is zero; give it a direction.")
    return values / length


def pose(element: Element, where: str) -> Pose:
    """The <pose> of an element: x y z and roll, pitch, yaw about fixed axes, or a quaternion x y z w."""
    child = element.find("pose")
    if child is None:
        return Pose()
    # `frame` is the name of the attribute in versions 1.5 and 1.6.
    relative_to, words = child.get("relative_to") or child.get("frame") or "", (child.text or "").strip()
    form = child.get("rotation_format", "euler_rpy")
    if form not in ("euler_rpy", "quat_xyzw"):
        raise ValueError(
            f"The pose of {where} has the rotation_format {short_repr(form)}; known: euler_rpy, quat_xyzw."
        )
    if not words:
        return Pose(ORIGIN, relative_to)
    if form == "quat_xyzw":
        values = _finite(words, "pose", where, 7)
        length = np.linalg.norm(values[3:])
        if not length > 0:
            raise ValueError(f"The pose of {where} has a quaternion of zeros; that of no rotation is 0 0 0 1.")
        x, y, z, w = values[3:] / length
        return Pose(Frame(values[:3], rotations.from_quaternion(np.array([w, x, y, z]))), relative_to)
    values = _finite(words, "pose", where, 6)
    if child.get("degrees", "false").lower() in ("true", "1"):
        values[3:] = np.deg2rad(values[3:])
    return Pose(Frame(values[:3], rotations.from_angles(*values[3:])), relative_to)


def _numbers(words: str, path: str, where: str, count: int) -> np.ndarray:
    try:
        values = np.array([float(word) for word in words.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != (count,):
        raise ValueError(f"<{path}> of {where} takes {count} finite number(s), got {short_repr(words)}.")
    return values


def _finite(words: str, path: str, where: str, count: int) -> np.ndarray:
    values = _numbers(words, path, where, count)
    if not np.isfinite(values).all():
        raise ValueError(f"<{path}> of {where} takes {count} finite number(s), got {short_repr(words)}.")
    return values

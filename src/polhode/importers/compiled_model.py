"""Arguments and results of readers of model files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from polhode.importers.construction import Construction, Inertial
from polhode.importers.losses import NotCarried
from polhode.viewing.scene.robot_appearance import Shape

Drawing = tuple[tuple[Shape, ...], list[str]]
"""Shapes on the bodies of a model, and those that can't be drawn, with the reason."""


class ReadOptions(NamedTuple):
    """Options of `polhode.load_model` for readers."""

    floating: bool
    check_inertia: bool


class CompiledModel(NamedTuple):
    """A model file as a `mujoco.MjModel`, and what that can't hold.

    - `name`: of the robot, model or world in the file; empty if it has none.
    - `inertials`: replace those of `model`, by the numbers of bodies.
    - `draw`: the shapes of the file on the bodies under construction.
    - `collide`: the shapes by which links touch, each with the number of MuJoCo's geom, if it is one.
    - `remedy`: what helps if nothing in the file moves; a sentence.
    - `losses`: what affects the motion and is not in `model`.
    - `velocity_limits`: by the names of joints.
    - `positions`: where joints start according to the file, by name; others start at zero.
    """

    model: Any
    name: str
    inertials: Mapping[int, Inertial]
    draw: Callable[[Construction], Drawing]
    collide: Callable[[Construction], Sequence[tuple[Shape, int | None]]]
    remedy: str
    losses: tuple[NotCarried, ...] = ()
    velocity_limits: Mapping[str, float] = {}
    positions: Mapping[str, float] = {}

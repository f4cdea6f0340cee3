"""Models whose bodies touch, with known forces."""

from __future__ import annotations

from typing import Any

import numpy as np

import polhode as ph

G = 9.81


def box_on_floor(*, height: float = 0.1, friction: float = 0.3, **options: Any) -> ph.Model:
    """A box of 2 kg on a floor."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape = ph.shapes.Box((0.2, 0.3, 0.2), name="cube")
    model.add_body(mass=2.0, shape=shape, position=(0, 0, height), name="box", **options)
    model.contacts(friction=friction)
    return model


def puck_on_floor(*, friction: Any = 0.3, **options: Any) -> ph.Model:
    """A puck of 2 kg with one point of contact, too inert to turn: its program is short."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape = ph.shapes.Sphere(0.1, name="sole")
    model.add_body(mass=2.0, inertia=(1e12,) * 3, shape=shape, position=(0, 0, 0.1), name="puck", **options)
    model.contacts(friction=friction)
    return model


def pendulum_at_wall() -> ph.Model:
    """A pendulum of 2 kg and length 1 that leans on a smooth wall: its bob at x = 0.3, its radius 0.05."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(
        ph.shapes.Plane(position=(0.25, 0, 0), rotation=ph.rotation_vector((0, np.pi / 2, 0)), name="wall")
    )
    bob = model.add_body(mass=2.0, shape=ph.shapes.Sphere(0.05), position=(0.3, 0, -np.sqrt(1 - 0.3**2)), name="bob")
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    model.contacts(friction=0.0)
    return model


def arm_on_table() -> ph.Model:
    """An arm of two links of 1.5 kg whose hand, a sphere, sticks to a table."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(position=(0, 0, -0.05), name="table"))
    shoulder, elbow, hand = map(np.array, ((0, 0, 0.5), (0.5, 0, 0.3), (1.0, 0, 0.0)))
    links = []
    for name, start, end in (("upper", shoulder, elbow), ("lower", elbow, hand)):
        x = (end - start) / np.linalg.norm(end - start)
        rotation = np.stack([x, (0, 1, 0), np.cross(x, (0, 1, 0))], axis=1)
        links.append(
            model.add_body(
                mass=1.5, inertia=(0.01, 0.05, 0.05), position=(start + end) / 2, rotation=rotation, name=name
            )
        )
    half = np.linalg.norm(hand - elbow) / 2
    links[1].add_shape(ph.shapes.Sphere(0.05, position=(half, 0, 0), name="hand"))
    model.add(ph.joints.Revolute(model.ground, links[0], point=shoulder, axis=(0, 1, 0), name="shoulder"))
    model.add(ph.joints.Revolute(*links, point=elbow, axis=(0, 1, 0), name="elbow"))
    model.contacts(friction=5.0)
    return model

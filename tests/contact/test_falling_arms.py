"""Hinged arms that fall on piles of boxes: contacts that close in turn."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph


def arm_over_boxes(seed: int) -> ph.Model:
    """An arm of three boxes over a pile of three, bodies, sizes and angles at random."""
    r = np.random.default_rng(seed)
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    r.integers(1, 4), r.integers(2, 5), r.integers(4), r.integers(4)
    z = 0.0
    for k in range(3):
        size, mass = r.uniform(0.15, 0.3, 3), r.uniform(0.3, 3)
        place = (0.6 + r.uniform(-0.03, 0.03), r.uniform(-0.03, 0.03), z + size[2] / 2)
        model.add_body(mass=mass, shape=ph.shapes.Box(tuple(size)), position=place, name=f"box {k}")
        z += size[2]
    pivot, below = np.array([0, 0, z * r.uniform(0.7, 1.3) + 0.1]), model.ground
    up = np.deg2rad(r.uniform(20, 80))
    for k in range(3):
        along, length, _ = np.array([np.cos(up), 0, np.sin(up)]), r.uniform(0.25, 0.5), r.integers(2)
        frame, mass = np.stack([along, (0, 1, 0), np.cross(along, (0, 1, 0))], axis=1), r.uniform(0.5, 4)
        shape, place = ph.shapes.Box((0.8 * length, 0.06, 0.06)), pivot + along * length / 2
        link = model.add_body(mass=mass, shape=shape, position=place, rotation=frame, name=f"link {k}")
        model.add(ph.joints.Revolute(below, link, point=pivot, axis=(0, 1, 0), name=f"hinge {k}"))
        below, pivot = link, pivot + along * length
        up -= np.deg2rad(r.uniform(0, 40))
    model.contacts(friction=0.5, restitution=0.2)
    return model


@pytest.mark.exhaustive
def test_rounds_that_close_contacts_in_turn_settle():
    """They cycled at 0.165 s, and the run ended."""
    run = ph.simulate(arm_over_boxes(0).problem(t1=0.2, h=0.005))
    assert min(np.min(run.contacts[name].gap) for name in run.contacts) > -1e-6

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
    """They cycled at 0.165 s, and the run ended.

    Edges that turn within the step of an impact enter by up to 7e-6 at these steps or at shorter ones.
    """
    run = ph.simulate(arm_over_boxes(0).problem(t1=0.2, h=0.005))
    assert np.isclose(run.t[-1], 0.2)
    assert min(np.min(run.contacts[name].gap) for name in run.contacts) > -1e-5


def capsules_over_boxes(seed: int) -> ph.Model:
    """A chain of three to seven capsules or boxes over a pile of boxes; friction and bounces at random."""
    r = np.random.default_rng(1000 + seed)
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    boxes, links, kind = r.integers(1, 4), r.integers(3, 8), r.integers(3)
    restitution, friction = (0.0, 0.2, 0.5)[r.integers(3)], (0.2, 0.5, 0.9)[r.integers(3)]
    z = 0.0
    for k in range(boxes):
        size, mass = r.uniform(0.15, 0.3, 3), r.uniform(0.3, 3)
        place = (0.5 + r.uniform(-0.05, 0.05), r.uniform(-0.05, 0.05), z + size[2] / 2)
        model.add_body(mass=mass, shape=ph.shapes.Box(tuple(size)), position=place, name=f"box {k}")
        z += size[2]
    pivot, below = np.array([0, 0, max(z, 0.3) * r.uniform(0.7, 1.3) + 0.1]), model.ground
    up, lies = np.deg2rad(r.uniform(20, 80)), ph.rotation_vector((0, np.pi / 2, 0))
    for k in range(links):
        along, length, mass = np.array([np.cos(up), 0, np.sin(up)]), r.uniform(0.2, 0.4), r.uniform(0.5, 4)
        frame, place = np.stack([along, (0, 1, 0), np.cross(along, (0, 1, 0))], axis=1), pivot + along * length / 2
        capsule = ph.shapes.Capsule(radius=0.035, length=0.8 * length - 0.07, rotation=lies)
        shape = capsule if kind else ph.shapes.Box((0.8 * length, 0.06, 0.06))
        link = model.add_body(mass=mass, shape=shape, position=place, rotation=frame, name=f"link {k}")
        axis = frame[:, 2] if kind == 2 and k % 2 else (0, 1, 0)
        model.add(ph.joints.Revolute(below, link, point=pivot, axis=axis, name=f"hinge {k}"))
        below, pivot = link, pivot + along * length
        up -= np.deg2rad(r.uniform(0, 40))
    model.contacts(friction=friction, restitution=restitution)
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "end"), [(0, 0.76), (6, 0.65), (7, 1.5), (8, 0.36), (14, 1.25)])
def test_arms_that_wedge_rock_and_slide_go_on(seed, end):
    """Runs ended where a link wedges a box, where a box rocks on an edge, and where it slides on noisy gaps.

    In 6 impulses of wedged bodies exist, but Newton's method didn't find them.
    """
    run = ph.simulate(capsules_over_boxes(seed).problem(t1=end, h=0.005))
    assert run.stats["result"] == ph.Result.successful
    assert np.isclose(run.t[-1], end)

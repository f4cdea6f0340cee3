"""Arches of blocks without mortar at the limits that equilibrium sets, by a linear programme of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog

import polhode as ph

G, DEPTH, FRICTION = 9.81, 0.3, 0.8


def blocks(count: int, thickness: float) -> np.ndarray:
    """Corners of the blocks of a half ring of mean radius 1, from left to right: (count, 4, 2), inner left first."""
    angles = np.linspace(np.pi, 0, count + 1)
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inner, outer = (1 - thickness / 2) * along, (1 + thickness / 2) * along
    return np.stack([inner[:-1], outer[:-1], outer[1:], inner[1:]], axis=1)


def area_and_centre(corners: np.ndarray) -> tuple[float, np.ndarray]:
    after = np.roll(corners, -1, axis=0)
    parts = corners[:, 0] * after[:, 1] - after[:, 0] * corners[:, 1]
    return abs(parts.sum()) / 2, parts @ (corners + after) / (3 * parts.sum())


def may_stand(count: int, thickness: float, tilt: float = 0.0) -> bool:
    """Whether forces within cones of friction, two at each joint, balance the weights."""
    corners = blocks(count, thickness)
    balance, loads = np.zeros((3 * count, 4 * (count + 1))), np.zeros(3 * count)
    for k, shape in enumerate(corners):
        area, centre = area_and_centre(shape)
        loads[3 * k : 3 * k + 2] = -area * np.array([np.sin(tilt), -np.cos(tilt)])
        for joint, side, ends in ((k, 1.0, shape[[0, 1]]), (k + 1, -1.0, shape[[3, 2]])):
            outward = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
            normal = np.array([outward[1], -outward[0]])
            for end, sign in itertools.product((0, 1), (1, -1)):
                # An edge of the cone at each end.
                force, arm = side * (normal + sign * FRICTION * outward), ends[end] - centre
                column = 4 * joint + 2 * end + (sign > 0)
                balance[3 * k : 3 * k + 3, column] = [*force, arm[0] * force[1] - arm[1] * force[0]]
    return linprog(np.zeros(balance.shape[1]), A_eq=balance, b_eq=loads, method="highs").status == 0


def limit(stands: Callable[[float], bool], holds: float, falls: float) -> float:
    """By bisection."""
    for _ in range(34):
        middle = (holds + falls) / 2
        holds, falls = (middle, falls) if stands(middle) else (holds, middle)
    return holds


def arch(count: int, thickness: float, tilt: float = 0.0) -> ph.Model:
    model = ph.Model(gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    below = model.ground
    for k, corners in enumerate(blocks(count, thickness)):
        x, z = area_and_centre(corners)[1]
        vertices = [(a - x, y, b - z) for a, b in corners for y in (-DEPTH / 2, DEPTH / 2)]
        shape = ph.shapes.ConvexMesh(np.array(vertices))
        block = model.add_body(density=2000.0, shape=shape, position=(x, 0, z), name=f"block {k}")
        model.add_contact(below, block, friction=FRICTION)
        below = block
    model.add_contact(model.ground, below, friction=FRICTION)
    model.limit_contacts(4 * (count + 1))
    return model


def simulate(t1: float, count: int, thickness: float, tilt: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Motions from the start and speeds of the centres, the largest of all blocks in each frame."""
    run = ph.simulate(arch(count, thickness, tilt).problem("SO3xR3", t1=t1, h=0.005))
    x = np.array([np.asarray(run.bodies[name].position) for name in run.bodies])
    v = np.array([np.asarray(run.bodies[name].velocity) for name in run.bodies])
    return np.linalg.norm(x - x[:, :1], axis=2).max(axis=0), np.linalg.norm(v, axis=2).max(axis=0)


def test_the_limit_of_many_blocks_is_milankovitchs():
    """Thickness over mean radius of a half ring with radial joints: 0.1075 (M. Milankovitch, 1907)."""
    assert limit(lambda thickness: not may_stand(40, thickness), 0.05, 0.2) == pytest.approx(0.1075, abs=2e-4)


@pytest.mark.exhaustive
def test_a_half_ring_stands_above_the_least_thickness_and_falls_below():
    count = 5
    least = limit(lambda thickness: not may_stand(count, thickness), 0.05, 0.2)
    moved, speed = simulate(1.0, count, 1.005 * least)
    assert speed.max() < 1e-10
    assert moved.max() < 1e-11
    _, speed = simulate(0.1, count, 0.995 * least)
    assert speed[-1] > 1e-3
    assert np.all(np.diff(speed) > 0)


@pytest.mark.exhaustive
def test_a_half_ring_stands_up_to_its_angle_of_tilt_and_falls_beyond():
    steepest = limit(lambda tilt: may_stand(5, 0.2, tilt), 0.0, 1.0)
    assert np.degrees(steepest) == pytest.approx(17.4703, abs=1e-3)
    moved, speed = simulate(1.0, 5, 0.2, 0.999 * steepest)
    assert speed.max() < 1e-10
    assert moved.max() < 1e-11
    _, speed = simulate(0.1, 5, 0.2, 1.001 * steepest)
    assert speed[-1] > 2e-4
    assert np.all(np.diff(speed) > 0)

"""Symbols for joints and the ground: where joints are, along their axes, and left out where nobody wants them."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph
from polhode.solution import show
from polhode.solution.export import export
from polhode.viewing.film.frame_renderer import FrameRenderer, rotation
from polhode.viewing.scene.sampled_motion import rotate, sample
from polhode.viewing.scene.scene import Body


def linkage():
    """A slider with a lever on a pin, whose axis turns with it, a ball on its end, and a spring to the ground."""
    model = ph.Model(gravity=(0, 0, -9.81))
    slider = model.add_body(mass=1.0, inertia=(0.01, 0.01, 0.01), position=(0, 0, 0), name="slider")
    lever = model.add_body(mass=1.0, inertia=(0.001, 0.08, 0.08), position=(0.5, 0, 0), name="lever")
    bob = model.add_body(mass=1.0, inertia=(0.01, 0.01, 0.01), position=(1, 0, -0.3), name="bob")
    model.add(ph.joints.Prismatic(model.ground, slider, axis=(0, 1, 0), name="rail"))
    model.add(ph.joints.Revolute(slider, lever, point=(0, 0, 0), axis=(0.0, 0.6, 0.8), name="pin"))
    model.add(ph.joints.Spherical(lever, bob, point=(1, 0, 0), name="ball"))
    model.add(ph.forces.SpringDamper(model.ground, bob, (1, 0, 1), (1, 0, 0), 5.0, name="spring"))
    return ph.simulate(model.problem("minimal", t1=0.6, h=2e-3), "rkmk4", save_every=20)


@pytest.fixture(scope="module")
def run():
    return linkage()


def scene_of(problem_or_run):
    found = show.scene_of(problem_or_run) if isinstance(problem_or_run, ph.Solution) else problem_or_run.scene
    assert found is not None
    return found


def symbols(run, name):
    """Shape, place and third direction of each symbol of a joint in all frames."""
    scene = scene_of(run)
    motion = sample(scene, run)
    rows = []
    for part, x, q in zip(scene.of(Body), motion.positions, motion.quaternions, strict=True):
        if part.symbol and part.name == name:
            axis = np.stack([rotation(each) @ np.asarray(part.turn)[:, 2] for each in q])
            rows.append((part, x + rotate(q, np.asarray(part.at)), axis))
    return rows


@pytest.mark.exhaustive
def test_symbols_are_where_joints_are(run):
    ((pin, place, axis),) = symbols(run, "pin")
    assert pin.shape == "cylinder"
    np.testing.assert_allclose(place, run.joints["pin"].point, atol=1e-9)
    np.testing.assert_allclose(axis, [[0, 0.6, 0.8]] * len(run.t), atol=1e-9)
    ((ball, place, _),) = symbols(run, "ball")
    assert ball.shape == "ellipsoid"
    end = run.bodies["lever"].position + run.bodies["lever"].rotation @ [0.5, 0, 0]
    np.testing.assert_allclose(place, end, atol=1e-9)
    block, rail = symbols(run, "rail")
    assert (block[0].shape, rail[0].shape) == ("box", "cylinder")
    np.testing.assert_allclose(block[1], run.bodies["slider"].position, atol=1e-9)
    np.testing.assert_allclose(np.abs(rail[2]), [[0, 1, 0]] * len(run.t), atol=1e-9)
    assert np.ptp(rail[1], axis=0).max() == 0 < np.ptp(block[1][:, 1])
    ((_, anchor, _),) = symbols(run, "ground")
    np.testing.assert_allclose(anchor, [[1, 0, 1]] * len(run.t), atol=1e-9)


@pytest.mark.parametrize(("height", "side"), [(0.5, -1), (-0.5, 1), (0.0, 1)])
def test_feet_stand_below_or_hang_above(height, side):
    model = ph.Model(gravity=(0, 0, -9.81))
    reach = float(np.sqrt(0.25 - height**2))
    bar = model.add_body(mass=1, inertia=(0.08, 0.08, 0.08), position=(reach, 0, height))
    model.add(ph.joints.Revolute(model.ground, bar, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    scene = scene_of(model.problem("minimal", t1=0.1))
    cone, plate = (part for part in scene.of(Body) if part.symbol and part.colour == "#9aa3ad")
    assert cone.shape == "cone"
    assert np.sign(plate.at[2]) == np.sign(cone.at[2]) == side
    # The tip is at the joint.
    tip = np.asarray(cone.at) + np.asarray(cone.turn)[:, 2] * cone.size[2] / 2
    np.testing.assert_allclose(tip, 0, atol=1e-8)


def test_symbols_are_of_the_size_of_the_model(run):
    """In millimetres as in metres, and no wider than the joints are apart."""
    sizes = []
    for unit in (1.0, 1000.0):
        model = ph.Model()
        before = model.ground
        for k in range(6):
            body = model.add_body(mass=1, inertia=np.full(3, 1e-4 * unit**2), position=((k + 0.5) * unit, 0, 0))
            model.add(ph.joints.Revolute(before, body, point=(k * unit, 0, 0), axis=(0, 1, 0), name=f"j{k}"))
            before = body
        scene = scene_of(model.problem("minimal", t1=0.1))
        sizes.append([part.size[0] / unit for part in scene.of(Body) if part.symbol and part.name == "j3"])
    np.testing.assert_allclose(sizes[0], sizes[1], rtol=1e-6)
    assert 0.05 < sizes[0][0] < 0.5


@pytest.mark.exhaustive
def test_symbols_widen_no_view_and_can_be_left_out(run, tmp_path):
    scene = scene_of(run)
    bare = scene.without_symbols()
    assert [part.name for part in bare.of(Body) if part.marked] == ["slider", "lever", "bob"]
    pictures = []
    for each in (scene, bare):
        motion = sample(each, run, 3)
        pictures.append(FrameRenderer(each, motion, (240, 160)).frame(1))
        np.testing.assert_allclose(motion.bounds(each)[0], sample(bare, run, 3).bounds(bare)[0], atol=1e-12)
    assert 20 < np.count_nonzero(np.abs(pictures[0] - pictures[1]).max(axis=2) > 0.1) < 12000
    sizes = [export(run, tmp_path / f"{joints}.glb", joints=joints).stat().st_size for joints in (True, False)]
    assert sizes[0] > sizes[1]

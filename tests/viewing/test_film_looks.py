"""Arrows and colours of rods in films: as long and as coloured as the numbers of the run."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import polhode as ph
from polhode.solution import export, show
from polhode.viewing.film import film
from polhode.viewing.film.frame_renderer import FrameRenderer, colours_of
from polhode.viewing.scene import arrow_fields
from polhode.viewing.scene.sampled_motion import sample


@pytest.fixture(scope="module")
def run():
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    bob = model.add_body(mass=2.0, inertia=(0.01, 0.02, 0.02), position=(1, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0), name="pin"))
    return ph.simulate(model.problem("minimal", t1=0.5, h=5e-3), "rkmk4", save_every=10)


@pytest.fixture(scope="module")
def rod():
    return ph.simulate(ph.problems.get("cantilever", n=2), t1=0.02, save_every=5)


def small(monkeypatch):
    monkeypatch.setattr(film, "seconds", lambda span: 0.15)


def scene_of(run):
    found = show.scene_of(run)
    assert found is not None
    return found


@pytest.mark.exhaustive
def test_arrows_are_as_long_as_the_vectors(run):
    scene = scene_of(run)
    motion = sample(scene, run)
    radius = motion.bounds(scene)[1]
    fields = list(arrow_fields.of_run(scene, motion, run))
    weight, force = arrow_fields.scale(fields, ["joint force", "weight"], radius)
    # Both are forces, so one scale serves them; the longest of the run has a length of 0.45 radii.
    largest = np.linalg.norm(run.joints["pin"].force, axis=1).max()
    np.testing.assert_allclose(weight.vectors[:, 0], [[0, 0, -2 * 9.81 * 0.45 * radius / largest]] * len(run.t))
    np.testing.assert_allclose(force.feet[:, 0], 0, atol=1e-12)
    np.testing.assert_allclose(force.vectors[:, 0], run.joints["pin"].force * 0.45 * radius / largest, atol=1e-12)
    plain = scene.without_symbols()
    motion = sample(plain, run)
    bare, scaled_fields = (FrameRenderer(plain, motion, (720, 480), arrows=arrows) for arrows in ((), [force]))
    k = int(np.argmax(np.linalg.norm(force.vectors[:, 0], axis=1)))
    changed = np.abs(scaled_fields.frame(k) - bare.frame(k)).max(axis=2) > 0.15
    ends = np.stack([force.feet[k, 0], force.feet[k, 0] + force.vectors[k, 0]])
    pixels = scaled_fields._camera.project(ends)[0] / 2
    along = pixels[0] + np.linspace(0.1, 0.9, 50)[:, None] * (pixels[1] - pixels[0])
    columns, rows = np.rint(along - 0.5).astype(int).T
    assert np.linalg.norm(pixels[1] - pixels[0]) > 40
    near = [changed[r - 1 : r + 2, c - 1 : c + 2].any() for r, c in zip(rows, columns, strict=True)]
    assert np.mean(near) > 0.9


@pytest.mark.exhaustive
def test_rods_have_the_colour_of_their_curvature(rod, monkeypatch, tmp_path):
    small(monkeypatch)
    export(rod, tmp_path / "rod.gif", tint="curvature")
    scene = scene_of(rod)
    motion = sample(scene, rod)
    (tints,) = (line.tints for line in scene.of(film.Line) if line.tints)
    (of_segments,) = (each for each in motion.tints if each is not None)
    values = of_segments[:, :, tints.names.index("curvature")]
    pictures = FrameRenderer(scene, motion, (240, 160), "curvature")
    assert pictures.limits == (values.min(), values.max())
    surface, colours = pictures._of_lines(1)[0]
    expected = colours_of(values[1], pictures.limits)
    np.testing.assert_allclose(colours, expected[surface.marks.astype(int)])
    assert np.ptp(expected, axis=0).max() > 0.05


@pytest.mark.exhaustive
def test_films_say_what_their_colours_mean(run, rod, monkeypatch, tmp_path):
    small(monkeypatch)
    for of, looks in ((run, ({}, {"arrows": "weight"})), (rod, ({}, {"tint": "curvature"}))):
        corners = []
        for chosen in looks:
            path = export(of, tmp_path / f"{len(chosen)}.gif", None, progress=False, joints=True, **chosen)
            with Image.open(path) as opened:
                picture = np.asarray(opened.convert("RGB"), dtype=int)
            corners.append(picture[:70])
        assert np.count_nonzero(np.abs(corners[1] - corners[0]).max(axis=2) > 40) > 100


@pytest.mark.exhaustive
def test_what_a_run_or_a_format_has_not_is_said(run, rod, tmp_path):
    with pytest.raises(ValueError, match=r"no rods to colour"):
        export(run, tmp_path / "x.gif", tint="curvature")
    with pytest.raises(ValueError, match=r"Did you mean `curvature`"):
        export(rod, tmp_path / "x.gif", tint="curvatur")
    with pytest.raises(ValueError, match=r"no arrows 'joint forces'\. Did you mean `joint force`\? It has velocity,"):
        export(run, tmp_path / "x.gif", arrows=["joint forces"])
    with pytest.raises(ValueError, match=r"are for films, \.mp4, \.gif"):
        export(run, tmp_path / "x.csv", arrows=["weight"])
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
def test_arrows_of_named_forces_lie_on_their_lines_of_action():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_body(
        mass=2.0, inertia=(0.01, 0.02, 0.03), position=(1, 0, -1), angular_velocity=(0.3, 2.0, 0.1), name="bob"
    )
    other = model.add_body(mass=1.0, inertia=(0.01, 0.02, 0.02), position=(2, 0, -1), name="other")
    hook, corner, end = np.array([0.0, 0.2, 0.0]), np.array([0.9, 0.1, -0.8]), np.array([2.1, 0.1, -0.9])
    model.add(ph.forces.SpringDamper(model.ground, bob, hook, corner, stiffness=50.0, name="rope"))
    model.add(ph.forces.SpringDamper(bob, other, corner, end, stiffness=20.0, name="between"))
    model.add(ph.forces.TorsionalSpringDamper(bob, other, axis=(0, 1, 0), stiffness=1.0, name="twist"))
    run = ph.simulate(model.problem("S3xR3", t1=0.5, h=5e-3), "rkmk4", save_every=10)
    scene = scene_of(run)
    motion = sample(scene, run)
    feet, forces = next(v[3:] for v in arrow_fields.of_run(scene, motion, run) if v.name == "applied force")
    corners = run.bodies["bob"].position + run.bodies["bob"].rotation @ (corner - (1, 0, -1))
    # One arrow for each body: the rope's, both of the spring between them, and none that is seen of the couple.
    assert feet.shape == (len(run.t), 5, 3)
    np.testing.assert_allclose(np.cross(corners - feet[:, 0], forces[:, 0]), 0, atol=1e-12)
    np.testing.assert_allclose(np.cross(hook - feet[:, 0], forces[:, 0]), 0, atol=1e-12)
    np.testing.assert_allclose(np.cross(corners - feet[:, 1], forces[:, 1]), 0, atol=1e-12)
    np.testing.assert_allclose(forces[:, 1], -forces[:, 2], atol=1e-12)
    np.testing.assert_allclose(forces[:, 3:], 0, atol=1e-12)
    assert np.linalg.norm(forces[1:, :3], axis=2).min() > 1e-3
    np.testing.assert_allclose(feet[:, 3], run.bodies["bob"].position, atol=1e-12)

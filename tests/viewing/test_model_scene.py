from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.solution.export import export
from polhode.viewing.scene import geometry, model_scene
from polhode.viewing.scene.sampled_motion import sample
from polhode.viewing.scene.scene import Body, Line, Trail

EDGES = np.array([0.2, 0.5, 0.9])


def swing():
    """A box on a hinge at one of its corners, and a mass point on a spring."""
    model = ph.Model(gravity=(0, -9.81, 0))
    squares = EDGES**2
    turn = np.asarray(ph.rotation_vector((0.3, -0.2, 0.5)))
    inertia = turn @ np.diag(3.0 * (np.sum(squares) - squares) / 12) @ turn.T
    box = model.add_body(mass=3.0, inertia=inertia, position=(1, 0, 0), angular_velocity=(0, 0, 2), velocity=(0, 2, 0))
    ball = model.add_point(mass=0.5, position=(2, 0, 0))
    model.add(ph.joints.Revolute(model.ground, box, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(ph.forces.SpringDamper(box, ball, (1.5, 0, 0), (2, 0, 0), stiffness=40.0, damping=0.1))
    return model, turn


def test_bodies_are_boxes_of_their_inertia():
    model, turn = swing()
    box, ball, *limbs = model_scene.to_dict(model, ["body-1", "point-1"])["bodies"]
    order = np.argsort(box["size"])
    np.testing.assert_allclose(np.array(box["size"])[order], EDGES, rtol=1e-12)
    drawn = np.array(box["turn"])
    np.testing.assert_allclose(np.abs(drawn[:, order]), np.abs(turn), atol=1e-12)
    assert np.linalg.det(drawn) == pytest.approx(1.0)
    assert (ball["shape"], ball["row"]) == ("ellipsoid", 1)
    # To the hinge, 1 from the centre, and to the spring, half of that, both of which lie outside of the box.
    assert [limb["shape"] for limb in limbs] == ["capsule", "capsule"]
    np.testing.assert_allclose([limb["at"] for limb in limbs], [[-0.5, 0, 0], [0.25, 0, 0]], atol=1e-15)
    np.testing.assert_allclose([limb["size"][2] - limb["size"][0] for limb in limbs], [1.0, 0.5], rtol=1e-12)


def test_round_bodies_are_round_and_none_hides_what_it_carries():
    model = ph.Model()
    model.add_body(mass=2.0, inertia=(0.05, 0.09, 0.05), name="wheel")
    model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(2, 0, 0), name="ball")
    block = model.add_body(mass=1.0, inertia=(100, 110, 120), position=(0, 2, 0), name="block")
    model.add(ph.joints.Revolute(model.ground, block, point=(0, 1.5, 0), axis=(0, 0, 1)))
    cylinder, sphere, box, *_ = model_scene.to_dict(model, ["wheel", "ball", "block"])["bodies"]
    assert (cylinder["shape"], sphere["shape"], box["shape"]) == ("cylinder", "ellipsoid", "box")
    radius, length = cylinder["size"][0] / 2, cylinder["size"][2]
    assert 2.0 * radius**2 / 2 == pytest.approx(0.09)
    assert 2.0 * (radius**2 / 4 + length**2 / 12) == pytest.approx(0.05)
    np.testing.assert_allclose(np.abs(np.array(cylinder["turn"])[:, 2]), (0, 1, 0), atol=1e-12)
    assert sphere["size"] == pytest.approx([2 * np.sqrt(2.5 * 0.1)] * 3)
    assert max(box["size"]) == pytest.approx(2 * 1.2 * 0.5)


def test_inertia_that_no_box_has_still_has_a_thickness():
    model = ph.Model()
    model.add_body(mass=1.0, inertia=(1.0, 1.0, 5.0), check_inertia=False)
    (body,) = model_scene.to_dict(model, ["body-1"])["bodies"]
    assert 0 < min(body["size"]) < max(body["size"])


def test_the_scene_of_a_model_is_stored_and_follows_its_bodies(tmp_path):
    model, _ = swing()

    def height(system):
        return {"height": lambda t, state: system.pose(state[0], "body-1").x[1]}

    problem = model.problem("minimal", t1=0.1, h=1e-2, outputs=height)
    ph.simulate(problem, store=tmp_path / "run.zarr")
    solution = ph.load(tmp_path / "run.zarr")
    scene = model_scene.from_dict(solution.meta["scene"]).without_symbols()
    assert scene.up == (0.0, 1.0, 0.0)
    motion = sample(scene, solution)
    positions, rotations = (np.asarray(solution.outputs[name]) for name in ("positions", "rotations"))
    assert [part.name for part in scene.parts if isinstance(part, Body)] == ["body-1", "point-1", "body-1", "body-1"]
    np.testing.assert_allclose(motion.positions[:2], np.moveaxis(positions, 1, 0), atol=1e-15)
    (springs,) = motion.lines
    assert [part.name for part in scene.parts if isinstance(part, Line)] == ["springs"]
    # From the corner to the mass point.
    np.testing.assert_allclose(springs[:, 0], positions[:, 0] + 0.5 * rotations[:, 0, :, 0], atol=1e-12)
    np.testing.assert_allclose(springs[:, 1], positions[:, 1], atol=1e-15)
    np.testing.assert_array_equal(solution.outputs["height"], positions[:, 0, 1])
    assert np.ptp(positions[:, 0, 1]) > 0.1
    export(solution, tmp_path / "run.html")
    assert '"shape": "box"' in (tmp_path / "run.html").read_text()


def test_the_ends_of_a_chain_leave_trails():
    model = ph.Model(gravity=(0, 0, -9.81))
    links = [model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(i + 0.5, 0, 0)) for i in range(3)]
    for i, (first, second) in enumerate(zip((model.ground, *links), links, strict=False)):
        model.add(ph.joints.Revolute(first, second, point=(i, 0, 0), axis=(0, 1, 0)))
    scene = model_scene.from_dict(model_scene.to_dict(model, [link.name for link in links]))
    assert [part.index for part in scene.parts if isinstance(part, Trail)] == [2]


def test_numbers_that_jax_traces_leave_out_the_scene():
    import jax

    def energy(mass):
        model = ph.Model()
        model.add_body(mass=mass, inertia=(1.0, 1.0, 1.0), velocity=(2.0, 0, 0))
        problem = model.problem(t1=1.0, h=0.1)
        assert problem.scene is None
        return problem.invariants["energy"](0.0, problem.state0)

    assert jax.grad(energy)(jnp.asarray(3.0)) == pytest.approx(2.0)


def test_springs_are_coils_unless_there_are_many():
    def springs(count):
        model = ph.Model()
        bob = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.2), position=(0, 0, -1), name="bob")
        for k in range(count):
            model.add(ph.forces.SpringDamper(model.ground, bob, (k, 0, 0), (0, 0, -1), stiffness=1.0))
        return [line for line in model.problem("SE3", t1=1.0).scene.of(Line) if line.name == "springs"]

    assert [line.coil for line in springs(2)] == [True, True]
    assert not any(line.coil for line in springs(25))


def test_a_coil_winds_about_the_line_between_its_ends():
    start, end = np.array([0.3, -1.0, 2.0]), np.array([-0.6, 0.5, 1.1])
    nodes = geometry.coil(start, end, 0.1)
    axis = (end - start) / np.linalg.norm(end - start)
    across = np.linalg.norm(np.cross(nodes - start, axis), axis=1)
    np.testing.assert_allclose(nodes[[0, -1]], [start, end], atol=1e-15)
    np.testing.assert_allclose(across[[1, -2]], 0, atol=1e-15)
    np.testing.assert_allclose(across[2:-2], 0.1, rtol=1e-12)
    assert (np.diff(nodes @ axis) > -1e-15).all()
    assert np.isfinite(geometry.coil(start, start, 0.1)).all()

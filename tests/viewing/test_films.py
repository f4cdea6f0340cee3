"""Pictures, films and files of motions, against closed forms and what other programs read."""

from __future__ import annotations

import re
import subprocess
import sys

import imageio_ffmpeg
import meshio
import numpy as np
import pygltflib
import pytest
import trimesh
from PIL import Image

from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.solution.export import export
from polhode.solution.solution import Solution
from polhode.viewing.files import gltf, vtk
from polhode.viewing.film import film, scanline
from polhode.viewing.film.frame_renderer import FrameRenderer, rgb, rotation
from polhode.viewing.film.rasteriser import Camera, GBuffer
from polhode.viewing.scene import geometry
from polhode.viewing.scene.sampled_motion import sample
from polhode.viewing.scene.scene import Arrows, Body, Cloud, Line, Scene, Tints, Trail


def turning_body(n: int = 7, end: float = 1.5) -> Solution:
    t = np.linspace(0.0, end, n)
    c, s, o, e = np.cos(t), np.sin(t), 0 * t, 1 + 0 * t
    R = np.stack([c, -s, o, s, c, o, o, o, e], axis=1).reshape(n, 3, 3)
    outputs = {"tip": 2 * R[:, :, 0]}
    stats = {"result": Result.successful}
    return Solution(Frames(t, {"R": R}, outputs, {}, {}, None), stats, {"problem": "turning"})


def nodes(t, state):
    return state["R"][:, :1].T * np.array([[0.0], [1.0], [2.0]])


def strains(t, state):
    return np.array([[0.1], [0.3]]) * state["R"][0, 0]


SCENE = Scene(
    (
        Body("box", "box", (1.0, 0.4, 0.2), lambda t, s: (s["R"][:, 0], s["R"]), "#d1495b"),
        Line("rod", nodes, tints=Tints(("curvature",), ("curvature",), strains)),
        Trail("tip"),
        Cloud("grains", lambda t, s: s["R"] * 0.5, np.array([0.1, 0.2, 0.3])),
        Arrows("weight", "force", nodes, lambda t, s: np.array([[0.0, 0.0, -1.0]] * 3) * s["R"][2, 2]),
    )
)


def test_surfaces_are_closed_and_turn_outwards():
    solids = [geometry.ball(), geometry.stick()]
    for shape in ("box", "ellipsoid", "cylinder", "capsule"):
        body = Body("b", shape, (0.4, 0.4, 1.0), lambda t, s: s)
        solids.append(geometry.join([surface for surface, _ in geometry.of_body(body, SCENE)]))
    solids.append(geometry.arrow(np.zeros(3), np.array([1.0, 2.0, 0.5]), 0.02))
    for solid in solids:
        mesh = trimesh.Trimesh(solid.vertices, solid.faces, process=True)
        # Volume by the divergence theorem is positive where triangles turn outwards.
        assert mesh.volume > 0
        across = np.cross(*(solid.vertices[solid.faces[:, i]] - solid.vertices[solid.faces[:, 0]] for i in (1, 2)))
        big = np.linalg.norm(across, axis=1) > 1e-9
        assert np.all(np.sum(across * solid.normals[solid.faces].sum(axis=1), axis=1)[big] > 0)


def test_a_sphere_covers_the_disc_that_it_must():
    camera = Camera(np.zeros(3), np.eye(3), 20.0, (400, 300), azimuth=0.3, height=0.2)
    r = 1.5
    by_pixels, by_triangles = GBuffer(camera), GBuffer(camera)
    by_pixels.spheres(np.zeros((1, 3)), np.array([r]), rgb("#ffffff"))
    ball = geometry.ball(40, 60)
    by_triangles.triangles(2 * r * ball.vertices, ball.normals, np.ones_like(ball.vertices), ball.faces)
    # The outline of a sphere is seen under the angle arcsin(r/d).
    expected = np.pi * (camera.focal * r / np.sqrt(20.0**2 - r**2)) ** 2
    for canvas in (by_pixels, by_triangles):
        hit = np.isfinite(canvas.depth)
        assert np.count_nonzero(hit) == pytest.approx(expected, rel=0.015)
        assert canvas.depth[hit].min() == pytest.approx(20.0 - r, rel=1e-3)


SIZE = (37, 23)
ACROSS, DOWN = (grid.ravel() + 0.5 for grid in np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1])))


def check_pixels(found, inside, outside):
    """Every pixel inside is listed once, and none outside."""
    counts = np.zeros(inside.shape, int)
    for span, _, pixel in found.pixels(SIZE[0]):
        np.add.at(counts, (found.which[span], pixel), 1)
    assert inside.sum() > 1000
    np.testing.assert_array_equal(counts[inside], 1)
    np.testing.assert_array_equal(counts[outside], 0)
    np.testing.assert_array_equal(found.covered_pixels(SIZE[0]), np.flatnonzero(counts.any(axis=0)))


def test_pixels_of_triangles_are_on_the_same_side_of_all_three_lines():
    corners = np.random.default_rng(4).uniform([-15, -15], np.add(SIZE, 15), (300, 3, 2))
    corners[:10, 2] = corners[:10, 0] + 0.3 * (corners[:10, 1] - corners[:10, 0])  # almost a line
    sides = np.stack([doubled_areas(corners[:, i], corners[:, (i + 1) % 3]) for i in range(3)])
    left, right = sides > 1e-9, sides < -1e-9
    inside = left.all(axis=0) | right.all(axis=0)
    check_pixels(scanline.of_triangles(corners, SIZE), inside, left.any(axis=0) & right.any(axis=0))


def test_pixels_of_discs_are_within_their_radii():
    random = np.random.default_rng(5)
    centres, radii = random.uniform(-5, 40, (50, 2)), random.uniform(0.1, 12, 50)
    beyond = np.hypot(ACROSS - centres[:, :1], DOWN - centres[:, 1:]) - radii[:, None]
    check_pixels(scanline.of_discs(centres, radii, SIZE), beyond < -1e-9, beyond > 1e-9)


def doubled_areas(a, b):
    """Twice the signed areas of triangles from points (n, 2) a and b to all pixels."""
    a, b = a[:, :, None], b[:, :, None]
    return (b[:, 0] - a[:, 0]) * (DOWN - a[:, 1]) - (b[:, 1] - a[:, 1]) * (ACROSS - a[:, 0])


def test_nothing_shines_through_between_triangles():
    random = np.random.default_rng(5)
    camera = Camera(np.zeros(3), np.eye(3), 10.0, (200, 160), azimuth=0.0, height=0.0)
    # A crumpled sheet across the whole view.
    n = 30
    y, z = (grid.ravel() for grid in np.meshgrid(np.linspace(-6, 6, n), np.linspace(-6, 6, n)))
    points = np.stack([0 * y, y, z], axis=1) + random.uniform(-0.15, 0.15, (n * n, 3))
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    faces = np.concatenate([corner[:, None] + [0, 1, n + 1], corner[:, None] + [0, n + 1, n]])
    canvas = GBuffer(camera)
    canvas.triangles(points, np.tile([1.0, 0, 0], (n * n, 1)), np.ones((n * n, 3)), faces)
    assert np.isfinite(canvas.depth).all()
    np.testing.assert_allclose(canvas.depth, 10.0, atol=0.16)
    np.testing.assert_allclose(canvas.colour, 1.0, rtol=1e-6)


def test_the_nearest_triangle_is_seen_through_which_nothing_shines():
    camera = Camera(np.zeros(3), np.eye(3), 10.0, (64, 64), azimuth=0.0, height=0.0)
    square = np.array([[0, -1, -1], [0, 1, -1], [0, 1, 1], [0, -1, 1]], dtype=float)
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    canvas = GBuffer(camera)
    for x, colour in ((1.0, [1.0, 0, 0]), (-1.0, [0, 1.0, 0]), (0.5, [0, 0, 1.0])):
        canvas.triangles(square + np.array([x, 0, 0]), np.tile([1.0, 0, 0], (4, 1)), np.tile(colour, (4, 1)), faces)
    middle = 32 * 64 + 32
    np.testing.assert_allclose(canvas.colour[middle], [1, 0, 0])
    assert canvas.depth[middle] == pytest.approx(9.0)
    # What is closer by a tenth looks larger by a tenth.
    wide = np.count_nonzero(np.isfinite(canvas.depth).reshape(64, 64)[32])
    assert wide == pytest.approx(2 * camera.focal / 9.0, abs=2)


def test_pictures_show_bodies_where_they_are():
    solution = turning_body()
    motion = sample(SCENE, solution)
    pictures = FrameRenderer(SCENE, motion, (240, 160), "curvature")
    first, last = pictures.frame(0), pictures.frame(6)
    assert first.shape == (160, 240, 3)
    assert 0 <= first.min() < 0.4 < first.max() <= 1
    assert np.abs(first - last).max() > 0.3
    red = (last[..., 0] - last[..., 2]) > 0.15
    centre, _ = pictures._camera.project(np.array([[np.cos(1.5), np.sin(1.5), 0.0]]))
    rows, columns = np.nonzero(red)
    assert abs(columns.mean() - centre[0, 0] / 2) < 12
    assert abs(rows.mean() - centre[0, 1] / 2) < 12


def test_films_last_as_long_as_the_page_plays(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "_SMALL", (120, 80))
    counts = []
    film.gif(turning_body(30, 4.0), SCENE, tmp_path / "a.gif", report=lambda *count: counts.append(count))
    assert counts == [(k, 80) for k in range(1, 81)]
    with Image.open(tmp_path / "a.gif") as image:
        assert image.size == (120, 80)
        durations = []
        for k in range(image.n_frames):
            image.seek(k)
            durations.append(image.info["duration"])
    # Pictures that don't differ are one that is shown for longer.
    assert sum(durations) == pytest.approx(4000, rel=0.05)


def test_mp4_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "_SIZE", (160, 96))
    monkeypatch.setattr(film, "seconds", lambda span: 1.0)
    film.mp4(turning_body(9), SCENE, tmp_path / "a.mp4")
    read = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", tmp_path / "a.mp4", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    calls = subprocess.run(read, capture_output=True, check=True)
    assert re.search(r"Duration: 00:00:01\.00", calls.stderr.decode())
    pictures = np.frombuffer(calls.stdout, np.uint8).reshape(-1, 96, 160, 3)
    assert len(pictures) == 30
    # The first picture, but for what compression and colours of videos change.
    motion = sample(SCENE, turning_body(9), 30)
    first = 255 * FrameRenderer(SCENE, motion, (160, 96)).frame(0)
    assert np.abs(pictures[0, :80].astype(float) - first[:80]).mean() < 4


def test_what_ffmpeg_says_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "_SIZE", (160, 96))
    monkeypatch.setattr(film, "seconds", lambda span: 0.1)
    with pytest.raises(OSError, match=r"ffmpeg could not write .*No such file"):
        film.mp4(turning_body(), SCENE, tmp_path / "missing" / "a.mp4")


@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_a_film_that_is_cut_off_leaves_the_one_before(tmp_path, monkeypatch, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"before")

    def cut_off(solution, scene, size, rate, tint, told):
        yield np.zeros((size[1], size[0], 3), np.uint8)
        raise KeyboardInterrupt

    monkeypatch.setattr(film, "_pictures", cut_off)
    with pytest.raises(KeyboardInterrupt):
        getattr(film, ending)(turning_body(), SCENE, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"before"


def test_mp4_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ValueError, match=r"pip install 'polhode\[video\]'"):
        film.mp4(turning_body(), SCENE, tmp_path / "a.mp4")


def test_gltf_holds_the_motion(tmp_path):
    solution = turning_body()
    gltf.write(solution, SCENE, tmp_path / "a.glb")
    read = pygltflib.GLTF2().load(str(tmp_path / "a.glb"))
    blob = read.binary_blob()

    def numbers(accessor):
        view = read.bufferViews[read.accessors[accessor].bufferView]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[read.accessors[accessor].type]
        return np.frombuffer(blob, "<f4", read.accessors[accessor].count * width, view.byteOffset).reshape(-1, width)

    names = [node.name for node in read.nodes]
    assert names.count("box") == 2
    moving = next(i for i, node in enumerate(read.nodes) if node.name == "box" and node.children)
    channels = {c.target.path: c.sampler for c in read.animations[0].channels if c.target.node == moving}
    samplers = read.animations[0].samplers
    np.testing.assert_allclose(numbers(samplers[channels["translation"]].input)[:, 0], solution.t, rtol=1e-6)
    R = solution.state["R"]
    np.testing.assert_allclose(numbers(samplers[channels["translation"]].output), R[:, :, 0], atol=1e-6)
    for q, expected in zip(numbers(samplers[channels["rotation"]].output), R, strict=True):
        np.testing.assert_allclose(rotation(np.roll(q, 1)), expected, atol=1e-6)
    # Another reader's picture of the start: the box where it is, z turned to y, which is up there.
    scene = trimesh.load(tmp_path / "a.glb")
    assert scene.bounds[1][0] == pytest.approx(2.0, abs=0.05)
    assert scene.bounds[:, 1] == pytest.approx([-0.15, 0.65], abs=0.3)


def test_gltf_of_too_many_spheres_says_what_to_write_instead(tmp_path):
    many = Scene((Cloud("sand", lambda t, s: s["R"], np.ones(5000)),))
    with pytest.raises(ValueError, match=r"5000 spheres.*\.pvd"):
        gltf.write(turning_body(), many, tmp_path / "a.glb")


def test_files_for_paraview_hold_the_motion(tmp_path):
    solution = turning_body(3)
    vtk.write(solution, SCENE, tmp_path / "a.pvd")
    listed = (tmp_path / "a.pvd").read_text()
    assert [f'timestep="{float(t)!r}"' in listed for t in solution.t] == [True] * 3
    mesh = meshio.read(tmp_path / "a" / "00002.vtu")
    blocks = {block.type: block.data for block in mesh.cells}
    assert set(blocks) == {"triangle", "line", "vertex"}
    R = solution.state["R"][2]
    np.testing.assert_allclose(mesh.points[blocks["line"]], [[[0, 0, 0], R[:, 0]], [R[:, 0], 2 * R[:, 0]]], atol=1e-12)
    kinds = [block.type for block in mesh.cells]
    curvature = mesh.cell_data["curvature"][kinds.index("line")]
    np.testing.assert_allclose(curvature, np.array([0.1, 0.3]) * R[0, 0], atol=1e-12)
    corners = mesh.points[np.unique(blocks["triangle"])]
    np.testing.assert_allclose(corners.mean(axis=0), R[:, 0], atol=1e-12)
    spheres = ~np.isnan(mesh.point_data["diameter"])
    np.testing.assert_allclose(mesh.points[spheres], 0.5 * R, atol=1e-12)
    np.testing.assert_allclose(mesh.point_data["diameter"][spheres], [0.1, 0.2, 0.3])
    arrows = ~np.isnan(mesh.point_data["weight"][:, 0])
    np.testing.assert_allclose(mesh.point_data["weight"][arrows], [[0, 0, -1]] * 3)


@pytest.mark.parametrize("name", ["a.mp4", "a.gif", "a.glb", "a.pvd"])
def test_a_run_without_a_scene_has_no_motion_to_write(tmp_path, name):
    with pytest.raises(ValueError, match="no scene"):
        export(turning_body(), tmp_path / name)


def test_arrows_without_their_outputs_are_left_out():
    speed = Arrows("velocity", "velocity", nodes, nodes, needs=("velocities",))
    scene = Scene((*SCENE.parts, speed), reads="outputs")
    assert speed in scene.readable({"positions": 0, "velocities": 0}).parts
    assert scene.readable({"positions": 0}).of(Arrows) == SCENE.of(Arrows)

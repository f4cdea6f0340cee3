"""Shapes of model files: which, where, how large, and which files are read for them."""

from __future__ import annotations

import base64
import contextlib
import os
import threading
import warnings

import numpy as np
import pytest

import polhode as ph
from polhode.compiler.cache import disk_cache
from polhode.importers import ModelFileWarning
from polhode.solution.export import export
from polhode.viewing.scene import robot_appearance as machines

TETRA = np.array([[0.0, 0, 0], [3, 0, 0], [0, 2, 0], [0, 0, 1]])
FACES = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
MASS = (
    '<inertial><origin xyz="0.1 0.2 0.3"/><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
)
MESH = '<visual>{}<geometry><mesh filename="{}"/></geometry></visual>'


def stl(path, vertices=TETRA):
    path.parent.mkdir(parents=True, exist_ok=True)
    facets = "".join(
        "facet normal 0 0 1\nouter loop\n"
        + "".join(f"vertex {x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in (vertices[i] for i in face))
        + "endloop\nendfacet\n"
        for face in FACES
    )
    path.write_text(f"solid t\n{facets}endsolid t\n")
    return path


def binary_stl(path, vertices=TETRA):
    """The only STL that MuJoCo reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = np.zeros(len(FACES), dtype=[("n", "<f4", 3), ("v", "<f4", (3, 3)), ("pad", "<u2")])
    record["v"] = vertices[np.array(FACES)]
    path.write_bytes(b"\0" * 80 + np.uint32(len(FACES)).tobytes() + record.tobytes())
    return path


def obj(path):
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in TETRA)
    faces = ["f " + " ".join(str(i + 1) for i in face) + "\n" for face in FACES]
    path.write_text(f"mtllib t.mtl\n{vertices}usemtl red\n{faces[0]}{faces[1]}usemtl blue\n{faces[2]}{faces[3]}")
    (path.parent / "t.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 1\n")
    return path


def dae(path):
    places, faces = (" ".join(map(str, np.ravel(values))) for values in (TETRA, FACES))
    path.write_text(
        '<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset>'
        '<unit name="centimeter" meter="0.01"/><up_axis>Z_UP</up_axis></asset><library_geometries><geometry id="g">'
        f'<mesh><source id="p"><float_array id="a" count="12">{places}</float_array><technique_common><accessor '
        'source="#a" count="4" stride="3"><param name="X" type="float"/><param name="Y" type="float"/><param name="Z" '
        'type="float"/></accessor></technique_common></source><vertices id="v"><input semantic="POSITION" '
        'source="#p"/></vertices><triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/>'
        f"<p>{faces}</p></triangles></mesh></geometry></library_geometries><library_visual_scenes><visual_scene "
        'id="s"><node id="n"><instance_geometry url="#g"/></node></visual_scene></library_visual_scenes><scene>'
        '<instance_visual_scene url="#s"/></scene></COLLADA>'
    )
    return path


def robot(path, shapes, base=""):
    """A link with shapes on a hinge about z at (1, 0, 0)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '<robot name="r"><material name="sand"><color rgba="1 0.5 0 1"/></material>'
        f'<link name="base">{base}</link><link name="arm">{MASS}{shapes}</link><joint name="j" type="continuous">'
        '<parent link="base"/><child link="arm"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/></joint></robot>'
    )
    return path


def mjcf(path, body, assets="", compiler=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<mujoco model="m"><compiler {compiler}/><asset>{assets}</asset><worldbody><body name="arm" pos="1 0 0" '
        f'euler="0 0 90"><joint name="j" axis="0 0 1"/><inertial pos="0.1 0 0" mass="1" diaginertia="1 1 1"/>'
        f"{body}</body></worldbody></mujoco>"
    )
    return path


def picture_of(imported):
    """What a page draws, with places and directions of solids in the inertial frame at the start."""
    description = imported.problem(t1=0.1).scene.description
    bodies = [body for body in imported.model.bodies if body.kind == "rigid"]
    found = []
    for solid in description["bodies"]:
        x, R = np.zeros(3), np.eye(3)
        if solid["row"] >= 0:
            x, R = np.asarray(bodies[solid["row"]].x), np.asarray(bodies[solid["row"]].R)
        found.append({**solid, "x": x + R @ solid["at"], "R": R @ np.array(solid["turn"])})
    return description, found


def corners(description, solid):
    """Vertices of a mesh in the inertial frame, in the order of their coordinates."""
    packed = np.frombuffer(base64.b64decode(description["meshes"][solid["mesh"]]["vertices"]), "<u2").reshape(-1, 3)
    return in_order(solid["x"] + ((packed / 65535 - 0.5) * solid["size"]) @ solid["R"].T)


def in_order(points):
    points = np.round(points, 3) + 0.0
    return points[np.lexsort(points.T)]


def about_z(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def read(path, **options):
    """The model, and what the one warning about its shapes says."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        imported = ph.load_model(path, **options)
        imported.problem(t1=0.1)
    said = [str(note.message) for note in notes if issubclass(note.category, ModelFileWarning)]
    assert len(said) == (1 if said else 0)
    return imported, "".join(said)


@contextlib.contextmanager
def unblock(fifo):
    """Ends what waits for a pipe after a few seconds."""

    def write():
        with contextlib.suppress(OSError):
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))

    timer = threading.Timer(5.0, write)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_solids_of_robots_are_where_the_file_puts_them(tmp_path):
    shapes = (
        '<visual><origin xyz="1 2 3" rpy="0 0 0.5"/><geometry><box size="1 2 3"/></geometry>'
        '<material name="sand"/></visual><visual><geometry><sphere radius="0.5"/></geometry></visual><visual>'
        '<geometry><capsule radius="0.1" length="0.6"/></geometry><material name="x"><color rgba="0 1 0 1"/></material>'
        '</visual><visual><geometry><cylinder radius="0.2" length="3"/></geometry></visual><visual><geometry>'
        '<box size="9 9 9"/></geometry><material name="glass"><color rgba="0 1 0 0"/></material></visual>'
        '<collision><geometry><box size="8 8 8"/></geometry></collision>'
    )
    base = '<collision><geometry><box size="1 1 0.5"/></geometry></collision>'
    imported = ph.load_model(robot(tmp_path / "r.urdf", shapes, base), positions={"j": 0.3})
    _, found = picture_of(imported)
    by_size = {tuple(solid["size"]): solid for solid in found}
    assert set(by_size) == {(1, 2, 3), (1, 1, 1), (0.2, 0.2, 0.8), (0.4, 0.4, 3), (1, 1, 0.5)}
    box, ball, capsule = (by_size[size] for size in ((1, 2, 3), (1, 1, 1), (0.2, 0.2, 0.8)))
    np.testing.assert_allclose(box["x"], [1, 0, 0] + about_z(0.3) @ [1, 2, 3], atol=1e-6)
    np.testing.assert_allclose(box["R"], about_z(0.8), atol=1e-6)
    np.testing.assert_allclose(ball["x"], [1, 0, 0], atol=1e-6)
    assert (box["colour"], capsule["colour"], capsule["shape"]) == ("#ff8000", "#00ff00", "capsule")
    assert ball["colour"] == by_size[0.4, 0.4, 3]["colour"] != by_size[1, 1, 0.5]["colour"]
    np.testing.assert_allclose(by_size[1, 1, 0.5]["x"], 0, atol=1e-12)


@pytest.mark.parametrize(
    ("write", "name", "scale", "colours"),
    [(stl, "t.stl", 1.0, 1), (binary_stl, "t.STL", 1.0, 1), (obj, "t.obj", 1.0, 2), (dae, "t.dae", 0.01, 1)],
)
def test_meshes_of_robots(tmp_path, write, name, scale, colours):
    write(tmp_path / name)
    text = MESH.format('<origin xyz="0 0 2" rpy="0 0 0.5"/>', name).replace('"/></g', '" scale="1 -2 3"/></g')
    description, found = picture_of(ph.load_model(robot(tmp_path / "r.urdf", text), positions={"j": 0.3}))
    assert len(found) == colours
    wanted = [1, 0, 2] + (scale * TETRA * [1, -2, 3]) @ about_z(0.8).T
    drawn = np.unique(np.concatenate([corners(description, solid) for solid in found]), axis=0)
    np.testing.assert_allclose(in_order(drawn), in_order(wanted), atol=2e-3)
    if colours == 2:
        assert {solid["colour"] for solid in found} == {"#ff0000", "#0000ff"}


def test_meshes_are_found_in_packages(tmp_path):
    stl(tmp_path / "maker" / "meshes" / "t.stl")
    path = robot(tmp_path / "maker" / "urdf" / "r.urdf", MESH.format("", "package://maker/meshes/t.stl"))
    assert read(path)[1] == ""
    robot(path, MESH.format("", "../meshes/t.stl"))
    assert "../meshes/t.stl (outside of the folder" in read(path)[1]
    (tmp_path / "maker" / "package.xml").write_text("<package/>")
    assert read(path)[1] == ""
    robot(path, MESH.format("", "package://another/meshes/t.stl"))
    assert "package://another/meshes/t.stl (not found)" in read(path)[1]
    for folder in (tmp_path / "maker", [str(tmp_path / "maker" / "meshes")]):
        imported, said = read(path, mesh_paths=folder)
        assert (said, len(imported.looks.shapes)) == ("", 1)


def test_all_that_is_missing_is_named_once_and_moves_nothing(tmp_path):
    (tmp_path / "bad.stl").write_text("no mesh")
    (tmp_path / "lfs.stl").write_text("version https://git-lfs.github.com/spec/v1\n")
    gone = MESH.format("", "a.stl") + MESH.format("", "b.stl")
    path = robot(tmp_path / "r.urdf", gone + gone, MESH.format("", "a.stl"))
    imported, said = read(path)
    assert said.count("a.stl (not found)") == said.count("b.stl (not found)") == 1
    assert "mesh_paths=" in said
    assert [i.what for i in imported.not_carried] == []
    _, said = read(robot(path, MESH.format("", "bad.stl") + MESH.format("", "lfs.stl")))
    assert "bad.stl (can't be read" in said
    assert "Git LFS" in said
    without = ph.load_model(robot(tmp_path / "r.urdf", ""))
    for field in ("mass", "inertia", "x"):
        mine, theirs = (getattr(one.model.bodies[0], field) for one in (imported, without))
        np.testing.assert_array_equal(mine, theirs)


def test_nothing_outside_of_the_tree_is_read(tmp_path):
    outside = stl(tmp_path / "elsewhere" / "t.stl")
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "link.stl").symlink_to(outside)
    (folder / "inside.stl").symlink_to(stl(folder / "real.stl"))
    for name in ("../elsewhere/t.stl", str(outside), f"file://{outside}", "link.stl"):
        path = robot(folder / "r.urdf", MESH.format("", name))
        assert f"{name} (outside of the folder" in read(path)[1]
        imported, said = read(path, mesh_paths=[outside.parent])
        assert (said, len(imported.looks.shapes)) == ("", 1)
    assert read(robot(folder / "r.urdf", MESH.format("", "inside.stl")))[1] == ""
    text = path.read_text()
    assert "(not found)" in read(text)[1]
    assert read(text, mesh_paths=folder)[1] == ""
    # Folders that hold much besides are no packages, whatever a file calls them.
    top = tmp_path.absolute().parts[1]
    robot(path, MESH.format("", f"package://{top}/{outside.relative_to('/' + top)}"))
    assert "(not found)" in read(path)[1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_pipes_and_devices_are_refused(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe.stl")
    (tmp_path / "null.stl").symlink_to("/dev/null")
    with unblock(tmp_path / "pipe.stl"):
        if kind == "urdf":
            path = robot(tmp_path / "r.urdf", MESH.format("", "pipe.stl") + MESH.format("", "null.stl"))
        else:
            assets = '<mesh file="pipe.stl"/><mesh file="null.stl"/>'
            path = mjcf(tmp_path / "m.xml", '<geom type="mesh" mesh="pipe"/><geom type="mesh" mesh="null"/>', assets)
        _, said = read(path, mesh_paths=["/dev", tmp_path])
    assert "pipe.stl (no regular file)" in said
    assert "null.stl (no regular file)" in said


def test_meshes_of_mjcf_are_where_the_file_puts_them(tmp_path):
    # MuJoCo moves the vertices to the centre of the mesh and turns them to its principal axes.
    away = TETRA + np.array([5.0, 0, 0])
    binary_stl(tmp_path / "parts" / "t.stl", away)
    body = '<geom type="mesh" mesh="t" pos="0 0 2" euler="0 0 30" contype="0" conaffinity="0" rgba="1 0 0 1"/>'
    path = mjcf(tmp_path / "m.xml", body, '<mesh file="t.stl" scale="1 1 2"/>', 'meshdir="parts"')
    description, (solid,) = picture_of(ph.load_model(path, positions={"j": 0.3}))
    turn = about_z(np.pi / 2 + 0.3)
    wanted = [1, 0, 0] + ([0, 0, 2] + (away * [1, 1, 2]) @ about_z(np.pi / 6).T) @ turn.T
    np.testing.assert_allclose(corners(description, solid), in_order(wanted), atol=2e-3)
    assert solid["colour"] == "#ff0000"


def test_solids_of_mjcf(tmp_path):
    body = (
        '<geom type="capsule" fromto="0 0 0 2 0 0" size="0.1"/><geom type="box" size="1 2 3" group="3"/>'
        '<geom type="ellipsoid" size="0.1 0.2 0.3" material="teal"/><geom type="cylinder" size="0.2 1.5" group="2"/>'
        '<body name="hidden" pos="0 0 5"><joint name="k"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        '<geom type="sphere" size="0.3" group="4"/></body>'
    )
    path = mjcf(tmp_path / "m.xml", body, '<material name="teal" rgba="0 0.5 0.5 1"/>')
    _, found = picture_of(ph.load_model(path))
    by_shape = {(solid["name"], solid["shape"]): solid for solid in found}
    assert set(by_shape) == {("arm", "capsule"), ("arm", "ellipsoid"), ("arm", "cylinder"), ("hidden", "ellipsoid")}
    capsule = by_shape["arm", "capsule"]
    half = capsule["R"] @ [0, 0, (capsule["size"][2] - capsule["size"][0]) / 2]
    np.testing.assert_allclose(in_order(capsule["x"] + [half, -half]), in_order(np.array([[1.0, 0, 0], [1, 2, 0]])))
    assert by_shape["arm", "ellipsoid"]["size"] == [0.2, 0.4, 0.6]
    assert by_shape["arm", "ellipsoid"]["colour"] == "#008080"
    np.testing.assert_allclose(by_shape["hidden", "ellipsoid"]["x"], [1, 0, 5], atol=1e-7)


def test_planes_end_and_level_ones_are_the_floor(tmp_path):
    path = mjcf(tmp_path / "m.xml", '<geom type="sphere" size="0.3"/>')
    planes = '<geom type="plane" size="0 0 1" pos="0 0 -2"/><geom type="plane" size="0 3 1" zaxis="1 0 0"/>'
    path.write_text(path.read_text().replace("<worldbody>", f"<worldbody>{planes}"))
    imported = ph.load_model(path)
    description, found = picture_of(imported)
    (wall,) = (solid for solid in found if solid["row"] < 0)
    assert description["floor"] == -2.0
    assert wall["framed"] is False
    assert 0 < max(wall["size"]) < 10
    np.testing.assert_allclose(wall["R"][:, 2], [1, 0, 0], atol=1e-7)
    np.testing.assert_allclose(wall["x"] + wall["R"][:, 2] * wall["size"][2] / 2, 0, atol=1e-6)
    solution = ph.simulate(imported.problem(t1=0.1))
    export(solution, tmp_path / "run.html")
    assert '"floor": -2.0' in (tmp_path / "run.html").read_text()


def test_height_fields_are_meshes(tmp_path):
    path = mjcf(tmp_path / "m.xml", '<geom type="sphere" size="0.3"/>')
    field = '<hfield name="h" nrow="3" ncol="2" size="1 2 0.5 0.1" elevation="0 0 0 0 0 1"/>'
    text = path.read_text().replace("<asset>", f"<asset>{field}")
    path.write_text(text.replace("<worldbody>", '<worldbody><geom type="hfield" hfield="h" pos="0 0 7"/>'))
    description, found = picture_of(ph.load_model(path))
    (ground,) = (solid for solid in found if solid["row"] < 0)
    # Of the rows of a file the first is the farthest along y.
    points = corners(description, ground)
    assert len(points) == 6
    np.testing.assert_allclose(points[np.argmax(points[:, 2])], [1, -2, 7.5], atol=1e-3)
    np.testing.assert_allclose(np.ptp(points, axis=0), [2, 4, 0.5], atol=1e-3)


def test_mjcf_is_read_without_what_is_only_seen(tmp_path):
    assets = (
        '<mesh file="gone.stl"/><texture name="skin" type="2d" file="gone.png"/><material name="s" texture="skin"/>'
    )
    body = '<geom name="seen" type="mesh" mesh="gone" group="1"/><geom type="box" size="1 1 1" material="s"/>'
    path = mjcf(tmp_path / "m.xml", body, assets)
    imported, said = read(path)
    assert said.count("gone.stl (not found)") == said.count("gone.png (not found)") == 1
    assert [shape.kind for shape in imported.looks.shapes] == ["box"]
    assert float(imported.model.bodies[0].mass) == 1.0
    found, said = read(path, mesh_paths=binary_stl(tmp_path / "more" / "gone.stl").parent)
    assert "gone.stl" not in said
    assert sorted(shape.kind for shape in found.looks.shapes) == ["box", "mesh"]


def test_meshes_that_give_inertia_are_asked_for(tmp_path):
    path = mjcf(tmp_path / "own" / "m.xml", '<geom type="mesh" mesh="t"/>', '<mesh file="../t.stl"/>')
    text = path.read_text()
    path.write_text(text[: text.index("<inertial")] + text[text.index("<geom") :])
    binary_stl(tmp_path / "t.stl")
    with pytest.raises(
        ValueError, match=r"inertia of body `arm` comes from the mesh \.\./t\.stl \(outside.*mesh_paths"
    ):
        ph.load_model(path)
    imported, said = read(path, mesh_paths=tmp_path)
    # The volume of the tetrahedron with the density of water.
    assert (float(imported.model.bodies[0].mass), said) == (pytest.approx(1000.0), "")


def test_machines_without_shapes_are_skeletons(tmp_path):
    wild = MASS.replace('ixx="1" iyy="1"', 'ixx="1e6" iyy="1e6"')
    second = (
        f'<link name="tip">{wild}</link><joint name="k" type="prismatic"><parent link="arm"/><child link="tip"/>'
        '<origin xyz="0 2 0"/><axis xyz="0 1 0"/><limit effort="1" velocity="1"/></joint></robot>'
    )
    path = robot(tmp_path / "r.urdf", "")
    path.write_text(path.read_text().replace("</robot>", second))
    imported = ph.load_model(path, positions={"j": np.pi / 2})
    description, found = picture_of(imported)
    assert {solid["shape"] for solid in found} == {"frame"}
    assert max(max(solid["size"]) for solid in found) < 0.5
    places = {solid["name"]: solid["x"] for solid in found}
    np.testing.assert_allclose(places["tip"], [-1, 0, 0], atol=1e-6)
    bodies = imported.model.bodies
    ends = [
        [np.asarray(bodies[row].x) + np.asarray(bodies[row].R) @ point if row >= 0 else np.array(point)]
        for line in description["lines"]
        for row, point in zip(line["rows"], line["points"], strict=True)
    ]
    lines = np.array(ends).reshape(-1, 2, 3)
    wanted = [[[0, 0, 0], [1, 0, 0]], [[1, 0, 0], [-1, 0, 0]], [[-1, 0, 0], [-1.2, 0.1, 0.3]]]
    np.testing.assert_allclose(lines, wanted, atol=1e-6)


def test_large_meshes_are_made_coarser_and_pages_have_a_limit(tmp_path, monkeypatch):
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=5)
    (tmp_path / "ball.stl").write_bytes(ball.export(file_type="stl"))
    ball.apply_scale([1, 1, 2])
    (tmp_path / "egg.stl").write_bytes(ball.export(file_type="stl"))
    path = robot(tmp_path / "r.urdf", MESH.format("", "ball.stl") + MESH.format("", "egg.stl"))
    imported = ph.load_model(path)

    def faces():
        description, found = picture_of(imported)
        assert len(found) == 2
        return [len(base64.b64decode(mesh["faces"])) // 6 for mesh in description["meshes"].values()]

    assert all(1000 < count <= 2000 for count in faces())
    monkeypatch.setattr(machines, "MOST_FACES_A_PAGE", 600)
    assert 300 < sum(faces()) <= 600


def test_decimated_meshes_are_stored_for_the_files_that_they_were_read_from(tmp_path, monkeypatch):
    import trimesh

    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "programs")
    monkeypatch.setattr(machines, "_WORTH_STORING", 0.0)
    ball = trimesh.creation.icosphere(subdivisions=3)
    (tmp_path / "ball.stl").write_bytes(ball.export(file_type="stl"))
    mesh = MESH.format("", "ball.stl")
    path = robot(tmp_path / "r.urdf", mesh + mesh.replace("/>", ' scale="1 1 2"/>', 1))

    def triangles():
        shapes = ph.load_model(path).looks.read()[0].shapes
        return [part.triangles.digest() for shape in shapes for part in shape.parts]

    first = triangles()
    assert len(set(first)) == 2
    assert len(disk_cache.files()) == 1
    with monkeypatch.context() as m:
        m.setattr(machines, "_read", lambda shapes: pytest.fail("read again"))
        assert triangles() == first
    # What decides the triangles is part of the key: numbers of a file, and limits of a page.
    ball.apply_scale([1, 1, 3])
    (tmp_path / "ball.stl").write_bytes(ball.export(file_type="stl"))
    second = triangles()
    monkeypatch.setattr(machines, "MOST_FACES_A_PAGE", 600)
    third = triangles()
    assert len({*first, *second, *third}) == 6
    assert len(disk_cache.files()) == 3


def test_stored_runs_need_no_files_for_their_pages(tmp_path):
    stl(tmp_path / "more" / "t.stl")
    path = robot(tmp_path / "r.urdf", MESH.format("", "t.stl"))
    problem = ph.load_model(path, mesh_paths=tmp_path / "more").problem(t1=0.01)
    ph.simulate(problem, store=tmp_path / "run.zarr")
    assert ph.resume(tmp_path / "run.zarr", 0.02).stats["t_reached"] == pytest.approx(0.02)
    (tmp_path / "more" / "t.stl").unlink()
    path.unlink()
    run = ph.load(tmp_path / "run.zarr")
    export(run, tmp_path / "run.csv")
    with pytest.raises(KeyError, match=r"can't be computed from the states: There is no file .*r\.urdf"):
        _ = next(iter(run.joints.values())).force
    export(run, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert next(iter(problem.scene.meshes.values()))["vertices"] in text


@pytest.mark.parametrize("given", ["nowhere", ["nowhere"], 3, {"a": 1}, [3]])
def test_folders_that_are_none_are_named(tmp_path, given):
    path = robot(tmp_path / "r.urdf", "")
    with pytest.raises(ValueError, match="`mesh_paths` must be folders"):
        ph.load_model(path, mesh_paths=given)

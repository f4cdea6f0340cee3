from __future__ import annotations

import base64
import json
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
import trimesh

from polhode.viewing.scene.mesh import Triangles, decimate


def volume(mesh):
    return trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).volume


def test_coarser_boxes_keep_their_corners():
    fine = trimesh.creation.box((1, 2, 3)).subdivide().subdivide().subdivide().subdivide().subdivide()
    mesh = decimate(Triangles(fine.vertices, fine.faces), 500)
    assert 100 < len(mesh.faces) <= 500
    assert volume(mesh) == pytest.approx(6.0, rel=1e-6)
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [1, 2, 3], rtol=1e-6)


@pytest.mark.parametrize("most", [2000, 200])
def test_coarser_balls_stay_round(most):
    fine = trimesh.creation.icosphere(subdivisions=5)
    mesh = decimate(Triangles(fine.vertices, fine.faces), most)
    assert 0.5 * most < len(mesh.faces) <= most
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices, axis=1), 1, atol=10 / most)


def test_small_meshes_stay_as_they_are_but_for_faces_that_are_none():
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [np.nan, 0, 0]])
    mesh = decimate(Triangles(corners, np.array([[0, 1, 2], [0, 1, 3], [3, 2, 1], [0, 1, 4]])))
    assert len(mesh.faces) == 1
    assert len(mesh.vertices) == 3


def test_packed_meshes_keep_four_digits():
    mesh = Triangles(np.random.default_rng(0).normal(size=(30, 3)) * [1, 10, 0], np.arange(30).reshape(10, 3))
    packed, (centre, extents) = mesh.pack(), mesh.bounds()
    unit = np.frombuffer(base64.b64decode(packed["vertices"]), "<u2").reshape(-1, 3) / 65535 - 0.5
    np.testing.assert_allclose(centre + unit * extents, mesh.vertices, atol=5e-4)
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(packed["faces"]), "<u2").reshape(-1, 3), mesh.faces)


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the scripts")
def test_the_page_unpacks_meshes_with_their_normals():
    box = trimesh.creation.box((1, 2, 3))
    mesh = Triangles(box.vertices, box.faces)
    web = resources.files("polhode.viewing.page").joinpath("web")
    script = "\n".join(web.joinpath(name).read_text(encoding="utf-8") for name in ("maths.js", "meshes.js"))
    call = f"console.log(JSON.stringify(packedMesh({json.dumps(mesh.pack())}, [1, 2, 3])))"
    run = subprocess.run(["node", "-e", f"{script}\n{call}"], check=True, capture_output=True, text=True)
    numbers = np.array(json.loads(run.stdout)).reshape(-1, 3, 6)
    np.testing.assert_allclose(numbers[..., :3], (box.vertices / [1, 2, 3])[box.faces], atol=1e-4)
    # As the shader turns them back: edges of 90° are sharp.
    normals = numbers[..., 3:] / [1, 2, 3]
    np.testing.assert_allclose(normals, np.repeat(box.face_normals[:, None], 3, axis=1), atol=1e-3)

"""Files of SDFormat: what they include, what is lost, what is drawn, and what can't be read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sdf_files import axis, frame, joint, link, load, matrix, model, place, pose, sdf
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app
from polhode.importers import bounds

A, B, C, D = np.random.default_rng(5).uniform(-1, 1, (4, 6))
CONFIG = '<model><name>{0}</name><sdf version="1.5">old.sdf</sdf><sdf version="1.9">{0}.sdf</sdf></model>'


Z = axis((0, 0, 1))
SELF = axis((0, 0, 1), '<mimic joint="j"/>')


def include(uri, *inside, merge=""):
    return f"<include{merge}><uri>{uri}</uri>{''.join(inside)}</include>"


@pytest.fixture
def arm(tmp_path):
    """A folder with a model of the old frames of axes."""
    folder = tmp_path / "models" / "arm"
    folder.mkdir(parents=True)
    (folder / "model.config").write_text(CONFIG.format("arm"))
    parts = (
        pose(B),
        link("upper", pose(C)),
        frame("eye", D, "upper"),
        joint("j", "revolute", "world", "upper", axis((1, 0, 0))),
    )
    (folder / "arm.sdf").write_text(model(*parts, name="arm"))
    (folder / "old.sdf").write_text("not read")
    return folder


def test_models_are_included_by_the_names_of_their_folders(tmp_path, arm):
    renamed = include("model://arm", "<name>other</name>", pose(A))
    placed = include("model://arm", "<name>third</name><placement_frame>eye</placement_frame>", pose(A))
    (tmp_path / "w.sdf").write_text(sdf(f'<world name="w">{include("model://arm")}{renamed}{placed}</world>'))
    loaded = ph.load_model(tmp_path / "w.sdf", mesh_paths=arm.parent)
    assert [*loaded.joints] == ["arm::j", "other::j", "third::j"]
    a, b, c, d = map(matrix, (A, B, C, D))
    assert place(loaded, "arm::upper") == pytest.approx(b @ c, abs=1e-14)
    assert place(loaded, "other::upper") == pytest.approx(a @ c, abs=1e-14)
    assert place(loaded, "third::upper") == pytest.approx(a @ np.linalg.inv(d), abs=1e-14)
    # Beside the file, without a folder to look in, and by the path of the file.
    for uri in ("model://arm", "arm", "arm/arm.sdf"):
        (arm.parent / "w.sdf").write_text(sdf(f'<world name="w">{include(uri, "<static>1</static>")}</world>'))
        with pytest.raises(ValueError, match=r"no moving bodies.*Take <static> out"):
            ph.load_model(arm.parent / "w.sdf")


def test_merged_models_lend_their_elements(tmp_path, arm):
    merged = include("model://arm", pose(A, "base"), merge=' merge="true"')
    (tmp_path / "m.sdf").write_text(
        model(link("base"), merged, link("hand", pose(B, "eye")), joint("k", "ball", "upper", "hand"))
    )
    loaded = ph.load_model(tmp_path / "m.sdf", mesh_paths=arm.parent)
    assert [*loaded.joints] == ["j", "k", "base"]
    here = matrix(A) @ matrix(C)
    assert place(loaded, "upper") == pytest.approx(here, abs=1e-14)
    assert place(loaded, "hand") == pytest.approx(here @ matrix(D) @ matrix(B), abs=1e-14)
    placed = include("model://arm", pose(A, "base"), "<placement_frame>eye</placement_frame>", merge=' merge="true"')
    (tmp_path / "m.sdf").write_text(model(link("base"), placed))
    loaded = ph.load_model(tmp_path / "m.sdf", mesh_paths=arm.parent)
    assert place(loaded, "upper") == pytest.approx(matrix(A) @ np.linalg.inv(matrix(D)), abs=1e-14)


def write(folder, name, *inside):
    (folder / name).write_text(model(*inside, name=name[0]))
    return include(name)


def test_circles_of_files_end(tmp_path):
    write(tmp_path, "a.sdf", link("l"), include("b.sdf"))
    write(tmp_path, "b.sdf", include("a.sdf"))
    with pytest.raises(ValueError, match=r"a.sdf` can't be read: `b.sdf`: `a.sdf`: .*lead around in a circle"):
        ph.load_model(tmp_path / "a.sdf")


def test_files_that_multiply_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "MOST_ELEMENTS", 500)
    inner = link("l")
    for name in "edcba":
        inner = "".join(include(f"{name}.sdf", f"<name>{i}</name>") for i in range(6)) * bool(
            write(tmp_path, f"{name}.sdf", inner)
        )
    (tmp_path / "top.sdf").write_text(model(inner))
    with pytest.raises(ValueError, match="more than 500 elements"):
        ph.load_model(tmp_path / "top.sdf")


def test_models_within_models_are_bounded():
    text = link("l")
    for i in range(60):
        text = f'<model name="m{i}">{text}</model>'
    with pytest.raises(ValueError, match="20 deep"):
        ph.load_model(sdf(text))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("https://fuel.gazebosim.org/1.0/x", "nothing is downloaded"),
        ("model://nowhere", r"which is not found. Name the folder that holds it: mesh_paths=\[…\]"),
        ("../secret.sdf", "which may not be read: .*outside of the folder"),
        ("", "An <include> has no <uri>"),
        ("bad.sdf", "`bad.sdf`: It is not well-formed XML"),
        ("robot.sdf", "`robot.sdf`: It has the root <robot>"),
        ("two.sdf", "`two.sdf`: It has 2 models"),
        ("old.sdf", "`old.sdf`: It is SDFormat 1.2; versions from 1.4 on"),
    ],
)
def test_what_cannot_be_included_is_named(tmp_path, uri, said):
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret.sdf").write_text(model(link("l")))
    (folder / "bad.sdf").write_text("<sdf>")
    (folder / "robot.sdf").write_text("<robot/>")
    (folder / "two.sdf").write_text(sdf('<model name="a"/><model name="b"/>'))
    (folder / "old.sdf").write_text(model(link("l"), version="1.2"))
    (folder / "m.sdf").write_text(model(link("l"), include(uri)))
    with pytest.raises(ValueError, match=said):
        ph.load_model(folder / "m.sdf")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<sdf/>", "<sdf> has the version ''"),
        (sdf(), "no <world> and no <model>"),
        (sdf('<world name="a"/><world name="b"/>'), "more than one world or model: <world> `a`, <world> `b`"),
        (model(link("a"), joint("j", "floating", "world", "a")), "Joint `j` has the type 'floating'; known: revolute"),
        (model(link("a"), joint("j", "revolute", "world", "a")), "Joint `j` has no <axis>"),
        (model(link("a"), joint("j", "ball", "a", "a")), "joins link `a` to itself"),
        (model(link("a"), '<joint name="j" type="ball"><parent>a</parent></joint>'), "Joint `j` has no <child>"),
        (model(link("a"), joint("j", "revolute", "world", "a", axis((0, 0, 0)))), "of <axis> of joint `j` is zero"),
        (model(link("a", mass=-1)), "The mass of link `a` is -1"),
        (model(link("a", "<gravity>maybe</gravity>")), "<gravity> of link `a` must be true or false, it is 'maybe'"),
        (model(link("a", '<inertial auto="true"/>')), "no collision to take masses from"),
        (model(link("a"), joint("j", "screw", "world", "a", Z, "<thread_pitch>0</thread_pitch>")), "zero; give"),
        (model(link("a"), joint("j", "gearbox", "world", "a", Z, axis((0, 0, 1), tag="axis2"))), "reference_body"),
        (model(link("a"), joint("j", "revolute", "world", "a", SELF)), "mimics itself"),
        (sdf('<world name="w"><physics><max_step_size>0</max_step_size></physics></world>'),
         "<max_step_size> of <physics> must be greater than zero"),
    ],
)  # fmt: skip
def test_documents_that_cannot_be_read_are_explained(text, said):
    with pytest.raises(ValueError, match=r"XML text can't be read: ") as error:
        ph.load_model(text)
    assert said in str(error.value)
    assert ph.load_model(model(link("a"))).joints["a"].kind == "free"


def test_options_of_urdf_are_refused():
    with pytest.raises(ValueError, match=r"`floating` is for URDF.*floats unless it is <static>"):
        ph.load_model(model(link("a")), floating=True)


def test_newer_versions_are_read_with_a_warning():
    with pytest.warns(ph.importers.ModelFileWarning, match=r"SDFormat 1.12 is newer than 1.11"):
        ph.load_model(model(link("a"), version="1.12"))


HIT = '<collision name="c"><geometry><sphere><radius>1</radius></sphere></geometry></collision>'


SENSOR, MOTOR = '<sensor name="s" type="imu"/>', "<physics><ode><velocity>3</velocity></ode></physics>"


def test_what_has_no_place_in_a_model_is_listed():
    limit = "<limit><lower>-1</lower><upper>1</upper><stiffness>5</stiffness></limit>"
    robot = (
        link("a", HIT, "<velocity_decay><linear>0.1</linear></velocity_decay><kinematic>1</kinematic>", SENSOR),
        link("b", HIT, "<enable_wind>1</enable_wind><velocity_decay/>"),
        link("k", "<inertial><fluid_added_mass><xx>1</xx></fluid_added_mass></inertial><kinematic>0</kinematic>"),
        joint("j", "revolute", "a", "b", axis((0, 0, 1), limit, '<mimic joint="ball"/>'), MOTOR),
        joint("ball", "ball", "b", "k"),
        joint("g", "gearbox", "a", "b", Z, axis((0, 0, 1), tag="axis2"),
              "<gearbox_reference_body>k</gearbox_reference_body>"),
        "<plugin name='p' filename='f'/><springs/><self_collide>true</self_collide>",
        "<x:spin xmlns:x='urn:x'/>",
    )  # fmt: skip
    world = (
        "<wind><linear_velocity>1 0 0</linear_velocity></wind><light name='sun' type='point'/><state world_name='w'/>"
    )
    actor = "<actor name='walker'/>"
    loaded = ph.load_model(sdf(f'<world name="w">{world}{actor}<model name="m">', *robot, "</model></world>"))
    assert {item.what: item.names for item in loaded.not_carried} == {
        "actors": ("walker",),
        "states": (),
        "plugins": ("p",),
        "unknown elements": ("<springs> of m",),
        "custom elements": ("<spin> of m",),
        "fluid": ("m::k",),
        "velocity_decay": ("m::a",),
        "kinematic links": ("m::a",),
        "wind": ("m::b",),
        "parameters of ODE": ("m::j",),
        "stiffness and dissipation of stops": ("m::j",),
        "contacts": ("m::a", "m::b"),
        "mimic": ("m::j after m::ball",),
        "gearboxes": ("m::g",),
    }
    assert not load(model(link("a", HIT), link("b", HIT), joint("j", "ball", "a", "b"))).not_carried


def test_visuals_are_drawn(tmp_path):
    def visual(geometry, more=""):
        return f'<visual name="v">{more}<geometry>{geometry}</geometry></visual>'

    red = "<material><diffuse>1 0 0 1</diffuse></material>"
    shapes = (
        visual("<box><size>1 2 3</size></box>", red + pose(A)),
        visual("<sphere><radius>0.5</radius></sphere>", "<transparency>1</transparency>"),
        visual("<sphere><radius>0.5</radius></sphere>"),
        visual("<ellipsoid><radii>1 2 3</radii></ellipsoid>"),
        visual("<cylinder><radius>0.5</radius><length>2</length></cylinder>"),
        visual("<capsule><radius>0.5</radius><length>2</length></capsule>", pose(A, "f")),
        visual("<mesh><uri>meshes/t.stl</uri><scale>2 2 2</scale></mesh>"),
        visual("<polyline/>"),
    )
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "t.stl").write_text(
        "solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid\n"
    )
    floor = "<plane><normal>0 1 0</normal><size>4 5</size></plane>"
    ground = f'<model name="g"><static>1</static>{link("l", visual(floor))}</model>'
    bare = link("b", HIT)
    robot = f'<model name="m">{pose(B)}{link("l", *shapes)}{bare}{frame("f", C, "l")}</model>'
    (tmp_path / "w.sdf").write_text(sdf(f'<world name="w">{ground}{robot}</world>'))
    with pytest.warns(ph.importers.ModelFileWarning, match="<polyline> of visual `v` of link `m::l`"):
        loaded = ph.load_model(tmp_path / "w.sdf")
    drawn = {(shape.link, shape.kind): shape for shape in loaded.looks.shapes}
    sizes = {key: shape.size.tolist() for key, shape in drawn.items()}
    assert sizes == {
        ("g::l", "plane"): [4, 5, 0],
        ("m::l", "box"): [1, 2, 3],
        ("m::l", "ellipsoid"): [2, 4, 6],
        ("m::l", "cylinder"): [1, 1, 2],
        ("m::l", "capsule"): [1, 1, 3],
        ("m::l", "mesh"): [0, 0, 0],
        ("m::b", "ellipsoid"): [2, 2, 2],
    }
    assert drawn["m::l", "box"].colour == "#ff0000"
    assert drawn["m::l", "capsule"].x == pytest.approx((matrix(C) @ matrix(A))[:3, 3])
    assert drawn["g::l", "plane"].R[:, 2] == pytest.approx([0, 1, 0])
    (part,) = drawn["m::l", "mesh"].mesh.parts()
    assert part.triangles.bounds()[1] == pytest.approx([2, 2, 0], abs=1e-5)


def test_the_command_line_takes_such_files(tmp_path):
    (tmp_path / "p.sdf").write_text(model(link("l"), joint("j", "revolute", "world", "l", axis((0, 1, 0)))))
    seen = CliRunner().invoke(app, ["inspect", str(tmp_path / "p.sdf"), "--json"])
    contents = json.loads(seen.stdout)
    assert (contents["name"], contents["totals"]["degrees_of_freedom"]) == ("m", 1)
    assert contents["gravity"] == [0, 0, -9.8]
    (tmp_path / "p.world").write_text((tmp_path / "p.sdf").read_text())
    assert CliRunner().invoke(app, ["inspect", str(tmp_path / "p.world")]).exit_code == 0


def test_runs_resume_and_models_are_written_as_mjcf(tmp_path):
    (tmp_path / "p.sdf").write_text(
        model(link("l", mass=1, at=(0, 0, -1, 0, 0, 0)), joint("j", "revolute", "world", "l", axis((0, 1, 0))))
    )
    loaded = ph.load_model(tmp_path / "p.sdf", positions={"j": 0.5})
    ph.simulate(loaded.problem(t1=0.01), store=tmp_path / "run.zarr")
    longer = ph.resume(tmp_path / "run.zarr", 0.02)
    assert longer.stats["t_reached"] == pytest.approx(0.02)
    again = load(loaded.to_mjcf())
    assert [*again.joints] == ["j"]
    assert again.links["l"].x == pytest.approx(np.asarray(loaded.links["l"].x))

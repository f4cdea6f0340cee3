from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app, models, output

PENDULUM = """<mujoco model="pendulum"><worldbody><body name="bob"><joint name="pivot" axis="0 1 0" limited="true"
range="-90 90"/><geom type="capsule" fromto="0 0 0 0 0 -1" size="0.02"/></body></worldbody></mujoco>"""


@pytest.fixture
def pendulum(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_a_model_file_runs_with_joints_set(pendulum):
    result = call(
        "run",
        pendulum,
        "--set",
        "pivot=0.5",
        "--set",
        "pivot.velocity=-1",
        "--set",
        "limits=false",
        "--t1",
        "0.1",
        "--json",
    )
    assert result.exit_code == 0, result.stderr
    output = json.loads(result.stdout)
    assert (output["problem"], output["integrator"], output["steps"]) == ("pendulum", "rkmk4", 50)
    assert (output["joints"], output["bodies"]) == (["pivot"], ["bob"])
    assert output["parameters"]["positions"] == {"pivot": 0.5}
    assert output["parameters"]["formulation"] == "minimal"
    assert output["choice"]["coordinates"].startswith("`minimal`: ")
    assert output["choice"]["method"].startswith("`rkmk4`: ")
    assert output["invariants"]["energy"] < 1e-8
    assert output["not_carried"] == []
    # θ ≈ 0.5 - t - (3g/4l) sin(0.5) t² to second order in the time.
    assert output["final"]["joint_positions"][0] == pytest.approx(0.5 - 0.1 - 7.36 * 0.479 * 0.01, abs=6e-3)


def test_floors_and_frictions_of_files_are_settings(pendulum):
    model = models.import_model(str(pendulum), {"floor": -2.0, "friction": 0.8}).model
    (floor,) = model.ground.shapes
    assert float(floor.point[2]) == -2.0
    assert [rule.friction for rule in model.contact_rules] == [0.8]
    with pytest.raises(ValueError, match="`--set contacts=…` must be true or false, got 'some'"):
        models.import_model(str(pendulum), {"contacts": "some"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.urdf"], "There is no file"),
        (["{pendulum}", "--set", "pivt=1"], "Did you mean `pivot`?"),
        (["{pendulum}", "--set", "flor=true"], "Did you mean the option `floor`?"),
        (["{pendulum}", "--set", "friction=0.5"], "nothing touches"),
        (["{pendulum}", "--set", "floating=perhaps"], "true or false"),
        (["{pendulum}", "--set", "floating=true"], "<freejoint/>"),
    ],
)
def test_wrong_model_files_and_settings_are_wrong_usage(pendulum, arguments, said):
    result = call("run", *(a.format(pendulum=pendulum) for a in arguments))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


SERVO = """<mujoco model="cart"><worldbody><body name="frame" pos="0 0 1"/><body name="cart">
<joint name="x" type="slide" axis="1 0 0" range="-1 1" damping="0.3" stiffness="4" springref="0.2"/>
<joint name="y" axis="0 1 0" armature="0.02" frictionloss="0.1"/><inertial pos="0 0 0" mass="2" diaginertia="1 2 2.5"/>
<body name="tip" pos="0 0 1"/><body name="ball [1]"><joint name="b" type="ball"/>
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><site name="s"/></body></body></worldbody>
<actuator><position name="servo" joint="x" kp="10" kv="1" gear="2" ctrlrange="-1 1"/><motor name="thrust" site="s"/>
<adhesion name="grip" body="frame" ctrlrange="0 1"/></actuator>
<equality><connect name="loop" body1="ball [1]" anchor="0 0 0"/></equality></mujoco>"""


@pytest.fixture
def servo(tmp_path):
    path = tmp_path / "servo.xml"
    path.write_text(SERVO)
    return path


@pytest.mark.exhaustive
def test_starts_and_controls_are_given_several_at_once(servo):
    open_chain = servo.with_name("open.xml")
    open_chain.write_text(SERVO.partition("<equality>")[0] + "</mujoco>")
    arguments = [
        "--positions",
        "x=0.3",
        "y=-0.2",
        "--controls",
        "servo=0.5",
        "--velocities",
        "y=-1",
        "--set",
        "x.velocity=2",
    ]
    result = call("run", *arguments, open_chain, "--t1", "0.01", "--json")
    assert result.exit_code == 0, result.stderr
    output = json.loads(result.stdout)["parameters"]
    assert output["positions"] == {"x": 0.3, "y": -0.2}
    assert output["velocities"] == {"y": -1, "x": 2}
    assert output["controls"] == {"servo": 0.5}


def test_values_in_a_row_belong_to_the_option_before_them():
    row = [
        "--positions",
        "a=1",
        "b=-2",
        "arm.urdf",
        "c=3",
        "--set",
        "d=4",
        "--controls=e=5",
        "--",
        "--positions",
        "f=6",
    ]
    expected = ["--positions", "a=1", "--positions", "b=-2", "arm.urdf", "c=3", *row[5:]]
    assert models.repeat_flags(row) == expected
    row = ["run.zarr", "film.gif", "--arrows", "joint force", "weight", "--tint", "curvature"]
    assert models.repeat_flags(row) == [*row[:4], "--arrows", *row[4:]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{servo}", "--positions", "x=1", "z=1"], "no joint `z`"),
        (["{servo}", "--velocities", "bb=1"], "Did you mean `b`?"),
        (["{servo}", "--controls", "sevro=1"], "Did you mean `servo`?"),
        (["{servo}", "--positions", "x"], "`--positions` takes KEY=VALUE"),
        (["{servo}", "--positions", "x=1", "x=2"], "given twice"),
        (["{servo}", "--positions", "x=1", "--set", "x=2"], "`x` is given by `--set` and by `--positions`"),
        (["heavy-top", "--positions", "x=1"], "`--positions` goes with model files"),
    ],
)
def test_wrong_starts_and_controls_are_wrong_usage(servo, arguments, said):
    result = call("run", *(a.format(servo=servo) for a in arguments))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_file_is_inspected(servo):
    result = call("inspect", servo, "--json")
    assert result.exit_code == 0, result.stderr
    contents = json.loads(result.stdout)
    cart, ball = contents["bodies"]
    assert (cart["parent"], ball["parent"], contents["ground"]) == (None, "cart", ["frame"])
    assert (cart["mass"], cart["principal_moments"], cart["fixed_to_it"]) == (2.0, [1.0, 2.0, 2.5], ["tip"])
    x, y = cart["joints"]
    assert (x["kind"], x["axis"], x["range"], x["actuators"]) == ("slide", [1, 0, 0], [-1, 1], ["servo"])
    assert (x["damping"], x["stiffness"], x["rest"]) == (0.3, 4.0, 0.2)
    assert (y["armature"], y["friction"], y["range"]) == (0.02, 0.1, None)
    drive, thrust, _ = contents["actuators"]
    assert (drive["kind"], drive["gear"], drive["control_limits"], drive["force_limits"]) == (
        "position",
        [2],
        [-1, 1],
        None,
    )
    assert thrust["on"] == ["site", "s"]
    assert contents["equalities"] == [
        {"name": "loop", "kind": "connect", "between": ["ball [1]", "world"], "active": True}
    ]
    assert contents["totals"]["degrees_of_freedom"] == 5
    assert contents["totals"]["mass"] == 3.0
    assert contents["carried"]["stops at the ends of ranges"] == 1
    assert [i["names"] for i in contents["not_carried"]] == [["grip"]]


def test_the_tree_of_a_file_names_units_and_losses(servo):
    result = call("inspect", servo)
    assert result.exit_code == 0, result.stderr
    shown = " ".join(result.stdout.replace("│", " ").split())
    for text in (
        "cart: 2 kg, principal moments 1, 2, 2.5 kg m², with tip",
        "slide x along (1 0 0), range -1 … 1 m, damping 0.3 N s/m, spring 4 N/m at rest at 0.2 m",
        "hinge y along (0 1 0), friction 0.1 N m, armature 0.02 kg m²",
        "actuator servo: position, gear 2, control -1 … 1",
        "── ball [1]: 1 kg",
        "connect equality loop: ball [1] – world",
        "2 bodies of 3 kg, 3 joints with 5 degrees of freedom",
        "not carried: actuators (grip): only those on hinges",
    ):
        assert text in shown
    assert call("inspect", "heavy-top").exit_code == call("inspect", "none.urdf").exit_code == 2


def test_limits_of_effort_and_velocity_are_told(tmp_path):
    path, weight = tmp_path / "arm.urdf", '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    links = "".join(f'<link name="{name}">{weight}</link>' for name in "abc")
    joints = "".join(
        f'<joint name="{ends}" type="continuous"><parent link="{ends[0]}"/><child link="{ends[1]}"/>{limit}</joint>'
        for ends, limit in (("ab", '<limit effort="3" velocity="2"/>'), ("bc", '<limit effort="0" velocity="0"/>'))
    )
    path.write_text(f'<robot name="arm">{links}{joints}</robot>')
    shown = " ".join(call("inspect", path).stdout.split())
    assert 'effort limits (1): kept by controllers with force_limits="joint"' in shown
    assert "velocity up to 2 rad/s" in shown
    assert "velocity limits (1): kept by nothing" in shown


def test_velocity_limits_that_a_run_exceeds_are_named_in_its_audit(tmp_path):
    path, out = tmp_path / "arms.urdf", tmp_path / "run.zarr"
    weight = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    links = "".join(f'<link name="{name}">{weight}</link>' for name in ("base", "fast", "slow", "rail", "any"))
    kinds = {"fast": "continuous", "slow": "continuous", "rail": "prismatic", "any": "continuous"}
    limits = {"fast": 2, "slow": 4, "rail": 2.5, "any": 0}
    joints = "".join(
        f'<joint name="to {name}" type="{kind}"><parent link="base"/><child link="{name}"/><axis xyz="1 0 0"/>'
        f'<limit effort="0" velocity="{limits[name]}"/></joint>'
        for name, kind in kinds.items()
    )
    path.write_text(f'<robot name="arms">{links}{joints}</robot>')
    rates = [f"to {name}=3" for name in kinds]
    result = call("run", str(path), "--velocities", *rates, "--t1", "0.1", "--out", str(out), "--json")
    expected = [
        f"joint to {name} moves at up to 3 {unit}, beyond its velocity limit of {limit} {unit}, which nothing keeps"
        for name, unit, limit in (("fast", "rad/s", "2"), ("rail", "m/s", "2.5"))
    ]
    assert json.loads(result.stdout)["audit"]["remarks"] == expected
    stored = ph.load(out)
    assert stored.audit().remarks == tuple(expected)
    assert expected[0] in str(stored.audit())
    assert (stored.joints["to fast"].velocity_limit, stored.joints["to any"].velocity_limit) == (2, float("inf"))


def test_orders_on_a_model_file(pendulum):
    arguments = ["convergence", pendulum, "--set", "pivot=0.5", "--integrator", "lie-midpoint", "--t1", "0.2", "--json"]
    result = call(*arguments, "--steps", "2e-2:1e-2:2", "--option", "coordinates=cayley")
    assert result.exit_code == 0, result.stderr
    output = json.loads(result.stdout)
    assert output["options"] == {"coordinates": "cayley"}
    assert output["reference"]["lie-midpoint"].startswith("rkmk6")
    assert output["orders"]["lie-midpoint"]["joint_positions"] == pytest.approx(2, abs=0.2)


def test_reasons_are_told_where_something_was_chosen(capsys):
    model = ph.Model()
    model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    models.explain(model.problem(t1=1.0), method=True)
    assert capsys.readouterr().err == "  `SO3xR3`: no joint carries a body\n  `rkmk4`: " + (
        "explicit and of order 4: no constraints, and nothing too fast for steps of 0.001\n"
    )
    models.explain(model.problem(t1=1.0), method=False)
    assert "rkmk4" not in capsys.readouterr().err
    models.explain(model.problem("SE3", t1=1.0, integrator="rkmk4"), method=True)
    assert capsys.readouterr().err == ""


def test_folders_of_meshes_are_given_by_an_option(tmp_path):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "t.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    path = tmp_path / "own" / "m.xml"
    path.parent.mkdir()
    path.write_text(
        '<mujoco><asset><mesh file="t.obj"/></asset><worldbody><body name="b"><joint name="j"/>'
        '<geom type="mesh" mesh="t"/></body></worldbody></mujoco>'
    )
    result = call("inspect", str(path))
    assert result.exit_code == 2
    assert "mesh_paths=" in result.stderr
    for arguments in (("--mesh-path", str(folder)), ("--set", f"mesh_paths={folder}")):
        result = call("inspect", str(path), *arguments, "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["totals"]["mass"] == pytest.approx(1000 / 6)
    result = call("run", "heavy-top", "--mesh-path", str(folder))
    assert "`--mesh-path` goes with model files" in result.stderr


@pytest.mark.exhaustive
def test_warnings_of_the_library_are_lines_without_a_program(tmp_path):
    (tmp_path / "arm.xml").write_text(PENDULUM.replace('range="-90 90"', 'range="30 90"'))
    # The entry point of the command, which sets the form of warnings, in a process of its own.
    command = [sys.executable, "-m", "polhode", "inspect", str(tmp_path / "arm.xml"), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.startswith("polhode: Joints start outside of their ranges")
    assert result.stderr.count("\n") == 1
    assert json.loads(result.stdout)["name"] == "pendulum"
    assert output.format_warning("of others", UserWarning, "file.py", 3) == "file.py:3: UserWarning: of others\n"

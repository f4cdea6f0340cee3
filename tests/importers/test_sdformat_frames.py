"""Poses of SDFormat over several frames and models, against products of matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from sdf_files import axis, frame, joint, link, load, matrix, model, place, pose, sdf

import polhode as ph

RANDOM = np.random.default_rng(7)
P = {name: RANDOM.uniform(-1, 1, 6) for name in "abcdefgh"}
M = {name: matrix(values) for name, values in P.items()}
inverse = np.linalg.inv


def test_poses_lead_over_links_frames_and_joints():
    loaded = load(
        model(
            pose(P["a"]),
            link("base", pose(P["b"])),
            frame("mount", P["c"], attached_to="base"),
            frame("eye", P["d"], relative_to="mount"),
            link("arm", pose(P["e"], "elbow")),
            # The default of a joint is its child; here it says another frame, which the arm hangs on.
            joint("elbow", "revolute", "base", "arm", pose(P["f"], "eye"), axis((0, 0, 1))),
            link("hand", pose(P["g"], "arm")),
            joint("wrist", "ball", "arm", "hand", pose(P["h"])),
        )
    )
    base = M["a"] @ M["b"]
    elbow = base @ M["c"] @ M["d"] @ M["f"]
    assert place(loaded, "base") == pytest.approx(base, abs=1e-14)
    assert place(loaded, "arm") == pytest.approx(elbow @ M["e"], abs=1e-14)
    assert place(loaded, "hand") == pytest.approx(elbow @ M["e"] @ M["g"], abs=1e-14)
    m, data = loaded.start.compiled, loaded.start.data
    anchors = {name: data.xanchor[m.joint(name).id] for name in ("elbow", "wrist")}
    assert anchors["elbow"] == pytest.approx(elbow[:3, 3], abs=1e-14)
    assert anchors["wrist"] == pytest.approx((elbow @ M["e"] @ M["g"] @ M["h"])[:3, 3], abs=1e-14)
    assert data.xaxis[m.joint("elbow").id] == pytest.approx(elbow[:3, 2], abs=1e-14)


def test_rotations_are_angles_degrees_or_quaternions():
    values = P["a"]
    degrees = [*values[:3], *np.rad2deg(values[3:])]
    quaternion = [*values[:3], *(2 * Rotation.from_euler("xyz", values[3:]).as_quat())]
    loaded = load(
        model(
            link("angles", pose(values)),
            link("degrees", pose(degrees, more='degrees="true"')),
            link("quaternion", pose(quaternion, more='rotation_format="quat_xyzw"')),
            link("nothing", "<pose/>"),
        )
    )
    for name in ("angles", "degrees", "quaternion"):
        assert place(loaded, name) == pytest.approx(M["a"], abs=1e-14)
    assert np.array_equal(place(loaded, "nothing"), np.eye(4))


def test_names_reach_into_models_within_models():
    inner = f'<model name="inner">{pose(P["b"])}{link("l", pose(P["c"]))}{frame("f", P["d"], attached_to="l")}</model>'
    outer = f'<model name="outer">{pose(P["a"])}{inner}{link("m", pose(P["e"], "inner::f"))}</model>'
    loaded = load(sdf(f'<world name="w">{outer}{frame("g", P["f"], "outer::inner::l")}',
                      f'<model name="far">{pose(P["g"], "g")}{link("l")}</model></world>'))  # fmt: skip
    here = M["a"] @ M["b"] @ M["c"]
    assert [*loaded.joints] == ["outer::m", "outer::inner::l", "far::l"]
    assert place(loaded, "outer::inner::l") == pytest.approx(here, abs=1e-14)
    assert place(loaded, "outer::m") == pytest.approx(here @ M["d"] @ M["e"], abs=1e-14)
    assert place(loaded, "far::l") == pytest.approx(here @ M["f"] @ M["g"], abs=1e-14)


def test_the_placement_frame_is_what_the_pose_of_a_model_places():
    parts = (
        pose(P["a"]),
        link("l", pose(P["b"])),
        frame("f", P["c"], attached_to="l"),
        f'<model name="n" placement_frame="f">{pose(P["d"], "l")}{link("k", pose(P["e"]))}',
        f"{frame('f', P['f'], 'k')}</model>",
    )
    loaded = load(model(*parts, attributes='placement_frame="f"'))
    own = M["a"] @ inverse(M["b"] @ M["c"])
    assert place(loaded, "l") == pytest.approx(own @ M["b"], abs=1e-14)
    nested = own @ M["b"] @ M["d"] @ inverse(M["e"] @ M["f"])
    assert place(loaded, "n::k") == pytest.approx(nested @ M["e"], abs=1e-14)


def test_joints_take_frames_for_the_links_they_are_attached_to():
    loaded = load(
        model(
            f'<model name="n">{link("k")}{link("j")}</model>',
            link("l", pose(P["a"])),
            frame("f", P["b"], attached_to="l"),
            frame("g", P["c"], attached_to="f"),
            joint("mount", "fixed", "world", "g"),
            # The frame of a model is attached to its canonical link.
            joint("hinge", "revolute", "g", "n", axis((1, 0, 0))),
            joint("slide", "prismatic", "n::k", "n::j", axis((0, 1, 0))),
            attributes='canonical_link="l"',
        )
    )
    assert loaded.links["l"] is loaded.model.ground
    assert [(joint.name, *(b.name for b in joint.ends)) for joint in loaded.joints.values()] == [
        ("hinge", "ground", "n::k"),
        ("slide", "n::k", "n::j"),
    ]


@pytest.mark.parametrize(
    ("version", "inside", "expected"),
    [
        ("1.4", "", np.eye(4)),
        ("1.5", "", M["a"] @ M["b"]),
        ("1.6", "<use_parent_model_frame>1</use_parent_model_frame>", np.eye(4)),
        ("1.7", "", M["a"] @ M["b"]),
    ],
)
def test_axes_have_the_frame_of_their_version(version, inside, expected):
    turn = joint("j", "revolute", "world", "l", pose(P["b"]), axis((0.6, 0, 0.8), inside))
    loaded = load(model(link("l", pose(P["a"])), turn, version=version))
    assert loaded.start.data.xaxis[0] == pytest.approx(expected[:3, :3] @ (0.6, 0, 0.8), abs=1e-14)


def test_axes_are_expressed_in_any_frame():
    parts = (link("l", pose(P["a"])), frame("f", P["b"], "l"), frame("g", P["c"]))
    turn = joint("j", "universal", "world", "l", axis((0, 0, 1), attributes='expressed_in="f"'),
                 axis((0, 1, 0), tag="axis2", attributes='expressed_in="g"'))  # fmt: skip
    loaded = load(model(*parts, turn))
    first, second = loaded.start.data.xaxis[:2]
    assert first == pytest.approx((M["a"] @ M["b"])[:3, 2], abs=1e-14)
    assert second == pytest.approx(M["c"][:3, 1], abs=1e-14)


def test_chains_of_a_thousand_poses_need_no_deep_stack():
    frames = [frame(f"f{i}", (1, 0, 0, 0, 0, 0), f"f{i - 1}" if i else "") for i in range(1500)]
    attached = [frame(f"g{i}", P["a"], "__model__", f"g{i - 1}" if i else "l") for i in range(1500)]
    parts = link("l", pose(P["b"], "f1499")), joint("j", "fixed", "world", "g1499"), link("free")
    loaded = load(model(*reversed(frames), *attached, *parts))
    assert loaded.links["l"] is loaded.model.ground
    assert loaded.start.pose(1).x == pytest.approx(np.add((1500, 0, 0), P["b"][:3]))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((link("a", pose(P["a"], "b")), link("b", pose(P["b"], "a"))), "around in a circle: a → b → a"),
        ((link("a", pose(P["a"], "c")),), "The pose of `a`: There is no frame `c` in model `m`. Known: a."),
        ((link("a", pose(P["a"], "world")),), "There is no frame `world` in model `m`"),
        ((link("a"), frame("f", P["a"], "", "g"), frame("g", P["a"], "a", "f"), joint("j", "ball", "f", "a")), "round"),
        ((link("a"), joint("j", "ball", "a", "world")), "The child of joint `j` is the world; exchange its ends"),
        ((link("a"), link("a")), "A <link> and a <link> of model `m` have the name `a`"),
        ((link("a"), frame("a", P["a"])), "A <link> and a <frame> of model `m` have the name `a`"),
        ((link("__model__"),), "is reserved"),
        ((link("a", "<pose>1 2 3</pose>"),), "<pose> of link `a` takes 6 finite number(s), got '1 2 3'"),
        ((link("a", "<pose>1 2 3 0 0 nan</pose>"),), "<pose> of link `a` takes 6 finite"),
        ((link("a", '<pose rotation_format="quat_xyzw">0 0 0 0 0 0 0</pose>'),), "a quaternion of zeros"),
        ((link("a"), joint("j", "ball", "a", "z")), "The child of joint `j`: There is no frame `z`"),
    ],
)  # fmt: skip
def test_wrong_frames_are_named(parts, said):
    with pytest.raises(ValueError, match="can't be read") as error:
        ph.load_model(model(*parts))
    assert said in str(error.value)

"""Contacts of model files: which shapes touch, with which numbers, and what is said of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph
from polhode.contact.distances import contact_points

FILE = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1" friction="0.4"/>
    <body name="left" pos="0 0 0.1"><freejoint/>
      <geom name="ball" type="sphere" size="0.1" mass="2" friction="0.7 0.01 0.001" condim="4"/></body>
    <body name="right" pos="1 0 0.1"><freejoint/>
      <geom name="cube" type="box" size="0.1 0.1 0.1" mass="1" {cube}/></body>
    <body name="inside" pos="1.05 0 0.3"><freejoint/><geom name="other" type="sphere" size="0.15" mass="1"/></body>
  </worldbody>
  {more}
</mujoco>
"""


def load(cube: str = "", more: str = "", **options):
    return ph.load_model(FILE.format(cube=cube, more=more), **options)


def pairs(model) -> set[frozenset[str]]:
    return {frozenset((rule.first.name, rule.second.name)) for rule in model.model.contact_rules}


def losses(model) -> dict[str, tuple[str, ...]]:
    return {item.what: item.names for item in model.not_carried}


def test_shapes_touch_as_the_file_says():
    model = load(contacts=True)
    assert pairs(model) == {
        frozenset(pair)
        for pair in (("world", "left"), ("world", "right"), ("world", "inside"), ("left", "right"), ("left", "inside"))
    }
    rule = next(r for r in model.model.contact_rules if {r.first.name, r.second.name} == {"world", "left"})
    # The larger numbers of both, and torsion for four dimensions.
    assert (rule.friction, rule.drilling, rule.rolling) == pytest.approx((0.7, 0.01, 0.0))


def test_what_overlaps_at_the_start_is_listed():
    assert losses(load(contacts=True)) == {"contacts": ("right–inside",)}


def test_without_a_request_bodies_pass_through_each_other():
    model = load()
    assert model.model.contact_rules == []
    assert "load_model(…, contacts=True)" in str(model.not_carried[0])


def test_a_floor_takes_the_place_of_planes_below_it():
    with_floor = pairs(load(contacts=True, floor=True))
    assert frozenset(("floor", "left")) in with_floor
    assert not any("world" in pair for pair in with_floor)
    # Shapes may come to a plane that lies above the floor, or is tilted.
    for more in (0.05, ph.shapes.Plane(rotation=ph.rotation_vector((0.3, 0, 0)), position=(0, 0, -3), name="tilted")):
        assert any("world" in pair for pair in pairs(load(contacts=True, floor=-0.05 if more == 0.05 else more)))


def test_bodies_below_the_ground_are_an_error_and_a_floor_takes_its_place():
    deep = FILE.replace('pos="0 0 0.1"', 'pos="0 0 0.07"').format(cube="", more="")
    with pytest.raises(ValueError, match=r"start in the ground: `world–left` by 0\.03\. .* `floor=True`"):
        ph.load_model(deep, contacts=True)
    with pytest.raises(
        ValueError, match=r"below the floor: `left` by 0\.04, `right` by 0\.01\. .* lower this one by 0\.04"
    ):
        ph.load_model(deep, floor=0.01)
    loaded = ph.load_model(deep, contacts=True, floor=True)
    (floor,) = loaded.model.ground.shapes
    assert float(floor.point[2]) == pytest.approx(-0.03, abs=1e-15)
    assert losses(loaded) == {"planes": ("world",), "contacts": ("right–inside",)}
    # Friction is still that of the plane and the cube.
    assert {rule.friction for rule in loaded.model.contact_rules if rule.first is floor} == {0.7, 1.0}
    # A floor that is lower than a plane is one of two, and the plane is above it.
    with pytest.raises(ValueError, match="in the ground"):
        ph.load_model(deep, contacts=True, floor=-0.5)


def test_links_that_stand_still_may_overlap_as_drawn():
    hand = """<mujoco><worldbody><geom name="table" type="box" size="1 1 .1" pos="0 0 -.1"/>{}
      <body name="palm" pos="0 0 1"><geom name="palm" type="box" size=".1 .1 .1"/>
      <body name="knuckle"><joint type="hinge"/><geom name="knuckle" type="sphere" size="0.02" mass="1"/>
      <body name="finger" pos="0 0 .05"><joint type="hinge"/><geom name="finger" type="sphere" size="0.06" mass="1"/>
      </body></body></body></worldbody></mujoco>"""
    loaded = ph.load_model(hand.format(""), contacts=True)
    assert losses(loaded)["contacts"] == ("palm–knuckle", "palm–finger")
    # Surroundings are no link: what starts in them is an error.
    ball = '<body name="ball" pos="0 .5 0.05"><freejoint/><geom type="sphere" size="0.1" mass="1"/></body>'
    with pytest.raises(ValueError, match=r"overlap at the start: .*ball.* by 0\.05"):
        ph.simulate(ph.load_model(hand.format(ball), contacts=True).problem(t1=0.01, h=0.01))


def test_all_feet_have_room():
    height = {3: 0.1, 4: 5e-4}
    feet = "".join(f'<geom type="sphere" size="0.1" mass="1" pos="{k} {k % 3} {height.get(k, 0)}"/>' for k in range(10))
    model = ph.load_model(
        f'<mujoco><worldbody><body pos="0 0 1"><freejoint/>{feet}</body></worldbody></mujoco>', floor=True
    )
    # One foot is lifted, and one is about to land.
    assert model.model.contact_capacity == 9


def test_a_floor_has_the_numbers_of_the_plane_whose_place_it_takes():
    """Shapes of one dimension slide on each other, and stand on planes of three; a priority decides alone."""
    slippery = 'condim="1" friction="0.1"'

    def on_floor(cube: str, xml: str = FILE):
        text = xml.format(cube=cube, more="")
        rules = ph.load_model(text, floor=True).model.contact_rules
        return next(rule for rule in rules if "right" in (rule.first.name, rule.second.name)).friction

    plane = '<geom name="floor" type="plane" size="5 5 .1" friction="0.4"/>'
    assert on_floor(slippery) == 0.4
    assert on_floor(slippery, FILE.replace(plane, "")) == 0.1
    assert on_floor(f'{slippery} priority="1"') == on_floor(f'{slippery} priority="1"', FILE.replace(plane, "")) == 0.0
    assert on_floor(slippery, FILE.replace(plane, plane.replace("/>", ' condim="1"/>'))) == 0.0


ARMS = """
<mujoco><worldbody><body name="base" pos="0 0 2"><freejoint/><geom name="base" type="sphere" size="0.05" mass="1"/>
  {arms}</body></worldbody></mujoco>
"""


def arm(name: str, x: float) -> str:
    """Two links of 0.4 m with balls at their ends."""
    return (
        f'<body name="{name}-upper" pos="{x} 0 0"><joint name="{name}-1" axis="0 1 0"/>'
        f'<geom name="{name}-upper" type="sphere" pos="0 0 -0.4" size="0.03" mass="1"/>'
        f'<body name="{name}-lower" pos="0 0 -0.4"><joint name="{name}-2" axis="1 1 0"/>'
        f'<geom name="{name}-lower" type="sphere" pos="0 0 -0.4" size="0.04" mass="1"/></body></body>'
    )


def test_shapes_that_joints_never_bring_together_have_no_contact():
    import mujoco

    xml = ARMS.format(arms=arm("a", -0.55) + arm("b", 0.55))
    carried = pairs(ph.load_model(xml, contacts=True))
    m = mujoco.MjModel.from_xml_string(xml)
    data, generator = mujoco.MjData(m), np.random.default_rng(0)
    nearest: dict[frozenset[str], float] = {}
    names = [mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_GEOM, k) for k in range(m.ngeom)]
    for _ in range(1000):
        data.qpos[7:] = generator.uniform(-np.pi, np.pi, 4)
        mujoco.mj_kinematics(m, data)
        for i in range(m.ngeom):
            for j in range(i):
                gap = np.linalg.norm(data.geom_xpos[i] - data.geom_xpos[j]) - m.geom_size[i, 0] - m.geom_size[j, 0]
                pair = frozenset((names[i], names[j]))
                nearest[pair] = min(nearest.get(pair, np.inf), gap)
    assert all(pair in carried for pair, gap in nearest.items() if gap < 0 and not _are_joined(pair))
    assert frozenset(("a-lower", "b-lower")) in carried
    assert nearest[frozenset(("a-upper", "b-upper"))] > 0
    assert frozenset(("a-upper", "b-upper")) not in carried


def _are_joined(pair: frozenset[str]) -> bool:
    arms = {name[0] for name in pair if name != "base"}
    return len(arms) == 1 and ("base" not in pair or any("upper" in name for name in pair))


def test_kinds_of_pairs_come_in_one_order():
    body = (
        '<body name="{0}" pos="{1} 0 0.2"><freejoint/><geom name="{0}" type="{2}" size="0.1 0.1 0.1" mass="1"/></body>'
    )
    kinds = ("box", "sphere", "box", "sphere")
    bodies = "".join(body.format(f"{kind}-{k}", k, kind) for k, kind in enumerate(kinds))
    model = ph.load_model(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", contacts=True).model
    mixed = {(type(rule.first).__name__, type(rule.second).__name__) for rule in model.contact_rules}
    assert mixed == {("Box", "Box"), ("Box", "Sphere"), ("Sphere", "Sphere")}


def overlap(geom: str, size: str, distance: float) -> bool:
    """Whether two equal shapes beside each other along x are listed as overlapping."""
    body = f'<body name="{{0}}" pos="{{1}} 0 0.3"><freejoint/><geom type="{geom}" size="{size}" mass="1"/></body>'
    xml = f"<mujoco><worldbody>{body.format('one', 0)}{body.format('two', distance)}</worldbody></mujoco>"
    return "contacts" in losses(ph.load_model(xml, contacts=True))


@pytest.mark.parametrize("geom", ["box", "cylinder", "capsule", "ellipsoid", "sphere"])
def test_overlaps_at_the_start_are_found(geom):
    size = {"sphere": "0.1", "box": "0.1 0.1 0.2", "ellipsoid": "0.1 0.1 0.2"}.get(geom, "0.1 0.2")
    assert not overlap(geom, size, 0.2 + 1e-4)
    assert overlap(geom, size, 0.2 - 1e-4)


def test_what_touches_at_the_start_does_not_overlap():
    # Within MuJoCo's own error.
    assert not overlap("sphere", "0.1", 0.2 - 1e-7)
    assert overlap("sphere", "0.1", 0.2 - 1.5e-6)


def test_masks_and_exclusions():
    assert frozenset(("left", "right")) not in pairs(
        load(contacts=True, more='<contact><exclude body1="left" body2="right"/></contact>')
    )
    assert not any("right" in pair for pair in pairs(load(contacts=True, cube='contype="0" conaffinity="0"')))


def test_softness_and_margins_are_listed():
    lost = losses(load(contacts=True, cube='solref="0.02 0.5" margin="0.01"'))
    assert lost["softness of contacts"] == lost["margins of contacts"] == ("cube",)
    model = load(contacts=True, cube='solref="0.02 0.5"')
    rule = next(r for r in model.model.contact_rules if {r.first.name, r.second.name} == {"left", "right"})
    # A mean damping ratio of 3/4.
    assert rule.restitution == pytest.approx(np.exp(-np.pi * 0.75 / np.sqrt(1 - 0.75**2)))


@pytest.mark.exhaustive
def test_a_file_stands_on_a_floor_at_its_lowest_point():
    robot = """<robot name="r"><link name="base"><inertial><mass value="3"/><inertia ixx="0.02" iyy="0.02" izz="0.02"
      ixy="0" ixz="0" iyz="0"/></inertial><collision><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>
      </robot>"""
    model = ph.load_model(robot, floating=True, floor=True, friction=0.6)
    run = ph.simulate(model.problem(t1=0.05, h=0.01))
    np.testing.assert_allclose(run.bodies["base"].position[-1], (0, 0, 0), atol=1e-12)
    assert float(run.contacts["base"].normal_force[-1]) == pytest.approx(3 * 9.81, rel=1e-9)


def test_simplified_hulls_are_listed(tmp_path):
    import trimesh

    trimesh.creation.icosphere(subdivisions=3, radius=0.1).export(tmp_path / "round.stl")
    trimesh.creation.box((0.2, 0.2, 0.2)).export(tmp_path / "cube.stl")
    body = '<body name="{0}" pos="{1} 0 0.2"><freejoint/><geom name="{0}" type="mesh" mesh="{0}" mass="1"/></body>'
    path = tmp_path / "model.xml"
    path.write_text(
        '<mujoco><asset><mesh name="round" file="round.stl"/><mesh name="cube" file="cube.stl"/></asset><worldbody>'
        f"{body.format('round', 0)}{body.format('cube', 1)}</worldbody></mujoco>"
    )
    assert losses(ph.load_model(path, floor=True)) == {"hulls of meshes": ("round",)}


@pytest.mark.exhaustive
def test_terrain_is_where_mujoco_has_it():
    """Balls above a height field have the gaps that rays of MuJoCo say; its hull would be up to 0.3 m above it."""
    mujoco = pytest.importorskip("mujoco")
    heights = 0.3 * np.random.default_rng(1).random((4, 6))
    spots = np.array([[0.31, 0.12], [-0.52, 0.33], [0.05, -0.41]])
    text = """<mujoco><asset><hfield name="f" nrow="4" ncol="6" size="1 0.6 0.3 .1" elevation="{}"/></asset><worldbody>
      <geom name="terrain" type="hfield" hfield="f" pos="0.1 0.2 -1" euler="0 0 20"/>{}</worldbody></mujoco>"""
    terrain = text.format(" ".join(map(str, heights.ravel())), "")
    m = mujoco.MjModel.from_xml_string(terrain)
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    down, hit = np.array([0.0, 0, -1]), np.zeros(1, np.int32)
    tops = [3 - mujoco.mj_ray(m, data, np.array([*spot, 3.0]), down, None, 1, -1, hit) for spot in spots]
    balls = "".join(
        f'<body pos="{x} {y} {z + 0.02}"><freejoint/><geom type="sphere" size="0.01" mass="1"/></body>'
        for (x, y), z in zip(spots, tops, strict=True)
    )
    loaded = ph.load_model(text.format(" ".join(map(str, heights.ravel())), balls), contacts=True)
    (field,) = loaded.model.ground.shapes
    assert sum(rule.first is field for rule in loaded.model.contact_rules) == len(spots)
    for body in loaded.model.bodies:
        points = contact_points(body.shapes[0], (body.x, body.R), field, (np.zeros(3), np.eye(3)))
        deepest = int(np.argmin(points.gap))
        assert points.gap[deepest] + 0.01 == pytest.approx(0.02 * abs(float(points.normal[deepest][2])), rel=1e-6)


def test_flat_terrain_below_the_floor_is_left_out():
    """Heights that are all zero, as in files whose terrain is made later."""
    flat = FILE.replace(
        "<mujoco>", '<mujoco><asset><hfield name="f" nrow="3" ncol="3" size="5 5 1 .1"/></asset>'
    ).replace("<worldbody>", '<worldbody><geom type="hfield" hfield="f" pos="0 0 -1"/>')
    loaded = ph.load_model(flat.format(cube="", more=""), floor=True, contacts=True)
    assert [type(shape) for shape in loaded.model.ground.shapes] == [ph.shapes.Plane]


def test_bodies_too_large_for_the_cells_of_terrain_are_listed():
    fine = FILE.replace(
        "<mujoco>", '<mujoco><asset><hfield name="f" nrow="90" ncol="90" size=".5 .5 1 .1"/></asset>'
    ).replace("<worldbody>", '<worldbody><geom type="hfield" hfield="f" pos="0 0 -1"/>')
    loaded = ph.load_model(fine.format(cube="", more=""), contacts=True)
    names = [name for item in loaded.not_carried for name in item.names]
    assert any(name.startswith("right–world") and "cells of" in name for name in names)

# ruff: noqa: E501 - pieces of XML are read more easily in one line.
"""Every attribute of MJCF, by MuJoCo's own schema: carried with MuJoCo's accelerations, named, or without effect there."""

from __future__ import annotations

import functools
import re
import warnings

import mjcf_force_probes
import mjcf_probes
import mujoco
import numpy as np
import pytest
from against_mujoco import bodies_accelerations, largest_difference, load_at, smooth
from mjcf_schema import Probe, machine, schema

import polhode as ph
from polhode.forces.joint_forces import JointFriction, JointStops

PROBES: dict[str, dict[str, Probe]] = {
    **mjcf_probes.bodies(),
    **mjcf_probes.settings(),
    **mjcf_force_probes.tendons(),
    **mjcf_force_probes.equalities(),
    **mjcf_force_probes.contacts(),
    **mjcf_force_probes.actuators(),
}
TOUCH = '<geom type="plane" size="2 2 1"/><body name="G" pos="0 0 .05"><freejoint name="g"/><geom size=".1" name="gg"/></body>'
ACTUATOR = '<actuator><{} name="m" {}/></actuator>'
CLOTH = (
    '<flexcomp name="cloth" type="grid" count="2 2 1" spacing=".1 .1 .1" dim="2" radius=".01" mass="1">{}</flexcomp>'
)
WHOLE = {
    r"actuator/(orientation)(/.*)?": machine(end=ACTUATOR.format("orientation", 'joint="c" kp="2"')),
    r"actuator/(pid)(/.*)?": machine(end=ACTUATOR.format("pid", 'joint="b" kp="2" ki="1"')),
    r"actuator/(dcmotor)(/.*)?": machine(end=ACTUATOR.format("dcmotor", 'joint="b" motorconst=".1" resistance="1"')),
    r"actuator/(damper)": machine(end=ACTUATOR.format("damper", 'joint="b" ctrlrange="0 1" kv="2"')),
    r"actuator/(muscle)": machine(end=ACTUATOR.format("muscle", 'joint="b" lengthrange=".1 2"')),
    r"actuator/(adhesion)(/.*)?": machine(
        more=TOUCH, end=ACTUATOR.format("adhesion", 'body="G" ctrlrange="0 1" gain="3"')
    ),
    r"body/flexcomp(/.*)?|deformable/flex(/.*)?|equality/(flex|flexstrain)": machine(
        more=CLOTH.format('<edge equality="true"/>')
    ),
}
"""Elements that are named as a whole, with whatever they have."""
STILL = {
    r"sensor(/.*)?": machine(
        end='<sensor><gyro site="sa"/><jointpos joint="a" noise=".1"/><framepos objtype="body" objname="B"/>'
        '<subtreecom body="A"/><e_kinetic/><clock/></sensor>'
    ),
    r"visual(/.*)?|statistic": machine(
        top='<visual><global fovy="30"/><map stiffness="3"/><rgba haze="1 0 0 1"/></visual><statistic meanmass="3" extent="2"/>'
    ),
    r"custom(/.*)?": machine(
        end='<custom><numeric name="n" data="1 2"/><text name="t" data="x"/><tuple name="u"><element objtype="body" '
        'objname="A" prm="1"/></tuple></custom>'
    ),
    r"asset/(texture|material)(/.*)?": machine(
        asset='<texture name="x" type="2d" builtin="checker" width="4" height="4" rgb1="1 0 0"/>'
        '<material name="y" texture="x" shininess=".3"/>'
    ),
    r"(asset|deformable)/skin(/.*)?": machine(
        asset='<skin name="s" vertex="0 0 0 1 0 0 0 1 0" face="0 1 2"><bone body="A" bindpos="0 0 0" bindquat="1 0 0 0" '
        'vertid="0 1 2" vertweight="1 1 1"/></skin>'
    ),
    r"body/(camera|light)": machine(inA='<camera name="k" fovy="30" pos="1 0 0"/><light name="l" diffuse="1 0 0"/>'),
    r"body/site": machine(inA='<site name="s" pos="1 2 3" size=".1" rgba="1 0 0 1"/>'),
    r"asset/(mesh|hfield)": machine(asset='<mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1" scale="2 2 2"/>'),
}
"""Elements that move nothing by themselves. Sites, meshes and fields do by what refers to them, which is probed there."""
RESOLVED = r"default(/.*)?|asset/model|body/attach|mujoco|compiler/lengthrange"
"""Resolved by MuJoCo's compiler before a model is made: the compiled model is all that is read."""
WORDS = {"compiler passthrough", "actuator/general input"}
"""How a file is written again; what the controls of an actuator are called, of which affine ones have one."""
REFUSED = r"extension(/.*)?|.*/plugin(/config)?|actuator/plugin(/.*)?"
"""Plugins run only in MuJoCo; see `test_plugins_are_named`."""
STARTS = {"keyframe/key"}
"""States to start from, not motions; see `test_keyframes_are_starts`."""
SOLVER = {"solreffriction", "solimpfriction", "cone", "impratio", "solver", "noslip_iterations", "iterations", "solref",
          "solimp", "diagexact"}  # fmt: skip
"""Of MuJoCo's solver and of how soft its constraints are: equalities are exact here, dry friction is smooth."""


PART_OF = {"fluidcoef": "fluid", "fluidshape": "fluid", "wind": "fluid"} | dict.fromkeys(
    mjcf_probes.effort(), "actuators"
)
"""What the list of what is not carried calls that of which an attribute is a part, if not as the schema does."""


def known_names(path: str) -> bool:
    """Whether an element is classified as a whole."""
    patterns = [*WHOLE, *STILL, RESOLVED, REFUSED]
    return path in STARTS or any(re.fullmatch(pattern, path) for pattern in patterns)


def test_every_attribute_of_the_schema_is_classified():
    left = {
        f"{path} {attribute}"
        for path, attributes in schema().items()
        for attribute in attributes
        if attribute not in PROBES.get(path, {}) and not known_names(path) and f"{path} {attribute}" not in WORDS
    }
    assert not left, f"attributes of MJCF that no probe or class has: {sorted(left)}"


def test_defaults_have_no_attributes_of_their_own():
    whole = schema()
    twins = {"mesh": "asset/mesh", "material": "asset/material", "texture": "asset/texture", "pair": "contact/pair"}
    several = {"equality": "equality/", "tendon": "tendon/"}
    for path, attributes in whole.items():
        kind = path.removeprefix("default/")
        if not path.startswith("default/") or "/" in kind:
            continue
        names = [twins.get(kind, f"body/{kind}"), f"actuator/{kind}"]
        names += [name for name in whole if kind in several and name.startswith(several[kind])]
        assert attributes <= set().union(*(whole.get(name, set()) for name in names)), path


def state(model, seed):
    """MuJoCo's data near its default positions, at random velocities and controls; seed 0 at rest."""
    data, random = mujoco.MjData(model), np.random.default_rng(seed)
    if seed:
        data.qpos[:] = random.uniform(-0.6, 0.6, model.nq)
        for j in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
            at = slice(model.jnt_qposadr[j], model.jnt_qposadr[j] + 7)
            spread = np.array([0.02] * 3 + [0.2] * 4)
            data.qpos[at] = model.qpos0[at] + spread * random.uniform(-1, 1, 7)
        data.qvel[:] = random.uniform(-1, 1, model.nv)
    data.ctrl[:] = np.random.default_rng(seed + 5).uniform(0.3, 1, model.nu)
    data.act[:] = np.random.default_rng(seed + 9).uniform(0.3, 1, model.na)
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_forward(model, data)
    return data


def differ(first, second):
    """Whether MuJoCo moves two models differently."""
    if first.nv != second.nv or not np.array_equal(first.qpos0, second.qpos0):
        return True
    pairs = [(state(first, seed).qacc, state(second, seed).qacc) for seed in range(3)]
    return not all(np.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in pairs)


def read(text, model, data, **options):
    """The file at the state of MuJoCo's data, and what is said of it."""
    kind = mujoco.mjtObj.mjOBJ_ACTUATOR
    names = [mujoco.mj_id2name(model, kind, i) or f"actuator-{i}" for i in range(model.nactuator)]
    controls = {name: data.ctrl[model.actuator_ctrladr[i]] for i, name in enumerate(names)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = load_at(text, model, data, controls=controls, **options)
    return found, {str(item) for item in found.not_carried} | {
        str(warning.message) for warning in caught if warning.category is ph.importers.ModelFileWarning
    }


def numbers(imported):
    """Of stops and dry friction."""
    kinds = (JointStops, JointFriction)
    parts = [(name, part) for name, part in imported.model.parts if isinstance(part, kinds)]
    return [(name, [str(value) for key, value in vars(part).items() if key != "joint"]) for name, part in parts]


def verdict(path, attribute, probe):
    """What becomes of an attribute, in a word. Raises AssertionError where it is lost without a word."""
    before, after = (mujoco.MjModel.from_xml_string(text) for text in probe)
    if not differ(before, after):
        return "without effect"
    plain = [smooth(mujoco.MjModel.from_xml_string(text)) for text in probe]
    data = [state(model, 1) for model in plain]
    said = []
    for text, model, at in zip(probe, plain, data, strict=True):
        try:
            imported, named = read(text, model, at)
        except ValueError as error:
            imported, named = None, {str(error)}
        said.append(named)
    if imported is None:
        return "refused"
    # In the file without the attribute as well: what has it is not carried at all.
    of_kind = PART_OF.get(attribute, path.partition("/")[0])
    if said[1] - said[0] or any(item.startswith(of_kind) for item in said[1]):
        return "named"
    if not differ(*plain):
        return soften(attribute, probe, data, said[0] | said[1])
    if after.neq or before.neq:
        return exact(attribute, probe)
    problem = imported.problem()
    difference = largest_difference(problem, plain[1], data[1])
    assert difference < 1e-9, f"accelerations differ by {difference:.2g}"
    return "carried"


def exact(attribute, probe):
    """Of equalities, exact here and soft in MuJoCo. That they are the right ones is tested with each of them."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in probe:
            try:
                problem = ph.load_model(text).problem()
            except ValueError:
                return "refused"
            found.append(bodies_accelerations(problem.system, *problem.state0))
    assert attribute in SOLVER or not np.allclose(*found, rtol=1e-9, atol=1e-9), "it has no effect"
    return "exact"


def soften(attribute, probe, data, said):
    """Of what MuJoCo has as soft constraints: stops, dry friction and contacts."""
    if any(item.startswith("contacts") for item in said):
        return "named"
    hard = {"limits": True, "stick_velocity": 0.01}
    models = [mujoco.MjModel.from_xml_string(text) for text in probe]
    each = [numbers(read(text, model, at, **hard)[0]) for text, model, at in zip(probe, models, data, strict=True)]
    assert attribute in SOLVER or each[0] != each[1], "neither stops nor dry friction have it"
    return "approximated"


ALL = [(path, name) for path, probes in PROBES.items() for name in probes if name in schema()[path]]
SAMPLE = {
    ("body/joint", "springref"),
    ("equality/weld", "anchor"),
    ("tendon/fixed", "actuatorfrcrange"),
    ("body", "quat"),
}


@functools.cache
def quick():
    return [pytest.param(*one, marks=() if one in SAMPLE else pytest.mark.exhaustive) for one in ALL]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("path", "attribute"), quick())
def test_attributes_are_carried_or_named_or_without_effect(path, attribute):
    verdict(path, attribute, PROBES[path][attribute])


@pytest.mark.parametrize("pattern", WHOLE)
def test_elements_that_are_not_carried_are_named(pattern):
    found = ph.load_model(WHOLE[pattern]).not_carried
    assert {item.what for item in found} & {"actuators", "flexible bodies"}


@pytest.mark.parametrize("pattern", STILL)
def test_elements_without_effect_move_nothing_in_mujoco(pattern):
    assert not differ(*(mujoco.MjModel.from_xml_string(text) for text in (machine(), STILL[pattern])))


def test_keyframes_are_starts():
    model = mujoco.MjModel.from_xml_string(machine())
    at = state(model, 1)
    text = " ".join(
        f'{name}="{" ".join(map(repr, map(float, values)))}"' for name, values in (("qpos", at.qpos), ("qvel", at.qvel))
    )
    found = ph.load_model(machine(end=f'<keyframe><key name="k" {text}/></keyframe>'), keyframe="k").start.data
    np.testing.assert_allclose(np.concatenate((found.qpos, found.qvel)), np.concatenate((at.qpos, at.qvel)), atol=1e-14)


def test_plugins_are_named():
    with pytest.raises(ValueError, match="plugin"):
        ph.load_model(machine(top='<extension><plugin plugin="mujoco.unknown"/></extension>'))

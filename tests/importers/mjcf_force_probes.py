# ruff: noqa: E501 - pieces of XML are read more easily in one line.
"""Probes of tendons, equalities, contacts and actuators."""

from __future__ import annotations

from mjcf_probes import LIMITS, SOFT, Values, effort, pairs
from mjcf_schema import Probe, machine

SITES = '<site site="still"/><site site="sb"/>'
JOINTS = '<joint joint="a" coef=".7"/><joint joint="b" coef="-.4"/>'
CLASSES = (
    '<default><default class="cls"><tendon stiffness="7"/><general gear="3"/><motor gear="3"/>'
    '<position kp="9"/><velocity kv="9"/><equality active="false"/></default></default>'
)


def _tendon() -> Values:
    return {
        **LIMITS,
        **effort(),
        "armature": ".3",
        "class": "cls",
        "damping": ".5",
        "frictionloss": ".3",
        "group": "2",
        "name": ('name="t"', 'name="u"'),
        "springlength": ('stiffness="5"', 'stiffness="5" springlength=".2"'),
        "springyield": ('stiffness="5"', 'stiffness="5" springyield=".01"'),
        "stiffness": "4",
        "user": "1 2",
    }


def tendons() -> dict[str, dict[str, Probe]]:
    drawn: Values = {"material": "grey", "rgba": "1 0 0 1", "width": ".1"}
    top = CLASSES + '<size nuser_tendon="2"/>'
    motor = '<actuator><motor name="m" tendon="t"/></actuator>'
    found: dict[str, dict[str, Probe]] = {}
    for kind, inside, more in (("spatial", SITES, drawn), ("fixed", JOINTS, {})):
        values = {**_tendon(), **more}
        named = f'<tendon><{kind} name="t" ¤>{inside}</{kind}></tendon>{motor}'
        bare = f"<tendon><{kind} ¤>{inside}</{kind}></tendon>"
        passive = {k: v for k, v in values.items() if k not in effort()}
        found[f"tendon/{kind}"] = dict(pairs(bare, passive, top=top, end="%"))
        found[f"tendon/{kind}"] |= dict(pairs(named, effort(), top=top, end="%"))
    spatial = '<tendon><spatial name="t" stiffness="5"><site site="still"/>{}<site site="sb"/></spatial></tendon>'
    round_ = '<geom name="drum" type="cylinder" size=".1 .2" pos=".1 .2 .6" contype="0" conaffinity="0"/><site name="side" pos=".1 .5 .6"/>'
    plain = machine(end=spatial.format(""), world=round_)
    found["tendon/spatial/site"] = {
        "site": Probe(plain, machine(end=spatial.format('<site site="sa"/>'), world=round_))
    }
    found["tendon/spatial/geom"] = {
        "geom": Probe(plain, machine(end=spatial.format('<geom geom="drum"/>'), world=round_)),
        "sidesite": Probe(
            machine(end=spatial.format('<geom geom="drum"/>'), world=round_),
            machine(end=spatial.format('<geom geom="drum" sidesite="side"/>'), world=round_),
        ),
    }
    pulley = '<site site="sa"/><pulley divisor="2"/><site site="sa"/>'
    found["tendon/spatial/pulley"] = {
        "divisor": Probe(machine(end=spatial.format('<site site="sa"/>')), machine(end=spatial.format(pulley)))
    }
    fixed = '<tendon><fixed name="t" stiffness="5">{}</fixed></tendon>'
    found["tendon/fixed/joint"] = {
        "coef": Probe(machine(end=fixed.format(JOINTS)), machine(end=fixed.format(JOINTS.replace(".7", ".2")))),
        "joint": Probe(
            machine(end=fixed.format('<joint joint="a" coef="1"/>')),
            machine(end=fixed.format('<joint joint="b" coef="1"/>')),
        ),
    }
    return found


TWO = '<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed><fixed name="u"><joint joint="b" coef="1"/></fixed></tendon>'


def equalities() -> dict[str, dict[str, Probe]]:
    usual: Values = {"active": "false", "class": "cls", "name": "e", **SOFT}
    ends = {"connect": 'body1="B" anchor=".1 0 0"', "weld": 'body1="B"', "joint": 'joint1="b"', "tendon": 'tendon1="t"'}
    own: dict[str, Values] = {
        "connect": {"body2": "F"},
        "weld": {
            "body2": "F",
            "anchor": ('body2="F" torquescale="0"', 'body2="F" torquescale="0" anchor=".3 .1 .2"'),
            "relpose": ('body2="F"', 'body2="F" relpose="1 1 1 1 0 0 0"'),
            "torquescale": ('body2="F"', 'body2="F" torquescale="0"'),
        },
        "joint": {"joint2": ('polycoef=".1 1 0 0 0"', 'polycoef=".1 1 0 0 0" joint2="a"'), "polycoef": ".2 0 0 0 0"},
        "tendon": {"tendon2": ('polycoef=".1 1 0 0 0"', 'polycoef=".1 1 0 0 0" tendon2="u"'), "polycoef": ".2 0 0 0 0"},
    }
    found = {
        f"equality/{kind}": dict(
            pairs(f"{TWO}<equality><{kind} {end} ¤/></equality>", {**usual, **own[kind]}, top=CLASSES, end="%")
        )
        for kind, end in ends.items()
    }
    other = {
        "connect": 'body1="A" anchor=".1 0 0"',
        "weld": 'body1="A"',
        "joint": 'joint1="a"',
        "tendon": 'tendon1="u"',
    }
    first = {"connect": "body1", "weld": "body1", "joint": "joint1", "tendon": "tendon1"}
    text = "{}<equality><{} {}/></equality>"
    for kind, end in ends.items():
        found[f"equality/{kind}"][first[kind]] = Probe(
            machine(end=text.format(TWO, kind, end)), machine(end=text.format(TWO, kind, other[kind]))
        )
    found["equality/connect"]["anchor"] = Probe(
        machine(end=text.format("", "connect", 'body1="C" anchor=".1 0 0"')),
        machine(end=text.format("", "connect", 'body1="C" anchor="0 .2 .1"')),
    )
    for kind in ("connect", "weld"):
        base = machine(end=text.format("", kind, 'site1="sa" site2="still"'))
        found[f"equality/{kind}"]["site1"] = Probe(base, machine(end=text.format("", kind, 'site1="sb" site2="still"')))
        found[f"equality/{kind}"]["site2"] = Probe(base, machine(end=text.format("", kind, 'site1="sa" site2="sb"')))
    return found


def contacts() -> dict[str, dict[str, Probe]]:
    things = (
        '<geom name="floor" type="box" size="5 5 .5" pos="0 0 -.5" contype="0"/><geom name="g2" type="box" size="5 5 .5" pos="0 0 -.55" contype="0"/>'
        '<body name="G" pos=".1 .2 .08"><freejoint name="g"/><geom name="gg" size=".1" contype="0" conaffinity="0"/>'
        '<geom name="gh" size=".1" pos=".3 0 0" contype="0" conaffinity="0"/></body>'
    )
    pair = '<contact><pair geom1="floor" geom2="gg" {}/></contact>'
    values = {
        "adhesion": ".5",
        "class": "cls",
        "condim": "4",
        "friction": "2 2 .1 .1 .1",
        "gap": ".1",
        "margin": ".1",
        "name": "p",
        "solimp": ".5 .9 .1",
        "solref": "-300 -20",
        "solreffriction": "-300 -30",
    }
    base = machine(more=things, end=pair.format(""))
    top = '<default><default class="cls"><pair margin=".3"/></default></default>'
    found = {
        k: Probe(
            machine(more=things, end=pair.format(""), top=top),
            machine(more=things, end=pair.format(f'{k}="{v}"'), top=top),
        )
        for k, v in values.items()
    }
    found["geom1"] = Probe(base, base.replace('geom1="floor"', 'geom1="g2"'))
    found["geom2"] = Probe(base, base.replace('geom2="gg"', 'geom2="gh"'))
    touching = things.replace('conaffinity="0"', "").replace('contype="0"', "")
    named = "<contact><exclude {}/></contact>"
    still = '<body name="W" pos="0 0 .1"><geom name="gw" size=".3"/></body>'
    whole = machine(more=touching + still)
    both = {
        name: Probe(whole, machine(more=touching + still, end=named.format('name="x" body1="W" body2="G"')))
        for name in ("body1", "body2", "name")
    }
    return {"contact/pair": found, "contact/exclude": both}


def actuators() -> dict[str, dict[str, Probe]]:
    tendon = f'<tendon><fixed name="t">{JOINTS}</fixed></tendon>'
    usual: Values = {
        "armature": ".3",
        "class": "cls",
        "ctrllimited": ('ctrlrange="-.01 .01" ctrllimited="false"', 'ctrlrange="-.01 .01" ctrllimited="true"'),
        "ctrlrange": "-.01 .02",
        "damping": ".4",
        "delay": ('nsample="20"', 'nsample="20" delay=".01"'),
        "forcelimited": ('forcerange="-.01 .02" forcelimited="false"', 'forcerange="-.01 .02" forcelimited="true"'),
        "forcerange": "-.01 .02",
        "gear": "3",
        "group": "2",
        "interp": ('nsample="20" delay=".01"', 'nsample="20" delay=".01" interp="linear"'),
        "lengthrange": "-1 1",
        "name": "m",
        "nsample": "5",
        "user": "1 2",
    }
    state: Values = {
        "actdim": ('dyntype="user"', 'dyntype="user" actdim="2"'),
        "actearly": ('dyntype="integrator"', 'dyntype="integrator" actearly="true"'),
        "actlimited": (
            'dyntype="integrator" actrange="-.01 .01" actlimited="false"',
            'dyntype="integrator" actrange="-.01 .01" actlimited="true"',
        ),
        "actrange": ('dyntype="integrator"', 'dyntype="integrator" actrange="-.01 .01"'),
        "biasprm": ('biastype="affine"', 'biastype="affine" biasprm="1 2 3"'),
        "biastype": ('biasprm="1 2 3"', 'biasprm="1 2 3" biastype="affine"'),
        "dynprm": ('dyntype="filter"', 'dyntype="filter" dynprm=".3"'),
        "dyntype": "integrator",
        "gainprm": "3",
        "velrange": "-1 1",
        "ffrange": "-1 1",
        "gaintype": ('gainprm="1 2 3"', 'gainprm="1 2 3" gaintype="affine"'),
        "inheritrange": ("", ""),
    }
    own: dict[str, Values] = {
        "general": {k: v for k, v in state.items() if k != "inheritrange"},
        "motor": {},
        "position": {"dampratio": ".5", "kp": "3", "kv": "2", "timeconst": ".2"},
        "velocity": {"kv": "3"},
        "intvelocity": {
            "actlimited": ('actrange="-.01 .01" actlimited="false"', 'actrange="-.01 .01" actlimited="true"'),
            "actrange": "-.01 .01",
            "dampratio": ".5",
            "kp": "3",
            "kv": "2",
        },
        "cylinder": {"area": "2", "bias": "1 2 3", "diameter": ".5", "timeconst": ".3"},
    }
    found: dict[str, dict[str, Probe]] = {}
    top = CLASSES + '<size nuser_actuator="2"/>'
    for kind, more in own.items():
        values = {**usual, **more}
        text = f'{tendon}<actuator><{kind} joint="b" ¤/></actuator>'
        found[f"actuator/{kind}"] = dict(pairs(text, values, top=top, end="%"))
        base = f"{tendon}<actuator><{kind} {{}}/></actuator>"
        on = machine(end=base.format('joint="b"'))
        drives = {
            "joint": 'joint="a"',
            "jointinparent": 'jointinparent="a"',
            "tendon": 'tendon="t"',
            "site": 'site="sb" gear="1 2 3 1 2 1"',
            "slidersite": 'slidersite="sa" cranksite="sb" cranklength="1"',
            "cranksite": 'slidersite="sb" cranksite="sa" cranklength="1"',
        }
        found[f"actuator/{kind}"] |= {k: Probe(on, machine(end=base.format(v))) for k, v in drives.items()}
        found[f"actuator/{kind}"]["cranklength"] = Probe(
            machine(end=base.format(drives["slidersite"])),
            machine(end=base.format(drives["slidersite"].replace('"1"', '"2"'))),
        )
        at = 'site="sb" gear="1 2 3 1 2 1"'
        found[f"actuator/{kind}"]["refsite"] = Probe(
            machine(end=base.format(at)), machine(end=base.format(at + ' refsite="still"'))
        )
        found[f"actuator/{kind}"]["inheritrange"] = Probe(
            machine(end=base.format('joint="b"'), b=' range="-.01 .01" limited="true"'),
            machine(end=base.format('joint="b" inheritrange="1"'), b=' range="-.01 .01" limited="true"'),
        )
        if kind == "general":
            touch = '<geom type="plane" size="1 1 1"/><body name="G" pos="0 0 .05"><freejoint name="g"/><geom size=".1"/></body>'
            body = '<actuator><general body="G"/></actuator>'
            found["actuator/general"]["body"] = Probe(machine(more=touch), machine(more=touch, end=body))
    return found

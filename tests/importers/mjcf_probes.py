# ruff: noqa: E501 - pieces of XML are read more easily in one line.
"""For every attribute of MJCF that could change a motion: the machine without it and with it."""

from __future__ import annotations

from collections.abc import Iterator

from mjcf_schema import Probe, machine

Values = dict[str, str | tuple[str, str]]
"""Of attributes: the value set; or what stands there without it and with it."""

OFF = 'contype="0" conaffinity="0"'
TURNS: Values = {
    "axisangle": "1 2 0 .4",
    "euler": ".2 .1 -.3",
    "quat": "1 .2 .3 .1",
    "xyaxes": "1 .2 0 0 1 .3",
    "zaxis": "0 1 2",
}
SOFT: Values = {"solref": "-300 -20", "solimp": ".5 .9 .1"}
LIMITS = {
    "solreflimit": ('range="-.1 .1"', 'range="-.1 .1" solreflimit="-300 -20"'),
    "solimplimit": ('range="-.1 .1"', 'range="-.1 .1" solimplimit=".5 .9 .1"'),
    "solreffriction": ('frictionloss=".3"', 'frictionloss=".3" solreffriction="-30 -20"'),
    "solimpfriction": ('frictionloss=".3"', 'frictionloss=".3" solimpfriction=".1 .2 .1"'),
    "limited": ('range="-.1 .1" limited="false"', 'range="-.1 .1" limited="true"'),
    "range": "-.1 .1",
    "margin": ('range="-.1 .1"', 'range="-.1 .1" margin=".05"'),
    "frictionloss": ".4",
}


def effort() -> Values:
    return {
        "actuatorfrclimited": (
            'actuatorfrcrange="-.02 .01" actuatorfrclimited="false"',
            'actuatorfrcrange="-.02 .01" actuatorfrclimited="true"',
        ),
        "actuatorfrcrange": "-.02 .01",
    }


def pairs(template: str, values: Values, **slots: str) -> Iterator[tuple[str, Probe]]:
    """Probes of attributes in the place ¤ of a piece of the machine."""
    for name, value in values.items():
        without, with_it = value if isinstance(value, tuple) else ("", f'{name}="{value}"')
        filled = {key: text.replace("%", template) for key, text in slots.items()}
        yield (
            name,
            Probe(
                machine(**{key: text.replace("¤", without) for key, text in filled.items()}),
                machine(**{key: text.replace("¤", with_it) for key, text in filled.items()}),
            ),
        )


CLASS = '<default><default class="cls">{}</default></default>'
INERTIA = '<inertial pos=".1 0 0" mass="1" diaginertia=".1 .2 .15"/>'


def bodies() -> dict[str, dict[str, Probe]]:
    inside = f'<joint name="g" axis="1 0 0"/><geom name="gg" type="box" size=".1 .05 .08" pos=".1 .02 .03" {OFF}/>'
    body: Values = {
        **TURNS,
        "childclass": "cls",
        "gravcomp": ".5",
        "mocap": ("", ""),
        "name": ('name="G"', 'name="H"'),
        "pos": ".3 .2 .1",
        "user": "1 2",
        "fuse": "false",
        "simple": "false",
    }
    joint: Values = {
        **LIMITS,
        **effort(),
        "actuatorgravcomp": "true",
        "armature": ".2",
        "axis": ("", 'axis="0 1 1"'),
        "class": "cls",
        "damping": ".6",
        "group": "2",
        "name": ('name="g"', 'name="h"'),
        "pos": ".1 .05 .2",
        "ref": ".3",
        "springdamper": ".3 .8",
        "springref": ('stiffness="2"', 'stiffness="2" springref=".4"'),
        "springyield": ('stiffness="2"', 'stiffness="2" springyield=".01"'),
        "stiffness": "3",
        "type": "slide",
        "user": "1 2",
    }
    geom: Values = {
        **{k: v for k, v in TURNS.items()},
        "adhesion": ".5",
        "castshadow": "false",
        "class": "cls",
        "conaffinity": ('contype="2" conaffinity="0"', 'contype="2" conaffinity="1"'),
        "condim": "4",
        "contype": ('conaffinity="2" contype="0"', 'conaffinity="2" contype="1"'),
        "density": "300",
        "fitscale": ('type="box" mesh="rod"', 'type="box" mesh="rod" fitscale="1.4"'),
        "fluidcoef": ('fluidshape="ellipsoid"', 'fluidshape="ellipsoid" fluidcoef="1 1 1 1 1"'),
        "fluidshape": "ellipsoid",
        "friction": "2",
        "fromto": ('type="capsule"', 'type="capsule" fromto="0 0 0 .1 .2 .3"'),
        "gap": ".1",
        "group": "3",
        "hfield": ("", ""),
        "margin": ".1",
        "mass": "2",
        "material": "grey",
        "mesh": ('type="box"', 'type="box" mesh="rod"'),
        "name": ('name="gg"', 'name="hh"'),
        "pos": ".2 .1 .3",
        "priority": "1",
        "rgba": "1 0 0 1",
        "shellinertia": ('type="box"', 'type="box" shellinertia="true"'),
        "size": ('type="box" size=".1 .1 .1"', 'type="box" size=".1 .2 .1"'),
        **SOFT,
        "solmix": "2",
        "surfacevel": ".1 0 0",
        "type": ('type="box"', 'type="ellipsoid"'),
        "user": "1 2",
    }
    inertial: Values = {
        **{k: v for k, v in TURNS.items()},
        "diaginertia": ("", 'diaginertia=".3 .2 .4"'),
        "fullinertia": ('diaginertia=".3 .2 .4"', 'fullinertia=".3 .2 .4 .01 .02 .03"'),
        "mass": ('mass="1"', 'mass="2"'),
        "pos": ('pos="0 0 0"', 'pos=".1 .2 .3"'),
    }
    found: dict[str, dict[str, Probe]] = {}
    damped = CLASS.format('<joint damping="3"/><geom density="77"/>')
    users = '<size nuser_body="2" nuser_jnt="2" nuser_geom="2"/>'
    found["body"] = dict(pairs(f"<body ¤>{inside}</body>", body, top=damped + users, B="", inB="%"))
    found["body"]["sleep"] = Probe(machine(), machine(A=' sleep="never"'))
    found["body"]["mocap"] = Probe(
        machine(more='<body name="M" pos="1 1 1"/>'), machine(more='<body name="M" pos="1 1 1" mocap="true"/>')
    )
    motor = '<actuator><motor name="m" joint="{}"/></actuator>'
    other = f'<body name="G" pos=".1 .2 .3" gravcomp=".4"><joint {{}} ¤/><geom name="gg" size=".1" pos=".2 .1 0" {OFF}/></body>'
    found["body/joint"] = dict(
        pairs(
            other.format('name="g"'),
            {k: v for k, v in joint.items() if k not in ("name", "axis")},
            top=damped + users,
            inB="%",
            end=motor.format("g"),
        )
    )
    found["body/joint"] |= dict(pairs(other.format(""), {"name": joint["name"]}, inB="%"))
    found["body/joint"] |= dict(pairs(other.format('name="g"'), {"axis": joint["axis"]}, inB="%"))
    free = f'<body name="G" pos=".1 .2 3"><freejoint ¤/><geom name="gg" type="box" size=".1 .2 .3" pos=".2 .1 0" euler=".1 .2 .3" {OFF}/></body>'
    found["body/freejoint"] = dict(
        pairs(free, {"align": ('align="false"', 'align="true"'), "group": "2", "name": "g"}, more="%")
    )

    def shaped(base: str) -> str:
        return f'<body name="G" pos=".1 .2 .3"><joint name="g" axis="1 0 .3"/><geom {base} ¤/></body>'

    plain = f'name="gg" type="box" size=".1 .05 .08" {OFF}'
    bare = {"conaffinity", "contype", "fitscale", "fromto", "mesh", "name", "shellinertia", "size", "type"}
    found["body/geom"] = dict(
        pairs(
            shaped(plain),
            {k: v for k, v in geom.items() if k not in bare},
            top=damped + users,
            inB="%",
        )
    )
    wet = '<option density="100" viscosity=".1" wind="1 2 3"/>'
    for name in ("fluidcoef", "fluidshape"):
        found["body/geom"] |= dict(pairs(shaped(plain), {name: geom[name]}, top=wet, inB="%"))
    found["body/geom"] |= dict(
        pairs(
            shaped(f'size=".1 .05 .08" {OFF}'),
            {"name": geom["name"], "type": geom["type"], "shellinertia": geom["shellinertia"]},
            inB="%",
        )
    )
    found["body/geom"] |= dict(
        pairs(
            shaped(OFF),
            {
                "size": geom["size"],
                "mesh": ('type="box" size=".1 .1 .1"', 'type="box" mesh="rod"'),
                "fitscale": geom["fitscale"],
            },
            inB="%",
        )
    )
    found["body/geom"] |= dict(pairs(shaped(OFF + ' size=".05 .1"'), {"fromto": geom["fromto"]}, inB="%"))
    # Touching things.
    touch = '<geom name="floor" type="box" size="5 5 .5" pos="0 0 -.5" {}/>'
    ball = '<body name="G" pos=".1 .2 .08"><freejoint name="g"/><geom name="gg" size=".1" {}/></body>'
    world = touch.format('contype="1" conaffinity="1"')
    for name in ("condim", "friction", "gap", "margin", "priority", "solmix", "adhesion", "surfacevel", *SOFT):
        found["body/geom"] |= dict(pairs(ball.format("¤"), {name: geom[name]}, more=world + "%"))
    found["body/geom"]["gap"] = Probe(
        machine(more=world + ball.replace(".08", ".13").format('margin=".1"')),
        machine(more=world + ball.replace(".08", ".13").format('margin=".1" gap=".09"')),
    )
    for name in ("conaffinity", "contype"):
        found["body/geom"][name] = Probe(
            machine(more=touch.format('contype="2" conaffinity="2"') + ball.format('contype="1" conaffinity="1"')),
            machine(
                more=touch.format('contype="2" conaffinity="2"')
                + ball.format('contype="1" conaffinity="1"').replace(f'{name}="1"', f'{name}="3"')
            ),
        )
    found["body/geom"]["hfield"] = Probe(
        machine(), machine(more='<geom type="hfield" hfield="hills" pos="0 0 .2" name="hf"/>' + ball.format(""))
    )
    mass = '<body name="G" pos=".1 .2 .3"><joint name="g" axis="1 0 .3"/><inertial {} ¤/></body>'
    full = 'pos=".1 0 0" mass="1" diaginertia=".3 .2 .4"'
    found["body/inertial"] = dict(pairs(mass.format(full), {k: v for k, v in TURNS.items()}, inB="%"))
    for name in ("diaginertia", "fullinertia", "mass", "pos"):
        base = " ".join(
            word
            for word in ('pos=".1 0 0"', 'mass="1"', 'diaginertia=".3 .2 .4"')
            if not word.startswith(name[:4]) and not (name == "fullinertia" and word.startswith("diag"))
        )
        value = inertial[name] if name != "diaginertia" else ('diaginertia=".3 .2 .4"', 'diaginertia=".3 .3 .4"')
        found["body/inertial"] |= dict(pairs(mass.format(base), {name: value}, inB="%"))
    return found


def settings() -> dict[str, dict[str, Probe]]:
    compiler: Values = {
        "alignfree": "true",
        "angle": "degree",
        "assetdir": "x",
        "autolimits": "false",
        "balanceinertia": "true",
        "boundinertia": "0.5",
        "boundmass": "5",
        "conflict": "merge",
        "coordinate": "local",
        "discardvisual": "true",
        "eulerseq": "zyx",
        "fitaabb": "true",
        "fusestatic": "true",
        "inertiafromgeom": "true",
        "inertiagrouprange": "1 2",
        "meshdir": "x",
        "savecanonical": "true",
        "savecompiled": "true",
        "saveinertial": "true",
        "settotalmass": "20",
        "strippath": "true",
        "texturedir": "x",
        "usethread": "false",
    }
    found: dict[str, dict[str, Probe]] = {"compiler": {}}
    thing = f'<body name="G" pos=".1 .2 3"><freejoint name="g"/>{INERTIA}<geom type="box" size=".1 .2 .3" pos=".2 .1 0" euler=".1 .2 .3" {OFF}/></body>'
    more = {
        "more": thing,
        "end": '<actuator><motor name="m" joint="b" ctrlrange="-.01 .01" ctrllimited="false"/></actuator>',
        "b": ' range="-.1 .1" limited="auto"',
    }
    for name, value in compiler.items():
        slots = dict(more)
        if name == "autolimits":
            slots = {"b": ' range="-.1 .1" limited="true"'}
        if name == "inertiagrouprange":
            slots["geomB"] = (
                f'<geom name="gB" type="box" size=".1 .05 .08" {OFF}/>'
                f'<geom name="gB2" type="box" size=".1 .05 .08" pos=".1 .02 .03" group="3" {OFF}/>'
            )
            value = "0 2"
        if name == "fusestatic":
            slots["inB"] = f'<body name="S" pos=".1 .1 .1"><geom name="gS" size=".1" {OFF}/></body>'
        if name == "balanceinertia":
            odd = thing.replace('diaginertia=".1 .2 .15"', 'diaginertia=".1 .2 .5"')
            found["compiler"][name] = Probe(
                machine(), machine(**{**slots, "more": odd}, top='<compiler balanceinertia="true"/>')
            )
            continue
        found["compiler"][name] = Probe(machine(**slots), machine(**slots, top=f'<compiler {name}="{value}"/>'))
    option: Values = {
        "actuatorgroupdisable": "0",
        "ccd_iterations": "30",
        "ccd_tolerance": "1e-5",
        "cone": "elliptic",
        "density": "100",
        "gravity": "0 0 -5",
        "impratio": "5",
        "integrator": "RK4",
        "iterations": "90",
        "jacobian": "dense",
        "ls_iterations": "40",
        "ls_tolerance": ".02",
        "magnetic": "1 0 0",
        "noslip_iterations": "3",
        "noslip_tolerance": "1e-5",
        "o_friction": "2 2 .1 .1 .1",
        "o_margin": ".2",
        "o_solimp": ".5 .9 .1 .5 2",
        "o_solref": "-300 -20",
        "sdf_initpoints": "30",
        "sdf_iterations": "20",
        "sleep_tolerance": ".1",
        "solver": "CG",
        "timestep": ".001",
        "tolerance": "1e-6",
        "viscosity": ".3",
        "wind": "1 2 3",
    }
    contact = {
        "more": '<geom name="floor" type="box" size="5 5 .5" pos="0 0 -.5"/><body name="G" pos=".1 .2 .08"><freejoint name="g"/><geom name="gg" size=".1"/></body>',
        "end": '<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>'
        '<actuator><motor name="m" joint="b" ctrlrange="-.01 .01"/></actuator>',
        "b": ' range="-.1 .1" frictionloss=".3" stiffness="1"',
    }
    found["option"] = {}
    for name, value in option.items():
        base = '<flag override="enable"/>' if name.startswith("o_") else ""
        extra = 'density="10"' if name == "wind" else ""
        found["option"][name] = Probe(
            machine(**contact, top=f"<option {extra}>{base}</option>"),
            machine(**contact, top=f'<option {extra} {name}="{value}">{base}</option>'),
        )
    coupled = {"end": '<equality><joint joint1="b" joint2="a" polycoef="0 .5 0 0 0"/></equality>'}
    found["option"]["gravity"] = Probe(machine(**contact), machine(**contact).replace('"0.3 -0.2 -9.81"', '"0 0 -5"'))
    flags = (
        "actuation",
        "autoreset",
        "clampctrl",
        "constraint",
        "contact",
        "damper",
        "equality",
        "eulerdamp",
        "filterparent",
        "frictionloss",
        "gravity",
        "island",
        "limit",
        "midphase",
        "nativeccd",
        "refsafe",
        "sensor",
        "spring",
        "warmstart",
        "multiccd",
        "sleep",
        "speculative",
        "invdiscrete",
        "fwdinv",
        "energy",
        "override",
        "diagexact",
        "ipc",
    )
    found["option/flag"] = {
        name: Probe(
            machine(
                **(coupled if name in ("equality", "diagexact") else contact),
                top=f"<option{_needs(name)}><flag/></option>",
            ),
            machine(
                **(coupled if name in ("equality", "diagexact") else contact),
                top=f'<option{_needs(name)}><flag {name}="{"enable" if name in ENABLED else "disable"}"/></option>',
            ),
        )
        for name in flags
    }
    size: Values = {
        "memory": "20M",
        "nconmax": "100",
        "njmax": "500",
        "nkey": "2",
        "nstack": "100000",
        "nuser_actuator": "2",
        "nuser_body": "2",
        "nuser_cam": "2",
        "nuser_geom": "2",
        "nuser_jnt": "2",
        "nuser_sensor": "2",
        "nuser_site": "2",
        "nuser_tendon": "2",
        "nuserdata": "3",
    }
    found["size"] = {name: Probe(machine(), machine(top=f'<size {name}="{value}"/>')) for name, value in size.items()}
    return found


ENABLED = {
    "multiccd",
    "sleep",
    "invdiscrete",
    "fwdinv",
    "energy",
    "override",
    "diagexact",
    "ipc",
    "speculative",
    "island",
}


def _needs(flag: str) -> str:
    return ' integrator="discrete"' if flag == "ipc" else ""

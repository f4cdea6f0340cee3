"""MuJoCo's schema of MJCF, and a small machine for each element in which every attribute can be set."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import mujoco

MACHINE = """<mujoco model="probe">
<compiler angle="radian"/>{top}
<option gravity="0.3 -0.2 -9.81"/>
<asset><mesh name="rod" vertex="0 0 0 .3 0 0 0 .2 0 0 0 .1 .2 .2 .2"/>
<hfield name="hills" nrow="2" ncol="2" size="1 1 1 1" elevation="0 1 0 1"/><material name="grey"/>{asset}</asset>
<worldbody><site name="still" pos="0 .3 .2" euler=".1 .2 .3"/>{world}
<body name="A" pos="0 0 1" euler=".1 0 .2"{A}>{inA}
<joint name="a" axis="0 1 0.2" damping=".3" stiffness="2"{a}/>{geomA}
<site name="sa" pos=".3 .05 .1"/>
<body name="B" pos=".4 0 0" euler=".1 .2 .3"{B}>{inB}
<joint name="b" type="slide" axis="1 0 .2" damping=".2"{b}/>{geomB}
<site name="sb" pos=".1 .05 -.1" euler=".3 .2 .1"{sb}/>
<body name="C" pos="0 0 .3"><joint name="c" type="ball" damping=".05"{c}/>
<geom name="gC" type="box" size=".1 .05 .02" pos=".05 .02 .03" contype="0" conaffinity="0"/></body>
</body></body>
<body name="F" pos="2 1 0"><freejoint name="f"{f}/>
<geom name="gF" type="box" size=".1 .05 .02" contype="0" conaffinity="0"/></body>
{more}</worldbody>{end}</mujoco>"""
GEOM = '<geom name="{}" type="box" size=".1 .05 .08" pos=".1 .02 .03" euler=".2 .1 0" contype="0" conaffinity="0"/>'
CAPSULE = '<geom name="gB" type="capsule" size=".05 .1" contype="0" conaffinity="0"{}/>'
NORMAL = {"geomA": GEOM.format("gA"), "geomB": GEOM.format("gB")}


def machine(**slots: str) -> str:
    """The machine with something in some of its places."""
    names = ("top", "asset", "world", "A", "inA", "a", "B", "inB", "b", "sb", "c", "f", "more", "end")
    return MACHINE.format(**{**dict.fromkeys(names, ""), **NORMAL, **slots})


@functools.cache
def schema() -> dict[str, set[str]]:
    """Attributes by elements, these as paths from the root, as MuJoCo prints them."""
    found: dict[str, set[str]] = {}
    path: list[str] = []
    current = ""
    for line in mujoco.mj_printSchema(False, False).splitlines():
        begin = re.match(r"( *)(\S+) \((?:!|\*|\?|R)\)(.*)", line)
        if begin:
            depth = len(begin[1]) // 3
            path[depth:] = [begin[2].replace("(world)body", "body")]
            current = "/".join(path[1:]) or path[0]
            found[current] = set(begin[3].split())
        elif line.strip():
            found[current] |= set(line.split())
    return found


class Probe(NamedTuple):
    """The machine without and with an attribute."""

    base: str
    changed: str


def put(template: str, attribute: str, value: str, instead: str = "") -> Probe:
    """Of an attribute in the place ¤ of a template; `instead`: what stands there otherwise."""
    return Probe(template.replace("¤", instead), template.replace("¤", f' {attribute}="{value}"'))


def each(template: str, values: dict[str, str], instead: dict[str, str] | None = None) -> Iterator[tuple[str, Probe]]:
    """Several of them."""
    for attribute, value in values.items():
        yield attribute, put(template, attribute, value, (instead or {}).get(attribute, ""))

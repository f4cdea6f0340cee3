"""`polhode inspect`: the contents of a model file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polhode.cli.models import ModelOptions, import_model, is_model_file
from polhode.cli.output import WRONG_USAGE, Json, console, emit, fail, parse_settings, usage_errors
from polhode.cli.problem_options import MeshPath, Settings
from polhode.importers.formats import ENDINGS

if TYPE_CHECKING:
    from rich.tree import Tree

_DAMPING = {"hinge": "N m s/rad", "ball": "N m s/rad", "slide": "N s/m", "free": "N s/m and N m s/rad"}
_FRICTION = {"hinge": "N m", "ball": "N m", "slide": "N", "free": "N and N m"}
_ARMATURE = {"hinge": "kg m²", "ball": "kg m²", "slide": "kg", "free": "kg and kg m²"}
_STIFFNESS = {"hinge": "N m/rad", "ball": "N m/rad", "slide": "N/m", "free": "N/m and N m/rad"}
_PLACE = {"hinge": "rad", "ball": "rad", "slide": "m", "free": ""}


def inspect(
    file: Annotated[str, typer.Argument(metavar="MODEL_FILE", help=f"A model file: {ENDINGS}.")],
    settings: Settings = None,
    mesh_path: MeshPath = None,
    as_json: Json = False,
) -> None:
    """Show bodies and joints of a model file, what a run carries over and what not; nothing is run."""
    if not is_model_file(file):
        fail(f"`{file}` is no model file; known endings: {ENDINGS}.", WRONG_USAGE)
    with usage_errors():
        model = import_model(file, parse_settings(settings), ModelOptions(mesh_path=mesh_path))
    from polhode.importers.inspection import describe

    contents = describe(model)
    if as_json:
        emit(contents)
    else:
        _show(contents)


def _show(contents: Mapping[str, Any]) -> None:
    from rich.markup import escape

    screen = console()

    def line(text: str) -> None:
        screen.print(text, highlight=False)

    line(f"[bold]{escape(contents['name'])}[/], from {escape(contents['source'])}; SI units: kg, m, rad, s")
    screen.print(_tree(contents), highlight=False)
    totals = contents["totals"]
    line(
        f"{totals['bodies']} bodies of {totals['mass']:.6g} kg, {totals['joints']} joints with "
        f"{totals['degrees_of_freedom']} degrees of freedom, {totals['actuators']} actuators, "
        f"{totals['equalities']} equalities; gravity {_vector(contents['gravity'])} m/s²"
    )
    for one in contents["equalities"]:
        off = "" if one["active"] else ", switched off"
        line(f"  {one['kind']} equality {escape(one['name'])}: {escape(' – '.join(one['between']))}{off}")
    line("[bold]carried:[/] " + (", ".join(f"{what} ({n})" for what, n in contents["carried"].items()) or "bodies"))
    for item in contents["not_carried"]:
        what = f"{item['what']} ({_first(item['names'])})" if item["names"] else item["what"]
        line(f"[bold]not carried:[/] {escape(what)}: {escape(item['reason'])}")
    for title, text in _limit_lines(contents):
        line(f"[bold]{title}:[/] {escape(text)}")


def _limit_lines(contents: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Limits of effort and of velocity, with what enforces them."""
    joints = [joint for body in contents["bodies"] for joint in body["joints"] if joint["effort"]]
    if joints:
        by = "actuators of the file, and by " if contents["actuators"] else ""
        yield f"effort limits ({len(joints)})", f'kept by {by}controllers with force_limits="joint"'
    names = contents["velocity_limits"]
    if names:
        yield f"velocity limits ({len(names)})", "kept by nothing; the audit of a run names the joints that exceed them"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _tree(contents: Mapping[str, Any]) -> Tree:
    from rich.markup import escape
    from rich.tree import Tree

    ground = ", ".join(contents["ground"])
    root = Tree(f"ground{escape(f' with {ground}') if ground else ''}")
    actuators = {one["name"]: one for one in contents["actuators"]}
    nodes: dict[str | None, Tree] = {None: root}
    for body in contents["bodies"]:
        rows = [_body(body), *(row for joint in body["joints"] for row in _joint(joint, actuators))]
        first, *rest = (escape(row) for row in rows)
        name = escape(body["name"])
        nodes[body["name"]] = nodes[body["parent"]].add("\n".join((f"[bold]{name}[/]: {first}", *rest)))
    others = [one for one in contents["actuators"] if one["on"][0] != "joint"]
    for one in others:
        root.add(escape(f"{_actuator(one)}, on {' '.join(one['on'])}"))
    return root


def _body(body: Mapping[str, Any]) -> str:
    with_it = f", with {', '.join(body['fixed_to_it'])}" if body["fixed_to_it"] else ""
    moments = ", ".join(f"{moment:.4g}" for moment in body["principal_moments"])
    return f"{body['mass']:.6g} kg, principal moments {moments} kg m²{with_it}"


def _joint(joint: Mapping[str, Any], actuators: Mapping[str, Mapping[str, Any]]) -> list[str]:
    kind = joint["kind"]
    parts = [f"{kind} {joint['name']}" + (f" along {_vector(joint['axis'])}" if joint["axis"] else "")]
    if joint["range"]:
        parts.append(f"range {_limits(joint['range'])} {_PLACE[kind]}")
    for what, unit in (("damping", _DAMPING), ("friction", _FRICTION), ("armature", _ARMATURE)):
        if joint[what]:
            parts.append(f"{what} {joint[what]:.4g} {unit[kind]}")
    if joint["stiffness"]:
        rest = "" if joint["rest"] is None else f" at rest at {joint['rest']:.4g} {_PLACE[kind]}"
        parts.append(f"spring {joint['stiffness']:.4g} {_STIFFNESS[kind]}{rest}")
    if joint["effort"]:
        parts.append(f"effort {_limits(joint['effort'])} {_FRICTION[kind]}")
    if joint["velocity_limit"]:
        parts.append(f"velocity up to {joint['velocity_limit']:.4g} {_PLACE[kind]}/s")
    return [", ".join(parts), *(_actuator(actuators[name]) for name in joint["actuators"])]


def _actuator(one: Mapping[str, Any]) -> str:
    parts = [f"actuator {one['name']}: {one['kind']}, gear {_vector(one['gear'])}"]
    for what, key in (("control", "control_limits"), ("force", "force_limits")):
        if one[key]:
            parts.append(f"{what} {_limits(one[key])}")
    return ", ".join(parts)


def _limits(pair: list[float]) -> str:
    return f"{pair[0]:.4g} … {pair[1]:.4g}"


def _vector(values: list[float]) -> str:
    text = " ".join(f"{value:.4g}" for value in values)
    return text if len(values) == 1 else f"({text})"

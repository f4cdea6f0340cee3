"""Model files on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polhode.checks import shown
from polhode.cli.output import WRONG_USAGE, fail, parse_settings, say

if TYPE_CHECKING:
    from polhode.importers.imported import ImportedModel
    from polhode.problems.base import Problem

SUFFIXES = (".urdf", ".xml", ".mjcf", ".xacro")
_OPTIONS = ("keyframe", "floating", "check_inertia", "limits", "stick_velocity")


def is_model_file(name: str) -> bool:
    """Whether an argument is the path of a model file rather than the name of a problem."""
    return Path(name).suffix.lower() in SUFFIXES


def load(path: str, settings: dict[str, Any]) -> tuple[ImportedModel, Problem]:
    """The model of a file and its problem; settings are options, `formulation`, or JOINT and JOINT.velocity."""
    import polhode as ph

    settings = dict(settings)
    formulation = settings.pop("formulation", None)
    options = {key: settings.pop(key) for key in _OPTIONS if key in settings}
    for key in ("floating", "check_inertia", "limits"):
        if not isinstance(options.get(key, True), bool):
            raise ValueError(f"`--set {key}=…` must be true or false, got {shown(options[key])}.")
    positions: dict[str, Any] = {}
    velocities: dict[str, Any] = {}
    for key, value in settings.items():
        joint, dot, part = key.rpartition(".")
        (velocities if dot and part == "velocity" else positions)[joint if dot and part == "velocity" else key] = value
    try:
        imported = ph.load_model(path, positions=positions, velocities=velocities, **options)
    except ImportError as error:
        fail(str(error), WRONG_USAGE)
    return imported, imported.problem(None if formulation is None else str(formulation))


def chosen(name: str, settings: list[str] | None) -> tuple[Problem, ImportedModel | None]:
    """The problem of that name or of that model file, and what was imported, if anything was."""
    import polhode as ph

    given = parse_settings(settings)
    if not is_model_file(name):
        return ph.problems.get(name, **given), None
    imported, problem = load(name, given)
    return problem, imported


def announce(imported: ImportedModel) -> None:
    """Contents of the file and what was left out, on standard error."""
    measured = [name for name, record in imported.joints.items() if record.measured]
    say(
        f"{imported.parameters['path']}: {len(imported.model.bodies)} bodies; joint_positions are {', '.join(measured)}"
    )
    for item in imported.not_carried:
        say(f"  not carried over{'' if item.changes_motion else ', without effect on this run'}: {item}")


def explain(problem: Problem, method: bool) -> None:
    """Why it has its coordinates and, if its method is taken, why it has this, on standard error."""
    for reason in (problem.choice.coordinates, problem.choice.method if method else ""):
        if reason:
            say(f"  {reason}")


def summary(imported: ImportedModel) -> dict[str, Any]:
    """The part of the `--json` object about a model file."""
    return {
        "joints": [name for name, record in imported.joints.items() if record.measured],
        "bodies": [body.name for body in imported.model.bodies if body.kind == "rigid"],
        "not_carried": [
            {"what": i.what, "names": list(i.names), "reason": i.reason, "changes_motion": i.changes_motion}
            for i in imported.not_carried
        ],
    }

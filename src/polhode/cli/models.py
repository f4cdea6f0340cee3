"""Model files on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.core import TyperCommand

from polhode.checks import short_repr
from polhode.cli.output import WRONG_USAGE, fail, parse_settings, say
from polhode.importers.formats import SUFFIXES

if TYPE_CHECKING:
    from polhode.importers.imported_model import ImportedModel
    from polhode.problem import Problem

_SWITCHES = "floating", "check_inertia", "limits", "contacts"
_OPTIONS = (*_SWITCHES, "keyframe", "stick_velocity", "joint_law", "mesh_paths", "floor", "friction")


def is_model_file(name: str) -> bool:
    """Whether an argument is the path of a model file rather than a problem's name."""
    return Path(name).suffix.lower() in SUFFIXES


class ModelOptions(NamedTuple):
    """Options of a command for a model file: NAME=VALUE for joints and actuators, and folders of meshes."""

    positions: list[str] | None = None
    velocities: list[str] | None = None
    controls: list[str] | None = None
    mesh_path: list[str] | None = None

    def values(self) -> dict[str, dict[str, Any]]:
        """The values of each option in use. Raises ValueError for what is not NAME=VALUE."""
        texts = {name: getattr(self, name) for name in _ASSIGNMENTS}
        return {name: parse_settings(settings, f"--{name}") for name, settings in texts.items() if settings}

    def options(self) -> list[str]:
        """The options in use."""
        return [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value]


class GroupedOptionsCommand(TyperCommand):
    """A command whose options for joints, actuators, columns and arrows take several values in a row."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, repeat_flags(args))


def repeat_flags(arguments: Sequence[str]) -> list[str]:
    """Expands `--positions a=1 b=2` to `--positions a=1 --positions b=2` for the parser."""
    repeated: list[str] = []
    flag, only_arguments = "", False
    for argument in arguments:
        only_arguments = only_arguments or argument == "--"
        alone = "=" not in argument and flag not in _PLAIN
        if argument.startswith("-") or alone or only_arguments:
            flag = argument if argument in _SEVERAL and not only_arguments else ""
        elif flag and repeated[-1] != flag:
            repeated.append(flag)
        repeated.append(argument)
    return repeated


_ASSIGNMENTS = ("positions", "velocities", "controls")
_PLAIN = ("--columns", "--arrows")
_SEVERAL = (*(f"--{name}" for name in _ASSIGNMENTS), *_PLAIN)


def import_model(path: str, settings: dict[str, Any], command_options: ModelOptions = ModelOptions()) -> ImportedModel:  # noqa: B008
    """The model of a file; settings are options, or JOINT and JOINT.velocity."""
    import polhode as ph

    options = {key: settings[key] for key in _OPTIONS if key in settings}
    for key in _SWITCHES:
        if not isinstance(options.get(key, True), bool):
            raise ValueError(f"`--set {key}=…` must be true or false, got {short_repr(options[key])}.")
    if command_options.mesh_path:
        options["mesh_paths"] = [*_folders(options.get("mesh_paths")), *command_options.mesh_path]
    values: dict[str, Any] = {"positions": {}, "velocities": {}}
    for key in settings.keys() - options.keys():
        joint, dot, part = key.rpartition(".")
        of_velocity = bool(dot) and part == "velocity"
        values["velocities" if of_velocity else "positions"][joint if of_velocity else key] = settings[key]
    for name, more in command_options.values().items():
        twice = sorted(values.get(name, {}).keys() & more.keys())
        if twice:
            raise ValueError(f"`{twice[0]}` is given by `--set` and by `--{name}`; give it once.")
        values[name] = values.get(name, {}) | more
    try:
        return ph.load_model(path, **values, **options)
    except ImportError as error:
        fail(str(error), WRONG_USAGE)
    except ValueError as error:
        option = _option_meant(settings, str(error))
        if option is None:
            raise
        raise ValueError(f"{error} Did you mean the option `{option}`?") from error


def _option_meant(settings: dict[str, Any], message: str) -> str | None:
    """The option that a setting is like which a message calls no joint; None for others."""
    for key in settings:
        near = difflib.get_close_matches(key, _OPTIONS, n=1, cutoff=0.7)
        if near and f"no joint `{key}`" in message:
            return near[0]
    return None


def _folders(value: Any) -> list[Any]:
    """The value of `--set` for one or several folders, as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def load(path: str, settings: dict[str, Any], options: ModelOptions) -> tuple[ImportedModel, Problem]:
    """The model of a file and its problem; settings as for `import_model`, and `formulation`."""
    settings = dict(settings)
    formulation = settings.pop("formulation", None)
    model = import_model(path, settings, options)
    return model, model.problem(None if formulation is None else str(formulation))


def get_problem(
    name: str,
    settings: list[str] | None,
    options: ModelOptions = ModelOptions(),  # noqa: B008
) -> tuple[Problem, ImportedModel | None]:
    """The problem of a name or of a model file, and the imported model, if any."""
    import polhode as ph

    parameters = parse_settings(settings)
    if not is_model_file(name):
        for option in options.options():
            raise ValueError(f"`{option}` goes with model files; `{name}` is a problem, which takes `--set`.")
        return ph.problems.get(name, **parameters), None
    model, problem = load(name, parameters, options)
    return problem, model


def announce(model: ImportedModel) -> None:
    """Prints the contents of the file and what was left out, on standard error."""
    names = [name for name, record in model.joints.items() if record.measured]
    say(f"{model.source}: {len(model.model.bodies)} bodies; joint_positions are {', '.join(names)}")
    for item in model.not_carried:
        say(f"  not carried over: {item}")


def explain(problem: Problem, method: bool) -> None:
    """Prints the reasons for the coordinates and, if `method`, for the method, on standard error."""
    for reason in (problem.choice.coordinates, problem.choice.method if method else ""):
        if reason:
            say(f"  {reason}")


def summary(model: ImportedModel) -> dict[str, Any]:
    """The part of the `--json` object about a model file."""
    return {
        "joints": [name for name, record in model.joints.items() if record.measured],
        "bodies": [body.name for body in model.model.bodies if body.kind == "rigid"],
        "not_carried": [{"what": i.what, "names": list(i.names), "reason": i.reason} for i in model.not_carried],
    }

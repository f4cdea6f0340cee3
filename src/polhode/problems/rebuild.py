"""Rebuilds the problem of a run from its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polhode.problem import Problem


def can_rebuild(meta: Mapping[str, Any]) -> bool:
    """Whether a run is of a named problem or of a model file, so that `rebuild` may make its problem."""
    from polhode.problems import registry

    return meta.get("origin") == "file" or meta.get("problem") in registry.names()


def rebuild(meta: Mapping[str, Any]) -> Problem | None:
    """The named problem, or that of the model file, that a run is of; None for problems and systems of users.

    Raises ValueError if that is not possible, such as for a file that no longer exists.
    """
    from polhode.problems import registry

    name, parameters = meta.get("problem"), dict(meta.get("parameters", {}))
    if meta.get("origin") == "file":
        return _from_file(parameters, float(meta["t1"]))
    if name not in registry.names():
        return None
    return registry.get(name, **{key: _array(value) for key, value in parameters.items()})


def _from_file(parameters: dict[str, Any], t1: float) -> Problem:
    from polhode.importers import load_model

    formulation, saves_loads = parameters.pop("formulation"), parameters.pop("save_loads", False)
    model = load_model(parameters.pop("path"), **parameters)
    return model.problem(formulation, t1=abs(t1) or 1.0, save_loads=saves_loads)


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value

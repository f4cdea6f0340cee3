"""MuJoCo for the importers, typed as Any because its bindings have no types."""

import importlib
import os
from typing import Any

from polhode._start import is_command

_WINDOWS = "MUJOCO_GL"


def _load() -> Any:
    """MuJoCo; in the command without its windows and renderers, which take half of the time to load."""
    if not is_command() or _WINDOWS in os.environ:
        return importlib.import_module("mujoco")
    os.environ[_WINDOWS] = "disable"
    try:
        return importlib.import_module("mujoco")
    finally:
        del os.environ[_WINDOWS]


mujoco: Any = _load()


def is_disabled(model: Any, effect: str) -> bool:
    """Whether a model has an effect switched off: "limit", "frictionloss", "spring", … as MJCF calls its flags."""
    bits, off = mujoco.mjtDisableBit, int(model.opt.disableflags)
    # One flag disables all that MuJoCo treats as constraints.
    if effect in ("limit", "frictionloss", "equality", "contact") and off & int(bits.mjDSBL_CONSTRAINT):
        return True
    return bool(off & int(getattr(bits, f"mjDSBL_{effect.upper()}")))

"""MuJoCo for the importers, typed as Any because its bindings have no types."""

from typing import Any

import mujoco as _mujoco

mujoco: Any = _mujoco


def is_disabled(model: Any, effect: str) -> bool:
    """Whether a model has an effect switched off: "limit", "frictionloss", "spring", … as MJCF calls its flags."""
    bits, off = mujoco.mjtDisableBit, int(model.opt.disableflags)
    # One flag disables all that MuJoCo treats as constraints.
    if effect in ("limit", "frictionloss", "equality", "contact") and off & int(bits.mjDSBL_CONSTRAINT):
        return True
    return bool(off & int(getattr(bits, f"mjDSBL_{effect.upper()}")))

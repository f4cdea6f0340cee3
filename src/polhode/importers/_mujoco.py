"""MuJoCo for the importers: its bindings carry no types, so that here they are Any."""

from typing import Any

import mujoco as _mujoco

mujoco: Any = _mujoco

from __future__ import annotations

from typing import Any, NamedTuple


class ContactProblem(NamedTuple):
    delassus: Any
    velocity: Any
    friction: Any
    drilling: Any
    rolling: Any
    active: Any
    compliance: Any

"""Reports of how a run is executed, for progress displays and statistics."""

from __future__ import annotations

from typing import Literal, NamedTuple

By = Literal["quick", "optimised", "xla"]

_NAMES: dict[By, str] = {
    "quick": "quickly compiled machine code",
    "optimised": "optimised machine code",
    "xla": "XLA",
}


class CompileReport(NamedTuple):
    """How the steps of a run are executed.

    - `operations`: of the machine code, with those in loops counted once; None where XLA compiles.
    - `by`: "quick" or "optimised" machine code, or "xla".
    - `kept`: whether the machine code is that of an earlier run.
    """

    operations: int | None
    by: By
    kept: bool

    @property
    def activity(self) -> str:
        """Description of the compilation, for progress displays."""
        if self.operations is None:
            return f"compiling with {self}"
        return f"compiling {self.operations:,} operations to {_NAMES[self.by]}"

    def __str__(self) -> str:
        count = "" if self.operations is None else f"{self.operations:,} operations, "
        return f"{count}{_NAMES[self.by]}{', kept from an earlier run' if self.kept else ''}"

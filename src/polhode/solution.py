"""What a run returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
from jaxtyping import Array

from polhode.systems.base import State

if TYPE_CHECKING:
    import xarray

    from polhode.audit import Audit


class Frames(NamedTuple):
    """Saved instants of a run; every leaf has leading axis n. Blocks of frames are what stores append.

    - `t`: (n,)
    - `state`: pytree
    - `outputs`, `invariants`, `residuals`: name → (n, …), or a pytree of such arrays
    - `multipliers`: (n, m) or None
    """

    t: Array
    state: State
    outputs: dict[str, Array]
    invariants: dict[str, Array]
    residuals: dict[str, Array]
    multipliers: Array | None


class Solution(eqx.Module):
    """Saved instants of a run with what is known about it.

    - `frames` and its parts `t`, `state`, `outputs`, `invariants`, `residuals`, `multipliers`.
    - `stats`: steps, rejected, evaluations (of the right-hand side, or of the residual of implicit methods),
      newton_iterations (mean over all attempted steps), result (a `Result`), t_reached, wall_time_s, compile_time_s.
    - `meta`: problem, parameters, integrator, h or tolerances, version, and what the method promises to keep
      (plain values that survive a round trip through JSON).
    """

    frames: Frames
    stats: dict[str, Any]
    meta: dict[str, Any] = eqx.field(static=True)

    @property
    def t(self) -> Array:
        return self.frames.t

    @property
    def state(self) -> State:
        return self.frames.state

    @property
    def outputs(self) -> dict[str, Array]:
        return self.frames.outputs

    @property
    def invariants(self) -> dict[str, Array]:
        return self.frames.invariants

    @property
    def residuals(self) -> dict[str, Array]:
        return self.frames.residuals

    @property
    def multipliers(self) -> Array | None:
        return self.frames.multipliers

    def audit(self) -> Audit:
        """What the method promised to keep against what was measured; the rules are in `polhode.audit`."""
        from polhode.audit import audit

        return audit(self)

    def to_xarray(self) -> xarray.Dataset:
        """A labelled data set with dimension `time`; the same that `xarray.open_zarr` gives of the saved run."""
        from polhode.runs.dataset import to_xarray

        return to_xarray(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a zarr store at `path`; `polhode.load` reads it back."""
        from polhode.runs.store import save

        save(self, path, overwrite=overwrite)

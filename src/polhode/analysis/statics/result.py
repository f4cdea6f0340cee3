"""Results of `equilibrium`, and the error if there is none."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from polhode import checks, summary
from polhode.analysis.statics.by_name import EquilibriumReader, NamedEquilibrium
from polhode.frames import Frames
from polhode.results.bodies import BodyResults
from polhode.results.by_name import ByName
from polhode.results.contact_names import Contacts
from polhode.results.forces import ForceResults
from polhode.results.joints import JointResults
from polhode.systems.base import State
from polhode.systems.mechanical import Multipliers

_INNER = ("meta", "reader")
"""Attributes that users need not see."""


class Equilibrium(eqx.Module):
    """An equilibrium and the way there; arrays of the way have a leading axis for the load steps.

    - `t`: the time that loads and constraints were taken at. - `state`: (q, v) with v = 0.
    - `multipliers`: λ, shape (m,). - `residual`: the largest of |f - Bᵀλ|; `gap`: the largest of |Φ|.
    - `path`: a `Frames` with times, states, outputs, residuals and multipliers at the end of each load step.
    - `loads`: the share of the loads at the end of each step; 1 throughout for given times.
    - `iterations`: of Newton's method in each step, those of halved steps included.
    - `corrections`: |θ|∞ of each iteration of the last attempt, shape (steps, max_iterations), NaN after the last.
    - `converged`: whether the last load was reached; where it is False inside JAX transformations, numbers are NaN.
    - `unstable`: the number of directions in which the potential falls; of forces without one the symmetric part of
      their stiffness counts. None above 400 unknowns n + m, and inside JAX transformations.
    - `bodies`, `joints`, `forces`, `contacts`: of a model's problem by name as those of runs, but without the axis n;
      `at(k)` has them at the end of load step k.
    """

    t: Array
    state: State
    multipliers: Multipliers
    residual: Float[Array, ""]
    gap: Float[Array, ""]
    path: Frames
    loads: Float[Array, " steps"]
    iterations: Int[Array, " steps"]
    corrections: Float[Array, "steps max_iterations"]
    converged: Array
    unstable: int | None = eqx.field(static=True, default=None)
    meta: dict[str, Any] = eqx.field(static=True, default_factory=dict, repr=False)
    reader: EquilibriumReader | None = eqx.field(static=True, default=None, repr=False)

    @property
    def bodies(self) -> ByName[BodyResults]:
        """Bodies by name, with `position`, `rotation` and more."""
        return self.at(-1).bodies

    @property
    def joints(self) -> ByName[JointResults]:
        """Joints by name, with `angle`, `force`, `moment`, `torque` and more: what supports carry."""
        return self.at(-1).joints

    @property
    def forces(self) -> ByName[ForceResults]:
        """Forces that were given a name, with `force`, `moment`, `effort`, `elongation` and more."""
        return self.at(-1).forces

    @property
    def contacts(self) -> Contacts:
        """Contacts by names of bodies, shapes or rules, with `force`, `normal_forces`, `points` and more."""
        return self.at(-1).contacts

    def at(self, step: int) -> NamedEquilibrium:
        """The equilibrium at the end of a load step, counted from 0, with `bodies`, `joints` and `forces` by name.

        Raises IndexError where there is none.
        """
        if self.loads.ndim != 1:
            raise ValueError(
                "A batch of equilibria has no names; take one of them: jax.tree.map(lambda x: x[k], found)."
            )
        count = self.loads.shape[0]
        if not -count <= step < count:
            raise IndexError(f"There are {count} load steps, so there is no step {step}.")
        frame = jax.tree.map(lambda a: a[step], self.path)
        reader = self.reader.at(range(count)[step], float(self.loads[step])) if self.reader else None
        return NamedEquilibrium(frame, self.meta, reader)

    def __dir__(self) -> list[str]:
        return sorted(name for name in super().__dir__() if not name.startswith("_") and name not in _INNER)

    def _summary_rows(self) -> list[tuple[str, str]]:
        """Names and values of the rows of its summary."""
        is_concrete = self.loads.ndim == 1 and checks.is_concrete(self.t, self.residual)
        instability = f"unstable: the potential falls in {self.unstable} of its directions"
        stability = {None: "", True: "stable", False: instability}[self.stable]
        numbers = self._numbers() if is_concrete else []
        names = [(kind, ", ".join(self.meta.get("names", {}).get(kind, ()))) for kind in ("bodies", "joints", "forces")]
        rows = [*numbers, ("stability", stability), *names, ("outputs", ", ".join(self.path.outputs))]
        return [row for row in rows if row[1]]

    def _numbers(self) -> list[tuple[str, str]]:
        share = 100 * float(self.loads[-1])
        return [
            ("result", "converged" if self.converged else f"stopped at {share:.4g} % of the load"),
            ("time of the loads", f"{float(self.t):g}"),
            ("load steps", f"{len(self.loads)}, {int(np.sum(self.iterations))} iterations"),
            ("residual", f"{float(self.residual):.2g}, of constraints {float(self.gap):.2g}"),
        ]

    def __repr__(self) -> str:
        return f"Equilibrium({'; '.join(f'{what}: {text}' for what, text in self._summary_rows())})"

    def _repr_html_(self) -> str:
        return summary.html("Equilibrium", self._summary_rows())

    @property
    def stable(self) -> bool | None:
        """Whether it holds in every direction; None where `unstable` is."""
        return None if self.unstable is None else self.unstable == 0


class EquilibriumError(RuntimeError):
    """No equilibrium was found, or one that is not isolated.

    - `equilibrium`: the last one that was found, with the path to it; at the start if there is none.
    - `reason`: what happened, without where to find the rest.
    """

    def __init__(self, reason: str, equilibrium: Equilibrium) -> None:
        super().__init__(f"{reason} Everything up to there is in `error.equilibrium`.")
        self.reason = reason
        self.equilibrium = equilibrium

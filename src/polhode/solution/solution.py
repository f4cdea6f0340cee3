"""Solutions: the frames of a run with its statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode import checks, summary
from polhode.events.table import Events
from polhode.frames import Frames
from polhode.integrators.nonsmooth.contact_record import WORK_KINDS
from polhode.name_errors import NameDict, missing_attribute
from polhode.printable import printable
from polhode.results.bodies import BodyResults, bodies
from polhode.results.by_name import ByName
from polhode.results.contact_laws import energy_taken
from polhode.results.contact_names import Contacts
from polhode.results.declarations import ResultClasses
from polhode.results.forces import ForceResults, forces
from polhode.results.joints import JointResults, joints
from polhode.results.outputs import Outputs
from polhode.systems.base import State

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes

    from polhode.results.audit import Audit
    from polhode.results.derived_quantities import Reader
    from polhode.results.quantity import Quantity
    from polhode.storage.stored_frames import StoredFrames


_INNER = ("saved", "reader", "classes", "picture", "checkpoint", "frames", "blocks", "columns")
"""Attributes that `dir` hides."""
_MOST_LISTED = 20
_INSTEAD = {
    **dict.fromkeys(("view", "render"), '`run.show()` has motion and charts; `run.plot("crank.angle")` plots columns.'),
    **dict.fromkeys(
        ("animate", "movie", "video", "export"), "`polhode export RUN.zarr FILE.mp4` writes films of saved runs."
    ),
    **dict.fromkeys(
        ("positions", "velocities", "angles", "rotations", "angular_velocities"),
        "Results are by name: `run.bodies[…].position`, `run.joints[…].angle`.",
    ),
    **dict.fromkeys(("time", "times"), "The instants are `run.t`."),
    **dict.fromkeys(("step", "simulate"), "`polhode.simulate(problem, initial=run)` goes on from its end."),
    **dict.fromkeys(("to_csv", "dataframe", "df"), "`run.to_pandas()` is a table of pandas."),
}
"""Names that users often try first."""


def _row(frames: Frames, k: int) -> Frames:
    return jax.tree.map(lambda x: x[k : k + 1], frames)


class Solution(eqx.Module):
    """Saved instants of a run, with its statistics and description.

    - `frames` and its parts `t`, `state`, `outputs`, `invariants`, `residuals`, `multipliers`. Of a run with a store
      they are read from disk when they are used, so that a run may be larger than memory.
    - `stats`: steps, rejected, evaluations (of the right-hand side, or of the residual of implicit methods),
      newton_iterations (mean over all attempted steps), result (a `Result`), t_reached. Of runs on the host also three
      times, which add up to that of the call: build_time_s (checking the problem, finding a consistent start),
      compile_time_s and wall_time_s (the steps); problem_time_s, the time for building the problem, once for all of
      its runs, 0 where it was not measured; and compiled: operations, by ("quick" or "optimised" machine code, or
      "xla"), kept (whether the machine code was of an earlier run).
    - `meta`: problem, parameters, integrator, h or tolerances, version, and the promises of the method
      (plain values that survive a round trip through JSON).
    - `events`: the events that occurred, with the states before and after.
    - `bodies`, `joints`, `forces`, `contacts`: results by the names of the model, and of impacts and stops.
    - `dissipated`: energy that contacts have taken, by kinds.
    - `saved`: the frames, or the store that has them. - `checkpoint`: from which `simulate(…, initial=…)` continues.
    - `reader`: computes quantities of bodies and joints that were not saved; None without the problem.
    - `classes`: of the results of bodies, joints and forces, which declare their quantities.
    - `picture`: returns the scene of runs whose metadata have none; None if there is none.
    """

    saved: Frames | StoredFrames
    stats: dict[str, Any]
    meta: dict[str, Any] = eqx.field(static=True)
    checkpoint: Any = eqx.field(static=True, default=None)
    reader: Reader | None = eqx.field(static=True, default=None)
    classes: ResultClasses = eqx.field(static=True, default=ResultClasses())
    picture: Callable[[], Any] | None = eqx.field(static=True, default=None)

    @property
    def frames(self) -> Frames:
        return self.saved if isinstance(self.saved, Frames) else self.saved.whole()

    @property
    def t(self) -> Array:
        return self.saved.t

    @property
    def state(self) -> State:
        return self.saved.state

    @property
    def outputs(self) -> Mapping[str, Array]:
        outputs = self.saved.outputs
        return Outputs(outputs) if isinstance(outputs, dict) else outputs

    @property
    def bodies(self) -> ByName[BodyResults]:
        """Bodies by name, with `position`, `orientation`, `velocity` and more; see `polhode.results`."""
        return bodies(self)

    @property
    def joints(self) -> ByName[JointResults]:
        """Joints by name, with `angle`, `rate`, `force`, `moment`, `power` and more; see `polhode.results`."""
        return joints(self)

    @property
    def forces(self) -> ByName[ForceResults]:
        """Forces that were given a name, with `force`, `moment`, `effort`, `power` and more; see `polhode.results`."""
        return forces(self)

    @property
    def contacts(self) -> Contacts:
        """Contacts by names of bodies or shapes, `contacts["floor", "foot"]`, of rules or stops of events."""
        return Contacts(self)

    @property
    def dissipated(self) -> dict[str, Array]:
        """Energy that contacts have taken since the start of the run, by "impact", "sliding" and "rolling", (n,)."""
        taken = energy_taken(self)
        return NameDict("energy taken by", {kind: taken[..., k] for k, kind in enumerate(WORK_KINDS)})

    def with_quantities(
        self,
        *,
        bodies: Mapping[str, Quantity] | None = None,
        joints: Mapping[str, Quantity] | None = None,
        forces: Mapping[str, Quantity] | None = None,
        contacts: Mapping[str, Quantity] | None = None,
    ) -> Solution:
        """The run with more quantities of its bodies, joints, forces or contacts: as attributes, in tables and charts.

        They are as those of `polhode.results.BodyResults` are, which have to be given again after saving and loading:

            run = run.with_quantities(bodies={"height": Quantity("length", lambda body: body.z)})
        """
        classes = self.classes.with_quantities(bodies=bodies, joints=joints, forces=forces, contacts=contacts)
        return dataclasses.replace(self, classes=classes)

    @property
    def invariants(self) -> Mapping[str, Array]:
        return self.saved.invariants

    @property
    def residuals(self) -> Mapping[str, Array]:
        return self.saved.residuals

    @property
    def multipliers(self) -> Array | None:
        return self.saved.multipliers

    @property
    def events(self) -> Events:
        """Events of the run, in order of time."""
        return Events.of(self.stats, self.meta, self[0].state)

    def __getitem__(self, k: int) -> Solution:
        """Frame k as a run of its own, to start another run from; the last one with the method's checkpoint.

        Raises IndexError where there is none, and TypeError for names.
        """
        if isinstance(k, str):
            raise TypeError(
                f"Frames have numbers, the last one is run[-1]; {k!r} is in `run.bodies[{k!r}]`, `run.joints[{k!r}]`, "
                "`run.contacts[…]` or `run.to_pandas()`."
            )
        count = len(self.saved.t) if isinstance(self.saved, Frames) else len(self.saved)
        if not -count <= k < count:
            raise IndexError(f"The run has {count} frames, so there is no frame {k}.")
        k = range(count)[k]
        frames = self.saved.between(k, k + 1) if not isinstance(self.saved, Frames) else _row(self.saved, k)
        return dataclasses.replace(self, saved=frames, checkpoint=self.checkpoint if k == count - 1 else None)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("A Solution", name, dir(self), _INSTEAD)

    def __dir__(self) -> list[str]:
        return sorted(name for name in super().__dir__() if not name.startswith("_") and name not in _INNER)

    def _summary_rows(self) -> list[tuple[str, str]]:
        """Rows of its summary: name and value."""
        integrator, result = self.meta.get("integrator"), self.stats.get("result")
        method = integrator.get("name", "") if isinstance(integrator, dict) else str(integrator or "")
        step = f"h = {self.meta['h']:g}" if isinstance(self.meta.get("h"), float) else "error control"
        shape = np.shape(self.t)
        has_times = len(shape) == 1 and shape[0] and checks.is_concrete(self.t)
        span = f", t = {float(self.t[0]):g} … {float(self.t[-1]):g}" if has_times else ""
        rows = [
            ("result", getattr(result, "name", "")),
            ("method", f"{method}, {step}"),
            ("frames", f"{' × '.join(map(str, shape))}{span}"),
            ("bodies", ", ".join(list(self.bodies)[:_MOST_LISTED])),
            ("joints", ", ".join(list(self.joints)[:_MOST_LISTED])),
            ("forces", ", ".join(list(self.forces)[:_MOST_LISTED])),
            ("contacts", self._contact_row()),
            ("outputs", ", ".join(self.saved.outputs)),
            ("invariants", ", ".join(self.saved.invariants)),
        ]
        return [row for row in rows if row[1]]

    def _contact_row(self) -> str:
        """Names of contacts, or what has shapes without a rule that lets them touch."""
        shaped = self.meta.get("names", {}).get("untouchable", ())
        if shaped:
            return f"none, although {', '.join(shaped[:_MOST_LISTED])} have shapes: `model.contacts()` lets them touch"
        return ", ".join(list(self.contacts)[:_MOST_LISTED])

    def __repr__(self) -> str:
        problem = self.meta.get("problem") or "a system"
        return printable(
            f"Solution of {problem} ({'; '.join(f'{what}: {text}' for what, text in self._summary_rows())})"
        )

    def _repr_html_(self) -> str:
        return summary.html(f"Solution of {self.meta.get('problem') or 'a system'}", self._summary_rows())

    def __reduce__(self) -> Any:
        # Checkpoints belong to this process; a copy elsewhere continues from its state.
        return Solution, (self.saved, self.stats, self.meta, None, None, ResultClasses(), self.picture)

    def columns(self) -> Mapping[str, Any]:
        """Every array of the frames by its flat name, to be read slice by slice."""
        from polhode.storage import frame_layout

        return frame_layout.flatten(self.saved)[1] if isinstance(self.saved, Frames) else self.saved.columns()

    def blocks(self) -> Iterator[Frames]:
        """All frames in blocks that fit into memory, one after the other."""
        if isinstance(self.saved, Frames):
            yield self.saved
        else:
            yield from self.saved.blocks()

    def audit(self) -> Audit:
        """Promises of the method against measured drifts; the rules are in `polhode.results.audit`."""
        from polhode.results.audit import audit

        return audit(self)

    def to_xarray(self) -> xarray.Dataset:
        """A labelled data set with dimension `time`; the same that `xarray.open_zarr` gives for the saved run.

        That of a model also has coordinates `body`, `joint` and `component`, and units where they are known.
        """
        from polhode.solution.dataset import to_xarray

        return to_xarray(self)

    def show(
        self, *others: Solution, labels: Sequence[str] | None = None, block: bool | None = None, browser: bool = True
    ) -> Any:
        """Shows the run, or compares it with another one: the motion, selectable charts, the audit.

        In a notebook the page is part of the output. Elsewhere a server on this machine's loopback address shows it
        in the browser; a script waits until Ctrl-C, an interactive session continues.

        **Arguments:**

        - `others`: at most one more run. - `labels`: what to call the runs where they are compared.
        - `block`: whether to wait; by default in scripts. - `browser`: whether to open the browser.

        **Returns** what a notebook shows; of a server that isn't waited for, that, with its `url` and `close()`.
        """
        from polhode.solution.show import show

        return show((self, *others), labels, block, browser)

    def plot(self, *columns: str, against: str = "time", axes: Axes | None = None) -> Axes:
        """Draws columns with matplotlib: `run.plot("motor.torque", against="crank.angle")`.

        **Arguments:**

        - `columns`: names of columns or patterns, as for `to_pandas`.
        - `against`: the column along the horizontal axis. - `axes`: to draw on, of a figure of one's own.

        **Returns** the axes; their `figure` is shown in notebooks, and has `savefig`.

        **Raises** KeyError, with near names, for names that fit nothing; ValueError for no columns.
        """
        from polhode.viewing.plots import curves

        if not columns:
            raise ValueError(
                'Name the columns to draw, such as run.plot("crank.angle"); `run.to_pandas().columns` lists them, and '
                '`polhode.export(run, "run.png")` draws outputs, drifts and residuals.'
            )
        return curves(self, columns, against, axes)

    def to_pandas(self, columns: str | Sequence[str] | None = None) -> pandas.DataFrame:
        """A table with one row an instant and one column a number, named like `crank.angle` and `rocker.x`.

        **Arguments:**

        - `columns`: names of columns, of whole bodies, joints or outputs, and patterns such as "*.power", in the
          requested order after `time`; by default everything but the state, which "state.*" gives.

        **Raises** KeyError, with near names, for names that fit nothing.
        """
        import pandas

        from polhode.results.columns import select_columns

        return pandas.DataFrame(select_columns(self, columns))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a store at `path`, an HDF5 file if it ends in `.h5`, else zarr; `polhode.load` reads it back."""
        from polhode.solution.save import save

        save(self, path, overwrite=overwrite)

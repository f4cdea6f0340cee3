"""The result of an ensemble: the runs of all members as one data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polhode import summary
from polhode.result_codes import Result
from polhode.results.bodies import BodyResults, bodies
from polhode.results.by_name import ByName
from polhode.results.contact_names import Contacts
from polhode.results.declarations import ResultClasses

if TYPE_CHECKING:
    import xarray


class _MemberFrames(NamedTuple):
    """The frames of all members, with axes (member, time, …)."""

    outputs: Mapping[str, Any]
    multipliers: Any


class _Members(NamedTuple):
    """All members as one run, from which results by name are read; nothing is computed that was not saved."""

    t: Any
    meta: Mapping[str, Any]
    saved: _MemberFrames
    reader: None = None
    classes: ResultClasses = ResultClasses()

    @property
    def outputs(self) -> Mapping[str, Any]:
        return self.saved.outputs

    @property
    def bodies(self) -> ByName[BodyResults]:
        return bodies(self)


class Ensemble(NamedTuple):
    """The runs of an ensemble.

    - `dataset`: an `xarray.Dataset` with dimensions `member`, `time`, …; the parameters are coordinates of `member`.
      With `out` it reads from the store.
    - `stats`: `by` ("lanes" or "single runs", then with the reason `because`), `lanes`, `workers`, `failed`, times.
    - `meta`: names of bodies, joints and contacts of the model.
    """

    dataset: xarray.Dataset
    stats: dict[str, Any]
    meta: Mapping[str, Any] = {}

    @property
    def contacts(self) -> Contacts:
        """Contacts by names of bodies or shapes, as those of a run, of all members: leading axes (member, time).

        Forces, slips and dissipation are in every frame; places and vectors in those of problems with
        `save=[polhode.results.ContactResults.points]`. Modes are "slide" where a point moves along the surface, since
        members may have frictions of their own.
        """
        data = self.dataset
        frames = {str(name): data[name].values for name in data.data_vars if data[name].dims[:2] == ("member", "time")}
        outputs = {name.rpartition(".")[2]: values for name, values in frames.items() if name.startswith("outputs.")}
        times = np.broadcast_to(data["time"].values, (data.sizes["member"], data.sizes["time"]))
        return Contacts(_Members(times, self.meta, _MemberFrames(outputs, frames.get("multipliers"))))

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Members that did not reach the end: number, result, the time reached, parameters."""
        data = self.dataset
        result = data["result"].values
        names = self._parameters()
        return [
            {
                "member": int(data["member"][k]),
                "result": Result(int(result[k])) if result[k] >= 0 else Result.interrupted,
                "t_reached": float(data["t_reached"][k]),
                "parameters": {str(name): data[name].values[k].tolist() for name in names},
            }
            for k in np.flatnonzero(result != 0)
        ]

    def _parameters(self) -> list[Any]:
        """Names of what differs between members."""
        data = self.dataset
        return [name for name in data.coords if name not in ("member", "time") and data[name].dims[:1] == ("member",)]

    def _summary_rows(self) -> list[tuple[str, str]]:
        """Names and values of the lines with which it is shown."""
        data = self.dataset
        count, failed = data.sizes["member"], int(np.count_nonzero(data["result"].values))
        variables = [str(name) for name in data.data_vars]
        outputs = dict.fromkeys(name.split(".")[1] for name in variables if name.startswith("outputs."))
        rows = [
            ("members", f"{count}, {f'{failed} failed; `failed` names them' if failed else 'none failed'}"),
            ("parameters", ", ".join(map(str, self._parameters()))),
            ("instants", str(data.sizes.get("time", ""))),
            ("outputs", ", ".join(outputs)),
            ("run by", str(self.stats.get("by", ""))),
            ("data", "`dataset`, labelled by member, time, body and joint coordinate"),
        ]
        return [row for row in rows if row[1]]

    def __repr__(self) -> str:
        return f"Ensemble({'; '.join(f'{what}: {text}' for what, text in self._summary_rows())})"

    def _repr_html_(self) -> str:
        return summary.html("Ensemble", self._summary_rows())

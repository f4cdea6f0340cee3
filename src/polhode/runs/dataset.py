"""Solutions as labelled data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polhode.runs import layout
from polhode.runs.store import attributes

if TYPE_CHECKING:
    import xarray

    from polhode.solution import Solution


def to_xarray(solution: Solution) -> xarray.Dataset:
    """A solution in memory as the same data set that `xarray.open_zarr` gives of its store."""
    import xarray

    _, leaves = layout.flatten(solution.frames)
    labels = layout.label(leaves, solution.meta.get("dimensions", {}))
    variables = {name: (labels[name], leaf) for name, leaf in leaves.items()}
    return xarray.Dataset(variables, attrs=attributes(solution.meta, solution.stats))

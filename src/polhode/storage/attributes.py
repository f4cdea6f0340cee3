"""Attributes that describe a run in stores, data sets and netCDF files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from polhode.json_values import to_plain
from polhode.result_codes import Result
from polhode.storage.documents import RUN


def attributes(meta: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a run in a store, a data set or a netCDF file: strings and numbers only."""
    integrator, result = meta.get("integrator"), stats.get("result")
    if result is not None and not isinstance(result, Result) and np.ndim(result) == 0:
        # Runs within JAX transformations have the result as a number.
        stats = {**stats, "result": Result(int(result))}
    return {
        "title": f"polhode run of {meta.get('problem', 'a system')}",
        RUN.key: RUN.format,
        "problem": str(meta.get("problem", "")),
        "integrator": str(integrator.get("name", "") if isinstance(integrator, dict) else integrator or ""),
        "meta": json.dumps(to_plain(meta)),
        "stats": json.dumps(to_plain(stats)),
    }

"""Limits that a model states and that no method keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polhode.results.audit.block_statistics import span


def exceeded(joints: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[str]:
    """A remark for each joint whose rate exceeds its limit in a saved frame.

    `joints`: what a run knows of them by name; `columns`: the run's, by name.
    """
    limited = {name: told for name, told in joints.items() if "velocity_limit" in told}
    rates = columns.get("outputs.joint_velocities")
    if not limited or rates is None:
        return
    largest = np.max(np.abs(span(rates)), axis=0)
    for name, told in limited.items():
        for label, k in told["coordinates"].items():
            if largest[k] > told["velocity_limit"]:
                unit = "rad/s" if label in told["angles"] else "m/s"
                yield (
                    f"joint {name} moves at up to {largest[k]:.3g} {unit}, beyond its velocity limit of "
                    f"{told['velocity_limit']:.3g} {unit}, which nothing keeps"
                )

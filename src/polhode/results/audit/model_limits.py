"""Limits of a model file that no method enforces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polhode.results.audit.block_statistics import span


def limit_remarks(joints: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[str]:
    """A remark for each joint whose rate exceeds its limit in a saved frame.

    `joints`: descriptions of the run's joints by name; `columns`: of the run by name.
    """
    limits = {name: joint for name, joint in joints.items() if "velocity_limit" in joint}
    rates = columns.get("outputs.joint_velocities")
    if not limits or rates is None:
        return
    largest = np.max(np.abs(span(rates)), axis=0)
    for name, joint in limits.items():
        for label, k in joint["coordinates"].items():
            if largest[k] > joint["velocity_limit"]:
                unit = "rad/s" if label in joint["angles"] else "m/s"
                yield (
                    f"joint {name} moves at up to {largest[k]:.3g} {unit}, beyond its velocity limit of "
                    f"{joint['velocity_limit']:.3g} {unit}, which nothing keeps"
                )

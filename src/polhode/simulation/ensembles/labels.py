"""Dimensions and coordinates of the data set of an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polhode.results.problem_description import describe_names
from polhode.simulation.ensembles.members import Members
from polhode.simulation.save_schedule import SaveSchedule, frame_times
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.task import Task
from polhode.storage import frame_layout
from polhode.storage.constant_arrays import Constants
from polhode.storage.labels import coordinates, unit


class Labels(NamedTuple):
    """Names of dimensions and their coordinates.

    - `dimensions`: of the frames of a member, by name. - `coordinates`: name → dimensions and values.
    - `units`: of variables, where they are known.
    """

    dimensions: dict[str, tuple[str, ...]]
    coordinates: Constants
    units: dict[str, dict[str, str]]

    @classmethod
    def of(cls, task: Task, members: Members, frames: dict[str, np.ndarray], times: np.ndarray) -> Labels:
        """The labels of a model's runs, its parameters and instants; `frames` are those of any members."""
        name_metadata = describe_names(task.problem, task.run_system.outputs)
        dimensions = frame_layout.label({name: x[0] for name, x in frames.items()}, name_metadata.get("dimensions", {}))
        coordinate_arrays: Constants = {"member": (("member",), np.arange(members.count)), "time": (("time",), times)}
        for name, values in members.parameters.items():
            coordinate_arrays[name] = (("member", *(f"{name}_{k}" for k in range(values.ndim - 1))), values)
        if members.seeds is not None:
            coordinate_arrays["seed"] = (("member",), members.seeds)
        names = name_metadata.get("names", {})
        axes_present = {axis for axes in dimensions.values() for axis in axes}
        words = coordinates(names, axes_present)
        coordinate_arrays |= {name: ((axis,), np.array(values, str)) for name, (axis, values) in words.items()}
        return cls(dimensions, coordinate_arrays, {name: unit(name, names.get("units")) for name in frames})


def times(segments: Sequence[Segment], schedule: SaveSchedule) -> np.ndarray:
    """The instants of all members, to the last bit those of their frames.

    Raises ValueError where members have none in common.
    """
    if schedule.at is None and schedule.every is not None and not segments[-1].stepper.on_grid:
        raise ValueError(
            "Members of an ensemble with tolerances have no instants in common. Give `save_at` times, or "
            "save_every=None for the ends only."
        )
    return frame_times(segments, schedule)

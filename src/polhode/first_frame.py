"""The start of a problem as a run of one frame, to look at before anything is solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.results.derived_quantities import reader_of
from polhode.results.observer import Observer
from polhode.results.problem_description import describe_names, describe_problem, plain_values
from polhode.solution.solution import Solution
from polhode.systems.base import Converted
from polhode.viewing.scene import model_scene

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts
    from polhode.problem import Problem


@eager_numpy()
def first_frame(problem: Problem) -> Solution:
    """The initial state of a problem, with its outputs, invariants and residuals, as a run of one frame.

    Nothing is solved and nothing compiled.
    """
    system, t0 = problem.system, float(problem.t_span[0])
    t: Any = np.float64(t0)
    observation = Observer(system, problem.outputs, problem.invariants)(t, problem.state0)
    frames: Any = Frames(t, problem.state0, *observation, None)
    stats = {"result": Result.successful, "t_reached": t0, "steps": 0, "rejected": 0, "evaluations": 0}
    reader = reader_of(problem, system, Converted(system))
    rows = jax.tree.map(lambda x: np.asarray(x)[None], frames)
    return Solution(rows, stats, _describe(problem, t0), reader=reader, picture=lambda: problem.scene)


@eager_numpy()
def given_frame(model: ModelParts) -> Solution:
    """The bodies of a model where they were given, whether joints fit or not, as a run of one frame."""
    placed = [body for body in model.bodies if body.kind != "coordinate"]
    places, rotations = (np.array([[getattr(body, name) for body in placed]], float) for name in ("x", "R"))
    outputs: Any = {"positions": places, "rotations": rotations}
    times: Any = np.zeros(1)
    frames = Frames(times, (), outputs, {}, {}, None)
    scene = plain_values(model_scene.to_dict(model, [body.name for body in placed]))
    meta = {"problem": "model", "promises": {}, "scene": scene, "t0": 0.0, "t1": 0.0}
    return Solution(frames, {"result": Result.successful, "t_reached": 0.0}, meta)


def _describe(problem: Problem, t0: float) -> dict[str, Any]:
    from polhode import __version__

    description = problem.scene and problem.scene.description
    return {
        **describe_problem(problem),
        "integrator": {"name": problem.integrator, "options": {}},
        "t0": t0,
        "t1": t0,
        "h": float(problem.h),
        "promises": {},
        "version": __version__,
        **describe_names(problem, problem.outputs),
        **({"scene": plain_values(dict(description))} if description else {}),
    }

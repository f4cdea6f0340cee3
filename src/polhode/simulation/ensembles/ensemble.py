"""Many runs of one problem: the function `polhode.ensemble`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from polhode import checks
from polhode.compiler.placement import default_device_for, on_jax_device
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment, inside_transformation
from polhode.json_values import to_plain
from polhode.problem import Problem
from polhode.result_codes import Result
from polhode.results.problem_description import describe_names
from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.compiled_members import MemberRequest
from polhode.simulation.ensembles.dask_pool import open_dask_pool
from polhode.simulation.ensembles.job import Job
from polhode.simulation.ensembles.labels import Labels, times
from polhode.simulation.ensembles.load import dataset_of
from polhode.simulation.ensembles.members import Members
from polhode.simulation.ensembles.memory_sink import MemorySink
from polhode.simulation.ensembles.pools import AbstractPool, BatchQueue, ThreadPool
from polhode.simulation.ensembles.result import Ensemble
from polhode.simulation.ensembles.statistics import Summary
from polhode.simulation.ensembles.store import EnsembleStore
from polhode.simulation.ensembles.store_claim import claim, create_or_open
from polhode.simulation.loops.signals import interruption, interrupts
from polhode.simulation.run_plan import plan_steps
from polhode.simulation.save_schedule import save_schedule
from polhode.simulation.step_request import StepRequest
from polhode.simulation.task import Task

if TYPE_CHECKING:
    import xarray

_BATCH_BYTES = 16_000_000
_LARGEST_BATCH, _BATCHES = 1024, 16
_VECTOR = 8
"""Members that any number of lanes divides."""


def ensemble(
    problem: Problem,
    integrator: AbstractIntegrator | str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    samples: Any = None,
    states: Any = None,
    seeds: Any = None,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    t0: float | None = None,
    t1: float | None = None,
    save_every: int | None = None,
    save_at: Any = None,
    keep: bool = True,
    statistics: bool = False,
    quantiles: Sequence[float] = (),
    bins: int = 256,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    workers: int | None = None,
    scheduler: Any = None,
    by: Literal["lanes", "devices"] = "lanes",
    progress: Callable[[int, int], None] | None = None,
) -> Ensemble:
    """Run many members of one problem, several at a time in the lanes of the processor's vectors, on all cores.

    Every member's steps are those of a single run, to the last bit; its consistent start may differ from that of a
    single run by rounding. On devices a batch of members is one program of XLA, equal to single runs up to rounding.

    **Arguments:**

    - `problem`, `integrator`, `h`, `rtol`, `atol`, `t0`, `t1`, `save_at`: as for `polhode.simulate`.
    - `parameters`: name → values; all combinations are run, the last parameter changing fastest.
    - `samples`: instead, name → values of every member; or a function of a `numpy.random.Generator` that returns
      one member's parameters, with `seeds`.
    - `states`: starts, stacked: every leaf has shape (members, …).
    - `seeds`: of the members' generators: whole numbers, or how many there are to be (0, 1, …).
    - `save_every`: save every that many steps besides the ends; None saves the ends only.
    - `keep`: whether frames are kept; without, there have to be statistics.
    - `statistics`: gather number, mean, variance and extremes of every variable at every instant over the members.
    - `quantiles`: these as well, with histograms of so many `bins`, which is how exact they are.
    - `out`: path of a zarr store that takes the frames, batch by batch; `resume` continues with what is there,
      `overwrite` replaces it.
    - `workers`: threads; as many as there are cores by default.
    - `scheduler`: instead of threads, workers of Dask (extra `dask`): the address of a scheduler, `local:N` for so many
      processes of this machine, or a `distributed.Client`. All must see `out` at the same path.
    - `by`: "lanes" of the processor, or "devices" for XLA on the device that `jax.default_device` names, by default
      JAX's first one, in batches that fit into its memory.
    - `progress`: is called with how many members are done, and how many there are.

    Members that fail end alone: their frames are NaN from there on, and `failed` has them with their parameters.
    Where no lane can take a step, as of programs on long arrays, members go one after the other, by the same machine
    code; with events and breakpoints as single runs. `stats["because"]` says why. On devices a problem must be one that
    can be made inside `jax.jit`.

    Signals end it as they end a run, see `polhode.simulate`: what is done is stored, and the KeyboardInterrupt has it
    as `ensemble`.

    **Raises** ValueError for bad input, before anything is compiled; StoreError where the store can't be written.
    """
    began = time.perf_counter()
    check_environment()
    _check(problem, keep, statistics or bool(quantiles), out, resume, overwrite)
    checks.choice("by", by, ("lanes", "devices"))
    if progress is not None and not callable(progress):
        raise ValueError(f"`progress` must be a function of two numbers, got {checks.short_repr(progress)}.")
    # Signals are handed on when the store is closed.
    with (
        interrupts() as signals,
        default_device_for() if by == "lanes" else on_jax_device(),
        claim(out, resume, overwrite) as path,
    ):
        members = Members.of(problem, parameters, samples, states, seeds)
        request, first = _member_request(problem, integrator, members, (h, rtol, atol), (t0, t1), (save_every, save_at))
        summary = Summary(quantiles, bins) if statistics or quantiles else None
        at = times(plan_steps(first, request.steps).segments, request.schedule)
        job = Job(request, members, len(at), by)
        with _pool(workers, scheduler) as pool:
            like = job.executor.like(signals.is_set)
            labels = Labels.of(first, members, like.frames, at)
            size = _batch_size(like, members.count, job.executor.room())
            batches = [slice(k, min(k + size, members.count)) for k in range(0, members.count, size)]
            store = None
            if path is not None:
                store = _store(path, _description(request, members, size), members.count, size, like, labels, resume)
            memory = MemorySink(members.count, like, keep and path is None)
            frames = summary is not None or (keep and path is None)
            ready = time.perf_counter()
            for which, batch in pool.run(BatchQueue(job, batches, store, frames, signals.is_set)):
                memory.put(which, batch)
                if summary is not None:
                    summary.add(batch.frames)
                if progress is not None:
                    progress(which.stop, members.count)
        stats = {**job.executor.report(), **pool.report(), **_counts(members, memory)}
        stats |= {"compile_time_s": ready - began, "wall_time_s": time.perf_counter() - ready}
        meta = _common_names(first)
        statistics_variables = {} if summary is None else summary.variables(labels.dimensions)
        if store is not None:
            result = Ensemble(dataset_of(store.finish(statistics_variables, json.dumps(to_plain(stats)))), stats, meta)
        else:
            result = Ensemble(_dataset(first, memory, labels, statistics_variables, stats), stats, meta)
        signals.keep(interruption("A signal ended the ensemble.", ensemble=result))
        return result


def _common_names(first: Task) -> dict[str, Any]:
    """Names of the model of all members, from those of the first, without its frictions."""
    meta = describe_names(first.problem, first.run_system.outputs)
    for pair in meta.get("names", {}).get("contacts", {}).get("pairs", ()):
        pair.pop("friction", None)
    return meta


def _counts(members: Members, memory: MemorySink) -> dict[str, int]:
    results = memory.ends["result"]
    return {
        "members": members.count,
        "failed": int((results != 0).sum()),
        "interrupted": int((results == Result.interrupted).sum()),
    }


@contextlib.contextmanager
def _pool(workers: int | None, scheduler: Any) -> Generator[AbstractPool]:
    if scheduler is None:
        yield ThreadPool(
            checks.count("workers", multiprocessing.cpu_count() if workers is None else workers, "threads")
        )
        return
    if workers is not None:
        raise ValueError("`workers` are threads of this process; with a `scheduler`, its workers run the members.")
    with open_dask_pool(scheduler) as pool:
        yield pool


def _store(
    path: Path, description: Any, count: int, size: int, like: Batch, labels: Labels, resume: bool
) -> EnsembleStore:
    attributes = {
        "ensemble": json.dumps(description, sort_keys=True),
        "title": f"polhode ensemble of {description['problem']}",
    }
    # So that plain xarray takes parameters for coordinates.
    attributes |= {
        "coordinates": " ".join(name for name in labels.coordinates if " " not in name),
        "units": labels.units,
    }
    return create_or_open(EnsembleStore.new(path, attributes, count, size, like, labels), resume, labels)


def _check(problem: Any, keep: bool, statistics: bool, out: Any, resume: bool, overwrite: bool) -> None:
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    if inside_transformation():
        raise ValueError("An ensemble can't be run inside jit, grad or vmap; there, `vmap` a function of `simulate`.")
    for name, value in {"keep": keep, "resume": resume, "overwrite": overwrite}.items():
        checks.flag(name, value)
    if not keep and not statistics and out is None:
        raise ValueError("Without frames (`keep=False`) nothing would be left; ask for `statistics` or `quantiles`.")
    if out is None and (resume or overwrite):
        raise ValueError("`resume` and `overwrite` are for the store at `out`; give its path.")
    if resume and overwrite:
        raise ValueError("`resume` goes on with the store at `out`, `overwrite` replaces it; give either.")


def _member_request(
    problem: Problem, integrator: Any, members: Members, sizes: Any, span: Any, save: Any
) -> tuple[MemberRequest, Task]:
    """The request for all members, and the task of the first. Raises ValueError for what can't be run."""
    parameters, state = members.of_members(0)
    start, end = span
    steps = StepRequest(*sizes)
    first = problem.replace(**parameters) if parameters else problem
    task = Task.prepare(first, integrator, start, end, state, tolerances=steps.has_tolerances)
    return MemberRequest(
        problem, integrator, start, end, steps, save_schedule(save[0], save[1], task.t0, task.t1)
    ), task


def _batch_size(first: Batch, count: int, room: tuple[int, int] | None) -> int:
    """Members of a batch: whole vectors, several batches for threads to share, frames within a bounded memory.

    It doesn't depend on the number of threads, so sums over batches don't either.
    """
    most, largest = room or (_BATCH_BYTES, _LARGEST_BATCH)
    memory_limit = most // max(1, sum(x.nbytes for x in first.frames.values()))
    share = count if room else -(-count // _BATCHES)
    return max(1, -(-min(largest, memory_limit, share) // _VECTOR)) * _VECTOR


def _description(request: MemberRequest, members: Members, size: int) -> dict[str, Any]:
    """Metadata of a store in plain values, with a hash of the members."""
    digest = hashlib.blake2b(digest_size=16)
    for x in jax.tree.leaves((members.parameters, members.states)):
        digest.update(np.ascontiguousarray(x).tobytes())
    at = request.schedule.at
    return {
        "problem": request.problem.name,
        "parameters": to_plain(dict(request.problem.parameters)),
        "integrator": request.integrator if isinstance(request.integrator, str | None) else repr(request.integrator),
        "steps": [request.steps.h, request.steps.rtol, request.steps.atol],
        "span": [request.t0, request.t1],
        "saving": [request.schedule.every, None if at is None else at.tolist()],
        "members": [members.count, digest.hexdigest(), size],
    }


def _dataset(first: Task, memory: MemorySink, labels: Labels, statistics_variables: Any, stats: Any) -> xarray.Dataset:
    import xarray

    frames = {
        name: (("member", *labels.dimensions[name]), x, labels.units[name])
        for name, x in memory.frames.items()
        if name != "time"
    }
    ends = {name: (("member",), x) for name, x in memory.ends.items()}
    name = first.problem.name if first.problem else "a system"
    attributes = {"title": f"polhode ensemble of {name}", "stats": json.dumps(to_plain(stats))}
    return xarray.Dataset({**frames, **ends, **statistics_variables}, coords=labels.coordinates, attrs=attributes)

"""Pools that run the batches of an ensemble: threads of this process, or workers of Dask."""

from __future__ import annotations

import abc
import collections
import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.job import Job
from polhode.simulation.ensembles.store import EnsembleStore


class BatchQueue(NamedTuple):
    """All batches of an ensemble.

    - `job`: runs them. - `batches`: their members. - `store`: takes their frames.
    - `keep`: whether frames are returned. - `is_interrupted`: whether to stop.
    """

    job: Job
    batches: list[slice]
    store: EnsembleStore | None
    keep: bool
    is_interrupted: Callable[[], bool]


class AbstractPool(abc.ABC):
    """Runs batches, several at a time."""

    @abc.abstractmethod
    def run(self, queue: BatchQueue) -> Iterator[tuple[slice, Batch]]:
        """All batches, in order, so that sums over them are the same each time; some are on their way at any time."""

    @abc.abstractmethod
    def report(self) -> dict[str, Any]:
        """Entries for the statistics of an ensemble."""


class ThreadPool(AbstractPool):
    """Threads of this process; batches spend their time in machine code, which lets others run."""

    def __init__(self, count: int) -> None:
        self._count = count

    def report(self) -> dict[str, Any]:
        return {"workers": self._count}

    def run(self, queue: BatchQueue) -> Iterator[tuple[slice, Batch]]:
        def batch(which: slice) -> Batch:
            return queue.job.batch(which, queue.store, queue.keep, queue.is_interrupted)

        try:
            executor = concurrent.futures.ThreadPoolExecutor(self._count, "polhode-ensemble")
            executor.submit(int)
        except RuntimeError:
            # A process that is ending begins no threads any more.
            for which in queue.batches:
                yield which, batch(which)
            return
        with executor as pool:
            pending: collections.deque[tuple[slice, concurrent.futures.Future[Batch]]] = collections.deque()
            for which in queue.batches:
                pending.append((which, pool.submit(batch, which)))
                if len(pending) > 2 * self._count:
                    here, future = pending.popleft()
                    yield here, future.result()
            for here, future in pending:
                yield here, future.result()

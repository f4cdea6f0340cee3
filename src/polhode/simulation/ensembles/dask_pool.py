"""Batches of an ensemble on the workers of a Dask cluster, on this machine or on many."""

from __future__ import annotations

import collections
import contextlib
import copy
import logging
import re
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from polhode.checks import short_repr
from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.job import BatchTask
from polhode.simulation.ensembles.pools import AbstractPool, BatchQueue

if TYPE_CHECKING:
    import distributed

_LOOK_SECONDS = 0.2
_WORKER_MODULE = "polhode.simulation.ensembles.dask_worker"
_AHEAD = 4
"""Batches on their way for each worker: what has come back waits in this process for its turn."""


class DaskPool(AbstractPool):
    """Workers of a Dask cluster. A batch whose worker is lost is run by another one.

    A batch that several workers were lost with is given up: its members count as interrupted.

    **Arguments:**

    - `client`: of the cluster.
    """

    def __init__(self, client: distributed.Client) -> None:
        # Its methods may be coroutines or not, which their types don't show.
        self._client: Any = client
        self._seen: set[str] = set()
        self._lost: set[str] = set()
        self._given_up = 0

    def report(self) -> dict[str, Any]:
        return {
            "workers": len(self._seen) - len(self._lost),
            "scheduler": self._client.scheduler.address if self._client.scheduler else "",
            "workers_lost": len(self._lost),
            "batches_given_up": self._given_up,
        }

    def run(self, queue: BatchQueue) -> Iterator[tuple[slice, Batch]]:
        self._update_workers()
        # Made by a task rather than scattered, so that it can be made again where it is lost.
        job = self._client.submit(_identity, queue.job, pure=False)
        pending: collections.deque[tuple[slice, Any]] = collections.deque()
        try:
            for which in queue.batches:
                pending.append((which, self._client.submit(BatchTask(which, queue.store, queue.keep), job, pure=False)))
                if len(pending) > _AHEAD * max(1, len(self._seen)):
                    yield self._next(pending, queue)
            while pending:
                yield self._next(pending, queue)
        finally:
            self._client.cancel([future for _, future in pending])

    def _next(self, pending: collections.deque[tuple[slice, Any]], queue: BatchQueue) -> tuple[slice, Batch]:
        from distributed import KilledWorker

        which, future = pending.popleft()
        nothing = Batch.interrupted(which.stop - which.start)
        while not queue.is_interrupted():
            self._update_workers()
            try:
                return which, future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                continue
            except KilledWorker:
                self._given_up += 1
                return which, nothing
        if future.status == "finished":
            return which, future.result()
        self._client.cancel([future])
        return which, nothing

    def _update_workers(self) -> None:
        """Updates the sets of workers that have joined and left."""
        there = set(self._client.nthreads())
        self._seen |= there
        self._lost = self._seen - there


def _identity(job: Any) -> Any:
    return job


@contextlib.contextmanager
def open_dask_pool(scheduler: Any) -> Generator[DaskPool]:
    """The workers of a scheduler: its address, `local:N` for N processes of this machine, or a client.

    Raises ValueError for anything else, ImportError without Dask, OSError where nothing answers.
    """
    try:
        import distributed
    except ImportError:
        raise ImportError('`scheduler` needs Dask: pip install "polhode[dask]".') from None
    if isinstance(scheduler, distributed.Client):
        yield DaskPool(scheduler)
        return
    if not isinstance(scheduler, str) or not scheduler:
        raise ValueError(f"`scheduler` must be an address, `local:N` or a Client of Dask, got {short_repr(scheduler)}.")
    kind, _, number = scheduler.partition(":")
    with contextlib.ExitStack() as stack:
        address, security = scheduler, None
        if kind == "local":
            if re.fullmatch("[1-9][0-9]{0,2}", number) is None:
                raise ValueError(
                    f"`scheduler` must be `local:N` with N processes, 1 to 999, got {short_repr(scheduler)}."
                )
            security = _security()
            address = stack.enter_context(_local(int(number), security))
        yield DaskPool(stack.enter_context(distributed.Client(address, set_as_default=False, security=security)))


def _security() -> distributed.Security:
    """Certificates made for one cluster, which only this process and its workers have."""
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError:
        raise ImportError('`scheduler="local:N"` needs certificates: pip install "polhode[dask]".') from None


@contextlib.contextmanager
def _local(count: int, security: distributed.Security) -> Generator[str]:
    """The address of a cluster of processes of this machine. Whoever lacks its certificates is refused.

    Dask has a port for pages of its own, whatever is said; it listens on the loopback address and has no pages.
    """
    import dask.config as settings
    import distributed

    quiet = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    cluster: Any = distributed.LocalCluster
    with contextlib.ExitStack() as stack:
        # What workers put aside is read again by whoever owns the folder.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="polhode-"))
        with settings.set(quiet):
            local_cluster = cluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                security=security,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                local_directory=folder,
                preload=[_WORKER_MODULE],
                # Workers in the middle of a batch are killed at the end, which is no news.
                silence_logs=logging.ERROR,
                config=copy.deepcopy(settings.config),
            )
        yield stack.enter_context(local_cluster).scheduler_address

"""Beginning of every worker of a local cluster; Dask calls it by its name."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the process that has started this one.

    A terminal sends it to both; the other ends the cluster when what is done is stored.
    """
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)

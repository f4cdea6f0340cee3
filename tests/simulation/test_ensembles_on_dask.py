"""Ensembles on a Dask cluster of two workers of this machine."""

import os
import signal
import urllib.request
from http.client import HTTPException

import numpy as np
import pytest

import polhode as ph
from polhode.simulation.ensembles.dask_pool import open_dask_pool

OPTIONS = {"parameters": {"mass": np.linspace(13.0, 17.0, 40)}, "h": 2e-6, "t1": 1.0, "save_every": 250_000}


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


def same(a, b):
    assert set(a.variables) == set(b.variables)
    for name in a.variables:
        np.testing.assert_array_equal(a[name].values, b[name].values, err_msg=name)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
def test_members_are_the_same_bytes_though_a_worker_is_killed(cluster, tmp_path):
    from distributed import Client

    top = ph.problems.get("heavy-top", formulation="S3")
    local = ph.ensemble(top, "rkmk4", statistics=True, **OPTIONS)
    with Client(cluster) as client:
        same(local.dataset, ph.ensemble(top, "rkmk4", statistics=True, scheduler=client, **OPTIONS).dataset)
        pids = client.run(os.getpid)
        killed = []

        def kill_one(done, count):
            if not killed:
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        path = tmp_path / "tops.zarr"
        options = {"statistics": True, "scheduler": client, "out": path, "progress": kill_one}
        result = ph.ensemble(top, "rkmk4", **options, **OPTIONS)
    assert killed
    assert result.stats["failed"] == 0
    assert result.stats["workers_lost"] >= 1
    same(local.dataset, ph.load_ensemble(path))


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (3, "address"),
        ("local:0", "local:N"),
        ("local:two", "local:N"),
        ("local:" + "9" * 5000, "local:N"),
        ("local:²", "local:N"),
    ],
)
def test_other_schedulers_are_refused(scheduler, message):
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match=message), open_dask_pool(scheduler):
        pass


def listening() -> list[tuple[str, int]]:
    """Addresses at which this process and those that it has started can be reached."""
    import psutil

    here = psutil.Process()
    connections = [c for process in (here, *here.children(recursive=True)) for c in process.net_connections()]
    return [(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
def test_nobody_without_its_certificates_reaches_a_local_cluster():
    distributed = pytest.importorskip("distributed")
    before = set(listening())
    with open_dask_pool("local:1") as pool:
        address = pool.report()["scheduler"]
        assert address.startswith("tls://127.0.0.1:")
        opened = sorted(set(listening()) - before)
        assert {ip for ip, _ in opened} == {"127.0.0.1"}
        assert 8787 not in [port for _, port in opened]
        for security in (None, distributed.Security.temporary()):
            with pytest.raises((OSError, TypeError)):
                distributed.Client(address, security=security, timeout=3, set_as_default=False)
        with pytest.raises(OSError, match=r"."):
            distributed.Client(address.replace("tls", "tcp"), timeout=2, set_as_default=False)
        pages = 0
        for ip, port in opened:
            for path in ("/status", "/health", "/info/main/workers.html", "/json/index.html", "/metrics", "/"):
                try:
                    urllib.request.urlopen(f"http://{ip}:{port}{path}", timeout=2).close()
                    pages += 1
                except (OSError, HTTPException):
                    # Some ports answer with an alert of TLS.
                    continue
        assert pages == 0
        assert pool._client.submit(os.getpid).result() != os.getpid()
        # A terminal sends Ctrl-C to workers too.
        assert pool._client.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN

"""The command in a process of its own: signals at any moment, streams that are closed, full, broken or not UTF-8."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

import polhode as ph

COMMAND = [sys.executable, "-m", "polhode"]
RUN = ["run", "heavy-top", "--step", "1e-3", "--t1", "0.002"]
ENDLESS = ["run", "heavy-top", "--step", "1e-7", "--t1", "1000", "--save-every", "10000", "--json"]
PATH = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))


def in_shell(line, **environment):
    """A line for the shell, with `polhode` for the command."""
    line = line.replace("polhode", shlex.join(COMMAND))
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, env={**os.environ, **environment}, check=False, timeout=120
    )


def assert_in_words(done, status):
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("streams", "status", "said"),
    [
        ("> /dev/full", 1, b"No space left on device"),
        pytest.param(">&-", 1, b"Bad file descriptor", marks=pytest.mark.exhaustive),
        ("2>&-", 0, b""),
        pytest.param("2> /dev/full", 0, b"", marks=pytest.mark.exhaustive),
        pytest.param("<&-", 0, b"", marks=pytest.mark.exhaustive),
        pytest.param("<&- >&- 2>&-", 1, b"", marks=pytest.mark.exhaustive),
        pytest.param("| true; exit ${PIPESTATUS[0]}", 1, b"Broken pipe", marks=pytest.mark.exhaustive),
        pytest.param("2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}", 0, b"", marks=pytest.mark.exhaustive),
    ],
)
def test_streams_that_take_nothing_cost_no_result(streams, status, said, tmp_path):
    path = tmp_path / "run.zarr"
    done = in_shell(f"polhode {shlex.join(RUN)} --out {path} {streams}", PYTHONIOENCODING="ascii")
    assert_in_words(done, status)
    assert said in done.stderr
    # Nothing that was printed is in the files.
    assert ph.load(path).stats["result"] is ph.Result.successful


@pytest.mark.exhaustive
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-16"])
def test_terminals_of_any_encoding_get_the_results(encoding):
    done = in_shell(f"polhode {shlex.join(RUN)}", PYTHONIOENCODING=encoding)
    assert_in_words(done, 0)
    assert "successful" in done.stdout.decode(encoding)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, -signal.SIGTERM), pytest.param(signal.SIGINT, 1, marks=pytest.mark.exhaustive)],
)
def test_signals_end_a_run_with_its_store_whole_and_with_their_status(number, status, tmp_path):
    path = tmp_path / "run.zarr"
    command = [*COMMAND, *ENDLESS, "--out", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert "Traceback" not in err
    assert "interrupted" in err
    # The report is whole, and so is the store.
    assert json.loads(out)["result"] == "interrupted"
    assert ph.load(path).stats["result"] is ph.Result.interrupted
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


SCRIPT = """
import sys
import polhode as ph
for k in range(3):
    print("run", k, flush=True)
    place = f"{sys.argv[1]}/{k}.zarr"
    ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-7, t1=1e3, save_every=10_000, store=place)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGTERM, -signal.SIGTERM),
        pytest.param(signal.SIGINT, -signal.SIGINT, marks=pytest.mark.exhaustive),
        pytest.param(signal.SIGHUP, -signal.SIGHUP, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.usefixtures("interruptible")
def test_a_signal_ends_the_loop_of_a_script_with_its_status(number, status, tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "0.zarr").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == status, err
    assert out == "run 0\n"
    assert "A signal ended the run at t = " in err
    assert ph.load(tmp_path / "0.zarr").stats["result"] is ph.Result.interrupted
    assert [p.name for p in tmp_path.iterdir()] == ["0.zarr"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes that a test starts receive these signals, also where tests run in the background or under `nohup`."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("interruptible")
def test_a_signal_at_any_moment_of_the_start_ends_the_command(number):
    """From when its first module is loaded; before, it is Python that starts."""
    random = np.random.default_rng(int(number))
    for _ in range(20):
        with subprocess.Popen(
            [*COMMAND, *ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            time.sleep(0.15 + random.uniform(0, 3))
            process.send_signal(number)
            try:
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        assert "Traceback" not in err, err
        if out:
            assert json.loads(out)["result"] == "interrupted"
        else:
            assert process.returncode == -number
            assert err.endswith(f"polhode: ended by {signal.Signals(number).name}.\n")


@pytest.mark.exhaustive
def test_the_first_module_hears_signals_before_all_others():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "polhode", "cache"], capture_output=True, text=True, check=True
    )
    loaded = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert loaded.index("polhode._signals") < min(loaded.index(name) for name in ("jax", "numpy", "typer"))


@pytest.mark.exhaustive
def test_scripts_keep_their_handlers_and_streams():
    """Whatever they were: a process in the background of a shell ignores SIGINT."""
    code = "import signal, sys; read = lambda: [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]; "
    code += "before = sys.stdout, *read(); import polhode, polhode.cli; assert (sys.stdout, *read()) == before"
    subprocess.run([sys.executable, "-c", code], check=True)

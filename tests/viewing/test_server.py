"""Pages are served to this machine's browser alone, and follow stores that grow."""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from urllib.parse import urlsplit

import pytest

import polhode as ph
from polhode.solution import show
from polhode.solution.live_run import StoredRun
from polhode.storage import RunStore, locks
from polhode.storage.locks import Lock
from polhode.viewing.page.server import Server


@pytest.fixture
def server():
    calls = []

    def payload():
        calls.append(1)
        return {"runs": []}, struct.pack("<2f", 1.0, 2.0)

    server_ = Server("a run", lambda: (state["word"], state["live"]), payload)
    state = {"word": "one", "live": True}
    yield server_, state, calls
    server_.close()


def ask(server, path, host=None):
    there = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    there.request("GET", path, headers={"Host": host or f"127.0.0.1:{server.port}"})
    answer = there.getresponse()
    body = answer.read()
    there.close()
    return answer.status, body


def test_only_this_machines_browser_is_answered(server):
    made, _, _ = server
    path = urlsplit(made.url).path
    assert ask(made, path)[0] == 200
    assert ask(made, path, f"localhost:{made.port}")[0] == 200
    for host in ("evil.example", f"evil.example:{made.port}", "127.0.0.1:1", f"127.0.0.1.evil.example:{made.port}"):
        assert ask(made, path, host)[0] == 403
    for wrong in ("/", "/data", f"{path[:-2]}/", f"{path[:-2]}/data"):
        assert ask(made, wrong)[0] == 403
    assert ask(made, f"{path}other")[0] == 404
    assert made._http.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "127.255.255.254"])
def test_any_loopback_address_serves_its_page(host):
    made = Server("a run", lambda: ("", False), lambda: ({}, b""), host=host)
    try:
        with urllib.request.urlopen(made.url, timeout=10) as answer:
            assert answer.status == 200
        assert made.answer(urlsplit(made.url).path, f"evil.example:{made.port}")[0] == 403
    finally:
        made.close()


RAW = [b"GET http://[ HTTP/1.1", b"GET http://[/x]/data HTTP/1.1", b"GET /\xff\xfe/?have=%ff HTTP/1.1", b"\xff\xfe"]


@pytest.mark.parametrize("line", RAW)
def test_requests_that_make_no_sense_get_an_answer(line, server, capfd):
    made, _, _ = server
    with socket.create_connection(("127.0.0.1", made.port), timeout=10) as there:
        there.sendall(line + f"\r\nHost: 127.0.0.1:{made.port}\r\n\r\n".encode())
        assert there.makefile("rb").read()
    assert ask(made, urlsplit(made.url).path)[0] == 200
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])
def test_addresses_that_others_reach_are_refused(host):
    with pytest.raises(ValueError, match="loopback address"):
        Server("a run", lambda: ("", False), lambda: ({}, b""), host=host)


def test_a_taken_port_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match=r"[Aa]ddress"):
            Server("a run", lambda: ("", False), lambda: ({}, b""), port=taken.getsockname()[1])


def test_data_come_once_for_each_state_of_a_run(server):
    made, state, calls = server
    path = urlsplit(made.url).path
    status, body = ask(made, f"{path}data?have=")
    (length,) = struct.unpack_from("<I", body)
    shown = json.loads(body[4 : 4 + length])
    assert (status, shown["revision"], shown["live"]) == (200, "one", True)
    assert struct.unpack("<2f", body[4 + length :]) == (1.0, 2.0)
    assert ask(made, f"{path}data?have=one")[0] == 204
    assert ask(made, f"{path}data?have=")[0] == 200
    assert len(calls) == 1
    state["word"] = "two"
    assert ask(made, f"{path}data?have=one")[0] == 200
    assert len(calls) == 2


def test_what_is_wrong_with_a_store_is_said(server):
    made, _, _ = server

    def broken():
        raise OSError("the disk is gone")

    made._look = broken
    assert ask(made, f"{urlsplit(made.url).path}data?have=") == (503, b"the disk is gone")


def test_a_store_goes_on_as_long_as_somebody_writes(tmp_path):
    path = tmp_path / "top.zarr"
    ph.simulate(ph.problems.get("heavy-top"), t1=1e-3, store=path)
    source = StoredRun(path)
    word, live = source.look()
    assert not live
    ph.resume(path, t1=2e-3)
    assert source.look()[0] != word
    solution, scene = source.read()
    assert float(solution.t[-1]) == pytest.approx(2e-3)
    assert scene is source.read()[1]


def test_a_run_that_ends_while_one_asks_is_seen_whole(tmp_path, monkeypatch):
    """A page that hears that nothing goes on doesn't ask again, so the same answer must have the result."""
    path = tmp_path / "run.zarr"
    ph.simulate(ph.problems.get("spring-pendulum"), t1=0.1, store=path)
    before = RunStore.read_root(path)
    running = dataclasses.replace(before, stats={**before.stats, "result": None})
    ended = []

    def held(_):
        return not ended

    def read(_):
        # It ends while the root is read.
        found = before if ended else running
        ended.append(True)
        return found

    monkeypatch.setattr(locks, "is_locked", held)
    monkeypatch.setattr(RunStore, "read_root", staticmethod(read))
    source = StoredRun(path)
    first, live = source.look()
    assert live
    last, live = source.look()
    assert not live
    assert str(before.stats["result"]) in last
    assert last != first


def test_writers_are_seen_without_disturbing_them(tmp_path):
    path = tmp_path / "run.zarr"
    assert not locks.is_locked(path)
    lock = Lock(path, "run")
    lock.acquire()
    assert locks.is_locked(path)
    lock.release()
    assert not locks.is_locked(path)
    # What a killed process leaves: its file with a number that no process has.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    file = tmp_path / ".run.zarr.lock"
    file.write_text(json.dumps({"host": socket.gethostname(), "pid": gone.pid}))
    assert not locks.is_locked(path)


def test_show_serves_compares_and_embeds(spin_solution, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    made = spin_solution.show(spin_solution, block=False)
    try:
        assert opened == [made.url]
        _, body = ask(made, f"{urlsplit(made.url).path}data?have=")
        (length,) = struct.unpack_from("<I", body)
        assert [run["label"] for run in json.loads(body[4 : 4 + length])["runs"]] == [
            "made-by-hand A", "made-by-hand B",
        ]  # fmt: skip
    finally:
        made.close()
    with pytest.raises(ValueError, match="compares two; got 3"):
        spin_solution.show(spin_solution, spin_solution, block=False)
    with pytest.raises(ValueError, match="a name for each of the 1 runs"):
        spin_solution.show(labels=["a", "b"], block=False)
    monkeypatch.setattr(show, "_in_notebook", lambda: True)
    text = spin_solution.show()._repr_html_()
    assert text.startswith('<iframe sandbox="allow-scripts"')
    assert "&lt;!doctype html&gt;" in text


def test_waiting_ends_with_the_server():
    made = Server("a run", lambda: ("", False), lambda: ({}, b""))
    threading.Timer(0.1, made.close).start()
    made.wait()
    with pytest.raises(ConnectionError):
        ask(made, "/")

"""Server of pages of runs on a loopback address; pages of runs in progress are updated."""

from __future__ import annotations

import hmac
import http.server
import ipaddress
import json
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from polhode.checks import short_repr
from polhode.viewing.page.page import shell

Look = Callable[[], tuple[str, bool]]
"""→ a word that changes with the state of the runs, and whether one of them is in progress."""

Payload = Callable[[], tuple[dict[str, Any], bytes]]

_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Server:
    """Serves one page at `url` until it is closed.

    Requests need the token in the address, and a Host header of this machine: so neither other users nor other pages in
    the browser read a run.

    **Arguments:**

    - `title`: of the page. - `look`, `payload`: the state of the runs, and the data of the page.
    - `port`: 0 for any free one. - `host`: a loopback address.

    Raises ValueError for a host that others could reach, OSError for a port that is taken.
    """

    def __init__(self, title: str, look: Look, payload: Payload, port: int = 0, host: str = "127.0.0.1") -> None:
        check_host(host)
        self._token = secrets.token_urlsafe(18)
        self._page = shell(title).encode()
        self._look, self._payload = look, payload
        self._lock = threading.Lock()
        self._cache: tuple[str, bytes] | None = None
        kind = type("Handler", (_Handler,), {"page": self})
        self._http = _Loopback((host, port), kind)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._http.server_address[1]

    @property
    def url(self) -> str:
        """Address of the page, including the token."""
        return f"http://{self._name}:{self.port}/{self._token}/"

    @property
    def _name(self) -> str:
        """The host of the server, as in a URL."""
        host = str(self._http.server_address[0])
        return f"[{host}]" if ":" in host else host

    def wait(self) -> None:
        """Returns when the server is closed, or at Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.2)

    def close(self) -> None:
        """Stops the server."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, path: str, host: str) -> tuple[int, str, bytes]:
        """Status, content type and body of the response to a request."""
        if not self._is_asked(host):
            return 403, "text/plain", b"This page is for the browser on the same machine only."
        try:
            parts = urlsplit(path)
        except ValueError:
            return 400, "text/plain", b"This is no address."
        token, _, rest = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return 403, "text/plain", b"The address lacks the token that polhode view has printed."
        if rest == "":
            return 200, "text/html; charset=utf-8", self._page
        if rest == "data":
            return self._data(parse_qs(parts.query).get("have", [""])[0])
        return 404, "text/plain", b"There is nothing else here."

    def _is_asked(self, host: str) -> bool:
        """Whether the Host header of a request names this machine, and not another name that resolves to it."""
        name, _, port = host.rpartition(":")
        return name in {*_HOSTS, self._name} and port == str(self.port)

    def _data(self, have: str) -> tuple[int, str, bytes]:
        with self._lock:
            try:
                revision, live = self._look()
                if revision == have:
                    return 204, "text/plain", b""
                if self._cache is None or self._cache[0] != revision:
                    description, numbers = self._payload()
                    self._cache = revision, _pack({**description, "revision": revision, "live": live}, numbers)
            except (OSError, ValueError) as error:
                return 503, "text/plain; charset=utf-8", str(error).encode()
            return 200, "application/octet-stream", self._cache[1]


def check_host(host: str) -> None:
    """Raises ValueError unless an address is a loopback address."""
    try:
        good = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        good = False
    if not good:
        raise ValueError(
            f"`host` must be a loopback address such as 127.0.0.1, got {short_repr(host)}: pages of runs are not "
            "served to other machines. Send them what `polhode export RUN.zarr page.html` writes, or forward the port "
            "by ssh."
        )


def _pack(description: dict[str, Any], numbers: bytes) -> bytes:
    """Length of the JSON text, the text padded to a multiple of four bytes, and the numbers."""
    text = json.dumps(description).encode()
    text += b" " * (-len(text) % 4)
    return struct.pack("<I", len(text)) + text + numbers


class _Loopback(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores browsers that close the connection during a response."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    page: Server

    def do_GET(self) -> None:
        """Answers a request."""
        status, kind, body = self.page.answer(self.path, self.headers.get("Host", ""))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            # The browser has left the page.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""

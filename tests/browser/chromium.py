"""A headless Chromium, driven through a pair of pipes by its own protocol: nothing but the browser is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 60.0


def found() -> str | None:
    """Path of a Chromium; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


START = """
import os, sys

a, b = (os.dup(int(pipe)) for pipe in sys.argv[1:3])
for pipe, number in ((a, 3), (b, 4)):
    os.dup2(pipe, number)
    os.set_inheritable(number, True)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Makes two pipes descriptors 3 and 4, on which the protocol is spoken, in a process of its own: where JAX has run,
this one can't be forked."""


class Browser:
    """One process with one page at a time."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="polhode-chromium-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        program = found()
        assert program is not None
        start = [sys.executable, "-I", "-c", START, str(to_browser), str(from_browser)]
        self._process = subprocess.Popen(
            [*start, program, *FLAGS, f"--user-data-dir={self._folder}", "--window-size=1440,1000"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._last = b"", 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")

    def open(self, url: str, width: int = 1440, height: int = 1000) -> None:
        """Loads the page of a run and waits until it is drawn."""
        self.load(url, width, height)
        self.until("window.polhode !== undefined && window.polhode.drawn > 0")

    def load(self, url: str, width: int, height: int) -> None:
        """Loads any page; what it asks for and complains of is kept from here on."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        # Another fragment alone would load nothing.
        self.tell("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.requests.clear()
        self.complaints.clear()
        self.tell("Page.navigate", url=url)
        self.until("location.href !== 'about:blank'")

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript, or of a promise that it is."""
        answer = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Waits for an expression to become true."""
        end = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} did not become true; the page complains of {self.complaints}")
            time.sleep(0.05)

    def drawn(self) -> None:
        """Waits for a picture that is newer than now."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, path: Path) -> None:
        """Writes a picture of the page."""
        path.write_bytes(base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"]))

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to the page."""
        return self._ask({"method": method, "params": parameters, "sessionId": self._session})

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to the browser."""
        return self._ask({"method": method, "params": parameters})

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        os.write(self._out, json.dumps({**message, "id": self._last}).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{message['method']}: {answer['error']['message']}")
                return answer["result"]
            self._heard(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], PATIENCE_S)[0]:
                raise TimeoutError("Chromium does not answer.")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended.")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _heard(self, event: dict[str, Any]) -> None:
        what, told = event.get("method"), event.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif what == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif what == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            text = told["entry"]["text"]
            # Pictures that these tests take are slow, which the driver says to the page's console.
            if "GPU stall due to ReadPixels" not in text:
                self.complaints.append(text)

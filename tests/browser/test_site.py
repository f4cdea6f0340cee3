"""The documentation as a browser shows it, on a wide and on a narrow screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chromium import Browser

ROOT = Path(__file__).parents[2]
FAULTS = """(() => {
  const wide = document.documentElement.clientWidth, faults = [];
  const told = (what, element) => faults.push(what + ': ' + (element.textContent || element.src).slice(0, 60));
  if (document.documentElement.scrollWidth > wide) faults.push('the page is wider than the screen');
  for (const image of document.querySelectorAll('.md-content img')) if (!image.naturalWidth) told('no picture', image);
  for (const text of document.querySelectorAll('.arithmatex')) {
    const formula = text.querySelector('svg');
    if (!formula) told('not rendered', text);
    else if (formula.querySelector('[data-mml-node=merror]')) told('wrong TeX', text);
    else if (text.offsetParent && formula.getBoundingClientRect().width < 3) told('invisible', text);
  }
  if (wide > 1200)
    for (const part of document.querySelectorAll('pre > code, .md-typeset__scrollwrap, div.arithmatex, mjx-container'))
      if (part.offsetParent && part.scrollWidth > part.clientWidth + 1) told('overflows', part);
  return JSON.stringify(faults);
})()"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The report is a page of its own, complete in itself.
    pages = [str(page.parent.relative_to(folder)) for page in sorted(folder.rglob("index.html"))]
    yield f"http://127.0.0.1:{server.server_address[1]}", [page for page in pages if page != "report"]
    server.shutdown()
    server.server_close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen_and_ask_nobody_else(browser: Browser, site: tuple[str, list[str]], width: int) -> None:
    address, pages = site
    assert len(pages) > 60
    found = {page: faults for page in pages if (faults := seen(browser, f"{address}/{page}/", width, address))}
    assert found == {}


def seen(browser: Browser, url: str, width: int, address: str) -> list[str]:
    """What is wrong with a page."""
    browser.load(url, width=width, height=1000)
    browser.until("document.readyState === 'complete'")
    browser.until("!document.querySelector('.arithmatex') || document.querySelector('.arithmatex svg')")
    browser.drawn()
    elsewhere = [asked for asked in browser.requests if not asked.startswith((address, "data:", "blob:"))]
    return json.loads(browser.run(FAULTS)) + elsewhere + browser.complaints

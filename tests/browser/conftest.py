from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from chromium import Browser, found

MISSING = "Chromium is not installed, so pages are not tested in a browser; on Debian: apt-get install chromium"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if found() is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    started = Browser()
    yield started
    started.close()

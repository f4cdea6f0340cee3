"""Programs are compiled again, with more effort, beside the runs that use them."""

from __future__ import annotations

import threading


def until_compiled() -> None:
    """Wait until nothing is being compiled."""
    for thread in threading.enumerate():
        if thread.name == "polhode-compiler":
            thread.join()

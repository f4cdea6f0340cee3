"""Choices made for users who name none, with reasons."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """The reasons for coordinates and method of a problem; "" for what the user has asked for.

    - `coordinates`: the formulation, and why. - `method`: the integrator, and why.
    """

    coordinates: str = ""
    method: str = ""

    def __str__(self) -> str:
        return "; ".join(reason for reason in self if reason)


ASKED = Choice()
"""Nothing was chosen."""

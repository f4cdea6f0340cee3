"""Escaping of control characters in texts for terminals, since names come from untrusted files."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
"""Control characters except line feeds and tabs, marks of text direction, and characters without encoding."""


def printable(text: str) -> str:
    """`text` with each unsafe character replaced by its escape, such as `\\x1b`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)

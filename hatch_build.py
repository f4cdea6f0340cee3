"""Metadata of the distribution that are made from other files: the README as a package index shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
"""A picture or a link to a file of the repository: mark of a picture, words, path."""


def absolute(text: str, address: str | None) -> str:
    """Markdown with links to files of the repository at an address; without one, links are words, and pictures go."""

    def link(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if address is None:
            return "" if picture else words
        return (
            f"{picture}[{words}]({address.rstrip('/')}/{'raw' if picture else 'blob'}/HEAD/{path.removeprefix('./')})"
        )

    # Code stands between fences, and may look like a link.
    parts = text.split("\n```")
    return "\n```".join(LINK.sub(link, part) if k % 2 == 0 else part for k, part in enumerate(parts))


class Metadata(MetadataHookInterface):
    """Adds the description to what `pyproject.toml` says."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, address)}

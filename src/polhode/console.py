"""A rich console for texts from untrusted files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from polhode.printable import printable


class Printable(Console):
    """A console that escapes control characters in texts; only its own colours reach the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A text with markup, made printable before its layout is computed."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Segments of text with their styles."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

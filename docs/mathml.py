"""Formulas as MathML, made while the site is built: browsers draw it by themselves, without scripts or network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replaces the formulas that `pymdownx.arithmatex` marked; one that can't be converted stops the build."""
    return _FORMULA.sub(_to_mathml, content)


def _to_mathml(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]), display=display)

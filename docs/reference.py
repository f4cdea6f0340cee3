"""The reference names what users can name: defaults as values, and no private name on any page of it."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from typing import Any

import griffe

PRIVATE = re.compile(r"(?<![\w.])(?:polhode(?:\.\w+)*\.)?_[A-Za-z]\w+")
TAG = re.compile(r"<[^>]+>")
DIGITS = re.compile(r"\d+\.\d{7,}(?:e[-+]?\d+)?")


ITEM = re.compile(r"(?m)^( *)(- `.*(?:\n\1 +\S.*)*)")
NEXT = re.compile(r"(?<=[.;)])\s+- (?=`)")


def _one_item_per_line(text: str) -> str:
    """Docstrings may have several items of a list on a line; pages show each on its own."""
    return ITEM.sub(lambda item: item[1] + NEXT.sub(f"\n{item[1]}- ", item[2]), text)


class Defaults(griffe.Extension):
    """Where a default is written as a private constant, its value stands in the signature. Named problems return a
    `Problem`, which the drafts of their builders become.

    Classes of results have the docstrings that they were given with their quantities.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            if obj.is_class and obj.module.path.startswith("polhode.results."):
                obj.docstring.value = inspect.getdoc(getattr(importlib.import_module(obj.module.path), obj.name)) or ""
            obj.docstring.value = _one_item_per_line(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if str(func.returns) in ("Draft", "ModelDraft"):
            func.returns = "Problem"
        private = [parameter for parameter in func.parameters if PRIVATE.search(str(parameter.default or ""))]
        if private:
            function: Any = importlib.import_module(func.module.path)
            for part in func.path.removeprefix(f"{func.module.path}.").split("."):
                function = getattr(function, part)
            parameters = inspect.signature(function).parameters
            for parameter in private:
                parameter.default = DIGITS.sub(
                    lambda digits: f"{float(digits[0]):.6g}", repr(parameters[parameter.name].default)
                )


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Complains, which ends a strict build, of private names in the reference."""
    if page.file.src_uri.startswith("api/"):
        for name in sorted(set(PRIVATE.findall(TAG.sub("", html)))):
            logging.getLogger("mkdocs.reference").warning("%s shows the private name %s", page.file.src_uri, name)
    return html

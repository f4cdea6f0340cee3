"""Basic blocks of bounded length, for quick compilation.

At -O0, LLVM counts the instructions of a block before each one that its fast selector leaves to the slow one, such as
`llvm.maximum`: with 1,500 of them among 152,000 instructions selection took 5.2 s, in blocks of 2,000 it takes 0.8 s.
Optimised code keeps its long blocks: there, short ones take longer to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST = 2000
"""Lines of a block."""

_FUNCTION = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)

_ORIGIN = re.compile(r"%(\w+) \]")
"""The block from which a case of a phi comes."""


def with_short_blocks(text: str) -> str:
    """The same module, with jumps inside long blocks of its functions."""
    return _FUNCTION.sub(lambda function: _cut(function[0]), text)


def _cut(function: str) -> str:
    ends: dict[str, str] = {}
    lines = list(_short_blocks(function.split("\n"), ends))
    if not ends:
        return function
    return "\n".join(_ORIGIN.sub(lambda m: f"%{ends.get(m[1], m[1])} ]", x) if " = phi " in x else x for x in lines)


def _short_blocks(lines: list[str], ends: dict[str, str]) -> Iterator[str]:
    """The lines of a function with jumps between them; `ends` gets the last part of each block that is cut."""
    block, length, parts = "", 0, 0
    for line in lines:
        if line.endswith(":"):
            block, length = line[:-1], 0
        elif length >= _LONGEST and line.startswith("%") and " = phi " not in line:
            parts += 1
            ends[block], length = f"part{parts}", 0
            yield f"br label %part{parts}"
            yield f"part{parts}:"
        yield line
        length += 1

"""What a run returns, and where it goes: `Solution`, loading, saving, exporting and showing."""

from .export import export as export
from .load import load as load
from .solution import Solution as Solution

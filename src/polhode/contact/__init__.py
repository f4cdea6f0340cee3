"""Unilateral constraints: gaps that close in impacts, stay closed while they are pressed, and open again.

In: gaps of a model, and a state. Out: velocities after impacts, and systems with closed gaps as constraints. Open
first: `unilateral.py`, then `response.py` and `system.py`.
"""

from polhode.contact import shapes as shapes
from polhode.contact.unilateral import AbstractUnilateral as AbstractUnilateral

"""Unilateral constraints: gaps that close in impacts, stay closed while they are pressed, and open again."""

from polhode.contact import shapes as shapes
from polhode.contact.unilateral import AbstractUnilateral as AbstractUnilateral

"""Unilateral constraints: gaps that close in impacts, stay closed while they are pressed, and open again."""

from polhode.contact.unilateral import AbstractUnilateral as AbstractUnilateral
from polhode.contact import shapes as shapes

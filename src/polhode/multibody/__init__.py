"""Multibody systems: a mechanism, which knows poses and twists alone, in coordinates of its bodies."""

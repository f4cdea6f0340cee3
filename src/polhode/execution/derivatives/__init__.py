"""Derivatives of recorded programs of scalars, forward and backward."""

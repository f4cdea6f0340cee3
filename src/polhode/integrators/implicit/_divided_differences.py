"""Polynomials through past points at uneven distances, by Newton's divided differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces.base import AbstractSpace, Vector


def local_coordinates(space: AbstractSpace, state: Any, earlier: Any) -> Float[Array, "points dim"]:
    """Coordinates of the present state and of earlier ones about the present one."""
    points = jax.vmap(lambda other: space.difference(state, other))(earlier)
    return jnp.concatenate((jnp.zeros((1, points.shape[1])), points))


def divided_differences(points: Float[Array, "points dim"], ages: Array) -> list[Vector]:
    """Divided differences of the present point with 0, 1, … earlier ones."""
    ages = jnp.concatenate((jnp.zeros(1), ages))
    differences = [points[0]]
    for i in range(1, points.shape[0]):
        points = (points[:-1] - points[1:]) / (ages[i:] - ages[:-i])[:, None]
        differences.append(points[0])
    return differences


def predict(past: list[Vector], distances: Array, order: Array) -> tuple[Vector, Vector]:
    """Value and slope of the polynomial of a degree through the last points, at `distances` from them."""
    value, slope = past[0], jnp.zeros_like(past[0])
    product, change = jnp.ones(()), jnp.zeros(())
    for i, difference in enumerate(past[1:]):
        product, change = product * distances[i], change * distances[i] + product
        difference = jnp.where(i < order, difference, 0.0)
        value, slope = value + product * difference, slope + change * difference
    return value, slope


def local_errors(past: list[Vector], distances: Array, spans: list[Array], end: Vector) -> list[Vector]:
    r"""Local errors of order 1 and all higher ones, $γ_p \prod_{j<p}(t_{n+1} - t_{n-j})\, x[t_{n+1},…,t_{n-p}]$.

    The product with the divided difference is the defect of the derivative of the polynomial through exact points.
    """
    difference = (end - past[0]) / distances[0]
    product, errors = distances[0], []
    for p, span in enumerate(spans, start=1):
        difference = (difference - past[p]) / distances[p]
        errors.append(span * product * difference)
        product = product * distances[p]
    return errors


def value_of_order(values: list[Array], order: Array) -> Array:
    """`values[order - 1]`, or zeros where there is none."""
    terms = [jnp.where(order == p, value, 0.0) for p, value in enumerate(values, start=1)]
    return sum(terms[1:], start=terms[0])

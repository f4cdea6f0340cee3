"""Contacts of runs whose slots change their contacts: all that there were, in slots of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from polhode.contact.sparse.contact_numbers import pairs_of_numbers
from polhode.integrators.nonsmooth.contact_record import ContactRecord
from polhode.integrators.nonsmooth.listed_record import ListedRecord, unpack_listed


def listed_record(sizes: Mapping[str, Any], multipliers: Any) -> ListedRecord:
    """The record of a run as it is saved."""
    values: Any = np.asarray(multipliers)
    return unpack_listed(values, sizes["count"], sizes["rows"])


def listed_pairs(sizes: Mapping[str, Any], multipliers: Any) -> Int[np.ndarray, "p 2"]:
    """Pairs of shapes that were near each other in some frame, in the order of kinds."""
    numbers = listed_record(sizes, multipliers).numbers
    return pairs_of_numbers(np.asarray(numbers), np.asarray(sizes["listed"]["kinds"]))


def describe_pairs(sizes: Mapping[str, Any], multipliers: Any) -> list[dict[str, Any]]:
    """Bodies, shapes, rule, points and numbers of the law of each of them, as of contacts in fixed slots."""
    listed, first, result = sizes["listed"], 0, []
    kinds, slots = listed["kinds"], listed["slots"]
    for one, other in listed_pairs(sizes, multipliers).tolist():
        (body, shape), (second, its_shape) = listed["owners"][one], listed["owners"][other]
        rule = listed["rules"][listed["table"][listed["classes"][one]][listed["classes"][other]]]
        count = slots[kinds[one]][kinds[other]]
        result.append({"bodies": [body, second], "shapes": [shape, its_shape], "points": [first, count], **rule})
        first += count
    return result


def slot_record(sizes: Mapping[str, Any], multipliers: Any) -> ContactRecord:
    """The record with a slot for each point of each of these pairs; energies of single contacts are unknown."""
    record, listed = listed_record(sizes, multipliers), sizes["listed"]
    pairs = listed_pairs(sizes, multipliers)
    kinds, slots = np.asarray(listed["kinds"]), np.asarray(listed["slots"])
    counts = slots[kinds[pairs[:, 0]], kinds[pairs[:, 1]]]
    starts = np.cumsum(counts) - counts
    codes = pairs[:, 0] * len(kinds) + pairs[:, 1]
    order = np.argsort(codes)
    numbers = record.numbers.astype(np.int64)
    used = numbers >= 0
    place = order[np.searchsorted(codes[order], numbers[used] // 4)]
    at = (*np.nonzero(used)[:-1], starts[place] + numbers[used] % 4)
    shape = (*numbers.shape[:-1], int(counts.sum()))
    parts = []
    for values in (record.forces, record.slips):
        all_ = np.zeros((*shape, values.shape[-1]))
        all_[at] = values[used]
        parts.append(all_)
    return ContactRecord._make((*parts, np.full((*shape, 3), np.nan)))

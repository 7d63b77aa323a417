"""Distances and similarities of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from seamline.errors import INVALID_ARGUMENT, SeamlineError

Vector = Sequence[float]
SparseVector = Sequence[tuple[str, float]]


def cosine_similarity(one: SparseVector, other: SparseVector) -> float | None:
    """Returns the cosine of the angle between two sparse vectors; null if one has a null."""
    left: Mapping[str, float] = dict(one)
    right: Mapping[str, float] = dict(other)
    if None in left.values() or None in right.values():
        return None
    product = sum(value * right.get(key, 0.0) for key, value in left.items())
    lengths = math.sqrt(_square(left.values())) * math.sqrt(_square(right.values()))
    return product / lengths if lengths else math.nan


def cosine_distance(one: SparseVector, other: SparseVector) -> float | None:
    """Returns 1 minus the cosine of the angle between two sparse vectors."""
    cosine = cosine_similarity(one, other)
    return None if cosine is None else 1 - cosine


def dot_product(one: Vector, other: Vector) -> float:
    """Returns the sum of the products of the vectors' elements."""
    return sum(a * b for a, b in zip(one, other, strict=True))


def cosine_of_arrays(one: Vector, other: Vector) -> float:
    """Returns the cosine of the angle between two vectors."""
    lengths = math.sqrt(_square(one) * _square(other))  # one root, so that equal ones are at 0
    return dot_product(one, other) / lengths if lengths else math.nan


def distance_of_arrays(one: Vector, other: Vector) -> float:
    """Returns 1 minus the cosine of the angle between two vectors."""
    return 1 - cosine_of_arrays(one, other)


def euclidean_distance(one: Vector, other: Vector) -> float:
    """Returns the Euclidean distance between two points."""
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))


def _square(vector: Iterable[float]) -> float:
    """Returns the square of a vector's length."""
    return sum(value * value for value in vector)


def of_equal_length(
    function: Callable[[Vector, Vector], float], *, is_null_zero: bool
) -> Callable[..., float | None]:
    """Limits a function to arrays of equal length.

    Args:
        function: The function of two arrays without nulls.
        is_null_zero: Whether a null counts as zero; otherwise the result is null.
    """

    def checked(one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
        if len(one) != len(other):
            raise SeamlineError(
                INVALID_ARGUMENT, "both vectors must have the same number of elements", hint=""
            )
        left = [0.0 if is_null_zero and x is None else x for x in one]
        right = [0.0 if is_null_zero and x is None else x for x in other]
        if None in left or None in right:
            return None
        return function(cast("Vector", left), cast("Vector", right))

    return checked

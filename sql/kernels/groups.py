"""Kernels over all values of a group."""

from __future__ import annotations

import bisect
import collections
import datetime
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.sql.kernels.arguments import require

Rows = Sequence[Mapping[str, Any]]
"""The arguments of each row: `field0`, `field1` and so on."""

_DIGEST_BYTES = 8
_HISTOGRAM_MAX = 10_000


def checksum(values: Sequence[Any]) -> bytes:
    """Returns bytes that are the same for the same values in any order; nulls count."""
    total = 0
    for value in values:
        digest = hashlib.blake2b(_text(value).encode(), digest_size=_DIGEST_BYTES).digest()
        total += int.from_bytes(digest, "big")
    return (total % (1 << 8 * _DIGEST_BYTES)).to_bytes(_DIGEST_BYTES, "big")


def _text(value: Any) -> str:
    """Returns a value as text that does not depend on the engine that passes the value."""
    match value:
        case float():
            return repr(value + 0.0)  # drops the sign of zero
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).isoformat()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case dict():
            return f"({', '.join(map(_text, value.values()))})"
        case list() if value and isinstance(value[0], tuple):
            return f"{{{', '.join(sorted(f'{_text(k)}: {_text(v)}' for k, v in value))}}}"
        case list():
            return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def most_frequent(rows: Rows, capacity: int) -> list[tuple[Any, int]] | None:
    """Returns the most frequent values and their counts; among equal counts, the least value first.

    Args:
        rows: The number of values requested, and a value.
        capacity: How many values other engines count at a time; here all are counted.
    """
    require(capacity > 0, "a capacity must be above 0")
    values = [row["field1"] for row in rows if row["field1"] is not None]
    if not values:
        return None
    count = rows[0]["field0"]
    require(count is not None and count > 1, "the number of values must be at least 2")
    counted = collections.Counter(values).items()
    return sorted(counted, key=lambda pair: (-pair[1], pair[0]))[:count]


_JOINED_BYTES_MAX = 1_048_576
_FILLER_BYTES_MAX = 65_536


def joined_within(
    values: Sequence[str | None], separator: str, rest: str, filler: str
) -> str | None:
    """Returns the texts with a separator between them, as many as fit into 1 MiB; None of none.

    Args:
        values: The texts; nulls are left out.
        separator: What is between them.
        rest: What happens if some do not fit: `error`; or `none` or `count`, whether their number
            follows the filler.
        filler: What takes their place.
    """
    require(len(filler.encode()) <= _FILLER_BYTES_MAX, "the text of TRUNCATE is above 64 KiB")
    texts = [value for value in values if value is not None]
    between, length = len(separator.encode()), 0
    for index, text in enumerate(texts):
        length += len(text.encode()) + (between if index else 0)
        if length > _JOINED_BYTES_MAX:
            require(rest != "error", "the result of listagg is above 1 MiB")
            count = f"({len(texts) - index})" if rest == "count" else ""
            return separator.join([*texts[:index], filler + count])
    return separator.join(texts) if texts else None


# --- Percentiles ---------------------------------------------------------------------------------


def weighted_percentile(rows: Rows, share: float, accuracy: float = 0.01) -> Any:
    """Returns the least value that, with those below it, has more than a share of the weight.

    Args:
        rows: A value and its weight.
        share: 0 to 1.
        accuracy: Between 0 and 1; the result is exact.
    """
    require(0 < accuracy < 1, "an accuracy must be between 0 and 1")
    percentiles = weighted_percentiles(rows, [share])
    return None if percentiles is None else percentiles[0]


def weighted_percentiles(rows: Rows, shares: Sequence[float | None]) -> list[Any] | None:
    """Returns the weighted percentiles for several shares."""
    pairs = sorted(
        (row["field0"], row["field1"])
        for row in rows
        if row["field0"] is not None and row["field1"] is not None
    )
    for share in shares:
        require(share is not None and 0 <= share <= 1, "a percentile must be between 0 and 1")
    require(all(weight > 0 for _, weight in pairs), "a weight must be above 0")
    if not pairs:
        return None
    reached = list(itertools.accumulate(weight for _, weight in pairs))
    last = len(pairs) - 1
    indexes = (bisect.bisect_right(reached, (share or 0) * reached[-1]) for share in shares)
    return [pairs[min(index, last)][0] for index in indexes]


# --- Histograms ----------------------------------------------------------------------------------


def numeric_histogram(rows: Rows) -> list[tuple[float, float]] | None:
    """Returns bucket centers and weights; the two closest buckets merge while there are too many.

    Args:
        rows: The maximum number of buckets, a value and, if it is not 1, its weight.
    """
    buckets: list[tuple[float, float]] = []
    for row in rows:
        value, weight = row["field1"], row.get("field2", 1.0)
        if value is None or weight is None:
            continue
        count = row["field0"]
        require(
            count is not None and 2 <= count <= _HISTOGRAM_MAX, "there must be at least 2 buckets"
        )
        index = bisect.bisect_left(buckets, (value, 0.0))
        if index < len(buckets) and buckets[index][0] == value:
            buckets[index] = (value, buckets[index][1] + weight)
            continue
        buckets.insert(index, (value, weight))
        if len(buckets) > count:
            gaps = (b[0] - a[0] for a, b in itertools.pairwise(buckets))
            closest = min(enumerate(gaps), key=lambda gap: gap[1])[0]
            (one, weight), (other, more) = buckets[closest : closest + 2]
            together = weight + more
            center = (one * weight + other * more) / together
            buckets[closest : closest + 2] = [(center, together)]
    return buckets or None

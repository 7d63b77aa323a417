"""What the gateway says about itself and its SQL, by the numbers of Flight SQL's `SqlInfo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.gateway.flight.prepared import KEPT_S
from seamline.version import VERSION

_AT_END = 3
_LOWER_CASE, _INSENSITIVE = 3, 1
_UNRELATED_AND_BEYOND_SELECT = 0b11
_COMPARISONS_EXISTS_IN_QUANTIFIED = 0b1111
_UNION_AND_UNION_ALL = 0b11

_INFO: Mapping[int, Any] = {
    0: "Seamline",
    1: VERSION,
    2: pa.__version__,
    3: False,  # read only
    4: True,  # SQL
    5: False,  # Substrait
    8: 0,  # transactions: none
    9: True,  # cancels
    10: False,  # bulk ingestion
    11: False,  # in transactions
    100: int(KEPT_S * 1000),  # how long prepared statements are kept, in milliseconds
    101: 0,
    500: False,  # CREATE CATALOG
    501: True,  # CREATE SCHEMA
    502: True,  # CREATE TABLE
    503: _LOWER_CASE,
    504: '"',
    505: _INSENSITIVE,
    507: _AT_END,
    513: "\\",
    515: True,  # aliases
    516: True,  # null plus null is null
    518: True,  # correlation names
    519: False,
    520: True,  # expressions in ORDER BY
    521: True,  # ORDER BY what is not selected
    522: _UNRELATED_AND_BEYOND_SELECT,
    523: True,  # LIKE … ESCAPE
    524: True,  # columns that are never null
    527: False,
    529: "schema",
    530: "procedure",
    531: "catalog",
    532: True,  # the catalog comes first
    536: False,  # SELECT FOR UPDATE
    537: False,  # stored procedures
    538: _COMPARISONS_EXISTS_IN_QUANTIFIED,
    539: True,  # correlated subqueries
    540: _UNION_AND_UNION_ALL,
    563: False,  # transactions
    572: False,  # batches of updates
    573: False,  # savepoints
    574: False,  # named parameters
    576: False,  # procedures by CALL
}
_VALUES = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.string())),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)
_KINDS: Mapping[type, int] = {str: 0, bool: 1, int: 3}
"""The index in `_VALUES` of the field for a Python value, by its type."""
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(_VALUES), nullable=False),
    ]
)


def rows(wanted: Sequence[int]) -> pa.Table:
    """Returns the information with the given numbers, or all of it if none are given.

    Unknown numbers are left out.
    """
    found = {number: _INFO[number] for number in wanted or _INFO if number in _INFO}
    kinds = [_KINDS[type(value)] for value in found.values()]
    children: list[list[Any]] = [[] for _ in _VALUES]
    offsets = []
    for kind, value in zip(kinds, found.values(), strict=True):
        offsets.append(len(children[kind]))
        children[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(child, field.type) for child, field in zip(children, _VALUES, strict=True)],
        [field.name for field in _VALUES],
    )
    return pa.Table.from_arrays([pa.array(list(found), pa.uint32()), values], schema=SCHEMA)

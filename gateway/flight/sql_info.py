"""What the gateway says about itself and its SQL, by the numbers of Flight SQL's `SqlInfo`.

Every number of the specification has a value: drivers fail on missing ones, the JDBC driver in half
of the methods of `DatabaseMetaData`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.dbapi.version import VERSION
from seamline.gateway.flight.prepared import KEPT_S
from seamline.sql.functions import FORMS
from seamline.sql.functions.registry import FUNCTIONS, Overload

_AT_END = 3
_LOWER_CASE, _INSENSITIVE = 3, 1
_MINIMUM = _ENTRY = 0b1
_LIMITED_AND_FULL = 0b110
_FORWARD_ONLY = _READ_ONLY = 0b10
_NO_TRANSACTIONS, _ONLY_THOSE = 0, 0b1
_UNRELATED_AND_BEYOND_SELECT = 0b11
_COMPARISONS_EXISTS_IN_QUANTIFIED = 0b1111
_UNION_AND_UNION_ALL = 0b11
_KEYWORDS = """
current_catalog current_schema deallocate json_array json_exists json_object json_query json_table
json_value limit listagg skip
""".upper().split()
"""The reserved words that SQL:2003 does not reserve, and LIMIT."""
_SYSTEM_FUNCTIONS = (
    *("coalesce", "current_catalog", "current_schema", "current_user", "if", "nullif", "try"),
    *("try_cast", "typeof", "uuid", "version"),
)
_LIMITS = frozenset({*range(541, 556), *range(557, 562)})
"""Lengths and numbers that are limited, such as that of a table's name; 0 means no limit."""
_NUMBERS = _LIMITS | {562}
"""Those that are numbers, not sets of bits."""


def _functions(first: str, forms: str) -> list[str]:
    """Returns functions by their first parameter, or the result of those that have none.

    Args:
        first: A regular expression of the type.
        forms: A regular expression of calls that are not rows of the function table.
    """

    def belongs(overload: Overload) -> bool:
        type_ = overload.parameters[0] if overload.parameters else overload.returns
        is_one = isinstance(type_, str) and re.fullmatch(first, type_) is not None
        return overload.kind == "scalar" and is_one

    rows = {name for name, overloads in FUNCTIONS.items() if any(map(belongs, overloads))}
    others = {name for name, form in FORMS.items() if re.search(forms, form[0])}
    named = {name for name in rows | others if not name.startswith("$")}
    return sorted(named - set(_SYSTEM_FUNCTIONS))


_INFO: Mapping[int, Any] = {
    0: "Seamline",
    1: VERSION,
    2: pa.__version__,
    3: False,  # read only
    4: True,  # SQL
    5: False,  # Substrait
    6: None,
    7: None,
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
    506: False,  # some tables may be listed but not read
    507: _AT_END,
    508: _KEYWORDS,
    509: _functions(r"tinyint|smallint|integer|bigint|real|double|D", r"^$"),
    510: _functions(r"varchar", r"\(varchar"),
    511: list(_SYSTEM_FUNCTIONS),
    512: _functions(r"date|time.*|interval .*", r"\b(date|timestamp|unit|field)\b"),
    513: "\\",
    514: "",
    515: True,  # aliases
    516: True,  # null plus null is null
    517: {},  # there is no function CONVERT
    518: True,  # correlation names
    519: False,
    520: True,  # expressions in ORDER BY
    521: True,  # ORDER BY what is not selected
    522: _UNRELATED_AND_BEYOND_SELECT,
    523: True,  # LIKE … ESCAPE
    524: True,  # columns that are never null
    525: _MINIMUM,
    526: _ENTRY,
    527: False,
    528: _LIMITED_AND_FULL,
    529: "schema",
    530: "procedure",
    531: "catalog",
    532: True,  # the catalog comes first
    533: 0,  # schemas in calls of procedures, definitions of indexes, and grants
    534: 0,  # catalogs there
    535: 0,  # positioned DELETE and UPDATE
    536: False,  # SELECT FOR UPDATE
    537: False,  # stored procedures
    538: _COMPARISONS_EXISTS_IN_QUANTIFIED,
    539: True,  # correlated subqueries
    540: _UNION_AND_UNION_ALL,
    **dict.fromkeys(_LIMITS, 0),
    556: True,
    562: _NO_TRANSACTIONS,
    563: False,  # transactions
    564: _ONLY_THOSE,
    565: False,  # definitions commit
    566: False,
    567: _FORWARD_ONLY,
    568: 0,
    569: _READ_ONLY,
    570: 0,
    571: 0,
    572: False,  # batches of updates
    573: False,  # savepoints
    574: False,  # named parameters
    575: False,  # large objects are changed in a copy
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
_KINDS: Mapping[type, int] = {str: 0, type(None): 0, bool: 1, int: 3, list: 4, dict: 5}
"""The index in `_VALUES` of the field for a Python value, by its type."""
_BIGINT = 2
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(_VALUES), nullable=False),
    ]
)


def rows(numbers: Sequence[int]) -> pa.Table:
    """Returns the information with the given numbers, or all of it if none are given.

    Unknown numbers are left out.
    """
    info = {number: _INFO[number] for number in numbers or _INFO if number in _INFO}
    kinds = [
        _BIGINT if number in _NUMBERS else _KINDS[type(value)] for number, value in info.items()
    ]
    children: list[list[Any]] = [[] for _ in _VALUES]
    offsets = []
    for kind, value in zip(kinds, info.values(), strict=True):
        offsets.append(len(children[kind]))
        children[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(child, field.type) for child, field in zip(children, _VALUES, strict=True)],
        [field.name for field in _VALUES],
    )
    return pa.Table.from_arrays([pa.array(list(info), pa.uint32()), values], schema=SCHEMA)

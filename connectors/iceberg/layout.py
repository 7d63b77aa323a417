"""Parses the partitioning and sort order of a table from the text of its definition.

`day(ts)`, `bucket(16, id)`, `truncate(4, name)` and `ts` are ways to partition; `ts`, `ts DESC` and
`ts DESC NULLS LAST` are ways to sort.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import NestedField, PrimitiveType

from seamline.errors import INVALID_TABLE_DEFINITION, NOT_SUPPORTED, SeamlineError
from seamline.sql.near import did_you_mean

_PARTITION = re.compile(
    r"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?([^,)]+?)\s*(?:,\s*(\d+)\s*)?\)|(.+?))\s*"
)
_SORT = re.compile(r"\s*(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE)
_BY_TIME: Mapping[str, Any] = {
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
_HINT = "write: column, year(c), month(c), day(c), hour(c), bucket(n, c) or truncate(n, c)"


def partition_spec(schema: Schema, words: Sequence[str]) -> PartitionSpec:
    """Returns the partition spec that the text describes.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    fields = []
    for position, text in enumerate(words):
        column, transform = _partition(schema, text)
        suffix = "" if isinstance(transform, IdentityTransform) else f"_{_name(transform)}"
        fields.append(
            PartitionField(
                source_id=column.field_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=transform,
                name=column.name.replace(".", "_") + suffix,
            )
        )
    return PartitionSpec(*fields)


def sort_order(schema: Schema, words: Sequence[str]) -> SortOrder:
    """Returns the sort order that the text describes; nulls come last unless it says otherwise.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    fields = []
    for text in words:
        match = _SORT.fullmatch(text)
        assert match is not None
        column = _column(schema, match[1], text)
        nulls_first = (match[3] or "last").lower() == "first"
        fields.append(
            SortField(
                source_id=column.field_id,
                transform=IdentityTransform(),
                direction=SortDirection.DESC
                if (match[2] or "").lower() == "desc"
                else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if nulls_first else NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*fields)


def partition_words(schema: Schema, spec: PartitionSpec) -> tuple[str, ...]:
    """Returns the text of a partition spec: the inverse of `partition_spec`.

    Raises:
        SeamlineError: NOT_SUPPORTED for a transform that has no text.
    """
    return tuple(
        _words(schema.find_column_name(field.source_id), field.transform)
        for field in spec.fields
        if not isinstance(field.transform, VoidTransform)
    )


def identity_columns(schema: Schema, spec: PartitionSpec) -> frozenset[str]:
    """Returns the columns by whose values, unchanged, a spec partitions."""
    return frozenset(
        str(schema.find_column_name(field.source_id))
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform)
    )


def sort_words(schema: Schema, order: SortOrder) -> tuple[str, ...]:
    """Returns the text of a sort order: the inverse of `sort_order`.

    Raises:
        SeamlineError: NOT_SUPPORTED for an order by anything but columns.
    """
    words = []
    for field in order.fields:
        if not isinstance(field.transform, IdentityTransform):
            raise _untold(f"is sorted by {field.transform}")
        direction = "DESC" if field.direction is SortDirection.DESC else "ASC"
        nulls = "FIRST" if field.null_order is NullOrder.NULLS_FIRST else "LAST"
        words.append(f"{schema.find_column_name(field.source_id)} {direction} NULLS {nulls}")
    return tuple(words)


def _words(column: str | None, transform: Any) -> str:
    match transform:
        case IdentityTransform():
            return str(column)
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            return f"{transform}({column})"
        case BucketTransform():
            return f"bucket({transform.num_buckets}, {column})"
        case TruncateTransform():
            return f"truncate({transform.width}, {column})"
    raise _untold(f"is partitioned by {transform}")


def _untold(what: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"the table {what}, which no property can express",
        hint="State the properties.",
    )


def _partition(schema: Schema, text: str) -> tuple[NestedField, Any]:
    match = _PARTITION.fullmatch(text)
    assert match is not None
    function, before, inside, after, plain = match.groups()
    if plain is not None:
        return _column(schema, plain, text), IdentityTransform()
    column = _column(schema, inside, text)
    size = before or after
    name = function.lower()
    if name in _BY_TIME and size is None:
        transform: Any = _BY_TIME[name]()
    elif name in {"bucket", "truncate"} and size is not None and int(size) > 0:
        transform = BucketTransform(int(size)) if name == "bucket" else TruncateTransform(int(size))
    else:
        raise _invalid(text)
    if not transform.can_transform(column.field_type):
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{text.strip()} is not defined for a column of type {column.field_type}",
        )
    return column, transform


def _column(schema: Schema, name: str, text: str) -> NestedField:
    try:
        column = schema.find_field(name.strip().strip('"'), case_sensitive=False)
    except ValueError as error:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{text.strip()}: there is no column {name.strip()}",
            hint=did_you_mean(name.strip(), schema.column_names),
        ) from error
    if not isinstance(column.field_type, PrimitiveType):
        raise SeamlineError(
            INVALID_TABLE_DEFINITION, f"{text.strip()}: {name.strip()} is not a simple column"
        )
    return column


def _name(transform: Any) -> str:
    return {"truncate": "trunc"}.get(str(transform).split("[")[0], str(transform).split("[")[0])


def _invalid(text: str) -> SeamlineError:
    return SeamlineError(
        INVALID_TABLE_DEFINITION, f"{text.strip()} is not a valid partitioning", hint=_HINT
    )

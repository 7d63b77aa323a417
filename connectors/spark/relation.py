"""The rows of one scan as Spark's SQL: the table at its snapshot, plus the tail.

Iceberg reads the files. A snapshot is read with the schema it had; each wanted column is found in
that schema by field id, so that a statement after a rename or a dropped and added column reads
what its own schema means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamline.connectors.protocols import EngineScan
from seamline.connectors.spark.settings import quoted_name
from seamline.seam.offsets import Offsets
from seamline.sql import columns as names
from seamline.sql import types
from seamline.sql.types import Array, Field, Map, Row, Type


def relation_sql(scan: EngineScan, rows_view: str | None) -> str:
    """A SELECT of the scan's columns under their lower-case names.

    Args:
        scan: The scan.
        rows_view: Name of the view that holds the decoded tail, or rows of the gateway's own.
    """
    parts = []
    if scan.cold is not None and scan.snapshot_id is not None:
        parts.append(_cold_sql(scan))
    if rows_view is not None:
        parts.append(f"SELECT {_tail_columns(scan)} FROM {_quote(rows_view)}")
    if not parts:
        parts.append(f"SELECT {_no_columns(scan)} WHERE FALSE")
    return " UNION ALL ".join(parts)


def _cold_sql(scan: EngineScan) -> str:
    stored = {field.field_id: field for field in scan.stored}
    wanted = ", ".join(_column_sql(column, stored) for column in scan.columns) or _nothing(scan)
    conditions = []
    if scan.cold_end is not None:
        conditions.append(_below(scan.cold_end))
    if scan.cold_start is not None:
        conditions.append(_from(scan.cold_start))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {wanted} FROM {quoted_name(scan.table)} VERSION AS OF {scan.snapshot_id}{where}"


_PARTITION, _OFFSET = f"`{names.PARTITION}`", f"`{names.OFFSET}`"


def _below(end: Offsets) -> str:
    cases = " ".join(f"WHEN {p} THEN {offset}L" for p, offset in end.items()) or "WHEN -1 THEN 0L"
    return f"({_PARTITION} IS NULL OR coalesce({_OFFSET} < CASE {_PARTITION} {cases} END, FALSE))"


def _from(start: Offsets) -> str:
    """In comparisons that Iceberg can prune files by."""
    partitions = [f"{_PARTITION} = {p} AND {_OFFSET} >= {offset}L" for p, offset in start.items()]
    return f"({' OR '.join(partitions) or 'FALSE'})"


def _column_sql(column: Field, stored: Mapping[int, Field]) -> str:
    name = _quote(column.name.lower())
    found = stored.get(column.field_id)
    if found is None:
        return f"{_default(column)} AS {name}"
    value = _converted(_quote(found.name), found.type, column.type)
    if _is_filtered_otherwise(found):
        # hides filters from the files, without copying where an expression for that exists
        is_floating = column.type in types.FLOATS
        value = f"nanvl({value}, {value})" if is_floating else f"element_at(array({value}), 1)"
    return f"{value} AS {name}"


def _is_filtered_otherwise(field: Field) -> bool:
    """Whether Iceberg's readers would leave out rows of the answer.

    They take a column that a file lacks for nulls, although it, or one inside it, reads as a
    default; and they leave NaN, the greatest number here, out of a column's statistics.
    """
    inside = field.type.fields if isinstance(field.type, Row) else ()
    return (
        field.initial_default is not None
        or field.type in types.FLOATS
        or any(map(_is_filtered_otherwise, inside))
    )


def _converted(expression: str, stored: Type, wanted: Type) -> str:
    """A stored value as the wanted type, its parts found by field id."""
    if same_layout(stored, wanted):
        return expression
    match stored, wanted:
        case Row(have), Row(want):
            by_id = {field.field_id: field for field in have}
            members = []
            for field in want:
                found = by_id.get(field.field_id)
                value = (
                    _default(field)
                    if found is None
                    else _converted(f"{expression}.{_quote(found.name)}", found.type, field.type)
                )
                members.append(f"{_text(field.name)}, {value}")
            inner = f"named_struct({', '.join(members)})"
            return f"CASE WHEN {expression} IS NULL THEN NULL ELSE {inner} END"
        case Array(one), Array(other):
            return f"transform({expression}, x -> {_converted('x', one, other)})"
        case Map(key, value), Map(other_key, other_value):
            keyed = (
                f"transform_values({expression}, (k, v) -> {_converted('v', value, other_value)})"
            )
            if same_layout(key, other_key):
                return keyed
            return f"transform_keys({keyed}, (k, v) -> {_converted('k', key, other_key)})"
    return f"CAST({expression} AS {types.to_spark(wanted)})"


def same_layout(stored: Type, wanted: Type) -> bool:
    """Whether both are the same type with the same fields, by id and by name, in the same order."""
    match stored, wanted:
        case Row(have), Row(want):
            return len(have) == len(want) and all(
                h.field_id == w.field_id and h.name == w.name and same_layout(h.type, w.type)
                for h, w in zip(have, want, strict=True)
            )
        case Array(one), Array(other):
            return same_layout(one, other)
        case Map(key, value), Map(other_key, other_value):
            return same_layout(key, other_key) and same_layout(value, other_value)
    return stored == wanted


def _default(field: Field) -> str:
    return f"CAST({_literal(field.initial_default)} AS {types.to_spark(field.type)})"


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case bytes():
            return f"X'{value.hex()}'"
        case _:
            return _text(str(value))


def _tail_columns(scan: EngineScan) -> str:
    return ", ".join(_quote(c.name.lower()) for c in scan.columns) or _nothing(scan)


def _no_columns(scan: EngineScan) -> str:
    nulls = (
        f"CAST(NULL AS {types.to_spark(c.type)}) AS {_quote(c.name.lower())}" for c in scan.columns
    )
    return ", ".join(nulls) or _nothing(scan)


def _nothing(scan: EngineScan) -> str:
    """For a scan of which only the number of rows is wanted."""
    return f"NULL AS {_quote(scan.own_name('nothing'))}"


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

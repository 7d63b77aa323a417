"""The rows of one scan as Spark's SQL: the table at its snapshot, plus the tail.

Iceberg reads the files. A snapshot is read with the schema it had; each wanted column is found in
that schema by field id. So after a rename, or after a column was dropped and added again, a
statement reads what its own schema means.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from seamline.connectors.newest import newest_condition
from seamline.connectors.protocols.engines import EngineScan
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdSpan
from seamline.seam.upserts import Newest
from seamline.sql import columns as names
from seamline.sql import types
from seamline.sql.quoting import spark_name, spark_text
from seamline.sql.types import Array, Field, Map, Row, Type


def relation_sql(scan: EngineScan, rows_view: str | None) -> str:
    """Returns a SELECT of the scan's columns under their lower-case names.

    Args:
        scan: The scan.
        rows_view: Name of the view that holds the decoded tail, or rows of the gateway's own.
    """
    if scan.newest is not None:
        return _newest_sql(scan, scan.newest, rows_view)
    parts = []
    if scan.cold is not None and scan.snapshot_id is not None:
        parts.append(_cold_sql(scan))
    if rows_view is not None:
        parts.append(f"SELECT {_tail_columns(scan)} FROM {spark_name(rows_view)}")
    if not parts:
        parts.append(f"SELECT {_no_columns(scan)} WHERE FALSE")
    return " UNION ALL ".join(parts)


def _newest_sql(scan: EngineScan, newest: Newest, rows_view: str | None) -> str:
    """Selects the snapshot's rows whose keys the tail does not have, and the tail's newest rows.

    If the rows of a key may be in several partitions, an outer join checks that they are not.
    """
    cold, hot = scan.tiers()
    tail, files = spark_name(scan.own_name("newest")), spark_name(scan.own_name("cold"))
    rows = relation_sql(hot, rows_view)
    truncate = last_truncate_sql(rows, newest) if newest.takes_truncates else None
    hot_rows = f"({newest_rows_sql(rows, newest, truncate)}) AS {tail}"
    chosen = [spark_name(column.name.lower()) for column in scan.columns]
    own = ", ".join(f"{tail}.{column}" for column in chosen) or _nothing(scan)
    parts = [f"SELECT {own} FROM {hot_rows} WHERE NOT {tail}.{spark_name(names.DELETED)}"]
    if cold.cold is not None and cold.cold.files:
        key = [spark_name(name.lower()) for name in newest.key_names]
        same = " AND ".join(f"{tail}.{column} = {files}.{column}" for column in key)
        own = ", ".join(f"{files}.{column}" for column in chosen) or _nothing(scan)
        source = f"SELECT {own} FROM ({relation_sql(cold, None)}) AS {files}"
        if newest.is_settled:
            where = f" WHERE {truncate} IS NULL" if truncate is not None else ""
            parts.append(f"{source} LEFT ANTI JOIN {hot_rows} ON {same}{where}")
        else:
            partition = spark_name(newest.partition.name.lower())
            parts.append(
                f"{source} LEFT JOIN {hot_rows} ON {same} WHERE CASE WHEN {tail}.{key[0]} IS NULL "
                f"THEN TRUE WHEN {tail}.{partition} <> {files}.{partition} "
                f"THEN {moved_key_sql(newest)} ELSE FALSE END"
            )
    return " UNION ALL ".join(parts)


def newest_rows_sql(rows: str, newest: Newest, truncate: str | None = None) -> str:
    """Returns a SELECT of the newest decoded row of each key, deletes included.

    Args:
        rows: A SELECT of the rows.
        newest: Says which row is the newest.
        truncate: SQL for the offset of the last truncate, null if there is none; it is not among
            the result.
    """
    rank = newest_condition(newest, spark_name, moved_key_sql(newest))
    keyed = (
        f"{spark_name(newest.key_names[0])} IS NOT NULL"  # a record that makes no row has no key
    )
    if truncate is not None:
        keyed += f" AND {spark_name(newest.offset.name)} > coalesce({truncate}, -1)"
    ranked = f"SELECT *, {rank} AS `{_IS_NEWEST}` FROM ({rows}) WHERE {keyed}"
    return f"SELECT * FROM ({ranked}) WHERE `{_IS_NEWEST}`"


def last_truncate_sql(rows: str, newest: Newest) -> str:
    """Returns a subquery for the offset of the last truncate among rows; null if there is none."""
    offset, key = spark_name(newest.offset.name), spark_name(newest.key_names[0])
    condition = f"{key} IS NULL AND {spark_name(names.DELETED)}"
    return f"(SELECT max({offset}) FROM ({rows}) WHERE {condition})"


_IS_NEWEST = "_kafka_is_newest"
"""Not the name of any column of a table: those begin differently."""


def moved_key_sql(newest: Newest) -> str:
    """Returns a condition that raises an error: a key has records in several partitions."""
    return f"CAST(raise_error({spark_text(newest.moved_key)}) AS BOOLEAN)"


def _cold_sql(scan: EngineScan) -> str:
    stored = {field.field_id: field for field in scan.stored}
    chosen = (_column_sql(column, stored, scan.misleading) for column in scan.columns)
    select = ", ".join(chosen) or _nothing(scan)
    where = "" if scan.cold_span is None else f" WHERE {_within(scan, scan.cold_span)}"
    return f"SELECT {select} FROM {spark_name(*scan.table)} VERSION AS OF {scan.snapshot_id}{where}"


def _position(scan: EngineScan) -> tuple[str, str]:
    """Returns the columns that say which record a row is, by their names in the snapshot."""
    if scan.places is None:
        return "NULL", "NULL"
    return _stored(scan, scan.places.partition), _stored(scan, scan.places.offset)


def _stored(scan: EngineScan, path: Sequence[Field]) -> str:
    """Returns a field inside a stored column, by which files are pruned only if that is exact."""
    column = _leaf(path, scan.stored)
    if any(field.field_id in scan.misleading for field in path):
        return _hidden(column, path[-1].type)
    return column


def _within(scan: EngineScan, span: ColdSpan) -> str:
    """Returns the condition for the rows of a span."""
    position, column = _position(scan), scan.places.batch if scan.places else None
    return span.condition(
        functools.partial(_below, position),
        functools.partial(_from, position),
        _stored(scan, [column]) if column is not None else "NULL",
    )


def _leaf(path: Sequence[Field], stored: Sequence[Field]) -> str:
    """Returns a field inside a stored column, found by field ids; NULL if the snapshot lacks it."""
    parts: list[str] = []
    inside = stored
    for step in path:
        field_ = next((field for field in inside if field.field_id == step.field_id), None)
        if field_ is None:
            return "NULL"
        parts.append(spark_name(field_.name))
        inside = field_.type.fields if isinstance(field_.type, Row) else ()
    return ".".join(parts)


def _below(position: tuple[str, str], end: Offsets) -> str:
    partition, offset = position
    cases = " ".join(f"WHEN {p} THEN {end}L" for p, end in end.items()) or "WHEN -1 THEN 0L"
    return f"({partition} IS NULL OR coalesce({offset} < CASE {partition} {cases} END, FALSE))"


def _from(position: tuple[str, str], start: Offsets) -> str:
    """Returns the condition `start` sets, as comparisons that Iceberg can prune files by."""
    partition, offset = position
    partitions = [f"{partition} = {p} AND {offset} >= {o}L" for p, o in start.items()]
    return f"({' OR '.join(partitions) or 'FALSE'})"


def _column_sql(column: Field, stored: Mapping[int, Field], misleading: Collection[int]) -> str:
    name = spark_name(column.name.lower())
    if column.field_id in _PLACES:
        return f"{_PLACES[column.field_id]} AS {name}"
    stored_field = stored.get(column.field_id)
    if stored_field is None:
        return f"{_default(column)} AS {name}"
    value = _converted(spark_name(stored_field.name), stored_field.type, column.type)
    if _is_filtered_otherwise(stored_field, misleading):
        value = _hidden(value, column.type)
    return f"{value} AS {name}"


def _hidden(value: str, type_: Type) -> str:
    """Hides a column's filters from the files, without a copy where there is an expression."""
    return f"nanvl({value}, {value})" if type_ in types.FLOATS else f"element_at(array({value}), 1)"


_PLACES = dict(zip((field.field_id for field in names.FILE_FIELDS), ("_file", "_pos"), strict=True))
"""Iceberg's own names of the columns that say where a row is, by their ids."""


def _is_filtered_otherwise(field: Field, misleading: Collection[int]) -> bool:
    """Whether Iceberg's readers, given a filter, would leave out rows of the result.

    They filter a column that a file lacks as nulls, although it, or a field inside it, reads as a
    default; they leave NaN, the greatest number here, out of a column's statistics; and they
    believe partition values that are wrong.
    """
    inside = field.type.fields if isinstance(field.type, Row) else ()
    return (
        field.initial_default is not None
        or field.type in types.FLOATS
        or field.field_id in misleading
        or any(_is_filtered_otherwise(one, misleading) for one in inside)
    )


def _converted(expression: str, stored: Type, type_: Type) -> str:
    """Converts a stored value to the wanted type, with its parts found by field id."""
    if same_layout(stored, type_):
        return expression
    match stored, type_:
        case types.Json(is_variant=True), _:
            return f"to_json({expression})"
        case Row(have), Row(want):
            by_id = {field.field_id: field for field in have}
            members = []
            for field in want:
                stored_field = by_id.get(field.field_id)
                value = (
                    _default(field)
                    if stored_field is None
                    else _converted(
                        f"{expression}.{spark_name(stored_field.name)}",
                        stored_field.type,
                        field.type,
                    )
                )
                members.append(f"{spark_text(field.name)}, {value}")
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
    return f"CAST({expression} AS {types.to_spark(type_)})"


def same_layout(stored: Type, type_: Type) -> bool:
    """Whether both are the same type with the same fields, by id and by name, in the same order."""
    match stored, type_:
        case Row(have), Row(want):
            return len(have) == len(want) and all(
                h.field_id == w.field_id and h.name == w.name and same_layout(h.type, w.type)
                for h, w in zip(have, want, strict=True)
            )
        case Array(one), Array(other):
            return same_layout(one, other)
        case Map(key, value), Map(other_key, other_value):
            return same_layout(key, other_key) and same_layout(value, other_value)
        case types.Json(is_variant=True), _:
            return False
    return stored == type_


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
            return spark_text(str(value))


def _tail_columns(scan: EngineScan) -> str:
    return ", ".join(spark_name(c.name.lower()) for c in scan.columns) or _nothing(scan)


def _no_columns(scan: EngineScan) -> str:
    nulls = (
        f"CAST(NULL AS {types.to_spark(c.type)}) AS {spark_name(c.name.lower())}"
        for c in scan.columns
    )
    return ", ".join(nulls) or _nothing(scan)


def _nothing(scan: EngineScan) -> str:
    """Returns a placeholder column for a scan of which only the number of rows is needed."""
    return f"NULL AS {spark_name(scan.own_name('nothing'))}"

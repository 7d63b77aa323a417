"""The rows of one scan as DuckDB's SQL: files read by field id, deletes applied, tail added.

Files with the same schema of their own are read together. Each wanted column is found in them by
its Iceberg field id, at every level of nesting. So a rename, a reordering, a promotion, or a column
dropped and added again is read correctly whatever names the files hold. A column that a file lacks
is its initial default, or null. Filters need not be repeated here, except for lists of values:
DuckDB pushes the query's own down into the files. It filters Arrow tables itself, except for rows
looked up by a value.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from seamline.connectors.duckdb.literals import literal
from seamline.connectors.duckdb.storage import as_pattern, local_path
from seamline.connectors.newest import newest_condition
from seamline.connectors.protocols.engine_tails import TailFile
from seamline.connectors.protocols.engines import EngineScan
from seamline.seam.files import BLOOM_FILTER, FILE, POSITION, DataFile, field_id
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdSpan
from seamline.seam.upserts import Newest
from seamline.sql import columns as names
from seamline.sql import predicates, types
from seamline.sql.engines.render import opaque
from seamline.sql.predicates import Comparison, In, Or, Predicate, Value, conjuncts
from seamline.sql.quoting import quoted_text
from seamline.sql.types import Array, Field, Map, Row, Type, quoted

ROWS, DELETES = "rows", "deletes"
"""Suffixes for the names of a scan's tables: its rows in memory, and its deleted rows."""
_FILE, _NOTHING, _NEWEST = "file", "nothing", "newest"


@dataclasses.dataclass(frozen=True, slots=True)
class HiddenRows:
    """Which rows of a scan's files do not count.

    Attributes:
        bits: One bit per row, by the file's path; the first row is the highest bit of the first
            byte.
        counts: How many rows each file has.
        deleted: The positions of the rows that the snapshot's own deletes mark, ascending.
    """

    bits: Mapping[str, np.ndarray]
    counts: Mapping[str, int]
    deleted: Mapping[str, np.ndarray]

    def positions(self, path: str) -> np.ndarray:
        """Returns the positions of the rows of a file that do not count, ascending."""
        return np.flatnonzero(np.unpackbits(self.bits[path], count=self.counts[path]))

    def visible(self, file: DataFile) -> int:
        """Returns how many rows of a file are left."""
        return self.counts[file.path] - int(np.unpackbits(self.bits[file.path]).sum())

    def parts(self, scan: EngineScan) -> Iterator[tuple[Sequence[DataFile], str]]:
        """Yields files that are read together, and the variable that holds their bits.

        The variable is empty if none of their rows is hidden. DuckDB copies a constant for every
        few rows that it compares with it, so no variable is large.
        """
        assert scan.cold is not None
        number = 0
        for files in groups(scan.cold.files):
            shown = [file for file in files if not self.bits[file.path].any()]
            if shown:
                yield shown, ""
            part: list[DataFile] = []
            for file in (file for file in files if self.bits[file.path].any()):
                if part and sum(map(self._rows, (*part, file))) > PART_ROWS:
                    yield part, scan.own_name(f"hidden_{number}")
                    part, number = [], number + 1
                part.append(file)
            if part:
                yield part, scan.own_name(f"hidden_{number}")
                number += 1

    def variables(self, scan: EngineScan) -> Iterator[tuple[str, bytes]]:
        """Yields the names of a statement's variables of bits, and their bits."""
        if scan.cold is not None and scan.columns:
            for files, variable in self.parts(scan):
                if variable:
                    yield variable, self._bits(files)

    def place(self, files: Sequence[DataFile]) -> str:
        """Returns SQL for the index of a row's bit among those of files that are read together."""
        size = self._size(files)
        if size:
            start = f"CAST({FILE} AS INTEGER) * {8 * size}"
        else:
            sizes = (8 * self.bits[file.path].nbytes for file in files)
            listed = ", ".join(map(str, itertools.accumulate(sizes, initial=0)))
            start = f"list_extract(CAST([{listed}] AS INTEGER[]), CAST({FILE} AS INTEGER) + 1)"
        return f"CAST({POSITION} AS INTEGER) + {start}"

    def _rows(self, file: DataFile) -> int:
        return self.counts[file.path]

    def _bits(self, files: Sequence[DataFile]) -> bytes:
        size = self._size(files)
        return b"".join(self.bits[file.path].tobytes().ljust(size, b"\0") for file in files)

    def _size(self, files: Sequence[DataFile]) -> int:
        """Returns how many bytes each file takes among the bits; 0 if a fixed size wastes many.

        With a fixed size, a multiplication finds a file's bits, which costs less than a list.
        """
        sizes = [self.bits[file.path].nbytes for file in files]
        return max(sizes) if max(sizes) * len(sizes) <= _WASTED * sum(sizes) else 0


_WASTED = 2
"""A fixed size per file may take up to this many times the bytes that the files' bits need."""
PART_ROWS = 1_000_000
"""The most rows of several files whose bits are in one variable."""


def relation_sql(
    scan: EngineScan,
    tail_files: Sequence[TailFile] = (),
    copy: str | None = None,
    *,
    counted: int | None = None,
    is_newest: bool = False,
    hidden: HiddenRows | None = None,
) -> str:
    """Returns a SELECT of the scan's columns under their lower-case names.

    It becomes part of the user's own statement. So it names only what is the scan's own, or in its
    files: otherwise a common table expression of the same name would be read instead.

    Args:
        scan: The scan, its files inspected, its tables registered.
        tail_files: The part of the tail that is in files.
        copy: DuckDB's own table of the rows in memory, if it has one.
        counted: How many rows are in memory, if that is all that matters: no table has them then.
        is_newest: Whether the tail's rows are already the newest of their keys.
        hidden: What the tail hides of the files, and what their deletes mark, if that is known.
    """
    if scan.newest is not None:
        _, hot = scan.tiers()
        tail = relation_sql(hot, tail_files, copy)
        newest_tail = tail if is_newest else newest_rows_sql(tail, scan.newest)
        if hidden is not None:
            return _visible_sql(scan, newest_tail, hidden)
        return _newest_sql(scan, newest_tail)
    parts = []
    if scan.cold is not None:
        parts += [_needed_sql(scan, files) for files in groups(scan.cold.files)]
    if scan.tail is not None or scan.rows is not None:
        parts.append(_memory_sql(scan, copy, counted))
        parts += _tail_files_sql(scan, tail_files)
    if not parts:
        parts.append(f"SELECT {_no_columns(scan)} WHERE FALSE")
    return " UNION ALL ".join(parts)


def _visible_sql(scan: EngineScan, tail: str, hidden: HiddenRows) -> str:
    """Selects the rows of the files that are not hidden, and the tail's newest rows."""
    assert scan.cold is not None
    chosen = ", ".join(quoted(column.name.lower()) for column in scan.columns) or _nothing(scan)
    parts = [f"SELECT {chosen} FROM ({tail}) WHERE NOT {quoted(names.DELETED)}"]
    if not scan.columns:
        count = sum(map(hidden.visible, scan.cold.files))
        parts.append(f"SELECT {_nothing(scan)} FROM range({count})")
        return " UNION ALL ".join(parts)
    for files, variable in hidden.parts(scan):
        bits = f"getvariable({quoted_text(variable)})"
        is_visible = f"get_bit({bits}, {hidden.place(files)}) = 0" if variable else "TRUE"
        parts.append(_needed_sql(scan, files, is_visible))
    return " UNION ALL ".join(parts)


def hiding_sql(scan: EngineScan, files: Sequence[DataFile], keys: str) -> str:
    """Returns a SELECT of the rows whose keys a table has, from files that are read together.

    Its columns are `file` (the number of the file among these), `position`, and `moved`: whether
    the row is in another partition than its key.
    """
    newest = scan.newest
    assert newest is not None
    cold, _ = scan.tiers()
    names = newest.key if newest.is_settled else (*newest.key, newest.partition)
    alone = dataclasses.replace(cold, columns=tuple(dict.fromkeys(names)))
    name, rows_of = quoted(keys), quoted(scan.own_name("cold"))
    key = [quoted(n.lower()) for n in newest.key_names]
    same = " AND ".join(f"{name}.{column} = {rows_of}.{column}" for column in key)
    partition = quoted(newest.partition.name.lower())
    differs = f"coalesce({name}.{partition} <> {rows_of}.{partition}, FALSE)"
    moved = "FALSE" if newest.is_settled else differs
    rows = _files_sql(alone, files, "TRUE", f"{FILE}, {POSITION}")
    return (
        f"SELECT CAST({rows_of}.{FILE} AS BIGINT) AS file, {rows_of}.{POSITION} AS position, "
        f"{moved} AS moved FROM ({rows}) AS {rows_of} JOIN {name} ON {same}"
    )


def row_counts_sql(files: Sequence[DataFile]) -> str:
    """Returns a SELECT of the numbers and row counts of files that are read together."""
    return f"SELECT {FILE}, count(*) FROM read_parquet({_paths(files)}, {_OPTIONS}) GROUP BY {FILE}"


def _newest_sql(scan: EngineScan, tail: str) -> str:
    """Selects the rows of the files whose keys the tail lacks, and the tail's newest rows."""
    name = quoted(scan.own_name(_NEWEST))
    chosen = [quoted(column.name.lower()) for column in scan.columns]
    of_tail = f"SELECT {', '.join(chosen) or _nothing(scan)} FROM {name}"
    parts = [f"{of_tail} WHERE NOT {quoted(names.DELETED)}"]
    if scan.cold is not None and scan.cold.files:
        parts.append(unreplaced_sql(scan, scan.own_name(_NEWEST)))
    return f"WITH {name} AS MATERIALIZED ({tail}) {' UNION ALL '.join(parts)}"


def unreplaced_sql(scan: EngineScan, keys: str) -> str:
    """Returns a SELECT of the rows of a scan's files whose keys a relation does not have.

    An anti join is what DuckDB does fastest. Only a left join can also check that the rows of a key
    were all in one partition.

    Args:
        scan: The scan, of which only the newest rows count.
        keys: The relation's name; it has each key once, and also its partition where a key may be
            in several.
    """
    cold, _ = scan.tiers()
    newest = scan.newest
    assert newest is not None
    name, files = quoted(keys), quoted(scan.own_name("cold"))
    key = [quoted(n.lower()) for n in newest.key_names]
    same = " AND ".join(f"{name}.{column} = {files}.{column}" for column in key)
    chosen = (f"{files}.{quoted(column.name.lower())}" for column in scan.columns)
    own = ", ".join(chosen) or _nothing(scan)
    source = f"SELECT {own} FROM ({relation_sql(cold)}) AS {files}"
    if newest.is_settled:
        truncate = f" WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE {name}.{key[0]} IS NULL)"
        return f"{source} ANTI JOIN {name} ON {same}{truncate if newest.takes_truncates else ''}"
    partition = quoted(newest.partition.name.lower())
    return (
        f"{source} LEFT JOIN {name} ON {same} WHERE CASE WHEN {name}.{key[0]} IS NULL "
        f"THEN TRUE WHEN {name}.{partition} <> {files}.{partition} "
        f"THEN {_moved(newest)} ELSE FALSE END"
    )


def newest_rows_sql(tail: str, newest: Newest) -> str:
    """Returns a SELECT of a tail's newest rows, for tails of which a part is in files."""
    rank = newest_condition(newest, lambda name: quoted(name.lower()), _moved(newest))
    offset = quoted(newest.offset.name.lower())
    keyless = f"{quoted(newest.key_names[0].lower())} IS NULL"
    keyed = f"NOT {keyless}"  # a record that makes no row has no key
    if newest.takes_truncates:
        keyed = f"({keyed} OR {quoted(names.DELETED)})"
        rank += f" AND {offset} >= coalesce(max(CASE WHEN {keyless} THEN {offset} END) OVER (), 0)"
    return f"SELECT * FROM ({tail}) WHERE {keyed} QUALIFY {rank}"


def _moved(newest: Newest) -> str:
    return f"error({quoted_text(newest.moved_key)})"


def data_paths(scan: EngineScan) -> list[str]:
    """Returns the files that DuckDB must be allowed to open for the scan."""
    return [local_path(file.path) for file in scan.cold.files] if scan.cold is not None else []


def groups(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Groups files that one projection reads: same schema, same constants, deletes or none."""
    groups: dict[tuple[int, tuple[tuple[int, Any], ...], bool], list[DataFile]] = {}
    for file in files:
        assert file.physical is not None
        key = (id(file.physical), _constants_needed(file), file.has_deletes)
        groups.setdefault(key, []).append(file)
    return list(groups.values())


def _constants_needed(file: DataFile) -> tuple[tuple[int, Any], ...]:
    """Returns the partition values of columns that the file itself does not store."""
    assert file.physical is not None
    if not file.partition:
        return ()
    stored = {field_id(field) for field in file.physical}
    return tuple(pair for pair in file.partition if pair[0] not in stored)


def _needed_sql(scan: EngineScan, files: Sequence[DataFile], condition: str = "") -> str:
    """Returns a SELECT of the rows of files that are read together, without some not needed.

    With a list of values, DuckDB only leaves out row groups, and decodes all columns of the others
    before it compares a row. Any other condition on one column is applied while it reads.
    """
    rows = _files_sql(scan, files, condition)
    of_type = {column.name: types.to_duckdb(column.type) for column in scan.columns}
    lists = []
    for column, values in _lists(scan, scan.predicate):
        if 1 < len(values) <= _LISTED_MAX:
            listed = ", ".join(f"CAST({literal(v)} AS {of_type[column]})" for v in values)
            lists.append(f"list_contains([{listed}], {quoted(column.lower())})")
    return f"SELECT * FROM ({rows}) WHERE {' AND '.join(lists)}" if lists else rows


_LISTED_MAX = 32
"""DuckDB compares each row with one value after the other."""


# a folder named key=value only says where a file is, not what is in it
_OPTIONS = "can_have_nan = true, hive_partitioning = false"


def _files_sql(
    scan: EngineScan, files: Sequence[DataFile], condition: str = "", besides: str = ""
) -> str:
    """Returns a SELECT of the rows of files that are read together.

    Args:
        scan: The scan.
        files: The files.
        condition: Which of their rows to select, by position; it then also covers their deletes.
        besides: What to select in addition to the scan's columns.
    """
    first = files[0]
    assert first.physical is not None
    stored = {field_id(field): field for field in first.physical}
    constants = dict(_constants_needed(first))
    columns = [
        _place_sql(column, files) or _column_sql(column, stored, constants)
        for column in scan.columns
    ]
    columns += [besides] if besides else []
    columns = columns or [_nothing(scan)]
    options, conditions = f", {_OPTIONS}", []
    if condition:
        options += f", {POSITION} = true"
        conditions.append(condition)
    elif first.has_deletes and scan.deletes is not None:
        deletes, file = quoted(scan.own_name(DELETES)), _unused(scan.own_name(_FILE), first)
        options += f", filename = {quoted_text(file)}, {POSITION} = true"
        conditions.append(
            f"NOT EXISTS (SELECT 1 FROM"
            f" (SELECT {_hidden('path')}, {_hidden('position')} FROM {deletes}) AS {deletes}"
            f" WHERE {deletes}.path = {quoted(file)} AND {deletes}.position = {POSITION})"
        )
    elif any(column.field_id == _POSITION_ID for column in scan.columns):
        options += f", {POSITION} = true"
    if scan.cold_span is not None:
        conditions.append(_within(scan, scan.cold_span, stored))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(columns)} FROM read_parquet({_paths(files)}{options}){where}"


def _paths(files: Sequence[DataFile | TailFile]) -> str:
    """Returns a list of files, each of which matches one file, in this order."""
    return f"[{', '.join(quoted_text(as_pattern(local_path(file.path))) for file in files)}]"


def _place_sql(column: Field, files: Sequence[DataFile]) -> str | None:
    """Returns the column that says where a row is; None for any other column."""
    name = quoted(column.name.lower())
    if column.field_id == _POSITION_ID:
        return f"CAST({POSITION} AS BIGINT) AS {name}"
    if column.field_id != _PATH_ID:
        return None
    paths = ", ".join(quoted_text(file.path) for file in files)
    return f"list_extract([{paths}], CAST({FILE} AS INTEGER) + 1) AS {name}"


_PATH_ID, _POSITION_ID = (field.field_id for field in names.FILE_FIELDS)


def _unused(name: str, file: DataFile) -> str:
    """Returns the name, lengthened until no column of the file, old ones included, has it."""
    assert file.physical is not None
    taken = {column.lower() for column in file.physical.names}
    while name in taken:
        name += "_"
    return name


def _within(scan: EngineScan, span: ColdSpan, stored: Mapping[int | None, pa.Field]) -> str:
    """Returns the condition for the rows of a span."""
    position, column = _position(scan, stored), scan.places.batch if scan.places else None
    return span.condition(
        functools.partial(_below, position),
        functools.partial(_from, position),
        (_leaf([column], stored) if column is not None else None) or "NULL",
    )


def _below(position: tuple[str, str] | None, end: Offsets) -> str:
    """Leaves out rows at or past the end, as a later snapshot stands in for the seam's own."""
    if position is None:
        return "TRUE"  # no row of these files comes from the log
    partition, offset = position
    return f"({partition} IS NULL OR coalesce({offset} < {_case(partition, end)}, FALSE))"


def _from(position: tuple[str, str] | None, start: Offsets) -> str:
    """Leaves out rows before the start and those without a record, which are not changes."""
    if position is None:
        return "FALSE"
    partition, offset = position
    return f"coalesce({offset} >= {_case(partition, start)}, FALSE)"


def _position(scan: EngineScan, stored: Mapping[int | None, pa.Field]) -> tuple[str, str] | None:
    """Returns the columns of files that say which record a row is; None if they have none."""
    if scan.places is None:
        return None
    partition, offset = (
        _leaf(path, stored) for path in (scan.places.partition, scan.places.offset)
    )
    return None if partition is None or offset is None else (partition, offset)


def _leaf(path: Sequence[Field], stored: Mapping[int | None, pa.Field]) -> str | None:
    """Returns a field inside a stored column, found by field ids; None if the files lack it."""
    stored_field = stored.get(path[0].field_id)
    expression = "" if stored_field is None else quoted(stored_field.name)
    for field in path[1:]:
        inside = _children(stored_field) if stored_field is not None else []
        stored_field = next((child for child in inside if field_id(child) == field.field_id), None)
        if stored_field is not None:
            expression = f"struct_extract({expression}, {quoted_text(stored_field.name)})"
    return None if stored_field is None else expression


def _case(partition: str, offsets: Offsets) -> str:
    """Returns SQL for the offset of a partition; null for one that has none."""
    cases = " ".join(f"WHEN {p} THEN {offset}" for p, offset in offsets.items())
    return f"CASE {partition} {cases or 'WHEN -1 THEN 0'} END"


def _column_sql(
    column: Field, stored: Mapping[int | None, pa.Field], constants: Mapping[int, Any]
) -> str:
    name = quoted(column.name.lower())
    type_ = types.to_duckdb(column.type)
    field = stored.get(column.field_id)
    if field is not None:
        value = _converted(quoted(field.name), field, column.type)
        return f"{opaque(value) if BLOOM_FILTER in (field.metadata or {}) else value} AS {name}"
    if column.field_id in constants:
        return f"CAST({literal(constants[column.field_id])} AS {type_}) AS {name}"
    if column.initial_default is not None:
        return f"CAST({literal(column.initial_default)} AS {type_}) AS {name}"
    return f"CAST(NULL AS {type_}) AS {name}"


def _converted(expression: str, field: pa.Field, type_: Type) -> str:
    """Converts a stored value to the wanted type, with its parts found by field id."""
    if _is_stored_as(field, type_):
        return expression
    if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
        expression = _exact(expression, field.type)
    match type_:
        case Row(fields):
            by_id = {field_id(child): child for child in _children(field)}
            members = ", ".join(
                f"{quoted(f.name)} := {_member(expression, by_id, f)}" for f in fields
            )
            return f"CASE WHEN {expression} IS NULL THEN NULL ELSE struct_pack({members}) END"
        case Array(element):
            inner = _converted("x", _children(field)[0], element)
            return f"list_transform({expression}, lambda x: {inner})"
        case Map(key, value):
            key_field, value_field = field.type.key_field, field.type.item_field
            keys, values = f"map_keys({expression})", f"map_values({expression})"
            return (
                f"CASE WHEN {expression} IS NULL THEN NULL ELSE map("
                f"list_transform({keys}, lambda x: {_converted('x', key_field, key)}), "
                f"list_transform({values}, lambda x: {_converted('x', value_field, value)})) END"
            )
        case types.UUID:
            return _uuid_text(expression, field)
        case types.VARCHAR if _is_bytes(field.type):
            return f"decode({expression})"  # text that its writer did not mark as text
        case types.VARBINARY if pa.types.is_string(field.type):
            return f"encode({expression})"
        case types.TIMESTAMP_TZ if field.type.tz is None:
            return f"({expression} AT TIME ZONE 'UTC')"
        case types.TIMESTAMP if field.type.tz is not None:
            return f"({expression} AT TIME ZONE 'UTC')"
    return f"CAST({expression} AS {types.to_duckdb(type_)})"


def _exact(expression: str, stored: pa.TimestampType) -> str:
    """Converts a timestamp in nanoseconds to microseconds; it fails if that loses digits.

    Parquet's INT96 also is nanoseconds to Arrow, but microseconds to DuckDB, and of any year.
    """
    whole = f"make_timestamp(epoch_us({expression}))"
    if stored.tz is not None:
        return whole  # such a file has been read, as DuckDB drops the digits itself
    problem = quoted_text("NOT_SUPPORTED: a timestamp has more than 6 digits of a second")
    return f"CASE WHEN {whole} <> {expression} THEN error({problem}) ELSE {whole} END"


def _member(expression: str, by_id: Mapping[int | None, pa.Field], member: Field) -> str:
    field = by_id.get(member.field_id)
    if field is None:
        default = literal(member.initial_default) if member.initial_default is not None else "NULL"
        return f"CAST({default} AS {types.to_duckdb(member.type)})"
    inner = f"struct_extract({expression}, {quoted_text(field.name)})"
    return _converted(inner, field, member.type)


def _is_stored_as(field: pa.Field, type_: Type) -> bool:
    """Whether DuckDB reads the stored value as exactly the wanted type, names included."""
    match type_:
        case Row(fields):
            children = _children(field)
            return len(children) == len(fields) and all(
                field_id(child) == f.field_id
                and child.name == f.name
                and _is_stored_as(child, f.type)
                for child, f in zip(children, fields, strict=True)
            )
        case Array(element):
            return _is_stored_as(_children(field)[0], element)
        case Map(key, value):
            return _is_stored_as(field.type.key_field, key) and _is_stored_as(
                field.type.item_field, value
            )
        case types.UUID:
            return bool(pa.types.is_string(field.type))
        case types.Varbinary():
            is_fixed = pa.types.is_fixed_size_binary(field.type)
            return bool(is_fixed or pa.types.is_binary(field.type))
    return bool(field.type.equals(types.to_arrow(type_)))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def _children(field: pa.Field) -> list[pa.Field]:
    return [field.type.field(i) for i in range(field.type.num_fields)]


def _uuid_text(expression: str, field: pa.Field) -> str:
    """Converts a stored UUID to text; DuckDB knows annotated ones, but not bare bytes."""
    if pa.types.is_fixed_size_binary(field.type):
        digits = f"lower(hex({expression}))"
        parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
        return " || '-' || ".join(f"substr({digits}, {start}, {size})" for start, size in parts)
    return f"CAST({expression} AS VARCHAR)"


def _memory_sql(scan: EngineScan, copy: str | None, counted: int | None) -> str:
    if counted is not None:
        return f"SELECT {_nothing(scan)} FROM range({counted})"
    return _tail_sql(scan) if copy is None else _copy_sql(scan, copy)


def _tail_sql(scan: EngineScan) -> str:
    chosen = ", ".join(_hidden(column.name.lower()) for column in scan.columns) or _nothing(scan)
    return f"SELECT {chosen} FROM {quoted(scan.own_name(ROWS))}{_looked_up(scan)}"


def _copy_sql(scan: EngineScan, copy: str) -> str:
    """Selects the columns as they are: DuckDB can apply what it pushes into its own tables."""
    chosen = ", ".join(quoted(column.name.lower()) for column in scan.columns) or _nothing(scan)
    return f"SELECT {chosen} FROM {quoted(copy)}"


def _nothing(scan: EngineScan) -> str:
    """Returns a placeholder column for a scan of which only the number of rows is needed."""
    return f"NULL AS {quoted(scan.own_name(_NOTHING))}"


def _hidden(name: str) -> str:
    """Selects a column of an Arrow table so that DuckDB filters it itself.

    Arrow cannot apply every filter that DuckDB would push down (a join's bloom filter), orders NaN
    differently, needs a library that is not installed for a list of instants, and is slower unless
    few rows are left.
    """
    return f"{opaque(quoted(name))} AS {quoted(name)}"


def _looked_up(scan: EngineScan) -> str:
    """Returns the filter that is pushed down to Arrow: values of a column that few rows have.

    Arrow finds these rows before DuckDB converts every string of the other columns.
    """
    rows = quoted(scan.own_name(ROWS))
    columns = [
        f"{rows}.{quoted(column.lower())} IN ({', '.join(map(literal, values))})"
        for column, values in _lists(scan, scan.tail_predicate)
    ]
    return f" WHERE {' AND '.join(columns)}" if columns else ""


def _lists(
    scan: EngineScan, predicate: Predicate | None
) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Yields columns and the values, one of which each has if a predicate is true."""
    of_type = {column.name: column.type for column in scan.columns}
    for part in conjuncts(predicate):
        column, values = _list_of(part)
        if values and of_type.get(column) in _LOOKED_UP:
            yield column, values


_LOOKED_UP: tuple[Type, ...] = (*types.INTEGERS, types.VARCHAR)


def _list_of(part: Predicate) -> tuple[str, tuple[Value, ...]]:
    """Returns a column and the values, one of which it has if a predicate is true; else none."""
    match part:
        case In(column, values):
            return column, values
        case Comparison(column, "=", value):
            return column, (value,)
        case Or(parts) if len(predicates.columns(part)) == 1:
            (column,) = predicates.columns(part)
            lists = [_list_of(one)[1] for one in parts]
            return column, tuple(itertools.chain(*lists)) if all(lists) else ()
    return "", ()


def _tail_files_sql(scan: EngineScan, files: Sequence[TailFile]) -> Iterator[str]:
    """Yields SELECTs: whole files are read together, each partly wanted file by itself."""
    chosen = ", ".join(
        f"CAST({quoted(c.name)} AS {types.to_duckdb(c.type)}) AS {quoted(c.name.lower())}"
        for c in scan.columns
    )
    whole = [file for file in files if file.whole]
    for group in ([whole] if whole else []) + [[file] for file in files if not file.whole]:
        source = f"read_parquet({_paths(group)}, can_have_nan = true, hive_partitioning = false)"
        sql = f"SELECT {chosen or _nothing(scan)} FROM {source}"
        if not group[0].whole:
            offset, first = quoted(names.OFFSET), group[0]
            sql += f" WHERE {offset} >= {first.start} AND {offset} < {first.end_exclusive}"
        yield sql


def _no_columns(scan: EngineScan) -> str:
    nulls = (
        f"CAST(NULL AS {types.to_duckdb(c.type)}) AS {quoted(c.name.lower())}" for c in scan.columns
    )
    return ", ".join(nulls) or _nothing(scan)

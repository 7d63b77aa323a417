"""Goal: what is written in any format is read back, by readers that are not ours, as the same rows.

Method: columns of every type, nested too, generated as Arrow as a gateway sends it; the DB-API's
own conversion says which Python values they are. Each format is read by the csv module, json,
pyarrow and DuckDB. The gateway's CSV must be the same bytes.
"""

from __future__ import annotations

import base64
import csv
import datetime
import decimal
import io
import itertools
import json
import math
import pathlib
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from seamline.dbapi.errors import InterfaceError
from seamline.dbapi.texts import text
from seamline.dbapi.values import arrow_converter
from seamline.gateway.http.values import csv_text
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type
from seamline.terminal.output import BINARY_WRITERS, FORMATS, open_output, write
from seamline.terminal.pictures import Look, cell_text

ROWS_MAX = 4
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6
) | st.sampled_from(
    ["", "NULL", "∅", '"', "a,b", "a\tb", "a\nb", "a\r\nb", "\\N", " x ", "'", "{}", "1"]
)
MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
UNZONED: dict[Type, st.SearchStrategy[Any]] = {
    types.BOOLEAN: st.booleans(),
    types.TINYINT: st.integers(-(2**7), 2**7 - 1),
    types.INTEGER: st.integers(-(2**31), 2**31 - 1),
    types.BIGINT: st.integers(-(2**63), 2**63 - 1),
    types.REAL: st.floats(width=32),
    types.DOUBLE: st.floats(),
    Decimal(38, 6): st.decimals(-(10**31), 10**31, places=6),
    types.VARCHAR: TEXTS,
    types.VARBINARY: st.binary(max_size=6),
    types.UUID: st.uuids().map(str),
    types.DATE: st.dates(),
    types.TIME: st.times(),
    types.TIMESTAMP: MOMENTS,
    types.TIMESTAMP_TZ: MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
}
"""Values of each type that has no others within it."""
WHOLE = (types.BIGINT, types.DOUBLE, types.UUID, types.DATE, types.TIME, types.TIMESTAMP_TZ)
"""Types of which a table shows every value in full."""
KEYS = (types.VARCHAR, types.BIGINT, types.BOOLEAN, types.DATE, types.VARBINARY)


def values_of(type_: Type) -> st.SearchStrategy[Any]:
    """Values of a type as Arrow takes them, and nulls."""
    match type_:
        case Array(element):
            found: st.SearchStrategy[Any] = st.lists(values_of(element), max_size=3)
        case Map(key, value):
            entries = st.dictionaries(UNZONED[key], values_of(value), max_size=3)
            found = entries.map(lambda made: list(made.items()))
        case Row(fields):
            found = st.fixed_dictionaries({f.name: values_of(f.type) for f in fields})
        case _:
            found = UNZONED[type_]
    return st.none() | found


TYPES = st.recursive(
    st.sampled_from([*UNZONED]),
    lambda inner: (
        st.builds(Array, inner)
        | st.builds(Map, st.sampled_from(KEYS), inner)
        | st.builds(lambda a, b: Row((Field("a", a), Field("b b", b))), inner, inner)
    ),
    max_leaves=3,
)


class Rows:
    """A result as a cursor has it, over Arrow."""

    def __init__(self, batch: pa.RecordBatch, column_types: list[Type]) -> None:
        self.batch = batch
        self.description = [
            (name, str(type_)) for name, type_ in zip(batch.schema.names, column_types, strict=True)
        ]
        converters = [arrow_converter(str(type_)) for type_ in column_types]
        columns = [f(column) for f, column in zip(converters, batch.columns, strict=True)]
        self.values = list(zip(*columns, strict=True))
        self._left = iter(self.values)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return [*itertools.islice(self._left, size or 1)]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._left

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch])


@st.composite
def results(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[Type]]:
    """A batch of rows of several columns, and their types."""
    column_types = draw(st.lists(TYPES, min_size=1, max_size=3))
    count = draw(st.integers(0, ROWS_MAX))
    names = draw(st.lists(TEXTS, min_size=3, max_size=3, unique=True))[: len(column_types)]
    schema = pa.schema(
        [types.result_field(name, t) for name, t in zip(names, column_types, strict=True)]
    )
    columns = [draw(st.lists(values_of(t), min_size=count, max_size=count)) for t in column_types]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), column_types


def written(rows: Rows, format_: str, **look: Any) -> str:
    sink = io.StringIO(newline="")
    write(rows, format_, sink, Look(**look))
    return sink.getvalue()


def parsed(cell: str, type_: Type) -> Any:
    """The value that the text of a cell stands for."""
    match type_:
        case Array() | Map() | Row():
            return from_json(json.loads(cell), type_)
        case types.BOOLEAN:
            return {"true": True, "false": False}[cell]
        case types.VARCHAR:
            return cell
        case _ if type_ in types.INTEGERS:
            return int(cell)
    return from_json(cell, type_)


def from_json(value: Any, type_: Type) -> Any:
    """The value that JSON stands for, by the definition of the formats."""
    if value is None:
        return None
    match type_:
        case Array(element):
            return [from_json(item, element) for item in value]
        case Map(key, inner):
            return {parsed(k, key): from_json(v, inner) for k, v in value.items()}
        case Row(fields):
            return {f.name: from_json(value[f.name], f.type) for f in fields}
        case Decimal():
            return decimal.Decimal(value)
        case types.REAL | types.DOUBLE:
            return float(value)
        case types.VARBINARY:
            return base64.b64decode(value, validate=True)
        case types.UUID:
            return uuid.UUID(value)
        case types.DATE:
            return datetime.date.fromisoformat(value)
        case types.TIME:
            return datetime.time.fromisoformat(value)
        case types.TIMESTAMP | types.TIMESTAMP_TZ:
            return datetime.datetime.fromisoformat(value)
    return value


@examples(60)
@given(results(), st.sampled_from([("csv", ","), ("tsv", "\t")]))
def test_the_csv_module_reads_the_same_rows(
    result: tuple[pa.RecordBatch, list[Type]], form: tuple[str, str]
) -> None:
    """It cannot distinguish null from empty text, so nulls have a text that no value has."""
    format_, delimiter = form
    rows = Rows(*result)
    found = io.StringIO(written(rows, format_, null="\x00"), newline="")
    head, *lines = csv.reader(found, delimiter=delimiter)
    assert head == [name for name, _ in rows.description]
    read = [
        tuple(None if c == "\x00" else parsed(c, t) for c, t in zip(line, result[1], strict=True))
        for line in lines
    ]
    assert repr(read) == repr(rows.values)


@examples(60)
@given(results(), st.sampled_from(["json", "ndjson"]))
def test_json_reads_the_same_rows(result: tuple[pa.RecordBatch, list[Type]], format_: str) -> None:
    rows = Rows(*result)
    found = written(rows, format_)
    records = (
        json.loads(found) if format_ == "json" else list(map(json.loads, found.split("\n")[:-1]))
    )
    names = [name for name, _ in rows.description]
    assert all(list(record) == names for record in records)
    read = [
        tuple(from_json(v, t) for v, t in zip(record.values(), result[1], strict=True))
        for record in records
    ]
    assert repr(read) == repr(rows.values)


@examples(40)
@given(results())
def test_pyarrow_reads_the_same_table(result: tuple[pa.RecordBatch, list[Type]]) -> None:
    rows = Rows(*result)
    expected = pa.Table.from_batches([result[0]])
    arrow, parquet = io.BytesIO(), io.BytesIO()
    write(rows, "arrow", arrow, Look())
    write(rows, "parquet", parquet, Look())
    read = pa.ipc.open_stream(arrow.getvalue()).read_all()
    assert (read.schema, repr(read.to_pylist())) == (expected.schema, repr(expected.to_pylist()))
    assert repr(pq.read_table(io.BytesIO(parquet.getvalue())).to_pylist()) == repr(
        expected.to_pylist()
    )


FLAT = {
    types.BOOLEAN: "BOOLEAN",
    types.BIGINT: "BIGINT",
    types.DOUBLE: "DOUBLE",
    Decimal(38, 6): "DECIMAL(38, 6)",
    types.VARCHAR: "VARCHAR",
    types.UUID: "UUID",
    types.DATE: "DATE",
    types.TIME: "TIME",
    types.TIMESTAMP: "TIMESTAMP",
}
"""What DuckDB reads by itself, and what it calls the types."""


@examples(25)
@given(st.lists(st.tuples(*(values_of(t) for t in FLAT)), max_size=4))
def test_duckdb_reads_the_same_rows(values: list[tuple[Any, ...]]) -> None:
    """Nulls and empty texts are told apart with the very defaults of the format."""
    columns = dict(zip("abcdefghi", FLAT, strict=True))
    schema = pa.schema([types.result_field(name, t) for name, t in columns.items()])
    cells = list(zip(*values, strict=True)) or [()] * len(columns)
    arrays = [pa.array(c, field.type) for c, field in zip(cells, schema, strict=True)]
    rows = Rows(pa.RecordBatch.from_arrays(arrays, schema=schema), [*columns.values()])
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.csv"
        file.write_text(written(rows, "csv"), encoding="utf-8", newline="")
        read = duckdb.execute(
            "SELECT * FROM read_csv(?, header = true, columns = ?, delim = ',', quote = '\"',"
            " escape = '\"', new_line = '\\r\\n', allow_quoted_nulls = false, auto_detect = false)",
            [str(file), {name: FLAT[t] for name, t in columns.items()}],
        ).fetchall()
    assert repr(read) == repr(rows.values)


@examples(40)
@given(results())
def test_the_gateway_writes_the_same_csv(result: tuple[pa.RecordBatch, list[Type]]) -> None:
    rows = Rows(*result)
    columns = [Output(c[0], t) for c, t in zip(rows.description, result[1], strict=True)]
    assert csv_text([result[0]], columns, header=True) == written(rows, "csv")


@examples(60)
@given(results(), st.integers(20, 140), st.sampled_from(["table", "vertical", "markdown"]))
def test_people_can_look_at_anything(
    result: tuple[pa.RecordBatch, list[Type]], width: int, format_: str
) -> None:
    rows = Rows(*result)
    shown = written(rows, format_, width=width)
    assert all(c.isprintable() or c == "\n" for c in shown) or format_ == "markdown"
    if format_ == "table" and shown.startswith("┌"):
        assert max(map(len, shown.splitlines())) <= width
        assert len(shown.splitlines()) == len(rows.values) + 4
        cells = [[c.strip() for c in line.split("│")] for line in shown.splitlines()[3:-1]]
        for position, type_ in enumerate(result[1], start=1):
            if isinstance(type_, Decimal) or type_ in WHOLE:
                values = [row[position - 1] for row in rows.values]
                whole = ["∅" if value is None else cell_text(value) for value in values]
                assert [row[position] for row in cells] == whole


@pytest.mark.parametrize(("value", "expected"), [(math.nan, "NaN"), (-math.inf, "-Infinity")])
def test_what_is_no_number_has_a_name(value: float, expected: str) -> None:
    assert text(value) == expected


def rows_of(**columns: list[Any]) -> Rows:
    """A result of texts."""
    batch = pa.RecordBatch.from_pydict({k: pa.array(v, pa.string()) for k, v in columns.items()})
    return Rows(batch, [types.VARCHAR] * len(columns))


EVIL = "\x1b[2J\x9b31m\x07\u202e\r\x00a\tb"


@pytest.mark.parametrize("format_", [each for each in FORMATS if each not in BINARY_WRITERS])
def test_no_value_and_no_name_controls_a_terminal(format_: str) -> None:
    sink = io.StringIO(newline="")
    write(rows_of(**{EVIL: [EVIL, f"two\nlines {EVIL}"]}), format_, sink, Look(width=200))
    shown = sink.getvalue()
    assert "[2J" in shown
    assert {c for c in shown if not c.isprintable()} <= {"\n", "\t"}


def test_what_is_no_terminal_gets_every_character() -> None:
    read = csv.reader(io.StringIO(written(rows_of(a=[EVIL]), "csv"), newline=""))
    assert [*read] == [["a"], [EVIL]]


def test_a_null_is_no_empty_text_and_no_text_that_looks_like_it() -> None:
    cells = [None, "", "NULL", "∅"]
    assert written(rows_of(a=cells, b=cells), "csv").split("\r\n") == [
        "a,b", ",", '"",""', "NULL,NULL", "∅,∅", "",
    ]  # fmt: skip
    named = written(rows_of(a=cells), "csv", null="NULL")
    assert named.split("\r\n") == ["a", "NULL", '""', '"NULL"', "∅", ""]
    dim = written(rows_of(a=cells), "table", colour=True)
    assert dim.count("\x1b[2m") == 1
    assert "│      │" in written(rows_of(a=cells), "table", null="")


def test_columns_of_one_name_are_no_members_of_one_object() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["x"])] * 2, ["a", "a"])
    with pytest.raises(InterfaceError, match="two members called a"):
        written(Rows(batch, [types.VARCHAR] * 2), "json")


def test_a_table_that_is_too_wide_is_cut_and_one_of_many_columns_is_turned() -> None:
    cut = written(rows_of(a=["x" * 100], b=["short"]), "table", width=40)
    assert "x…" in cut
    assert {len(line) for line in cut.splitlines()} == {40}
    many = {f"column_{i}": ["y" * 30] for i in range(8)}
    turned = written(rows_of(**many), "table", width=80)
    assert turned.startswith("─[ row 1 ]")
    assert turned.count("y" * 30) == 8


def test_times_stay_whole_and_text_is_cut() -> None:
    moments = [datetime.datetime(2026, 11, 30, 16, 57, 42, tzinfo=datetime.UTC)] * 1000
    moments.append(datetime.datetime(2026, 11, 30, 16, 57, 42, 123456, tzinfo=datetime.UTC))
    texts = ["click on a page with a long address"] * 1001
    columns = [pa.array(moments, pa.timestamp("us", "UTC")), pa.array(texts), pa.array(texts)]
    kinds: list[Type] = [types.TIMESTAMP_TZ, types.VARCHAR, types.VARCHAR]
    rows = Rows(pa.RecordBatch.from_arrays(columns, ["at", "page", "referrer"]), kinds)
    shown = written(rows, "table", width=80).splitlines()
    assert {len(line) for line in shown} == {80}
    assert shown[3].startswith("│ 2026-11-30 16:57:42 UTC        │ click on a page wit… │")
    assert shown[-2].startswith("│ 2026-11-30 16:57:42.123456 UTC │ click on a page wit… │")


def test_a_plan_is_shown_as_it_is() -> None:
    sink = io.StringIO()
    line = "├─ filter     " + "a = 1 AND " * 20
    write(rows_of(plan=["Engine: duckdb", line]), "table", sink, Look(width=80), raw=True)
    first, second, *more = sink.getvalue().splitlines()
    assert (first, second.startswith("├─ filter")) == ("Engine: duckdb", True)
    assert more
    assert all(piece.startswith("│  ") and len(piece) <= 80 for piece in more)


def test_every_format_is_there() -> None:
    assert {*FORMATS} == {
        "table", "vertical", "csv", "tsv", "json", "ndjson", "markdown", "parquet", "arrow",
    }  # fmt: skip


def test_a_file_that_cannot_be_made_is_named(tmp_path: pathlib.Path) -> None:
    with (
        pytest.raises(InterfaceError, match="cannot be written"),
        open_output(str(tmp_path / "no" / "where"), binary=True),
    ):
        pass

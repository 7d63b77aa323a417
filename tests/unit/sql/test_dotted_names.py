"""Goal: a dotted name is the column, or the field in one, that Trino's rule says it is.

Method: tables and columns that are called alike, plain or of rows in rows, one table or two; every
dotted name over these names is asked for, and what it must be is looked up in a list of all that
each column and field can be called. Every value is another one.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import pathlib
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support import offline
from support.gateway import Gateway

from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.binder.qualify import Relation, qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.types import Field, Row, Type

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NAMES = ("a", "b")
PLAIN = types.BIGINT
FLAT = Row((Field("a", PLAIN), Field("b", PLAIN)))
DEEP = Row((Field("a", PLAIN), Field("b", FLAT)))
Columns = dict[str, Type]
TABLES: tuple[Columns, ...] = (
    {"a": PLAIN},
    {"a": FLAT},
    {"a": DEEP, "b": PLAIN},
    {"a": PLAIN, "b": DEEP},
    {"b": FLAT},
)
WRITTEN = [
    front + ".".join(parts)
    for front, most in (("", 4), ("s.", 3), ("c.s.", 3))
    for count in range(1, most + 1)
    for parts in itertools.product(NAMES, repeat=count)
]


def leaves(type_: Type) -> Iterator[tuple[str, ...]]:
    """The ways to the plain values in a type."""
    if not isinstance(type_, Row):
        yield ()
        return
    for field in type_.fields:
        yield from ((field.name, *rest) for rest in leaves(field.type))


def value_of(table: str, column: str, way: tuple[str, ...]) -> int:
    """A number for each plain value, that no other has."""
    return int.from_bytes(".".join((table, column, *way)).encode())


def written_value(table: str, column: str, type_: Type, way: tuple[str, ...] = ()) -> str:
    """A column as DuckDB's SQL."""
    if not isinstance(type_, Row):
        return f"{value_of(table, column, way)}::HUGEINT % 1000000007"
    fields = (
        f"'{f.name}': {written_value(table, column, f.type, (*way, f.name))}" for f in type_.fields
    )
    return f"{{{', '.join(fields)}}}"


def meaning(name: str, tables: dict[str, Columns]) -> int | str | None:
    """What a name must be: a plain value, an error, or None for a whole row."""
    parts = tuple(name.split("."))
    found: dict[int, list[tuple[str, str, tuple[str, ...]]]] = {}
    for table, columns in tables.items():
        whole = ("c", "s", table)
        for column, front in itertools.product(columns, range(len(whole) + 1)):
            called = (*whole[front:], column)
            if parts[: len(called)] == called:
                found.setdefault(len(called), []).append((table, column, parts[len(called) :]))
    if not found:
        return "COLUMN_NOT_FOUND"
    candidates = found[max(found)]
    if len(candidates) > 1:
        return "COLUMN_AMBIGUOUS"
    ((table, column, way),) = candidates
    ways = list(leaves(tables[table][column]))
    if way in ways:
        return value_of(table, column, way) % 1000000007
    return None if any(other[: len(way)] == way for other in ways) else "no field"


def answer(name: str, tables: dict[str, Columns]) -> int | str | None:
    sql = f"SELECT {name} FROM {' CROSS JOIN '.join(tables)}"
    statement = parse.parse(sql)
    assert isinstance(statement, parse.Query)
    relations = [
        Relation(
            tuple(Field(n, type_, i) for i, (n, type_) in enumerate(columns.items(), 1)),
            name=("c", "s", table),
        )
        for table, columns in tables.items()
    ]
    try:
        query = qualify(statement.tree, relations, now=NOW)
    except SeamlineError as error:
        return error.code.name if "field" not in error.message else "no field"
    selects = (
        ", ".join(f"{written_value(t, n, type_)} AS {n}" for n, type_ in columns.items())
        for t, columns in tables.items()
    )
    sources = {
        scan.scan_id: render.scan_rows(scan.columns, f"SELECT {select}", "duckdb")
        for scan, select in zip(query.scans, selects, strict=True)
    }
    ((found,),) = duckdb.sql(render.to_duckdb(query.tree, sources)).fetchall()
    return None if isinstance(found, dict) else int(found)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("columns", TABLES)
def test_a_dotted_name_is_what_it_must_be(columns: Columns) -> None:
    worlds = [{"a": columns}, {"b": columns}, *({"a": columns, "b": other} for other in TABLES)]
    wrong = []
    kinds = set()
    for tables, name in itertools.product(worlds, WRITTEN):
        expected, found = meaning(name, tables), answer(name, tables)
        kinds.add(type(expected))
        if found != expected:
            wrong.append((name, tables, expected, found))
    assert not wrong
    assert {int, str} <= kinds


def test_a_struct_is_called_as_its_table(tmp_path: pathlib.Path) -> None:
    """As Redpanda writes its tables: their key, offset and time in a struct `redpanda`."""
    config = offline.config(tmp_path)
    lake = config.catalogs["lake"]
    catalog = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
    catalog.create_namespace("default")
    rows = pa.table({"redpanda": [{"offset": 7, "redpanda": 8}], "text": ["x"]})
    catalog.create_table("default.redpanda", rows.schema).append(rows)
    with contextlib.closing(Gateway(config)) as gateway:
        for written in (
            "redpanda.offset",
            "redpanda.redpanda.offset",
            "default.redpanda.redpanda.offset",
            "lake.default.redpanda.redpanda.offset",
            "REDPANDA.Offset",
        ):
            found = gateway.rows(f"SELECT {written} FROM redpanda WHERE {written} > 1", "duckdb")
            assert found == [(7,)], written
        aliased = "SELECT r.redpanda.offset, redpanda.redpanda, r.text FROM redpanda AS r"
        assert gateway.rows(aliased, "duckdb") == [(7, 8, "x")]

"""Goal: no name that a user can write changes what another name means.

Method: statements of every shape are run once with harmless names. Whatever names their SQL has by
then that nobody wrote, as an engine gets it, are collected; and each statement runs again with
those as the names of its CTEs, tables, subqueries, columns and windows, until no new ones come up,
and with names that were, or might be, made up. The answers must be the same, as must those over a
table whose columns have such names. Both engines, hot and cold.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support import offline
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.protocols.engines import EngineScan
from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.binder import qualify
from seamline.sql.binder.qualify import Relation
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.types import Field

STATEMENTS = (
    "WITH {a} AS (SELECT id, text FROM t WHERE id < 5) SELECT count(*), sum(id) FROM {a}",
    "WITH {a} AS (SELECT 1 AS id) SELECT count(*), sum(t.id) FROM t JOIN {a} ON {a}.id = t.id",
    "WITH {a} AS (SELECT 100 AS id, 'no' AS text) SELECT count(*), sum(id), max(text) FROM t",
    "WITH {a} AS (SELECT id FROM t WHERE id < 3), {b} AS (SELECT id FROM {a} WHERE id > 0) "
    "SELECT count(*), sum({b}.id) FROM {a}, {b}",
    "WITH {a} AS (SELECT id FROM t), {b} AS (SELECT id FROM t WHERE id < 4) "
    "SELECT count(*) FROM {a} JOIN {b} ON {a}.id = {b}.id JOIN t ON t.id = {b}.id",
    "SELECT {a}.id FROM t AS {a} WHERE {a}.id < 3 ORDER BY 1",
    "SELECT count(*) FROM t AS {a} JOIN t AS {b} ON {a}.id = {b}.id + 1",
    "SELECT count(*) FROM t AS {a}",
    "SELECT q1.{a} FROM (SELECT id AS {a}, text AS {b} FROM t) AS q1 WHERE q1.{b} = 't1' "
    "ORDER BY 1",
    "SELECT {a}, count(*) FROM (SELECT id % 3 AS {a} FROM t) GROUP BY {a} ORDER BY {a}",
    "SELECT {a}.{a} FROM (SELECT id AS {a} FROM t) AS {a} ORDER BY 1",
    "SELECT {a}.{b} FROM (SELECT id AS {b} FROM t) AS {a} ORDER BY {b} DESC LIMIT 3",
    "SELECT count(*) FROM t AS {a} WHERE EXISTS (SELECT 1 FROM (SELECT 5 AS id) WHERE id = {a}.id)",
    "SELECT count(*) FROM t AS {a} WHERE {a}.id IN "
    "(SELECT id FROM (SELECT id FROM t WHERE id < 4))",
    "SELECT q1.{a} FROM (SELECT id + 1, text AS {a} FROM t) AS q1 ORDER BY 1",
    "SELECT q1.{a} FROM (SELECT CAST(id AS varchar), text AS {a}, id * 2 FROM t) AS q1 ORDER BY 1",
    "SELECT q1.id FROM (SELECT CAST(id AS varchar), text AS id FROM t) AS q1 ORDER BY 1",
    "SELECT {a} FROM (SELECT id + 1, (SELECT max(id) FROM t), text AS {a} FROM t) ORDER BY 1",
    "WITH {b} AS (SELECT -id, text AS {a} FROM t) SELECT {a} FROM {b} ORDER BY 1",
    "SELECT id + 1, text AS {a} FROM t ORDER BY {a}, 1",
    "SELECT 1 AS {a} FROM t ORDER BY {a}",
    "SELECT id AS {a} FROM t UNION ALL SELECT CAST(id AS double) AS {b} FROM t ORDER BY {a}",
    "SELECT {a}.id FROM t AS {a} WHERE {a}.id > (SELECT avg(one) FROM (SELECT id AS one FROM t "
    "UNION ALL SELECT 1.5E0) WHERE one < {a}.id + 3) ORDER BY 1",
    "SELECT {a}.{b} FROM (VALUES (1), (2)) AS {a}({b}) ORDER BY {b}",
    "WITH {a} AS (SELECT 7 AS {b}) SELECT {b}, id FROM {a} CROSS JOIN t ORDER BY id LIMIT 2",
    "SELECT q1.{a} FROM t CROSS JOIN UNNEST(ARRAY[id, 2]) AS q1({a}) ORDER BY 1",
    "SELECT {a}.{b} FROM t CROSS JOIN UNNEST(ARRAY[id, 2]) AS {a}({b}) ORDER BY 1",
    "SELECT sum(id) OVER {a} FROM t WINDOW {a} AS (ORDER BY id) ORDER BY 1",
    "SELECT {a}.id, {b}.id FROM t AS {a} LEFT JOIN (SELECT id + 5 AS id FROM t) AS {b} "
    "ON {a}.id = {b}.id ORDER BY 1, 2",
    "SELECT * FROM (SELECT id AS {a} FROM t WHERE id < 2) AS q1 CROSS JOIN "
    "(SELECT text AS {b} FROM t WHERE id = 1) AS q2 ORDER BY 1",
    "WITH {a} AS (SELECT 3 AS c1) SELECT (SELECT c1 FROM {a}), id FROM t WHERE id < 2 ORDER BY 2",
    "SELECT count(*) FROM (SELECT id FROM t) JOIN (SELECT id AS c1 FROM t) ON id = c1 "
    "JOIN t AS {a} ON {a}.id = c1",
    "SELECT text AS {a}, count(*) AS {b} FROM t GROUP BY 1 HAVING count(*) > 1 ORDER BY {b}, {a}",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT q1.{a}.{b} FROM (SELECT CAST(ROW(id) AS row({b} bigint)) AS {a} FROM t) AS q1 "
    "ORDER BY 1",
    "SELECT element_at(q1.{a}, 1) FROM (SELECT ARRAY[id] AS {a} FROM t) AS q1 ORDER BY 1",
)
COLUMNS = (
    "SELECT {a} FROM t ORDER BY 1",
    "SELECT count(*) FROM t",
    "SELECT sum(id) FROM t WHERE {a} > 3",
    "SELECT {a}, id + 1, count(*) FROM t GROUP BY 1, 2 ORDER BY 1",
    "SELECT q1.{a} FROM (SELECT id * 2, {a} FROM t) AS q1 ORDER BY 1",
    "SELECT count(*) FROM t JOIN (SELECT {a} AS c1 FROM t) ON t.id = c1",
    "SELECT {a} FROM t UNION ALL SELECT CAST(id AS double) FROM t ORDER BY 1",
    "SELECT {a}, max(id, 2), min_by(text, id, 1), histogram(id) FROM t GROUP BY {a} ORDER BY 1",
    "SELECT {a}, map_agg(id, {a}), multimap_agg(text, id) FROM t GROUP BY {a} ORDER BY 1",
    "SELECT transform(ARRAY[id + 1], {a} -> ROW({a})), {a} FROM t ORDER BY 2",
)
"""Over a table with a column that is called {a}, and holds what `id` does."""
HARMLESS = ("harmless", "innocent")
LIKELY = (
    "scan_0", "scan_1", "scan_00", "scan", "SCAN_0", "tail_0", "rows_scan_0", "deletes_scan_0",
    "scan_0_tail", "__none", "__file", "file_row_number", "filename", "file_index", "rowid", "_0",
    "_1", "_00", "_q_0", "_u_0", "_t0", "_c", "_col", "_col_0", "_col_1", "_col0", "_col1",
    "_typed", "_values", "_from_0", "_", "x", "k", "v", "d", "path", "position", "main", "temp",
    "memory", "_metadata", "read_parquet", "value",
)  # fmt: skip
"""What is, was or may come to be made up by us, by the SQL library or by an engine."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def written(statement: str, names: Sequence[str]) -> str:
    return statement.format(a=quoted(names[0]), b=quoted(names[1]))


def pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each name in both places, beside its neighbours."""
    ordered = sorted(names)
    return list(itertools.pairwise([*ordered, *ordered[:1]]))


def differences(
    rows: Callable[[str], Any], statements: Sequence[str], names: Iterable[str]
) -> list[str]:
    """What a statement answers, where that depends on its names."""
    found = []
    for statement in statements:
        expected = rows(written(statement, HARMLESS))
        for pair in pairs(names):
            sql = written(statement, pair)
            try:
                answer = rows(sql)
            except SeamlineError as error:
                answer = str(error)
            if answer != expected:
                found.append(f"{sql}\n    {answer} instead of {expected}")
    return found


# --- The statement itself ------------------------------------------------------------------------

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "text": [f"t{i % 3}" for i in range(10)]})
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Plain:
    """Statements over one table, by DuckDB, with nothing of the gateway around it."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:")
        self._connection.register("what_the_test_reads", ROWS)
        self._table = Relation((Field("id", types.BIGINT, 1), Field("text", types.VARCHAR, 2)))

    def sql(self, text: str) -> str:
        """What an engine gets."""
        statement = parse.parse(text)
        assert isinstance(statement, parse.Query)
        tables = [self._table] * len(qualify.references(statement.tree))
        query = qualify.qualify(statement.tree, tables, now=NOW)
        source = "SELECT id, text FROM what_the_test_reads"
        rows = {s.scan_id: render.scan_rows(s.columns, source, "duckdb") for s in query.scans}
        return render.to_duckdb(query.tree, rows)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.sql(self.sql(text)).fetchall()
        return found

    def made_up(self) -> set[str]:
        """The names in what an engine gets that nobody wrote.

        They may depend on what was written: so they are looked for again beside those found.
        """
        found: set[str] = set()
        for _ in range(3):
            for statement in STATEMENTS:
                for names in [HARMLESS, *pairs(found)]:
                    text = written(statement, names)
                    known = {word.lower() for word in re.findall(r"\w+", text)}
                    there = {name.lower() for name in re.findall(r'"([^"]+)"', self.sql(text))}
                    found |= there - known
            found = set(sorted(found)[:12])
        return found - {"id", "text", "what_the_test_reads"}


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain()


@pytest.mark.soak
def test_no_name_meets_one_that_was_made_up(plain: Plain) -> None:
    found = plain.made_up()
    assert {"q0", "c0"} <= found, "what is looked for can be found"
    wrong = differences(plain.rows, STATEMENTS, {*found, *LIKELY})
    assert not wrong, "\n".join(wrong[:20])


def test_a_computed_column_has_no_name_to_meet(plain: Plain) -> None:
    """As in Trino: what is computed is not called as what it was computed from."""
    both = "SELECT q1.text FROM (SELECT CAST(id AS varchar), lower(text) AS text FROM t) AS q1"
    assert sorted(plain.rows(both)) == sorted((text,) for text in ROWS.column("text").to_pylist())
    for unnamed in ("CAST(id AS varchar)", "id + 0", "-id"):
        with pytest.raises(SeamlineError) as caught:
            plain.rows(f"SELECT id FROM (SELECT {unnamed} FROM t)")
        assert caught.value.code.name == "COLUMN_NOT_FOUND"
    for unnamed in ('"_col0"', '"_col1"', '"c0"', '""'):
        with pytest.raises(SeamlineError) as caught:
            plain.rows(f"SELECT {unnamed} FROM (SELECT id + 0, -id FROM t)")
        assert caught.value.code.name == "COLUMN_NOT_FOUND"
    for names in ("a", "a, b, c"):
        with pytest.raises(SeamlineError) as caught:
            plain.rows(f"SELECT * FROM (VALUES (1, 2)) AS v({names})")
        assert caught.value.code.name == "TYPE_MISMATCH"


# --- Engines: a plain table, by DuckDB -----------------------------------------------------------

THROUGH_ENGINES = (
    "WITH {a} AS (SELECT 100 AS id, 'no' AS text) SELECT count(*), max(id) FROM t",
    "WITH {a} AS (SELECT 100 AS id), {b} AS (SELECT 200 AS path, 0 AS position) "
    "SELECT count(*), max(t.id), max({a}.id), max({b}.path) FROM t, {a}, {b}",
    "SELECT count(*) FROM t AS {a} JOIN (SELECT id AS {b} FROM t) AS q1 ON {a}.id = q1.{b} + 1",
    "SELECT count({a}) FROM (SELECT 1 AS {a} FROM t) AS {b}",
)
"""Each reads a table beside what has the names."""


def own_names() -> set[str]:
    """What engines make of the name of a scan."""
    scan = EngineScan("scan_0", ("lake", "default", "t"), ())
    return {scan.own_name(what) for what in ("rows", "deletes", "file", "nothing", "tail")}


def own_catalog(folder: pathlib.Path) -> SqlCatalog:
    lake = offline.config(folder).catalogs["lake"]
    catalog = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
    catalog.create_namespace_if_not_exists("default")
    return catalog


@contextlib.contextmanager
def over(folder: pathlib.Path, rows: pa.Table) -> Iterator[Gateway]:
    """A gateway over a table `t` of two files."""
    table = own_catalog(folder).create_table("default.t", rows.schema)
    for part in (rows.slice(0, 6), rows.slice(6)):
        table.append(part)
    with contextlib.closing(Gateway(offline.config(folder))) as gateway:
        yield gateway


@pytest.mark.prove
def test_a_cte_called_as_a_scan_changes_no_answer(tmp_path: pathlib.Path) -> None:
    with over(tmp_path, ROWS) as gateway:
        one = "WITH scan_0 AS (SELECT 100 AS id) SELECT count(*), max(id) FROM t"
        assert gateway.rows(one, "duckdb") == [(10, 9)]
        both = "WITH scan_0 AS (SELECT 100 AS id) SELECT max(t.id), max(scan_0.id) FROM t, scan_0"
        assert gateway.rows(both, "duckdb") == [(9, 100)]
        wrong = differences(
            lambda sql: gateway.rows(sql, "duckdb"), THROUGH_ENGINES, {*own_names(), *LIKELY}
        )
        assert not wrong, "\n".join(wrong[:20])


@pytest.mark.prove
def test_no_column_meets_a_generated_name(tmp_path: pathlib.Path) -> None:
    """Each is a column of a table, and holds what `id` does."""
    names = sorted({name.lower() for name in (*own_names(), *LIKELY)})
    rows = ROWS
    for name in names:
        rows = rows.append_column(name, ROWS.column("id"))
    with over(tmp_path, rows) as gateway:
        for statement in COLUMNS:
            expected = gateway.rows(statement.format(a="id"), "duckdb")
            for name in names:
                sql = statement.format(a=quoted(name))
                assert gateway.rows(sql, "duckdb") == expected, sql


# --- Both engines, hot and cold, with deleted rows -----------------------------------------------


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.soak
def test_no_name_meets_a_generated_one_in_a_live_table(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """Cold files with deletes, and a tail: everything an engine has names for."""
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar, __file bigint, path varchar")
    stack.produce(name, [{"id": i, "text": "cold", "__file": i, "path": "p"} for i in range(20)])
    stack.tier(name)
    table = f"lake.default.{name}"
    stack.spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    ).collect()
    stack.spark.sql(f"DELETE FROM {table} WHERE id < 5").collect()
    stack.produce(name, [{"id": i, "text": "hot", "__file": i, "path": "p"} for i in range(20, 30)])
    statements = [*THROUGH_ENGINES, "WITH {a} AS (SELECT 1 AS path, 2 AS position), {b} AS "
                  "(SELECT 3 AS id) SELECT sum(__file), max(path), sum(id) FROM t"]  # fmt: skip
    for engine, names in (
        ("duckdb", {*own_names(), *LIKELY}),
        ("spark", {*own_names(), "scan_0", "scan_1", "tail_0", "_from_0", "_col_0"}),
    ):

        def rows(sql: str, engine: str = engine) -> Any:
            return gateway.rows(sql.replace("FROM t", f"FROM {name} AS t"), engine)

        count = "SELECT count(*), min(id), max(id) FROM t"
        assert rows(count) == [(25, 5, 29)]
        wrong = differences(rows, [s.replace("FROM t AS", "FROM (SELECT * FROM t) AS")
                                   for s in statements], names)  # fmt: skip
        assert not wrong, "\n".join(wrong[:20])

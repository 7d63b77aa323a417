"""Goal: a cast is computed where it is written, for each row that is evaluated.

An optimizer that compares `CAST(a AS tinyint)` with a constant by comparing `a` with it neither
fails nor returns null for 130. Method: casts between all types, and sums of integers, compared with
constants in every way, over files, also where a filter reaches the file, and as the key of a join.
DuckDB without its optimizer says what is right; over values that cannot be converted everything
must fail, and does so on Spark as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa
import pytest
from fuzz import schema
from fuzz.expressions import casts_between
from support.engine_tables import Storage, Stored, bound, table_of
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.duckdb.instances import Instance
from seamline.connectors.protocols.engines import Engine
from seamline.connectors.spark.engine import SparkEngine
from seamline.errors import INVALID_CAST, NUMERIC_OVERFLOW, SeamlineError
from seamline.sql import types
from seamline.sql.engines import render
from seamline.sql.expressions import casts
from seamline.sql.functions import is_ordered
from seamline.sql.types import Decimal, Field, Type

FORMS = (
    "{0} = {1}",
    "{0} <> {1}",
    "{0} < {1}",
    "{1} <= {0}",
    "{0} IN ({1}, {2})",
    "{0} NOT IN ({1}, {2})",
    "{0} BETWEEN {1} AND {2}",
    "{0} IS NOT DISTINCT FROM {1}",
    "CASE {0} WHEN {1} THEN TRUE WHEN {2} THEN FALSE END",
    "NOT ({0} > {1} OR {0} IS NULL)",
)
QUERIES = (
    "SELECT id FROM t WHERE {form}",
    "SELECT id FROM (SELECT id, {0} AS v FROM t) WHERE v > {1} OR v < {1}",
    "SELECT t.id FROM t JOIN (VALUES {1}, {2}) AS o(v) ON {0} = o.v",
    "SELECT id FROM t WHERE {0} IN (SELECT v FROM (VALUES {1}, {2}) AS o(v))",
    "SELECT count(*) FROM t GROUP BY {0} HAVING {0} = {1}",
)
_DECIMALS = (Decimal(1, 0), Decimal(3, 3), Decimal(9, 2), Decimal(18, 0), Decimal(38, 9))
_NUMBERS = (*types.INTEGERS, *types.FLOATS, *_DECIMALS)
_FAILURES = (INVALID_CAST, NUMERIC_OVERFLOW)


@dataclasses.dataclass(frozen=True)
class Computed:
    """Something computed from a column `c`.

    Attributes:
        sql: Its SQL.
        tried: The same, but null where it fails.
        source: The column's type.
        target: Its own type.
    """

    sql: str
    tried: str
    source: Type
    target: Type


def between_numbers() -> list[Computed]:
    pairs = ((s, t) for s, t in itertools.product(_NUMBERS, _NUMBERS) if casts.may_fail(s, t))
    return [*map(_cast, pairs), *_sums()]


def others() -> list[Computed]:
    return [_cast(pair) for pair in casts_between() if not casts.may_fail(*pair)] + [
        _cast((types.Array(types.BIGINT), types.Array(types.TINYINT))),
        _cast((types.anonymous_row((types.BIGINT,)), types.anonymous_row((types.SMALLINT,)))),
    ]


def _cast(pair: tuple[Type, Type]) -> Computed:
    source, target = pair
    return Computed(f"CAST(c AS {target})", f"TRY_CAST(c AS {target})", source, target)


def _sums() -> Iterator[Computed]:
    for type_ in types.INTEGERS:
        for sql in ("c + {0}", "{0} - c", "c * {0}"):
            sum_ = sql.format(f"CAST(3 AS {type_})")
            yield Computed(f"({sum_})", f"try({sum_})", type_, type_)


@dataclasses.dataclass(frozen=True)
class Rows:
    """A table `t` of a number and a value, in memory and in a file."""

    columns: tuple[Field, ...]
    table: pa.Table
    stored: Stored


class Bench:
    """Who answers: an engine over files, and DuckDB without its optimizer over memory.

    Args:
        engine: The engine.
        folder: Where files are.
        place: Where the engine gets rows from.
    """

    def __init__(self, engine: Engine, folder: pathlib.Path, place: str = "cold") -> None:
        self.engine = engine
        self._place = place
        self._storage = Storage(folder)
        self._plain = Instance(duckdb.connect(config={"threads": "1"}))
        self._plain.connection.execute("SET TimeZone = 'UTC'")
        self._plain.connection.execute("PRAGMA disable_optimizer")

    def rows(self, type_: Type, values: Sequence[object]) -> Rows:
        ids = itertools.count(1)
        columns = (
            Field("id", types.BIGINT, next(ids)),
            Field("c", schema.with_ids(type_, ids), next(ids)),
        )
        arrow = pa.schema([types.arrow_field(column) for column in columns])
        arrays = [pa.array(range(len(values)), arrow[0].type), pa.array(values, arrow[1].type)]
        table = pa.Table.from_arrays(arrays, schema=arrow)
        return Rows(columns, table, self._storage.stored(table, self._place))

    def answer(self, rows: Rows, sql: str) -> list[str] | str:
        """The rows, or the name of the error of a value."""
        try:
            query, read = bound(sql, {"t": rows.columns})
            found = table_of(self.engine, query, read, {"t": rows.stored})
        except SeamlineError as error:
            assert error.code in _FAILURES, f"{sql}: {error.message}"
            return error.code.name
        return _sorted(found)

    def expected(self, rows: Rows, sql: str) -> list[str]:
        """The rows, all computed as they are written."""
        query, _ = bound(sql, {"t": rows.columns})
        self._plain.connection.register("rows_of_t", rows.table)
        relations = {
            scan.scan_id: render.scan_rows(scan.columns, "SELECT id, c FROM rows_of_t", "duckdb")
            for scan in query.scans
        }
        self._plain.learn(render.kernels(query.tree, "duckdb"))
        text = render.to_duckdb(query.tree, relations)
        return _sorted(self._plain.connection.sql(text).to_arrow_table())


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(c.to_pylist() for c in table.columns), strict=True)))


# --- Rows ----------------------------------------------------------------------------------------


def values_of(type_: Type) -> list[object]:
    """Values of a type, the greatest and the least among them."""
    chance = random.Random(str(type_))
    found = [schema.value(chance, type_) for _ in range(16)]
    if type_ in types.INTEGERS:
        found += [130, 5, -128] if type_ != types.TINYINT else [127, 5]
    return found


def constants_of(bench: Bench, computed: Computed, fitting: Rows) -> list[str]:
    """Two constants of the type, values of the rows if there are such, the lesser first."""
    query = f"SELECT CAST({computed.sql} AS varchar) FROM t WHERE c IS NOT NULL"
    texts = [""]
    with contextlib.suppress(SeamlineError):  # there is no text of it
        texts = [row[2:-3] for row in bench.expected(fitting, query)]
    chance, target = random.Random(computed.sql), computed.target
    if types.is_numeric(target) and texts and texts[0]:
        two = sorted((chance.choice(texts) for _ in range(2)), key=float)
        return [f"CAST('{text}' AS {target})" for text in two]
    return [schema.literal(schema.value(chance, target), target) for _ in range(2)]


def check(bench: Bench, computed: Computed, number: int) -> Iterator[str]:
    """Yields what is wrong with a computation; forms of comparing take turns."""
    values = values_of(computed.source)
    every = bench.rows(computed.source, values)
    query = f"SELECT id FROM t WHERE c IS NULL OR {computed.tried} IS NOT NULL"
    ids = {int(row[1:-2]) for row in bench.expected(every, query)}
    fitting = bench.rows(computed.source, [v for i, v in enumerate(values) if i in ids])
    constants = constants_of(bench, computed, fitting)
    forms = [
        form.format(computed.sql, *constants)
        for form in FORMS
        if is_ordered(computed.target) or not re.search("[<>] |BETWEEN|<=", form)
    ]
    queries = [
        query.format(computed.sql, *constants, form=forms[number % len(forms)])
        for query in QUERIES
        if is_ordered(computed.target) or "> " not in query
    ]
    tried = [form.replace(computed.sql, computed.tried) for form in forms]
    for rows, sql in (
        (fitting, f"SELECT id, {', '.join(forms)} FROM t"),
        (every, f"SELECT id, {', '.join(tried)} FROM t"),
        (every, f"SELECT id FROM t WHERE {tried[number % len(tried)]}"),
        (fitting, queries[0]),
        (fitting, queries[number % len(queries)]),
    ):
        found, expected = bench.answer(rows, sql), bench.expected(rows, sql)
        if found != expected:
            yield f"{sql}\n   {found}\n   not {expected}"
    if len(ids) < len(values):
        yield from must_fail(bench, every, (queries[0], queries[number % len(queries)]))


def must_fail(bench: Bench, rows: Rows, queries: Iterable[str]) -> Iterator[str]:
    for sql in queries:
        found = bench.answer(rows, sql)
        if not isinstance(found, str):
            yield f"{sql}\n   {found}, although a value does not fit"


@pytest.fixture
def bench(tmp_path: pathlib.Path) -> Iterator[Bench]:
    engine = DuckDBEngine(
        memory_bytes=1 << 29, threads=1, spill_directory=str(tmp_path / "s"), spill_bytes=1 << 28
    )
    with contextlib.closing(engine):
        yield Bench(engine, tmp_path)


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.one_in(test=8, prove=7)) for part in range(8)]
)
def test_computations_of_numbers_that_may_fail_stay_where_they_are(bench: Bench, part: int) -> None:
    found = list(enumerate(between_numbers()))[part::8]
    wrong = [w for number, computed in found for w in check(bench, computed, number)]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.soak
@pytest.mark.prove
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.one_in(prove=8)) for part in range(8)]
)
def test_casts_of_all_types_stay_where_they_are(bench: Bench, part: int) -> None:
    found = list(enumerate(others()))[part::8]
    wrong = [w for number, computed in found for w in check(bench, computed, number)]
    assert not wrong, "\n".join(wrong[:20])


ON_SPARK = (
    (types.BIGINT, types.TINYINT),
    (types.BIGINT, Decimal(9, 2)),
    (types.DOUBLE, types.INTEGER),
    (Decimal(38, 9), Decimal(9, 2)),
    (Decimal(18, 0), types.INTEGER),
    (types.VARCHAR, types.BIGINT),
    (types.VARCHAR, types.DATE),
)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.prove
def test_spark_computes_casts_where_they_are(stack: Stack, tmp_path: pathlib.Path) -> None:
    spark = SparkEngine(
        lambda: stack.spark_url, lambda: None, stack.config.clusters, tail_partitions=1
    )
    with contextlib.closing(spark):
        bench = Bench(spark, tmp_path, place="known")
        for number, pair in enumerate(ON_SPARK):
            wrong = list(check(bench, _cast(pair), number))
            assert not wrong, "\n".join(wrong)


@pytest.mark.spark
@pytest.mark.integration
def test_a_cast_of_a_stored_column_fails_on_both_engines(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, a bigint")
    stack.produce(name, [{"id": i, "a": a} for i, a in enumerate((130, 5, -7))])
    stack.tier(name)
    for engine in ("duckdb", "spark"):
        fits = f"SELECT id FROM {name} WHERE a < 100 AND CAST(a AS tinyint) > 0"
        assert gateway.rows(fits, engine) == [(1,)]
        for condition in ("CAST(a AS tinyint) > 0", "CAST(a AS tinyint) IN (5, 6)"):
            with pytest.raises(SeamlineError) as caught:
                gateway.rows(f"SELECT id FROM {name} WHERE {condition}", engine)
            assert caught.value.code in _FAILURES

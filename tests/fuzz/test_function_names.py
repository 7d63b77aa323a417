"""Goal: what a function answers does not depend on what the columns around it are called.

Method: each signature is called over columns with harmless names, and then over columns, lambda
parameters and fields of rows that are named after the names in its own SQL on either engine, in
mixed case: those that templates, rewritings and the renderer make. Casts between all types are
called as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import random
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from support.engine_tables import Storage, bound, table_of
from support.stack import Stack

from fuzz import schema
from fuzz.arguments import HINTS
from fuzz.expressions import EMPTY, Expressions, Signature, assigned, casts_between
from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.protocols.engines import Engine
from seamline.connectors.spark.engine import SparkEngine
from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.engines import render
from seamline.sql.expressions.calls import VOLATILE
from seamline.sql.functions import FUNCTIONS
from seamline.sql.types import Field, Function, Type

_WORD = re.compile(r"\b[a-z_]\w*\b(?!\()")
"""A name: neither a keyword nor what is called as a function, which nothing is taken for."""
_TEXT = re.compile(r"'[^']*'")
_LAMBDA = re.compile(r"\blambda |->")
_OF_MOMENT = frozenset({"now", "current_timezone", "grouping", "listagg", *VOLATILE})
"""Functions of another value each time, or called in a form of their own."""
_ROWS = 3


@dataclasses.dataclass(frozen=True)
class Case:
    """A call.

    Attributes:
        sql: Its SQL, with `{0}` for its first argument or the first name of a lambda's parameter.
        columns: The types of the arguments that are columns.
        kind: Scalar, aggregate or window.
        parameters: How many names of lambda parameters follow those of the columns.
    """

    sql: str
    columns: tuple[Type, ...]
    kind: str
    parameters: int = 0

    @property
    def names(self) -> int:
        return len(self.columns) + self.parameters


def case_of(made: Signature, kind: str) -> Case:
    columns: list[Type] = []
    arguments: list[str | Type | Function] = []
    for place, type_ in enumerate(made.parameters):
        hints = HINTS.get((made.name, place), ())
        if isinstance(type_, Function):
            arguments.append(type_)
        elif hints and type_ != types.JSON:
            arguments.append(Expressions(random.Random(place)).argument(
                made.name, place, type_, EMPTY, 0).trino)  # fmt: skip
        else:
            arguments.append(f"{{{len(columns)}}}")
            columns.append(type_)
    number = itertools.count(len(columns))
    written = ", ".join(
        lambda_of(part, number) if isinstance(part, Function) else str(part) for part in arguments
    )
    over = " OVER (ORDER BY id)" if kind == "window" else ""
    return Case(f"{made.name}({written}){over}", tuple(columns), kind, next(number) - len(columns))


def lambda_of(type_: Function, number: Iterator[int]) -> str:
    """A lambda that returns a parameter if one is of the wanted type, and else a constant."""
    names = [f"{{{next(number)}}}" for _ in type_.parameters]
    same = (name for name, of in zip(names, type_.parameters, strict=True) if of == type_.returns)
    value = schema.value(random.Random(1), type_.returns)
    body = next(same, None) or schema.literal(value, type_.returns).replace("{", "{{")
    return f"({', '.join(names)}) -> {body}"


def calls() -> list[Case]:
    """A call of every signature; two where it takes a type of any kind."""
    chance, found = random.Random("names"), dict[Case, None]()
    for overload in itertools.chain.from_iterable(FUNCTIONS.values()):
        if overload.name.startswith("$") or overload.name in _OF_MOMENT:
            continue
        for _ in range(2):
            made = assigned(overload, chance)
            if made is not None:
                found[case_of(made, overload.kind)] = None
    return list(found)


def others() -> list[Case]:
    """What is written otherwise: casts, and lambdas and rows of a user's own."""
    words = ("CAST", "TRY_CAST")
    found = [
        Case(f"{word}({{0}} AS {target})", (source,), "scalar")
        for source, target in casts_between()
        for word in words
    ]
    number, array = types.BIGINT, types.Array(types.BIGINT)
    return [
        *found,
        Case("transform({0}, {1} -> ROW({1}))", (array,), "scalar", 1),
        Case("transform({0}, {1} -> ROW({1}, ARRAY[{1}]))", (array,), "scalar", 1),
        Case(
            "transform({0}, {2} -> transform({0}, {3} -> ROW({2}, {3}, {1})))",
            (array, number),
            "scalar",
            2,
        ),
        *(Case(f"{name}({{0}}, 2)", (number,), "aggregate") for name in ("min", "max")),
        *(
            Case(f"{name}_by({{0}}, {{1}}, 2)", (number, number), "aggregate")
            for name in ("min", "max")
        ),
        Case("max({0}, 2) FILTER (WHERE {1} > 0)", (number, number), "aggregate"),
        Case("array_agg({0} ORDER BY {1} DESC)", (number, types.VARCHAR), "aggregate"),
        Case("listagg({0}, ',') WITHIN GROUP (ORDER BY {0})", (types.VARCHAR,), "aggregate"),
        Case("ROW({0}, {1})", (number, number), "scalar"),
        Case("CAST(ROW({0}, {1}) AS row({1} varchar, {0} bigint))", (number, number), "scalar"),
        Case("{0} IN (SELECT {1} FROM t)", (number, number), "scalar"),
        Case("(SELECT max({0}, 2) FROM t)", (number,), "scalar"),
    ]


def written(cases: Sequence[Case], names: Sequence[str]) -> tuple[str, list[Field]]:
    """A query of all the calls over a table, and the table's columns.

    Names that no call takes are those of further columns, which the query reads, too.
    """
    ids = itertools.count(1)
    left, columns = list(names), [Field("id", types.BIGINT, next(ids))]
    results = []
    for case in cases:
        own, left = left[: case.names], left[case.names :]
        columns += [Field(n, schema.with_ids(t, ids), next(ids))
                    for n, t in zip(own, case.columns, strict=False)]  # fmt: skip
        left += own[len(case.columns) :]
        results.append(case.sql.format(*map(types.quoted, own)))
    columns += [Field(name, types.BIGINT, next(ids)) for name in left]
    further = [types.quoted(name) for name in left]
    is_grouped = cases[0].kind == "aggregate"
    group = f" GROUP BY {', '.join(further)}" if is_grouped and further else ""
    return f"SELECT {', '.join((*results, *further))} FROM t{group}", columns


def texts(cases: Sequence[Case], names: Sequence[str]) -> Iterator[str]:
    """Yields what each engine gets, if it gets anything."""
    sql, columns = written(cases, names)
    with contextlib.suppress(SeamlineError):
        query, _ = bound(sql, {"t": tuple(columns)})
        yield render.to_duckdb(query.tree)
        yield render.to_spark(query.tree)


def with_lambdas(cases: Sequence[Case]) -> list[Case]:
    """The calls whose SQL has a lambda on either engine: most names of our own are in those."""
    names = [f"harmless{place}" for place in range(10)]
    return [c for c in cases if any(map(_LAMBDA.search, texts([c], names[: c.names])))]


def one_of_each(cases: Sequence[Case]) -> list[Case]:
    """One call of each function, and one cast to each type."""
    return list({case.sql.replace("{0}", ""): case for case in reversed(cases)}.values())


def rows_of(columns: Sequence[Field]) -> pa.Table:
    """Rows that depend on the columns' types and places, not on their names."""
    arrays = []
    for place, column in enumerate(columns):
        chance = random.Random(place)
        values = [schema.value(chance, column.type) for _ in range(_ROWS - 1)]
        arrays.append(pa.array([*values, values[0]], types.to_arrow(column.type)))
    return pa.Table.from_arrays(
        arrays, schema=pa.schema([types.arrow_field(column) for column in columns])
    )


class Asked:
    """Queries of calls, asked of one engine.

    Args:
        engine: The engine.
        folder: Where rows may be stored.
    """

    def __init__(self, engine: Engine, folder: pathlib.Path) -> None:
        self._engine = engine
        self._storage = Storage(folder)
        self.answered = 0
        self.words: set[str] = set()
        self.wrong: list[str] = []

    def ask(self, cases: Sequence[Case]) -> list[Case]:
        """Compares the answers; returns the calls that have some."""
        count = sum(case.names for case in cases)
        harmless = [f"harmless{place}" for place in range(count)]
        words = [w for w in self._words_of(cases, harmless) if w != "id"]
        chance = random.Random(len(words))
        chance.shuffle(words)
        words += [f"further{place}" for place in range(count - len(words))]
        harmless += [f"harmless{place}" for place in range(count, len(words))]
        mixed = [w.upper() if place % 2 else w for place, w in enumerate(words)]
        try:
            expected = self._rows(cases, harmless)
        except SeamlineError:
            half = len(cases) // 2
            return self.ask(cases[:half]) + self.ask(cases[half:]) if half else []
        self.answered += len(cases)
        self.words.update(words)
        try:
            found: object = self._rows(cases, mixed)
        except SeamlineError as error:
            found = error.message
        if found != expected:
            self.wrong.append(f"{written(cases, mixed)[0]}\n   {found}\n   not {expected}")
        return list(cases)

    def _words_of(self, cases: Sequence[Case], names: Sequence[str]) -> list[str]:
        found = (_TEXT.sub(_unless_a_sentence, text) for text in texts(cases, names))
        words = {word.lower() for text in found for word in _WORD.findall(text)}
        return sorted(word for word in words if not word.startswith("harmless"))

    def _rows(self, cases: Sequence[Case], names: Sequence[str]) -> list[str]:
        sql, columns = written(cases, names)
        query, read = bound(sql, {"t": tuple(columns)})
        stored = self._storage.stored(rows_of(columns), "known")
        table = table_of(self._engine, query, read, {"t": stored})
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return sorted(repr([_settled(value, sql) for value in row]) for row in rows)


def _unless_a_sentence(text: re.Match[str]) -> str:
    """Literals are names of fields, too."""
    return "" if " " in text[0] else text[0]


def _settled(value: object, sql: str) -> object:
    """A value without the names of its fields, its elements in order if theirs is random."""
    if "shuffle(" in sql and isinstance(value, list):
        return sorted(map(repr, value))
    return _plain(value)


def _plain(value: object) -> object:
    """A value without the names of its fields."""
    match value:
        case dict():
            return [_plain(member) for member in value.values()]
        case list():
            return [_plain(item) for item in value]
    return value


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(
        memory_bytes=1 << 29,
        threads=1,
        spill_directory=str(tmp_path_factory.mktemp("spill")),
        spill_bytes=1 << 28,
    )
    yield made
    made.close()


def batches(cases: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
    """Calls that one query can make: aggregates apart from others."""
    for is_aggregate in (False, True):
        alike = [case for case in cases if (case.kind == "aggregate") == is_aggregate]
        for first in range(0, len(alike), size):
            yield alike[first : first + size]


@pytest.mark.prove
@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=("one-of-each", "all")
)
def test_no_function_meets_a_column_called_as_a_name_in_its_sql(
    every: bool, engine: DuckDBEngine, tmp_path: pathlib.Path
) -> None:
    cases, asked = [*calls(), *others()], Asked(engine, tmp_path)
    cases = cases if every else with_lambdas(one_of_each(cases))
    for batch in batches(cases, 6):
        asked.ask(batch)
    assert not asked.wrong, "\n".join(asked.wrong[:20])
    assert asked.answered > 0.8 * len(cases)
    assert {"x", "m", "i", "l", "r", "q0", "c0", "l0_0", "v", "a0"} <= asked.words


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.soak
@pytest.mark.parametrize("part", range(6))
def test_no_function_meets_a_column_called_as_a_name_in_its_sql_on_spark(
    part: int, engine: DuckDBEngine, stack: Stack, tmp_path: pathlib.Path
) -> None:
    cases = with_lambdas(one_of_each([*calls(), *others()]))[part::6]
    before = Asked(engine, tmp_path)
    answered = [case for batch in batches(cases, 6) for case in before.ask(batch)]
    spark = SparkEngine(
        lambda: stack.spark_url, lambda: None, stack.config.clusters, tail_partitions=1
    )
    with contextlib.closing(spark):
        asked = Asked(spark, tmp_path)
        for batch in batches(answered, 12):
            asked.ask(batch)
    assert not asked.wrong, "\n".join(asked.wrong[:20])
    assert asked.answered > 0.8 * len(answered)

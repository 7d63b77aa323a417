"""Random statements about NaN, -0.0, null and casts that may fail, and what a real Trino answered.

`python -m fuzz.recorded http://127.0.0.1:8080` asks a Trino with the catalog `memory`, and writes
its answers; they are the same for the same seed. What plain DuckDB judges needs none of this: it
orders NaN otherwise, and moves casts.
"""

from __future__ import annotations

import dataclasses
import decimal
import json
import pathlib
import random
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from fuzz.answers import Answer, answer_of
from fuzz.nodes import ours
from fuzz.queries import QUERY, Query
from fuzz.schema import Table, literal, value, with_ids
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Type

FILE = pathlib.Path(__file__).with_name("trino_answers.jsonl")
COUNT = 312
_ROWS = 14
_TYPES: dict[str, Type] = {
    "x": types.DOUBLE, "m": types.DOUBLE, "v": types.REAL, "i": types.BIGINT, "l": types.INTEGER,
    "s": types.VARCHAR, "d": Decimal(9, 2), "r": Decimal(18, 0), "e": Array(types.DOUBLE),
}  # fmt: skip
"""Columns, which are named as templates name things."""
_TARGETS: dict[str, Sequence[str]] = {
    "i": ("tinyint", "smallint", "integer", "decimal(9,2)", "decimal(18,0)", "real"),
    "l": ("tinyint", "smallint", "decimal(1,0)"),
    "x": ("tinyint", "smallint", "integer", "bigint", "decimal(9,2)", "decimal(38,9)", "real"),
    "v": ("tinyint", "smallint", "integer", "bigint", "double"),
    "d": ("tinyint", "smallint", "integer", "decimal(3,1)", "decimal(9,0)", "double"),
    "r": ("tinyint", "integer", "bigint", "decimal(9,2)"),
    "s": ("tinyint", "bigint", "double", "real", "decimal(9,2)", "date", "boolean"),
}
"""What columns are cast to."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A statement, and what Trino answered.

    Attributes:
        sql: The statement.
        rows: The rows as JSON; None for an error.
        error: The error's name.
        differs: Why another answer is expected here; kept when Trino is asked again.
    """

    sql: str
    rows: list[list[Any]] | None
    error: str
    differs: str = ""


def table() -> Table:
    """The table `t` of all statements; its rows are those of one seed."""
    chance, ids = random.Random("recorded"), iter(range(1, 100))
    fields = [Field("id", types.BIGINT, next(ids))]
    fields += [Field(n, with_ids(t, ids), next(ids)) for n, t in _TYPES.items()]
    rows = [(number, *(_value(chance, f.type) for f in fields[1:])) for number in range(_ROWS)]
    return Table("t", tuple(fields), tuple(rows), _ROWS)


def _value(chance: random.Random, type_: Type) -> Any:
    if type_ == types.VARCHAR:
        return chance.choice(("5", "130", " 7 ", "NaN", "-0.0", "1e400", "2024-02-29", "x", None))
    return value(chance, type_)


class _Statements:
    """Draws statements over `t`."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def statement(self) -> str:
        """One about values, groups, orders, joins or casts."""
        match self._chance.randrange(8):
            case 0:
                key = self._floating(1)
                return f"SELECT {key}, count(*) FROM t GROUP BY 1"
            case 1:
                return f"SELECT {', '.join(self._aggregate() for _ in range(3))} FROM t"
            case 2:
                return f"SELECT id FROM t ORDER BY {self._floating(1)} {self._order()}, id"
            case 3:
                kind = self._chance.choice(("JOIN", "LEFT JOIN"))
                return (
                    f"SELECT t.id, o.id FROM t {kind} (SELECT id, x AS y FROM t) AS o"
                    f" ON {self._floating(0, 't.')} {self._sign()} o.y"
                )
            case 4:
                return f"SELECT id FROM t WHERE {self._cast_condition()}"
            case 5:
                return f"SELECT id, {self._cast_condition()} FROM t"
            case 6:
                return f"SELECT DISTINCT {self._floating(1)} FROM t"
        return f"SELECT id, {', '.join(self._condition(2) for _ in range(3))} FROM t"

    def _sign(self) -> str:
        return self._chance.choice(("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"))

    def _order(self) -> str:
        return self._chance.choice(("ASC", "DESC", "NULLS FIRST", "DESC NULLS LAST"))

    def _floating(self, depth: int, of: str = "") -> str:
        roll = self._chance.random()
        if depth <= 0 or roll < 0.5:
            return self._chance.choice((f"{of}x", f"{of}m", f"{of}v", f"{of}x", f"{of}m"))
        if roll < 0.7:
            return self._chance.choice(("nan()", "-0e0", "0e0", "infinity()", "1e0", "1.5e0",
                                        "CAST(NULL AS double)", "REAL 'NaN'"))  # fmt: skip
        one, other = self._floating(depth - 1, of), self._floating(depth - 1, of)
        form = self._chance.choice(
            ("nullif({}, {})", "coalesce({}, {})", "greatest({}, {})", "least({}, {})",
             "IF({} > 0, {})", "({} + {})", "({} * {})", "abs({}) - {}", "-({}) / nullif({}, 0)",
             "CASE {} WHEN {} THEN 1e0 ELSE nan() END", "element_at(e, 1) + {} * 0 + {}",
             "array_max(ARRAY[{}, {}])", "array_min(ARRAY[{}, {}])")
        )  # fmt: skip
        return form.format(one, other)

    def _condition(self, depth: int) -> str:
        roll = self._chance.random()
        if depth > 0 and roll < 0.2:
            word = self._chance.choice(("AND", "OR"))
            return f"({self._condition(depth - 1)} {word} {self._condition(depth - 1)})"
        if depth > 0 and roll < 0.45:
            return f"(NOT {self._condition(depth - 1)})"
        one, other, third = (self._floating(1) for _ in range(3))
        form = self._chance.choice(
            ("({0} {sign} {1})", "({0} BETWEEN {1} AND {2})", "({0} NOT BETWEEN {1} AND {2})",
             "({0} IN ({1}, {2}))", "({0} NOT IN ({1}, {2}))", "({0} IS DISTINCT FROM {1})",
             "({0} {order} ALL (SELECT x FROM t WHERE id < 4))",
             "({0} {order} ANY (SELECT m FROM t WHERE id > 9))",
             "({0} IN (SELECT x FROM t WHERE x IS NOT NULL))",
             "({0} NOT IN (SELECT m FROM t WHERE id < 5))",
             "contains(e, {0})", "(array_position(e, {0}) > 0)", "any_match(e, x -> x > {0})",
             "all_match(e, m -> m <> {0})", "(e = ARRAY[{0}, {1}])", "(CASE {0} WHEN {1} THEN"
             " {2} > 0 END)", "((x, {0}) = (m, {1}))", "({0} IS NULL)", "is_nan({0})")
        )  # fmt: skip
        order = self._chance.choice(("=", "<>", "<", "<=", ">", ">="))
        return form.format(one, other, third, sign=self._sign(), order=order)

    def _cast_condition(self) -> str:
        name = self._chance.choice(list(_TARGETS))
        target = self._chance.choice(_TARGETS[name])
        cast = f"{self._chance.choice(('CAST', 'TRY_CAST', 'TRY_CAST'))}({name} AS {target})"
        if target in ("date", "boolean"):
            return f"({cast} IS NOT NULL)"
        form = self._chance.choice(
            ("({0} {1} {2})", "({0} BETWEEN {2} AND {3})", "({0} IN ({2}, {3}))",
             "({0} NOT IN ({2}, {3}))", "(CASE {0} WHEN {2} THEN TRUE ELSE {0} > {3} END)",
             "(NOT ({0} {1} {2}))", "({0} = (SELECT max(id) FROM t))", "({0} + 1 > {3})")
        )  # fmt: skip
        return form.format(cast, self._sign(), *self._chance.choice(((0, 5), (1, 3), (-1, 127))))

    def _aggregate(self) -> str:
        one = self._floating(1)
        form = self._chance.choice(
            ("min({})", "max({})", "count(DISTINCT {})", "array_sort(array_agg({}))", "max({}, 2)",
             "min({}, 2)", "max_by(id, {})", "min_by(id, {})", "count_if({} > 0)",
             "cardinality(histogram({}))", "array_sort(array_distinct(array_agg({})))")
        )  # fmt: skip
        return form.format(one)


def statements(count: int = COUNT) -> Iterator[str]:
    """Yields the statements, each once."""
    drawn = _Statements(random.Random("trino"))
    seen: set[str] = set()
    while len(seen) < count:
        sql = drawn.statement()
        if sql not in seen and "_by(id" not in sql:  # which of equal ones it is may be any
            seen.add(sql)
            yield sql


def read() -> list[Recorded]:
    """What is in the file."""
    with FILE.open(encoding="utf-8") as lines:
        return [Recorded(**json.loads(line)) for line in lines]


def query_of(recorded: Recorded) -> Query:
    """The statement as one that targets answer."""
    return Query(ours(QUERY, recorded.sql), (), " ORDER BY " in recorded.sql)


def answer(recorded: Recorded, kinds: Sequence[pa.DataType]) -> Answer:
    """Trino's answer, whose values are of these types."""
    if recorded.rows is None:
        return Answer(None, recorded.error)
    columns = [
        pa.array([_python(row[place], kind) for row in recorded.rows], kind)
        for place, kind in enumerate(kinds)
    ]
    names = [f"c{place}" for place in range(len(kinds))]
    return answer_of(query_of(recorded), pa.Table.from_arrays(columns, names=names))


def _python(value_: Any, kind: pa.DataType) -> Any:
    if isinstance(value_, list):
        return [_python(item, kind.value_type) for item in value_]
    if value_ is not None and pa.types.is_floating(kind):
        return float(value_)
    if value_ is not None and pa.types.is_decimal(kind):
        return decimal.Decimal(value_)
    return value_


# --- Recording -----------------------------------------------------------------------------------


def main(url: str) -> int:
    """Asks a Trino; returns the exit status."""
    differs = {one.sql: one.differs for one in read()}
    stored = table()
    _ask(url, "CREATE SCHEMA IF NOT EXISTS memory.fuzz_names")
    _ask(url, "DROP TABLE IF EXISTS t")
    _ask(url, f"CREATE TABLE t ({stored.definition})")
    rows = (
        ", ".join(literal(v, f.type) for v, f in zip(row, stored.columns, strict=True))
        for row in stored.rows
    )
    made = _ask(url, f"INSERT INTO t VALUES {', '.join(f'({row})' for row in rows)}")
    assert not made.error, made
    with FILE.open("w", encoding="utf-8") as file:
        for sql in statements():
            found = _ask(url, sql)
            assert found.error not in {"SYNTAX_ERROR", "COLUMN_NOT_FOUND"}, found
            found = dataclasses.replace(found, differs=differs.get(sql, ""))
            file.write(json.dumps(dataclasses.asdict(found)) + "\n")
    return 0


def _ask(url: str, sql: str) -> Recorded:
    headers = {"X-Trino-User": "fuzz", "X-Trino-Catalog": "memory", "X-Trino-Schema": "fuzz_names",
               "X-Trino-Time-Zone": "UTC"}  # fmt: skip
    request = urllib.request.Request(f"{url}/v1/statement", sql.encode(), headers)
    rows: list[list[Any]] = []
    while True:
        with urllib.request.urlopen(request) as response:
            body = json.load(response)
        if "error" in body:
            return Recorded(sql, None, body["error"]["errorName"])
        rows += body.get("data") or ()
        if "nextUri" not in body:
            return Recorded(sql, rows, "")
        request = urllib.request.Request(body["nextUri"], headers=headers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

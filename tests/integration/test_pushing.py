"""Goal: a condition keeps the same rows in both tiers and on both engines, whatever it compares.

Method: one table with a column of every type, its rows all hot, half tiered and all tiered. What
each condition keeps is what DuckDB says of it in a select list, where nothing can be pushed; then
the conditions filter, on each engine.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from support.conditions import VALUES, fitting
from support.gateway import Gateway
from support.stack import Stack

COLUMNS: Mapping[str, str] = {
    f"c{number}": type_ for number, type_ in enumerate(t for t in VALUES if t != "time(6)")
}
"""Spark writes no times of day."""
STEPS = {"duckdb": 167, "spark": 2003}
"""One in this many conditions is asked, others each time: the rules see all elsewhere."""
PER_STATEMENT = 40


def records() -> Iterator[bytes]:
    """A row for each place in the lists of values, and one of nulls."""
    count = max(map(len, VALUES.values()))
    for n in range(count + 1):
        cells = {c: VALUES[type_][n] for c, type_ in COLUMNS.items() if n < len(VALUES[type_])}
        yield json.dumps({"n": n, **{c: as_json(value) for c, value in cells.items()}}).encode()


def as_json(value: Any) -> Any:
    """A value as records hold it."""
    match value:
        case decimal.Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date():
            return value.isoformat()
    return value


def check(gateway: Gateway, table: str, conditions: Sequence[str], first: int) -> None:
    """Compares conditions as filters with what the select list says of them."""
    for engine, step in STEPS.items():
        chosen = conditions[first::step]
        for some in (
            chosen[at : at + PER_STATEMENT] for at in range(0, len(chosen), PER_STATEMENT)
        ):
            listed = ", ".join(f"({sql})" for sql in some)
            rows = gateway.rows(f"SELECT n, {listed} FROM {table}", "duckdb")
            wanted = {(k, row[0]) for row in rows for k, kept in enumerate(row[1:]) if kept}
            filtered = (
                f"SELECT {k} AS k, n FROM {table} WHERE {sql}" for k, sql in enumerate(some)
            )
            found = gateway.rows(" UNION ALL ".join(filtered), engine)
            wrong = sorted((some[k], n) for k, n in wanted.symmetric_difference(found))
            assert not wrong, f"{engine}: {wrong[:5]}"
            assert len(found) == len(wanted)


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_conditions_of_every_type_in_both_tiers_on_both_engines(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 3)
    columns = ", ".join(f"{column} {type_}" for column, type_ in COLUMNS.items())
    stack.create_table(name, f"n bigint, {columns}")
    asked = [sql for column, type_ in COLUMNS.items() for sql in fitting(type_, column)]
    written = list(records())
    half = len(written) // 2
    produce(stack, name, written, range(half))
    check(gateway, name, asked, 0)
    stack.tier(name, records_max=12)
    produce(stack, name, written, range(half, len(written)))
    check(gateway, name, asked, 1)
    stack.tier(name, records_max=12)
    check(gateway, name, asked, 2)


def produce(stack: Stack, name: str, written: Sequence[bytes], numbers: Sequence[int]) -> None:
    """Some of the records, each in another partition than the one before."""
    for n in numbers:
        stack.produce(name, [written[n]], partition=n % 3)


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_nan_is_compared_in_files_too(stack: Stack, gateway: Gateway, name: str) -> None:
    """Iceberg's statistics leave it out."""
    stack.create_topic(name, 1)
    stack.create_table(name, "n bigint, d double, f real, r row(d double)")
    record = b'{"n": %d, "d": %s, "f": %s, "r": {"d": %s}}'
    stack.produce(name, [record % (n, x, x, x) for n, x in enumerate((b"1.0", b"NaN", b"2.0"))])
    asked = [
        (condition.format(c=column), kept)
        for column in ("d", "f", "r.d")
        for condition, kept in (
            ("{c} > 5e0", set()),
            ("{c} >= 2e0", {2}),
            ("NOT ({c} < 3e0)", {1}),
            ("{c} <> 1e0", {1, 2}),
            ("{c} NOT IN (1e0, 2e0)", {1}),
            ("{c} NOT BETWEEN 0e0 AND 3e0", {1}),
        )
    ]
    sql = " UNION ALL ".join(
        f"SELECT {k} AS k, n FROM {name} WHERE {condition}"
        for k, (condition, _) in enumerate(asked)
    )
    wanted = sorted((k, n) for k, (_, kept) in enumerate(asked) for n in kept)
    for _ in range(2):
        for engine in ("duckdb", "spark"):
            assert sorted(gateway.rows(sql, engine)) == wanted, engine
        stack.tier(name)

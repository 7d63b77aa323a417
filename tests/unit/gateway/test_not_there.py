"""Goal: what the page says is not offered fails with the very error that the page names.

Method: `not_there.txt` has statements for each row of `docs/reference/not-there.md` that names an
error. A gateway over a catalog in one file and a log in memory refuses them, or what writes queries
for Spark does; each refusal names the place, if the statement has one, and a remedy of its own.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support.nesting import NOW
from support.offline import MemoryWorld

from seamline.errors import ERRORS, Location, SeamlineError
from seamline.sql.binder.qualify import qualify
from seamline.sql.engines import render
from seamline.sql.functions import REASONS
from seamline.sql.parsing import parameters, parse

_PAGE = pathlib.Path(__file__).parents[3] / "docs" / "reference" / "not-there.md"
_STATEMENTS = pathlib.Path(__file__).with_name("not_there.txt")
_WITHOUT_PLACE = {"COMMIT", "ROLLBACK", "START TRANSACTION"}


def _rows() -> dict[str, set[str]]:
    """What is not offered, by the first cell of a row, and the errors that its row names."""
    found = {}
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        codes = set(re.findall(r"`(\w+)`", cells[1])) if len(cells) == 3 else set()
        if codes and codes <= set(ERRORS):
            found[cells[0]] = codes
    return found


def _statements() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _STATEMENTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            found[line[3:]] = statements = []
        elif line and not line.startswith("#"):
            statements.append(line)
    return found


ROWS, STATEMENTS = _rows(), _statements()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path_factory.mktemp("gateway"))
    rows = pa.table(
        {
            "x": pa.array([1, 2, 3], pa.int64()),
            "y": pa.array([1, 2, 3], pa.int64()),
            "s": ["a", "b", None],
            "a": pa.array([[1], [2], None], pa.list_(pa.int64())),
            "r": pa.array([{"f": 1}] * 3, pa.struct([("f", pa.int64())])),
            "z": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
        }
    )
    world.catalog.create_namespace("default")
    world.catalog.create_namespace("shop")
    for name in ("default.t", "default.u"):
        world.catalog.create_table(name, rows.schema).append(rows)
    world.memory.create_topic("live", 1)
    world.rows("CREATE TABLE live (x bigint) WITH (topic = 'live')")
    world.rows("CREATE VIEW v AS SELECT x FROM t")
    yield world
    world.gateway.close()


def test_every_row_with_an_error_has_statements() -> None:
    assert len(ROWS) > 60
    found = {begin: [row for row in ROWS if row.startswith(begin)] for begin in STATEMENTS}
    assert {begin: rows for begin, rows in found.items() if len(rows) != 1} == {}
    assert set(ROWS) - {row for rows in found.values() for row in rows} == set()


@pytest.mark.parametrize("begin", STATEMENTS)
def test_what_is_not_offered_fails_as_the_page_says(world: MemoryWorld, begin: str) -> None:
    codes = next(codes for row, codes in ROWS.items() if row.startswith(begin))
    for line in STATEMENTS[begin]:
        route, sql = _route(line)
        if route == "analysis":
            continue
        error = _refusal_of_spark(sql) if route == "spark" else _refusal(world, sql, route)
        assert error is not None, sql
        assert error.code.name in codes, (sql, str(error))
        generic = "" if error.code.name == "STATEMENT_NOT_ALLOWED" else error.code.hint
        assert error.hint not in {"", generic}, (sql, str(error))
        place = error.location
        if place is None:  # a plan knows no text
            assert route == "spark" or sql in _WITHOUT_PLACE, (sql, str(error))
        else:
            assert place.within(sql) is not None, (sql, str(error))


@pytest.mark.spark
@pytest.mark.prove
def test_what_spark_refuses_itself(world: MemoryWorld) -> None:
    lines = [_route(line) for statements in STATEMENTS.values() for line in statements]
    of_spark = [sql for route, sql in lines if route == "analysis"]
    assert of_spark
    for sql in of_spark:
        error = world.gateway.statement(sql, "spark").error
        assert error is not None
        assert error.code.name == "NOT_SUPPORTED", (sql, str(error))


def _route(line: str) -> tuple[str, str]:
    route, colon, sql = line.partition(": ")
    return (route, sql) if colon and route in {"analysis", "spark", "zone"} else ("", line)


def _refusal(world: MemoryWorld, sql: str, route: str) -> SeamlineError | None:
    zone = "Europe/Berlin" if route == "zone" else None
    return world.gateway.statement(sql, time_zone=zone).error


def _refusal_of_spark(sql: str) -> SeamlineError | None:
    """What a query of `t` and `u` fails with when it is written for Spark."""
    tables = "WITH t(x, y, s) AS (VALUES (1, 1, 'a')), u(x) AS (VALUES 1) "
    query = parse.parse(tables + sql)
    assert isinstance(query, parse.Query)
    with pytest.raises(SeamlineError) as caught:
        render.to_spark(qualify(parameters.bind(query, []), [], now=NOW).tree)
    return caught.value


@pytest.mark.parametrize("name", REASONS)
def test_a_function_that_is_not_offered_says_what_to_use(world: MemoryWorld, name: str) -> None:
    error = world.refused(f"SELECT {name}(x) FROM t")
    assert (error.code.name, error.location) == ("NOT_SUPPORTED", Location(1, 8))
    assert error.hint == REASONS[name] + "."

"""Every .slt file means the same on DuckDB, on Spark, and over HTTP with the DB-API.

Files that are sessions are dialogues over one connection, and need no broker.

Method: each case is run by each route and compared with what the file says. Spark plans for a third
of a second whatever it is asked: in the first pass it has a few files, of most of them the
expressions, which can be asked many in one statement; the rest is among the long proofs.
`pytest --rewrite tests/slt` fills the expected half from DuckDB; a person reads the difference.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import offline, slt
from support.gateway import Gateway, run_over
from support.stack import Stack

from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once

ALL_FILES = sorted(pathlib.Path(__file__).parent.glob("*.slt"))
SESSIONS = [path for path in ALL_FILES if slt.is_session(path)]
FILES = [path for path in ALL_FILES if path not in SESSIONS]
ROUTES = ("duckdb", "http", "spark")
SPARK_FIRST = frozenset(
    {
        "clock_changes",
        "decimal_division",
        "decimal_literals",
        "decimal_overflow",
        "integer_division",
        "nested_lambdas",
    }
)
"""The files whose expressions Spark runs in the first pass."""
SPARK_STATEMENTS = "grouping"
"""The file whose statements it runs there, one in `SPARK_EVERY`."""

HTTP_EVERY = 8
"""One in this many files runs over HTTP in the first pass, which adds only the protocol to
DuckDB."""

SPARK_EVERY = 5
"""One in this many statements of a file is a proof on Spark."""

Record = Callable[[str, object], None]


def runs() -> Iterator[Any]:
    for path, route in itertools.product(FILES, ROUTES):
        cases = [case for case in slt.parse(path) if route not in case.skips]
        values = [case for case in cases if case.expression]
        if route != "spark":
            later = route == "http" and FILES.index(path) % HTTP_EVERY
            marks = [pytest.mark.prove] if later else []
            yield pytest.param(path, route, cases, marks=marks, id=f"{path.stem}-{route}")
            continue
        rest = [case for case in cases if not case.expression]
        first = path.stem == SPARK_STATEMENTS
        others = [case for number, case in enumerate(rest) if number % SPARK_EVERY]
        for name, part, mark in (
            ("values", values, None if path.stem in SPARK_FIRST else pytest.mark.prove),
            ("statements", rest[::SPARK_EVERY], None if first else pytest.mark.prove),
            ("others", others, pytest.mark.prove if first else pytest.mark.soak),
        ):
            marks = [] if mark is None else [mark]
            if part:
                yield pytest.param(path, route, part, marks=marks, id=f"{path.stem}-{route}-{name}")


@pytest.fixture(scope="module")
def placed(stack: Stack) -> Callable[[pathlib.Path], None]:
    """Makes the tables of a file, each once."""

    @functools.cache
    def place(path: pathlib.Path) -> None:
        for table in slt.tables(path):
            stack.create_topic(table.name)
            stack.create_table(table.name, table.definition)
            stack.produce(table.name, table.records())
            if table.cold:
                log = stack.connections.log("default")
                tier_once(stack.tier_table(table.name), log, no_deadline(), records_max=table.cold)

    return place


@pytest.mark.one_in(prove=8)
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize(("path", "route", "cases"), list(runs()))
def test_file(
    path: pathlib.Path,
    route: str,
    cases: list[slt.Case],
    gateway: Gateway,
    placed: Callable[[pathlib.Path], None],
    request: pytest.FixtureRequest,
    record_property: Record,
) -> None:
    placed(path)
    zone = slt.zone(path)
    run = gateway.route(route, zone)
    if route == "http":
        run = functools.partial(gateway.http_route, zone=zone)
    if request.config.getoption("--rewrite") and route == "duckdb":
        slt.rewrite(path, run)
        cases = slt.parse(path)
    wrong = disagreements(path, route, cases, slt.answers(cases, run))
    record_property(f"{slt.ASKED}{route}", len(cases) - len(wrong))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_session(
    path: pathlib.Path, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        (tmp_path / "first").mkdir()
        with dialogue(tmp_path / "first") as run:
            slt.rewrite(path, run)
    cases = slt.parse(path)
    with dialogue(tmp_path) as run:
        wrong = disagreements(path, "http", cases, [slt.answer(case, run) for case in cases])
    assert not wrong, "\n\n".join(wrong)


@contextlib.contextmanager
def dialogue(folder: pathlib.Path) -> Iterator[slt.Route]:
    """A route through one connection to a gateway of its own."""
    gateway = offline.MemoryWorld(folder).gateway
    with contextlib.closing(gateway), gateway.connect() as connection:
        gateway.parts.connections.catalog("lake").pyiceberg.create_namespace("default")
        yield functools.partial(run_over, connection)


def disagreements(
    path: pathlib.Path, route: str, cases: list[slt.Case], found: list[str]
) -> list[str]:
    """Where answers differ from what a file says."""
    return [
        f"{path.name}:{case.line} by {route}\n{case.sql}\n"
        f"--- expected\n{slt.expected(case)}\n--- found\n{answer}"
        for case, answer in zip(cases, found, strict=True)
        if answer != slt.expected(case)
    ]

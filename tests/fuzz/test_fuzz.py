"""Goal: a valid query is answered alike by everything that can answer it, or fails by name.

Method: queries drawn from seeds, over tables drawn from seeds, their rows cold, hot and split. On
DuckDB the answers are compared with those of plain DuckDB over all rows, where it means the same,
and with those of Spark among the long proofs. What NaN, -0.0, nulls and casts that may fail make
of a statement, a real Trino has said: its answers are recorded. Queries that once went wrong are
kept in `cases`. `make fuzz SEED=1 COUNT=20000` is the same for longer.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

import pytest
from support.gateway import Gateway
from support.stack import Stack

from fuzz import cases, recorded
from fuzz.answers import SKIPPABLE, Answer, answer_of, disagreement
from fuzz.expressions import simplest
from fuzz.nodes import smaller
from fuzz.oracle import Oracle
from fuzz.queries import statement
from fuzz.run import Count, batch, judge
from fuzz.schema import tables
from fuzz.targets import Live, Offline, duckdb_engine
from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.errors import SeamlineError

CASES = sorted(cases.FOLDER.glob("*.json"))
SEED = 7


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBWorkers]:
    made = duckdb_engine(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.close()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_query_that_went_wrong_once(
    path: pathlib.Path, engine: DuckDBWorkers, scratch: pathlib.Path
) -> None:
    query, stored = cases.read(path)
    verdict = judge(query, Offline(stored, scratch, engine), Oracle(stored), spark=False)
    assert not verdict.failure, verdict


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_query_that_went_wrong_once_on_spark(
    path: pathlib.Path, stack: Stack, gateway: Gateway, name: str
) -> None:
    query, stored = cases.read(path)
    verdict = judge(query, Live(stored, stack, gateway, name), Oracle(stored), spark=True)
    assert not verdict.failure, verdict


@pytest.mark.parametrize(
    ("batches", "size"),
    [
        (1, 20),
        pytest.param(3, 20, marks=pytest.mark.prove),
        pytest.param(6, 30, marks=pytest.mark.soak),
        pytest.param(20, 40, marks=pytest.mark.soak),
    ],
    ids=("few", "some", "many", "more"),
)
def test_random_queries(
    batches: int, size: int, engine: DuckDBWorkers, scratch: pathlib.Path
) -> None:
    count, failures = Count(), []
    for number in range(batches):
        numbers = range(number * size, (number + 1) * size)
        failures += [
            f"seed {SEED}, query {failed}: {verdict}\n{query.node.trino}"
            for failed, query, verdict, _ in batch(
                SEED, numbers, lambda found: Offline(found, scratch, engine), count, spark_every=0
            )
        ]
    assert not failures, "\n\n".join(failures)
    assert count.queries == batches * size
    assert count.outcomes["duckdb", "rows"] > count.queries * 0.6
    assert count.plain > count.queries * 0.1


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.one_in(test=2)) for part in range(2)]
)
def test_random_statements_are_answered_as_a_real_trino_did(
    part: int, scratch: pathlib.Path
) -> None:
    engine = DuckDBEngine(
        memory_bytes=1 << 29, threads=1, spill_directory=str(scratch / "s"), spill_bytes=1 << 28
    )
    with contextlib.closing(engine):
        found = recorded.read()[part::2]
        wrong = list(differences(Offline([recorded.table()], scratch, engine), found))
    assert not wrong, "\n".join(wrong[:20])


def test_what_is_recorded_is_what_is_drawn() -> None:
    assert [one.sql for one in recorded.read()] == list(recorded.statements())


def differences(target: Offline, found: Sequence[recorded.Recorded]) -> Iterator[str]:
    """Yields statements answered otherwise than Trino did, or not so although that is declared."""
    for one in found:
        query = recorded.query_of(one)
        try:
            answered = target.table(query)
        except SeamlineError as error:
            is_same = one.rows is None and error.code.name in SKIPPABLE
            ours = Answer(None, error.code.name, error.message)
        else:
            right = recorded.answer(one, [column.type for column in answered.columns])
            ours = answer_of(query, answered)
            is_same = right.rows is not None and not disagreement(right, ours)
        if is_same == bool(one.differs):
            yield f"{one.sql}\n   {ours.text()}\n   not {one.rows or one.error}"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.integration
def test_random_queries_on_spark(stack: Stack, gateway: Gateway, name: str) -> None:
    count = Count()
    found = [
        f"seed {SEED}, query {failed}: {verdict}\n{query.node.trino}"
        for failed, query, verdict, _ in batch(
            SEED, range(8), lambda found: Live(found, stack, gateway, name), count, spark_every=4
        )
    ]
    assert not found, "\n\n".join(found)
    assert count.spark >= 2


def test_a_query_is_drawn_from_its_seed_and_has_no_cut_that_is_larger() -> None:
    stored = tables("1/0")
    for number in range(20):
        query = statement(f"1/{number}", stored)
        assert query == statement(f"1/{number}", stored)
        assert all(node.size <= query.node.size for node in smaller(query.node, simplest))

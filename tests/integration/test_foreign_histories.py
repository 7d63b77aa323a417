"""Whatever others do to a table, in whatever order, no row is lost and none is there twice.

Goal: after each step of a random history of rows, maintenance, lines of snapshots and metadata by
other hands, both engines say exactly what a model of plain rows says, or a named error that the
step calls for; so do tokens, snapshots of the past, virtual snapshots and the audit.
Method: `support.foreign_story` over a real broker, a real catalog and a real Spark.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from support.checker import agree, failure
from support.foreign_model import ADOPTED, APPEND, UPSERT
from support.foreign_story import ForeignStory
from support.gateway import Gateway, statement_rows
from support.stack import Stack

from seamline.errors import SeamlineError
from seamline.gateway.commands import auditing
from seamline.gateway.deadline import no_deadline

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::UserWarning:pyiceberg"),
]

STEPS = 14
REPLACED = ("BOUNDARY_MISSING", "INVALID_TABLE_DEFINITION")
GONE = ("TOKEN_EXPIRED", "HISTORY_CHANGED", "COLUMN_NOT_FOUND")
"""What a token may end with: the column may have had another name."""


class Reading:
    """Reads the table of a history in every way, and compares.

    Args:
        gateway: The gateway.
        story: The history.
    """

    def __init__(self, gateway: Gateway, story: ForeignStory) -> None:
        self._gateway, self._story = gateway, story
        self._tokens: list[tuple[str, list[Any]]] = []
        self._dice = random.Random(story.name)

    def check(self) -> None:
        """Every reading says what the model says."""
        story = self._story
        if story.doubled_from is not None:
            for engine in ("duckdb", "spark"):
                error = failure(self._gateway, f"SELECT id FROM {story.name}", engine)
                assert error.code.name == "SECOND_WRITER", error
            story.undouble()
        rows = story.model.rows
        sql = f"SELECT id, {story.text}, n FROM {story.name}"
        statement = agree(self._gateway, sql, engine="auto")
        self._same(statement_rows(statement), rows)
        self._tokens.append((statement.receipt["token"], values(rows)))
        condition, is_met = story.some()
        found = self._gateway.rows(f"{sql} WHERE {condition}")
        self._same(found, [row for row in rows if is_met(row)])
        cold = f'SELECT id, {story.text}, n FROM "{story.name}$cold"'
        self._same(self._gateway.rows(cold), story.model.cold.rows)
        self._check_token()
        self._check_past()

    def _same(self, found: Any, rows: Any) -> None:
        assert values_of(found) == values(rows)

    def _check_token(self, *more: str) -> None:
        token, expected = self._dice.choice(self._tokens)
        for column in ("text", "words"):
            sql = f"SELECT id, {column}, n FROM {self._story.name}"
            statement = self._gateway.statement(sql, token=token)
            if statement.error is None:
                assert values_of(statement_rows(statement)) == expected
            else:
                assert statement.error.code.name in (*GONE, *more), statement.error

    def _check_past(self) -> None:
        snapshot, cold = self._dice.choice(list(self._story.model.past.items()))
        sql = f"SELECT id, n FROM {self._story.name} FOR VERSION AS OF {snapshot}"
        statement = self._gateway.statement(sql)
        if statement.error is not None:
            assert snapshot not in self._story.stack.load(self._story.name).state.snapshots
            return
        expected = [(row.id, row.n) for row in cold.rows]
        assert sorted(map(repr, statement_rows(statement))) == sorted(map(repr, expected))

    def finish(self) -> None:
        """Other engines' tables, and the audit."""
        story = self._story
        live = RestCatalog("live", uri=f"{self._gateway.url}/iceberg")
        table = live.load_table(("default", story.name))
        if not any("avro" in f or "orc" in f for f in formats(table)):
            found = table.scan(selected_fields=("id", story.text, "n")).to_arrow().to_pylist()
            rows = [(row["id"], row[story.text], row["n"]) for row in found]
            self._same(rows, story.model.rows)
        name = story.stack.resolve(story.name)
        try:
            audit = auditing.audit(story.stack.connections, name, no_deadline(), lambda _: None)
        except SeamlineError as error:
            assert error.code.name == "NOT_SUPPORTED", error  # of files that only Spark reads
        else:
            assert not [f for f in audit.found if f.kind is auditing.Kind.DOUBLE], audit

    def check_replaced(self) -> None:
        """What has been put in the table's place has no boundary: it is neither read nor filled."""
        story = self._story
        story.replace()
        for engine in ("duckdb", "spark"):
            error = failure(self._gateway, f"SELECT id FROM {story.name}", engine)
            assert error.code.name in REPLACED, error
        self._check_token(*REPLACED)
        if story.model.mode != ADOPTED:
            before = story.head
            with pytest.raises(SeamlineError) as caught:
                story.stack.tier(story.name)
            assert caught.value.code.name in REPLACED, caught.value
            assert story.head == before


def formats(table: Any) -> set[str]:
    return {str(f).lower() for f in table.inspect.files()["file_format"].to_pylist()}


def values(rows: Any) -> list[str]:
    return sorted(repr(row.values) for row in rows)


def values_of(rows: Any) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


@pytest.mark.soak
@pytest.mark.parametrize("mode", [APPEND, UPSERT, ADOPTED])
@pytest.mark.parametrize("seed", range(40))
def test_a_history(stack: Stack, gateway: Gateway, name: str, mode: str, seed: int) -> None:
    story = ForeignStory(stack, name, seed, mode)
    reading = Reading(gateway, story)
    story.produce()
    try:
        for _ in range(STEPS):
            story.step()
            reading.check()
        reading.finish()
        reading.check_replaced()
    except (AssertionError, SeamlineError) as error:
        raise AssertionError(f"{mode}, seed {seed}: {'; '.join(story.steps)}") from error
    print("\n".join((*story.steps, *story.refusals)))

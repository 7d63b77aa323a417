"""A table that others write to, too: every engine returns the same, and no batch loses their rows.

Method: a table with cold rows and a tail gets one change by a foreign hand. What it then holds is
known from a model of plain rows; both engines must say so, before and after the tail is tiered on
top of the change, and a token from before the change must still give the rows of that time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyiceberg.types import LongType
from support.checker import agree
from support.foreign import delete_where_equal
from support.gateway import Gateway, statement_rows
from support.stack import Stack

from seamline.seam.tiering import Outcome
from seamline.sql.columns import METADATA_FIELDS

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = "id bigint, text varchar, n integer"
COLD, HOT, LATER = range(60), range(60, 80), range(80, 90)
MERGE_ON_READ = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
)
Rows = Mapping[int, tuple[str | None, int | None]]
"""By id: text and n."""


def record(i: int) -> dict[str, object]:
    return {"id": i, "text": f"t{i % 7}", "n": i}


def rows_of(ids: range) -> Rows:
    return {i: (f"t{i % 7}", i) for i in ids}


def unchanged(rows: Rows) -> Rows:
    return rows


def without(rows: Rows, gone: Callable[[int], bool]) -> Rows:
    return {i: row for i, row in rows.items() if not gone(i)}


def merged(rows: Rows) -> Rows:
    changed = {i: ("merged", n) if i % 10 == 0 else (text, n) for i, (text, n) in rows.items()}
    return {**changed, 1000: ("merged", 1000)}


@dataclasses.dataclass(frozen=True, slots=True)
class Hand:
    """What somebody else does to a table.

    Attributes:
        name: In a word or two.
        statements: It, in Spark's SQL.
        work: It, where Spark's SQL has no word for it.
        after: What becomes of the cold rows.
        options: How the table is created.
        text: What the column `text` is called afterwards.
        not_for_duckdb: What EXPLAIN says when only Spark can read the table then.
    """

    name: str
    statements: tuple[str, ...] = ()
    work: Callable[[Stack, str], None] | None = None
    after: Callable[[Rows], Rows] = unchanged
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    text: str = "text"
    not_for_duckdb: str | None = None

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


NULLS = ", ".join(["NULL"] * len(METADATA_FIELDS))
INSERT = f"INSERT INTO {{t}} VALUES (1000, 'foreign', NULL, {NULLS})"
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT id FROM {t} WHERE id % 10 = 0 UNION ALL SELECT 1000) AS s"
    " ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = 'merged'"
    " WHEN NOT MATCHED THEN INSERT (id, text, n) VALUES (s.id, 'merged', 1000)"
)
DELETE = "DELETE FROM {t} WHERE id % 3 = 0"


def deleted(rows: Rows) -> Rows:
    return without(rows, lambda i: i % 3 == 0)


def appended(rows: Rows) -> Rows:
    return {**rows, 1000: ("foreign", None)}


def roll_back(stack: Stack, name: str) -> None:
    """Takes a foreign append back."""
    before = stack.load(name).state.current_snapshot_id
    table = f"lake.default.{name}"
    stack.spark.sql(INSERT.format(t=table)).collect()
    stack.spark.sql(f"CALL lake.system.rollback_to_snapshot('default.{name}', {before})").collect()


def equality_delete(stack: Stack, name: str) -> None:
    """Of a cold row, and of an id that the tail brings only afterwards."""
    delete_where_equal(stack.load(name).iceberg, "id", [3, 7, 65])


def add_in_front(stack: Stack, name: str) -> None:
    with stack.load(name).iceberg.update_schema() as update:
        update.add_column("extra", LongType())
        update.move_first("extra")


HANDS = (
    Hand("append", (INSERT,), after=appended),
    Hand("append in avro", (
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'avro')",
        INSERT,
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('write.format.default')",
    ), after=appended, not_for_duckdb="AVRO"),
    Hand("update", ("UPDATE {t} SET text = NULL WHERE id = 5",),
         after=lambda rows: {**rows, 5: (None, 5)}),
    Hand("update in place", (MERGE_ON_READ, "UPDATE {t} SET text = NULL WHERE id = 5"),
         after=lambda rows: {**rows, 5: (None, 5)}),
    Hand("overwrite of a partition", (
        f"INSERT OVERWRITE {{t}} PARTITION (n = 1) VALUES (1, 'over', {NULLS})",
    ), after=lambda rows: {**rows, 1: ("over", 1)}, options={"partitioning": ("n",)}),
    Hand("merge", (MERGE,), after=merged),
    Hand("merge in place", (MERGE_ON_READ, MERGE), after=merged),
    Hand("merge in version 3", (MERGE_ON_READ, MERGE), after=merged,
         options={"format_version": 3}),
    Hand("delete", (DELETE,), after=deleted),
    Hand("position deletes", (MERGE_ON_READ, DELETE), after=deleted),
    Hand("deletion vectors", (MERGE_ON_READ, DELETE, "DELETE FROM {t} WHERE id = 1"),
         after=lambda rows: without(rows, lambda i: i % 3 == 0 or i == 1),
         options={"format_version": 3}),
    Hand("deletes rewritten", (
        MERGE_ON_READ, DELETE, "CALL lake.system.rewrite_position_delete_files('{n}')",
    ), after=deleted),
    Hand("equality deletes", work=equality_delete,
         after=lambda rows: without(rows, lambda i: i in (3, 7))),
    Hand("rollback", work=roll_back),
    Hand("branch", (
        "ALTER TABLE {t} CREATE BRANCH other",
        INSERT.replace("{t}", "{t}.branch_other"),
    )),
    Hand("files and manifests rewritten", (
        "CALL lake.system.rewrite_data_files(table => '{n}', "
        "options => map('rewrite-all', 'true'))",
        "CALL lake.system.rewrite_manifests('{n}')",
    )),
    Hand("version 3 from now on", (
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')", MERGE_ON_READ, DELETE,
    ), after=deleted),
    Hand("column renamed", ("ALTER TABLE {t} RENAME COLUMN text TO words",), text="words"),
    Hand("columns in another order", ("ALTER TABLE {t} ALTER COLUMN n FIRST",)),
    Hand("column promoted", ("ALTER TABLE {t} ALTER COLUMN n TYPE bigint",)),
    Hand("column added in front", work=add_in_front),
    Hand("partitioned anew", ("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)", INSERT),
         after=appended),
)  # fmt: skip


def expect(gateway: Gateway, name: str, hand: Hand, rows: Rows) -> None:
    """Both engines say that the table holds these rows, and nothing else."""
    sql = f"SELECT id, {hand.text}, n FROM {name}"
    statement = agree(gateway, sql, engine="auto")
    found = sorted(statement_rows(statement))
    assert found == sorted((i, *row) for i, row in rows.items())
    count = f"SELECT count(*), count({hand.text}), min(n), max(id) FROM {name}"
    (total,) = statement_rows(agree(gateway, count, engine="auto"))
    numbers = [n for _, n in rows.values() if n is not None]
    texts = sum(text is not None for text, _ in rows.values())
    assert total == (len(rows), texts, min(numbers), max(rows))
    if hand.not_for_duckdb is not None:
        plan = "\n".join(row[0] for row in gateway.rows(f"EXPLAIN {sql}"))
        assert hand.not_for_duckdb.lower() in plan.lower(), plan
        error = gateway.statement(sql, "duckdb").error
        assert error is not None
        assert hand.not_for_duckdb.lower() in error.message.lower(), error


@pytest.mark.one_in(prove=24)
@pytest.mark.parametrize("hand", HANDS, ids=str)
def test_a_foreign_hand(stack: Stack, gateway: Gateway, name: str, hand: Hand) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS, **hand.options)
    stack.produce(name, [record(i) for i in COLD])
    stack.tier(name)
    stack.produce(name, [record(i) for i in HOT])
    before = gateway.statement(f"SELECT id, text, n FROM {name}")
    for statement in hand.statements:
        full = statement.format(t=f"lake.default.{name}", n=f"default.{name}")
        stack.spark.sql(full).collect()
    if hand.work is not None:
        hand.work(stack, name)
    expected = {**hand.after(rows_of(COLD)), **rows_of(HOT)}
    expect(gateway, name, hand, expected)
    (step,) = stack.tier(name)
    assert step.outcome is Outcome.ROWS
    stack.produce(name, [record(i) for i in LATER])
    expect(gateway, name, hand, {**expected, **rows_of(LATER)})
    token = before.receipt["token"]
    again = gateway.rows(f"SELECT id, text, n FROM {name}", token=token)
    assert sorted(again) == sorted(statement_rows(before))

"""Everything that is done to a table by its owner, while others read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from support.references import retain
from support.stack import Stack

Change = Callable[[Stack, str], object]


def sql(*statements: str) -> Change:
    """A change made by statements of Spark."""

    def change(stack: Stack, name: str) -> None:
        table = stack.load(name).state
        earlier = [s for _, s in table.snapshot_log if s != table.current_snapshot_id]
        names = {"t": f"lake.default.{name}", "name": f"default.{name}"}
        for statement in statements:
            text = statement.format(**names, earlier=earlier[-1] if earlier else None)
            stack.spark.sql(text).collect()

    return change


CHANGES: Mapping[str, Change] = {
    "a property": sql("ALTER TABLE {t} SET TBLPROPERTIES ('owner.note' = 'x')"),
    "a tag": sql("ALTER TABLE {t} CREATE TAG monthly RETAIN 5 DAYS"),
    "a branch": sql("ALTER TABLE {t} CREATE BRANCH audit RETAIN 5 DAYS"),
    "a commit to a branch": sql(
        "ALTER TABLE {t} CREATE BRANCH other", "DELETE FROM {t}.branch_other WHERE id < 5"
    ),
    "another schema": sql("ALTER TABLE {t} ADD COLUMN more bigint"),
    "another partitioning": sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)"),
    "a batch": lambda stack, name: stack.tier(name),
    "a rollback": sql("CALL lake.system.rollback_to_snapshot('{name}', {earlier})"),
    "retention": lambda stack, name: retain(stack.load(name), "main"),
    "statistics": sql("CALL lake.system.compute_table_stats('{name}')"),
    "compaction": lambda stack, name: stack.maintain(name, expire=False),
    "expiry": lambda stack, name: stack.maintain(name, compact=False, rewrite_manifests=False),
    "a newer format": sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')"),
}
"""In an order in which each can follow those before it. A rollback takes no record away: those of
the batch are in the tail again."""

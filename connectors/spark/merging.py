"""Merges a batch into an upsert table: the newest of each key replaces, adds or removes a row.

This takes one MERGE statement, which joins the table with the batch by key. Iceberg then writes the
new rows, and which positions of the old files are gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.connectors.spark.relation import last_truncate_sql, moved_key_sql, newest_rows_sql
from seamline.seam.records import DecoderSpec
from seamline.seam.upserts import Newest
from seamline.sql import columns
from seamline.sql.quoting import spark_name
from seamline.sql.types import Field

_SUMMARY = "spark.sql.iceberg.snapshot-property."


def merge(
    session: Any,
    rows: Any,
    table: Sequence[str],
    newest: Newest,
    spec: DecoderSpec,
    summary: Mapping[str, str],
) -> None:
    """Merges rows into a table in one commit.

    Args:
        session: A Spark session that nothing else uses: its settings are changed for the
            statement.
        rows: The decoded records, a frame of that session.
        table: The table's name, its branch included.
        newest: Which of the rows count.
        spec: The columns of the rows.
        summary: The summary properties of the commit's snapshot.
    """
    settings = {_SUMMARY + name: value for name, value in summary.items()}
    settings["spark.sql.iceberg.check-nullability"] = "false"
    view = f"seamline_batch_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        truncate = _last_truncate(session, view, newest) if newest.takes_truncates else None
        session.sql(merge_sql(spark_name(*table), view, newest, spec.columns, truncate))
    finally:
        for name in settings:
            session.conf.unset(name)
        session.catalog.dropTempView(view)


def _last_truncate(session: Any, view: str, newest: Newest) -> int | None:
    """Reads the batch once to find out at which offset it truncates the table, if it does."""
    truncate = last_truncate_sql(f"SELECT * FROM {view}", newest)
    ((offset,),) = session.sql(f"SELECT {truncate}").collect()
    return None if offset is None else int(offset)


def merge_sql(
    table: str, view: str, newest: Newest, fields: Sequence[Field], truncate: int | None = None
) -> str:
    """Returns the MERGE statement.

    With the offset of a truncate, only the records after it count, and every row of the table that
    none of them replaces is deleted.

    A bad record under the policy `skip` is not among the rows. A record whose key is in another
    partition than the row it would replace makes the statement fail.
    """
    own = [field.name for field in fields if field.name != columns.DELETED]
    of_table = {name: f"old.{spark_name(name)}" for name in own}
    of_batch = {name: f"new.{spark_name(name)}" for name in (*own, columns.DELETED)}
    partition = newest.partition.name
    same = " AND ".join(f"{of_table[name]} = {of_batch[name]}" for name in newest.key_names)
    assigned = ", ".join(f"{of_table[name]} = {of_batch[name]}" for name in own)
    last = None if truncate is None else f"{truncate}L"
    rest = "" if truncate is None else " WHEN NOT MATCHED BY SOURCE THEN DELETE"
    rows = newest_rows_sql(f"SELECT * FROM {view}", newest, last)
    return (
        f"MERGE INTO {table} AS old USING ({rows}) AS new ON {same} "
        f"WHEN MATCHED AND CASE WHEN {of_table[partition]} <> {of_batch[partition]} "
        f"THEN {moved_key_sql(newest)} ELSE {of_batch[columns.DELETED]} END THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED AND NOT {of_batch[columns.DELETED]} THEN "
        f"INSERT ({', '.join(map(spark_name, own))}) VALUES ({', '.join(of_batch[n] for n in own)})"
        f"{rest}"
    )

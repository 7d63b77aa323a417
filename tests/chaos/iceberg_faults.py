"""What others do to an Iceberg table.

Rows are added, deleted and replaced, snapshots rolled back, tags and branches made, columns added
and renamed, and many small commits made. They touch rows in ways the checker knows of: added ones
have negative ids and no offset, and only ids divisible by the table's modulus are deleted.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import In
from pyiceberg.table import Table as PyTable
from pyiceberg.types import StringType

from chaos.arena import Arena, NotInjectedError
from chaos.history import ForeignRow
from chaos.process_faults import Fault
from chaos.tables import FOREIGN, Table
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.spark.sessions import connect
from seamline.errors import COMMIT_CONFLICT, SeamlineError
from seamline.gateway.dev.local.settings import CATALOG, SCHEMA
from seamline.seam.boundary import boundary_of
from seamline.seam.table import TableState

_ATTEMPTS = 12
_TINY_COMMITS = 8
_SPARK_S = 30.0
_SPARK_ATTEMPTS = 8
_LOST = ("onflict", "is not an ancestor of")
"""For a statement whose snapshot another commit has replaced meanwhile."""
_SPARK_NAME = f"{CATALOG}.{SCHEMA}.{FOREIGN.name}"

_IN: Any = In  # its type accepts less than it does


def _load(arena: Arena, table: Table = FOREIGN) -> PyTable:
    return arena.stack.connections.catalog(CATALOG).pyiceberg.load_table((SCHEMA, table.name))


def again(arena: Arena, work: Callable[[PyTable], str], of: Table = FOREIGN) -> str:
    """Does the work on the newest state of a table, and again when another commit won."""
    for _ in range(_ATTEMPTS):
        try:
            return work(_load(arena, of))
        except CommitFailedException:
            continue
        except SeamlineError as error:
            if error.code is not COMMIT_CONFLICT:
                raise
    raise NotInjectedError("other commits kept winning")


def _rows(arena: Arena, table: PyTable, count: int, *, announced: bool = True) -> pa.Table:
    """New rows in the table's own columns, announced to the checker."""
    ids = [-next(arena.foreign_ids) for _ in range(count)]
    if announced:
        now = time.monotonic()
        arena.recorder.record(*(ForeignRow(FOREIGN.name, id_, now) for id_ in ids))
    schema = table.schema().as_arrow()
    columns = [
        pa.array(ids, field.type) if field.name == "id" else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _victims(arena: Arena, chance: random.Random) -> list[int]:
    modulus = FOREIGN.touched_modulus
    ids = [id_ for id_ in arena.oracle.newest_ids(FOREIGN.topic) if id_ % modulus == 0]
    if not ids:
        raise NotInjectedError("there is no row yet that may be touched")
    return chance.sample(ids, min(len(ids), 5))


def append(arena: Arena, chance: random.Random) -> str:
    """Rows that come from no record."""

    def work(table: PyTable) -> str:
        table.append(_rows(arena, table, 3))
        return "3 rows"

    return again(arena, work)


def delete_by_copy(arena: Arena, chance: random.Random) -> str:
    """Rows deleted by rewriting their files."""
    victims = _victims(arena, chance)

    def work(table: PyTable) -> str:
        table.delete(_IN("id", set(victims)))
        return f"{len(victims)} ids"

    return again(arena, work)


def overwrite(arena: Arena, chance: random.Random) -> str:
    """Rows replaced by others."""
    victims = _victims(arena, chance)

    def work(table: PyTable) -> str:
        table.overwrite(_rows(arena, table, 2), overwrite_filter=_IN("id", set(victims)))
        return f"{len(victims)} ids by 2 rows"

    return again(arena, work)


def delete_by_position(arena: Arena, chance: random.Random) -> str:
    """Rows deleted by Spark, with position deletes."""
    listed = ", ".join(map(str, _victims(arena, chance)))
    return _spark(arena, f"DELETE FROM {_SPARK_NAME} WHERE id IN ({listed})")


def merge(arena: Arena, chance: random.Random) -> str:
    """Rows deleted by Spark with MERGE."""
    values = ", ".join(f"({id_}L)" for id_ in _victims(arena, chance))
    return _spark(
        arena,
        f"MERGE INTO {_SPARK_NAME} t USING (SELECT * FROM VALUES {values} AS v(id)) s "
        "ON t.id = s.id WHEN MATCHED THEN DELETE",
    )


def _spark(arena: Arena, statement: str) -> str:
    session = connect(arena.stack.other_spark_url)
    stop = threading.Timer(_SPARK_S, session.client.close)
    stop.start()
    try:
        for attempt in range(_SPARK_ATTEMPTS):
            try:
                session.sql(statement).collect()
                break
            except Exception as error:
                text = " ".join(str(error).split())[:160]
                if not any(part in text for part in _LOST) or attempt == _SPARK_ATTEMPTS - 1:
                    raise NotInjectedError(text) from error
    finally:
        stop.cancel()
        session.client.close()
    return "by Spark"


def rollback(arena: Arena, chance: random.Random) -> str:
    """The head of the table is moved back to an earlier snapshot."""
    for _ in range(_ATTEMPTS):
        table = arena.stack.connections.catalog(CATALOG).load((SCHEMA, FOREIGN.name))
        head = table.state.current_snapshot_id
        assert head is not None
        earlier = _bounded(table.state)
        if not earlier:
            raise NotInjectedError("there is no earlier snapshot with a boundary")
        back = chance.choice(earlier)
        try:
            commits.move_head(table, head, back)
        except SeamlineError as error:
            if error.code is not COMMIT_CONFLICT:
                raise
            continue
        return f"from {head} to {back}"
    raise NotInjectedError("other commits kept winning")


def _bounded(state: TableState) -> list[int]:
    """Up to three snapshots before the head that still know their boundary."""
    found = []
    for snapshot in list(state.ancestors(state.current_snapshot_id))[1:4]:
        try:
            boundary_of(state, snapshot.snapshot_id)
        except SeamlineError:
            break
        found.append(snapshot.snapshot_id)
    return found


def tag(arena: Arena, chance: random.Random) -> str:
    """A tag on the head; the previous one is removed."""
    return again(arena, lambda table: name_head(table, chance, "tag"))


def branch(arena: Arena, chance: random.Random) -> str:
    """A branch, with rows of its own that must never be seen on the main line."""

    def work(table: PyTable) -> str:
        name = name_head(table, chance, "branch")
        table = _load(arena)
        table.append(_rows(arena, table, 2, announced=False), branch=name)
        return name

    return again(arena, work)


def name_head(table: PyTable, chance: random.Random, kind: str) -> str:
    """Adds a tag or a branch to the head, and removes the earlier ones."""
    head = table.metadata.current_snapshot_id
    assert head is not None
    name = f"{kind}_{chance.getrandbits(32):x}"
    old = [ref for ref in table.metadata.refs if ref.startswith(f"{kind}_")]
    manager = table.manage_snapshots()
    if kind == "tag":
        for ref in old:
            manager.remove_tag(ref)
        manager.create_tag(head, name).commit()
    else:
        for ref in old:
            manager.remove_branch(ref)
        manager.create_branch(head, name).commit()
    return name


def add_column(arena: Arena, chance: random.Random) -> str:
    """One more column; after some, the oldest is dropped."""

    def work(table: PyTable) -> str:
        extra = [n for n in table.schema().column_names if n.startswith("extra_")]
        name = f"extra_{chance.getrandbits(32):x}"
        with table.update_schema(allow_incompatible_changes=True) as update:
            for old in extra[:-3]:
                update.delete_column(old)
            update.add_column(name, StringType())
        return name

    return again(arena, work)


def rename_column(arena: Arena, chance: random.Random) -> str:
    """A column is renamed, and renamed back the next time."""

    def work(table: PyTable) -> str:
        old, new = ("text", "note") if "text" in table.schema().column_names else ("note", "text")
        with table.update_schema() as update:
            update.rename_column(old, new)
        return f"{old} to {new}"

    return again(arena, work)


def tiny_commits(arena: Arena, chance: random.Random) -> str:
    """Many commits in a row that change nothing, or one row."""

    def work(table: PyTable) -> str:
        if chance.random() < 0.5:
            table.append(_rows(arena, table, 1))
        else:
            with table.transaction() as transaction:
                transaction.set_properties({"chaos": str(chance.getrandbits(32))})
        return ""

    for _ in range(_TINY_COMMITS):
        again(arena, work)
    return f"{_TINY_COMMITS} commits"


LANES: dict[str, dict[str, Fault]] = {
    "other hands": {
        "Iceberg: foreign append": append,
        "Iceberg: foreign delete, copy on write": delete_by_copy,
        "Iceberg: foreign overwrite": overwrite,
        "Iceberg: rollback": rollback,
        "Iceberg: tag": tag,
        "Iceberg: branch": branch,
        "Iceberg: column added or dropped": add_column,
        "Iceberg: column renamed": rename_column,
        "Iceberg: tiny commits": tiny_commits,
    },
    "other engine": {
        "Iceberg: foreign delete, position deletes": delete_by_position,
        "Iceberg: foreign MERGE": merge,
    },
}

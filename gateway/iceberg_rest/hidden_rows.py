"""Finds the rows of a snapshot that the tail of an upsert table hides, for readers without tails.

They are found by a join with the keys of the tail, as for a statement on DuckDB, and remembered
file by file: when the same tail has grown, only the keys of newer records are looked up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from seamline.connectors.duckdb.engine import find_hidden_rows
from seamline.connectors.duckdb.hidden import ANY_ROWS, HiddenRowsCache, key_scan, without_positions
from seamline.connectors.iceberg.position_deletes import DeletedRows
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engine_tails import FollowedTail
from seamline.connectors.protocols.engines import EngineScan
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.gateway.iceberg_rest.served_table import ServedTable
from seamline.seam.files import ColdPlan, DataFile


class HiddenRowsFinder:
    """Finds hidden rows. Safe to share between threads, for one call per table at a time.

    Args:
        memory_bytes: The memory that finding those of a table may use.
    """

    def __init__(self, *, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._known = HiddenRowsCache(rows_max=ANY_ROWS, file_rows_max=ANY_ROWS)

    def find(
        self,
        table: ServedTable,
        newest: Callable[[], pa.Table],
        deadline: Deadline,
        *,
        whole_files: bool,
    ) -> list[DeletedRows]:
        """Returns the hidden rows of each snapshot file of which the tail hides at least one.

        Args:
            table: An upsert table with a tail.
            newest: Returns the newest row of each key of the tail.
            deadline: The deadline of the request.
            whole_files: Whether to include the rows of such a file that the snapshot's own deletes
                mark.

        Raises:
            SeamlineError: NOT_SUPPORTED if rows cannot be identified by position;
                UPSERT_ORDER_UNKNOWN, COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE.
        """
        scan, plan = _scan(table)
        if not plan.files:
            return []

        def deletes_of(files: Sequence[DataFile]) -> pa.Table | None:
            return table.cold.deleted_rows(dataclasses.replace(plan, files=tuple(files)))

        cache = self._known.anew() if self._known.is_ahead(scan) else self._known
        hidden = find_hidden_rows(
            scan, newest(), deletes_of, cache, deadline, memory_bytes=self._memory_bytes
        )
        by_file = []
        metadata = table.cold.iceberg.metadata
        assert plan.snapshot_id is not None
        for task in table.cold.tasks(plan.snapshot_id, Pruner(metadata, AlwaysTrue())):
            path = task.file.file_path
            positions, deleted = hidden.positions(path), hidden.deleted[path]
            if len(positions) > len(deleted):
                rest = positions if whole_files else np.setdiff1d(positions, deleted)
                by_file.append(DeletedRows(task.file, rest))
        return by_file


def _scan(table: ServedTable) -> tuple[EngineScan, ColdPlan]:
    """Returns the scan of the keys of a table's snapshot, and the snapshot's files.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    tail, newest = table.tail, table.newest()
    assert tail is not None
    assert newest is not None
    seam = tail.seam
    followed = FollowedTail(table.source(), seam.boundary, seam.end)
    scan = key_scan(table.cold, seam.cold.snapshot_id, seam.schema_id, newest, followed)
    plan = scan.cold
    assert plan is not None
    problem = without_positions(plan)
    if problem is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"upsert table {table.name.display} has a tail, and {problem}: other readers "
            "cannot be told which rows the tail replaces",
            hint="Read it through SQL, or tier and compact it first.",
        )
    return scan, plan

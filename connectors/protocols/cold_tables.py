"""The cold side of a table: snapshots of files, and commits to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from seamline.connectors.protocols.deadlines import Deadline
from seamline.seam.evolution import Change
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch


class ColdTable(Protocol):
    """An Iceberg table, or anything that keeps snapshots of files."""

    @property
    def state(self) -> TableState:
        """The metadata this object was loaded with."""

    @property
    def file_access(self) -> Any:
        """Opens files that an engine cannot open: PyIceberg's `FileIO`, or None without one."""

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """Returns the files to read. Pruning may keep too many, never too few.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """Returns the plan with each file's own schema, for DuckDB, and what DuckDB cannot read.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE.
        """

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """Raises unless the table's metadata, which Spark follows by itself, can be trusted.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, PROPERTY_NOT_ALLOWED, SNAPSHOT_GONE,
                STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """Returns the ids of columns by whose partition values Spark would leave out rows.

        Some writers compute partition values wrongly. Spark believes them; `plan` does not.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """Raises if another writer adds the topic's records to a table that Seamline fills.

        Raises:
            SeamlineError: SECOND_WRITER, SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """Returns `path` and `position` (from 0) of the rows deleted from the plan's files.

        Returns None when no file has deletes.
        """

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """Returns, per partition, the first offset in a range with a time at or past a moment.

        The time is the record's. Partitions without one are absent. Rows of batches before
        `first_batch` are of earlier logs, and left out.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """


class TierTable(Protocol):
    """A table that can be tiered into."""

    def load(self) -> TableState:
        """Returns the table as it is now."""

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`; for a snapshot of the last loaded table."""

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """Whether the batch holds at least one row to write."""

    def commit_rows(self, batch: Batch) -> None:
        """Writes the batch's rows and boundary in one commit.

        Raises:
            SeamlineError: COMMIT_CONFLICT when another batch from the same boundary was committed;
                SCHEMA_NOT_EVOLVED when records need other columns, and nothing was written.
        """

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """Changes the columns to what the batch's records need, in separate commits.

        Returns:
            The changes; none when the table's schema is no longer the batch's.

        Raises:
            SeamlineError: SCHEMA_INCOMPATIBLE, COMMIT_CONFLICT, and what reading raises.
        """

    def commit_boundary(self, batch: Batch) -> None:
        """Commits the boundary without rows, on top of the batch's own snapshot only.

        Raises:
            SeamlineError: COMMIT_CONFLICT when the table has changed.
        """

    def keep(self, snapshot_id: int) -> None:
        """Protects the newest snapshot that has its own boundary from expiry."""

    def take_back(self, snapshot_id: int, to: int) -> None:
        """Moves the table's head from a snapshot back to its parent, if it is still there."""

"""Maintenance of a table on Spark: compaction, manifests, expiry that keeps the boundary, orphans.

Expiry never loses the boundary: the head first gets the boundary and the tag, and nothing younger
expires. So neither the newest boundary nor a commit between it and the head can, even if others
commit meanwhile.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.spark.errors import named_errors
from seamline.errors import (
    BOUNDARY_MISSING,
    COLD_FILE_MISSING,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    SeamlineError,
)
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import TAG, renewed
from seamline.seam.files import ScanRequest
from seamline.seam.resuming import unverified
from seamline.seam.table import TableState
from seamline.sql.quoting import spark_name, spark_text

_DELETE_FILES = 2
"""The format version whose position deletes are files of their own."""
_FOLDERS = ("data", "metadata")
"""The folders of a table's location in which Iceberg puts files by itself."""
RETAINED = 10
"""Snapshots that expiry keeps whatever their age, unless it is told otherwise."""
ORPHAN_AFTER_S_MIN = 7 * 86_400.0
"""Seconds for which any file may be one that a writer is about to commit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compaction:
    """How small files are merged.

    Attributes:
        small_bytes: Files below this size are small; None for Iceberg's default, three quarters of
            the size that the table's files should have.
        files_min: The number of small files of a partition that are merged even if they do not
            fill a file; None for Iceberg's default.
        where: A condition in Spark's SQL; files that cannot have such rows are left alone.
    """

    small_bytes: int | None = None
    files_min: int | None = None
    where: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tasks:
    """What is to be done, in this order; nothing by default.

    Attributes:
        compaction: How to merge small files.
        manifests: Whether to merge small manifests.
        expire_after_s: Seconds after which a snapshot is expired.
        retain_last: Snapshots that are kept whatever their age.
        orphan_after_s: Seconds after which a file is removed if no metadata of the table names it.

    Raises:
        SeamlineError: INVALID_ARGUMENT for an age at which a file may belong to a commit to come.
    """

    compaction: Compaction | None = None
    manifests: bool = False
    expire_after_s: float | None = None
    retain_last: int = RETAINED
    orphan_after_s: float | None = None

    def __post_init__(self) -> None:
        if self.orphan_after_s is not None and self.orphan_after_s < ORPHAN_AFTER_S_MIN:
            raise SeamlineError(
                INVALID_ARGUMENT,
                "orphan files can be removed after 7 days at the earliest",
                hint="A younger file may belong to a commit that is still being prepared.",
            )


@dataclasses.dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did.

    Attributes:
        files_rewritten: Small data files that were merged.
        files_added: Files that these became.
        deletes_removed: Files of deletes that were applied to merged files.
        manifests_rewritten: Manifests that were merged.
        snapshots_expired: Snapshots that are no longer kept.
        files_deleted: Files that only the expired snapshots used.
        orphans_deleted: Files that no snapshot used.
    """

    files_rewritten: int = 0
    files_added: int = 0
    deletes_removed: int = 0
    manifests_rewritten: int = 0
    snapshots_expired: int = 0
    files_deleted: int = 0
    orphans_deleted: int = 0


def maintain(
    spark: Any,
    catalog: IcebergCatalog,
    identifier: tuple[str, ...],
    tasks: Tasks,
    *,
    report: Callable[[str], None],
    deadline: Deadline = NoDeadline(),  # noqa: B008 - it has no state
) -> Maintained:
    """Maintains one table.

    Args:
        spark: A Spark session that knows the catalog.
        catalog: The catalog.
        identifier: The table's name in it.
        tasks: What to do.
        report: Called with what is being done.
        deadline: Ends it between two steps; who passes it interrupts what Spark runs.

    Raises:
        SeamlineError: named after the cause, such as NOT_SUPPORTED for deletes that Spark
            overlooks; COMMIT_CONFLICT when other commits kept winning. What
            was done by then remains.
    """
    table = catalog.load(identifier)
    table.require_own_writer()
    table.require_own_history()  # merging reads files, and the others remove them
    if tasks.expire_after_s is not None or tasks.orphan_after_s is not None:
        _require_own_garbage(table.state)
    run = _Run(spark, catalog, identifier, report, deadline)
    counts: dict[str, int] = {}
    if tasks.compaction is not None:
        _require_deletes_seen(table)
        counts |= run.compact(tasks.compaction, table)
    if tasks.manifests:
        counts |= run.merge_manifests()
    if tasks.expire_after_s is not None:
        counts |= run.expire(_ago(tasks.expire_after_s), tasks.retain_last, table.state)
    if tasks.orphan_after_s is not None:
        counts |= run.remove_orphans(_ago(tasks.orphan_after_s), table.iceberg.location())
    return Maintained(**counts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """The maintenance of one table; the attributes are those of `maintain`."""

    spark: Any
    catalog: IcebergCatalog
    identifier: tuple[str, ...]
    report: Callable[[str], None]
    deadline: Deadline

    def compact(self, compaction: Compaction, table: IcebergTable) -> dict[str, int]:
        """Merges small files; returns counts of `Maintained`, as all of these do."""
        arguments = _arguments(table, compaction)
        row = self._insist("merging small files", "rewrite_data_files", *arguments)
        if compaction.where is None and _has_delete_files(table.state):
            self._insist("merging files of deletes", "rewrite_position_delete_files")
        return {
            "files_rewritten": row["rewritten_data_files_count"],
            "files_added": row["added_data_files_count"],
            "deletes_removed": row["removed_delete_files_count"],
        }

    def merge_manifests(self) -> dict[str, int]:
        """Merges small manifests."""
        row = self._insist("merging manifests", "rewrite_manifests")
        return {"manifests_rewritten": row["rewritten_manifests_count"]}

    def expire(
        self, older_than: datetime.datetime, retain_last: int, before: TableState
    ) -> dict[str, int]:
        """Expires snapshots, but none from that of the boundary on."""

        def expire() -> Mapping[str, Any]:
            carried_at = protect_boundary(self.catalog, self.identifier)
            moment = older_than if carried_at is None else min(older_than, carried_at)
            return self._call("expire_snapshots", _older(moment), f"retain_last => {retain_last}")

        self.report("expiring snapshots")
        row = commits.insist(expire, self.report)
        after = self.catalog.load(self.identifier).state
        return {
            "snapshots_expired": len(set(before.snapshots) - set(after.snapshots)),
            "files_deleted": sum(v for k, v in row.items() if k.startswith("deleted_") and v),
        }

    def remove_orphans(self, older_than: datetime.datetime, location: str) -> dict[str, int]:
        """Removes files in the table's own folders that no metadata of it names."""
        self.report("removing orphan files")
        return {
            "orphans_deleted": sum(
                self._remove_orphans_in(f"{location.rstrip('/')}/{folder}", older_than)
                for folder in _FOLDERS  # beside them there may be another table
            )
        }

    def _remove_orphans_in(self, folder: str, older_than: datetime.datetime) -> int:
        """Removes the files of one folder, which its store may not know; returns how many."""
        within = f"location => {spark_text(folder)}"
        listing = "prefix_listing => true"  # by the table's own access, as Hadoop may have none
        try:
            return len(self._rows("remove_orphan_files", _older(older_than), within, listing))
        except SeamlineError as error:
            is_empty = f"/{folder.rpartition('/')[2]} does not exist" in error.message
            if error.code is COLD_FILE_MISSING and is_empty:
                return 0
            raise

    def _insist(self, what: str, procedure: str, *arguments: str) -> Mapping[str, Any]:
        self.report(what)
        return commits.insist(lambda: self._call(procedure, *arguments), self.report)

    def _call(self, procedure: str, *arguments: str) -> Mapping[str, Any]:
        (row,) = self._rows(procedure, *arguments)
        counts: Mapping[str, Any] = row.asDict()
        return counts

    def _rows(self, procedure: str, *arguments: str) -> list[Any]:
        self.deadline.check()
        name = spark_name(self.catalog.name, *self.identifier)
        listed = ", ".join((f"table => {spark_text(name)}", *arguments))
        with named_errors(self.deadline):
            call = f"CALL {spark_name(self.catalog.name)}.system.{procedure}({listed})"
            rows: list[Any] = self.spark.sql(call).collect()
            return rows


def _arguments(table: IcebergTable, compaction: Compaction) -> Iterator[str]:
    """Yields the arguments of Iceberg's procedure."""
    options: dict[str, int] = {}
    if compaction.files_min is not None:
        options["min-input-files"] = compaction.files_min
    if compaction.small_bytes is not None:
        declared = table.state.properties.get(_TARGET, "")
        target = int(declared) if declared.isdecimal() else _TARGET_BYTES
        options["min-file-size-bytes"] = min(compaction.small_bytes, target - 1)  # it must be below
    if options:
        pairs = (f"{spark_text(name)}, '{value}'" for name, value in options.items())
        yield f"options => map({', '.join(pairs)})"
    if compaction.where is not None:
        yield f"where => {spark_text(compaction.where)}"


_TARGET, _TARGET_BYTES = "write.target-file-size-bytes", 512 << 20
"""The property with the size that files should have, and Iceberg's default."""


def _ago(seconds: float) -> datetime.datetime:
    """Returns a moment in the past, not before 1970."""
    return datetime.datetime.fromtimestamp(max(0.0, time.time() - seconds), datetime.UTC)


def _older(moment: datetime.datetime) -> str:
    at = moment.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return f"older_than => TIMESTAMP '{at}'"


def protect_boundary(
    catalog: IcebergCatalog, identifier: tuple[str, ...]
) -> datetime.datetime | None:
    """Makes the head of a unified table carry its boundary, and tags it; ignores a plain table.

    A batch that nobody has checked yet is not tagged, as it may be taken back.

    Returns:
        When the oldest snapshot that may still be needed was committed: the one that carries the
        boundary, or the one before an unchecked batch; None for a plain table.

    Raises:
        SeamlineError: COMMIT_CONFLICT when another commit was faster, SECOND_WRITER.
    """
    table = catalog.load(identifier)
    try:
        boundary = renewed(table.state)
    except SeamlineError as error:
        if error.code is BOUNDARY_MISSING:
            return None
        raise
    carrier = table.state.current_snapshot_id
    table.require_single_writer(carrier)  # nobody can know once its snapshots are gone
    if boundary is not None:
        carrier = commits.commit_boundary(table, boundary)
        table = catalog.load(identifier)
    tagged, doubted = table.state.refs.get(TAG), unverified(table.state)
    assert carrier is not None, "it has a boundary"
    oldest = table.state.snapshots[carrier]
    if doubted is not None and doubted.parent_id is not None:
        oldest = table.state.snapshots.get(doubted.parent_id, oldest)
    elif tagged is None or tagged.snapshot_id != carrier:
        commits.tag_boundary(table, carrier)
    return datetime.datetime.fromtimestamp(oldest.timestamp_ms / 1000, datetime.UTC)


def _require_deletes_seen(table: IcebergTable) -> None:
    """Requires that Spark sees every delete: a row whose delete it misses would return for good."""
    state = table.state
    plan = table.plan(state.current_snapshot_id, ScanRequest(state.current_schema_id, ()))
    if plan.only_duckdb is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"small files of {state.display_name} cannot be merged: Spark overlooks "
            f"{plan.only_duckdb}, so deleted rows would come back",
            hint="Let the writer of these deletes compact the table.",
        )


def _require_own_garbage(state: TableState) -> None:
    """Requires that the table does not say that others may need its files."""
    if state.properties.get("gc.enabled", "true").lower() == "false":
        raise SeamlineError(
            NOT_SUPPORTED,
            f"files of {state.display_name} are not removed: its property gc.enabled is false",
            hint="Set gc.enabled to true if no other table uses its files.",
        )


def _has_delete_files(state: TableState) -> bool:
    """Whether batches leave position delete files; in version 3 they leave vectors."""
    binding = TopicBinding.from_properties(state.properties)
    return binding is not None and binding.is_upsert and state.format_version == _DELETE_FILES

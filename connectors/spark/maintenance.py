"""Maintenance of a table on Spark: compaction, manifests, and expiry that keeps the boundary.

Expiry never loses the boundary: the head first gets the boundary and the tag, and nothing younger
expires. So neither the newest boundary nor a commit between it and the head can, even if others
commit meanwhile.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

from seamline.connectors.iceberg import commits
from seamline.connectors.iceberg.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.spark.errors import named_error
from seamline.connectors.spark.settings import quoted_name
from seamline.errors import BOUNDARY_MISSING, NOT_SUPPORTED, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import TAG, renewed
from seamline.seam.files import ScanRequest
from seamline.seam.table import TableState

_DELETE_FILES = 2
"""The format version whose position deletes are files of their own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did.

    Attributes:
        files_rewritten: Small data files that were merged.
        files_added: Files that these became.
        manifests_rewritten: Manifests that were merged.
        snapshots_expired: Snapshots that are no longer kept.
        files_deleted: Files that only the expired snapshots used.
    """

    files_rewritten: int = 0
    files_added: int = 0
    manifests_rewritten: int = 0
    snapshots_expired: int = 0
    files_deleted: int = 0


def maintain(
    spark: Any,
    catalog: IcebergCatalog,
    identifier: tuple[str, ...],
    *,
    compact: bool,
    rewrite_manifests: bool,
    expire_older_than: datetime.datetime | None,
    retain_last: int,
    report: Callable[[str], None],
) -> Maintained:
    """Maintains one table.

    Args:
        spark: A Spark session that knows the catalog.
        catalog: The catalog.
        identifier: The table's name in it.
        compact: Whether to merge small files.
        rewrite_manifests: Whether to merge small manifests.
        expire_older_than: Snapshots older than this are expired; None expires none.
        retain_last: Snapshots that are kept whatever their age.
        report: Called with what is being done.

    Raises:
        SeamlineError: named after the cause, such as NOT_SUPPORTED for deletes that Spark
            overlooks; COMMIT_CONFLICT when other commits kept winning. What
            was done by then remains.
    """
    found = catalog.load(identifier)
    found.require_own_writer()
    found.require_own_history()  # merging reads files, and expiry removes them
    before, result = found.state, Maintained()
    table = f"table => '{quoted_name((catalog.name, *identifier))}'"
    if compact:
        _require_deletes_seen(found)
        report("merging small files")
        row = commits.insist(lambda: _call(spark, catalog, "rewrite_data_files", table), report)
        result = dataclasses.replace(
            result,
            files_rewritten=row["rewritten_data_files_count"],
            files_added=row["added_data_files_count"],
        )
        if _has_delete_files(before):
            report("merging files of deletes")
            merging = "rewrite_position_delete_files"
            commits.insist(lambda: _call(spark, catalog, merging, table), report)
    if rewrite_manifests:
        report("merging manifests")
        row = commits.insist(lambda: _call(spark, catalog, "rewrite_manifests", table), report)
        result = dataclasses.replace(result, manifests_rewritten=row["rewritten_manifests_count"])
    if expire_older_than is not None:
        report("expiring snapshots")
        row = commits.insist(
            lambda: _expire(spark, catalog, identifier, expire_older_than, retain_last), report
        )
        after = catalog.load(identifier).state
        result = dataclasses.replace(
            result,
            snapshots_expired=len(set(before.snapshots) - set(after.snapshots)),
            files_deleted=sum(v for k, v in row.items() if k.startswith("deleted_") and v),
        )
    return result


def _expire(
    spark: Any,
    catalog: IcebergCatalog,
    identifier: tuple[str, ...],
    older_than: datetime.datetime,
    retain_last: int,
) -> dict[str, Any]:
    carried_at = protect_boundary(catalog, identifier)
    moment = older_than if carried_at is None else min(older_than, carried_at)
    text = moment.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    arguments = (
        f"table => '{quoted_name((catalog.name, *identifier))}', "
        f"older_than => TIMESTAMP '{text}', retain_last => {retain_last}"
    )
    return _call(spark, catalog, "expire_snapshots", arguments)


def protect_boundary(
    catalog: IcebergCatalog, identifier: tuple[str, ...]
) -> datetime.datetime | None:
    """Makes the head of a unified table carry its boundary, and tags it; ignores a plain table.

    Returns:
        When the snapshot that carries the boundary was committed; None for a plain table.

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
    known = table.state.refs.get(TAG)
    assert carrier is not None, "it has a boundary"
    if known is None or known.snapshot_id != carrier:
        commits.tag_boundary(table, carrier)
    committed_ms = table.state.snapshots[carrier].timestamp_ms
    return datetime.datetime.fromtimestamp(committed_ms / 1000, datetime.UTC)


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


def _has_delete_files(state: TableState) -> bool:
    """Whether batches leave position delete files; in version 3 they leave vectors."""
    binding = TopicBinding.from_properties(state.properties)
    return binding is not None and binding.is_upsert and state.format_version == _DELETE_FILES


def _call(spark: Any, catalog: IcebergCatalog, procedure: str, arguments: str) -> dict[str, Any]:
    try:
        (row,) = spark.sql(f"CALL `{catalog.name}`.system.{procedure}({arguments})").collect()
    except Exception as error:
        raise named_error(error) from error
    found: dict[str, Any] = row.asDict()
    return found

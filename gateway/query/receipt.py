"""Receipts: what a result reflects. Every result carries one.

A receipt is JSON-ready. It has the seam of each table, the rows and bytes per tier, the engine and
the reason for it, how fresh the rows are, whether the table's own policy left anything out, and the
token that repeats them. Numbers that tell of rows or values that its reader may not see are null.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seamline.connectors.kafka.tail import Tail
from seamline.gateway.access.rights import Sight, TableRights
from seamline.gateway.config.model import Config
from seamline.gateway.query.pin import PinnedTable
from seamline.gateway.query.snapshot_tags import Pin, Tagging
from seamline.gateway.statements.freshness import Freshness
from seamline.planners.plan.physical import PhysicalPlan
from seamline.seam.seam import Seam, SeamKey

_OF_VALUES = frozenset({"engine_reason", "bytes_cold", "bytes_hot"})
"""What depends on values, also masked ones."""
_OF_ROWS = frozenset({"rows_cold", "rows_hot", "retries", "cache_hit", "computed_at"})
"""What depends on rows, also those that are left out, and on when they arrived."""
_OF_TABLE_VALUES = frozenset({"files_read", "files_kept", "files_total", "tail"})
_OF_TABLE_ROWS = frozenset(
    {
        *("snapshot_id", "boundary", "end", "since", "rows_cold", "offsets_hot", "rows_hot"),
        *("pending_offsets", "skipped_cold", "skipped_hot", "snapshot_tag", "snapshot_tag_problem"),
    }
)


def receipt(
    plan: PhysicalPlan,
    tails: Mapping[SeamKey, Tail],
    *,
    freshness: Freshness,
    as_of: datetime.datetime,
    token: str,
    session: str,
    retries: int,
    held: Mapping[Pin, Tagging],
    computed_at: datetime.datetime | None = None,
) -> dict[str, Any]:
    """Returns the receipt of a statement.

    Args:
        plan: The plan that was run.
        tails: The tails that were read here, by the key of their seam.
        freshness: How fresh the rows had to be.
        as_of: Every record committed before this moment is reflected.
        token: The token that repeats the read.
        session: The token that, passed as `after`, keeps later reads from falling behind this one.
        retries: How often the tables had to be pinned again before the first row.
        held: Whether snapshots could be kept from expiring, where that was attempted.
        computed_at: When the rows were computed, if that was for another statement.
    """
    return {
        "engine": plan.route.engine,
        "engine_reason": plan.route.reason,
        "as_of": as_of.isoformat(),
        "freshness": freshness.text,
        "retries": retries,
        "cache_hit": computed_at is not None,
        "computed_at": computed_at.isoformat() if computed_at is not None else None,
        "rows_cold": plan.estimate.cold_rows,
        "rows_hot": sum(tail.records for tail in tails.values()),
        "bytes_cold": plan.estimate.cold_bytes,
        "bytes_hot": sum(tail.size_bytes for tail in tails.values()),
        "tables": [_table(plan, seam, tails.get(seam.key), held) for seam in plan.seams],
        "token": token,
        "session": session,
    }


def shown(
    whole: Mapping[str, Any], rights: Mapping[tuple[str, ...], Sequence[TableRights]]
) -> dict[str, Any]:
    """Returns a receipt as the caller may see it.

    Args:
        whole: The receipt.
        rights: The rights to each table: the caller's, and those that it was read with.
    """
    hidden = _hidden(itertools.chain.from_iterable(rights.values()), _OF_VALUES, _OF_ROWS)
    if not hidden:
        return dict(whole)
    tables = []
    for table in whole["tables"]:
        own = _hidden(rights.get(tuple(table["table"]), ()), _OF_TABLE_VALUES, _OF_TABLE_ROWS)
        tables.append({**table, **dict.fromkeys(own)})
    return {**whole, **dict.fromkeys(hidden), "tables": tables}


def _hidden(
    rights: Iterable[TableRights], of_values: frozenset[str], of_rows: frozenset[str]
) -> frozenset[str]:
    sight = Sight.of(rights)
    hidden = of_values if not sight.all else frozenset()
    return hidden if sight.rows else hidden | of_rows


def pinned(table: PinnedTable, token: str, config: Config) -> dict[str, Any]:
    """Describes a pinned table for an external reader: its seam, locations, and decoding."""
    seam, decoder = table.facts.seam, table.facts.decoder
    cluster = config.clusters[seam.log.cluster] if seam.log.topic else None
    catalog = config.catalogs[seam.table[0]] if table.cold else None
    return {
        **seam.to_json(),
        "metadata_location": table.cold.state.metadata_location if table.cold else None,
        "data_locations": list(catalog.data_locations) if catalog is not None else [],
        "bootstrap_servers": cluster.bootstrap_servers if cluster is not None else None,
        "schema_registry": cluster.schema_registry.public if cluster is not None else None,
        "format": decoder.format if decoder is not None else None,
        "on_error": decoder.on_error if decoder is not None else None,
        "token": token,
    }


def _table(
    plan: PhysicalPlan, seam: Seam, tail: Tail | None, held: Mapping[Pin, Tagging]
) -> dict[str, Any]:
    scans = [scan for scan in plan.logical.scans if scan.seam.key == seam.key]
    cold = [scan.files for scan in scans if scan.files is not None]
    read = plan.tails.get(seam.key)
    kept = plan.partial.kept if plan.partial is not None else 0  # such a plan has one table
    snapshot = held.get((seam.table, seam.cold.snapshot_id or 0), Tagging())
    return {
        "table": list(seam.table),
        "as_of": seam.as_of or None,
        "snapshot_id": seam.cold.snapshot_id,
        "schema_id": seam.schema_id,
        "topic": seam.log.topic or None,
        "topic_id": seam.log.topic_id or None,
        "isolation": seam.log.isolation or None,
        "boundary": seam.boundary.to_json(),
        "boundary_provider": (seam.cold.provider or "seamline") if seam.log.topic else None,
        "boundary_trust": seam.cold.trust or None,
        "end": seam.end.to_json(),
        "since": seam.since.to_json() if seam.since is not None else None,
        "gaps": [gap.to_json() for gap in seam.log.gaps],
        "earlier_logs": seam.cold.earlier_logs,
        "files_read": sum(len(files.files) for files in cold) - kept,
        "files_kept": kept,
        "files_total": max((files.total_files for files in cold), default=0),
        "rows_cold": sum(files.rows for files in cold),
        "offsets_hot": read.offsets if read is not None else 0,
        "rows_hot": tail.records if tail is not None else None,
        "pending_offsets": seam.log.pending,
        "skipped_cold": seam.cold.skipped,
        "skipped_hot": tail.skipped if tail is not None else 0,
        "tail": _origin(tail) if tail is not None else None,
        "snapshot_tag": snapshot.tag,
        "snapshot_tag_problem": snapshot.problem,
    }


def _origin(tail: Tail) -> dict[str, Any]:
    """Describes where the tail came from: segments cached here, and reads from the log."""
    origin = tail.origin
    return {
        "segments": origin.segments,
        "segments_pruned": origin.pruned,
        "segments_looked_up": origin.looked_up,
        "segments_on_disk": origin.spilled,
        "offsets_read": origin.offsets_read,
        "records_of_other_types": origin.of_other_types,
        "note": origin.note or None,
    }

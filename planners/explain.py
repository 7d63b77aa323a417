"""Renders a physical plan as text: the seam of each table, what was pruned, and the engine.

Each partition is drawn as a bar: the snapshot's part, the boundary, and the part read from the log.
Nothing that could be counted or measured is shown of a table that the reader sees in part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from seamline.planners.plan.aggregates import PartialFiles
from seamline.planners.plan.estimate import cached_of
from seamline.planners.plan.logical import Scan
from seamline.planners.plan.physical import PhysicalPlan
from seamline.planners.plan.route import SPARK
from seamline.seam.files import ColdPlan
from seamline.seam.seam import Seam
from seamline.sql import predicates
from seamline.sql.binder.scope import Output
from seamline.sql.engines import render
from seamline.sql.types import Field

PARTITIONS_SHOWN_MAX = 16
_BAR_WIDTH = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Explained:
    """A plan as it may be shown.

    Attributes:
        plan: The plan.
        in_part: Ids of the scans whose tables the reader sees in part only.
    """

    plan: PhysicalPlan
    in_part: frozenset[str] = frozenset()


def explain(explained: Explained, *, verbose: bool = False) -> list[str]:
    """Returns the rendered plan, line by line."""
    plan = explained.plan
    reason = "" if explained.in_part else f" ({plan.route.reason})"
    lines = [f"Engine: {plan.route.engine}{reason}", _output(plan)]
    seen: dict[tuple[str, ...], None] = {}
    for scan in plan.logical.scans:
        lines.append("")
        if scan.scan_id in explained.in_part:
            lines += [*_asked(scan), "└─ rows       those that the access rules leave"]
            continue
        lines.extend(_scan(scan, plan.partial, repeated=scan.seam.key in seen))
        seen[scan.seam.key] = None
    if verbose:
        text = render.to_spark if plan.route.engine == SPARK else render.to_duckdb
        lines += ["", "Bound query:", *text(plan.logical.query.tree).splitlines()]
    return lines


def explain_logical(explained: Explained) -> list[str]:
    """Returns the tables, columns and filters a query asks for, regardless of what is read."""
    plan = explained.plan
    lines = [_output(plan)]
    for scan in plan.logical.scans:
        lines += ["", *_asked(scan)]
    return lines


def explain_json(explained: Explained) -> dict[str, Any]:
    """Returns the plan as a JSON-ready dict."""
    plan, in_part = explained.plan, explained.in_part
    estimate = {
        "rows_cold": plan.estimate.cold_rows,
        "rows_hot": plan.estimate.hot_rows,
        "bytes_cold": plan.estimate.cold_bytes,
    }
    return {
        "engine": plan.route.engine,
        "reason": None if in_part else plan.route.reason,
        "output": _columns(plan.logical.query.output),
        "estimate": {} if in_part else estimate,
        "scans": [
            {**_asked_json(scan), **({} if scan.scan_id in in_part else _scan_json(scan, plan))}
            for scan in plan.logical.scans
        ],
    }


def explain_io(explained: Explained) -> dict[str, Any]:
    """Returns the tables a query reads, with their columns and filters.

    Estimates have Trino's fields. What is not estimated is NaN there, written as text in JSON.
    """
    return {
        "inputTableColumnInfos": [
            {
                "table": {
                    "catalog": scan.seam.table[0],
                    "schemaTable": {
                        "schema": ".".join(scan.seam.table[1:-1]),
                        "table": scan.seam.table[-1],
                    },
                },
                "columns": [column.name for column in scan.columns],
                "constraint": _condition(scan),
                "estimate": _NOT_ESTIMATED
                if scan.scan_id in explained.in_part
                else {**_NOT_ESTIMATED, "outputRowCount": _rows(scan)},
            }
            for scan in explained.plan.logical.scans
        ],
        "estimate": _NOT_ESTIMATED,
    }


_NOT_ESTIMATED = dict.fromkeys(
    ("outputRowCount", "outputSizeInBytes", "cpuCost", "maxMemory", "networkCost"), "NaN"
)


def _output(plan: PhysicalPlan) -> str:
    columns = ", ".join(f"{c.name} {c.type}" for c in plan.logical.query.output)
    return f"Output: {columns}"


def _columns(columns: Iterable[Output | Field]) -> list[dict[str, str]]:
    return [{"name": column.name, "type": str(column.type)} for column in columns]


def _condition(scan: Scan) -> str | None:
    return predicates.describe(scan.predicate) if scan.predicate is not None else None


def _needed_types(scan: Scan) -> str | None:
    """Returns the condition on types under which records are decoded, if there is one."""
    decoder = scan.facts.decoder
    narrowed = decoder.narrowed(scan.tail_predicate) if decoder is not None else None
    needed = narrowed.needed_types if narrowed is not None else None
    return None if needed is None else predicates.describe(needed)


def _rows(scan: Scan) -> int:
    cold = scan.files.rows if scan.files is not None else 0
    return cold + sum(len(r) for r in scan.hot_ranges)


def _asked_json(scan: Scan) -> dict[str, Any]:
    return {
        "table": scan.seam.display_name,
        "kind": scan.facts.kind,
        "columns": _columns(scan.columns),
        "condition": _condition(scan),
    }


def _scan_json(scan: Scan, plan: PhysicalPlan) -> dict[str, Any]:
    files, seam, partial = scan.files, scan.seam, plan.partial
    needed = _needed_types(scan)
    return {
        "snapshot_id": seam.cold.snapshot_id,
        "files": len(files.files) if files is not None else 0,
        **({"files_kept": partial.kept} if partial is not None else {}),
        "files_total": files.total_files if files is not None else 0,
        "rows_cold": files.rows if files is not None else 0,
        "boundary": seam.boundary.to_json(),
        "end": seam.end.to_json(),
        "reads": {str(r.partition): [r.start, r.end_exclusive] for r in scan.hot_ranges},
        "pruned_by": list(scan.pruned_by),
        **({"needed_types": needed} if needed is not None else {}),
        **({"boundary_trust": seam.cold.trust} if seam.cold.trust else {}),
        **({"gaps": [gap.to_json() for gap in seam.log.gaps]} if seam.log.gaps else {}),
        **({"earlier_logs": seam.cold.earlier_logs} if seam.cold.earlier_logs else {}),
        **({"since": seam.since.to_json()} if seam.since is not None else {}),
    }


def _asked(scan: Scan) -> Iterator[str]:
    kind = {"unified": "", "hot": " (log only)", "cold": " (snapshot only)"}.get(
        scan.facts.kind, " (system)"
    )
    yield f"{scan.scan_id}: {scan.seam.display_name}{kind}"
    if scan.columns:
        yield f"├─ columns    {', '.join(c.name for c in scan.columns)}"
    if scan.predicate is not None:
        yield f"├─ filter     {predicates.describe(scan.predicate)}"


def _scan(scan: Scan, partial: PartialFiles | None, *, repeated: bool) -> Iterator[str]:
    yield from _asked(scan)
    if scan.facts.kind == "system":
        yield "└─ rows       from the gateway"
        return
    if scan.files is not None:
        yield f"├─ cold       {_cold(scan.files)}"
        if partial is not None:
            yield f"├─ kept       aggregates of {partial.kept} files; {partial.read} files are read"
    if scan.facts.reads_hot:
        yield f"├─ hot        {_hot(scan)}"
    newest = scan.facts.newest
    if newest is not None:
        yield f"├─ newest of  {', '.join(newest.key_names)}"
    if repeated:
        yield "└─ seam       as above"
        return
    yield from _seam(scan.seam, scan)


def _cold(plan: ColdPlan) -> str:
    deletes = sum(len(file.deletes) for file in plan.files) + len(plan.equality_deletes)
    skipped = plan.total_files - len(plan.files)
    if plan.counted is not None:
        return (
            f"snapshot {plan.snapshot_id}: {plan.counted:,} rows in {plan.total_files} files, "
            "counted by its metadata"
        )
    text = (
        f"snapshot {plan.snapshot_id}: {len(plan.files)} of {plan.total_files} files, "
        f"{plan.rows:,} of {plan.total_rows:,} rows"
    )
    if skipped:
        text += f", {skipped} files pruned"
    if deletes:
        text += f", {deletes} delete files applied"
    if plan.unsupported:
        text += f" [{plan.unsupported}]"
    return text


def _hot(scan: Scan) -> str:
    offsets = sum(len(r) for r in scan.hot_ranges)
    tail = scan.seam.hot_offsets
    text = f"{offsets:,} of {tail:,} offsets in {len(scan.hot_ranges)} partitions"
    cached = cached_of(
        {r.partition: (r.start, r.end_exclusive) for r in scan.hot_ranges}, scan.facts.cached
    )
    if cached:
        text += f", {cached:,} cached here"
    if scan.facts.as_of is not None:
        text += f", as of {scan.facts.as_of.isoformat()}"
    needed = _needed_types(scan)
    if needed is not None:
        text += f", records of types with {needed}"
    if scan.pruned_by:
        text += f", pruned by {', '.join(scan.pruned_by)}"
    return text


def _seam(seam: Seam, scan: Scan) -> Iterator[str]:
    cold, log = seam.cold, seam.log
    if not log.topic:
        yield f"└─ seam       snapshot {cold.snapshot_id} is everything"
        return
    yield (
        f"└─ seam       topic {log.topic} ({log.isolation}), snapshot "
        f"{cold.snapshot_id if cold.snapshot_id is not None else 'none'}"
    )
    if cold.provider:
        yield f"     boundary by {cold.provider}: {cold.trust}"
    hot = {r.partition: r for r in scan.hot_ranges}
    shown = list(seam.end.items())[:PARTITIONS_SHOWN_MAX]
    width = max((len(f"{end:,}") for _, end in shown), default=1)
    for partition, end in shown:
        start = seam.boundary[partition]
        reads = hot.get(partition)
        note = f"reads [{reads.start:,}, {reads.end_exclusive:,})" if reads else "nothing to read"
        since = f"since {seam.since[partition]:>{width},}  " if seam.since is not None else ""
        yield (
            f"     p{partition:<4} {seam_bar(start, end)}  {since}boundary {start:>{width},}  "
            f"end {end:>{width},}  {note}"
        )
    if len(seam.end) > PARTITIONS_SHOWN_MAX:
        yield f"     … and {len(seam.end) - PARTITIONS_SHOWN_MAX} more partitions"
    for gap in log.gaps[:PARTITIONS_SHOWN_MAX]:
        yield (
            f"     p{gap.partition:<4} lacks {gap.offsets:,} offsets of "
            f"[{gap.start:,}, {gap.end_exclusive:,}), which were lost"
        )
    if len(log.gaps) > PARTITIONS_SHOWN_MAX:
        yield f"     … and {len(log.gaps) - PARTITIONS_SHOWN_MAX} more gaps"
    if cold.earlier_logs:
        logs = "a log" if cold.earlier_logs == 1 else f"{cold.earlier_logs} logs"
        yield f"     the snapshot begins with rows of {logs} from before the topic was recreated"
    if log.pending:
        yield f"     {log.pending:,} offsets past the end belong to open transactions"


def seam_bar(boundary: int, end: int) -> str:
    """Draws the snapshot's part, the boundary and the tail, to scale."""
    if end <= 0:
        return "│".ljust(_BAR_WIDTH + 1)
    cold = min(_BAR_WIDTH, round(_BAR_WIDTH * boundary / end))
    if boundary < end:
        cold = min(cold, _BAR_WIDTH - 1)
    return "█" * cold + "│" + "░" * (_BAR_WIDTH - cold)

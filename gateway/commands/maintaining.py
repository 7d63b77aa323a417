"""ALTER TABLE … EXECUTE: maintenance of a table by the gateway's Spark, and going on after a loss.

It is what `seamline table maintain` and `seamline table resume` do. Users of the gateway may not
expire snapshots that a token of the gateway may still refer to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.connectors.spark.conditions import condition
from seamline.connectors.spark.maintenance import (
    ORPHAN_AFTER_S_MIN,
    RETAINED,
    Compaction,
    Tasks,
    maintain,
)
from seamline.errors import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    SCHEMA_NOT_FOUND,
    TABLE_NOT_FOUND,
    Location,
    SeamlineError,
)
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import alterations, resuming
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.rows import METRICS, Rows, done
from seamline.gateway.names import TableName
from seamline.planners.plan.logical import LogicalPlan
from seamline.planners.plan.route import SPARK
from seamline.planners.rules.push_predicates import to_predicate
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing.statements import MaintainTable

_FILES_MIN = 2
"""As in Trino, two small files of a partition are merged: whoever asks for it wants it done."""
_DAY_S = 86_400.0

_METRICS: Mapping[str, Mapping[str, str]] = {
    "optimize": {
        "rewritten_data_files_count": "files_rewritten",
        "added_data_files_count": "files_added",
        "removed_delete_files_count": "deletes_removed",
    },
    "optimize_manifests": {"rewritten_manifests_count": "manifests_rewritten"},
    "expire_snapshots": {
        "expired_snapshots_count": "snapshots_expired",
        "deleted_files_count": "files_deleted",
    },
    "remove_orphan_files": {"deleted_files_count": "orphans_deleted"},
}
"""The metrics that each procedure returns, and the attributes of `Maintained` that they are."""


def run(context: Context[MaintainTable]) -> Rows:
    """Runs ALTER TABLE … EXECUTE.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, STATEMENT_NOT_ALLOWED, PERMISSION_DENIED, INVALID_ARGUMENT,
            NOT_SUPPORTED, COMMIT_CONFLICT, SPARK_UNAVAILABLE, …
    """
    parsed = context.parsed
    with locate_errors_at(parsed.location):
        name = _table(context.connections, parsed, context.session)
    if name is None:
        return done()
    context.statement.writes, where = name.display, None
    if parsed.query is not None:
        request = dataclasses.replace(context.query(parsed.query), token=())
        where = _spark_condition(context.plan(request).plan.logical, parsed.condition_location)
    with locate_errors_at(parsed.location):
        if parsed.procedure == "resume":
            return _resume(context, name)
        return _maintain(context, name, where)


def _resume(context: Context[MaintainTable], name: TableName) -> Rows:
    connections, deadline = context.connections, context.statement.deadline
    is_accepted = bool(dict(context.parsed.arguments).get("accept_loss"))
    by = connections.rights.principal.name
    boundary = resuming.resume(connections, name, deadline, by=by, accept_loss=is_accepted)
    counts = {
        "gaps_count": len(boundary.gaps),
        "lost_offsets_count": sum(gap.offsets for gap in boundary.gaps),
        "earlier_logs_count": len(boundary.earlier_logs),
    }
    return Rows(METRICS, list(counts.items()))


def _maintain(context: Context[MaintainTable], name: TableName, where: str | None) -> Rows:
    """Runs a procedure on the gateway's Spark, for files that fit a condition in Spark's SQL."""
    parsed, statement, spark = context.parsed, context.statement, context.environment.spark
    tasks = _tasks(parsed, where, context.connections.config.tokens.age_seconds_max)
    if spark is None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{parsed.procedure} needs Spark, and the gateway has none",
            hint="Install the extra seamline[spark], or set spark.remote.",
        )

    def report(doing: str) -> None:
        statement.progress = {"engine": SPARK, "doing": doing}

    catalog, deadline = context.connections.catalog(name.catalog), statement.deadline
    report("waiting for Spark")
    maintained = spark.work(
        lambda session: maintain(
            session, catalog, name.path, tasks, report=report, deadline=deadline
        ),
        deadline,
    )
    metrics = _METRICS[parsed.procedure].items()
    return Rows(METRICS, [(metric, getattr(maintained, field)) for metric, field in metrics])


def _table(
    connections: Connections, statement: MaintainTable, session: Session
) -> TableName | None:
    """Returns the table that is to be maintained; None if it is absent and may be."""
    try:
        name = alterations.alterable(connections, statement.name, session)
        alterations.load(connections, name)
    except SeamlineError as error:
        if error.code in (TABLE_NOT_FOUND, SCHEMA_NOT_FOUND) and statement.if_exists:
            return None
        raise
    return name


def _spark_condition(plan: LogicalPlan, location: Location | None) -> str:
    """Returns the condition of `MaintainTable.query` in Spark's SQL.

    Raises:
        SeamlineError: NOT_SUPPORTED for a condition that does not compare columns with constants.
    """
    where = plan.query.tree.args.get("where")
    columns = {field.name.lower(): field for scan in plan.scans for field in scan.columns}
    predicate = to_predicate(where.this, columns) if where is not None else None
    text = None if predicate is None else condition(predicate)
    if text is None:
        raise SeamlineError(
            NOT_SUPPORTED,
            "the condition cannot select files",
            location=location,
            hint="Compare columns with constants, such as day >= DATE '2024-05-01'.",
        )
    return text


def _tasks(statement: MaintainTable, where: str | None, tokens_age_s: float) -> Tasks:
    given = dict(statement.arguments)
    match statement.procedure:
        case "optimize":
            small = given.get("file_size_threshold")
            small_bytes = None if small is None else int(small)
            return Tasks(compaction=Compaction(small_bytes, _FILES_MIN, where))
        case "optimize_manifests":
            return Tasks(manifests=True)
        case "expire_snapshots":
            age_s = given.get("retention_threshold", tokens_age_s)
            if age_s < tokens_age_s:
                raise SeamlineError(
                    INVALID_ARGUMENT,
                    f"retention_threshold is {age_s / _DAY_S:g}d, which is shorter than the "
                    f"{tokens_age_s / _DAY_S:g}d for which tokens are accepted",
                    hint="`seamline table maintain --expire-older-than` takes any age; "
                    "tokens.age_seconds_max sets this limit.",
                )
            return Tasks(expire_after_s=age_s, retain_last=int(given.get("retain_last", RETAINED)))
        case "remove_orphan_files":
            return Tasks(orphan_after_s=given.get("retention_threshold", ORPHAN_AFTER_S_MIN))
    raise AssertionError(statement.procedure)

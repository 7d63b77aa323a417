"""`seamline table`: creates, lists, describes, alters, maintains and drops unified tables."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seamline.connectors import supervision
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.cli import adopting, progress
from seamline.gateway.cli.options import (
    Duration,
    connected,
    look_at,
    options_of,
    table_of,
    table_options,
    text_of,
)
from seamline.gateway.deadline import no_deadline
from seamline.gateway.names import TableName
from seamline.seam.binding import TopicBinding, property_of

if TYPE_CHECKING:
    from seamline.gateway.system.listings import Waiting
    from seamline.sql.types import Field


@click.group()
def table() -> None:
    """Create and manage unified tables."""


for _command in adopting.COMMANDS:
    table.add_command(_command)


@table.command()
@click.argument("name")
@table_options("create")
@click.option("--schema", "columns", help="Columns, as in CREATE TABLE, or @FILE.")
@click.option("--infer", is_flag=True, help="Infer the columns from the newest records.")
@connected
def create(
    connections: Connections, name: str, columns: str | None, infer: bool, **options: Any
) -> None:
    """Create the unified table NAME over a topic."""
    if (columns is None) != infer:
        raise click.UsageError("give either --schema or --infer")
    from seamline.gateway.commands import tables

    resolved = table_of(name, connections)
    definition = tables.TableDefinition(
        name=resolved,
        columns=tables.parse_fields(text_of(columns)) if columns else None,
        **{"cluster": connections.config.default_cluster, **options_of(options)},
    )
    with progress.shown(f"creating {name} over topic {definition.topic}"):
        created = tables.create(connections, definition, no_deadline())
    inferred = created.inferred
    if inferred is not None:
        bad = f", {inferred.bad} of them not objects" if inferred.bad else ""
        click.echo(f"inferred from {inferred.source}{bad}:", err=True)
        click.echo(_columns_text(inferred.columns), err=True)
    click.echo(f"created {created.table.state.display_name} over topic {definition.topic}")
    for note in created.notes:
        click.echo(f"note: {note}", err=True)


@table.command("list")
@click.option("--json", "as_json", is_flag=True)
@connected
def list_(connections: Connections, as_json: bool) -> None:
    """List the unified tables with their lag."""
    from seamline.gateway.system import listings

    entries = list(listings.unified(connections, no_deadline()))
    if as_json:
        click.echo(json.dumps([_as_json(entry) for entry in entries], indent=2))
    elif not entries:
        click.echo("no unified tables; `seamline table create` creates one", err=True)
    else:
        width = max(len(entry.table.display) for entry in entries)
        for entry in entries:
            click.echo(f"{entry.table.display:<{width}}  {_line(entry)}")


@table.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True)
@connected
def describe(connections: Connections, name: str, as_json: bool) -> None:
    """Show the columns, topic, boundary and lag of the table NAME."""
    from seamline.gateway.commands import tables
    from seamline.gateway.query.loaded import LoadedTables

    resolved = table_of(name, connections)
    state = LoadedTables(connections).now([resolved])[resolved].state
    binding = TopicBinding.from_properties(state.properties)
    bounds = None
    if binding is not None:
        log = connections.log(binding.cluster)
        bounds = log.bounds([binding.topic], binding.isolation, no_deadline())[binding.topic]
    body = tables.describe(state, bounds)
    if as_json:
        click.echo(json.dumps(body, indent=2))
        return
    click.echo(_columns_text(state.schema.columns))
    for key, value in body.items():
        if key != "columns":
            click.echo(f"{key}: {json.dumps(value) if isinstance(value, dict | list) else value}")


@table.command()
@click.argument("name")
@table_options("alter")
@connected
def alter(connections: Connections, name: str, **options: Any) -> None:
    """Change settings of the unified table NAME."""
    changes = options_of(options)
    if not changes:
        *flags, last = (flag for p in alter.params if p.name in options for flag in p.opts)
        raise click.UsageError(f"nothing to change: give {', '.join(flags)} or {last}")
    from seamline.connectors.iceberg.tables import commits
    from seamline.gateway.commands import alterations

    resolved = table_of(name, connections)
    loaded = alterations.load(connections, resolved)
    binding = TopicBinding.required(loaded.state.properties, resolved.display)
    texts = alterations.changed_options(connections, loaded, binding, changes, no_deadline())
    commits.set_properties(loaded, {property_of(option): text for option, text in texts.items()})
    for option, text in texts.items():
        click.echo(f"{resolved.display}: {option} is {text}")


@table.command()
@click.argument("name")
@click.option("--purge", is_flag=True, help="Delete the data files as well.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def drop(connections: Connections, name: str, purge: bool, yes: bool) -> None:
    """Drop the unified table NAME from its catalog. The topic is left alone."""
    from seamline.gateway.commands import tables

    resolved = table_of(name, connections)
    tables.require_unified(connections, resolved)
    if not yes:
        what = "with all its data files" if purge else "(its data files stay)"
        click.confirm(f"drop {resolved.display} {what}?", abort=True)
    tables.drop(connections, resolved, purge=purge)
    click.echo(f"dropped {resolved.display}")


@table.command()
@click.argument("name")
@click.option(
    "--accept-loss", is_flag=True, help="Accept that the lost records will never be in the table."
)
@connected
def resume(connections: Connections, name: str, accept_loss: bool) -> None:
    """Go on with the table NAME after its log has lost records that were not tiered.

    Without --accept-loss, only says what is lost.
    """
    from seamline.gateway.commands import resuming
    from seamline.seam.resuming import lost_with

    resolved = table_of(name, connections)
    by = f"{getpass.getuser()}, on the command line"
    boundary = resuming.resume(connections, resolved, no_deadline(), by=by, accept_loss=accept_loss)
    for log in boundary.earlier_logs:
        click.echo(f"{resolved.display}: lacks {lost_with(log, boundary.topic)}")
    for gap in boundary.gaps:
        click.echo(
            f"{resolved.display}: partition {gap.partition} lacks {gap.offsets:,} offsets of "
            f"[{gap.start}, {gap.end_exclusive})"
        )


@table.command()
@click.argument("tables_", nargs=-1, required=True, metavar="NAME…")
@click.option("--compact/--no-compact", default=True, help="Merge small files.")
@click.option("--manifests/--no-manifests", default=True, help="Merge small manifests.")
@click.option("--expire-older-than", type=Duration(), help="Expire snapshots older than this.")
@click.option("--retain-last", type=click.IntRange(min=1), default=10, show_default=True)
@click.option(
    "--remove-orphans-older-than",
    type=Duration(),
    help="Remove files older than this, at least 7d, that no metadata of the table names.",
)
@connected
def maintain(
    connections: Connections,
    tables_: tuple[str, ...],
    compact: bool,
    manifests: bool,
    expire_older_than: float | None,
    retain_last: int,
    remove_orphans_older_than: float | None,
) -> None:
    """Compact tables and expire snapshots, keeping the one that carries the boundary."""
    names = [table_of(text, connections) for text in tables_]
    look_at(names, connections)
    from seamline.connectors.spark import maintenance, submission
    from seamline.gateway.tiering.tables import start_spark

    tasks = maintenance.Tasks(
        compaction=maintenance.Compaction() if compact else None,
        manifests=manifests,
        expire_after_s=expire_older_than,
        retain_last=retain_last,
        orphan_after_s=remove_orphans_older_than,
    )
    removes_orphans = remove_orphans_older_than is not None
    click.echo("starting Spark …", err=True)
    spark = start_spark(connections)
    failures = []
    try:
        for name in names:
            try:
                catalog, report = connections.catalog(name.catalog), _reporter(name)
                done = maintenance.maintain(spark, catalog, name.path, tasks, report=report)
            except Exception as error:  # noqa: BLE001 - the others are maintained all the same
                failures.append(supervision.named(error))
                click.echo(f"{name.display}: {failures[-1]}", err=True)
                continue
            click.echo(
                f"{name.display}: {done.files_rewritten} files became {done.files_added}, "
                f"{done.manifests_rewritten} manifests merged, "
                f"{done.snapshots_expired} snapshots expired ({done.files_deleted} files deleted)"
                + (f", {done.orphans_deleted} orphan files removed" if removes_orphans else "")
            )
    finally:
        submission.stop(spark)
    if failures:
        raise failures[0]


def _reporter(name: TableName) -> Callable[[str], None]:
    return lambda text: click.echo(f"{name.display}: {text} …", err=True)


def _as_json(entry: Waiting) -> dict[str, Any]:
    binding, error = entry.table.binding, entry.error
    return {
        "table": entry.table.display,
        "topic": binding.topic if binding is not None else None,
        "cluster": binding.cluster if binding is not None else None,
        "lag": entry.offsets,
        "error": {"code": error.code.name, "message": error.message} if error is not None else None,
    }


def _line(entry: Waiting) -> str:
    binding, error = entry.table.binding, entry.error
    parts = [f"topic {binding.topic} on {binding.cluster}"] if binding is not None else []
    if entry.offsets is not None:
        parts.append(f"lag {entry.offsets:,} offsets")
    if error is not None:
        parts.append(f"{error.code.name}: {error.message}")
    return "  ".join(parts)


def _columns_text(fields: tuple[Field, ...]) -> str:
    from seamline.sql.types import quote

    width = max((len(quote(field.name)) for field in fields), default=0)
    return "\n".join(
        f"  {quote(field.name):<{width}}  {field.type}{'  not null' if field.required else ''}"
        for field in fields
    )

"""`seamline table`: creates, lists, describes, alters, maintains and drops unified tables."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seamline.connectors import supervision
from seamline.errors import NOT_A_UNIFIED_TABLE, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.cli import adopting
from seamline.gateway.cli.options import (
    Duration,
    config_options,
    load_config,
    look_at,
    table_of,
    text_of,
)
from seamline.gateway.deadline import no_deadline
from seamline.gateway.names import TableName
from seamline.seam.binding import EVOLUTIONS, POLICIES, PROPERTY_PREFIX, TopicBinding

if TYPE_CHECKING:
    from seamline.gateway.system.listings import Waiting
    from seamline.sql.types import Field


@click.group()
def table() -> None:
    """Create and manage unified tables."""


for _command in adopting.COMMANDS:
    table.add_command(_command)


def _open(
    config_file: str | None, settings: tuple[str, ...], name: str | None = None
) -> tuple[Connections, TableName | None]:
    connections = Connections(load_config(config_file, settings).config)
    return connections, None if name is None else table_of(name, connections)


@table.command()
@click.argument("name")
@click.option("--topic", required=True, help="Name of the topic.")
@click.option("--schema", "columns", help="Columns, as in CREATE TABLE, or @FILE.")
@click.option("--infer", is_flag=True, help="Infer the columns from the newest records.")
@click.option("--cluster", help="Cluster the topic is in.")
@click.option("--format", "format_", default="json", show_default=True)
@click.option("--mode", default="append", show_default=True)
@click.option("--on-error", default="fail", show_default=True, help="fail, null or skip.")
@click.option("--isolation", default="read_committed", show_default=True)
@click.option("--key", help="Column whose value is also the record key.")
@click.option("--key-format", default="string", show_default=True)
@click.option(
    "--columns-from",
    multiple=True,
    help="Sources of columns, such as 'id = key, trace = header.trace-id'.",
)
@click.option("--value-schema", help="Schema of all values, or @FILE; by default the registry's.")
@click.option("--key-schema", help="Schema of all keys, or @FILE; by default the registry's.")
@click.option(
    "--spelling", "spellings", multiple=True, help="Accept this spelling of values; repeatable."
)
@click.option("--csv-separator", help="Field separator of CSV; by default a comma.")
@click.option("--csv-quote", help="Quote character of CSV; by default a double quote.")
@click.option(
    "--evolution",
    type=click.Choice(EVOLUTIONS),
    help="Whether columns follow newer schemas; by default auto with --infer, else manual.",
)
@click.option("--key-partitioner", help="Promise that keys are partitioned by murmur2 or crc32.")
@click.option(
    "--primary-key", multiple=True, help="Primary key column of an upsert table; repeatable."
)
@click.option(
    "--envelope", default="", help="Envelope of change records: debezium, maxwell or canal."
)
@click.option(
    "--deleted-by", help="Field that marks deletes, such as __deleted or 'op = d'; '' for none."
)
@click.option("--partition-by", multiple=True, help="Partitioning, such as 'day(ts)'.")
@click.option("--sort-by", multiple=True, help="Sort column, such as 'ts DESC'.")
@click.option(
    "--start", default="earliest", show_default=True, help="earliest, latest, offsets or a time."
)
@click.option("--format-version", type=int, default=2, show_default=True)
@config_options
def create(
    name: str,
    topic: str,
    columns: str | None,
    infer: bool,
    config_file: str | None,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Create the unified table NAME over a topic."""
    if (columns is None) != infer:
        raise click.UsageError("give either --schema or --infer")
    from seamline.gateway.commands import tables

    connections, resolved = _open(config_file, settings, name)
    assert resolved is not None
    definition = tables.TableDefinition(
        name=resolved,
        topic=topic,
        cluster=options["cluster"] or connections.config.default_cluster,
        columns=tables.parse_fields(text_of(columns)) if columns else None,
        format=options["format_"],
        mode=options["mode"],
        on_error=options["on_error"],
        isolation=options["isolation"],
        key=options["key"],
        key_format=options["key_format"],
        columns_from=options["columns_from"],
        value_schema=text_of(options["value_schema"]),
        key_schema=text_of(options["key_schema"]),
        spellings=options["spellings"],
        **{name: options[name] for name in ("csv_separator", "csv_quote", "evolution")},
        key_partitioner=options["key_partitioner"],
        primary_key=options["primary_key"],
        envelope=options["envelope"],
        deleted_by=options["deleted_by"],
        partitioning=options["partition_by"],
        sorted_by=options["sort_by"],
        start=options["start"],
        format_version=options["format_version"],
    )
    created = tables.create(connections, definition, no_deadline())
    inferred = created.inferred
    if inferred is not None:
        bad = f", {inferred.bad} of them not objects" if inferred.bad else ""
        click.echo(f"inferred from {inferred.source}{bad}:", err=True)
        click.echo(_columns_text(inferred.columns), err=True)
    click.echo(f"created {created.table.state.display_name} over topic {topic}")
    for note in created.notes:
        click.echo(f"note: {note}", err=True)
    connections.close()


@table.command("list")
@click.option("--json", "as_json", is_flag=True)
@config_options
def list_(config_file: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """List the unified tables with their lag."""
    from seamline.gateway.system import listings

    connections, _ = _open(config_file, settings)
    found = list(listings.unified(connections, no_deadline()))
    connections.close()
    if as_json:
        click.echo(json.dumps([_as_json(entry) for entry in found], indent=2))
    elif not found:
        click.echo("no unified tables; `seamline table create` creates one", err=True)
    else:
        width = max(len(entry.table.display) for entry in found)
        for entry in found:
            click.echo(f"{entry.table.display:<{width}}  {_line(entry)}")


@table.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True)
@config_options
def describe(name: str, config_file: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Show the columns, topic, boundary and lag of the table NAME."""
    from seamline.gateway.commands import tables
    from seamline.gateway.query.loaded import LoadedTables

    connections, resolved = _open(config_file, settings, name)
    assert resolved is not None
    state = LoadedTables(connections).now([resolved])[resolved].state
    binding = TopicBinding.from_properties(state.properties)
    bounds = None
    if binding is not None:
        log = connections.log(binding.cluster)
        bounds = log.bounds([binding.topic], binding.isolation, no_deadline())[binding.topic]
    body = tables.describe(state, bounds)
    connections.close()
    if as_json:
        click.echo(json.dumps(body, indent=2))
        return
    click.echo(_columns_text(state.schema.columns))
    for key, value in body.items():
        if key != "columns":
            click.echo(f"{key}: {json.dumps(value) if isinstance(value, dict | list) else value}")


@table.command()
@click.argument("name")
@click.option("--on-error", type=click.Choice(POLICIES), help="What happens to bad records.")
@click.option(
    "--evolution", type=click.Choice(EVOLUTIONS), help="Whether columns follow newer schemas."
)
@click.option(
    "--spelling",
    "spellings",
    multiple=True,
    help="Accept this spelling of values, in place of those accepted until now; repeatable.",
)
@config_options
def alter(
    name: str,
    on_error: str | None,
    evolution: str | None,
    spellings: tuple[str, ...],
    config_file: str | None,
    settings: tuple[str, ...],
) -> None:
    """Change settings of the unified table NAME."""
    wanted = {"on_error": on_error, "evolution": evolution}
    given = {setting: value for setting, value in wanted.items() if value is not None}
    if not given and not spellings:
        raise click.UsageError("nothing to change: give --on-error, --evolution or --spelling")
    from seamline.connectors.iceberg.tables import commits
    from seamline.gateway.commands import alterations, upserts
    from seamline.gateway.commands import evolution as evolving

    connections, resolved = _open(config_file, settings, name)
    assert resolved is not None
    found = alterations.load(connections, resolved)
    binding = TopicBinding.from_properties(found.state.properties)
    if binding is None:
        raise SeamlineError(NOT_A_UNIFIED_TABLE, f"table {resolved.display} has no topic")
    evolving.check_altered(binding, evolution)
    for setting, value in given.items():
        if binding.is_upsert:
            upserts.check_altered(setting, value)
    if spellings:
        given["spellings"] = alterations.changed_spellings(binding, ",".join(spellings))
    commits.set_properties(
        found,
        {PROPERTY_PREFIX + setting.replace("_", "-"): value for setting, value in given.items()},
    )
    for setting, value in given.items():
        click.echo(f"{resolved.display}: {setting} is {value}")
    connections.close()


@table.command()
@click.argument("name")
@click.option("--purge", is_flag=True, help="Delete the data files as well.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@config_options
def drop(
    name: str, purge: bool, yes: bool, config_file: str | None, settings: tuple[str, ...]
) -> None:
    """Drop the unified table NAME from its catalog. The topic is left alone."""
    from seamline.gateway.commands import tables

    connections, resolved = _open(config_file, settings, name)
    assert resolved is not None
    tables.require_unified(connections, resolved)
    if not yes:
        what = "with all its data files" if purge else "(its data files stay)"
        click.confirm(f"drop {resolved.display} {what}?", abort=True)
    tables.drop(connections, resolved, purge=purge)
    click.echo(f"dropped {resolved.display}")
    connections.close()


@table.command()
@click.argument("name")
@click.option(
    "--accept-loss", is_flag=True, help="Accept that the lost records will never be in the table."
)
@config_options
def resume(
    name: str, accept_loss: bool, config_file: str | None, settings: tuple[str, ...]
) -> None:
    """Go on with the table NAME after its log has lost records that were not tiered.

    Without --accept-loss, only says what is lost.
    """
    from seamline.gateway.commands import resuming
    from seamline.seam.resuming import lost_with

    connections, resolved = _open(config_file, settings, name)
    assert resolved is not None
    by = f"{getpass.getuser()}, on the command line"
    boundary = resuming.resume(connections, resolved, no_deadline(), by=by, accept_loss=accept_loss)
    for log in boundary.earlier_logs:
        click.echo(f"{resolved.display}: lacks {lost_with(log, boundary.topic)}")
    for gap in boundary.gaps:
        click.echo(
            f"{resolved.display}: partition {gap.partition} lacks {gap.offsets:,} offsets of "
            f"[{gap.start}, {gap.end_exclusive})"
        )
    connections.close()


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
@config_options
def maintain(
    tables_: tuple[str, ...],
    compact: bool,
    manifests: bool,
    expire_older_than: float | None,
    retain_last: int,
    remove_orphans_older_than: float | None,
    config_file: str | None,
    settings: tuple[str, ...],
) -> None:
    """Compact tables and expire snapshots, keeping the one that carries the boundary."""
    connections, _ = _open(config_file, settings)
    wanted = [table_of(text, connections) for text in tables_]
    look_at(wanted, connections)
    from seamline.connectors.spark import maintenance, submission
    from seamline.gateway.tiering.application import start_spark

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
        for name in wanted:
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
        connections.close()
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

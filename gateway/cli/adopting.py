"""Commands of `seamline table` about other writers: adopt, unadopt, audit, take-over, hand-over."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.cli.options import (
    connected,
    options_of,
    table_of,
    table_options,
)
from seamline.gateway.deadline import no_deadline
from seamline.seam.options import ADOPT_OPTIONS

if TYPE_CHECKING:
    from seamline.gateway.commands.adopting import Findings
    from seamline.gateway.commands.auditing import Audit
    from seamline.gateway.commands.comparison import Pair

_SHOWN = 3
_CELL_MAX = 60


@click.command()
@click.argument("name")
@table_options("adopt")
@click.option("--location", help="Location of a Delta table, if it is not at the default place.")
@click.option(
    "--configuration",
    is_flag=True,
    help="Print the entry for the configuration, and write nothing.",
)
@click.option("--dry-run", is_flag=True, help="Show the findings, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def adopt(connections: Connections, name: str, **flags: Any) -> None:
    """Bind the table NAME, which another writer fills, to its topic.

    Shows what it found, and asks for confirmation, before it writes anything. A Delta table is
    read-only: the entry to add to the configuration is printed instead.
    """
    from seamline.gateway.commands import adopting

    adoption = adopting.Adoption(
        name=table_of(name, connections),
        location=flags["location"],
        **{"cluster": connections.config.default_cluster, **options_of(flags, ADOPT_OPTIONS)},
    )
    findings = adopting.examine(connections, adoption, no_deadline())
    for line in _shown(findings):
        click.echo(line, err=True)
    if flags["dry_run"]:
        return
    adopting.require_no_problems(findings, force=adoption.force)
    display = adoption.name.display
    if flags["configuration"] or findings.is_for_configuration:
        click.echo(findings.configuration)
    else:
        if not flags["yes"]:
            click.confirm(f"adopt {display}?", abort=True)
        adopting.adopt(connections, findings, force=adoption.force)
        click.echo(f"adopted {display} over topic {adoption.topic}")


@click.command()
@click.argument("name")
@connected
def unadopt(connections: Connections, name: str) -> None:
    """Undo the adoption of the table NAME, leaving nothing of Seamline in it."""
    from seamline.gateway.commands import adopting

    table = table_of(name, connections)
    adopting.unadopt(connections, table)
    click.echo(f"{table.display} is a plain table again")


@click.command("take-over")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def take_over(connections: Connections, name: str, yes: bool) -> None:
    """Continue filling the adopted table NAME, whose writer has been stopped.

    From then on, `seamline tier` fills it, starting where that writer ended.
    """
    from seamline.gateway.commands import handing_over

    table = table_of(name, connections)
    if not yes:
        click.confirm(f"has the writer of {table.display} been stopped for good?", abort=True)
    boundary = handing_over.take_over(
        connections, table, no_deadline(), lambda text: click.echo(f"{name}: {text} …", err=True)
    )
    click.echo(f"{table.display} has been taken over at {_offsets_text(boundary.next)}")


@click.command("hand-over")
@click.argument("name")
@click.option("--boundary", "provider", default="columns", show_default=True, metavar="PROVIDER")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the provider; repeatable.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def hand_over(
    connections: Connections, name: str, provider: str, options: tuple[str, ...], yes: bool
) -> None:
    """Hand the table NAME, which Seamline has filled, over to another writer.

    Tiering must have been stopped. Prints the offsets at which the other writer must begin.
    """
    from seamline.gateway.commands import adopting, handing_over

    table = table_of(name, connections)
    if not yes:
        click.confirm(f"has tiering of {table.display} been stopped for good?", abort=True)
    boundary = handing_over.hand_over(
        connections,
        table,
        no_deadline(),
        provider=provider,
        options=dict(map(adopting.option_of, options)),
    )
    click.echo(f"{table.display} has been handed over: begin at {_offsets_text(boundary.next)}")


@click.command()
@click.argument("name")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
)
@connected
def audit(connections: Connections, name: str, format_: str) -> None:
    """Check that the table NAME has each record below its boundary exactly once.

    Lists missing and duplicated records, compared with the log as far as it reaches back. Exits
    with 1 when there are any.
    """
    from seamline.gateway.commands import auditing

    result = auditing.audit(
        connections,
        table_of(name, connections),
        no_deadline(),
        lambda text: click.echo(f"{name}: {text} …", err=True),
    )
    if format_ == "json":
        click.echo(json.dumps(result.to_json(), indent=2))
    elif format_ == "csv":
        _write_csv(result)
    else:
        for line in _audit_lines(result):
            click.echo(line)
    if not result.is_clean:
        sys.exit(1)


# --- Output --------------------------------------------------------------------------------------


def _shown(findings: Findings) -> list[str]:
    boundary, state = findings.boundary, findings.table.state
    lines = [
        f"table      {state.display_name}, {len(state.snapshots)} snapshots",
        f"filled by  {findings.writer.name}",
        f"boundary   {_offsets_text(boundary.next)} by {boundary.provider} ({boundary.trust})",
        f"log        ends at {_offsets_text(findings.bounds.end)}: "
        f"{findings.lag:,} offsets are hot",
    ]
    sources = findings.binding.columns_from
    lines += [f"column     {entry}" for entry in sources]
    own = {entry.partition(" = ")[0].split(".")[0] for entry in sources}
    rest = [field.name for field in state.schema.columns if field.name not in own]
    lines.append(f"columns    from the value: {', '.join(rest) or 'none'}")
    agree = sum(pair.cold is not None and not pair.differences for pair in findings.sample)
    if findings.sample:
        lines.append(
            f"sample     {agree} of {len(findings.sample)} records are the same in both tiers"
        )
    doubtful = [p for p in findings.sample if p.cold is None or p.differences]
    for pair in (doubtful or list(findings.sample))[-_SHOWN:]:
        lines += _side_by_side(pair)
    lines += [f"note       {note}" for note in findings.notes]
    lines += [f"PROBLEM    {problem}" for problem in findings.problems]
    return lines


def _offsets_text(offsets: Any) -> str:
    return ", ".join(f"{p}:{o}" for p, o in offsets.items()) or "nothing"


def _side_by_side(pair: Pair) -> list[str]:
    lines = [f"           partition {pair.partition}, offset {pair.offset}"]
    for name in pair.hot or pair.cold or {}:
        cold = "—" if pair.cold is None else _cell(pair.cold[name])
        hot = "—" if pair.hot is None else _cell(pair.hot[name])
        mark = "≠" if name in pair.differences else " "
        lines.append(f"         {mark}   {name}: table {cold} | log {hot}")
    return lines


def _cell(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 1]}…"


def _audit_lines(audit_: Audit) -> list[str]:
    from seamline.gateway.commands.auditing import MEANINGS, Kind

    rows = sum(partition.rows for partition in audit_.partitions)
    records = sum(partition.records for partition in audit_.partitions)
    boundary = audit_.boundary
    lines = [
        f"{audit_.table}, snapshot {audit_.snapshot_id}",
        f"boundary {_offsets_text(boundary.next)} by {boundary.provider or 'seamline'} "
        f"({boundary.trust})",
        f"{rows:,} rows of {records:,} records"
        + (f", and {audit_.others:,} rows that are not records" if audit_.others else "")
        + (f", and {audit_.earlier:,} rows of earlier logs" if audit_.earlier else ""),
    ]
    for kind in Kind:
        of_kind = [finding for finding in audit_.found if finding.kind is kind]
        if of_kind:
            count = sum(finding.records for finding in of_kind)
            lines.append(f"{kind.value}: {count:,} {MEANINGS[kind]}")
        for finding in of_kind[:1000]:
            r = finding.range
            lines.append(
                f"  partition {r.partition}, offsets [{r.start}, {r.end_exclusive}): "
                f"{finding.records:,}"
            )
    lines.append("clean" if audit_.is_clean else "NOT clean")
    return lines


def _write_csv(audit_: Audit) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["kind", "partition", "start", "end_exclusive", "records"])
    for finding in audit_.found:
        r = finding.range
        writer.writerow(
            [finding.kind.value, r.partition, r.start, r.end_exclusive, finding.records]
        )


COMMANDS = (adopt, unadopt, audit, take_over, hand_over)

"""`seamline doctor`: reports problems of machine and configuration, and what to do about them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from seamline.dbapi.version import VERSION
from seamline.errors import SeamlineError
from seamline.gateway.cli import progress
from seamline.gateway.cli.options import Duration, config_options, load_config

if TYPE_CHECKING:
    from seamline.gateway.cli.progress import ProgressLine
    from seamline.gateway.config.load import Loaded
    from seamline.gateway.doctor.findings import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red", "skipped": "bright_black"}
_WIDTH_MAX = 110


@click.command()
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
@click.option(
    "--timeout",
    "seconds",
    type=Duration(),
    default="20s",
    show_default=True,
    help="Time that each check may take.",
)
@click.option("--read-only", is_flag=True, help="Write nothing to catalogs and warehouses.")
@click.option("--spark", "starts_spark", is_flag=True, help="Start a local Spark to try it.")
@config_options
def doctor(
    format_: str,
    seconds: float,
    read_only: bool,
    starts_spark: bool,
    config_file: str | None,
    settings: tuple[str, ...],
) -> None:
    """Check this machine and this configuration for problems, and say what to do.

    Exits with 1 when something is wrong, and with 0 otherwise; warnings do not count.
    """
    loaded, problem = _configured(config_file, settings)
    findings = _findings(loaded, problem, seconds, writes=not read_only, starts_spark=starts_spark)
    with progress.shown("checking") as line:
        pairs = [*findings] if format_ == "json" else [*_told(findings, line)]
    from seamline.gateway.doctor.findings import Level, counts

    summary = counts(finding for _, finding in pairs)
    if format_ == "json":
        click.echo(json.dumps(_as_json(pairs, summary), indent=2, ensure_ascii=False))
    else:
        click.echo("")
        click.echo(_in_short(summary))
    sys.stdout.flush()
    # do not wait for checks whose answers never come
    sys.exit(1 if summary[Level.WRONG.value] else 0)


def _configured(
    config_file: str | None, settings: tuple[str, ...]
) -> tuple[Loaded | None, SeamlineError | None]:
    try:
        return load_config(config_file, settings), None
    except SeamlineError as error:
        return None, error


def _findings(
    loaded: Loaded | None,
    problem: SeamlineError | None,
    seconds: float,
    *,
    writes: bool,
    starts_spark: bool,
) -> Iterator[tuple[str, Finding]]:
    """Yields all findings, without secrets; tables come last, when it is known what is down."""
    from seamline.gateway.doctor import checks
    from seamline.gateway.doctor.examination import examine

    secrets = checks.secrets(loaded)
    for about, finding in examine(checks.of_machine(loaded, problem), seconds):
        yield about, finding.without(secrets)
    if loaded is None:
        return
    from seamline.gateway.catalogs.connections import Connections

    connections = Connections(loaded.config)
    away: set[str] = set()
    outside = checks.of_the_outside(connections, seconds, writes=writes, starts_spark=starts_spark)
    for about, finding in examine(outside, seconds):
        if finding.level.value == "wrong":
            away.add(about)
        yield about, finding.without(secrets)
    for about, finding in examine(checks.of_tables(connections, away, seconds), seconds + 1):
        yield about, finding.without(secrets)


# --- Output --------------------------------------------------------------------------------------


def _told(
    findings: Iterable[tuple[str, Finding]], line: ProgressLine
) -> Iterator[tuple[str, Finding]]:
    """Prints each finding as it comes, and passes it on."""
    heading = ""
    colour = False if os.environ.get("NO_COLOR") else None
    for about, finding in findings:
        with line.hidden():
            if about != heading:
                click.echo(("\n" if heading else "") + click.style(about, bold=True), color=colour)
                heading = about
            for text in _lines(finding):
                click.echo(text, color=colour)
            sys.stdout.flush()
        yield about, finding


def _lines(finding: Finding) -> Iterator[str]:
    """Yields the lines of a finding: its level and text, and the remedy below."""
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDTH_MAX)
    level = finding.level.value
    lead = " " * 10
    text = textwrap.wrap(
        finding.text, width, initial_indent=lead, subsequent_indent=lead, break_on_hyphens=False
    ) or [lead]
    mark = click.style(f"  {level:<8}", fg=_COLOURS[level])
    yield mark + text[0][len(lead) :]
    yield from text[1:]
    if finding.remedy:
        yield from textwrap.wrap(
            finding.remedy,
            width,
            initial_indent=f"{lead}→ ",
            subsequent_indent=f"{lead}  ",
            break_on_hyphens=False,
            break_long_words=False,
        )


def _in_short(summary: Any) -> str:
    counted = [
        f"{summary['wrong']} wrong",
        f"{summary['warning']} warning{'' if summary['warning'] == 1 else 's'}",
        f"{summary['ok']} ok",
    ]
    if summary["skipped"]:
        counted.append(f"{summary['skipped']} not checked")
    return ", ".join(counted)


def _as_json(pairs: list[tuple[str, Finding]], summary: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "summary": dict(summary),
        "findings": [finding.to_json(about) for about, finding in pairs],
    }

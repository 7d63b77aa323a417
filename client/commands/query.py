"""`seamline query`: a statement run on a gateway, its result on standard output."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import click

from seamline.commands.options import credentials_of, gateway_options
from seamline.commands.output import WRITERS, open_sink, write_parquet
from seamline.dbapi.connection import URL_DEFAULT, Connection
from seamline.dbapi.cursor import Cursor

_FORMATS = (*WRITERS, "parquet")


@click.command()
@click.argument("statement")
@gateway_options
@click.option(
    "--format", "format_", type=click.Choice(_FORMATS), default="table", show_default=True
)
@click.option("--output", "-o", help="File to write to; needed for parquet.")
@click.option("--engine", type=click.Choice(["auto", "duckdb", "spark"]), default="auto")
@click.option("--catalog", help="Catalog of names that leave it out.")
@click.option("--schema", help="Schema of names that leave it out.")
@click.option("--token", help="A token of an earlier receipt: the same rows again.")
@click.option("--after", multiple=True, help="A token the result must not fall behind.")
@click.option("--timeout", type=float, help="Seconds the statement may take.")
@click.option("--freshness", help="latest, \"bounded '500ms'\" or cached.")
@click.option("--limit", type=int, help="Rows after which the result is cut off.")
@click.option("--dialect", help="Another dialect the statement is written in.")
@click.option("--param", "-p", multiple=True, help="A value for the next ? (text).")
@click.option("--quiet", "-q", is_flag=True, help="Leave out progress and receipt.")
def query(statement: str, format_: str, output: str | None, quiet: bool, **options: Any) -> None:
    """Runs STATEMENT on a gateway; `-` reads it from standard input."""
    if statement == "-":
        statement = sys.stdin.buffer.read().decode(errors="replace")
    if format_ == "parquet" and output is None:
        raise click.UsageError("--format parquet needs --output FILE")
    show = not quiet and sys.stderr.isatty()
    with Connection(
        options["url"] or URL_DEFAULT,
        credentials=credentials_of(options),
        catalog=options["catalog"],
        schema=options["schema"],
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(
            statement,
            list(options["param"]),
            engine=options["engine"],
            token=options["token"],
            after=options["after"],
            freshness=options["freshness"],
            timeout=options["timeout"],
            row_limit=options["limit"],
            dialect=options["dialect"],
            progress=_show_progress if show else None,
        )
        if show:
            click.echo("\r\033[K", err=True, nl=False)
        _write(cursor, format_, output)
        if not quiet:
            click.echo(receipt_line(cursor), err=True)


def _write(cursor: Cursor, format_: str, output: str | None) -> None:
    if format_ == "parquet":
        assert output is not None
        write_parquet(cursor, pathlib.Path(output))
        return
    sink = open_sink(output)
    try:
        WRITERS[format_](cursor, sink)
        sink.flush()
    finally:
        if output is not None:
            sink.close()


def _show_progress(manifest: Mapping[str, Any]) -> None:
    progress = manifest.get("progress") or {}
    rows = progress.get("rows_produced", 0)
    engine = progress.get("engine", "planning")
    click.echo(
        f"\r\033[K{manifest['state'].lower()} on {engine}: {rows:,} rows, "
        f"{manifest['elapsed_s']:.1f} s (Ctrl-C cancels)",
        err=True,
        nl=False,
    )


def receipt_line(cursor: Cursor) -> str:
    """The receipt in one line."""
    receipt = cursor.receipt
    rows = f"{cursor.rowcount:,} row{'s' if cursor.rowcount != 1 else ''}"
    if cursor.truncated:
        rows += ", cut off there"
    if not receipt:
        return rows
    parts = [
        rows,
        f"{receipt['rows_cold']:,} cold + {receipt['rows_hot']:,} hot read",
        receipt["engine"],
        f"as of {receipt['as_of']}",
    ]
    pending = sum(table["pending_offsets"] for table in receipt["tables"])
    skipped = sum(t["skipped_cold"] + t["skipped_hot"] for t in receipt["tables"])
    if pending:
        parts.append(f"{pending:,} offsets held back by open transactions")
    if skipped:
        parts.append(f"{skipped:,} bad records skipped")
    return " · ".join(parts)

"""`seamline tail`: shows the rows of a table as they arrive, until Ctrl-C.

Each batch is exactly what has arrived since the previous one: no row is lost or shown twice,
whatever is tiered meanwhile and however often the gateway restarts. A token follows each batch, on
standard error; given as `--from`, it continues there. A batch cut off by Ctrl-C is shown again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from seamline.commands.options import connect, embedded_options, gateway_options, profile_of
from seamline.dbapi.connection import Connection
from seamline.dbapi.cursor import Cursor
from seamline.dbapi.errors import Error
from seamline.terminal.output import WRITERS, OnTerminal, write_csv, write_ndjson
from seamline.terminal.pictures import Look
from seamline.terminal.running import show_within

OFFSETS_MAX = 50_000
"""Maximum number of offsets in a batch, so that a long history comes in pieces."""
_CHANGES = "SELECT * FROM TABLE(changes(table => ?, from_token => ?, offsets_max => ?))"
_WHERE = f"{_CHANGES} WHERE ("
_IN_ORDER = " ORDER BY _kafka_partition, _kafka_offset"
_PAUSE_S_MIN = 0.2
_PAUSE_S_MAX = 5.0
BEGINNING, NOW = "beginning", "now"


@click.command()
@click.argument("table")
@click.option(
    "--from",
    "start",
    default=NOW,
    show_default=True,
    help="`now`, `beginning`, or the token of an earlier batch, answer or receipt.",
)
@click.option("--where", help="Show only rows that satisfy this condition.")
@click.option(
    "--format",
    "format_",
    type=click.Choice([*WRITERS]),
    default="ndjson",
    show_default=True,
    help="Here json also writes one object per line.",
)
@gateway_options
@embedded_options
@click.option("--catalog", help="Default catalog for a name without one.")
@click.option("--schema", help="Default schema for a name without one.")
@click.option(
    "--interval", type=float, default=0.5, show_default=True, help="Seconds between polls."
)
@click.option("--quiet", "-q", is_flag=True, help="Do not print tokens.")
def tail(table: str, start: str, where: str | None, quiet: bool, **options: Any) -> None:
    """Show the rows of TABLE as they arrive, until Ctrl-C."""
    token = start
    options["pause_s"] = max(_PAUSE_S_MIN, options.pop("interval"))
    try:
        with connect(options, profile_of(options), follows=True) as connection:
            if token == NOW:
                token = _token_of_now(connection, table)
            is_first = True
            for cursor in _batches(connection, table, token, where, options["pause_s"]):
                if cursor.rowcount:
                    _write(cursor, options["format_"], is_first=is_first)
                    is_first = False
                token = cursor.token or token
                if cursor.rowcount and not quiet:
                    click.echo(f"token {token}", err=True)
    except KeyboardInterrupt:
        if not quiet and token != NOW:
            click.echo(f"\nto continue: --from {token}", err=True)


def _token_of_now(connection: Connection, table: str) -> str:
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT 1 FROM {table} WHERE FALSE")
        except Error as error:
            show_within(error)
            raise
        return cursor.token or ""


def _batches(
    connection: Connection, table: str, token: str, where: str | None, pause_s: float
) -> Iterator[Cursor]:
    """Yields a cursor over each batch, forever; each begins where the previous one ended.

    Once the first batch has arrived, retriable errors are retried.
    """
    sql = f"{_WHERE}{where}\n){_IN_ORDER}" if where else f"{_CHANGES}{_IN_ORDER}"
    failures, has_worked = 0, False
    while True:
        with connection.cursor() as cursor:
            try:
                cursor.execute(sql, [table, token, OFFSETS_MAX])
            except Error as error:
                if not (error.code.retriable and has_worked):
                    show_within(error, where or "", len(_WHERE))
                    raise
                failures += 1
                if failures == 1:
                    click.echo(f"{error.summary}; trying again", err=True)
            else:
                failures, has_worked = 0, True
                yield cursor
                token = cursor.token or token
                if _offsets(cursor) >= OFFSETS_MAX:
                    continue
        time.sleep(min(_PAUSE_S_MAX, pause_s * 2**failures))


def _offsets(cursor: Cursor) -> int:
    """Returns how many offsets a batch covers; 0 where the reader may not see all rows."""
    (table,) = cursor.receipt["tables"]
    if table["end"] is None:
        return 0
    return sum(end - table["since"][partition] for partition, end in table["end"].items())


def _write(cursor: Cursor, format_: str, *, is_first: bool) -> None:
    look = Look()
    sink = OnTerminal(sys.stdout) if sys.stdout.isatty() else sys.stdout
    if format_ == "csv":
        write_csv(cursor, sink, look, header=is_first)
    elif format_ == "json":
        write_ndjson(cursor, sink, look)
    else:
        WRITERS[format_](cursor, sink, look)
    sys.stdout.flush()

"""`seamline freshness`: how far a table has been tiered, partition by partition.

A statement always sees every record; what varies is how much of them is read from the log.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from seamline.commands.options import connect, embedded_options, gateway_options, profile_of
from seamline.dbapi.connection import Connection
from seamline.dbapi.errors import Error
from seamline.terminal.output import WRITERS, write
from seamline.terminal.pictures import Look, look_of_terminal
from seamline.terminal.running import show_within

_NAME = re.compile(r'(?P<front>(?:.*\.)?)(?P<table>"(?:[^"]|"")+"|[^".]+)')


@click.command()
@click.argument("table")
@click.option(
    "--format", "format_", type=click.Choice([*WRITERS]), default="table", show_default=True
)
@gateway_options
@embedded_options
@click.option("--catalog", help="Default catalog for a name without one.")
@click.option("--schema", help="Default schema for a name without one.")
def freshness(table: str, format_: str, **options: Any) -> None:
    """Show how much of TABLE is in files, and how much only in the log."""
    look = look_of_terminal() if sys.stdout.isatty() else Look()
    with connect(options, profile_of(options)) as connection:
        seam = variant(table, "seam")
        try:
            cursor = connection.execute(
                f'SELECT partition, boundary, "end", tail FROM {seam} ORDER BY partition'
            )
        except Error as error:
            show_within(error)
            raise
        write(cursor, format_, sys.stdout, look)
        sys.stdout.flush()
        click.echo(_summary(connection, table), err=True)


def variant(table: str, kind: str) -> str:
    """Returns the name of a metadata table: `shop."bids$seam"` for `shop.bids`."""
    match = _NAME.fullmatch(table)
    if match is None:
        raise click.BadParameter(f"{table} is not the name of a table")
    name = match["table"].removeprefix('"').removesuffix('"')
    return f'{match["front"]}"{name}${kind}"'


def _summary(connection: Connection, table: str) -> str:
    """Returns a one-line summary, with the age of the newest snapshot."""
    cursor = connection.execute(f'SELECT sum("end"), sum(tail) FROM {variant(table, "seam")}')
    ((end, tail),) = cursor.fetchall()
    cursor = connection.execute(
        "SELECT max(committed_at), date_diff('second', max(committed_at), current_timestamp)"
        f" FROM {variant(table, 'snapshots')}"
    )
    ((committed_at, age_s),) = cursor.fetchall()
    line = f"{tail or 0:,} of {end or 0:,} offsets are only in the log; every statement sees them"
    if committed_at is None:
        return f"{line}; nothing has been tiered yet"
    return f"{line}; the newest snapshot is {age_s:,} s old"

"""`seamline demo`: runs Seamline's main job end to end."""

from __future__ import annotations

import os
import pathlib
import sys
import time

import click

from seamline.gateway.cli import progress
from seamline.gateway.config.file_locations import local_state_directory

_NEXT = """
Next:
  make demo KEEP=1          leaves everything running and prints how to connect
  seamline local up         a stack of your own; then "Your own topic" in README
  docs/quickstart.md        a topic becomes a table, in a few minutes
  docs/adopting.md          the tables that you have"""


@click.command()
@click.option("--records", type=click.IntRange(min=1000), default=1_000_000, show_default=True)
@click.option("--keep", is_flag=True, help="Leave everything running afterwards.")
@click.option("--adopt", is_flag=True, help="Adopt tables that a Kafka Connect sink fills.")
@click.option(
    "--state", type=click.Path(path_type=pathlib.Path), help="Folder for its data; emptied first."
)
def demo(records: int, keep: bool, adopt: bool, state: pathlib.Path | None) -> None:
    """Produce bids, tier them, query them in both tiers, and check every answer."""
    from seamline.gateway.dev.demo.scenario import Demo, Filling, Tiering

    directory = state or local_state_directory(os.environ) / ("demo-adopt" if adopt else "demo")
    filling: Filling = Tiering()
    if adopt:
        from seamline.gateway.dev.demo.foreign import ForeignSink

        filling = ForeignSink()
    began = time.monotonic()
    with progress.shown("starting") as line:

        def say(text: str) -> None:
            with line.hidden():
                click.echo(text)

        is_exact = Demo(directory.resolve(), records, say, line.report, filling).run(keep=keep)
    if not is_exact:
        click.echo("\nNOT exact", err=True)
        sys.exit(1)
    click.echo(f"\nall exact, in {time.monotonic() - began:.0f} s")
    if not keep:
        click.echo(_NEXT)

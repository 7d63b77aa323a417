"""`seamline prepare`: what a local Spark needs, fetched and made before it is needed."""

from __future__ import annotations

import click

from seamline.connectors.jvm.jars import STORES
from seamline.gateway.cli import progress


@click.command()
@click.option(
    "--store",
    "stores",
    multiple=True,
    type=click.Choice(sorted(STORES)),
    help="Scheme of an object store that tables are in; repeat it for several.",
)
def prepare(stores: tuple[str, ...]) -> None:
    """Fetch the jars of Spark and archive its classes, so that it starts sooner.

    The archive takes about 200 MB beside the jars. It is for this user, release of Java and set of
    jars; after an upgrade, run this again.
    """
    import pyspark  # noqa: F401 - else it says what to install

    from seamline.connectors.spark import class_archive

    with progress.shown("preparing Spark") as line:
        class_archive.prepare(line.report, stores)
    click.echo("ready", err=True)

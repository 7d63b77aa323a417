"""`seamline serve`: runs the gateway."""

from __future__ import annotations

import functools
import logging
import pathlib

import click

from seamline.gateway.cli.options import LOG_FORMAT, PORT, config_options, load_config


@click.command()
@config_options
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=PORT, help="Port to listen on; 0 picks a free one.")
@click.option(
    "--detach", is_flag=True, help="Run in the background; return once the gateway answers."
)
@click.option("--stop", is_flag=True, help="Stop the gateway that --detach started.")
@click.option("--verbose", "-v", is_flag=True, help="Log statements.")
def serve(
    config_file: str | None,
    settings: tuple[str, ...],
    host: str | None,
    port: int | None,
    detach: bool,
    stop: bool,
    verbose: bool,
) -> None:
    """Run the gateway until Ctrl-C."""
    if detach and stop:
        raise click.UsageError("give either --detach or --stop")
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=LOG_FORMAT)
    logging.getLogger("seamline.spark").setLevel(logging.INFO)  # jars fetched at the first start
    loaded = load_config(config_file, settings, http__host=host, http__port=port)
    from seamline.gateway.app.server import GRACE_S
    from seamline.gateway.app.server import serve as serve_http
    from seamline.gateway.cli import detached

    directory = pathlib.Path(loaded.config.state_directory)
    if stop:
        grace_s = loaded.config.http.drain_seconds_max + GRACE_S
        click.echo(
            "stopped" if detached.stop(directory, grace_s) else "nothing is running", err=True
        )
    elif detach:
        started = detached.start(functools.partial(serve_http, loaded.config), directory)
        if started is not None:
            click.echo(
                f"Seamline gateway on {started.address} (process {started.process.pid}; "
                f"`seamline serve --stop` stops it; log {started.log})",
                err=True,
            )
    else:
        serve_http(loaded.config, greet)


def greet(address: str) -> None:
    """Prints the address at which the gateway answers."""
    click.echo(f"Seamline gateway on {address} (Ctrl-C stops it)", err=True)

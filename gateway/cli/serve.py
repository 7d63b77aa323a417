"""`seamline serve`: the gateway."""

from __future__ import annotations

import logging

import click

from seamline.gateway.cli.options import LOG_FORMAT, PORT, config_options, load_config


@click.command()
@config_options
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=PORT, help="Port to listen on; 0 takes a free one.")
@click.option("--verbose", "-v", is_flag=True, help="Log statements.")
def serve(
    config_file: str | None,
    settings: tuple[str, ...],
    host: str | None,
    port: int | None,
    verbose: bool,
) -> None:
    """Runs the gateway until Ctrl-C."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=LOG_FORMAT)
    logging.getLogger("seamline.spark").setLevel(logging.INFO)  # jars fetched at the first start
    loaded = load_config(config_file, settings, http__host=host, http__port=port)
    from seamline.gateway.http.server import serve as serve_http

    serve_http(loaded.config, greet)


def greet(address: str) -> None:
    """Says where the gateway answers."""
    click.echo(f"Seamline gateway on {address} (Ctrl-C stops it)", err=True)

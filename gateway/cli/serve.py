"""`seamline serve`: the gateway."""

from __future__ import annotations

import logging

import click

from seamline.gateway.cli.options import config_options, load_config
from seamline.gateway.http.server import serve as serve_http


@click.command()
@config_options
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--verbose", "-v", is_flag=True, help="Log statements.")
def serve(
    config_file: str | None,
    settings: tuple[str, ...],
    host: str | None,
    port: int | None,
    verbose: bool,
) -> None:
    """Runs the gateway until Ctrl-C."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    loaded = load_config(config_file, settings, http__host=host, http__port=port)
    http = loaded.config.http
    click.echo(f"Seamline gateway on http://{http.host}:{http.port} (Ctrl-C stops it)", err=True)
    serve_http(loaded.config)

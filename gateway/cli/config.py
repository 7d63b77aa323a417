"""`seamline config`: shows the configuration and where each value came from."""

from __future__ import annotations

import click

from seamline.gateway.cli.options import config_options, load_config


@click.group()
def config() -> None:
    """Show the configuration."""


@config.command()
@config_options
def show(config_file: str | None, settings: tuple[str, ...]) -> None:
    """Print each value and where it came from; secrets are hidden."""
    from seamline.gateway.config.load import describe

    rows = list(describe(load_config(config_file, settings)))
    width = max(len(path) for path, _, _ in rows)
    for path, value, source in rows:
        click.echo(f"{path:<{width}}  {value}  ({source})")

"""`seamline completion`: shell scripts with which Tab completes commands, options and values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_SEAMLINE_COMPLETE"
"""The environment variable through which a shell asks Click for completions."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL, to be sourced when your shell starts."""
    class_ = get_completion_class(shell)
    assert class_ is not None
    command = ctx.find_root().command
    click.echo(class_(command, {}, "seamline", VARIABLE).source())

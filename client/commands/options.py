"""Options by which commands reach a gateway, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from seamline.dbapi.credentials import Credentials

F = TypeVar("F", bound=Callable[..., Any])
TOKEN_VARIABLE = "SEAMLINE_TOKEN"  # noqa: S105 - its name

_OPTIONS = (
    click.option("--url", envvar="SEAMLINE_URL", help="Address of the gateway."),
    click.option("--access-token", envvar=TOKEN_VARIABLE, help="Bearer token, if it wants one."),
    click.option("--ca", envvar="SEAMLINE_CA", help="File with the certificates to trust."),
    click.option("--certificate", envvar="SEAMLINE_CERTIFICATE", help="File with your own."),
    click.option("--key", envvar="SEAMLINE_KEY", help="File with your certificate's key."),
)


def gateway_options(command: F) -> F:
    """`--url`, and how one says who one is."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def credentials_of(options: dict[str, Any]) -> Credentials:
    """Takes what the options say of credentials out of all that were given."""
    return Credentials(
        access_token=options.pop("access_token"),
        ca=options.pop("ca"),
        certificate=options.pop("certificate"),
        key=options.pop("key"),
    )

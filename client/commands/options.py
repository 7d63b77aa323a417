"""Options by which commands reach a gateway, and what they mean.

What is not said on the command line is what the variables say, as for `seamline.connect`. A
password has no option: command lines can be read by everybody on a machine.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from seamline.dbapi.credentials import Credentials

F = TypeVar("F", bound=Callable[..., Any])
TOKEN_VARIABLE = "SEAMLINE_TOKEN"  # noqa: S105 - its name
PASSWORD_VARIABLE = "SEAMLINE_PASSWORD"  # noqa: S105 - its name

_OPTIONS = (
    click.option("--url", envvar="SEAMLINE_URL", help="Address of the gateway."),
    click.option("--access-token", help="Bearer token, if it wants one."),
    click.option("--user", help="User, whose password is asked for, instead of a token."),
    click.option("--ca", help="File with the certificates to trust."),
    click.option("--certificate", help="File with your own certificate."),
    click.option("--key", help="File with your certificate's key."),
)


def gateway_options(command: F) -> F:
    """`--url`, and how one says who one is."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def credentials_of(options: dict[str, Any]) -> Credentials:
    """Takes what the options say of credentials out of all that were given."""
    names = ("access_token", "user", "ca", "certificate", "key")
    found = Credentials(**{name: options.pop(name) for name in names}).or_of(os.environ)
    if found.user and found.password is None and sys.stdin.isatty():
        password = click.prompt(f"Password of {found.user}", hide_input=True, err=True)
        return dataclasses.replace(found, password=password)
    return found

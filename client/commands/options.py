"""The command-line options for reaching a gateway, and what they mean.

Anything not given on the command line comes from environment variables, as for `seamline.connect`,
and then from the profile (`seamline.commands.profiles`). There is no option for a password, because
everyone on a machine can read command lines.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from seamline.commands import profiles
from seamline.commands.profiles import Profile
from seamline.dbapi.connection import URL_DEFAULT, Connection
from seamline.dbapi.credentials import Credentials
from seamline.dbapi.embedded import EmbeddedConnection

F = TypeVar("F", bound=Callable[..., Any])
TOKEN_VARIABLE = "SEAMLINE_TOKEN"  # noqa: S105 - its name
PASSWORD_VARIABLE = "SEAMLINE_PASSWORD"  # noqa: S105 - its name


def _profile_names(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    return [CompletionItem(n) for n in profiles.names(os.environ) if n.startswith(start)]


_OPTIONS = (
    click.option(
        "--profile", shell_complete=_profile_names, help="Profile (a gateway by name) to use."
    ),
    click.option("--url", envvar="SEAMLINE_URL", help="Address of the gateway."),
    click.option("--access-token", help="Bearer token, if the gateway requires one."),
    click.option("--user", help="User to log in as, instead of a token; prompts for the password."),
    click.option("--ca", help="File of CA certificates to trust."),
    click.option("--certificate", help="File of your client certificate."),
    click.option("--key", help="File of your client certificate's key."),
)


def gateway_options(command: F) -> F:
    """Adds `--url`, `--profile` and the options for credentials to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_EMBEDDED_OPTIONS = (
    click.option(
        "--embedded",
        is_flag=True,
        help="Use a gateway that runs inside this command and ends with it.",
    ),
    click.option(
        "--config", "config_file", help="Configuration (YAML) of the gateway that --embedded runs."
    ),
)
_OF_OTHERS = ("url", "profile", "access_token", "user")


def embedded_options(command: F) -> F:
    """Adds `--embedded`, and the option for the embedded gateway's configuration, to a command."""
    for option in reversed(_EMBEDDED_OPTIONS):
        command = option(command)
    return command


def profile_of(options: dict[str, Any]) -> Profile:
    """Removes the profile's name from the options, and loads the profile.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    named = options.pop("profile", None)
    if options.get("embedded"):
        return Profile()  # profiles are for gateways elsewhere
    return profiles.load(named, os.environ)


def url_of(options: dict[str, Any], profile: Profile) -> str:
    """Removes the gateway's address from the options, and returns it."""
    return options.pop("url") or profile.url or URL_DEFAULT


def credentials_of(options: dict[str, Any], profile: Profile) -> Credentials:
    """Removes the credentials from the options and returns them; may prompt for a password."""
    names = ("access_token", "user", "ca", "certificate", "key")
    from_options = Credentials(**{name: options.pop(name) for name in names})
    credentials = from_options.or_of(os.environ).or_else(profile.credentials())
    if credentials.user and credentials.password is None and sys.stdin.isatty():
        password = click.prompt(f"Password of {credentials.user}", hide_input=True, err=True)
        return dataclasses.replace(credentials, password=password)
    return credentials


def connect(options: dict[str, Any], profile: Profile, *, follows: bool = False) -> Connection:
    """Removes the options that choose the gateway and the credentials, and connects.

    Args:
        options: The options given on the command line.
        profile: The profile.
        follows: Whether an embedded gateway keeps tails between statements.

    Raises:
        Error: whatever keeps an embedded gateway from starting.
    """
    if options.pop("embedded", False):
        return _embedded(options, follows=follows)
    if options.pop("config_file", None) is not None:
        raise click.UsageError("--config is for --embedded; a running gateway has its own")
    return Connection(
        url_of(options, profile),
        credentials=credentials_of(options, profile),
        catalog=options.pop("catalog") or profile.catalog,
        schema=options.pop("schema") or profile.schema,
    )


def _embedded(options: dict[str, Any], *, follows: bool) -> EmbeddedConnection:
    context = click.get_current_context()
    for name in _OF_OTHERS:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(f"--embedded runs its own gateway: leave out --{option}")
    for name in ("url", "access_token", "user", "ca", "certificate", "key"):
        options.pop(name, None)
    return EmbeddedConnection(
        options.pop("config_file", None),
        follows=follows,
        catalog=options.pop("catalog"),
        schema=options.pop("schema"),
    )

"""Profiles: named gateways, in `seamline/config.toml` of the user's configuration folder.

    profile = "laptop"                     # the default profile

    [profiles.laptop]
    url = "http://127.0.0.1:8474"

    [profiles.production]
    url = "https://lake.example.com"
    token_command = ["vault", "read", "-field=token", "secret/lake"]
    ca = "~/ca.pem"
    schema = "shop"
    format = "vertical"

The command line takes precedence, then environment variables, then the profile. A profile never
holds a secret itself: a token is in a separate file, or a command prints it.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import subprocess
import time
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from seamline.dbapi.credentials import Credentials
from seamline.errors import INVALID_CONFIG, SeamlineError, text_of_file

PROFILE_VARIABLE = "SEAMLINE_PROFILE"
TOKEN_S = 60.0
"""How long the token that a command printed is reused."""
_COMMAND_S = 30.0
_CORRECT = "Correct the profile; docs/command-line.md says what it may have."


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A gateway, and how to connect to it; None where the profile sets nothing."""

    url: str | None = None
    token_file: str | None = None
    token_command: str | list[str] | None = None
    user: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    catalog: str | None = None
    schema: str | None = None
    format: str | None = None

    def credentials(self) -> Credentials:
        """Returns the credentials for the gateway; a token is read when it is needed."""
        token: Callable[[], str] | None = None
        if self.token_command is not None:
            token = _cached(lambda: _from_command(self.token_command or ""))
        elif self.token_file is not None:
            token = lambda: _from_file(self.token_file or "")  # noqa: E731 - shorter than a def
        files = [_expanded(file) for file in (self.ca, self.certificate, self.key)]
        return Credentials(token, self.user, None, *files)


def file_of(environment: Mapping[str, str]) -> pathlib.Path:
    """Returns the path of the profiles file."""
    folder = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return pathlib.Path(folder).expanduser() / "seamline" / "config.toml"


def load(name: str | None, environment: Mapping[str, str]) -> Profile:
    """Returns a profile by name, or else the one that the environment or the file selects.

    Raises:
        SeamlineError: INVALID_CONFIG for an invalid file, or a profile that does not exist.
    """
    file = file_of(environment)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        content = {}
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise _wrong(file, str(cause)) from error
    name = name or environment.get(PROFILE_VARIABLE) or content.get("profile")
    _refuse_unknown(file, "the file", content, {"profile", "profiles"})
    profiles = content.get("profiles", {})
    if name is None:
        return Profile()
    if not isinstance(profiles, dict) or not isinstance(profiles.get(name), dict):
        known = ", ".join(profiles) if isinstance(profiles, dict) else ""
        raise _wrong(
            file, f"there is no profile {name}", hint=f"Known profiles: {known or 'none'}."
        )
    return _profile(file, name, profiles[name])


def names(environment: Mapping[str, str]) -> list[str]:
    """Returns the names of all profiles; empty if the file cannot be read."""
    try:
        profiles = tomllib.loads(file_of(environment).read_text(encoding="utf-8")).get(
            "profiles", {}
        )
    except (OSError, ValueError):
        return []
    return sorted(profiles) if isinstance(profiles, dict) else []


def _profile(file: pathlib.Path, name: str, values: dict[str, Any]) -> Profile:
    where = f"the profile {name}"
    _refuse_unknown(file, where, values, {field.name for field in dataclasses.fields(Profile)})
    for key, value in values.items():
        is_list = key == "token_command" and isinstance(value, list)
        if not (isinstance(value, str) or (is_list and all(isinstance(v, str) for v in value))):
            raise _wrong(file, f"{key} of {where} is not text")
    if sum(key in values for key in ("token_file", "token_command", "user")) > 1:
        raise _wrong(file, f"{where} sets more than one of token_file, token_command and user")
    return Profile(**values)


def _refuse_unknown(
    file: pathlib.Path, where: str, values: Mapping[str, Any], keys: set[str]
) -> None:
    unknown = sorted(set(values) - keys)
    if unknown:
        hint = f"Known keys: {', '.join(sorted(keys))}."
        raise _wrong(file, f"{where} has no {', '.join(unknown)}", hint=hint)


def _wrong(file: pathlib.Path, message: str, *, hint: str = _CORRECT) -> SeamlineError:
    return SeamlineError(INVALID_CONFIG, f"{file}: {message}", hint=hint)


def _expanded(path: str | None) -> str | None:
    return None if path is None else str(pathlib.Path(path).expanduser())


def _from_file(path: str) -> str:
    file = pathlib.Path(path).expanduser()
    failure = f"the token file {file} has no token"
    text = text_of_file(file, INVALID_CONFIG, failure, hint=_CORRECT)
    try:
        return _token(text)
    except ValueError as error:
        raise SeamlineError(INVALID_CONFIG, f"{failure}: {error}", hint=_CORRECT) from error


def _from_command(command: str | list[str]) -> str:
    words = shlex.split(command) if isinstance(command, str) else command
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, text=True, check=True, timeout=_COMMAND_S
        )
        return _token(done.stdout)
    except (OSError, IndexError, subprocess.SubprocessError, ValueError) as error:
        raise SeamlineError(
            INVALID_CONFIG,
            f"the token command {' '.join(words[:1])} printed no token: {error}",
            hint="Run it by hand; it must print the token and nothing else.",
        ) from error


def _token(text: str) -> str:
    token = text.strip()
    if not token:
        raise ValueError("nothing is there")
    return token


def _cached(make: Callable[[], str]) -> Callable[[], str]:
    """Caches the text for a while, so that not every request runs a command."""
    text, made_at = "", float("-inf")

    def token() -> str:
        nonlocal text, made_at
        if time.monotonic() - made_at > TOKEN_S:
            text, made_at = make(), time.monotonic()
        return text

    return token

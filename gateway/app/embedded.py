"""A gateway inside another program, for that program alone: what `--embedded` runs.

It is the same gateway, with the configuration that a gateway on this machine would have, so that
statements, errors and receipts are the same. It listens on loopback, on a port that is not
announced, and accepts only the access token that is created here. Requests run as the user who owns
this process, with the rights that the rules give to that name. Receipts are signed with the secret
of the configured gateway, so that each of the two accepts the other's tokens.

Results and spilled rows are kept in a separate folder below the state directory, which is removed
when the process ends. The folder of a process that was killed is removed by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator

from werkzeug.serving import WSGIRequestHandler, make_server

from seamline.connectors import supervision
from seamline.connectors.files import private_folder
from seamline.gateway import process
from seamline.gateway.app.server import named_state_errors
from seamline.gateway.app.wiring import Gateway
from seamline.gateway.config.file_locations import find_file
from seamline.gateway.config.load import load
from seamline.gateway.config.model import AccessToken, AuthConfig, Config, HttpConfig
from seamline.gateway.query.tokens import kept_secret

_HOST = "127.0.0.1"
_FOLDER = "embedded"
_LOCK = "lock"


class EmbeddedGateway:
    """An embedded gateway, which runs from its construction until `close`.

    Args:
        config_file: The configuration file; by default the one that `seamline serve` would find.
        follows: Whether to keep tails between statements, which pays off when several are run.

    Attributes:
        url: Its address.
        token: The access token that it accepts.
        place: The path of its configuration file.

    Raises:
        SeamlineError: INVALID_CONFIG, DISK_FULL, MISSING_EXTRA.
    """

    def __init__(self, config_file: str | None, *, follows: bool) -> None:
        file = find_file(config_file, os.environ)
        configured = load(file).config
        self.place = str(file)
        self.token = secrets.token_urlsafe(32)
        with contextlib.ExitStack() as parts:
            folder = parts.enter_context(_folder(pathlib.Path(configured.state_directory)))
            config = _private(configured, folder, self.token, follows=follows)
            gateway = Gateway(config)
            parts.callback(gateway.close)
            server = make_server(
                _HOST, 0, gateway.app(), threaded=True, request_handler=_SilentHandler
            )
            parts.callback(server.server_close)
            parts.callback(server.shutdown)
            supervision.start("embedded", server.serve_forever)
            self.url = f"http://{_HOST}:{server.server_port}"
            self._parts = parts.pop_all()

    def close(self) -> None:
        """Cancels running statements and removes everything that was kept."""
        self._parts.close()


class _SilentHandler(WSGIRequestHandler):
    """Handles requests without logging a line for each."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - its signature
        """Writes nothing."""


def _private(config: Config, folder: pathlib.Path, token: str, *, follows: bool) -> Config:
    """Returns the configuration, for the current user alone."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    own = AccessToken(name=getpass.getuser(), sha256=digest)
    auth = AuthConfig(tokens=(own,), groups=config.auth.groups, rules=config.auth.rules)
    http = HttpConfig(threads=config.http.threads, request_bytes_max=config.http.request_bytes_max)
    secret = config.tokens.secret or kept_secret(
        pathlib.Path(config.state_directory) / "token-secret"
    )
    return config.model_copy(
        update={
            "auth": auth,
            "http": http,
            "state_directory": str(folder),
            "tokens": config.tokens.model_copy(update={"secret": secret}),
            "tail": config.tail.model_copy(update={"follow": config.tail.follow and follows}),
        }
    )


@contextlib.contextmanager
def _folder(state: pathlib.Path) -> Iterator[pathlib.Path]:
    """Provides a folder for this process, and removes those of processes that are gone."""
    with named_state_errors(state):
        above = state / _FOLDER
        private_folder(above)
        for left in above.iterdir():
            _remove_abandoned(left)
        own = above / f"{os.getpid()}-{secrets.token_hex(4)}"
        private_folder(own)
        lock = (own / _LOCK).open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock:
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def _remove_abandoned(folder: pathlib.Path) -> None:
    """Removes a folder whose process no longer holds its lock.

    A folder without a lock belongs to a process that is just starting, or was made by a worker as
    it ended.
    """
    try:
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        pid = folder.name.partition("-")[0]
        if not pid.isdigit() or process.identify(int(pid)) is not None:
            return
    except OSError:
        return
    shutil.rmtree(folder, ignore_errors=True)

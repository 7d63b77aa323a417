"""Serves HTTP with gunicorn: one worker with many threads, whose clients are made after the fork.

SIGTERM drains: the worker keeps serving while accepted statements end and are fetched, and refuses
new ones. SIGINT (Ctrl-C) ends it at once.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import errno
import functools
import json
import os
import pathlib
import resource
import select
import selectors
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import ThreadWorker

from seamline.connectors import supervision
from seamline.connectors.files import exclusive, make_folder, named_write_errors
from seamline.errors import INVALID_CONFIG, PORT_TAKEN, STATE_DIRECTORY_TAKEN, SeamlineError
from seamline.gateway.access import authentication
from seamline.gateway.config.model import Config
from seamline.gateway.http.presented import IDENTIFIED
from seamline.gateway.http.request_slots import ENDS_CONNECTION
from seamline.gateway.http.tls import ServerTls
from seamline.gateway.http.unauthenticated_connections import UnauthenticatedConnections

if TYPE_CHECKING:
    import flask

    from seamline.gateway.app.wiring import Gateway

_ANSWERS_S = 15
_CLOSE_S = 5
_FAILURE_BYTES_MAX = 1 << 16
_CONNECTIONS = 1000
_CROWD = _CONNECTIONS * 7 // 8
"""Number of connections beyond which a new one ends a waiting one."""
_FILES_MAX = 1 << 16
_HEADER_BYTES_MAX = 1 << 16
"""Large, as Trino clients carry their prepared statements in headers."""
_HEADERS_BYTES_MAX = 1 << 18
"""For all headers of a request: gunicorn searches them again with every piece that arrives, before
anybody has authenticated."""
_TURN_S = 0.0005
"""Seconds after which a computing thread lets others run. With Python's 5 ms, a thread that parses
a text of 200,000 characters would delay a short statement by several times that; much less than
this, and every thread that waits for its turn wakes up so often that many clients slow each other
down."""
_NEXT_MS_MAX = 2
"""Milliseconds for which a thread waits for the next request of the client it has answered."""
_SILENT_S_MAX = 30
"""Seconds for which a client may neither send nor receive a byte within a request or an answer."""
GRACE_S = _ANSWERS_S + _CLOSE_S
"""Seconds after draining to answer open requests and to release everything."""


class _Request(Request):  # type: ignore[misc]
    """A request whose headers are bounded together, not only one by one."""

    max_buffer_headers = property(lambda _: _HEADERS_BYTES_MAX, lambda _, __: None)


RequestParser.mesg_class = _Request


class DrainingWorker(ThreadWorker):  # type: ignore[misc]
    """A worker with a thread for each open request, which drains before it stops.

    The number of requests that are worked on at once is bounded by `slots`, not by threads: others
    must not need a thread that waits for a client or a statement.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unauthenticated = UnauthenticatedConnections()
        self._mine = threading.local()
        self._loops = False
        self.wsgi: Any = None

    def load_wsgi(self) -> None:
        """Loads the application, which reports when it has identified the sender of a request."""
        super().load_wsgi()
        application = self.wsgi

        def answer(environ: Any, start_response: Any) -> Any:
            connection = self._mine.connection
            environ[IDENTIFIED] = functools.partial(self._unauthenticated.remove, connection)
            request = connection.parser.mesg  # whose answer says whether the connection is kept
            environ[ENDS_CONNECTION] = functools.partial(setattr, request, "must_close", True)
            return application(environ, start_response)

        self.wsgi = answer

    def get_thread_pool(self) -> concurrent.futures.ThreadPoolExecutor:
        """Returns a thread pool that creates threads as they are needed."""
        return concurrent.futures.ThreadPoolExecutor(self.cfg.worker_connections)

    def accept(self, listener: Any) -> None:
        """Accepts a connection; if there are very many, closes the one that has waited longest."""
        super().accept(listener)
        if self.nr_conns <= _CROWD:
            return
        silent = [conns for conns in (self.pending_conns, self.keepalived_conns) if conns]
        longest = min(silent, key=lambda conns: conns[0].timeout, default=None)
        since = self._unauthenticated.since()
        if longest is None or (
            since is not None and since < longest[0].timeout - self.cfg.keepalive
        ):
            self._unauthenticated.end_first()
        else:
            longest[0].timeout = 0
            self.murder_pending()
            self.murder_keepalived()

    def enqueue_req(self, conn: Any) -> None:
        """Gives a connection a thread once it has sent something, and none before."""
        if conn.initialized or conn.data_ready:
            super().enqueue_req(conn)
            return
        conn.sock.setblocking(False)
        conn.set_timeout()
        self.pending_conns.append(conn)
        readable = functools.partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def on_pending_socket_readable(self, conn: Any, client: Any) -> None:
        """Serves a connection's first request."""
        if not self._closes(conn, client, self.pending_conns):
            super().on_pending_socket_readable(conn, client)

    def on_client_socket_readable(self, conn: Any, client: Any) -> None:
        """Serves a connection's next request."""
        if not self._closes(conn, client, self.keepalived_conns):
            super().on_client_socket_readable(conn, client)

    def _cap_keepalive(self, deadline: float) -> None:
        """Closes connections without a request by then, as the worker ends."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def _closes(self, conn: Any, client: Any, waiting: collections.deque[Any]) -> bool:
        """Closes a connection whose client has closed it; a crowd that leaves needs no threads."""
        try:
            # not a TLS socket's own method, which knows no such flag
            if socket.socket.recv(client, 1, socket.MSG_PEEK):
                return False
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.poller.unregister(client)
        waiting.remove(conn)
        self.nr_conns -= 1
        conn.close()
        return True

    def murder_pending(self) -> None:
        """Closes connections that are silent for too long, or take too long to send a request."""
        super().murder_pending()
        self._unauthenticated.end_late()

    def handle(self, conn: Any) -> Any:
        """Serves a request, and further ones of a client that sends them as soon as it is answered.

        Such a client costs no changes of threads. One that falls silent in the middle of a request
        is disconnected.
        """
        kept = self._serve(conn)
        while kept is True and self.alive and _sends_next(conn):
            kept = self._serve(conn)
        return kept

    def _serve(self, conn: Any) -> Any:
        self._mine.connection = conn
        self._unauthenticated.add(conn)
        try:
            return self._handle(conn)
        finally:
            self._unauthenticated.remove(conn)

    def _handle(self, conn: Any) -> Any:
        silent = struct.pack("ll", _SILENT_S_MAX, 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            conn.sock.setsockopt(socket.SOL_SOCKET, option, silent)
        kept = super().handle(conn)
        if not kept:  # closed in this thread, so that a slow client takes no time from others
            conn.close(graceful=True)
            conn.close = lambda **_: None
        return kept

    def run(self) -> None:
        """Serves until a signal ends it.

        A signal may interrupt this thread while it holds a lock that shutdown needs, so the
        handlers leave their work to the loop.
        """
        self._loops = True
        try:
            super().run()
        finally:
            self._loops = False

    def is_parent_alive(self) -> bool:
        """Whether the process that started this one still runs.

        Once it was killed, whoever starts the gateway again needs the port, so this worker listens
        no longer, and answers only what it has accepted.
        """
        alive = bool(super().is_parent_alive())
        if not alive:
            self.set_accept_enabled(False)
            for listener in self.sockets:
                listener.close()
            self.cfg.set("graceful_timeout", _ANSWERS_S)
        return alive

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """Handles SIGINT and SIGQUIT by ending at once."""
        end = functools.partial(super().handle_quit, sig, frame)
        if self._loops:
            self.method_queue.defer(end)
        else:
            end()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles SIGTERM by draining; gunicorn may send it twice, but draining starts once."""
        if self.alive and not hasattr(self, "_drains"):
            self._drains = True
            drain = functools.partial(self._drain, sig, frame)
            self.method_queue.defer(supervision.start, "drain", drain)

    def _drain(self, sig: int, frame: FrameType | None) -> None:
        supervision.attempt("drain", self.app.drain)
        self.cfg.set("graceful_timeout", _ANSWERS_S)
        super().handle_exit(sig, frame)


def _sends_next(conn: Any) -> bool:
    """Whether the next request on a connection arrives at once; not looked at with TLS."""
    if isinstance(conn.sock, ssl.SSLSocket) or conn.parser.unreader.buf.getvalue():
        return False
    poll = select.poll()
    poll.register(conn.sock, select.POLLIN)
    try:
        return bool(poll.poll(_NEXT_MS_MAX) and conn.sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


class _Log(Logger):  # type: ignore[misc]
    """Gunicorn's log, without messages about failures that the command is about to explain."""

    def error(self, msg: str, *arguments: Any, **options: Any) -> None:
        """Logs an error, except why the worker could not start."""
        is_told = msg in {"Shutting down: %s", "Reason: %s"}
        if not is_told and arguments[1:] != (Arbiter.APP_LOAD_ERROR,):
            super().error(msg, *arguments, **options)

    def exception(self, msg: str, *arguments: Any, **options: Any) -> None:
        """Logs an exception, unless a client was silent for too long."""
        if not isinstance(sys.exc_info()[1], BlockingIOError | TimeoutError):
            super().exception(msg, *arguments, **options)


class GatewayServer(BaseApplication):  # type: ignore[misc]
    """Runs until a signal ends it.

    Args:
        config: The configuration.
        ready: Called with the addresses once it answers; `and` is between them.
    """

    def __init__(self, config: Config, ready: Callable[[str], None]) -> None:
        self._config = config
        self._ready = ready
        self._gateway: Gateway | None = None
        self._ports: list[str] = []
        self._failures = os.pipe()  # from the worker to the process that waits for it
        super().__init__()

    def load_config(self) -> None:
        """Sets gunicorn's settings."""
        http = self._config.http
        settings: dict[str, Any] = {
            "bind": http.at(http.port),
            "workers": 1,
            "worker_class": DrainingWorker,
            "threads": http.threads,
            "worker_connections": _CONNECTIONS,
            "keepalive": 75,
            "timeout": 0,
            "limit_request_field_size": _HEADER_BYTES_MAX,
            "forwarded_allow_ips": "",  # only `proxies` reads forwarding headers
            "forwarder_headers": "",
            "secure_scheme_headers": {},
            "graceful_timeout": http.drain_seconds_max + GRACE_S,
            "post_worker_init": self._greet,
            "worker_exit": self._close,
            "logger_class": _Log,
            "worker_tmp_dir": self._config.state_directory,
            "proc_name": "seamline",
            "loglevel": "warning",
            "preload_app": False,
            "control_socket_disable": True,
        }
        if http.tls.certificate is not None:
            tls = ServerTls(http.tls)
            settings |= {
                "certfile": http.tls.certificate,
                "keyfile": http.tls.key,
                "ssl_context": lambda _config, _default: tls.context(),
            }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> flask.Flask:
        """Returns the application, which is created in the worker and imports its parts there.

        If DuckDB is imported before the fork and used after it, the worker crashes when it exits.
        """
        try:
            with named_state_errors(pathlib.Path(self._config.state_directory)):
                return self._load()
        except Exception as error:
            os.write(self._failures[1], json.dumps(supervision.named(error).to_json()).encode())
            raise SystemExit(Arbiter.APP_LOAD_ERROR) from error

    def _load(self) -> flask.Flask:
        from seamline.gateway.app.wiring import Gateway
        from seamline.gateway.memory import settle_memory

        sys.setswitchinterval(_TURN_S)
        self._gateway = Gateway(self._config)
        app = self._gateway.app()
        self._ports = self._gateway.open_ports()
        settle_memory()
        return app

    def run(self) -> None:
        """Runs until a signal ends it.

        Raises:
            SeamlineError: why the worker could not start.
        """
        owner = os.getpid()
        try:
            super().run()
        except SystemExit as ended:
            if ended.code == Arbiter.APP_LOAD_ERROR and os.getpid() == owner:
                body = json.loads(os.read(self._failures[0], _FAILURE_BYTES_MAX))
                raise SeamlineError.from_json(body) from ended
            raise

    def drain(self) -> None:
        """Waits for the statements of the calling worker, which refuses new ones."""
        if self._gateway is not None:
            self._gateway.service.drain(self._config.http.drain_seconds_max)

    def _greet(self, worker: Any) -> None:
        port = worker.sockets[0].getsockname()[1]
        self._ready(" and ".join([self._config.http.url(port), *self._ports]))

    def _close(self, _: Any, __: Any) -> None:
        if self._gateway is not None:
            self._gateway.close()


def serve(
    config: Config, ready: Callable[[str], None], owned: Callable[[], None] = lambda: None
) -> None:
    """Serves until a signal ends it.

    Args:
        config: The configuration.
        ready: Called with the address once it answers.
        owned: Called when the state directory is this gateway's own, before it listens.

    Raises:
        SeamlineError: INVALID_CONFIG, PORT_TAKEN, STATE_DIRECTORY_TAKEN, DISK_FULL.
    """
    authentication.check_listening(config)
    if config.http.tls.certificate is not None:
        ServerTls(config.http.tls)  # fails here if it is invalid, not in a worker
    check_port(config.http.host, config.http.port)
    _allow_files()
    with _own_state(pathlib.Path(config.state_directory)):
        owned()
        GatewayServer(config, ready).run()


def _allow_files() -> None:
    """Raises the limit of open files; the usual 1,024 are too few for the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@contextlib.contextmanager
def _own_state(directory: pathlib.Path) -> Iterator[None]:
    """Locks the state directory; the worker inherits the lock, and keeps it if this one is killed.

    Two gateways in one directory would remove each other's results and tails.
    """

    def taken() -> None:
        raise SeamlineError(
            STATE_DIRECTORY_TAKEN, f"another gateway keeps its state in {directory}"
        )

    with named_state_errors(directory):
        make_folder(directory)
        lock = contextlib.ExitStack()
        lock.enter_context(exclusive(directory / "gateway.lock", taken))
    with lock:
        yield


def named_state_errors(directory: pathlib.Path) -> contextlib.AbstractContextManager[None]:
    """Turns failures to write to a state directory into named errors."""
    hint = "Set state_directory to a writable directory without other users' files."
    return named_write_errors(directory, INVALID_CONFIG, hint=hint)


def check_port(host: str, port: int) -> None:
    """Requires that the address can be listened on.

    Raises:
        SeamlineError: PORT_TAKEN; INVALID_CONFIG for a host that is not an address of this machine.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, UnicodeError) as error:
            cause = getattr(error, "strerror", None) or error
            if getattr(error, "errno", None) in {errno.EADDRINUSE, errno.EACCES}:
                raise SeamlineError(
                    PORT_TAKEN,
                    f"port {port} of {host} cannot be used: {cause}",
                    hint="Stop what listens there (`seamline serve --stop` stops a gateway that "
                    "--detach left running), or pass --port.",
                ) from error
            raise SeamlineError(
                INVALID_CONFIG,
                f"http.host {host!r} is not an address of this machine: {cause}",
                hint="Pass --host with one that is, such as 127.0.0.1.",
            ) from error

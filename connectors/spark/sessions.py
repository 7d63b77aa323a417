"""Spark Connect sessions of our own: they share nothing in the process, and end without waiting.

PySpark keeps one thread pool for what all sessions of a process send to their servers. Every
session that is closed or garbage-collected shuts that pool down, under a lock, and waits for what
is in it. So a session that ends would block the others, or wait for itself. The sessions made here
close only their own channel.

A session is costly for its server: its catalogs reconnect, and its Python workers are forked from a
process of its own. So `Sessions` keeps a few, which statements use one after another.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from seamline.connectors import supervision
from seamline.connectors.spark.settings import SESSION

PATIENT = 30
"""Attempts over half a minute, in which a restarted server is found again."""
HANG_UP_S = 30.0
"""How long a server is asked politely before its connection is closed."""
_LATE_AFTER_S = (0.1, 0.5, 2.0)
"""When to look for jobs that began too late to be canceled with their statement."""
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers that would write each error of a statement, with part of its text, to standard error."""
_IDLE_MAX = 4
"""Sessions kept for the next statements."""
_AGE_MAX_S = 600.0
"""An older session is not used again: its catalogs have secrets that may have changed."""
_KERNELS_MAX = 100
"""A session that has learned more is not used again: statements may define their own kernels."""
_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_IMPORTING = threading.Lock()
"""PySpark's modules import each other: a second thread could get a half-imported one."""


class Session:
    """A session with what successive statements leave in it. For one thread at a time."""

    def __init__(self, url: str, spark: Any) -> None:
        self.url = url
        self.spark = spark
        self.learned: dict[str, object] = {}
        self.opened_at = time.monotonic()
        self.statements = 0
        self._views: set[str] = set()

    @property
    def is_worn(self) -> bool:
        """Whether it must not be used again."""
        age_s = time.monotonic() - self.opened_at
        return age_s > _AGE_MAX_S or len(self.learned) > _KERNELS_MAX

    def view(self, name: str, frame: Any) -> None:
        """Registers a frame under a name until the statement ends."""
        self._views.add(name)
        frame.createOrReplaceTempView(name)

    def tidy(self) -> None:
        """Drops the views of the last statement, and the data that came with them."""
        while self._views:
            self.spark.catalog.dropTempView(self._views.pop())

    def begin(self, tag: str) -> None:
        """Prepares it for a statement; fails if the server no longer knows it."""
        self.spark.conf.set("spark.sql.session.timeZone", SESSION["spark.sql.session.timeZone"])
        self.spark.clearTags()  # tags belong to this thread
        self.spark.addTag(tag)
        self.statements += 1


class Sessions:
    """Sessions with a server, each used by one statement after another. Safe to share.

    Args:
        url: Returns the server's address.
        attempts: See `connect`.
    """

    def __init__(self, url: Callable[[], str], attempts: int) -> None:
        self._url = url
        self._attempts = attempts
        self._lock = threading.Lock()
        self._idle: list[Session] = []
        self._is_closed = False
        self._replaced_at = -math.inf

    @property
    def idle(self) -> int:
        """How many sessions wait for a statement."""
        with self._lock:
            return len(self._idle)

    def take(self, tag: str) -> Session:
        """Returns a session that no other statement uses; what this thread runs in it is tagged."""
        url = self._url()
        while (session := self._next()) is not None:
            if session.url == url and self._may_serve(session):
                with contextlib.suppress(Exception):  # the server may have forgotten it
                    session.begin(tag)
                    return session
            let_go(session.spark)
        session = Session(url, open_session(url, self._attempts))
        session.begin(tag)
        return session

    def give_back(self, session: Session) -> None:
        """Takes back a session in which nothing runs any more; waits for nothing."""

        def tidy() -> None:
            with contextlib.suppress(Exception):  # a session that is lost is not used again
                session.tidy()
                if self._keep(session):
                    return
            let_go(session.spark)

        supervision.start("spark-tidy", tidy)

    def replace(self) -> None:
        """Has later statements open sessions, because a catalog refuses the tokens of these.

        Iceberg in Java stops renewing a token after failures; a new session logs in again.
        """
        self._replaced_at = time.monotonic()

    def close(self) -> None:
        """Releases all idle sessions, and the others once they become idle."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            let_go(session.spark)

    def _may_serve(self, session: Session) -> bool:
        return not session.is_worn and session.opened_at > self._replaced_at

    def _next(self) -> Session | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, session: Session) -> bool:
        with self._lock:
            is_kept = (
                not self._is_closed and self._may_serve(session) and len(self._idle) < _IDLE_MAX
            )
            if is_kept:
                self._idle.append(session)
            return is_kept


def connect(url: str, attempts: int = PATIENT) -> Any:
    """Opens a session of its own on a Connect server; the builder's is shared by the process.

    Args:
        url: The server's address, `sc://host:port`.
        attempts: How often a call is retried on a server that is gone, the session's release
            included; from the sixth on, a second apart.
    """
    with _IMPORTING:
        from pyspark.logger import PySparkLogger
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True

    class Channel(DefaultChannelBuilder):
        @property
        def endpoint(self) -> str:
            """The address of our server; a program on the other loopback address gets no token."""
            is_ours = self.token is not None and not self.use_ssl and self.host == "localhost"
            return f"127.0.0.1:{self._port}" if is_ours else super().endpoint

    session = SparkSession(connection=Channel(url))
    client: Any = session.client
    client.seamline_url = url
    client.set_retry_policies(
        [
            DefaultPolicy(
                max_retries=attempts, initial_backoff=50, backoff_multiplier=2.0, max_backoff=1000
            )
        ]
    )

    def close() -> None:
        client._channel.close()  # noqa: SLF001 - `close` itself ends the pool of all sessions
        client._closed = True  # noqa: SLF001 - what `is_stopped` asks

    make_request = client._execute_plan_request_with_metadata  # noqa: SLF001 - no operation id
    client.operation_id = None
    client.is_repeating = False

    def request() -> Any:
        made = make_request()
        if not client.is_repeating:
            client.operation_id = str(uuid.uuid4())
        made.operation_id = client.operation_id
        return made

    client._execute_plan_request_with_metadata = request  # noqa: SLF001
    client.close = close
    return session


def open_session(url: str, attempts: int = PATIENT) -> Any:
    """Opens a session with our settings, whatever its server's are; see `connect`."""
    session = connect(url, attempts)
    try:
        for key, value in SESSION.items():
            session.conf.set(key, value)
    except BaseException:
        session.client.close()
        raise
    return session


class SessionsApart:
    """Sessions beside another, each with its own settings and names. Safe to share.

    Each of them has its own connection to every catalog, whose token Iceberg renews until it is
    closed. So they are used again, and closed at the end.

    Args:
        session: The other session, whose server or JVM they are in.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._is_closed = False

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """Yields a session that nothing else uses; it is not used again after an error."""
        with self._lock:
            session = self._idle.pop() if self._idle else None
        session = session or self._opened()
        try:
            yield session
        except BaseException:
            _release(session)
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(session)
                return
        _release(session)

    def close(self) -> None:
        """Releases idle sessions, and the others once nothing uses them."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            _release(session)

    def _opened(self) -> Any:
        if _is_remote(self._session):
            return open_session(self._session.client.seamline_url)
        return self._session.newSession()


def _release(session: Any) -> None:
    """Releases a session; closes the catalogs of one in our JVM, which Spark never does itself."""
    if _is_remote(session):
        let_go(session)
        return
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no name for catalogs
    with contextlib.suppress(Exception):  # the JVM may be gone, and with it what is to be closed
        manager = session._jsparkSession.sessionState().catalogManager()  # noqa: SLF001
        names = manager.listCatalogs(gateway.jvm.scala.Option.empty())
        for catalog in [manager.catalog(names.apply(index)) for index in range(names.size())]:
            if catalog.getClass().getName() == _ICEBERG_CATALOG:
                catalog.icebergCatalog().close()


def _is_remote(session: Any) -> bool:
    from pyspark.sql import SparkSession

    return not isinstance(session, SparkSession)


def let_go(session: Any, *, is_interrupted: bool = False) -> None:
    """Releases a session on its server, which ends what it may still run; waits for nothing.

    `session.stop()` holds locks of the whole process while it waits for the server.

    Args:
        session: The session.
        is_interrupted: Whether its last operation was interrupted; its jobs may still begin.
    """
    give_up = supervision.later(HANG_UP_S, "spark-release", session.client.close)

    def release() -> None:
        if is_interrupted:
            _cancel_late_jobs(session)
        with contextlib.suppress(Exception):  # the server may be gone: then it holds nothing
            session.client.release_session()
        give_up()
        session.client.close()

    supervision.start("spark-release", release)


def _cancel_late_jobs(session: Any) -> None:
    """Ends jobs of the session's last operation that began after it was interrupted.

    Adaptive execution submits stages from threads of its own. A stage that is overtaken by an
    interruption is not among the jobs canceled with it, and would run to its end on all the cores
    that it finds. When an operation fails, all jobs of its id are canceled. So an operation that
    must fail is run under the same id.
    """
    session.client.is_repeating = True
    for pause_s in _LATE_AFTER_S:
        time.sleep(pause_s)
        with contextlib.suppress(Exception):  # it should fail; or the server and its jobs are gone
            session.sql("CANCEL")


def functions_for(session: Any) -> Any:
    """Returns PySpark's functions for a session, classic or Connect.

    `pyspark.sql.functions` decides by the process's environment, which these sessions leave alone.
    """
    from pyspark.sql import functions
    from pyspark.sql.connect import functions as connect_functions

    return connect_functions if _is_remote(session) else functions

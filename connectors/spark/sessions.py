"""Spark's sessions: one pool of them for what reads and for what writes, classic or Connect.

A session is costly: its catalogs connect and log in, and its Python workers are forked from a
process of its own. So `Sessions` keeps a few, which are used one after another, and ends the others
with their connections to catalogs, whose tokens Iceberg would renew for as long as Spark runs. A
Connect server cannot be told to close a catalog: its sessions are ended only if they must be.

Connect sessions of our own share nothing in the process, and end without waiting. PySpark keeps one
thread pool for what all sessions of a process send to their servers. Every session that is closed
or garbage-collected shuts that pool down, under a lock, and waits for what is in it. So a session
that ends would block the others, or wait for itself. The sessions made here close only their own
channel.
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
from seamline.connectors.spark.errors import named_error
from seamline.connectors.spark.settings import SESSION
from seamline.errors import (
    CANCELED,
    CATALOG_ACCESS_DENIED,
    DEADLINE_EXCEEDED,
    SPARK_FAILED,
    SPARK_UNAVAILABLE,
    SeamlineError,
)

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
"""An older session of a classic Spark is not used again: its catalogs may have old secrets."""
_KERNELS_MAX = 100
"""A session that has learned more is not used again: statements may define their own kernels."""
_MAY_STILL_RUN = frozenset({CANCELED, DEADLINE_EXCEEDED, SPARK_FAILED, SPARK_UNAVAILABLE})
"""Errors after which a statement's jobs may still run."""
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

    def view(self, name: str, frame: Any) -> None:
        """Registers a frame under a name until the statement ends."""
        self._views.add(name)
        frame.createOrReplaceTempView(name)

    @property
    def is_tidy(self) -> bool:
        """Whether the last statement left no views."""
        return not self._views

    def tidy(self) -> None:
        """Drops the views of the last statement, and the data that came with them."""
        while self._views:
            self.spark.catalog.dropTempView(self._views.pop())

    def begin(self, tag: str | None) -> None:
        """Prepares it for a statement; fails if the server no longer knows it."""
        self.spark.conf.set("spark.sql.session.timeZone", SESSION["spark.sql.session.timeZone"])
        if tag is not None:
            self.spark.clearTags()  # tags belong to this thread
            self.spark.addTag(tag)
        self.statements += 1


class Sessions:
    """Sessions with one Spark, each used by one statement after another. Safe to share.

    Args:
        url: Returns the server's address; sessions with another address are not used again.
        start: Opens a session at an address.
        end: Ends a session, and its connections to catalogs if that is possible.
        age_s_max: The age from which a session is not used again.
    """

    def __init__(
        self,
        url: Callable[[], str],
        start: Callable[[str], Any],
        end: Callable[[Any], None],
        age_s_max: float = math.inf,
    ) -> None:
        self._url = url
        self._start = start
        self._end = end
        self._age_s_max = age_s_max
        self._lock = threading.Lock()
        self._idle: list[Session] = []
        self._is_closed = False
        self._replaced_at = -math.inf

    @classmethod
    def on_server(cls, url: Callable[[], str], attempts: int = PATIENT) -> Sessions:
        """Returns sessions on a Connect server; see `connect`."""
        return cls(url, lambda address: open_session(address, attempts), let_go)

    @classmethod
    def beside(cls, spark: Any) -> Sessions:
        """Returns sessions on the server of another session, or in its JVM."""
        if _is_remote(spark):
            return cls.on_server(lambda: str(spark.client.seamline_url))
        return cls(lambda: "", lambda _: spark.newSession(), _close_catalogs, _AGE_MAX_S)

    @property
    def idle(self) -> int:
        """How many sessions wait for a statement."""
        with self._lock:
            return len(self._idle)

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """Yields PySpark's session that nothing else uses until the block ends."""
        session = self.take()
        has_ended = False
        try:
            yield session.spark
            has_ended = True
        except Exception as error:
            named = error if isinstance(error, SeamlineError) else named_error(error)
            has_ended = self.note_failure(session, named)
            raise
        finally:
            if has_ended:
                self.give_back(session)
            else:
                self._end(session.spark)

    def note_failure(self, session: Session, error: SeamlineError) -> bool:
        """Notes what failed in a session; returns whether nothing runs in it any more.

        If a catalog refuses the token of a session that has been used before, later statements get
        other sessions: Iceberg in Java stops renewing a token after failures, and a new session
        logs in again.
        """
        if error.code is CATALOG_ACCESS_DENIED and session.statements > 1:
            self._replaced_at = time.monotonic()
        return error.code not in _MAY_STILL_RUN

    def take(self, tag: str | None = None) -> Session:
        """Returns a session that no other statement uses; what this thread runs in it is tagged."""
        url = self._url()
        while (session := self._next(url)) is not None:
            with contextlib.suppress(Exception):  # the server may have forgotten it
                session.begin(tag)
                return session
            self._end(session.spark)
        session = Session(url, self._start(url))
        session.begin(tag)
        return session

    def give_back(self, session: Session) -> None:
        """Takes back a session in which nothing runs any more; waits for nothing."""

        def tidy() -> None:
            with contextlib.suppress(Exception):  # a session that is lost is not used again
                session.tidy()
                if self._keep(session):
                    return
            self._end(session.spark)

        if session.is_tidy:
            tidy()
        else:
            supervision.start("spark-tidy", tidy)

    def close(self) -> None:
        """Releases all idle sessions, and the others once they become idle."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            self._end(session.spark)

    def _may_serve(self, session: Session) -> bool:
        age_s = time.monotonic() - session.opened_at
        is_worn = age_s > self._age_s_max or len(session.learned) > _KERNELS_MAX
        return not is_worn and session.opened_at > self._replaced_at

    def _next(self, url: str) -> Session | None:
        """Returns an idle session, and ends those that must not be used again."""
        with self._lock:
            serving = [one for one in self._idle if one.url == url and self._may_serve(one)]
            worn = [one for one in self._idle if one not in serving]
            session = serving.pop() if serving else None
            self._idle = serving
        for one in worn:
            self._end(one.spark)
        return session

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


def _close_catalogs(session: Any) -> None:
    """Closes the catalogs of a session in our JVM, which Spark never does itself."""
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

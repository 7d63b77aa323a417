"""Spark Connect sessions of our own: they share nothing in the process, and end without waiting.

PySpark keeps one pool of threads for what all sessions of a process send to their servers, and
every session that is closed or collected ends that pool, under a lock, waiting for what is in it. A
session that ended would hold up the others, or find itself among those it waits for. The sessions
made here close only their own channel.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

from seamline.connectors import supervision
from seamline.connectors.spark.settings import SESSION

PATIENT = 30
"""Half a minute, in which a restarted server is found again."""
HANG_UP_S = 30.0
"""How long a server is asked politely before its connection is closed."""
_LATE_AFTER_S = (0.1, 0.5, 2.0)
"""When to look for jobs that began too late to be canceled with their statement."""


def connect(url: str, attempts: int = PATIENT) -> Any:
    """A session of its own on a Connect server; the builder's are shared by the whole process.

    Args:
        url: The server's address, `sc://host:port`.
        attempts: How often a call is tried again on a server that is gone, its release included;
            from the sixth on, a second apart.
    """
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    class Channel(DefaultChannelBuilder):
        @property
        def endpoint(self) -> str:
            """Where our server listens: another program on the other loopback gets no token."""
            is_ours = self.token is not None and not self.use_ssl and self.host == "localhost"
            return f"127.0.0.1:{self._port}" if is_ours else super().endpoint

    session = SparkSession(connection=Channel(url))
    client: Any = session.client
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

    make_request = client._execute_plan_request_with_metadata  # noqa: SLF001 - it has no operation id
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
    """A session with our settings, whatever its server's are; see `connect`."""
    session = connect(url, attempts)
    try:
        for key, value in SESSION.items():
            session.conf.set(key, value)
    except BaseException:
        session.client.close()
        raise
    return session


def let_go(session: Any, *, is_interrupted: bool = False) -> None:
    """Gives a session back to the server, which ends what it may still run; waits for nothing.

    `session.stop()` holds locks of the whole process while it waits for the server.

    Args:
        session: The session.
        is_interrupted: Whether its last operation was interrupted; jobs of that may still begin.
    """
    give_up = supervision.later(HANG_UP_S, "spark-release", session.client.close)

    def release() -> None:
        if is_interrupted:
            _cancel_late_jobs(session)
        with contextlib.suppress(Exception):  # the server may be gone: then nothing is held there
            session.client.release_session()
        give_up()
        session.client.close()

    supervision.start("spark-release", release)


def _cancel_late_jobs(session: Any) -> None:
    """Ends jobs of the session's last operation that began after it was interrupted.

    Adaptive execution submits stages from threads of its own: one that an interruption overtakes is
    not among the jobs canceled with it, and would run to its end on all cores it finds. When an
    operation fails, all jobs of its id are canceled: so one that must fail is run under the same.
    """
    session.client.is_repeating = True
    for pause_s in _LATE_AFTER_S:
        time.sleep(pause_s)
        with contextlib.suppress(Exception):  # as it should; or the server is gone, and its jobs
            session.sql("CANCEL")


def functions_for(session: Any) -> Any:
    """PySpark's functions for a session, classic or Connect.

    `pyspark.sql.functions` decides by the process's environment, which these sessions leave alone.
    """
    from pyspark.sql import SparkSession, functions
    from pyspark.sql.connect import functions as connect_functions

    return functions if isinstance(session, SparkSession) else connect_functions

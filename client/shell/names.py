"""The names that there are on a gateway, for completion: asked for when they are first needed.

What was asked for is kept until `forget`, which is called when statements may have changed it. A
gateway that does not answer has no names; it is asked again the next time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from seamline.dbapi.connection import Connection
from seamline.dbapi.errors import Error

_ASK_S = 5.0


class Names:
    """Names on a gateway. Safe to share between threads.

    Args:
        connect: Makes a connection of their own, so that a session's is not disturbed.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._known: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Asks anew from now on."""
        with self._lock:
            self._known = {}

    def tables(self, schema: str = "") -> list[str]:
        """Tables and views of a schema, or of the session's."""
        return self._asked(f"SHOW TABLES FROM {schema}" if schema else "SHOW TABLES")

    def schemas(self) -> list[str]:
        """Schemas of the session's catalog."""
        return self._asked("SHOW SCHEMAS")

    def functions(self) -> list[str]:
        """Functions, once each."""
        return self._asked("SHOW FUNCTIONS")

    def columns(self, table: str) -> list[str]:
        """Columns of a table; none when there is no such table."""
        return self._asked(f"DESCRIBE {table}")

    def _asked(self, sql: str) -> list[str]:
        with self._lock:
            known = self._known
        if sql not in known:
            try:
                with self._connect() as connection, connection.cursor() as cursor:
                    rows = cursor.execute(sql, timeout=_ASK_S).fetchall()
            except Error:
                return []
            known[sql] = list(dict.fromkeys(str(row[0]) for row in rows))
        return known[sql]

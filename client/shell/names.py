"""The names on a gateway, for completion: fetched when they are first needed.

Fetched names are cached until `forget`, which is called when statements may have changed them. If
the gateway does not answer, there are no names, and it is asked again next time.
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
        connect: Opens a separate connection, so that the session's own is not disturbed.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._known: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Drops all cached names."""
        with self._lock:
            self._known = {}

    def tables(self, schema: str = "") -> list[str]:
        """Returns the tables and views of a schema; of the session's schema by default."""
        return self._asked(f"SHOW TABLES FROM {schema}" if schema else "SHOW TABLES")

    def schemas(self) -> list[str]:
        """Returns the schemas of the session's catalog."""
        return self._asked("SHOW SCHEMAS")

    def functions(self) -> list[str]:
        """Returns the functions, each once."""
        return self._asked("SHOW FUNCTIONS")

    def columns(self, table: str) -> list[str]:
        """Returns the columns of a table; empty if there is no such table."""
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

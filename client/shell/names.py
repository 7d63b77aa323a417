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
        self._cache: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Drops all cached names."""
        with self._lock:
            self._cache = {}

    def tables(self, schema: str = "") -> list[str]:
        """Returns the tables and views of a schema; of the session's schema by default."""
        return self._query(f"SHOW TABLES FROM {schema}" if schema else "SHOW TABLES")

    def schemas(self) -> list[str]:
        """Returns the schemas of the session's catalog."""
        return self._query("SHOW SCHEMAS")

    def functions(self) -> list[str]:
        """Returns the functions, each once."""
        return self._query("SHOW FUNCTIONS")

    def columns(self, table: str) -> list[str]:
        """Returns the columns of a table; empty if there is no such table."""
        return self._query(f"DESCRIBE {table}")

    def _query(self, sql: str) -> list[str]:
        with self._lock:
            cache = self._cache
        if sql not in cache:
            try:
                with self._connect() as connection, connection.cursor() as cursor:
                    rows = cursor.execute(sql, timeout=_ASK_S).fetchall()
            except Error:
                return []
            cache[sql] = list(dict.fromkeys(str(row[0]) for row in rows))
        return cache[sql]

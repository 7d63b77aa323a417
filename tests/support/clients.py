"""What a client of the DB-API is answered, or refused with."""

from __future__ import annotations

from typing import Any

import pytest

import seamline


def rows(connection: seamline.Connection, sql: str, **options: Any) -> list[tuple[object, ...]]:
    """All rows a statement answers; of one without a result, how many rows it has written."""
    cursor = connection.execute(sql, **options)
    return [(cursor.rowcount,)] if cursor.description is None else cursor.fetchall()


def refused(connection: seamline.Connection, sql: str) -> seamline.Error:
    """The error a statement must end with."""
    with pytest.raises(seamline.Error) as caught:
        connection.execute(sql)
    return caught.value

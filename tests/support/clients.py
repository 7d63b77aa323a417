"""What a client of the DB-API is answered, or refused with."""

from __future__ import annotations

import pytest

import seamline


def rows(connection: seamline.Connection, sql: str) -> list[tuple[object, ...]]:
    """All rows a statement answers."""
    return connection.execute(sql).fetchall()


def refused(connection: seamline.Connection, sql: str) -> seamline.Error:
    """The error a statement must end with."""
    with pytest.raises(seamline.Error) as caught:
        connection.execute(sql)
    return caught.value

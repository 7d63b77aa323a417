"""Goal: the client passes the tests of DB-API 2.0 that drivers share.

Method: the suite of the package `dbapi-compliance`, over a real gateway. What a driver writes
itself, and where a driver may choose, is listed in `OWN`, with the reason.
"""

from __future__ import annotations

import dbapi20
import pytest
from support.gateway import Gateway

import seamline

pytestmark = pytest.mark.integration

OWN = {
    "test_callproc": "there are no procedures of one's own: cursors have no `callproc`",
    "test_nextset": "a statement has one result at most: cursors have no `nextset`",
    "test_setoutputsize": "values come whole, whatever size is announced",
    "test_non_idempotent_close": "closing twice is closing once, as with files",
}
"""Tests of the suite that are written here instead, and why."""


class TestDatabaseAPI20(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    """The suite; its tables are plain Iceberg tables."""

    driver = seamline

    @pytest.fixture(autouse=True)
    def connected(self, gateway: Gateway) -> None:
        self.connect_args = (gateway.url,)

    def test_callproc(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            assert not hasattr(cursor, "callproc")

    def test_nextset(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            assert not hasattr(cursor, "nextset")

    def test_setoutputsize(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.setoutputsize(1, 0)
            assert cursor.execute("SELECT 'abc'").fetchall() == [("abc",)]

    def test_non_idempotent_close(self) -> None:
        connection = self._connect()
        connection.close()
        connection.close()


def test_what_is_written_here_has_a_reason() -> None:
    own = {name for name in vars(TestDatabaseAPI20) if name.startswith("test_")}
    assert own == set(OWN)

"""Goal: a session has a time zone, whatever protocol says which.

Method: our client and Trino's, on a gateway with a catalog in one file; a header that no client
sends is sent by hand.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import trino
from sqlalchemy import create_engine, text
from support import offline
from support.clients import refused
from support.gateway import Gateway

import seamline

NOON = "SELECT current_timezone(), hour(from_unixtime(1719828000))"
"""Ten o'clock in UTC."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("zones")))
    yield running
    running.close()


def rows(connection: seamline.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


# --- Our own client ------------------------------------------------------------------------------


def test_a_session_has_a_zone(gateway: Gateway) -> None:
    with gateway.connect() as connection:
        assert rows(connection, NOON) == [("UTC", 10)]
        for zone, name, hour in (
            ("'Europe/Berlin'", "Europe/Berlin", 12),
            ("INTERVAL -'03:30' HOUR TO MINUTE", "-03:30", 6),
            ("INTERVAL '+02:00' HOUR TO MINUTE", "+02:00", 12),
            ("'utc'", "UTC", 10),
        ):
            connection.execute(f"SET TIME ZONE {zone}")
            assert rows(connection, NOON) == [(name, hour)]
            assert connection.properties == {"time_zone_id": name}
        connection.execute("SET TIME ZONE LOCAL")
        assert connection.properties == {}
        assert rows(connection, NOON) == [("UTC", 10)], "bound anew for each zone"


def test_the_session_says_more_than_the_connection(gateway: Gateway) -> None:
    with gateway.connect(time_zone="Asia/Tokyo") as connection:
        assert rows(connection, NOON) == [("Asia/Tokyo", 19)]
        connection.execute("SET SESSION time_zone_id = '+02:00'")
        assert rows(connection, NOON) == [("+02:00", 12)]
        connection.execute("SET TIME ZONE LOCAL")
        assert rows(connection, NOON) == [("Asia/Tokyo", 19)]
        with connection.again() as other:
            assert rows(other, NOON) == [("Asia/Tokyo", 19)]


def test_sqlalchemys_address_may_name_it(gateway: Gateway) -> None:
    address = urlsplit(gateway.url).netloc
    engine = create_engine(f"seamline://{address}/lake?time_zone=Asia/Tokyo")
    with engine.connect() as connection:
        assert connection.execute(text(NOON)).fetchall() == [("Asia/Tokyo", 19)]
    engine.dispose()


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SET TIME ZONE 'Mars/Olympus'", "INVALID_ARGUMENT"),
        ("SET TIME ZONE INTERVAL '15' HOUR", "INVALID_ARGUMENT"),
        ("SET TIME ZONE INTERVAL '1:70' HOUR TO MINUTE", "INVALID_LITERAL"),
        ("SET TIME ZONE INTERVAL '2' DAY", "SYNTAX_ERROR"),
        ("SET TIME ZONE 2", "SYNTAX_ERROR"),
        ("SET SESSION time_zone_id = 'Mars/Olympus'", "INVALID_SESSION_PROPERTY"),
    ],
)
def test_what_is_no_zone(gateway: Gateway, sql: str, code: str) -> None:
    with gateway.connect() as connection:
        assert refused(connection, sql).code.name == code
        assert connection.properties == {}


def test_a_connection_in_no_zone_says_so(gateway: Gateway) -> None:
    with gateway.connect(time_zone="Mars/Olympus") as connection:
        error = refused(connection, "SELECT 1")
    assert error.code.name == "INVALID_SESSION_PROPERTY"
    assert "'Mars/Olympus'" in error.message


def test_a_view_has_the_zone_of_who_reads_it(gateway: Gateway) -> None:
    with gateway.connect() as connection:
        connection.execute(
            "CREATE VIEW zoned AS SELECT CAST(x AS timestamp with time zone) AS at,"
            " x AT TIME ZONE 'Asia/Tokyo' AS tokyo FROM (VALUES TIMESTAMP '2024-07-01 12:00') t(x)"
        )
        sql = "SELECT to_unixtime(at) / 3600, hour(at), hour(tokyo) FROM zoned"
        ((in_utc, *hours),) = rows(connection, sql)
        assert hours == [12, 21]
        connection.execute("SET TIME ZONE 'Europe/Berlin'")
        assert rows(connection, sql) == [(in_utc - 2, 12, 19)]


def test_what_is_written_is_in_the_zone_of_who_writes(gateway: Gateway) -> None:
    with gateway.connect(time_zone="Europe/Berlin") as connection:
        connection.execute("CREATE TABLE kept (at timestamp(6) with time zone)")
        connection.execute("INSERT INTO kept VALUES TIMESTAMP '2024-07-01 12:00'")
        sql = "SELECT CAST(at AS varchar), hour(at), at = TIMESTAMP '2024-07-01 12:00' FROM kept"
        assert rows(connection, sql) == [("2024-07-01 10:00:00.000000 UTC", 10, True)]


# --- Trino's protocol ----------------------------------------------------------------------------


def trino_connection(gateway: Gateway, zone: str) -> Any:
    address = urlsplit(gateway.url)
    connect: Any = trino.dbapi.connect
    return connect(
        host=address.hostname, port=address.port, user="ann", catalog="lake", timezone=zone
    )


def test_trinos_clients_say_where_they_are(gateway: Gateway) -> None:
    local = "TIMESTAMP '2024-07-01 12:00'"
    sql = f"SELECT current_timezone(), CAST({local} AS timestamp with time zone)"
    noon = datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    with trino_connection(gateway, "Europe/Berlin") as connection:
        cursor = connection.cursor()
        ((name, at),) = cursor.execute(sql).fetchall()
        assert (name, at, str(at.tzinfo)) == ("Europe/Berlin", noon, "Europe/Berlin")
        cursor.execute("SET TIME ZONE 'America/New_York'").fetchall()
        ((name, at),) = cursor.execute(sql).fetchall()
        assert (name, at) == ("America/New_York", noon + datetime.timedelta(hours=6))
        cursor.execute("SET TIME ZONE LOCAL").fetchall()
        assert cursor.execute(sql).fetchall()[0][0] == "Europe/Berlin"
        mixed = f"SELECT coalesce({local}, TIMESTAMP '2024-07-01 12:00 UTC')"
        ((at,),) = cursor.execute(mixed).fetchall()
        assert (at, str(at.tzinfo)) == (noon, "UTC"), "of one or another zone: shown in UTC"


def test_a_header_may_name_no_zone(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    headers = {"X-Trino-Time-Zone": "Mars/Olympus"}
    answer = client.post("/v1/statement", data="SELECT 1", headers=headers).json
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
    assert answer["error"]["errorName"] == "INVALID_SESSION_PROPERTY"
    assert "Mars/Olympus" in answer["error"]["message"]

"""Trino's own clients as the tests use them, and what they make of a value of each type."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import importlib
import math
import os
import pathlib
import re
import subprocess
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from seamline.connectors.jvm.jars import JarSet, cache_directory, fetch
from seamline.connectors.jvm.java import find_java

CLI = JarSet("trino-cli", ("io.trino:trino-cli:476:executable",), transitive=False)
JDBC = JarSet("trino-jdbc", ("io.trino:trino-jdbc:476",), transitive=False)
_BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
_RELATIVE: Any = importlib.import_module("dateutil.relativedelta").relativedelta
"""What Python's client makes of an interval of months."""
VALUES: list[tuple[str, str, Any]] = [
    ("true", "boolean", True),
    ("TINYINT '-128'", "tinyint", -128),
    ("SMALLINT '32767'", "smallint", 32767),
    ("-2147483648", "integer", -(2**31)),
    ("9223372036854775807", "bigint", 2**63 - 1),
    ("REAL '0.1'", "real", 0.1),
    ("REAL '3.4028235e38'", "real", 3.4028235e38),
    ("CAST(nan() AS real)", "real", math.nan),
    ("5e-324", "double", 5e-324),
    ("-infinity()", "double", -math.inf),
    ("DECIMAL '12345678901234567890.123456789'", "decimal(29,9)",
     decimal.Decimal("12345678901234567890.123456789")),
    ("DECIMAL '-0.00'", "decimal(2,2)", decimal.Decimal("0.00")),
    ("'ü😀\"\\'", "varchar", "ü😀\"\\"),
    ("CAST('ab' AS char(4))", "char(4)", "ab  "),
    ("X'00ff80'", "varbinary", b"\x00\xff\x80"),
    ("DATE '0001-01-01'", "date", datetime.date(1, 1, 1)),
    ("TIME '23:59:59.999999'", "time(6)", datetime.time(23, 59, 59, 999999)),
    ("TIME '01:02:03'", "time(0)", datetime.time(1, 2, 3)),
    ("TIME '01:02:03.5-03:30'", "time(1) with time zone",
     datetime.time(1, 2, 3, 500000,
                   datetime.timezone(-datetime.timedelta(hours=3, minutes=30)))),
    ("TIMESTAMP '2024-02-29 01:02:03'", "timestamp(0)", datetime.datetime(2024, 2, 29, 1, 2, 3)),
    ("TIMESTAMP '2024-02-29 01:02:03.120'", "timestamp(3)",
     datetime.datetime(2024, 2, 29, 1, 2, 3, 120000)),
    ("TIMESTAMP '1969-12-31 23:59:59.999999'", "timestamp(6)",
     datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMP '2024-07-01 12:00:00 Europe/Berlin'", "timestamp(0) with time zone",
     datetime.datetime(2024, 7, 1, 12, tzinfo=_BERLIN)),
    ("TIMESTAMP '2024-07-01 12:00:00.5 -03:30'", "timestamp(1) with time zone",
     datetime.datetime(2024, 7, 1, 12, 0, 0, 500000,
                       datetime.timezone(-datetime.timedelta(hours=3, minutes=30)))),
    ("TIMESTAMP '2024-07-01 12:00:00 UTC'", "timestamp(0) with time zone",
     datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("UTC"))),
    ("UUID '6f9619ff-8b86-d011-b42d-00c04fc964ff'", "uuid",
     uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
    ("JSON '{\"a\": [1, null]}'", "json", '{"a":[1,null]}'),
    ("INTERVAL '1 02:03:04.005' DAY TO SECOND", "interval day to second",
     datetime.timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
    ("-INTERVAL '14' MONTH", "interval year to month", _RELATIVE(years=-1, months=-2)),
    ("ARRAY[X'01', NULL]", "array(varbinary)", [b"\x01", None]),
    ("ARRAY[ARRAY[nan()], ARRAY[]]", "array(array(double))", [[math.nan], []]),
    ("MAP(ARRAY['a', ''], ARRAY[DECIMAL '1.5', NULL])", "map(varchar, decimal(2,1))",
     {"a": decimal.Decimal("1.5"), "": None}),
    ("MAP(ARRAY[1, 2], ARRAY[DATE '2024-01-01', NULL])", "map(integer, date)",
     {1: datetime.date(2024, 1, 1), 2: None}),
    ("MAP(ARRAY[0.5e0], ARRAY[true])", "map(double, boolean)", {0.5: True}),
    ("CAST(ROW(1, ARRAY[ROW(TIMESTAMP '2024-01-01 00:00:00.5')]) AS"
     " row(a bigint, b array(row(t timestamp(1)))))",
     "row(a bigint, b array(row(t timestamp(1))))",
     (1, [(datetime.datetime(2024, 1, 1, 0, 0, 0, 500000),)])),
    ("ROW(1, ROW('a'))", "row(integer, row(varchar))", (1, ("a",))),
    ("NULL", "unknown", None),
]  # fmt: skip

"""An expression, its type, and what Python's client makes of it."""


def written(type_: str) -> str:
    """A type as Trino writes it in columns."""
    text = re.sub(r"(\d),(\d)", r"\1, \2", type_)
    return text.upper() if type_.startswith("interval") else text


def jar_of(jars: JarSet) -> pathlib.Path:
    """The one jar of a set."""
    (jar,) = fetch(jars, cache_directory(os.environ), print).glob("*.jar")
    return jar


def own_name(error: Mapping[str, Any]) -> str | None:
    """Our name of an error of the protocol, None if it has none."""
    kind = str(error.get("failureInfo", {}).get("type", ""))
    return kind.removeprefix("seamline.") if kind.startswith("seamline.") else None


# --- JDBC ----------------------------------------------------------------------------------------


def connected(jvm: Any, url: str, **options: str) -> Any:
    """A connection of the JDBC driver.

    Args:
        jvm: Java, with the driver.
        url: The gateway's address.
        options: Properties of the driver.
    """
    properties = jvm.java.util.Properties()
    for name, value in {"user": "ann", **options}.items():
        properties.setProperty(name, value)
    address = f"jdbc:trino://{urlsplit(url).netloc}/lake/default"
    return jvm.io.trino.jdbc.TrinoDriver().connect(address, properties)


def texts(result: Any) -> list[tuple[str | None, ...]]:
    """The rows of a result of a driver, any driver, as its texts."""
    count = result.getMetaData().getColumnCount()
    rows = []
    while result.next():
        rows.append(tuple(result.getString(place) for place in range(1, count + 1)))
    result.close()
    return rows


def query(jdbc: Any, sql: str) -> list[tuple[str | None, ...]]:
    """The rows of a statement."""
    with contextlib.closing(jdbc.createStatement()) as statement:
        return texts(statement.executeQuery(sql))


# --- The command line ----------------------------------------------------------------------------


def command(url: str, sql: str, *options: str) -> list[str]:
    """Trino's command line, as it runs statements."""
    own = [str(find_java(os.environ).path), "-jar", str(jar_of(CLI)), "--server", url]
    own += ["--user", "ann", "--catalog", "lake", "--schema", "default"]
    return [*own, "--output-format", "CSV_UNQUOTED", *options, "--execute", sql]


def cli(url: str, sql: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What Trino's command line says of statements."""
    return subprocess.run(
        command(url, sql, *options),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )

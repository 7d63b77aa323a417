"""Seamline: a Kafka topic and its Iceberg copy as one table.

The client: `seamline.connect(url)` returns a DB-API 2.0 connection to a gateway. This package is
light: the gateway, Spark and everything else are loaded only by the commands that need them.
"""

from seamline.dbapi.connection import Connection, connect
from seamline.dbapi.cursor import Cursor
from seamline.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - the DB-API's name
)
from seamline.dbapi.tokens import write_token
from seamline.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from seamline.dbapi.version import VERSION as __version__  # noqa: N811 - PEP 8's own name for it

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
    "write_token",
]

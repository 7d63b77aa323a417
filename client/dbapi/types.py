"""The DB-API's type objects and constructors.

A type object equals every type of its kind, as named in a cursor's `description`. The type of a
column there is its SQL name, so `column[1] == seamline.NUMBER` holds for `decimal(10,2)`. Types of
no kind (boolean, uuid, json, arrays, maps, rows, intervals) equal none of them.
"""

from __future__ import annotations

import datetime
import re

_PARAMETERS = re.compile(r"\s*\([^()]*\)")


class TypeObject:
    """The types of one kind.

    Args:
        name: The DB-API's name for the kind.
        types: SQL names of the types, without length, precision and scale.
    """

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self.types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return _PARAMETERS.sub("", other) in self.types
        return self is other if isinstance(other, TypeObject) else NotImplemented

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"seamline.{self.name}"


STRING = TypeObject("STRING", "varchar", "char")
BINARY = TypeObject("BINARY", "varbinary")
NUMBER = TypeObject(
    "NUMBER", "tinyint", "smallint", "integer", "bigint", "real", "double", "decimal"
)
DATETIME = TypeObject(
    "DATETIME", "date", "time", "time with time zone", "timestamp", "timestamp with time zone"
)
ROWID = TypeObject("ROWID")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - the DB-API's name
    """Returns the local date at a number of seconds since the epoch."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 - the DB-API's name
    """Returns the local time of day at a number of seconds since the epoch."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802 - the DB-API's name
    """Returns the local timestamp, without a zone, at a number of seconds since the epoch."""
    return datetime.datetime.fromtimestamp(ticks)  # noqa: DTZ006 - the DB-API means local time

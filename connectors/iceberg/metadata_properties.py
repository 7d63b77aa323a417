"""Properties of tables that choose code, addresses or credentials: what becomes of each.

Whoever may write a table may write its properties. PyIceberg and Iceberg take some of them for
settings of their own: which class to load, where to write, whom to ask and with which key. Readers
take none of them; writers refuse a table that would choose their code, or lead them out of it; and
other engines are not given what their clients would take.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.iceberg.places import TablePlaces
from seamline.errors import PROPERTY_NOT_ALLOWED, SeamlineError

JAVA_CODE = "write.location-provider.impl"
"""Iceberg loads it in Spark even for reading."""
PYTHON_CODE = "write.py-location-provider.impl"
_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_OF_CLIENTS = frozenset({"uri", "token", "credential", "scope", "warehouse"})
_PREFIXES = (
    "s3.", "s3tables.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "client.", "fs.", "hadoop.",
    "rest.", "header.", "auth.", "oauth2", "glue.", "dynamodb.", "hive.", "jdbc.", "pyarrow.",
    "encryption.kms-",
)  # fmt: skip


def require_no_code(table: str, properties: Mapping[str, str], *names: str) -> None:
    """A table must not choose the code that reads or writes it.

    Args:
        table: Its name, for the message.
        properties: Its properties.
        names: Those that the reader or writer would take.

    Raises:
        SeamlineError: PROPERTY_NOT_ALLOWED.
    """
    for name in names:
        if name in properties:
            raise _refused(table, name)


def require_own_places(places: TablePlaces, properties: Mapping[str, str]) -> None:
    """A table must not have its files written where none of them may lie.

    Raises:
        SeamlineError: PROPERTY_NOT_ALLOWED.
    """
    for name in _PLACES:
        if (value := properties.get(name)) and not places.allow(value):
            raise _refused(places.table, name)


def readable_by_others(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those that a client would take for settings of its own."""
    return {name: value for name, value in properties.items() if not _is_of_clients(name)}


def _is_of_clients(name: str) -> bool:
    return name in _OF_CLIENTS or name.startswith(_PREFIXES) or name.endswith(("-impl", ".impl"))


def _refused(table: str, name: str) -> SeamlineError:
    return SeamlineError(PROPERTY_NOT_ALLOWED, f"table {table} has the property {name}")

"""Handles table properties that choose code, addresses or credentials.

Anyone who may write a table may write its properties. PyIceberg and Iceberg use some of them as
settings of their own: which class to load, where to write, which service to ask and with which key.
Readers ignore all of these. Writers refuse a table that would choose their code or have them write
outside it. Other engines are not given the properties that their clients would use.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.connectors.places import TablePlaces
from seamline.errors import PROPERTY_NOT_ALLOWED, SeamlineError

JAVA_CODE = "write.location-provider.impl"
"""In Spark, Iceberg loads this class even for reading."""
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
    """Requires that a table does not choose the code that reads or writes it.

    Raises:
        SeamlineError: PROPERTY_NOT_ALLOWED.
    """
    for name in names:
        if name in properties:
            raise _refused(table, name)


def require_own_places(places: TablePlaces, properties: Mapping[str, str]) -> None:
    """Requires that a table does not have its files written where they may not be.

    Raises:
        SeamlineError: PROPERTY_NOT_ALLOWED.
    """
    for name in _PLACES:
        if (value := properties.get(name)) and not places.allow(value):
            raise _refused(places.table, name)


def readable_by_others(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties without those that a client would use as settings of its own."""
    return {name: value for name, value in properties.items() if not _is_of_clients(name)}


def _is_of_clients(name: str) -> bool:
    return name in _OF_CLIENTS or name.startswith(_PREFIXES) or name.endswith(("-impl", ".impl"))


def _refused(table: str, name: str) -> SeamlineError:
    return SeamlineError(PROPERTY_NOT_ALLOWED, f"table {table} has the property {name}")

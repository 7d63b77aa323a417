"""What the Spark data source gives executors, read as they read it: pickled, part by part."""

from __future__ import annotations

import pickle
from typing import Any

from seamline.connectors.spark.source import SeamlineDataSource
from support.gateway import Gateway


def parts(gateway: Gateway, name: str, **options: str) -> list[Any]:
    """The parts of a table."""
    source = SeamlineDataSource({"url": gateway.url, "table": name, **options})
    return [pickle.loads(pickle.dumps(part)) for part in source.reader(None).partitions()]


def read(gateway: Gateway, name: str, columns: str, **options: str) -> list[tuple[Any, ...]]:
    """The rows of all parts.

    Args:
        gateway: The gateway that the source reads from.
        name: The table.
        columns: Names of columns, each after `, ` but the first.
        options: Further options of the source.
    """
    names = columns.split(", ")
    return [
        tuple(row[column] for column in names)
        for part in parts(gateway, name, **options)
        for rows in part.read()
        for row in rows.to_pylist()
    ]

"""What a program that reads is asked and answers, a line of JSON each.

    {"table": "bids", "catalog": "live"}                          → {"count": 5}
    {"table": "bids", "catalog": "live", "path": "rows.arrow"}    → {}, and the rows are in the file
    … and when it cannot                                          → {"error": "…"}

Whatever the library prints goes to standard error. This file needs nothing but PyArrow, because it
runs in the environments of all readers.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a reader is told when it starts.

    Attributes:
        url: The gateway.
        storage: How object storage is reached, in the words of Iceberg, for a reader that must be
            told; empty for others, and for local files.
        conf: Settings of Spark.
    """

    url: str
    storage: Mapping[str, str]
    conf: Mapping[str, str]


class Tables(Protocol):
    """The tables of the schema `default`, as the reader sees them."""

    def count(self, catalog: str, table: str) -> int:
        """The number of rows."""

    def rows(self, catalog: str, table: str) -> pa.Table:
        """All rows and columns."""


def serve(connect: Callable[[Settings], Tables]) -> None:
    """Answers until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tables = connect(Settings(**json.loads(sys.argv[1])))
    for line in sys.stdin:
        answers.write(json.dumps(_answer(tables, json.loads(line))) + "\n")
        answers.flush()


def _answer(tables: Tables, request: Mapping[str, str]) -> dict[str, object]:
    catalog, table = request["catalog"], request["table"]
    try:
        if "path" not in request:
            return {"count": tables.count(catalog, table)}
        rows = tables.rows(catalog, table)
        with pa.OSFile(request["path"], "wb") as file, pa.ipc.new_stream(file, rows.schema) as out:
            out.write_table(rows)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"error": f"{type(error).__name__}: {error}"}
    return {}

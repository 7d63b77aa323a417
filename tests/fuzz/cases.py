"""Queries that once went wrong, each in a file with the rows it is asked over."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from fuzz.nodes import Node
from fuzz.queries import QUERY, Query
from fuzz.schema import Table, with_ids
from seamline.connectors.kafka.formats.json_values import JsonValues
from seamline.gateway.commands.tables import parse_fields
from seamline.sql.types import Field

FOLDER = pathlib.Path(__file__).parent / "cases"


def text_of(why: str, query: Query, tables: Sequence[Table]) -> str:
    """A case as its file has it: the tables that the query names, and both of its texts."""
    sql = query.node.trino
    body = {
        "why": why,
        "sql": sql,
        "duckdb": query.node.duckdb,
        "sorted": query.is_sorted,
        "tables": [
            {
                "name": table.name,
                "columns": table.definition,
                "cold": table.cold,
                "records": [json.loads(record) for record in table.records()],
            }
            for table in tables
            if f"{table.name} AS " in sql
        ],
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def read(path: pathlib.Path) -> tuple[Query, tuple[Table, ...]]:
    """The query of a file, and its tables."""
    body = json.loads(path.read_text(encoding="utf-8"))
    node = Node(QUERY, body["sql"], body["duckdb"])
    return Query(node, (), body["sorted"]), tuple(map(_table, body["tables"]))


def _table(body: dict[str, Any]) -> Table:
    ids = itertools.count(1)
    columns = tuple(
        Field(f.name, with_ids(f.type, ids), next(ids)) for f in parse_fields(body["columns"])
    )
    records = [json.dumps(record).encode() for record in body["records"]]
    arrays, bad = JsonValues(columns).decode(records)
    assert not bad
    rows = tuple(zip(*(array.to_pylist() for array in arrays), strict=True)) if records else ()
    return Table(body["name"], columns, rows, body["cold"])

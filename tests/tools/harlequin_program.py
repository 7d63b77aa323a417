"""What people do with Harlequin: look around, run statements, and complete names.

Its adapter for Trino is called as its window calls it. Run by test_tools.py, which checks what this
writes: PORT TABLE.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from harlequin.exception import HarlequinQueryError
from harlequin_trino.adapter import HarlequinTrinoAdapter

place = {"host": "127.0.0.1", "user": "ann", "catalog": "lake", "schema": "default"}


def main() -> None:
    """Uses the adapter."""
    port, table = sys.argv[1:]
    adapter: Any = HarlequinTrinoAdapter(
        conn_str=(), port=port, require_auth="NONE", sessions=None, **place
    )
    connection = adapter.connect()
    (lake,) = (item for item in connection.get_catalog().items if item.label == "lake")
    (schema,) = (item for item in lake.children if item.label == "default")
    (shown,) = (item for item in schema.children if item.label == table)
    query = f"SELECT * FROM {table} ORDER BY id"
    cursor = connection.execute(query)
    refused = False
    try:
        connection.execute(f"SELECT nothing FROM {table}").fetchall()
    except HarlequinQueryError as error:
        refused = "Column 'nothing' cannot be resolved" in str(error)
    found = {
        "tree": {column.label: column.type_label for column in shown.children},
        "columns": cursor.columns(),
        "rows": len(cursor.fetchall()),
        "limited": len(connection.execute(query).set_limit(2).fetchall()),
        "refused": refused,
        "completes": "approx_distinct" in {each.value for each in connection.get_completions()},
    }
    sys.stdout.write(f"{json.dumps(found)}\n")


main()

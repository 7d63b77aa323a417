"""Goal: a value of any nesting is the same by every way to fetch it.

Method: values that Arrow and Python's dictionaries are odd about, asked over HTTP in each format.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway import Gateway

VALUES = {
    "ARRAY[NULL, NULL, NULL]": [None, None, None],
    "ARRAY[ARRAY[NULL, NULL], ARRAY[NULL]]": [[None, None], [None]],
    "map()": {},
    "map(ARRAY[], ARRAY[])": {},
    "map(ARRAY[1, 2], ARRAY[NULL, NULL])": {1: None, 2: None},
    "map(ARRAY[ARRAY[1, 2]], ARRAY['x'])": {(1, 2): "x"},
    "map(ARRAY[ROW(1, ARRAY['a'])], ARRAY['x'])": {(1, ("a",)): "x"},
    "ROW(ARRAY[NULL, NULL], 1)": {"field0": [None, None], "field1": 1},
    "ARRAY[ROW(NULL, map())]": [{"field0": None, "field1": {}}],
}


@pytest.mark.parametrize("sql", VALUES)
def test_a_value_is_the_same_by_every_way(offline_gateway: Gateway, sql: str) -> None:
    with offline_gateway.connect() as connection, connection.cursor() as cursor:
        query = f"SELECT {sql} AS x FROM (VALUES 1, 2)"
        assert cursor.execute(query).fetchall() == [(VALUES[sql],)] * 2
    client: Any = offline_gateway.app.test_client()
    written = json.dumps(as_json(VALUES[sql]))
    for accept in ("application/json", "text/csv"):
        answer = client.post(
            "/api/v1/query",
            data=query,
            headers={"Content-Type": "application/sql", "Accept": accept},
        )
        assert answer.status_code == 200
        found = answer.get_data(as_text=True)
        if accept == "text/csv":
            found = found.replace('""', '"')
        assert found.count(written) == 2, found


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            json.dumps(as_json(key)) if isinstance(key, tuple) else str(key): as_json(item)
            for key, item in value.items()
        }
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value

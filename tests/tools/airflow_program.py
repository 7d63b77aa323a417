"""What people do with Airflow's hook and operators of SQL: `python airflow_program.py PORT TABLE`.

Reads with parameters, inserts rows, checks columns and tables. Writes what it finds as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

port, table = sys.argv[1:]
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp()
extra = {"catalog": "lake", "protocol": "http"}
place = {"conn_type": "trino", "host": "127.0.0.1", "port": int(port), "login": "ann"}
os.environ["AIRFLOW_CONN_TRINO_DEFAULT"] = json.dumps(
    {**place, "schema": "default", "extra": extra}
)

from airflow.providers.common.sql.hooks.sql import fetch_all_handler  # noqa: E402
from airflow.providers.common.sql.operators.sql import (  # noqa: E402
    SQLColumnCheckOperator,
    SQLTableCheckOperator,
)
from airflow.providers.common.sql.sensors.sql import SqlSensor  # noqa: E402
from airflow.providers.trino.hooks.trino import TrinoException, TrinoHook  # noqa: E402

hook = TrinoHook()
connection = {"conn_id": "trino_default"}
own = f"{table}_airflow"
hook.run([f"CREATE TABLE {own} (id bigint, name varchar)"])
hook.insert_rows(own, [(1, "it's"), (2, None)], target_fields=["id", "name"])
hook.insert_rows(own, [(3, "ü")], target_fields=["id", "name"], executemany=True)
try:
    hook.get_records("SELECT nothing")
except TrinoException as error:
    refused = "COLUMN_NOT_FOUND" in str(error)
checks = {"channel": {"null_check": {"equal_to": 0}, "distinct_check": {"equal_to": 2}}}
columns = SQLColumnCheckOperator(task_id="c", table=table, column_mapping=checks, **connection)
columns.execute({})
rows = {"rows": {"check_statement": "COUNT(*) = 4"}}
SQLTableCheckOperator(task_id="t", table=table, checks=rows, **connection).execute({})
found = {
    "tested": hook.test_connection()[0],
    "some": hook.get_records(f"SELECT id FROM {table} WHERE price > ? AND channel = ?", (2.0, 1)),
    "frame": hook.get_df(f"SELECT sum(price) AS s FROM {table}")["s"].tolist(),
    "own": hook.get_records(f"SELECT id, name FROM {own} ORDER BY id"),
    "several": hook.run(
        "SELECT 1; SELECT 2", split_statements=True, return_last=False, handler=fetch_all_handler
    ),
    "sensed": SqlSensor(task_id="s", sql=f"SELECT count(*) FROM {table}", **connection).poke({}),
    "refused": refused,
}
hook.run(f"DROP TABLE {own}")
print(json.dumps(found))

"""Superset itself, over `trino://`: `python superset_program.py PORT TABLE`.

Its server runs in this process, with its own database in a folder that is removed; what its pages
ask for is asked of its HTTP interface: a connection, tables and their metadata, SQL Lab, data sets
and charts. Writes what it finds as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import sqlite3
import sys
import tempfile
from typing import Any

import sqlalchemy

CONFIG = """
SECRET_KEY = "for tests only, and longer than thirty-two bytes"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
SQLALCHEMY_ENGINE_OPTIONS = {{"connect_args": {{"check_same_thread": False}}}}
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
RATELIMIT_ENABLED = False
DB_POLL_INTERVAL_SECONDS = {{"trino": 0.05}}
FEATURE_FLAGS = {{"ENABLE_TEMPLATE_PROCESSING": True}}
"""
OPERATORS: dict[str, tuple[str, Any]] = {
    "==": ("channel", 1),
    "!=": ("channel", 1),
    ">": ("price", 1),
    ">=": ("price", 1),
    "<": ("price", 1),
    "<=": ("price", 1),
    "IN": ("id", [1, 2, None]),
    "NOT IN": ("id", [1, 2]),
    "IS NULL": ("price", None),
    "IS NOT NULL": ("price", None),
    "LIKE": ("name", "%E%"),
    "NOT LIKE": ("name", "%E%"),
    "ILIKE": ("name", "%E%"),
    "NOT ILIKE": ("name", "%E%"),
    "IS TRUE": ("odd", None),
    "IS FALSE": ("odd", None),
    "TEMPORAL_RANGE": ("at", "2024-02-29T14:00:00 : 2024-02-29T16:00:00"),
}
VIRTUAL = """
SELECT id, channel, price, channel = 1 AS odd, if(channel = 1, 'web', 'shop') AS name,
       date_add('hour', id, TIMESTAMP '2024-02-29 12:34:56.789') AS at
FROM {table} WHERE id > {{{{ 0 }}}}
"""


class Superset:
    """Superset's HTTP interface, as an administrator."""

    def __init__(self, app: Any) -> None:
        self._client = app.test_client()
        self._headers: dict[str, str] = {}
        admin = {"username": "admin", "password": "admin", "provider": "db"}
        token = self.post("security/login", **admin)["access_token"]
        self._headers["Authorization"] = f"Bearer {token}"

    def post(self, path: str, **body: Any) -> Any:
        """What it answers to a request."""
        answer = self._client.post(f"/api/v1/{path}", json=body, headers=self._headers)
        return {**answer.get_json(), "status": answer.status_code}

    def get(self, path: str, **query: str) -> Any:
        """What it answers to a request without a body."""
        address = f"/api/v1/{path}"
        answer = self._client.get(address, query_string=query, headers=self._headers)
        return {**answer.get_json(), "status": answer.status_code}


def started(folder: pathlib.Path) -> Any:
    """Superset's application, over a new database."""
    config = folder / "superset_config.py"
    config.write_text(CONFIG.format(folder=folder))
    os.environ.update(SUPERSET_CONFIG_PATH=str(config), SUPERSET_HOME=str(folder))
    from superset.app import create_app

    @sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "connect")
    def _without_waiting_for_the_disk(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    app = create_app()
    logging.disable(logging.ERROR)
    with app.app_context():
        from flask_migrate import upgrade
        from superset.extensions import appbuilder, security_manager

        upgrade(str(pathlib.Path(app.root_path) / "migrations"))
        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        role = security_manager.find_role("Admin")
        security_manager.add_user("admin", "A", "B", "a@example.com", role, password="admin")
    return app


def sql_lab(superset: Superset, database: int, table: str) -> dict[str, Any]:
    """What SQL Lab shows."""

    def run(sql: str, **options: Any) -> Any:
        body = {"database_id": database, "catalog": "lake", "schema": "default", "queryLimit": 3}
        return superset.post("sqllab/execute/", **body, sql=sql, runAsync=False, **options)

    view = f"{table}_view"
    place = {"name": table, "catalog": "lake", "schema": "default"}
    cells = [list(row.values()) for row in run(f"SELECT id, id FROM {table} ORDER BY id")["data"]]
    made = run(f"CREATE VIEW {view} AS SELECT id FROM {table}")
    tables = superset.get(
        f"database/{database}/tables/", q="(catalog_name:lake,schema_name:default)"
    )
    extra = superset.get(f"database/{database}/table_metadata/extra/", **{**place, "name": view})
    found = {
        "schemas": superset.get(f"database/{database}/schemas/")["result"],
        "kinds": {t["value"]: t["type"] for t in tables["result"] if table in t["value"]},
        "columns": {
            column["name"]: column["type"]
            for column in superset.get(f"database/{database}/table_metadata/", **place)["columns"]
        },
        "extra": superset.get(f"database/{database}/table_metadata/extra/", **place)["status"],
        "view": extra["view"],
        "functions": "count"
        in superset.get(f"database/{database}/function_names/")["function_names"],
        "limited": cells,
        "made": made["status"],
        "dropped": run(f"DROP VIEW {view}")["status"],
        "several": run(f"SELECT 1; SELECT count(*) AS n FROM {table}")["data"],
        "refused": "Column 'nope' cannot be resolved"
        in json.dumps(run(f"SELECT nope FROM {table}")),
    }
    found["schemas"] = "default" in found["schemas"]
    return found


def charts(superset: Superset, app: Any, database: int, table: str) -> dict[str, Any]:
    """What charts over a virtual data set show."""
    place = {"database": database, "catalog": "lake", "schema": "default"}
    made = superset.post("dataset/", **place, table_name="virtual", sql=VIRTUAL.format(table=table))
    columns = superset.get(f"dataset/{made['id']}")["result"]["columns"]

    def chart(columns: list[Any], **query: Any) -> list[list[Any]]:
        query = {"metrics": ["count"], "row_limit": 100, **query, "columns": columns}
        source = {"id": made["id"], "type": "table"}
        answer = superset.post("chart/data", datasource=source, queries=[query], force=True)
        assert answer["status"] == 200, answer
        return [list(row.values()) for row in answer["result"][0]["data"]]

    def axis(grain: str | None) -> dict[str, Any]:
        named = {"sqlExpression": "at", "label": "at", "expressionType": "SQL"}
        return {**named, "timeGrain": grain, "columnType": "BASE_AXIS"}

    def metric(sql: str) -> dict[str, str]:
        return {"expressionType": "SQL", "sqlExpression": sql, "label": sql}

    def filtered(operator: str) -> int:
        column, value = OPERATORS[operator]
        filters = [{"col": column, "op": operator, "val": value}]
        return int(chart([], filters=filters)[0][0])

    with app.app_context():
        from superset.db_engine_specs.trino import TrinoEngineSpec

        grains = {g for g in TrinoEngineSpec.get_time_grain_expressions() if g != "PT0.5H"}
    buckets = {str(grain): chart([axis(grain)]) for grain in grains}
    top = {
        "series_columns": ["name"],
        "series_limit": 1,
        "series_limit_metric": metric("sum(price)"),
    }
    return {
        "types": {column["column_name"]: column["type"] for column in columns},
        "grains": {g: [sum(n for _, n in rows), len(rows)] for g, rows in buckets.items()},
        "filters": {operator: filtered(operator) for operator in OPERATORS},
        "metrics": chart([], metrics=[metric("approx_percentile(price, 0.5)"), metric("avg(id)")]),
        "top": chart([axis("P1D"), "name"], **top),
        "ordered": chart(["name"], orderby=[["count", False], ["name", True]]),
        "raw": chart(
            ["id", "name"], metrics=[], orderby=[["id", False]], row_limit=2, row_offset=1
        ),
    }


def main(port: str, table: str) -> None:
    """Starts Superset, connects it to the gateway, and asks."""
    with tempfile.TemporaryDirectory() as folder:
        app = started(pathlib.Path(folder))
        superset = Superset(app)
        address = f"trino://ann@127.0.0.1:{port}/lake/default"
        known = {"database_name": "gateway", "sqlalchemy_uri": address}
        tested = superset.post("database/test_connection/", **known)
        options = {"expose_in_sqllab": True, "allow_dml": True, "allow_cvas": True}
        database = superset.post("database/", **known, **options)["id"]
        found = {
            "tested": tested["message"],
            "lab": sql_lab(superset, database, table),
            "charts": charts(superset, app, database, table),
        }
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

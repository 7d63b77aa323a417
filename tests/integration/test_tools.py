"""Goal: the tools that docs/tools.md has recipes for work as they are, over both tiers.

Method: each tool is the published one, in an environment of its own where ours lacks it, and
does over a unified table what people do with it. Making those environments takes minutes, so they
are for `make soak`; what needs none is a proof.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from readers.environments import interpreter, node_packages
from support.gateway import Gateway
from support.stack import Stack

pytestmark = pytest.mark.integration

TOOLS = pathlib.Path(__file__).parents[1] / "tools"
DBT = ("dbt-core>=1.10,<1.11", "dbt-trino>=1.9,<1.10")
IBIS = ("ibis-framework[trino]==12.0.0", "packaging", "sqlglot<30")
SUPERSET = (
    *("apache-superset==6.1.0", "trino[sqlalchemy]==0.340.0"),
    # which it imports and does not ask for, or asks for without saying how new
    *("rich", "cachetools", "pillow", "flask-caching==2.3.1", "cachelib==0.13.0"),
)
SQLMESH = ("sqlmesh[trino]==0.236.4",)
EXPECTATIONS = ("great_expectations==1.24.1", "trino[sqlalchemy]==0.340.0")
AIRFLOW = ("apache-airflow==3.1.8", "apache-airflow-providers-trino==6.7.1", "pandas")
DATAHUB = ("acryl-datahub[trino]==1.7.0.17",)
HARLEQUIN = ("harlequin-trino==0.1.6", "harlequin==2.17.0")
NODE = (
    *("@cubejs-backend/trino-driver@1.7.43", "@evidence-dev/trino@1.0.11"),
    *("presto-client@1.2.0", "trino-client@0.2.9"),
)
JUPYSQL = ("jupysql", "trino[sqlalchemy]", "pandas", "ipython")
BIDS = [
    {"id": 1, "channel": 1, "price": 2.5},
    {"id": 2, "channel": 2, "price": 1.0},
    {"id": 3, "channel": 1, "price": 3.5},
    {"id": 4, "channel": 2, "price": 0.5},
]

FILTERED = {
    "==": 2,
    "!=": 2,
    ">": 2,
    ">=": 3,
    "<": 1,
    "<=": 2,
    "IN": 2,
    "NOT IN": 2,
    "IS NULL": 0,
    "IS NOT NULL": 4,
    "LIKE": 0,
    "NOT LIKE": 4,
    "ILIKE": 2,
    "NOT ILIKE": 2,
    "IS TRUE": 2,
    "IS FALSE": 2,
    "TEMPORAL_RANGE": 2,
}
"""How many of BIDS pass a filter of each of Superset's operators."""


@pytest.fixture
def table(stack: Stack, name: str) -> str:
    """Two rows in files, two in the log."""
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, channel bigint, price double")
    stack.produce(name, BIDS[:2])
    stack.tier(name)
    stack.produce(name, BIDS[2:])
    return name


def port(gateway: Gateway) -> str:
    return str(urlsplit(gateway.url).port)


def found_by(program: str, packages: tuple[str, ...], gateway: Gateway, table: str) -> Any:
    """What a program in Python writes."""
    command = [str(interpreter(packages)), "-W", "ignore", str(TOOLS / program)]
    return written_by([*command, port(gateway), table])


def written_by(command: list[str], folder: pathlib.Path | None = None) -> Any:
    """What a program writes that runs in a folder."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


@pytest.mark.soak
def test_ibis(gateway: Gateway, table: str) -> None:
    found = found_by("ibis_program.py", IBIS, gateway, table)
    assert found == {
        "schema": {"id": "int64", "channel": "int64", "price": "float64"},
        "place": ["lake", "default"],
        "tables": [table, f"{table}_copy", f"{table}_view"],
        "groups": [[1.0, 2.0, 6.0], [2.0, 2.0, 1.5]],
        "ranks": [0, 0, 1, 1],
        "joined": ["web", "shop", "web", "shop"],
        "view": 2,
        "copy": 8,
        "arrow": [1, 2, 3, 4],
    }


@pytest.mark.soak
def test_sqlmesh(gateway: Gateway, table: str) -> None:
    """Models of every kind, planned, filled, and planned again after a change."""
    found = found_by("sqlmesh_program.py", SQLMESH, gateway, table)
    assert found == {
        "joined": {"channel": [1, 2], "total": [6.0, 1.5], "id": [3, 4]},
        "days": ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"],
        "changed": [60.0, 15.0],
    }


@pytest.mark.soak
def test_great_expectations(gateway: Gateway, table: str) -> None:
    found = found_by("expectations_program.py", EXPECTATIONS, gateway, table)
    assert found == {
        "asked": 17,
        "do not hold": ["expect_column_max_to_be_between"],
        "not computed": [],
    }


@pytest.mark.soak
def test_airflow(gateway: Gateway, table: str) -> None:
    """Its TrinoHook, its operators that check, and its sensor."""
    found = found_by("airflow_program.py", AIRFLOW, gateway, table)
    assert sorted(found.pop("some")) == [[1], [3]]
    assert found == {
        "tested": True,
        "frame": [7.5],
        "own": [[1, "it's"], [2, None], [3, "ü"]],
        "several": [[[1]], [[2]]],
        "sensed": True,
        "refused": True,
    }


@pytest.mark.soak
def test_superset(gateway: Gateway, table: str) -> None:
    """Its own server: a connection, metadata, SQL Lab, and charts of every grain and filter."""
    found = found_by("superset_program.py", SUPERSET, gateway, table)
    charts = found.pop("charts")
    assert found == {
        "tested": "OK",
        "lab": {
            "schemas": True,
            "kinds": {table: "table", f"{table}_view": "view"},
            "columns": {"id": "BIGINT", "channel": "BIGINT", "price": "DOUBLE"},
            "extra": 200,
            "view": f"SELECT\n  id\nFROM {table}",
            "functions": True,
            "limited": [[1, 1], [2, 2], [3, 3]],
            "made": 200,
            "dropped": 200,
            "several": [{"n": 4}],
            "refused": True,
        },
    }
    assert charts.pop("types") == {
        "id": "BIGINT",
        "channel": "BIGINT",
        "price": "DOUBLE",
        "odd": "BOOLEAN",
        "name": "VARCHAR",
        "at": "TIMESTAMP(6)",
    }
    # four rows, an hour apart: the grains above an hour have them in one bucket
    short = {grain for grain, (_, buckets) in charts["grains"].items() if buckets == 4}
    assert short == {
        *("None", "PT1S", "PT5S", "PT30S", "PT1M", "PT5M", "PT10M", "PT15M", "PT1H"),
    }
    assert all(rows == 4 and buckets in {1, 4} for rows, buckets in charts["grains"].values())
    assert len(charts.pop("grains")) == 19
    assert charts == {
        "filters": FILTERED,
        "metrics": [[1.0, 2.5]],
        "top": [[1709164800000.0, "web", 2]],
        "ordered": [["shop", 2], ["web", 2]],
        "raw": [[3, "web"], [2, "shop"]],
    }


@pytest.mark.soak
def test_jupysql_and_others_over_sqlalchemy(gateway: Gateway, table: str) -> None:
    found = found_by("trino_sqlalchemy_program.py", JUPYSQL, gateway, table)
    assert found == {
        "schemas": True,
        "is_table": True,
        "views": True,
        "definition": f"SELECT id FROM {table}",
        "columns": {"id": "BIGINT", "channel": "BIGINT", "price": "DOUBLE"},
        "indexes": [],
        "groups": [[1, 2], [2, 2]],
        "beyond": [[4]],
        "read": {"schema": "default", "table": table},
        "magic": {"n": [4]},
    }


@pytest.mark.soak
def test_clients_in_javascript(gateway: Gateway, table: str) -> None:
    """Drivers of Cube and Evidence, and the clients that others are made of."""
    command = ["node", str(TOOLS / "node_program.mjs"), port(gateway), table]
    found = written_by(command, node_packages(NODE))
    refused = "line 1:8: Column 'nothing' cannot be resolved"
    assert found == {
        "cube": {
            "types": ["bigint", "bigint", "double", "timestamp with time zone"],
            "filtered": [{"id": 3}, {"id": 4}],
            "streamed": 4,
            "known": ["channel", "id", "price"],
            "rollup": [{"channel": 1, "total": 6}, {"channel": 2, "total": 1.5}],
            "refused": refused,
        },
        "evidence": {
            "tested": True,
            "rows": 4,
            "types": ["number", "number", "number", "date"],
            "refused": refused,
        },
        "presto-client": {
            "rows": 4,
            "refused": refused,
            "canceled": "query fetch canceled by operation",
            "nodes": [],
        },
        "trino-client": {
            "rows": 4,
            "state": "FINISHED",
            "refused": refused,
            "canceled": "the statement was canceled",
        },
    }


@pytest.mark.soak
def test_datahub(gateway: Gateway, table: str) -> None:
    """Metadata, and profiles of every column."""
    found = found_by("datahub_program.py", DATAHUB, gateway, table)
    assert found == {
        "failures": 0,
        "columns": {"id": "BIGINT", "channel": "BIGINT", "price": "DOUBLE"},
        "view": f"SELECT id FROM {table}",
        "profile": {"id": ["1", "4", 0], "channel": ["1", "2", 0], "price": ["0.5", "3.5", 0]},
        "rows": 4,
    }


@pytest.mark.soak
def test_harlequin(gateway: Gateway, table: str) -> None:
    """What its window shows: the tree of tables, results, errors and completions."""
    found = found_by("harlequin_program.py", HARLEQUIN, gateway, table)
    assert found == {
        "tree": {"id": "##", "channel": "##", "price": "#.#"},
        "columns": [["id", "##"], ["channel", "##"], ["price", "#.#"]],
        "rows": 4,
        "limited": 2,
        "refused": True,
        "completes": True,
    }


@pytest.mark.soak
def test_dbt_builds_twice(
    gateway: Gateway, stack: Stack, table: str, tmp_path: pathlib.Path
) -> None:
    """Seeds, views, tables, increments of every strategy, snapshots and tests of data.

    The second time there are more rows, and a model has another column.
    """
    project = tmp_path / "shop"
    shutil.copytree(TOOLS / "dbt", project)

    def build() -> None:
        dbt = interpreter(DBT).with_name("dbt")
        variables = json.dumps({"table": table})
        done = subprocess.run(
            [str(dbt), "--no-use-colors", "build", "--vars", variables, "--profiles-dir", "."],
            cwd=project,
            env={**os.environ, "SEAMLINE_PORT": port(gateway)},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ERROR=0" in done.stdout
        assert "PASS=12" in done.stdout

    build()
    totals = "SELECT name, bids, total FROM lake.dbt_shop.totals ORDER BY name"
    assert gateway.rows(totals) == [("shop", 2, 1.5), ("web", 2, 6.0)]
    stack.produce(table, [{"id": 5, "channel": 1, "price": 4.0}])
    build()
    assert gateway.rows(totals) == [("shop", 2, 1.5), ("web", 3, 10.0)]
    assert gateway.rows("SELECT count(*), max(id) FROM lake.dbt_shop.seen") == [(5, 5)]
    assert gateway.rows("SELECT * FROM lake.dbt_shop.merged ORDER BY name") == [
        ("shop", 2, 1.0),
        ("web", 3, 4.0),
    ]
    replaced = gateway.rows("SELECT id, price, name FROM lake.dbt_shop.replaced ORDER BY id")
    assert [row[0] for row in replaced] == [1, 2, 3, 4, 5]
    assert replaced[-1] == (5, 4.0, "web")
    history = "SELECT name, bids, dbt_valid_to IS NULL FROM lake.dbt_shop.history ORDER BY 1, 2"
    assert gateway.rows(history) == [("shop", 2, True), ("web", 2, False), ("web", 3, True)]
    comments = "SELECT comment FROM lake.information_schema.columns WHERE table_name = 'named_bids'"
    assert len(gateway.rows(comments)) == 3


def test_pandas_reads_and_writes(gateway: Gateway, table: str) -> None:
    address = urlsplit(gateway.url)
    engine = sa.create_engine(f"seamline://{address.hostname}:{address.port}/lake/default")
    with engine.connect() as connection:
        query = f"SELECT channel, sum(price) AS total FROM {table} GROUP BY channel ORDER BY 1"
        found = pd.read_sql(query, connection)
        assert found.to_dict("list") == {"channel": [1, 2], "total": [6.0, 1.5]}
        found.to_sql(f"{table}_totals", connection)  # its index becomes a column, and an index
        again = pd.read_sql_table(f"{table}_totals", connection, index_col="index")
        assert again.sort_index().to_dict() == found.to_dict()
        found.to_sql(f"{table}_totals", connection, if_exists="replace", index=False)
    with engine.connect() as connection:
        again = pd.read_sql_table(f"{table}_totals", connection).sort_values("channel")
        assert again.to_dict("list") == found.to_dict("list")
    engine.dispose()


def test_polars_reads(gateway: Gateway, table: str) -> None:
    query = f"SELECT * FROM {table} ORDER BY id"
    with gateway.connect() as connection:
        found = pl.read_database(query, connection)
        assert found.to_dicts() == BIDS
        batches = pl.read_database(query, connection, iter_batches=True, batch_size=3)
        assert pl.concat(batches).to_dicts() == BIDS


def test_grafanas_macros_are_sql_that_is_there(gateway: Gateway) -> None:
    """What its plug-in for Trino makes of `$__timeGroup`, `$__timeFilter` and the like."""
    rows = gateway.rows(
        "SELECT FROM_UNIXTIME(FLOOR(TO_UNIXTIME(at)/3600)*3600) AS time, count(*)"
        " FROM (VALUES TIMESTAMP '2024-01-01 00:30:00 UTC', TIMESTAMP '2024-01-01 00:45:00 UTC')"
        " AS t(at) WHERE at BETWEEN TIMESTAMP '2024-01-01 00:00:00' AND"
        " TIMESTAMP '2024-01-02 00:00:00' AND TO_UNIXTIME(at) BETWEEN 1704000000 AND 1704200000"
        " GROUP BY FROM_UNIXTIME(FLOOR(TO_UNIXTIME(at)/3600)*3600) ORDER BY 1"
    )
    assert [(moment.isoformat(), count) for moment, count in rows] == [
        ("2024-01-01T00:00:00+00:00", 2)
    ]

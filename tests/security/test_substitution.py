"""Goal: a user's text stays that text: nothing in it is replaced by what a server knows.

Method: Spark replaces `${env:…}`, `${system:…}` and `${spark.…}` in whatever it parses, unless it
is told not to. Each of these is put in every place where a statement, a parameter or a table can
hold text, on a server that was told to replace them; each must come back as it was written. What
DuckDB and Spark offer by functions is not on the list of functions, and never gets there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Mapping

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.gateway import Gateway
from support.stack import Stack

from seamline.commands.spark_conf import spark_conf
from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.sessions import connect
from seamline.connectors.spark.settings import SESSION
from seamline.errors import ErrorKind, SeamlineError
from seamline.gateway.app.spark import settings
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.model import Config
from seamline.gateway.tiering.tables import start_spark
from seamline.spark import register
from seamline.spark.catalog import configuration
from seamline.sql import functions

SWITCH = "spark.sql.variable.substitute"
REPLACED = (
    "${env:HOME}",
    "${system:user.home}",
    "${spark.app.name}",
    "${spark.sql.catalog.lake.uri}",
    "${sparkconf:spark.app.name}",
    "${hiveconf:spark.app.name}",
    "${hivevar:spark.app.name}",
    "${env:PATH} ${env:${env:HOME}} $${env:HOME}",
)
ROWS = pa.table({"${env:HOME}": ["${env:HOME}"]})
PLACES: Mapping[str, str] = {
    "literal": "SELECT '{t}'",
    "part of a literal": "SELECT concat('a{t}', 'b')",
    "alias": 'SELECT 1 AS "{t}"',
    "column of a subquery": 'SELECT s."{t}" FROM (SELECT \'x\' AS "{t}") AS s',
    "name of a subquery": 'SELECT "{t}".a FROM (SELECT \'x\' AS a) AS "{t}"',
    "name of a CTE": 'WITH "{t}" AS (SELECT \'x\' AS a) SELECT a FROM "{t}"',
    "pattern": "SELECT '{t}' LIKE '%{t}%'",
    "condition": "SELECT count(*) FROM (VALUES ('{t}'), ('x')) AS v(a) WHERE a = '{t}'",
    "list": "SELECT count(*) FROM (VALUES ('{t}'), ('x')) AS v(a) WHERE a IN ('{t}', 'y')",
    "row": "SELECT CAST(ROW('{t}') AS row(\"a\" varchar))",
}


def with_spark(config: Config, **settings: object) -> Config:
    """The configuration, with other settings of Spark."""
    return config.model_copy(update={"spark": config.spark.model_copy(update=settings)})


@pytest.fixture(scope="module")
def eager(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose Spark is somebody else's, and replaces whatever it is not told to leave."""
    config = stack.configured({**stack.flags, "state_directory": str(tmp_path_factory.mktemp("s"))})
    alone = with_spark(config, remote=None, conf={SWITCH: "true"})
    with contextlib.closing(ConnectServer(settings(alone))) as server:
        other = with_spark(config, remote=server.url())
        with contextlib.closing(Gateway(other)) as gateway:
            yield gateway


@pytest.mark.one_in(prove=12)
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize("place", PLACES)
def test_spark_replaces_nothing_in_a_statement(eager: Gateway, place: str) -> None:
    for text in REPLACED:
        sql = PLACES[place].format(t=text)
        assert eager.rows(sql, "spark") == eager.rows(sql, "duckdb"), sql


@pytest.mark.integration
@pytest.mark.spark
def test_spark_replaces_nothing_in_a_parameter(eager: Gateway) -> None:
    for text in REPLACED:
        for engine in ("spark", "duckdb"):
            assert eager.rows("SELECT ?, length(?)", engine, parameters=(text, text)) == [
                (text, len(text))
            ]


@pytest.mark.integration
@pytest.mark.spark
def test_spark_replaces_nothing_in_what_a_table_says(
    stack: Stack, eager: Gateway, name: str
) -> None:
    """Names of schemas and columns, the key of a row, and the values themselves, hot and cold."""
    text = "${env:HOME}"
    stack.create_topic(name, 1)
    stack.create_table(name, f'id bigint, "{text}" varchar, "r" row("{text}" varchar)')
    stack.produce(name, [{"id": i, text: text, "r": {text: text}} for i in range(3)])
    expected = [(i, text, {text: text}) for i in range(3)]
    for tiered in (False, True):
        for engine in ("duckdb", "spark"):
            found = eager.rows(f"SELECT * FROM {name} ORDER BY id", engine)
            assert found == expected, (tiered, engine)
        if not tiered:
            stack.tier(name)
    catalog = stack.connections.catalog("lake").pyiceberg
    catalog.create_namespace((text,))
    catalog.create_table((text, name), ROWS.schema).append(ROWS)
    for engine in ("duckdb", "spark"):
        assert eager.rows(f'SELECT * FROM lake."{text}".{name}', engine) == [(text,)]


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_the_data_source_gives_names_as_they_are(stack: Stack, eager: Gateway, name: str) -> None:
    """In a Spark of the user's own, which replaces what the user writes."""
    text = "${env:HOME}"
    stack.create_topic(name, 1)
    stack.create_table(name, f'id bigint, "{text}" varchar')
    stack.produce(name, [{"id": i, text: text} for i in range(3)])
    remote = eager.config.spark.remote
    assert remote is not None
    spark = connect(remote)
    try:
        assert spark.sql(f"SELECT '{text}'").collect()[0][0] == os.environ["HOME"]
        register(spark)
        frame = spark.read.format("seamline").option("url", eager.url).option("table", name).load()
        assert text in frame.columns
        assert sorted(tuple(row)[:2] for row in frame.collect()) == [(i, text) for i in range(3)]
    finally:
        spark.stop()


@pytest.mark.integration
@pytest.mark.spark
def test_tiering_and_maintenance_replace_nothing(eager: Gateway) -> None:
    with contextlib.closing(Connections(eager.config)) as connections:
        spark = start_spark(connections)
        try:
            for text in REPLACED:
                escaped = text.replace("'", "\\'")
                assert spark.sql(f"SELECT '{escaped}'").collect()[0][0] == text
        finally:
            spark.stop()


def test_every_spark_of_ours_is_told_to_replace_nothing(
    offline_gateway: Gateway, tmp_path: pathlib.Path
) -> None:
    """A session, a server and a pipeline that are started here, and what is printed for others."""
    assert SESSION[SWITCH] == "false"
    ours = dataclasses.replace(settings(offline_gateway.config), jars=(), directory=tmp_path)
    assert ours.static_conf()[SWITCH] == "false"
    assert configuration("http://127.0.0.1:1")[SWITCH] == "false"
    for form in ("defaults", "shell", "json"):
        printed = CliRunner().invoke(spark_conf, ["--form", form]).output
        assert SWITCH in printed
    assert json.loads(CliRunner().invoke(spark_conf, ["--form", "json"]).output)[SWITCH] == "false"


# --- Functions -----------------------------------------------------------------------------------

TELLING = (
    "getenv('HOME')",
    "current_setting('home_directory')",
    "getvariable('x')",
    "current_setting('secret_directory')",
    "which_secret('s3://b', 's3')",
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "java_method('java.lang.System', 'getenv', 'HOME')",
    "try_reflect('java.lang.System', 'getenv', 'HOME')",
    "input_file_name()",
    "read_text('seamline.yaml')",
    "getenv(?)",
    "current_user()",
    "session_user",
    "user",
    "current_path",
    "@@version",
    "$home",
    ":home",
    "@home",
    "{{ env }}",
)


@pytest.mark.parametrize("expression", TELLING)
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_no_function_tells_of_the_server(
    offline_gateway: Gateway, engine: str, expression: str
) -> None:
    parameters = ("HOME",) if "?" in expression else ()
    with pytest.raises(SeamlineError) as caught:
        offline_gateway.rows(f"SELECT {expression}", engine, parameters=parameters)
    assert caught.value.code.kind is ErrorKind.USER, caught.value
    assert os.environ["HOME"] not in str(caught.value)


@pytest.mark.prove
def test_functions_that_are_not_listed_are_refused(offline_gateway: Gateway) -> None:
    """Every function of DuckDB's that we have not verified, called by its name."""
    known = {*functions.FUNCTIONS, *functions.FORMS}
    found = duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    others = sorted({name.lower() for (name,) in found if name.isidentifier()} - known)
    assert len(others) > 300
    for name in others:
        with pytest.raises(SeamlineError) as caught:
            offline_gateway.rows(f'SELECT "{name}"(1)', "duckdb")
        assert caught.value.code.kind is ErrorKind.USER, (name, caught.value)

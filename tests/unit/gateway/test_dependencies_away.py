"""Goal: a dependency that does not answer stops nobody who needs something else.

Method: a gateway with two runners, over dependencies of every kind that stop to answer in every way
servers do. While more statements than there are runners hang, with time-outs far beyond the test's
end, others must be answered, and the hanging ones end as soon as they are canceled. With short
time-outs they end with a named error, further ones at once, and all work again once it answers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest
from support import offline
from support.doors import FAULTS, HANGING, Door, Way
from support.gateway import Gateway
from support.waiting import wait_until

from seamline.connectors import dependencies
from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.kafka import cluster, requests
from seamline.connectors.supervision import Backoff
from seamline.errors import (
    CATALOG_UNAVAILABLE,
    DEADLINE_EXCEEDED,
    KAFKA_UNAVAILABLE,
    STORAGE_UNAVAILABLE,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.load import load
from seamline.gateway.statements.statement import FINAL, State, Statement, StatementRequest

RUNNERS = 2
NEVER_S = 3600.0
SOON_S = 0.3
CALLER = Principal("tests")
HONEST = ("SELECT 1", "SELECT count(*) FROM lake.shop.orders", "SHOW CATALOGS")
"""Statements that need nothing that is away."""
SETTINGS = """
  behind:
    type: rest
    uri: {catalog}
  secured:
    type: rest
    uri: {steady}
    properties:
      credential: me:secret
      oauth2-server-uri: {tokens}/token
  sticky:
    type: glue
    warehouse: s3://lake/warehouse
    properties:
      glue.endpoint: {glue}
      glue.access-key-id: key
      glue.secret-access-key: secret
      glue.region: us-east-1
      glue.max-retries: "1"
  hive:
    type: hive
    uri: thrift://127.0.0.1:{metastore}
    warehouse: file://{folder}/hive
  far:
    type: sql
    uri: sqlite:///{folder}/far.db
    warehouse: s3://lake/warehouse
    properties:
      s3.endpoint: {storage}
      s3.access-key-id: key
      s3.secret-access-key: secret
      s3.region: us-east-1
      s3.connect-timeout: "{storage_s}"
      s3.request-timeout: "{storage_s}"
"""
STATEMENTS = {
    "catalog": "SELECT * FROM behind.shop.gone",
    "tokens": "SELECT * FROM secured.shop.gone",
    "glue": "SELECT * FROM sticky.shop.gone",
    "metastore": "SELECT * FROM hive.shop.gone",
    "storage": "SELECT * FROM far.shop.orders",
    "cluster": 'SELECT count(*) FROM "default"."default".events',
}
CODES = {
    "catalog": CATALOG_UNAVAILABLE,
    "tokens": CATALOG_UNAVAILABLE,
    "glue": CATALOG_UNAVAILABLE,
    "metastore": CATALOG_UNAVAILABLE,
    "storage": STORAGE_UNAVAILABLE,
    "cluster": KAFKA_UNAVAILABLE,
}
NAMES = {
    "catalog": "behind",
    "tokens": "secured",
    "glue": "sticky",
    "metastore": "hive",
    "storage": "far",
    "cluster": "default",
}
NOT_OF_HTTP = {"metastore", "cluster"}
"""Whose protocols nobody speaks here, so that they are never usable."""


class World:
    """A gateway over a catalog that answers, and a door before every other dependency.

    Attributes:
        gateway: The gateway.
        doors: The doors, by what is behind them.
    """

    def __init__(self, folder: pathlib.Path, doors: dict[str, Door], storage_s: float) -> None:
        self.doors = doors
        self.metadata = b""
        more = SETTINGS.format(
            folder=folder,
            catalog=doors["catalog"].url,
            steady=doors["steady"].url,
            tokens=doors["tokens"].url,
            glue=doors["glue"].url,
            metastore=doors["metastore"].port,
            storage=doors["storage"].url,
            storage_s=storage_s,
        )
        text = (
            offline.write(folder)
            .read_text()
            .replace("clusters:\n", more.lstrip("\n") + "clusters:\n")
        )
        text = text.replace("127.0.0.1:1\n", f"127.0.0.1:{doors['cluster'].port}\n")
        text = text.replace("limits:\n", f"limits:\n  statements_running_max: {RUNNERS}\n")
        (folder / "seamline.yaml").write_text(text)
        self.gateway = Gateway(load(folder / "seamline.yaml", environment={}).config)
        self._make_tables(folder)

    def _make_tables(self, folder: pathlib.Path) -> None:
        rows = self.gateway.rows
        rows("CREATE SCHEMA lake.shop")
        rows("CREATE TABLE lake.shop.orders AS SELECT 7 AS id")
        catalog = self.gateway.parts.connections.catalog("lake").pyiceberg
        self.metadata = json.dumps(
            {
                **catalog.load_table("shop.orders").metadata.model_dump(mode="json", by_alias=True),
                "location": "s3://lake/warehouse/orders",
                "snapshots": [],
                "snapshot-log": [],
                "metadata-log": [],
                "refs": {},
                "current-snapshot-id": None,
            }
        ).encode()
        _ = self.gateway.parts.connections.catalog("far").pyiceberg  # makes its tables
        with contextlib.closing(sqlite3.connect(folder / "far.db")) as database, database:
            database.execute(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, "
                "metadata_location, iceberg_type) VALUES ('far', 'shop', 'orders', "
                "'s3://lake/warehouse/orders/metadata/0.metadata.json', 'TABLE')"
            )

    def submit(self, kind: str) -> Statement:
        """Submits a statement that needs a dependency."""
        return self.gateway.service.submit(StatementRequest(STATEMENTS[kind]), CALLER)

    def error(self, kind: str) -> SeamlineError | None:
        """What such a statement ends with."""
        found = self.submit(kind)
        assert found.wait(60) in FINAL
        return found.error

    def is_usable(self, kind: str) -> bool:
        """Whether a statement gets an answer of the dependency, which may be: no such table."""
        error = self.error(kind)
        return error is None or error.code is TABLE_NOT_FOUND

    def away(self) -> list[tuple[str, str]]:
        """What `/readyz` says is away."""
        answer = self.gateway.app.test_client().get("/readyz", headers={"Host": "127.0.0.1"})
        assert answer.json is not None
        assert answer.json["status"] == "ok"
        return [(one["kind"], one["name"]) for one in answer.json["away"]]


def _catalog(method: str, path: str) -> tuple[int, bytes]:
    if path.partition("?")[0].endswith("/config"):
        return 200, b'{"defaults": {}, "overrides": {}}'
    error = {"message": f"{method} {path}: no", "type": "NoSuchTableException", "code": 404}
    return 404, json.dumps({"error": error}).encode()


def _glue(_method: str, _path: str) -> tuple[int, bytes]:
    return 400, b'{"__type": "EntityNotFoundException", "Message": "no"}'


def _tokens(_method: str, _path: str) -> tuple[int, bytes]:
    return 200, b'{"access_token": "token", "token_type": "bearer"}'


@contextlib.contextmanager
def _world(folder: pathlib.Path, patch: pytest.MonkeyPatch, answer_s: float) -> Iterator[World]:
    """A world whose clients wait so long for answers."""
    patch.setattr(pyiceberg_internals, "CONNECT_S", answer_s)
    patch.setattr(pyiceberg_internals, "READ_S", answer_s)
    patch.setattr(pyiceberg_internals, "ANSWER_S", answer_s)
    patch.setattr(dependencies, "OPENING_S", NEVER_S)
    patch.setattr(dependencies, "SLOW_S", 0.05)
    patch.setattr(dependencies, "_RETRIES", Backoff(0.05, 0.05))
    patch.setattr(cluster, "_LOOKING_S", min(answer_s, 60.0))
    patch.setattr(requests, "_REQUEST_S_MAX", min(answer_s, 60.0))
    worlds: list[World] = []
    storage = lambda _method, _path: (200, worlds[0].metadata)  # noqa: E731
    answers = {"catalog": _catalog, "steady": _catalog, "tokens": _tokens, "storage": storage}
    answers["glue"] = _glue
    answers |= dict.fromkeys(NOT_OF_HTTP, lambda _method, _path: (500, b""))
    with contextlib.ExitStack() as stack:
        doors = {kind: stack.enter_context(Door(answer)) for kind, answer in answers.items()}
        worlds.append(World(folder, doors, answer_s))
        try:
            yield worlds[0]
        finally:
            for door in doors.values():
                door.turn(Way.RESETS)
            worlds[0].gateway.close()


def _cases(ways: tuple[Way, ...], usual: set[tuple[str, Way]]) -> list[object]:
    """All kinds and ways; those that are not usual are marked."""
    return [
        pytest.param(kind, way, marks=[] if (kind, way) in usual else pytest.mark.prove)
        for kind, way in itertools.product(STATEMENTS, ways)
    ]


NOT_BOUNDED = {("storage", Way.DRIPS), ("glue", Way.DRIPS)}
"""Amazon's library bounds how long an answer pauses, not how long it takes: a statement does."""


@pytest.mark.parametrize(
    ("kind", "way"),
    _cases(
        HANGING,
        {
            ("catalog", Way.SILENT),
            ("storage", Way.SILENT),
            ("cluster", Way.SILENT),
        },
    ),
)
def test_others_are_answered_while_a_dependency_hangs(
    kind: str, way: Way, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _world(tmp_path, monkeypatch, NEVER_S) as world:
        world.doors[kind].turn(way)
        hanging = [world.submit(kind) for _ in range(3 * RUNNERS)]
        for sql in HONEST:
            assert world.gateway.rows(sql)
        assert [each.state for each in hanging] == [State.RUNNING] * len(hanging)
        for each in hanging:
            each.cancel()
        for each in hanging:
            assert each.wait(30) is State.CANCELED
        assert world.gateway.rows("SELECT 1")
        if kind not in NOT_OF_HTTP:
            world.doors[kind].turn(Way.ANSWERS)
            wait_until(lambda: world.is_usable(kind), what="an answer")


@pytest.mark.one_in(prove=4)
@pytest.mark.parametrize(
    ("kind", "way"),
    _cases(
        FAULTS,
        {
            ("catalog", Way.DRIPS),
            ("tokens", Way.SILENT),
            ("metastore", Way.SILENT),
            ("cluster", Way.SILENT),
        },
    ),
)
def test_a_dependency_that_is_away_is_named_and_used_again_once_it_is_back(
    kind: str, way: Way, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (kind, way) in NOT_BOUNDED:
        pytest.skip("see NOT_BOUNDED")
    with _world(tmp_path, monkeypatch, SOON_S) as world:
        world.doors[kind].turn(way)
        error = world.error(kind)
        assert error is not None
        assert error.code is CODES[kind]
        if way in HANGING:
            noted = kind if kind in {"storage", "cluster"} else "catalog"
            assert world.away() == [(noted, NAMES[kind])]
            since = 'seamline_dependency_away_since_seconds{kind="%s",name="%s"}'
            assert since % (noted, NAMES[kind]) in world.gateway.parts.metrics_text()
        for sql in HONEST:
            assert world.gateway.rows(sql)
        if kind not in NOT_OF_HTTP:
            world.doors[kind].turn(Way.ANSWERS)
            wait_until(lambda: world.is_usable(kind), what="an answer")
            assert world.away() == []


@pytest.mark.prove
def test_a_store_that_drips_ends_a_statement_at_its_deadline(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _world(tmp_path, monkeypatch, SOON_S) as world:
        world.doors["storage"].turn(Way.DRIPS)
        request = StatementRequest(STATEMENTS["storage"], timeout_s=SOON_S)
        dripping = [world.gateway.service.submit(request, CALLER) for _ in range(2 * RUNNERS)]
        for each in dripping:
            each.wait(30)
            assert each.error is not None
            assert each.error.code is DEADLINE_EXCEEDED
        assert world.gateway.rows("SELECT 1")

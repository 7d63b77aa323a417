"""Trino, the engine: it reads live tables, writes plain ones, and maintains tables that are tiered.

Goal: its own Iceberg connector, given nothing but the address, returns what our own SQL returns;
what it commits, here and in the catalog behind the gateway, is read on both engines with the tail
as one; and what must not change is refused by name.
Method: Trino as published, in a process of its own, over Iceberg's own REST server and a gateway
over that. What a table then holds is known from a model of plain rows.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import pathlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trino.exceptions
from support.checker import agree
from support.gateway import statement_rows
from support.live import LiveReaders, canonical, watched
from support.rest_catalog import config_of, rest_catalog
from support.shapes import Shape
from support.stack import Stack
from support.trino_server import Trino, java, local_files, trino_server

from readers.catalogue import LOCAL
from readers.test_readers import READ_SHAPES, UPSERTS, World, make, make_upserts
from seamline.errors import COMMIT_CONFLICT, SeamlineError
from seamline.gateway.iceberg_rest.routes import FILES
from seamline.seam.tiering import Outcome

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(3600),  # Trino is fetched when it is first asked for
]

COLD, HOT, LATER = range(60), range(60, 80), range(80, 90)
AT_ONCE = {
    f"own__{procedure}_min_retention": "0s"
    for procedure in ("expire_snapshots", "remove_orphan_files")
}
Rows = dict[int, tuple[str | None, int | None]]
"""By id: text and n."""


class Tables:
    """A catalog of tables, a gateway over it, and Trino over both, as `own` and `live`."""

    def __init__(self, stack: Stack, live: LiveReaders, engine: Trino, folder: pathlib.Path):
        self.stack = stack
        self.gateway = live.gateway
        self.trino = engine
        self.world = World(LOCAL, stack, live, {}, folder)

    def produce(self, name: str, ids: range) -> None:
        """Produces records, and waits until all are acknowledged."""
        values = [{"id": i, "text": f"t{i % 7}", "n": i} for i in ids]
        self.stack.produce(name, values, keys=[str(i) for i in ids])

    def expect(self, name: str, rows: Rows) -> None:
        """Both engines, and Trino, say that the table holds these rows, and nothing else."""
        wanted = sorted((i, *row) for i, row in rows.items())
        statement = agree(self.gateway, f"SELECT id, text, n FROM {name}", engine="auto")
        assert sorted(statement_rows(statement)) == wanted
        assert sorted(self.trino.rows(f"SELECT id, text, n FROM live.default.{name}")) == wanted


@pytest.fixture(scope="module")
def tables(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    if java() is None:
        pytest.skip("there is no Java that Trino runs on beside Seamline's own")
    folder = tmp_path_factory.mktemp("trino")
    with contextlib.ExitStack() as block:
        url = block.enter_context(rest_catalog(folder))
        other = block.enter_context(stack.over(config_of(url, folder), folder))
        live = block.enter_context(watched(LiveReaders(other, folder / "live", writes=True)))
        catalogs = {
            "live": local_files(live.gateway.url + FILES),
            "own": local_files(url),
        }
        engine = block.enter_context(trino_server(folder, catalogs))
        yield Tables(other, live, engine, folder)


# --- Reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*READ_SHAPES, *UPSERTS], ids=str)
def test_rows(tables: Tables, name: str, shape: Shape) -> None:
    table = (make_upserts if shape in UPSERTS else make)(tables.world, name, shape)
    listed = ", ".join(f'"{column}"' for column in table.columns)
    found = tables.trino.rows(f"SELECT {listed} FROM live.default.{name}")
    assert canonical(found) == table.rows


def test_what_was_acknowledged_just_before_is_counted(tables: Tables, name: str) -> None:
    tables.stack.create_topic(name, 2)
    tables.stack.create_table(name, "id bigint, text varchar, n integer")
    for number in range(6):
        tables.produce(name, range(number, number + 1))
        counted = tables.trino.rows(f"SELECT count(*) FROM live.default.{name}")
        assert counted == [(number + 1,)]
        if number % 2:
            tables.stack.tier(name)


# --- Writing what has no topic -------------------------------------------------------------------

WRITES = (
    "CREATE TABLE {t} (id bigint, word varchar, r row(x integer)) "
    "WITH (partitioning = ARRAY['bucket(id, 2)'], format_version = 2)",
    "INSERT INTO {t} VALUES (1, 'a', ROW(1)), (2, 'b', NULL), (3, 'c', ROW(NULL))",
    "DELETE FROM {t} WHERE id = 2",
    "UPDATE {t} SET word = 'z' WHERE id = 3",
    "MERGE INTO {t} t USING (VALUES (1, 'm'), (9, 'n')) s(i, w) ON t.id = s.i "
    "WHEN MATCHED THEN UPDATE SET word = w WHEN NOT MATCHED THEN INSERT (id, word) VALUES (i, w)",
    "ALTER TABLE {t} ADD COLUMN n bigint",
    "ALTER TABLE {t} RENAME COLUMN word TO text",
    "ALTER TABLE {t} ALTER COLUMN r.x SET DATA TYPE bigint",
    "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['truncate(text, 1)'], format_version = 3",
    "INSERT INTO {t} (id, text, n) VALUES (4, 'd', 5)",
    "DELETE FROM {t} WHERE id = 1",
    "ALTER TABLE {t} EXECUTE optimize",
    "ALTER TABLE {t} EXECUTE optimize_manifests",
    "ANALYZE {t}",
    "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')",
    "ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')",
    "CREATE TABLE {t}_2 AS SELECT id FROM {t}",
    "CREATE OR REPLACE TABLE {t}_2 AS SELECT id, n FROM {t}",
    "ALTER TABLE {t}_2 RENAME TO {t}_3",
    "CREATE VIEW {t}_v AS SELECT id, text FROM {t} WHERE id > 3",
)


def test_what_is_written_is_read(tables: Tables, name: str) -> None:
    tables.trino.rows("CREATE SCHEMA IF NOT EXISTS live.sales")
    session = {key.replace("own", "live"): value for key, value in AT_ONCE.items()}
    for statement in WRITES:
        tables.trino.rows(statement.format(t=f"live.sales.{name}"), **session)
    rows = [(3, "z", {"x": None}, None), (4, "d", None, 5), (9, "n", None, None)]
    for engine in ("duckdb", "spark"):
        sql = f"SELECT id, text, r, n FROM sales.{name} ORDER BY id"
        assert tables.gateway.rows(sql, engine) == rows
        sql = f"SELECT id, n FROM sales.{name}_3 ORDER BY id"
        assert tables.gateway.rows(sql, engine) == [(3, None), (4, 5), (9, None)]
        sql = f"SELECT * FROM sales.{name}_v ORDER BY id"
        assert tables.gateway.rows(sql, engine) == [(4, "d"), (9, "n")]


CHANGES = (
    "INSERT INTO {t} (id) VALUES (1)",
    "DELETE FROM {t} WHERE id = 1",
    "DELETE FROM {t}",
    "TRUNCATE TABLE {t}",
    "UPDATE {t} SET text = 'x' WHERE id = 2",
    "DROP TABLE {t}",
    "ALTER TABLE {t} ADD COLUMN more bigint",
    "ALTER TABLE {t} RENAME TO {t}_2",
    "ALTER TABLE {t} SET PROPERTIES format_version = 3",
    "ALTER TABLE {t} EXECUTE optimize",
    "ALTER TABLE {t} EXECUTE optimize_manifests",
    "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')",
    "ANALYZE {t}",
    "COMMENT ON TABLE {t} IS 'x'",
)


def test_a_table_with_a_topic_is_left_alone(tables: Tables, name: str) -> None:
    tables.stack.create_topic(name, 2)
    tables.stack.create_table(name, "id bigint, text varchar, n integer")
    tables.produce(name, COLD)
    tables.stack.tier(name)
    tables.produce(name, HOT)
    before = tables.stack.load(name).state
    session = {key.replace("own", "live"): value for key, value in AT_ONCE.items()}
    for statement in CHANGES:
        with pytest.raises(trino.exceptions.TrinoQueryError) as caught:
            tables.trino.rows(statement.format(t=f"live.default.{name}"), **session)
        if not statement.startswith(("DROP", "ALTER TABLE {t} RENAME")):  # Trino gives no cause
            assert re.search("CATALOG_READ_ONLY|GC is disabled", caught.value.message), caught.value
    assert tables.stack.load(name).state == before
    tables.expect(name, model(range(80)))


# --- Maintaining what is tiered ------------------------------------------------------------------


def model(ids: range) -> Rows:
    return {i: (f"t{i % 7}", i) for i in ids}


def merged(rows: Rows) -> Rows:
    changed = {i: ("merged", n) if i % 10 == 0 else (text, n) for i, (text, n) in rows.items()}
    return {**changed, 1000: ("merged", 1000)}


def without(gone: Callable[[int], bool]) -> Callable[[Rows], Rows]:
    return lambda rows: {i: row for i, row in rows.items() if not gone(i)}


def inserted(rows: Rows) -> Rows:
    return {**rows, 1000: ("foreign", None)}


INSERT = "INSERT INTO {t} (id, text) VALUES (1000, 'foreign')"
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT id FROM {t} WHERE id % 10 = 0 UNION ALL SELECT 1000) AS s"
    " ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = 'merged'"
    " WHEN NOT MATCHED THEN INSERT (id, text, n) VALUES (s.id, 'merged', 1000)"
)
DELETE = "DELETE FROM {t} WHERE id % 3 = 0"
OPTIMIZE = "ALTER TABLE {t} EXECUTE optimize"
EXPIRE = "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')"
CLEAN = "ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')"
HANDS: dict[str, tuple[tuple[str, ...], Callable[[Rows], Rows]]] = {
    "insert": ((INSERT,), inserted),
    "merge": ((MERGE,), merged),
    "delete": ((DELETE,), without(lambda i: i % 3 == 0)),
    "delete and optimize": ((DELETE, OPTIMIZE), without(lambda i: i % 3 == 0)),
    "truncate": (("TRUNCATE TABLE {t}",), without(lambda i: True)),
    "maintenance": (
        ("ALTER TABLE {t} EXECUTE optimize_manifests", "ANALYZE {t}", EXPIRE, CLEAN),
        without(lambda i: False),
    ),
    "columns": (
        (
            "ALTER TABLE {t} ADD COLUMN more bigint",
            "ALTER TABLE {t} ALTER COLUMN n SET DATA TYPE bigint",
            "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['bucket(id, 3)']",
            INSERT,
        ),
        inserted,
    ),
    "orc": (("ALTER TABLE {t} SET PROPERTIES format = 'ORC'", INSERT), inserted),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("hand", HANDS)
def test_a_foreign_hand(tables: Tables, name: str, hand: str, version: int) -> None:
    statements, after = HANDS[hand]
    tables.stack.create_topic(name, 2)
    tables.stack.create_table(name, "id bigint, text varchar, n integer", format_version=version)
    tables.produce(name, COLD)
    tables.stack.tier(name)
    tables.produce(name, HOT)
    for statement in statements:
        tables.trino.rows(statement.format(t=f"own.default.{name}"), **AT_ONCE)
    rows = {**after(model(COLD)), **model(HOT)}
    tables.expect(name, rows)
    (step,) = tables.stack.tier(name)
    assert step.outcome is Outcome.ROWS
    tables.produce(name, LATER)
    tables.expect(name, {**rows, **model(LATER)})


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_everything_at_once(tables: Tables, name: str, mode: str, version: int) -> None:
    """Trino rewrites, inserts, updates and reads while records arrive and batches land."""
    options: dict[str, Any] = {"mode": mode, "format_version": version}
    if mode == "upsert":
        options |= {"primary_key": ("id",), "key": "id"}
    tables.stack.create_topic(name, 2)
    tables.stack.create_table(name, "id bigint, text varchar, n integer", **options)
    stop = threading.Event()
    sent = itertools.count(step=20)
    outcomes: collections.Counter[str] = collections.Counter()
    failures: list[BaseException] = []

    def loop(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()
            except BaseException as error:  # noqa: BLE001 - reported when all have ended
                failures.append(error)
                stop.set()

        return threading.Thread(target=run)

    def produce() -> None:
        first = next(sent)
        tables.produce(name, range(first, first + 20))

    def tier() -> None:
        try:
            outcomes.update(step.outcome.name for step in tables.stack.tier(name))
        except SeamlineError as error:
            if error.code is not COMMIT_CONFLICT:
                raise
            outcomes["conflict"] += 1

    def count() -> None:
        counted = f"SELECT count(*), count(DISTINCT id) FROM live.default.{name} WHERE id >= 0"
        ((rows, ids),) = tables.trino.rows(counted)
        assert rows == ids

    threads = [loop(work) for work in (produce, tier, count)]
    for thread in threads:
        thread.start()
    foreign: Rows = {}
    try:
        for number in range(1, 7):
            foreign[-number] = ("u", None)
            for statement in (
                f"INSERT INTO {{t}} (id, text) VALUES ({-number}, 'f')",
                f"UPDATE {{t}} SET text = 'u' WHERE id = {-number}",
                OPTIMIZE,
            ):
                tables.trino.rows(statement.format(t=f"own.default.{name}"))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
    rows = {**model(range(next(sent))), **foreign}
    tables.expect(name, rows)
    assert tables.stack.tier(name)[-1].lag == 0
    tables.expect(name, rows)
    assert outcomes.total()  # a batch may have lost to Trino every time

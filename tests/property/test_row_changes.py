"""DELETE, UPDATE and MERGE change the rows that they say, and no others.

Method: random statements, each on a plain table here and on the same table in DuckDB, which parses
and runs the same text by itself. What is left is read by SQL and by PyIceberg. Tables of other
writers begin with whatever random histories have left in them: deletes by position and by vector,
equality deletes, partitions that changed, renamed columns, files without ids.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from support import offline
from support.gateway import Gateway
from support.handmade_shapes import Story
from support.live import canonical

from seamline.errors import SeamlineError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("changes")


@pytest.fixture(scope="module")
def gateway(folder: pathlib.Path) -> Iterator[Gateway]:
    with offline.running(folder) as running:
        yield running


# --- Random statements ---------------------------------------------------------------------------

LAYOUTS = (
    "",
    " WITH (partitioning = ARRAY['part'])",
    " WITH (partitioning = ARRAY['bucket(k, 3)'])",
)
SPELLED = ("{0}", "{1}", "default.{1}", "LAKE.Default.{0}", '"{1}"', "lake.default.{1}")
"""Ways to write a table's name."""
CONDITIONS = (
    "k = {n}",
    "k % {m} = 0",
    "k BETWEEN {n} AND {n} + 7",
    "part = 'p{p}'",
    "v IS NULL",
    "v > {n} OR s LIKE '%{p}%'",
    "k IN (SELECT k + {p} FROM {t} WHERE v < {n})",
    "v = (SELECT max(v) FROM {t})",
    "NOT (v < {n})",
    "true",
    "false",
)
VALUES = {
    "v": ("v + {n}", "NULL", "-v", "{n}", "CASE WHEN k % 2 = 0 THEN v END", "length(s)"),
    "s": ("s || '{p}'", "'x{n}'", "NULL", "upper(s)", "part"),
    "part": ("'p{p}'", "part"),
    "k": ("k + 1000",),
}
SOURCES = (
    "(VALUES ({n}, 1), ({n} + 1, 2), ({n} + 500, 3)) AS s(id, w)",
    "(SELECT k AS id, max(v) AS w FROM {t} WHERE k % {m} = 1 GROUP BY k) AS s",
    "(SELECT k + {p} AS id, count(*) AS w FROM {t} GROUP BY k + {p}) AS s",
)


class Statements:
    """Random statements about a table `{t}`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _filled(self, text: str) -> str:
        values = {
            "n": self._random.randrange(60),
            "m": self._random.randrange(2, 6),
            "p": self._random.randrange(4),
        }
        return text.format(t="{t}", **values)

    def _condition(self) -> str:
        return self._filled(self._random.choice(CONDITIONS))

    def _assignments(self) -> str:
        chosen = self._random.sample(sorted(VALUES), self._random.randrange(1, 4))
        given = (f"{c} = {self._filled(self._random.choice(VALUES[c]))}" for c in chosen)
        return ", ".join(given)

    def next(self) -> str:
        """The next one."""
        match self._random.randrange(8):
            case 0 | 1:
                return f"DELETE FROM {{t}} WHERE {self._condition()}"
            case 2 | 3 | 4:
                where = f" WHERE {self._condition()}" if self._random.random() < 0.9 else ""
                return f"UPDATE {{t}} SET {self._assignments()}{where}"
            case 5:
                rows = (f"({n}, {n % 9}, 's{n % 7}', 'p{n % 4}')" for n in self._numbers(12))
                return f"INSERT INTO {{t}} VALUES {', '.join(rows)}"
            case 6 | 7:
                return self._merge()
        raise AssertionError

    def _numbers(self, count: int) -> list[int]:
        return self._random.sample(range(200), count)

    def _merge(self) -> str:
        cases = []
        if self._random.random() < 0.5:
            cases.append(f"WHEN MATCHED AND s.w % 2 = {self._random.randrange(2)} THEN DELETE")
        if self._random.random() < 0.7:
            cases.append("WHEN MATCHED THEN UPDATE SET v = s.w, s = t.s || 'm'")
        if self._random.random() < 0.5:
            cases.append("WHEN NOT MATCHED AND s.w > 1 THEN INSERT (k, v) VALUES (s.id, 2 * s.w)")
        if self._random.random() < 0.7 or not cases:
            cases.append("WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.w, 'new', 'p0')")
        source = self._filled(self._random.choice(SOURCES))
        return f"MERGE INTO {{t}} AS t USING {source} ON t.k = s.id {' '.join(cases)}"


def by_pyiceberg(gateway: Gateway, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table, as another reader reads them."""
    table = gateway.parts.connections.catalog("lake").pyiceberg.load_table(("default", name))
    found = table.scan().to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def check_statements(gateway: Gateway, seed: int, count: int = 12) -> None:
    name, made = f"r{seed}", random.Random(seed)
    with duckdb.connect() as model:
        rows = "SELECT n, n % 9, 's' || CAST(n % 7 AS varchar), 'p' || CAST(n % 4 AS varchar)"
        model.execute("CREATE TABLE t (k integer, v bigint, s varchar, part varchar)")
        gateway.rows(
            f"CREATE TABLE {name} (k integer, v bigint, s varchar, part varchar)"
            f"{made.choice(LAYOUTS)}"
        )
        for first in (0, 20, 40):
            model.execute(f"INSERT INTO t {rows} FROM range({first}, {first + 20}) AS r(n)")
            gateway.rows(
                f"INSERT INTO {name} {rows} FROM UNNEST(sequence({first}, {first + 19})) AS r(n)"
            )
        statements = Statements(seed)
        for _ in range(count):
            text = statements.next()
            spelled = made.choice(SPELLED).format(name, name.upper())
            try:
                affected = model.execute(text.format(t="t")).fetchall()[0][0]
            except duckdb.Error as error:
                with pytest.raises(SeamlineError) as caught:
                    gateway.rows(text.format(t=spelled))
                assert "multiple" in str(error).lower(), error
                assert caught.value.code.name == "MERGE_TARGET_ROW_MULTIPLE_MATCHES"
                continue
            assert gateway.rows(text.format(t=spelled)) == [(affected,)], (seed, text)
            left = model.execute("SELECT * FROM t").fetchall()
            assert canonical(gateway.rows(f"SELECT * FROM {name}")) == canonical(left), (seed, text)
        assert canonical(by_pyiceberg(gateway, name)) == canonical(left), seed


def test_statements(gateway: Gateway) -> None:
    for seed in range(2):
        check_statements(gateway, seed)


@pytest.mark.soak
def test_many_statements(gateway: Gateway) -> None:
    for seed in range(100, 108):
        check_statements(gateway, seed, 20)


# --- Other columns -------------------------------------------------------------------------------


def test_a_table_is_replaced_and_keeps_its_history(gateway: Gateway) -> None:
    first, second = random.Random(1), random.Random(2)
    gateway.rows("CREATE TABLE replaced AS SELECT 1 AS a, 'p' AS part")
    known: dict[int, list[Any]] = {}
    for number in range(8):
        layout = first.choice(LAYOUTS).replace("bucket(k", "bucket(a")
        kind = second.choice(["bigint", "varchar", "decimal(9,2)"])
        gateway.rows(
            f"CREATE OR REPLACE TABLE replaced{layout} AS SELECT a + 1 AS a, part, "
            f"CAST({number} AS {kind}) AS c{number % 3} FROM replaced"
        )
        rows = gateway.rows("SELECT * FROM replaced")
        assert [row[:2] for row in rows] == [(number + 2, "p")]
        ((head,),) = gateway.rows(
            'SELECT snapshot_id FROM "replaced$snapshots" ORDER BY committed_at DESC LIMIT 1'
        )
        known[head] = rows
        gateway.rows(f"INSERT INTO replaced SELECT * FROM replaced WHERE a < {number}")
    assert canonical(by_pyiceberg(gateway, "replaced")) == canonical(rows)
    for snapshot, before in known.items():
        assert gateway.rows(f"SELECT * FROM replaced FOR VERSION AS OF {snapshot}") == before
    assert gateway.rows("CREATE OR REPLACE TABLE replaced (x bigint, part varchar)")
    assert gateway.rows("SELECT x FROM replaced") == []


# --- Tables of other writers ---------------------------------------------------------------------


def check_history(gateway: Gateway, folder: pathlib.Path, seed: int) -> None:
    story, name = Story(seed, folder / "warehouse" / "default" / f"h{seed}"), f"h{seed}"
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", name), story.make())
    rows = story.rows()
    if story.version == 1:
        with pytest.raises(SeamlineError, match="format version 1"):
            gateway.rows(f"DELETE FROM {name}")
        return
    kept = [row for row in rows if row[0] % 3]
    found = gateway.rows(f"DELETE FROM {name} WHERE id % 3 = 0")
    assert found == [(len(rows) - len(kept),)], seed
    assert canonical(gateway.rows(f"SELECT * FROM {name}")) == canonical(kept), seed
    after = [row for row in kept if row[1] != 7]
    assert gateway.rows(f"DELETE FROM {name} WHERE p = 7") == [(len(kept) - len(after),)], seed
    assert canonical(gateway.rows(f"SELECT * FROM {name}")) == canonical(after), seed
    try:
        changed = gateway.rows(f"UPDATE {name} SET p = 3 WHERE id % 2 = 0")
    except SeamlineError as error:
        assert error.code.name == "NOT_SUPPORTED", (seed, error)
    else:
        assert changed == [(sum(row[0] % 2 == 0 for row in after),)], seed
        after = [row if row[0] % 2 else (row[0], 3, *row[2:]) for row in after]
        assert canonical(gateway.rows(f"SELECT * FROM {name}")) == canonical(after), seed
    gateway.rows(f"TRUNCATE TABLE {name}")
    assert gateway.rows(f"SELECT count(*) FROM {name}") == [(0,)], seed


def test_histories(gateway: Gateway, folder: pathlib.Path) -> None:
    for seed in range(4):
        check_history(gateway, folder, seed)


@pytest.mark.prove
def test_many_histories(gateway: Gateway, folder: pathlib.Path) -> None:
    for seed in range(1000, 1012):
        check_history(gateway, folder, seed)


# --- At once -------------------------------------------------------------------------------------


def test_no_change_is_lost_among_others(gateway: Gateway) -> None:
    """Each statement changes the rows that it has read, whatever else is committed meanwhile."""
    gateway.rows(
        "CREATE TABLE counters AS SELECT n AS id, 0 AS hits FROM UNNEST(sequence(1, 3)) AS r(n)"
    )

    def work(worker: int) -> int:
        done = 0
        for number in range(3):
            for sql in (
                "UPDATE counters SET hits = hits + 1 WHERE id <= 3",
                f"INSERT INTO counters VALUES ({100 * worker + number + 10}, 0)",
            ):
                try:
                    gateway.rows(sql)
                except SeamlineError as error:
                    assert error.code.name == "COMMIT_CONFLICT"
                    continue
                done += sql.startswith("UPDATE")
        return done

    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        done = sum(threads.map(work, range(3)))
    assert done > 0
    rows = gateway.rows("SELECT hits FROM counters WHERE id <= 3")
    assert rows == [(done,)] * 3
    assert canonical(by_pyiceberg(gateway, "counters")) == canonical(
        gateway.rows("SELECT * FROM counters")
    )

"""Goal: ALTER TABLE … EXECUTE refuses by name, and at its place, what it does not do.

Method: statements of people with different rights over a real catalog, none of which gets as far
as Spark; the conditions that Spark is given, as text; a gateway without Spark.
"""

from __future__ import annotations

import datetime
import decimal
import pathlib
from collections.abc import Iterator

import pytest
from support.offline import MemoryWorld
from support.ruled import Ruled

from seamline.connectors.spark.conditions import condition
from seamline.errors import SeamlineError
from seamline.gateway.app import wiring
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith, Value

RULES = """
tables:
- {table: secret, user: ann, privileges: []}
- {table: part, user: ann, privileges: [OWNERSHIP, SELECT], filter: k > 1}
- {table: other, user: ann, privileges: [SELECT, INSERT, DELETE, UPDATE]}
- {privileges: [SELECT, OWNERSHIP]}
"""
TABLES = ("t", "secret", "part", "other")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    made = Ruled(tmp_path_factory.mktemp("maintaining"), RULES, {"boss": (), "ann": ()})
    for name in TABLES:
        made.rows("boss", f"CREATE TABLE {name} (k bigint, s varchar, a array(bigint))")
    made.rows("boss", "CREATE VIEW v AS SELECT k FROM t")
    yield made
    made.gateway.close()


@pytest.mark.parametrize(
    ("sql", "code", "says", "column"),
    [
        ("nothing EXECUTE optimize", "TABLE_NOT_FOUND", "nothing", 13),
        ("v EXECUTE optimize", "STATEMENT_NOT_ALLOWED", "is a view", 13),
        ('"t$files" EXECUTE optimize', "STATEMENT_NOT_ALLOWED", "cannot be changed", 13),
        ("secret EXECUTE optimize", "TABLE_NOT_FOUND", "secret", 13),
        ("other EXECUTE expire_snapshots", "PERMISSION_DENIED", "other", 13),
        ("part EXECUTE optimize WHERE k = 1", "PERMISSION_DENIED", "may not see all", 13),
        ("other EXECUTE resume(accept_loss => true)", "PERMISSION_DENIED", "other", 13),
        ("t EXECUTE resume(accept_loss => true)", "NOT_A_UNIFIED_TABLE", "has no topic", 13),
        ("t EXECUTE resume(accept_loss => 1)", "INVALID_ARGUMENT", "is a boolean", 45),
        ("t EXECUTE vacuum", "STATEMENT_NOT_ALLOWED", "no procedure vacuum", 23),
        ("t EXECUTE add_files('x')", "NOT_SUPPORTED", "add_files", 23),
        ("t EXECUTE expire_snapshots('6d')", "INVALID_ARGUMENT", "is 6d, which is shorter", 13),
        ("t EXECUTE remove_orphan_files('6d')", "INVALID_ARGUMENT", "at the earliest", 13),
        ("t EXECUTE optimize WHERE nothing = 1", "COLUMN_NOT_FOUND", "nothing", 38),
        ("t EXECUTE optimize WHERE k = 'x'", "TYPE_MISMATCH", "varchar", 38),
        ("t EXECUTE optimize WHERE k + 1 = 2", "NOT_SUPPORTED", "cannot select files", 38),
        ("t EXECUTE optimize WHERE k = 1 AND upper(s) = 'X'", "NOT_SUPPORTED", "cannot select", 38),
        ("t EXECUTE optimize WHERE k IN (SELECT k FROM t)", "NOT_SUPPORTED", "cannot select", 38),
    ],
)  # fmt: skip
def test_what_is_refused(world: Ruled, sql: str, code: str, says: str, column: int) -> None:
    with pytest.raises(SeamlineError, match=says) as caught:
        world.rows("ann", f"ALTER TABLE {sql}")
    error = caught.value
    assert (error.code.name, error.location and error.location.column) == (code, column)


@pytest.mark.parametrize("procedure", ["optimize", "expire_snapshots('7d')"])
def test_an_absent_table_may_be_accepted(world: Ruled, procedure: str) -> None:
    assert world.rows("ann", f"ALTER TABLE IF EXISTS nothing EXECUTE {procedure}") == [(True,)]
    assert world.do("ann", f"ALTER TABLE IF EXISTS other EXECUTE {procedure}") != "done"


def test_it_cannot_be_explained(world: Ruled) -> None:
    assert world.do("ann", "EXPLAIN ALTER TABLE t EXECUTE optimize") == "STATEMENT_NOT_ALLOWED"


@pytest.fixture
def sparkless(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryWorld]:
    monkeypatch.setattr(wiring, "spark_engine", lambda *_: None)
    world = MemoryWorld(tmp_path)
    yield world
    world.gateway.close()


UPSERT = "topic = 'x', mode = 'upsert', key = 'k', primary_key = ARRAY['k']"


@pytest.mark.parametrize("over", ["", "topic = 'x'", UPSERT])
def test_a_gateway_without_spark_says_so(sparkless: MemoryWorld, over: str) -> None:
    """It is the last that can be wrong: the condition is understood."""
    sparkless.memory.create_topic("x", 1)
    sparkless.rows(f"CREATE TABLE t (k bigint, s varchar) {f'WITH ({over})' if over else ''}")
    for procedure in ("expire_snapshots", "optimize WHERE t.k = 1 AND s > 'x'"):
        error = sparkless.refused(f"ALTER TABLE t EXECUTE {procedure}")
        assert error.code.name == "NOT_SUPPORTED"
        assert "seamline[spark]" in error.hint


INSTANT = datetime.datetime(2024, 2, 29, 1, 2, 3, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (-7, "-7L"),
        (decimal.Decimal("-1E+3"), "-1000BD"),
        (1e-300, "1e-300D"),
        (float("inf"), None),
        ("it's \\", r"'it\'s \\'"),
        (b"\x00\xff", "X'00ff'"),
        (datetime.date(1, 2, 3), "DATE '0001-02-03'"),
        (INSTANT, "TIMESTAMP_LTZ '2024-02-29 01:02:03.000005+00:00'"),
        (INSTANT.replace(tzinfo=None), "TIMESTAMP_NTZ '2024-02-29 01:02:03.000005'"),
        (datetime.time(1), None),
    ],
)
def test_each_value_is_written_for_spark(value: Value, text: str | None) -> None:
    found = condition(Comparison("a`b", "<", value))
    assert found == (None if text is None else f"`a``b` < {text}")


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (And((In("k", (1, 2)), IsNull("s"))), "(`k` IN (1L, 2L)) AND (`s` IS NULL)"),
        (Or((IsNull("s", negated=True), StartsWith("s", "'"))),
         r"(`s` IS NOT NULL) OR (startswith(`s`, '\''))"),
        (And(()), "TRUE"),
        (Or(()), "FALSE"),
        (Or((IsNull("s"), In("k", (1, datetime.time(1))))), None),
    ],
)  # fmt: skip
def test_each_condition_is_written_for_spark(predicate: Predicate, text: str | None) -> None:
    assert condition(predicate) == text

"""Goal: a table over what a real Debezium writes is the table of its database, whatever it is told.

Method: random transactions in Postgres and in MariaDB, with values of every common type at their
limits, are captured by connectors of different settings; once all changes are in the log, each
table here has the rows that the database has, on both engines, before and after they are tiered.
In the end the table is truncated, between other changes: a connector that is told to write this
makes a table like it from a topic with one partition, and one that is refused by name from several.
"""

from __future__ import annotations

import datetime
import pathlib
import random
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from support.apicurio import apicurio
from support.databases import Database, program
from support.debezium import avro, connectors
from support.dialects import DIALECTS, Dialect
from support.gateway import Gateway
from support.registered import told_of
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import UPSERT_ORDER_UNKNOWN

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.usefixtures("tier_engine"),
]

UNWRAP = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
}
HANDLING = "transforms.unwrap.delete.tombstone.handling.mode"
NO_SCHEMAS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
MICROSECONDS = {"time.precision.mode": "microseconds"}
CHANGES = "mode = 'changelog', envelope = 'debezium'"
STATES = "mode = 'upsert', key_format = 'json', columns_from = ARRAY['id = key.id']"
SPELLINGS = "spellings = ARRAY['epoch_days', 'base64_decimals', 'epoch_micros']"
BARE = f"{STATES}, {SPELLINGS}"
TRUNCATED, REFUSED = "precise", "precise_apart"
"""The variants that are told of truncates; the others are not, as Debezium is by default."""
WITH_TRUNCATES = {**MICROSECONDS, "skipped.operations": "none"}
BY_KEY = f"format = 'avro', {STATES.replace('json', 'avro')}"
VARIANTS: dict[str, tuple[dict[str, str], str]] = {
    "plain": ({}, CHANGES),
    TRUNCATED: ({**WITH_TRUNCATES, "topic.creation.default.partitions": "1"}, CHANGES),
    REFUSED: (WITH_TRUNCATES, CHANGES),
    "bare_changes": ({**NO_SCHEMAS, **MICROSECONDS}, f"{CHANGES}, {SPELLINGS}"),
    "states": ({**UNWRAP}, STATES),
    "bare": ({**UNWRAP, **NO_SCHEMAS, **MICROSECONDS, HANDLING: "tombstone"}, BARE),
    "bare_marked": (
        {**UNWRAP, **NO_SCHEMAS, **MICROSECONDS, HANDLING: "rewrite"},
        f"{BARE}, deleted_by = '__deleted'",
    ),
}
"""What connectors are told, and how tables are made over their topics."""
IN_AVRO: dict[str, tuple[dict[str, str], str]] = {
    "avro": ({}, f"{CHANGES}, format = 'avro'"),
    "avro_marked": ({**UNWRAP, HANDLING: "rewrite"}, f"{BY_KEY}, deleted_by = '__deleted'"),
}
"""The same of connectors that also write Avro."""
TEXTS = {
    "postgres": {"decimal.handling.mode": "double", "time.precision.mode": "isostring"},
    "mariadb": {"decimal.handling.mode": "string"},
}
"""Types that may be captured as text or otherwise; MariaDB's times of day are not such text."""
KEYS = 40
AGAIN = "truncated again"
"""The note of the last change."""


def statement(dice: random.Random, dialect: Dialect) -> str:
    """An insert, an update, a delete, or a change of the key."""
    key, other = dice.randrange(KEYS), dice.randrange(KEYS)
    names = dice.sample(list(dialect.columns), dice.randint(1, 6))
    values = {name: dialect.literal(name, dice) for name in names}
    match dice.randrange(10):
        case 0 | 1:
            return f"DELETE FROM t WHERE id = {key}"
        case 2:
            return (
                f"UPDATE t SET id = {other} WHERE id = {key}"
                f" AND NOT EXISTS (SELECT 1 FROM t WHERE id = {other})"
            )
        case 3 | 4 | 5:
            changes = ", ".join(f"{name} = {value}" for name, value in values.items())
            return f"UPDATE t SET {changes} WHERE id = {key}"
    return (
        f"INSERT INTO t (id, {', '.join(values)}) VALUES ({key}, {', '.join(values.values())})"
        f" {dialect.upsert} " + ", ".join(map(dialect.assign.format, values))
    )


def transactions(dice: random.Random, dialect: Dialect, count: int) -> Iterator[str]:
    for _ in range(count):
        size = dice.choice([1, 1, 3, 10])
        yield "BEGIN"
        yield from (statement(dice, dialect) for _ in range(size))
        yield dice.choice(["COMMIT"] * 9 + ["ROLLBACK"])


def alike(one: Any, other: Any, *, is_single: bool) -> bool:
    if isinstance(one, float) and other is not None:
        digits = "f" if is_single else "d"
        return struct.pack(digits, one + 0.0) == struct.pack(digits, other + 0.0)  # JSON has no -0
    if isinstance(one, datetime.datetime) and one.tzinfo and isinstance(other, datetime.datetime):
        return one == other
    if isinstance(other, dict):
        other = tuple(other.values())
    return bool(one == other or str(one) == str(other))


def differences(
    gateway: Gateway, table: str, dialect: Dialect, wanted: dict[int, dict[str, Any]], engine: str
) -> list[str]:
    """What a table has otherwise than the database."""
    sql = f"SELECT id, {', '.join(dialect.columns)} FROM {table}"
    found = {row[0]: row[1:] for row in gateway.rows(sql, engine)}
    wrong = [f"key {key} is in one only" for key in sorted(found.keys() ^ wanted.keys())]
    for key in sorted(found.keys() & wanted.keys()):
        for (name, column), value in zip(dialect.columns.items(), found[key], strict=True):
            said = wanted[key][name]
            expected = None if said is None else column.value(said)
            if not alike(expected, value, is_single=column.here == "real"):
                wrong.append(f"{key}.{name}: {value!r} is {expected!r} there")
    return wrong


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    dialect = DIALECTS[request.getfixturevalue("kind")]
    if program(dialect.program) is None:
        pytest.skip(f"{dialect.program} is not installed")
    with tempfile.TemporaryDirectory(prefix="database-") as folder:
        pathlib.Path(folder).chmod(0o711)  # another user runs it where we are root
        running = dialect.start(pathlib.Path(folder))
        try:
            yield running
        finally:
            running.close()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.timeout(1800)
def test_every_table_is_the_table_of_its_database(
    kind: str, seed: int, stack: Stack, database: Database, tmp_path: pathlib.Path
) -> None:
    with apicurio(tmp_path) as url, told_of(url, stack, tmp_path / "state") as (told, gateway):
        variants = {
            **VARIANTS,
            "text": (TEXTS[kind], CHANGES),
            **{name: ({**avro(url), **own}, said) for name, (own, said) in IN_AVRO.items()},
        }
        compare(DIALECTS[kind], f"{kind}_{seed}", variants, told, gateway, database, tmp_path)


def compare(
    dialect: Dialect,
    suffix: str,
    variants: dict[str, tuple[dict[str, str], str]],
    stack: Stack,
    gateway: Gateway,
    database: Database,
    folder: pathlib.Path,
) -> None:
    """Compares the tables of all variants, whose names end with a suffix, with the database's."""
    dice = random.Random(suffix)
    there, here = dialect.id
    declared = ", ".join(f"{name} {column.there}" for name, column in dialect.columns.items())
    database.execute(f"CREATE TABLE t (id {there} NOT NULL, {declared}, PRIMARY KEY (id))")
    database.execute(*dialect.setup, *transactions(dice, dialect, 20))
    database.execute("INSERT INTO t (id) VALUES (1000)")
    columns = ", ".join(f"{name} {column.here}" for name, column in dialect.columns.items())
    read = {"id": "{}", **{name: column.read for name, column in dialect.columns.items()}}
    tables = {name: f"{name}_{suffix}" for name in variants}
    settings = {tables[name]: told for name, (told, _) in variants.items()}
    with connectors(folder, stack.bootstrap_servers, database, ["t"], settings):
        database.wait_for(len(settings))
        for part in ("hot", "tiered"):
            last = f"UPDATE t SET note = '{part}' WHERE id = 1000"
            database.execute(*transactions(dice, dialect, 60), last)
            wanted = database.rows("t", read)
            for name, (_, said) in variants.items():
                table = tables[name]
                if part == "hot":
                    made = gateway.statement(
                        f"CREATE TABLE {table} (id {here}, {columns}) WITH (topic ="
                        f" '{database.topic(table, 't')}', primary_key = ARRAY['id'], {said})"
                    )
                    assert made.error is None, made.error
                wait_until(lambda table=table, part=part: noted(gateway, table) == part, 120, part)  # type: ignore[misc]
                assert differences(gateway, table, dialect, wanted, "duckdb") == [], table
                if part == "tiered":
                    assert differences(gateway, table, dialect, wanted, "spark") == [], table
                stack.tier(table)
                assert differences(gateway, table, dialect, wanted, "auto") == [], table
        wanted = truncate(dialect, dice, tables[TRUNCATED], stack, gateway, database, read)
        wait_until(lambda: is_refused(gateway, tables[REFUSED]), 120, "the truncate")
        plain = tables["plain"]
        wait_until(lambda: noted(gateway, plain) == AGAIN, 120, "what is not truncated")
    assert {id_ for (id_,) in gateway.rows(f"SELECT id FROM {plain}")} > wanted.keys()


def truncate(
    dialect: Dialect,
    dice: random.Random,
    table: str,
    stack: Stack,
    gateway: Gateway,
    database: Database,
    read: dict[str, str],
) -> dict[int, dict[str, Any]]:
    """Truncates twice, with other changes before, between and after, and compares a table.

    Returns:
        What the database has then.
    """
    wanted: dict[int, dict[str, Any]] = {}
    for part in ("truncated", AGAIN):
        database.execute(
            *transactions(dice, dialect, 10),
            "TRUNCATE TABLE t",
            *transactions(dice, dialect, 10),
            f"INSERT INTO t (id, note) VALUES (1000, '{part}')",
        )
        wait_until(lambda part=part: noted(gateway, table) == part, 120, part)  # type: ignore[misc]
        wanted = database.rows("t", read)
        for engine in ("duckdb", "spark"):
            assert differences(gateway, table, dialect, wanted, engine) == [], (part, engine)
        stack.tier(table)
        assert differences(gateway, table, dialect, wanted, "auto") == [], part
    return wanted


def noted(gateway: Gateway, table: str) -> str | None:
    """What the last statement has written, once it is here."""
    found = gateway.rows(f"SELECT note FROM {table} WHERE id = 1000")
    return found[0][0] if found else None


def is_refused(gateway: Gateway, table: str) -> bool:
    error = gateway.statement(f"SELECT id FROM {table}").error
    return error is not None and error.code is UPSERT_ORDER_UNKNOWN

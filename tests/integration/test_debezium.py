"""Goal: a table over what a real Debezium writes is the table of its database, whatever it is told.

Method: random transactions in Postgres, with values of every common type at their limits, are
captured by connectors of different settings; once all changes are in the log, each table here has
the rows that Postgres has, before and after they are tiered.
"""

from __future__ import annotations

import datetime
import decimal
import pathlib
import random
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from support.debezium import Postgres, connectors, program, wait_for_slots
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

pytestmark = [
    *(pytest.mark.integration, pytest.mark.spark, pytest.mark.soak),
    pytest.mark.skipif(program("initdb") is None, reason="Postgres is not installed"),
]

UNWRAP = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
}
NO_SCHEMAS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
CHANGES = "mode = 'changelog', envelope = 'debezium'"
STATES = "mode = 'upsert', key_format = 'json', columns_from = ARRAY['id = key.id']"
VARIANTS = {
    "plain": ({}, CHANGES),
    "precise": ({"time.precision.mode": "microseconds"}, CHANGES),
    "text": (
        {"decimal.handling.mode": "double", "time.precision.mode": "isostring"},
        CHANGES,
    ),
    "states": ({**UNWRAP}, STATES),
    "bare": (
        {**UNWRAP, **NO_SCHEMAS, "transforms.unwrap.delete.tombstone.handling.mode": "tombstone"},
        f"{STATES}, spellings = ARRAY['epoch_days', 'base64_decimals', 'epoch_micros']",
    ),
}
"""What connectors are told, and how tables are made over their topics."""
COLUMNS = {
    "id": ("integer", "integer"),
    "whole": ("bigint", "bigint"),
    "price": ("numeric(10, 2)", "decimal(10, 2)"),
    "ratio": ("double precision", "double"),
    "single": ("real", "real"),
    "flag": ("boolean", "boolean"),
    "note": ("text", "varchar"),
    "body": ("bytea", "varbinary"),
    "day": ("date", "date"),
    "at": ("timestamp", "timestamp(6)"),
    "zoned": ("timestamptz", "timestamp(6) with time zone"),
    "uid": ("uuid", "uuid"),
    "numbers": ("int[]", "array(integer)"),
    "words": ("text[]", "array(varchar)"),
}
"""The columns, in Postgres and here."""
KEYS = 40


def literal(name: str, dice: random.Random) -> str:
    """A value of a column in Postgres's SQL."""
    if dice.random() < 0.15:
        return "NULL"
    moment = datetime.datetime(1, 1, 1) + dice.random() * datetime.timedelta(days=3_652_000)
    moment = dice.choice([moment, datetime.datetime(1970, 1, 1), datetime.datetime(9999, 12, 31)])
    text = "".join(dice.choice("aé漢😀\"\\\n\t'{}[]:, ") for _ in range(dice.randrange(20)))
    text = text.replace("'", "''")
    floats = ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0.1", "-1.5e30"]
    return {
        "whole": lambda: str(dice.choice([2**63 - 1, -(2**63), 0, dice.randint(-9, 9)])),
        "price": lambda: f"{dice.choice([99999999, -99999999, 0])}.{dice.randrange(100):02}",
        "ratio": lambda: dice.choice([*floats, "5e-324", "1.7976931348623157e308"]),
        "single": lambda: dice.choice([*floats, "1e-40", "3.4028234e38"]),
        "flag": lambda: dice.choice(["true", "false"]),
        "note": lambda: f"'{text}'",
        "body": lambda: f"'\\x{dice.randbytes(dice.randrange(9)).hex()}'",
        "day": lambda: f"'{moment.date().isoformat()}'",
        "at": lambda: f"'{moment.isoformat()}'",
        "zoned": lambda: f"'{moment.isoformat()}Z'",
        "uid": lambda: f"'{dice.randbytes(16).hex()}'",
        "numbers": lambda: f"ARRAY[NULL, {dice.randrange(9)}]::int[]",
        "words": lambda: f"ARRAY['', NULL, '{text}']::text[]",
    }[name]()


def statement(dice: random.Random) -> str:
    """An insert, an update, a delete, or a change of the key."""
    key, other = dice.randrange(KEYS), dice.randrange(KEYS)
    names = dice.sample([name for name in COLUMNS if name != "id"], dice.randint(1, 6))
    values = {name: literal(name, dice) for name in names}
    match dice.randrange(10):
        case 0 | 1:
            return f"DELETE FROM t WHERE id = {key}"
        case 2:
            return (
                f"UPDATE t SET id = {other} WHERE id = {key}"
                f" AND NOT EXISTS (SELECT FROM t WHERE id = {other})"
            )
        case 3 | 4 | 5:
            changes = ", ".join(f"{name} = {value}" for name, value in values.items())
            return f"UPDATE t SET {changes} WHERE id = {key}"
    return (
        f"INSERT INTO t (id, {', '.join(values)}) VALUES ({key}, {', '.join(values.values())})"
        f" ON CONFLICT (id) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in values)
    )


def transactions(dice: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        size = dice.choice([1, 1, 3, 10])
        yield "BEGIN"
        yield from (statement(dice) for _ in range(size))
        yield dice.choice(["COMMIT"] * 9 + ["ROLLBACK"])


def here(value: Any, name: str) -> Any:
    """What Postgres says of a value in JSON, as a value of our column."""
    if value is None:
        return None
    match COLUMNS[name][1]:
        case "decimal(10, 2)":
            return decimal.Decimal(str(value)).quantize(decimal.Decimal("0.01"))
        case "double" | "real":
            return float(value)
        case "varbinary":
            return bytes.fromhex(value.removeprefix("\\x"))
        case "date":
            return datetime.date.fromisoformat(value)
        case "timestamp(6)":
            return datetime.datetime.fromisoformat(value)
        case "timestamp(6) with time zone":
            return datetime.datetime.fromisoformat(value).astimezone(datetime.UTC)
    return value


def alike(one: Any, other: Any, name: str) -> bool:
    if isinstance(one, float) and other is not None:
        digits = "f" if name == "single" else "d"
        return struct.pack(digits, one + 0.0) == struct.pack(digits, other + 0.0)  # JSON has no -0
    if isinstance(one, datetime.datetime) and one.tzinfo and isinstance(other, datetime.datetime):
        return one == other
    return bool(one == other or str(one) == str(other))


def differences(gateway: Gateway, table: str, wanted: dict[int, dict[str, Any]]) -> list[str]:
    """What a table has otherwise than Postgres."""
    names = ", ".join(COLUMNS)
    found = {row[0]: row for row in gateway.rows(f"SELECT {names} FROM {table}")}
    wrong = [f"key {key} is in one only" for key in sorted(found.keys() ^ wanted.keys())]
    for key in sorted(found.keys() & wanted.keys()):
        for name, value in zip(COLUMNS, found[key], strict=True):
            expected = here(wanted[key][name], name)
            if not alike(expected, value, name):
                wrong.append(f"{key}.{name}: {value!r} is {expected!r} there")
    return wrong


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        pathlib.Path(folder).chmod(0o711)  # another user runs it where we are root
        running = Postgres(pathlib.Path(folder))
        try:
            yield running
        finally:
            running.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_table_is_the_table_of_its_database(
    seed: int, stack: Stack, gateway: Gateway, postgres: Postgres, tmp_path: pathlib.Path
) -> None:
    dice = random.Random(seed)
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    postgres.execute(f"CREATE TABLE t ({declared}, PRIMARY KEY (id))")
    postgres.execute("ALTER TABLE t REPLICA IDENTITY FULL", *transactions(dice, 20))
    postgres.execute("INSERT INTO t (id) VALUES (-1)")
    settings = {f"{name}_{seed}": told for name, (told, _) in VARIANTS.items()}
    columns = ", ".join(f"{name} {type_}" for name, (_, type_) in COLUMNS.items())
    with connectors(tmp_path, stack.bootstrap_servers, postgres, ["t"], settings):
        wait_for_slots(postgres, len(settings))
        for part in ("hot", "tiered"):
            postgres.execute(*transactions(dice, 60), f"UPDATE t SET note = '{part}' WHERE id = -1")
            wanted = postgres.rows("t")
            for name, (_, said) in VARIANTS.items():
                table = f"{name}_{seed}"
                if part == "hot":
                    made = gateway.statement(
                        f"CREATE TABLE {table} ({columns}) WITH (topic = '{table}.public.t',"
                        f" primary_key = ARRAY['id'], {said})"
                    )
                    assert made.error is None, made.error
                last = f"SELECT count(*) FROM {table} WHERE id = -1 AND note = '{part}'"
                wait_until(
                    lambda sql=last: gateway.rows(sql) == [(1,)],  # type: ignore[misc]
                    120,
                    "the last change",
                )
                assert differences(gateway, table, wanted) == [], table
                stack.tier(table)
                assert differences(gateway, table, wanted) == [], table

"""Goal: keys and values that name no schema are read and written with a subject's newest version.

Method: a real broker holds what fastavro and Google's library made. Both engines and the parts of
the Spark data source read the rows before tiering and after it, by Spark and in the process; the
judge is what was produced. A gateway that has another address of the registry, and so asks afresh,
stands for the minute that passes. The unit tests of that name have tables of other writers.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.clients import refused
from support.gateway import Gateway
from support.registered import told_of
from support.registry import Registry, encoded, registries
from support.source_parts import read
from support.stack import Stack

from seamline.seam.encoding import KEY, VALUE

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.prove,
    pytest.mark.usefixtures("tier_engine"),
]

NOTE = {"name": "note", "type": ["null", "string"]}
MORE = {"name": "more", "type": ["null", "string"], "default": None}
REGION = {**MORE, "name": "region"}
ID = {"name": "id", "type": "long"}


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def protobuf(*fields: str) -> str:
    numbered = " ".join(f"{field} = {number};" for number, field in enumerate(fields, 1))
    other = "message Header { int32 x = 1; }"
    return f'syntax = "proto3"; package shop; {other} message Order {{ {numbered} }}'


@dataclasses.dataclass(frozen=True)
class Case:
    """A format, and the two versions of each part's schema.

    Attributes:
        kind: Its name in the registry.
        declared: What the table says of its schemas.
        first, second: Schemas by part.
        is_told_apart: Whether a record of the first version is none of the second.
    """

    kind: str
    declared: str
    first: dict[str, str]
    second: dict[str, str]
    is_told_apart: bool


CASES = {
    "avro": Case(
        "AVRO",
        "latest",
        {KEY: avro(ID), VALUE: avro(NOTE)},
        {KEY: avro(ID, REGION), VALUE: avro(NOTE, MORE)},
        is_told_apart=True,
    ),
    "protobuf": Case(
        "PROTOBUF",
        "latest:protobuf_name=shop.Order",
        {KEY: protobuf("int64 id"), VALUE: protobuf("optional string note")},
        {
            KEY: protobuf("int64 id", "optional string region"),
            VALUE: protobuf("optional string note", "optional string more"),
        },
        is_told_apart=False,
    ),
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    yield from registries()


def register(registry: Registry, name: str, case: Case, schemas: dict[str, str]) -> None:
    for part, text in schemas.items():
        registry.register(f"{name}-{part}", text, case.kind)


def produce(stack: Stack, name: str, case: Case, schemas: dict[str, str], *rows: Any) -> None:
    """Produces a row per record: its id, and its value; None for a tombstone."""
    encode = [
        (
            encoded(case.kind, schemas[KEY], {"id": id_}),
            None if body is None else encoded(case.kind, schemas[VALUE], body),
        )
        for id_, body in rows
    ]
    stack.produce(name, [value for _, value in encode], keys=[key for key, _ in encode])


def everywhere(gateway: Gateway, name: str, columns: str) -> list[tuple[Any, ...]]:
    """The rows, which both engines and the parts of Spark's data source agree on."""
    sql = f"SELECT {columns} FROM {name} ORDER BY id"
    rows = gateway.rows(sql, "duckdb")
    assert gateway.rows(sql, "spark") == rows
    assert sorted(read(gateway, name, columns)) == rows
    return rows


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("format_", CASES)
def test_new_versions_of_keys_and_values(
    stack: Stack, registry: Registry, tmp_path: pathlib.Path, name: str, format_: str, mode: str
) -> None:
    case, is_upsert = CASES[format_], mode == "upsert"
    stack.create_topic(name, 1)
    register(registry, name, case, case.first)
    produce(stack, name, case, case.first, (1, {"note": "a"}), (2, {"note": None}))
    options = f"topic = '{name}', format = '{format_}', key_format = '{format_}'"
    options += f", value_schema = '{case.declared}', key_schema = '{case.declared}'"
    options += ", columns_from = ARRAY['id = key.id']"
    options += ", mode = 'upsert', primary_key = ARRAY['id']" if is_upsert else ""
    expected: dict[int, Any] = {1: "a", 2: None, 3: "c"}
    with told_of(registry.url, stack, tmp_path) as (first, gateway):
        gateway.rows(f"CREATE TABLE {name} WITH ({options})")
        assert gateway.rows(f"INSERT INTO {name} (id, note) VALUES (3, 'c')") == [(1,)]
        first.wait_for_markers(name)
        if is_upsert:
            produce(first, name, case, case.first, (2, {"note": "b"}), (1, None))
            expected = {2: "b", 3: "c"}
        hot = everywhere(gateway, name, "id, note")
        assert hot == list(expected.items())
        statement = gateway.statement(f"SELECT id, note FROM {name} ORDER BY id")
        assert statement.receipt is not None
        token = statement.receipt["token"]
        assert [step.outcome.value for step in first.tier(name)] == ["rows"]
        assert everywhere(gateway, name, "id, note") == hot

    register(registry, name, case, case.second)
    produce(stack, name, case, case.second, (4, {"note": None, "more": "m"}))
    with told_of(f"{registry.url}/", stack, tmp_path) as (later, gateway):
        assert everywhere(gateway, name, "id, note") == [*hot, (4, None)]
        assert gateway.rows(f"SELECT id, note FROM {name} ORDER BY id", token=token) == hot
        outcomes = [step.outcome.value for step in later.tier(name)]
        assert outcomes == ["evolved", "rows"]
        produce(later, name, case, case.second, (5, {"note": "e", "more": None}))
        written = gateway.rows(f"INSERT INTO {name} (id, note, more) VALUES (6, 'f', 'g')")
        assert written == [(1,)]
        later.wait_for_markers(name)
        rows = [*((*row, None) for row in hot), (4, None, "m"), (5, "e", None), (6, "f", "g")]
        if is_upsert:
            produce(later, name, case, case.second, (3, None), (2, {"note": "z", "more": "y"}))
            rows = [(2, "z", "y"), *rows[2:]]
        for _ in ("hot", "cold"):
            assert everywhere(gateway, name, "id, note, more") == rows
            later.tier(name)
        produce(later, name, case, case.first, (7, {"note": "late"}))
        if case.is_told_apart:
            with gateway.connect() as connection:
                error = refused(connection, f"SELECT * FROM {name}")
            assert error.code.name == "BAD_RECORD"
        else:
            late = [*rows, (7, "late", None)]
            assert everywhere(gateway, name, "id, note, more") == late

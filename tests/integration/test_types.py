"""A hot row equals its tiered row: every type, every kind of record, both engines.

Method: the same records are read while they are only in the log and again after they were tiered;
the rows must be equal cell by cell, on DuckDB and on Spark.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest
from support.gateway import Gateway
from support.odd_records import OddRecord, produce
from support.stack import Stack

COLUMNS = """
    b boolean, i integer, l bigint, f real, d double, n decimal(20, 4), s varchar, x varbinary,
    u uuid, day date, t timestamp, z timestamp with time zone,
    r row(a bigint, b row(c varchar, d array(double))), a array(varchar), aa array(array(integer)),
    m map(varchar, bigint), mm map(varchar, row(p date, q decimal(5, 1)))
"""
RECORDS: list[Any] = [
    {
        "b": True, "i": 7, "l": 9007199254740993, "f": 1.5, "d": 0.1, "n": "12345.6789",
        "s": "héllo", "x": "AAECAw==", "u": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "day": "2024-02-29",
        "t": "2024-02-29T01:02:03.123456", "z": "2024-02-29T01:02:03.123456+02:00",
        "r": {"a": 1, "b": {"c": "x", "d": [1.5, None]}}, "a": ["p", None, ""],
        "aa": [[1], [], None], "m": {"k": 1, "n": None}, "mm": {"k": {"p": "1969-12-31", "q": 1.5}},
    },
    {},
    {"b": None, "r": None, "a": None, "m": None},
    {"r": {}, "a": [], "m": {}, "r2": "ignored", "s": ""},
    {"i": -2147483648, "l": -9223372036854775808, "f": -3.4028235e38, "d": 1.7976931348623157e308,
     "n": "-9999999999999999.9999", "t": "0001-01-01 00:00:00", "z": 253402300799999,
     "day": "9999-12-31"},
    {"d": 5e-324, "f": 1e-45, "n": 0.0001, "t": 0, "z": "1969-12-31 23:59:59.999999Z",
     "s": "\u0000\n\"'"},
    b'{"d": NaN, "f": -Infinity, "s": "\\ud83d\\ude00"}',
    b' { "l" : 12 ,\n "s" : "spread over\\nlines" } ',
    None,
    b"null",
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.usefixtures("tier_engine")
def test_every_type(stack: Stack, gateway: Gateway, name: str, format_version: int) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, format_version=format_version)
    stack.produce(name, RECORDS)
    sql = (
        f"SELECT *, _kafka_partition, _kafka_offset, _kafka_timestamp, _kafka_key, _kafka_headers,"
        f" _kafka_error FROM {name} ORDER BY _kafka_offset"
    )
    hot = gateway.rows(sql, "duckdb")
    assert len(hot) == len(RECORDS)
    assert repr(gateway.rows(sql, "spark")) == repr(hot)
    stack.tier(name)
    statement = gateway.statement(sql, "duckdb")
    assert statement.receipt["rows_hot"] == 0
    assert repr(gateway.rows(sql, "duckdb")) == repr(hot)
    assert repr(gateway.rows(sql, "spark")) == repr(hot)


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.usefixtures("tier_engine")
def test_a_value_is_one_value_in_both_tiers(stack: Stack, gateway: Gateway, name: str) -> None:
    # pitfall: the same value typed differently in the two tiers duplicated rows
    stack.create_topic(name, 1)
    columns = {
        "a": ("bigint", 7),
        "b": ("double", 0.1),
        "c": ("decimal(12, 2)", "12345.60"),
        "d": ("timestamp", "2026-01-02T03:04:05.000600"),
        "e": ("timestamp with time zone", "2026-01-02T03:04:05+02:00"),
        "f": ("date", "2026-01-02"),
        "g": ("varchar", "ü "),
        "h": ("boolean", False),
        "i": ("real", 0.1),
    }
    stack.create_table(name, ", ".join(f"{c} {type_}" for c, (type_, _) in columns.items()))
    record = {c: value for c, (_, value) in columns.items()}
    stack.produce(name, [record])
    stack.tier(name)
    stack.produce(name, [record])
    listed = ", ".join(columns)
    sql = f"SELECT {listed}, count(*) FROM {name} GROUP BY {listed}"
    joined = " AND ".join(f"x.{c} = y.{c}" for c in columns)
    for engine in ("duckdb", "spark"):
        assert [row[-1] for row in gateway.rows(sql, engine)] == [2]
        pairs = f"SELECT count(*) FROM {name} AS x JOIN {name} AS y ON {joined}"
        assert gateway.rows(pairs, engine) == [(4,)]


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.usefixtures("tier_engine")
def test_keys_headers_and_times(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "a bigint")
    producer = stack.producer()
    producer.produce(
        name, b'{"a":1}', key=b"\x00\xff", headers=[("h", b"1"), ("h", None), ("é", b"")]
    )
    producer.produce(name, b'{"a":2}', timestamp=1_700_000_000_123)
    producer.produce(name, b'{"a":3}', key="text", headers=[])
    assert producer.flush(30) == 0
    sql = (
        f"SELECT a, _kafka_key, _kafka_headers, _kafka_timestamp FROM {name} ORDER BY _kafka_offset"
    )
    hot = gateway.rows(sql)
    assert hot[0][1:3] == (
        b"\x00\xff",
        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "é", "value": b""}],
    )
    assert hot[1][3].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert hot[2][1:3] == (b"text", None)
    stack.tier(name)
    assert repr(gateway.rows(sql)) == repr(hot) == repr(gateway.rows(sql, "spark"))


BAD = [
    b"{", b"[1]", b'{"a":"text"}', b'{"a":1.5}', b'{"a":99999999999999999999}', b"\xff", b"",
    b'{"a":1,"a":2}', b'{"a":' + b"[" * 400 + b"]" * 400 + b"}", b'{"a":1} {"a":2}',
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.usefixtures("tier_engine")
def test_bad_records_become_nulls_with_a_reason(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "a bigint, s varchar", on_error="null")
    stack.produce(name, [{"a": 1}, *BAD, {"a": 2, "s": "x"}])
    sql = f"SELECT a, s, _kafka_offset, _kafka_error FROM {name} ORDER BY _kafka_offset"
    hot = gateway.rows(sql)
    assert len(hot) == len(BAD) + 2
    assert all(row[3] and row[:2] == (None, None) for row in hot[1:-1])
    stack.tier(name)
    assert gateway.rows(sql) == hot == gateway.rows(sql, "spark")


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.usefixtures("tier_engine")
def test_bad_records_are_skipped_and_counted(stack: Stack, gateway: Gateway, name: str) -> None:
    """pitfall: rows skipped by the pipeline but decoded by the query flicker when tiered."""
    stack.create_topic(name, 1)
    stack.create_table(name, "a bigint, s varchar", on_error="skip")
    stack.produce(name, [{"a": 1}, *BAD, {"a": 2}])
    sql = f"SELECT a, _kafka_offset FROM {name} ORDER BY _kafka_offset"
    hot = gateway.statement(sql)
    assert hot.receipt["tables"][0]["skipped_hot"] == len(BAD)
    expected = [(1, 0), (2, len(BAD) + 1)]
    assert gateway.rows(sql) == expected
    stack.tier(name)
    cold = gateway.statement(sql)
    assert cold.receipt["tables"][0]["skipped_cold"] == len(BAD)
    assert cold.receipt["tables"][0]["skipped_hot"] == 0
    assert gateway.rows(sql) == expected == gateway.rows(sql, "spark")
    stack.produce(name, BAD)  # a batch of nothing but bad records still makes progress
    steps = stack.tier(name)
    assert [step.outcome.value for step in steps] == ["progress"]
    after = gateway.statement(sql)
    assert after.receipt["tables"][0]["skipped_cold"] == 2 * len(BAD)
    assert after.receipt["tables"][0]["offsets_hot"] == 0


@pytest.mark.integration
@pytest.mark.spark
def test_a_bad_record_fails_reads_and_tiering_by_name(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    from seamline.errors import BAD_RECORD, SeamlineError

    stack.create_topic(name, 1)
    stack.create_table(name, "a bigint")
    stack.produce(name, [{"a": 1}, b'{"a":"poison"}', {"a": 3}])
    for engine in ("duckdb", "spark"):
        error = gateway.statement(f"SELECT count(*) FROM {name}", engine).error
        assert error is not None
        assert error.code is BAD_RECORD
        assert "partition 0, offset 1" in error.message
        assert "'poison'" in error.message
    with pytest.raises(SeamlineError) as caught:
        stack.tier(name)
    assert caught.value.code is BAD_RECORD
    assert "partition 0, offset 1" in caught.value.message
    assert gateway.rows(f'SELECT count(*) FROM "{name}$cold"') == [(0,)]


@pytest.mark.integration
def test_infinite_times_are_the_same_hot_and_cold(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    columns = "d date, t timestamp, z timestamp with time zone"
    stack.create_table(name, columns, spellings=("infinite_times", "epoch_micros"))
    number, least = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
    greatest: list[Any] = [
        {"d": "infinity", "t": "infinity", "z": "infinity"},
        {"d": 2**31 - 1, "t": number, "z": number},
    ]
    stack.produce(name, [*greatest, {"d": "-infinity", "t": least, "z": "-infinity"}])
    sql = f"SELECT d, t, z, d > DATE '2026-01-01', t > TIMESTAMP '2026-01-01' FROM {name}"
    day, moment = datetime.date.max, "9999-12-31 23:59:59.999999"
    hot = gateway.rows(f"{sql} ORDER BY _kafka_offset")
    assert [str(value).removesuffix("+00:00") for value in hot[0][:3]] == [str(day), moment, moment]
    assert hot[0][3:] == (True, True)
    assert hot[0] == hot[1]
    assert hot[2][3:] == (False, False)
    stack.tier(name)
    assert gateway.rows(f"{sql} ORDER BY _kafka_offset") == hot
    assert gateway.rows(f"SELECT count(*) FROM {name} WHERE d = DATE '9999-12-31'") == [(2,)]
    assert gateway.statement(sql).receipt["rows_hot"] == 0


@pytest.mark.integration
def test_inferred_columns_read_back(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    record = {
        "id": 1, "price": 2.5, "ok": True, "name": "x", "day": "2024-01-01",
        "at": "2024-01-01T00:00:00Z", "tags": ["a"], "nested": {"k": 1, "none": None},
    }  # fmt: skip
    stack.produce(name, [record, {"id": 2, "price": 3, "extra": "later"}])
    stack.create_table(name, None)
    described = dict(row[:2] for row in gateway.rows(f"DESCRIBE {name}") if row[2] != "hidden")
    assert described == {
        "id": "bigint",
        "price": "double",
        "ok": "boolean",
        "name": "varchar",
        "day": "date",
        "at": "timestamp(6) with time zone",
        "tags": "array(varchar)",
        "nested": "row(k bigint, none varchar)",
        "extra": "varchar",
    }
    rows = gateway.rows(f"SELECT id, price, nested.k, extra FROM {name} ORDER BY id")
    assert rows == [(1, 2.5, 1, None), (2, 3.0, None, "later")]


ODD_TIMES = (0, 1, -1, -7, 2**63 - 1, -(2**63), 9_223_372_036_854_776, 253_402_300_799_999)
ODD_NAMES = (b"", b"h", b"\xff", b"\xed\xa0\x80", "\ufffd".encode(), b"a\0b", b"\0\xff", b"\xc3\0")


def odd_records(count: int, seed: int) -> list[OddRecord]:
    """Records of any bytes, times and sizes; some of the values are good ones."""
    chance = random.Random(seed)

    def some_bytes(size_max: int) -> bytes | None:
        if chance.random() < 0.2:
            return None
        return chance.randbytes(chance.choice([0, 1, 7, size_max]))

    def value(number: int) -> bytes | None:
        return chance.choice([b'{"a":%d}' % number, b'{"a":"x"}', some_bytes(200_000)])

    def headers() -> list[tuple[bytes, bytes | None]]:
        names = [
            chance.choice([*ODD_NAMES, chance.randbytes(3)])
            for _ in range(chance.choice([0, 0, 1, 3]))
        ]
        return [(name, some_bytes(70_000)) for name in names]

    return [
        OddRecord(
            value(number),
            some_bytes(70_000),
            headers(),
            chance.choice([*ODD_TIMES, chance.randint(-(2**63), 2**63 - 1), 1_700_000_000_123]),
        )
        for number in range(count)
    ]


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize("on_error", ["null", "skip"])
@pytest.mark.usefixtures("tier_engine")
def test_any_record_is_alike_in_both_tiers(
    stack: Stack, gateway: Gateway, name: str, on_error: str
) -> None:
    stack.create_topic(name, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    stack.create_table(name, "a bigint", on_error=on_error)
    records = odd_records(150, seed=5)
    produce(stack.bootstrap_servers, name, records)
    sql = (
        f"SELECT a, _kafka_offset, _kafka_timestamp, _kafka_key, _kafka_headers, _kafka_error"
        f" FROM {name} ORDER BY _kafka_offset"
    )
    hot = gateway.rows(sql, "duckdb")
    assert len(hot) == len(records) or on_error == "skip"
    assert repr(gateway.rows(sql, "spark")) == repr(hot)
    stack.tier(name)
    statement = gateway.statement(sql, "duckdb")
    assert statement.receipt["rows_hot"] == 0
    assert repr(gateway.rows(sql, "duckdb")) == repr(hot)
    assert repr(gateway.rows(sql, "spark")) == repr(hot)

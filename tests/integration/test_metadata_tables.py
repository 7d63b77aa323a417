"""Goal: metadata tables are the same on both engines, of tables with and without a topic.

Method: a table that is tiered twice and has a tail, and a plain one that changes its rows, columns
and ways to partition; each metadata table is read on both engines, and joined with others.
"""

from __future__ import annotations

import datetime
import decimal

import pytest
from support.gateway import Gateway
from support.stack import Stack

from seamline.gateway.names import METADATA_TABLES

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def check_both_engines(gateway: Gateway, name: str) -> None:
    for variant in METADATA_TABLES:
        sql = f'SELECT * FROM "{name}${variant}"'
        found = [sorted(map(repr, gateway.rows(sql, engine))) for engine in ("duckdb", "spark")]
        assert found[0], variant
        assert found[0] == found[1], variant


@pytest.mark.soak
def test_a_table_with_a_topic(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, text varchar")
    for first in (0, 10):
        stack.produce(name, [{"id": first + i, "text": f"t{i}"} for i in range(10)])
        stack.tier(name)
    stack.produce(name, [{"id": 99, "text": "tail"}])
    check_both_engines(gateway, name)
    counts = (
        f'SELECT sum(record_count), min(data.id.min), max(data.id.max) FROM "{name}$partitions"'
    )
    for engine in ("duckdb", "spark"):
        assert gateway.rows(counts, engine) == [(20, 0, 19)], "what is in the topic alone is not"
        assert gateway.rows(
            f'SELECT count(*) FROM "{name}$history" h JOIN "{name}$snapshots" s'
            " ON h.snapshot_id = s.snapshot_id AND h.made_current_at = s.committed_at"
            f" WHERE h.is_current_ancestor AND (SELECT count(*) FROM {name}) = 21",
            engine,
        ) == gateway.rows(f'SELECT count(*) FROM "{name}$snapshots"')
    topics = f"SELECT value FROM \"{name}$properties\" WHERE key = 'seamline.topic'"
    assert gateway.rows(topics, "spark") == [(name,)]


def test_a_plain_table(stack: Stack, gateway: Gateway, name: str) -> None:
    gateway.rows(
        f"CREATE TABLE {name} WITH (partitioning = ARRAY['day(at)', 'part']) AS SELECT * FROM"
        " (VALUES (1, 'a', TIMESTAMP '2024-01-02 03:04:05', 1.5e0, DECIMAL '1.25', X'0102'),"
        " (2, NULL, NULL, nan(), NULL, NULL)) t(id, part, at, f, n, b)"
    )
    gateway.rows(
        f"INSERT INTO {name} VALUES"
        " (3, 'a', TIMESTAMP '2024-01-02 00:00:00', 2, DECIMAL '7.00', X'')"
    )
    gateway.rows(f"DELETE FROM {name} WHERE id = 2")
    check_both_engines(gateway, name)
    catalog = stack.connections.catalog("lake").pyiceberg
    with catalog.load_table(("default", name)).update_spec() as update:
        update.remove_field("part")
        update.add_field("id", "bucket[2]", "by_id")
    gateway.rows(f"ALTER TABLE {name} ADD COLUMN more varchar")
    gateway.rows(f"INSERT INTO {name} VALUES (4, 'b', NULL, NULL, NULL, NULL, 'x')")
    check_both_engines(gateway, name)
    wanted = (
        "SELECT partition.at_day, partition.part, record_count, data.f.max, data.n.min, data.b.max"
        f' FROM "{name}$partitions" WHERE partition.at_day IS NOT NULL'
    )
    day = datetime.date(2024, 1, 2)
    for engine in ("duckdb", "spark"):
        ((*row, least, most),) = gateway.rows(wanted, engine)
        assert row == [day, "a", 2, 2.0]
        assert (least, most) == (decimal.Decimal("1.25"), b"\x01\x02")

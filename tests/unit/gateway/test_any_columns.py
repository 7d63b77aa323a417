"""Goal: CREATE TABLE without columns makes columns of what sampled `google.protobuf.Any`s hold.

Method: Google's library makes the messages, a log in memory holds them, and a gateway over it reads
them before and after they are tiered, also those that the sample did not have.
"""

from __future__ import annotations

import contextlib
import json
import pathlib

import pytest
from google.protobuf import json_format, message_factory
from support.adopting import NEVER, TOPIC, Shop

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.gateway.tiering.step import tier_once

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

TEXT = """
syntax = "proto3"; package shop; import "google/protobuf/any.proto";
message Event { int32 id = 1; google.protobuf.Any one = 2; google.protobuf.Any other = 3; }
message Order { int32 n = 1; } message Refund { string why = 1; } message Nothing {}
"""


def test_any_columns_are_inferred_read_and_tiered(tmp_path: pathlib.Path) -> None:
    file = protobuf_schema.compiled(Schema("PROTOBUF", TEXT))
    make = message_factory.GetMessageClass(file.message_types_by_name["Event"])
    shop = Shop(tmp_path, partitions=1, follow=True)

    def put(**event: object) -> None:
        made = json_format.ParseDict(event, make(), descriptor_pool=file.pool)
        shop.log.produce(TOPIC, 0, made.SerializeToString())

    put(id=1, one={"@type": "x/shop.Order", "n": 5})
    put(id=2, one={"@type": "x/shop.Nothing"})
    with contextlib.closing(shop.gateway()) as gateway:
        options = f"topic = '{TOPIC}', format = 'protobuf', value_schema = '{TEXT}'"
        gateway.rows(f"CREATE TABLE lake.default.t WITH ({options})")
        described = {row[0]: row[1] for row in gateway.rows("DESCRIBE lake.default.t")}
        assert described["one"] == (
            'row("@type" varchar, "Nothing" boolean, "Order" row(n integer))'
        )
        assert described["other"] == "json"
        refund = {"@type": "x/shop.Refund", "why": "late"}
        put(id=3, one=refund, other=refund)
        table = LocalTierTable(shop.connections.catalog("lake"), ("default", "t"), shop.log)
        nothing = {"@type": None, "Nothing": None, "Order": None}
        for _ in ("hot", "cold"):
            rows = gateway.rows("SELECT id, one, other FROM lake.default.t ORDER BY id")
            assert [row[1] for row in rows] == [
                {**nothing, "@type": "shop.Order", "Order": {"n": 5}},
                {**nothing, "@type": "shop.Nothing", "Nothing": True},
                {**nothing, "@type": "shop.Refund"},
            ]
            assert [row[2] and json.loads(row[2]) for row in rows] == [None, None, refund]
            tier_once(table, shop.log, NEVER, records_max=100)

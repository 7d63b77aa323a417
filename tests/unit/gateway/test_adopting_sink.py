"""Goal: a table of the Iceberg sink is cut where its commits end, by what its control topic says.

Method: a control topic in memory, its events encoded by the reference library for Avro; commits by
PyIceberg with the sink's summaries. The sink itself runs in `tests/integration`.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from support.adopting import NAMESPACE, TOPIC, Shop, data_complete
from support.gateway import Gateway

from seamline.connectors.iceberg.boundaries import avro
from seamline.errors import SeamlineError
from seamline.seam.boundary import boundary_of

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

CONTROL, GROUP = "control.orders", "connect-iceberg"
SQL = f"SELECT id, item, price FROM lake.{NAMESPACE}.{TOPIC} ORDER BY id"
SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string()), ("price", pa.float64())])


class Sink:
    """What the sink leaves behind of its commits."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.shop = Shop(folder)
        self.shop.create(SCHEMA)
        self.shop.log.create_topic(CONTROL, 1)
        self.read = 0
        self.task: str | None = None

    def report(
        self, ends: Mapping[int, int | None], group: str = GROUP, topic: str = TOPIC
    ) -> None:
        """A worker says how far its files reach."""
        event = data_complete(ends, group, topic)
        self.read = self.shop.log.produce(CONTROL, 0, event) + 1

    def commit(self, ends: Mapping[int, int], read: int | None = None) -> None:
        """A commit to the table, once the control topic has been read so far."""
        offsets = json.dumps({"0": self.read if read is None else read})
        summary = {
            f"kafka.connect.offsets.{CONTROL}.{GROUP}": offsets,
            "kafka.connect.commit-id": "00000000-0000-0000-0000-000000000000",
            **({} if self.task is None else {"kafka.connect.task-id": self.task}),
        }
        self.shop.copy(ends, summary, lambda _p, _o, record: record, one_file=True)

    @property
    def boundary(self) -> dict[int, int]:
        """The boundary of the table now."""
        state = self.shop.state
        return dict(boundary_of(state, state.current_snapshot_id).next)


@pytest.fixture
def sink(tmp_path: pathlib.Path) -> Sink:
    return Sink(tmp_path)


@pytest.fixture
def gateway(sink: Sink) -> Iterator[Gateway]:
    running = sink.shop.gateway()
    yield running
    running.close()


def error_of(work: Callable[[], Any]) -> str:
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


def test_the_boundary_is_what_workers_reported_below_where_the_commit_had_read(
    sink: Sink, gateway: Gateway
) -> None:
    shop = sink.shop
    shop.produce(20)
    sink.report({0: 4, 1: None})
    sink.report({1: 7})
    sink.commit({0: 4, 1: 7})
    found = shop.adopt()
    assert (found.boundary.provider, found.boundary.trust) == ("kafka-connect", "exact")
    assert sink.boundary == {0: 4, 1: 7}
    assert gateway.rows(SQL) == shop.rows
    before = sink.read
    sink.report({0: 9})  # arrives too late for the commit
    sink.commit({1: 7}, read=before)
    assert sink.boundary == {0: 4, 1: 7}
    assert gateway.rows(SQL) == shop.rows
    sink.report({1: 10})
    sink.commit({0: 9, 1: 10})  # which the next one then holds, too
    assert sink.boundary == {0: 9, 1: 10}
    assert gateway.rows(SQL) == shop.rows


def test_other_sinks_and_topics_do_not_count(sink: Sink) -> None:
    sink.shop.produce(20)
    sink.report({0: 4, 1: 7})
    sink.report({0: 9}, group="another")
    sink.report({0: 9}, topic="bids")
    sink.commit({0: 4, 1: 7})
    sink.shop.adopt()
    assert sink.boundary == {0: 4, 1: 7}


def test_dots_in_names_are_told_apart_by_the_task_or_by_options(sink: Sink) -> None:
    sink.shop.log.create_topic("control", 1)
    sink.shop.produce(20)
    sink.report({0: 4, 1: 7})
    sink.commit({0: 4, 1: 7})
    assert error_of(sink.shop.adopt) == "BOUNDARY_INVALID"
    found = sink.shop.examine(boundary_options=(f"control-topic={CONTROL}",))
    assert dict(found.boundary.next) == {0: 4, 1: 7}
    sink.task = "iceberg-1"
    sink.report({0: 5})
    sink.commit({0: 5, 1: 7})
    sink.shop.adopt()
    assert sink.boundary == {0: 5, 1: 7}


def test_a_partition_whose_reports_are_gone_is_refused_and_not_guessed(sink: Sink) -> None:
    shop = sink.shop
    shop.produce(20)
    sink.report({0: 4})
    sink.report({1: 7})
    sink.commit({0: 4, 1: 7})
    shop.log.delete_records(CONTROL, 0, 1)
    assert error_of(shop.adopt) == "BOUNDARY_MISSING"
    assert dict(shop.adopt(start="0:4").boundary.next) == {0: 4, 1: 7}


def test_records_that_the_sink_leaves_out_do_not_flicker(sink: Sink, gateway: Gateway) -> None:
    shop = sink.shop
    shop.produce(20)
    sink.report({0: 10, 1: 7})
    sink.commit({0: 10, 1: 7})
    shop.adopt()
    shop.log.produce(TOPIC, 0, None)
    assert error_of(lambda: gateway.rows(SQL)) == "BAD_RECORD"
    shop.adopt(on_error="skip")
    assert gateway.rows(SQL) == shop.rows
    sink.report({0: 11})
    sink.commit({1: 7})
    assert sink.boundary == {0: 11, 1: 7}
    assert gateway.rows(SQL) == shop.rows


def test_a_sink_that_updates_rows_is_refused(sink: Sink, gateway: Gateway) -> None:
    shop = sink.shop
    shop.produce(20)
    sink.report({0: 4, 1: 7})
    sink.commit({0: 4, 1: 7})
    shop.adopt()
    assert gateway.rows(SQL) == shop.rows
    shop.table.overwrite(
        shop.table.scan().to_arrow(),
        snapshot_properties={"kafka.connect.commit-id": "c-2"},
    )
    assert error_of(lambda: gateway.rows(SQL)) == "NOT_SUPPORTED"
    assert error_of(shop.adopt) == "NOT_SUPPORTED"


def test_another_control_topic_is_noticed(sink: Sink, gateway: Gateway) -> None:
    shop = sink.shop
    shop.produce(20)
    sink.report({0: 4, 1: 7})
    sink.commit({0: 4, 1: 7})
    shop.log.create_topic(CONTROL, 1)
    assert error_of(shop.adopt) == "BOUNDARY_INVALID"


def test_what_is_no_event_is_named(sink: Sink) -> None:
    sink.shop.produce(4)
    sink.report({0: 1, 1: 1})
    sink.commit({0: 1, 1: 1})
    sink.shop.log.produce(CONTROL, 0, b"\xc2\x01\x00")
    assert error_of(sink.shop.adopt) == "BOUNDARY_INVALID"


@pytest.mark.parametrize(
    "message",
    [b"", b"{}", b"\xc2\x01", b'\xc2\x01\x00\x06"long"', b'\xc2\x01\x00\x06"long"' + b"\xff" * 12],
)
def test_broken_messages_are_value_errors(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        avro.decode(message)


def test_a_message_of_the_sink_itself_is_understood() -> None:
    """One of version 1.11.0; it uses a type by a name that is not in scope."""
    fields = [
        '{"name":"id","type":{"type":"fixed","name":"uuid_fixed","namespace":"","size":16,'
        '"logicalType":"uuid"},"field-id":10500}',
        '{"name":"type","type":"int","field-id":10501}',
        '{"name":"timestamp","type":{"type":"long","logicalType":"timestamp-micros",'
        '"adjust-to-utc":true},"field-id":10502}',
        '{"name":"group_id","type":"string","field-id":10503}',
        '{"name":"payload","type":{"type":"record","name":"DataComplete","fields":['
        '{"name":"commit_id","type":"uuid_fixed","field-id":10100},{"name":"assignments","type":'
        '["null",{"type":"array","items":{"type":"record","name":"TopicPartitionOffset","fields":['
        '{"name":"topic","type":"string","field-id":10700},{"name":"partition","type":"int",'
        '"field-id":10701},{"name":"offset","type":["null","long"],"default":null,'
        '"field-id":10702},{"name":"timestamp","type":["null",{"type":"long","logicalType":'
        '"timestamp-micros","adjust-to-utc":true}],"default":null,"field-id":10703}]},'
        '"element-id":10102}],"default":null,"field-id":10101}]},"field-id":10504}',
    ]
    schema = (
        '{"type":"record","name":"Event","namespace":"org.apache.iceberg.connect.events",'
        f'"fields":[{",".join(fields)}]}}'
    ).encode()
    value = (
        b"h\x9eL\xa7\xbd5C\x95\xa2\xfc\x1bh\x93\xc7\x19;\x04\xe8\x81\xbf\xda\xf0\xba\xb0\x06"
        b",connect-iceberg-orders\xcc\xd7H6%6Ed\x81\xb5\xa6Z\xd6\x06r5\x02\x02\x0corders\x00\x02"
        b"\xc8\x0f\x02\x80\xe9\xee\x97\xef\xba\xb0\x06\x00"
    )
    event = avro.decode(b"\xc2\x01" + len(schema).to_bytes(2, "big") + schema + value)
    assert (event["type"], event["group_id"]) == (2, "connect-iceberg-orders")
    assert event["payload"]["assignments"] == [
        {"topic": "orders", "partition": 0, "offset": 996, "timestamp": 1795414332136000}
    ]

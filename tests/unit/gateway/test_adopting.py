"""Goal: a table that another writer fills answers exactly, whatever it has copied so far.

Method: PyIceberg appends records as the writer in question does; a gateway over the real table and
a log in memory must give every record once, at every moment, and what cannot be exact by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from support.adopting import FLAT, NAMESPACE, NEVER, POSITIONS, TOPIC, Shop, flat
from support.gateway import Gateway

from seamline.connectors.iceberg.boundaries.writers import BY_MARK, Writer
from seamline.connectors.spark.maintenance import protect_boundary
from seamline.errors import SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import adopting, auditing, handing_over, tables
from seamline.gateway.tiering.step import tier_once
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import boundary_of, encode
from seamline.seam.offsets import Offsets
from seamline.seam.tiering import next_batch

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

TABLE = f"lake.{NAMESPACE}.{TOPIC}"
SQL = f"SELECT id, item, price FROM {TABLE} ORDER BY id"


@pytest.fixture
def gateway(shop: Shop) -> Iterator[Gateway]:
    running = shop.gateway()
    yield running
    running.close()


def boundary(shop: Shop) -> dict[int, int]:
    """The boundary of the table now."""
    state = shop.state
    return dict(boundary_of(state, state.current_snapshot_id).next)


def error_of(work: Callable[[], object]) -> str:
    """The name of the error that something ends with."""
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


# --- Columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_file", [False, True])
def test_columns_give_every_record_once_at_every_moment(
    shop: Shop, gateway: Gateway, one_file: bool
) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 4, 1: 7}, one_file=one_file)
    found = shop.adopt(columns=POSITIONS)
    assert (found.boundary.provider, found.boundary.trust) == ("columns", "derived")
    assert dict(found.boundary.next) == {0: 4, 1: 7}
    assert all(pair.cold == pair.hot for pair in found.sample)
    assert len(found.sample) == 11
    assert gateway.rows(SQL) == shop.rows
    for ends in ({0: 10, 1: 10}, {0: 14, 1: 10}, {0: 15, 1: 15}):
        shop.produce(10)
        shop.copy(ends, one_file=one_file)
        assert gateway.rows(SQL) == shop.rows
        assert boundary(shop) == ends


def test_a_select_of_everything_is_the_same_hot_and_cold(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(10)
    shop.copy({0: 5, 1: 0})
    shop.adopt(columns=POSITIONS)
    whole = gateway.rows(f"SELECT * FROM {TABLE} ORDER BY id")
    assert whole == [
        (p, o, r["id"], r["item"], r["price"])
        for (p, o), r in sorted(shop.records.items(), key=lambda entry: entry[1]["id"])
    ]
    shop.copy({0: 5, 1: 5})
    assert gateway.rows(f"SELECT * FROM {TABLE} ORDER BY id") == whole


def test_rows_taken_away_take_nothing_back_that_was_copied(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 8, 1: 8})
    shop.adopt(columns=POSITIONS)
    shop.table.delete("k_offset >= 6")
    assert boundary(shop) == {0: 8, 1: 8}
    left = sorted((r["id"],) for (_, o), r in shop.records.items() if not 6 <= o < 8)
    assert gateway.rows(f"SELECT id FROM {TABLE} ORDER BY id") == left


def test_only_files_that_can_add_something_are_read(shop: Shop, tmp_path: pathlib.Path) -> None:
    """Of files with several partitions the newest is read; the manifests rule out the others."""
    shop.create(FLAT)
    shop.produce(400)
    for end in range(20, 201, 20):
        shop.copy({0: end, 1: end}, one_file=True)
    shop.adopt(columns=POSITIONS)
    files = sorted(tmp_path.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) == 10
    for path in files[:1]:
        path.unlink()  # the oldest: opening it fails
    fresh = Shop(shop.folder)
    fresh.log, fresh.connections.memory = shop.log, shop.log
    assert boundary(fresh) == {0: 200, 1: 200}


def test_a_token_gives_the_same_rows_once_more_has_been_copied(
    shop: Shop, gateway: Gateway
) -> None:
    shop.create(FLAT)
    shop.produce(12)
    shop.copy({0: 3, 1: 3})
    shop.adopt(columns=POSITIONS)
    first = gateway.statement(SQL)
    assert first.receipt is not None
    (part,) = first.receipt["tables"]
    assert (part["boundary_provider"], part["boundary_trust"]) == ("columns", "derived")
    before, token = shop.rows, first.receipt["token"]
    shop.produce(10)
    shop.copy({0: 9, 1: 10})
    assert gateway.rows(SQL, token=token) == before
    assert gateway.rows(SQL) == shop.rows


def test_explain_says_who_says_where_the_boundary_is(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    shop.adopt(columns=POSITIONS)
    lines = [row[0] for row in gateway.rows(f"EXPLAIN {SQL}")]
    assert "     boundary by columns: derived" in lines


def test_a_topic_that_was_created_again_is_noticed(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    shop.adopt(columns=POSITIONS)
    shop.log.create_topic(TOPIC, 2)
    shop.produce(10)
    assert error_of(lambda: gateway.rows(SQL)) == "TOPIC_RECREATED"


# --- What each writer leaves behind ---------------------------------------------------------------

REST = [("id", pa.int64()), ("item", pa.string()), ("price", pa.float64())]
INSTANT = pa.timestamp("us", "UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOMENT = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC)
NESTED = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])


def _in_struct(
    name: str, further: Mapping[str, Any] | None = None, **beside: Any
) -> Callable[[int, int, dict[str, Any]], dict[str, Any]]:
    """A row with a metadata column `name`, and with further columns."""
    return lambda p, o, record: {
        name: {"partition": p, "offset": o, **(further or {})},
        **beside,
        **record,
    }


def _tableflow(p: int, o: int, record: dict[str, Any]) -> dict[str, Any]:
    own = {"$$topic": TOPIC, "$$partition": p, "$$offset": o, "$$timestamp": MOMENT}
    raw = {"$$headers": None, "$$raw-key": None, "$$raw-value": json.dumps(record).encode()}
    return {**own, **raw, **record}


SHAPES: Mapping[str, tuple[pa.Schema, Callable[..., dict[str, Any]]]] = {
    "Redpanda": (
        pa.schema(
            [
                (
                    "redpanda",
                    pa.struct(
                        [
                            ("partition", pa.int32()),
                            ("timestamp", INSTANT),
                            ("offset", pa.int64()),
                            ("headers", HEADERS),
                            ("key", pa.binary()),
                            ("timestamp_type", pa.int32()),
                        ]
                    ),
                ),
                *REST,
            ]
        ),
        _in_struct(
            "redpanda",
            {
                "timestamp": MOMENT,
                "headers": None,
                "key": None,
                "timestamp_type": -1,
            },  # as the log in memory knows none
        ),
    ),
    "AutoMQ": (
        pa.schema(
            [
                *REST,
                (
                    "_kafka_metadata",
                    pa.struct([*NESTED, pa.field("timestamp", pa.int64())]),
                ),
            ]
        ),
        _in_struct("_kafka_metadata", {"timestamp": 1_700_000_000_000}),
    ),
    "Aiven": (
        pa.schema(
            [
                ("kafka", pa.struct([*NESTED, pa.field("timestamp", INSTANT)])),
                ("key_raw", pa.binary()),
                *REST,
            ]
        ),
        _in_struct("kafka", {"timestamp": MOMENT}, key_raw=None),
    ),
    "Tableflow": (
        pa.schema(
            [
                *REST,
                ("$$topic", pa.string()),
                ("$$partition", pa.int32()),
                ("$$headers", HEADERS),
                ("$$offset", pa.int64()),
                ("$$timestamp", INSTANT),
                ("$$raw-key", pa.binary()),
                ("$$raw-value", pa.binary()),
            ]
        ),
        _tableflow,
    ),
}


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("name", SHAPES)
def test_a_table_in_the_shape_of_a_writer_needs_no_words(
    shop: Shop, gateway: Gateway, name: str
) -> None:
    schema, shape = SHAPES[name]
    shop.create(schema)
    shop.produce(20)
    shop.copy({0: 6, 1: 9}, shape=shape, one_file=True)
    found = shop.adopt()
    assert found.writer.name == name
    assert (found.boundary.provider, dict(found.boundary.next)) == ("columns", {0: 6, 1: 9})
    assert gateway.rows(SQL) == shop.rows
    everything = f"SELECT * FROM {TABLE} ORDER BY id"
    before = gateway.rows(everything)
    shop.copy({0: 10, 1: 10}, shape=shape, one_file=True)
    # PyIceberg writes an empty list for a null one, as these writers do not
    assert str(gateway.rows(everything)).replace("[]", "None") == str(before).replace("[]", "None")


def test_what_no_reader_of_the_log_is_told_does_not_speak_against_a_table(
    shop: Shop, gateway: Gateway
) -> None:
    """Tableflow writes the epoch of the leader, which hot rows cannot have."""
    schema, shape = SHAPES["Tableflow"]
    shop.create(schema.append(pa.field("$$leader-epoch", pa.int32())))
    shop.produce(20)
    shop.copy({0: 6, 1: 9}, shape=lambda *at: {**shape(*at), "$$leader-epoch": 7}, one_file=True)
    shop.adopt()
    assert gateway.rows(SQL) == shop.rows
    epochs = f'SELECT "$$leader-epoch", count(*) FROM {TABLE} GROUP BY 1 ORDER BY 1'
    assert gateway.rows(epochs) == [(7, 15), (None, 5)]


def _fluss_inline(_: Shop, ends: Mapping[int, int]) -> dict[str, str]:
    body = [{"bucket": bucket, "offset": end} for bucket, end in ends.items()]
    return {"commit-user": "__fluss_lake_tiering", "fluss-offsets": json.dumps(body)}


def _fluss_file(shop: Shop, ends: Mapping[int, int]) -> dict[str, str]:
    body = {"version": 1, "table_id": 4, "bucket_offsets": [ends[0], ends[1], -1]}
    path = f"{shop.table.location()}/metadata/offsets-{ends[0]}-{ends[1]}.json"
    with shop.table.io.new_output(path).create() as output:
        output.write(json.dumps(body).encode())
    return {"commit-user": "__fluss_lake_tiering", "fluss-offsets": path}


@pytest.mark.parametrize("written", [_fluss_inline, _fluss_file])
def test_fluss_says_its_offsets_inline_or_in_a_file(
    shop: Shop, gateway: Gateway, written: Callable[[Shop, Mapping[int, int]], dict[str, str]]
) -> None:
    shop.create(pa.schema(REST))
    shop.produce(20)
    ends = {0: 6, 1: 9}
    shop.copy(ends, written(shop, ends), _without_positions, one_file=True)
    found = shop.adopt()
    assert (found.boundary.provider, found.boundary.trust) == ("fluss", "exact")
    assert gateway.rows(SQL) == shop.rows
    shop.table.append(_foreign_row(shop))  # a commit that says nothing inherits the boundary
    assert boundary(shop) == ends
    shop.copy({0: 10, 1: 9}, written(shop, {0: 10, 1: 9}), _without_positions, one_file=True)
    assert gateway.rows(SQL) == sorted([*shop.rows, (-1, "foreign", 0.0)])


@pytest.mark.parametrize("mapped", [True, False])
def test_offsets_are_found_in_files_whose_columns_have_names_only(
    shop: Shop, gateway: Gateway, mapped: bool
) -> None:
    """As files are that a table takes over from Hive: a name mapping says which column is which."""
    shop.create(FLAT)
    shop.produce(20)
    path = f"{shop.table.location()}/data/old.parquet"
    rows = [flat(p, o, shop.records[p, o]) for p, end in ((0, 6), (1, 9)) for o in range(end)]
    with shop.table.io.new_output(path).create() as output:
        pq.write_table(pa.Table.from_pylist(rows, FLAT), output)
    shop.table.add_files([path])
    assert shop.table.name_mapping() is not None
    if not mapped:
        with shop.table.transaction() as change:
            change.remove_properties("schema.name-mapping.default")
        with pytest.raises(SeamlineError, match="its fields have no ids") as caught:
            shop.adopt(columns=POSITIONS)
        assert caught.value.code.name == "NOT_SUPPORTED"
        return
    found = shop.adopt(columns=POSITIONS)
    assert (found.boundary.provider, found.boundary.next) == ("columns", Offsets({0: 6, 1: 9}))
    assert gateway.rows(SQL) == shop.rows


def _without_positions(_: int, __: int, record: dict[str, Any]) -> dict[str, Any]:
    return record


def _foreign_row(shop: Shop) -> pa.Table:
    row = {"id": -1, "item": "foreign", "price": 0.0}
    return pa.Table.from_pylist([row], schema=shop.table.scan().to_arrow().schema)


def test_fluss_offsets_outside_of_the_table_are_not_read(shop: Shop, gateway: Gateway) -> None:
    outside = shop.folder / "elsewhere.json"
    outside.write_text('{"version": 1, "bucket_offsets": [1, 1]}')
    shop.create(pa.schema(REST))
    shop.produce(4)
    shop.copy({0: 1, 1: 1}, {"fluss-offsets": f"file://{outside}"}, _without_positions)
    assert error_of(shop.adopt) == "LOCATION_NOT_ALLOWED"


def test_a_table_that_fluss_partitions_has_no_one_log(shop: Shop) -> None:
    body = [{"partition_id": 3, "partition_name": "d=1", "bucket": 0, "offset": 4}]
    shop.create(pa.schema(REST))
    shop.produce(4)
    shop.copy({0: 1, 1: 1}, {"fluss-offsets": json.dumps(body)}, _without_positions)
    assert error_of(shop.adopt) == "NOT_SUPPORTED"


def test_stream_loader_says_its_offsets_in_properties(shop: Shop, gateway: Gateway) -> None:
    shop.create(pa.schema(REST))
    shop.produce(20)

    def copy(ends: Mapping[int, int]) -> None:
        shop.copy(ends, shape=_without_positions, one_file=True)
        with shop.table.transaction() as transaction:
            transaction.set_properties(
                {
                    f"__consumer_offset:loader:{TOPIC}:{p}": f"{end - 1}:17"
                    for p, end in ends.items()
                }
            )

    copy({0: 6, 1: 9})
    found = shop.adopt()
    assert (found.boundary.provider, found.boundary.trust) == ("stream-loader", "exact")
    assert gateway.rows(SQL) == shop.rows
    copy({0: 10, 1: 10})
    assert boundary(shop) == {0: 10, 1: 10}
    assert gateway.rows(SQL) == shop.rows
    earlier = shop.state.snapshots[shop.state.current_snapshot_id].parent_id
    assert error_of(lambda: boundary_of(shop.state, earlier)) == "BOUNDARY_MISSING"


def test_spark_streaming_says_its_offsets_in_its_checkpoint(shop: Shop, gateway: Gateway) -> None:
    shop.create(pa.schema(REST))
    shop.produce(20)
    checkpoint = f"{shop.table.location()}/checkpoint"

    def write(path: str, text: str) -> None:
        with shop.table.io.new_output(f"{checkpoint}/{path}").create(overwrite=True) as output:
            output.write(text.encode())

    write("metadata", '{"id":"q-1"}')

    def copy(epoch: int, ends: Mapping[int, int]) -> None:
        offsets = {TOPIC: {str(p): end for p, end in ends.items()}}
        write(f"offsets/{epoch}", f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offsets)}')
        summary = {
            "spark.sql.streaming.queryId": "q-1",
            "spark.sql.streaming.epochId": str(epoch),
        }
        shop.copy(ends, summary, _without_positions, one_file=True)

    copy(0, {0: 6, 1: 9})
    assert error_of(shop.adopt) == "INVALID_TABLE_DEFINITION"
    found = shop.adopt(boundary_options=(f"checkpoint={checkpoint}",))
    assert (found.boundary.provider, found.boundary.trust) == ("spark-streaming", "exact")
    assert gateway.rows(SQL) == shop.rows
    copy(1, {0: 10, 1: 10})
    assert boundary(shop) == {0: 10, 1: 10}
    assert gateway.rows(SQL) == shop.rows
    write("metadata", '{"id":"another"}')
    copy(2, {0: 10, 1: 10})
    assert error_of(lambda: gateway.rows(SQL)) == "BOUNDARY_INVALID"


def test_a_later_snapshot_stands_in_where_the_log_no_longer_reaches_back(
    shop: Shop, gateway: Gateway
) -> None:
    shape = _in_struct("redpanda")
    shop.create(pa.schema([("redpanda", NESTED), *REST]))
    shop.produce(12)
    shop.copy({0: 3, 1: 3}, shape=shape, one_file=True)
    shop.adopt()
    first = gateway.statement(SQL)
    assert first.receipt is not None
    before, token = shop.rows, first.receipt["token"]
    shop.produce(10)
    shop.copy({0: 9, 1: 10}, shape=shape, one_file=True)
    for partition in (0, 1):
        shop.log.delete_records(TOPIC, partition, 8)
    assert gateway.rows(SQL, token=token) == before
    changes = f"SELECT id FROM TABLE(changes('{TABLE}', '{token}')) ORDER BY id"
    assert gateway.rows(changes) == [(row[0],) for row in shop.rows[len(before) :]]


# --- By other ways of reading --------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
def test_a_table_is_followed_and_served_whether_it_stores_offsets_or_not(
    tmp_path: pathlib.Path, stored: bool
) -> None:
    shop = Shop(tmp_path, follow=True)
    shape = _in_struct("redpanda") if stored else _without_positions
    shop.create(SHAPES["Redpanda"][0] if stored else pa.schema(REST))
    shop.produce(30)
    running = shop.gateway()
    try:
        for ends in ({0: 3, 1: 5}, {0: 11, 1: 12}):
            summary = {} if stored else _fluss_inline(shop, ends)
            shop.copy(ends, summary, shape, one_file=True)
            if ends[0] == 3:
                shop.adopt()
            for _ in range(2):
                shop.produce(3)
                assert running.rows(SQL) == shop.rows
            live = RestCatalog("live", uri=f"{running.url}/iceberg")
            rows = live.load_table((NAMESPACE, TOPIC)).scan().to_arrow().to_pylist()
            assert sorted((r["id"], r["item"], r["price"]) for r in rows) == shop.rows
    finally:
        running.close()


@pytest.mark.parametrize("more", [4, 9])
@pytest.mark.parametrize("follow", [False, True])
def test_records_that_an_election_replaced_are_served_to_nobody(
    tmp_path: pathlib.Path, more: int, follow: bool
) -> None:
    """A new leader continues at an earlier offset, up to where the log ended, or further."""
    shop = Shop(tmp_path, follow=follow)
    with contextlib.closing(shop.gateway()) as running:
        shop.create(FLAT)
        shop.produce(20)
        shop.copy({0: 4, 1: 7})
        shop.adopt(columns=POSITIONS)
        live = RestCatalog("live", uri=f"{running.url}/iceberg")

        def read() -> list[tuple[Any, ...]]:
            rows = live.load_table((NAMESPACE, TOPIC)).scan().to_arrow().to_pylist()
            return sorted((r["id"], r["item"], r["price"]) for r in rows)

        assert read() == running.rows(SQL) == shop.rows
        shop.log.truncate(TOPIC, 0, 6)
        for offset in range(6, 10):
            del shop.records[0, offset]
        shop.produce(more, partitions=(0,))
        assert read() == shop.rows
        assert running.rows(SQL) == shop.rows


# --- What cannot be exact ------------------------------------------------------------------------


def test_a_table_without_offsets_is_read_but_its_past_is_not(shop: Shop, gateway: Gateway) -> None:
    shop.create(pa.schema(REST))
    shop.produce(20)
    shop.copy({0: 6, 1: 9}, _fluss_inline(shop, {0: 6, 1: 9}), _without_positions, one_file=True)
    found = shop.adopt()
    assert "no column holds the offsets" in found.notes[0]
    first = gateway.statement(SQL)
    assert first.receipt is not None
    token = first.receipt["token"]
    assert gateway.rows(SQL, token=token) == shop.rows
    ends = {0: 10, 1: 10}
    shop.copy(ends, _fluss_inline(shop, ends), _without_positions, one_file=True)
    assert gateway.rows(SQL, token=token) == shop.rows  # its own snapshot is kept
    changes = f"SELECT * FROM TABLE(changes('{TABLE}', '{token}'))"
    assert error_of(lambda: gateway.rows(changes)) == "OFFSETS_NOT_STORED"
    assert error_of(lambda: _audit(shop)) == "OFFSETS_NOT_STORED"


def test_a_table_without_offsets_and_without_a_boundary_is_refused(shop: Shop) -> None:
    shop.create(pa.schema(REST))
    shop.produce(4)
    shop.copy({0: 1, 1: 1}, shape=_without_positions)
    assert error_of(shop.adopt) == "OFFSETS_NOT_STORED"


def test_a_writer_that_leaves_out_records_is_refused(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(20)
    kept = dict(shop.records)
    del shop.records[1, 4]
    shop.copy({0: 8, 1: 8})
    shop.records = kept
    assert error_of(lambda: shop.adopt(columns=POSITIONS)) == "ADOPTION_REFUSED"
    found = shop.adopt(columns=POSITIONS, force=True)
    assert "1 of 16 records of the log are not in the table" in found.problems[0]
    audit = _audit(shop)
    assert not audit.is_clean
    assert [(f.kind.value, f.range.partition, f.range.start, f.records) for f in audit.found] == [
        ("hole", 1, 4, 1)
    ]


def test_a_record_that_is_there_twice_is_refused(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 8, 1: 8})
    double = {"k_partition": 0, "k_offset": 7, **shop.records[0, 7]}
    shop.table.append(pa.Table.from_pylist([double], schema=FLAT))
    with pytest.raises(SeamlineError, match=r"1 of the last records are .* partition 0, offset 7"):
        shop.adopt(columns=POSITIONS)


def test_all_of_a_table_is_looked_at_whose_writer_may_double(shop: Shop) -> None:
    schema, shape = SHAPES["Aiven"]
    shop.create(schema)
    shop.produce(100)
    shop.copy({0: 50, 1: 40}, shape=shape, one_file=True)
    again = [shape(0, 1, shop.records[0, 1]), shape(0, 2, shop.records[0, 2])]
    shop.table.append(pa.Table.from_pylist(again, schema=schema))
    with pytest.raises(SeamlineError, match="2 rows of partition 0 repeat records that"):
        shop.adopt()
    found = shop.adopt(force=True)
    assert not found.notes


def test_a_table_of_flink_is_adopted_by_its_name(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 6, 1: 7}, {"flink.job-id": "f-1"})
    found = shop.adopt(boundary="Flink", columns=POSITIONS)
    assert (found.writer.name, found.boundary.provider) == ("Flink", "columns")
    (note,) = found.notes
    assert "exactly-once and aligned" in note
    assert gateway.rows(SQL) == shop.rows


def test_flink_is_recognised_by_the_commit_with_which_its_dynamic_sink_makes_a_table(
    shop: Shop,
) -> None:
    shop.create(FLAT)
    shop.produce(4)
    shop.copy({0: 0, 1: 0}, {"engine-name": "flink"})
    assert shop.examine(columns=POSITIONS).writer.name == "Flink"


def test_columns_that_hold_something_else_are_refused(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy(
        {0: 8, 1: 8}, shape=lambda p, o, r: {**r, "k_partition": p, "k_offset": o, "item": "?"}
    )
    with pytest.raises(SeamlineError, match="column item is '\\?' in the table") as caught:
        shop.adopt(columns=POSITIONS)
    assert caught.value.code.name == "ADOPTION_REFUSED"
    assert error_of(lambda: shop.adopt(columns=("partition=item", "offset=k_offset"))) in (
        "INVALID_TABLE_DEFINITION"
    )


def test_what_only_hints_is_refused_unless_the_owner_says_so(shop: Shop, gateway: Gateway) -> None:
    shop.create(pa.schema(REST))
    for _ in range(10):
        shop.log.clock.advance(1000)
        shop.produce(2)
    moment = shop.log.clock.now_ms - 3500
    shop.copy({0: 6, 1: 6}, {"automq.watermark": str(moment)}, _without_positions, one_file=True)
    assert error_of(lambda: shop.adopt(boundary="watermark")) == "BOUNDARY_NOT_TRUSTED"
    found = shop.adopt(boundary="watermark", boundary_options=("trust=hint",))
    assert (dict(found.boundary.next), found.boundary.trust) == ({0: 6, 1: 6}, "hint")
    statement = gateway.statement(SQL)
    assert statement.receipt is not None
    assert statement.receipt["tables"][0]["boundary_trust"] == "hint"
    assert gateway.rows(SQL) == shop.rows


# --- Two writers ---------------------------------------------------------------------------------


def test_a_table_that_another_fills_is_never_tiered_here(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    shop.adopt(columns=POSITIONS)

    class Loaded:
        def load(self) -> Any:
            return shop.state

    table: Any = Loaded()
    code = error_of(lambda: tier_once(table, shop.log, NEVER, records_max=10))
    assert code == "TABLE_TIERED_ELSEWHERE"


def test_what_another_fills_is_neither_dropped_nor_altered(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    shop.adopt(columns=POSITIONS)
    assert error_of(lambda: gateway.rows(f"DROP TABLE {TABLE}")) == "NOT_A_UNIFIED_TABLE"
    add = f"ALTER TABLE {TABLE} ADD COLUMN x bigint"
    assert error_of(lambda: gateway.rows(add)) == "NOT_SUPPORTED"


def _own(shop: Shop) -> None:
    """A table that Seamline fills, with one batch in it."""
    session = resolution.session(shop.config)
    definition = tables.TableDefinition(
        name=resolution.resolve((NAMESPACE, TOPIC), session, shop.connections),
        topic=TOPIC,
        cluster="default",
        columns=tables.parse_fields("id bigint, item varchar, price double"),
    )
    tables.create(shop.connections, definition, NEVER)


@pytest.mark.parametrize("how", ["by its mark", "by its offsets"])
def test_a_second_writer_is_an_error_and_doubles_nothing(
    shop: Shop, gateway: Gateway, how: str
) -> None:
    shop.produce(10)
    _own(shop)
    assert gateway.rows(SQL) == shop.rows
    schema = shop.table.scan().to_arrow().schema
    own = {"id": 77, "item": "own", "price": 0.0}
    shop.table.append(pa.Table.from_pylist([own], schema=schema))  # a row of their own is welcome
    assert gateway.rows(SQL) == sorted([*shop.rows, (77, "own", 0.0)])
    summary, places = {}, {}
    if how == "by its mark":
        summary = {"kafka.connect.commit-id": "c-1"}
    else:
        places = {"_kafka_partition": 0, "_kafka_offset": 0}
    copied = {**shop.records[0, 0], **places}
    rows = pa.Table.from_pylist([copied], schema=schema)
    shop.table.append(rows, snapshot_properties=summary)
    assert error_of(lambda: gateway.rows(SQL)) == "SECOND_WRITER"
    assert len(gateway.rows(f'SELECT id FROM lake.{NAMESPACE}."{TOPIC}$cold"')) == 2
    catalog = shop.connections.catalog("lake")
    keep = lambda: protect_boundary(catalog, (NAMESPACE, TOPIC))  # noqa: E731
    assert error_of(keep) == "SECOND_WRITER", "maintenance would expire what tells of it"


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("how", ["appends", pytest.param("overwrites", marks=pytest.mark.prove)])
@pytest.mark.parametrize("writer", BY_MARK, ids=lambda writer: writer.name)
def test_a_sink_or_a_stream_is_a_second_writer(
    shop: Shop, gateway: Gateway, writer: Writer, how: str
) -> None:
    """Whatever it writes: nobody could know that its rows are of other records."""
    shop.produce(10)
    _own(shop)
    schema = shop.table.scan().to_arrow().schema
    rows = pa.Table.from_pylist([shop.records[0, 0]], schema=schema)
    shop.table.append(rows)
    if how == "appends":
        shop.table.append(rows, snapshot_properties={writer.mark: "{}"})
    else:
        shop.table.overwrite(rows, "id = 0", snapshot_properties={writer.mark: "{}"})
    assert error_of(lambda: gateway.rows(SQL)) == "SECOND_WRITER"


def test_stream_loader_is_a_second_writer(shop: Shop, gateway: Gateway) -> None:
    shop.produce(10)
    _own(shop)

    def say(topic: str, end: int) -> None:
        with shop.table.transaction() as transaction:
            transaction.set_properties({f"__consumer_offset:loader:{topic}:1": f"{end - 1}:17"})
            transaction.append(pa.Table.from_pylist([{"id": -end}], schema=pa.schema([REST[0]])))

    say("another", 4)  # rows of another topic are rows of their own
    assert len(gateway.rows(SQL)) == 11
    say(TOPIC, 2)
    assert error_of(lambda: gateway.rows(SQL)) == "SECOND_WRITER"


def test_stream_loader_is_none_once_it_has_been_relieved(shop: Shop, gateway: Gateway) -> None:
    shop.create(pa.schema([*REST, ("k_partition", pa.int32()), ("k_offset", pa.int64())]))
    shop.produce(20)

    def copy(ends: Mapping[int, int]) -> None:
        shop.copy(ends, shape=_with_nothing, one_file=True)
        with shop.table.transaction() as transaction:
            said = {f"__consumer_offset:l:{TOPIC}:{p}": f"{end - 1}:17" for p, end in ends.items()}
            transaction.set_properties(said)

    copy({0: 6, 1: 9})
    shop.adopt(columns=POSITIONS)
    handing_over.take_over(shop.connections, shop.name, NEVER, lambda _: None)
    assert gateway.rows(SQL) == shop.rows
    copy({0: 7, 1: 9})
    assert error_of(lambda: gateway.rows(SQL)) == "SECOND_WRITER"


def test_a_table_is_taken_over_where_its_writer_ended(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 6, 1: 7})
    shop.adopt(columns=POSITIONS)
    taken = handing_over.take_over(shop.connections, shop.name, NEVER, lambda _: None)
    assert dict(taken.next) == {0: 6, 1: 7}
    assert shop.state.provider is None
    assert not [name for name in shop.table.properties if "boundary" in name or "-id" in name]
    assert boundary(shop) == {0: 6, 1: 7}
    assert gateway.rows(SQL) == shop.rows
    batch = next_batch(
        shop.state,
        TopicBinding.from_properties(shop.state.properties) or pytest.fail("no topic"),
        boundary_of(shop.state, shop.state.current_snapshot_id),
        shop.log.bounds([TOPIC], "read_committed", NEVER)[TOPIC],
        records_max=100,
    )
    assert batch is not None
    assert [(r.partition, r.start, r.end_exclusive) for r in batch.ranges] == [
        (0, 6, 10),
        (1, 7, 10),
    ]
    shop.copy({0: 8, 1: 7}, {"kafka.connect.commit-id": "still running"}, _with_nothing)
    assert error_of(lambda: gateway.rows(SQL)) == "SECOND_WRITER"


def test_a_loss_is_accepted_once_the_table_has_been_taken_over(
    shop: Shop, gateway: Gateway
) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 6, 1: 7})
    shop.adopt(columns=POSITIONS)
    shop.log.delete_records(TOPIC, 0, 8)
    resume = f"ALTER TABLE {TABLE} EXECUTE resume(accept_loss => true)"
    assert error_of(lambda: gateway.rows(SQL)) == "LOG_TRIMMED"
    assert error_of(lambda: gateway.rows(resume)) == "NOT_SUPPORTED"
    handing_over.take_over(shop.connections, shop.name, NEVER, lambda _: None)
    assert error_of(lambda: gateway.rows(SQL)) == "LOG_TRIMMED"
    gateway.rows(resume)
    lost = {shop.records[0, offset]["id"] for offset in (6, 7)}
    assert gateway.rows(SQL) == [row for row in shop.rows if row[0] not in lost]


def _with_nothing(p: int, o: int, record: dict[str, Any]) -> dict[str, Any]:
    return {"k_partition": p, "k_offset": o, **record}


def test_what_does_not_hold_each_record_once_is_not_taken_over(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 6, 1: 7})
    shop.adopt(columns=POSITIONS)
    (double,) = [r for place, r in shop.records.items() if place == (0, 2)]
    row = {"k_partition": 0, "k_offset": 2, **double}
    shop.table.append(pa.Table.from_pylist([row], schema=FLAT))
    take = lambda: handing_over.take_over(shop.connections, shop.name, NEVER, lambda _: None)  # noqa: E731
    assert error_of(take) == "ADOPTION_REFUSED"
    assert shop.state.provider is not None


def _stored(p: int, o: int, record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "_kafka_partition": p, "_kafka_offset": o}


def test_a_table_is_handed_over_to_another_writer(shop: Shop, gateway: Gateway) -> None:
    shop.produce(20)
    _own(shop)
    given = handing_over.hand_over(shop.connections, shop.name, NEVER, options={})
    assert dict(given.next) == {0: 0, 1: 0}
    assert gateway.rows(SQL) == shop.rows

    shop.copy({0: 4, 1: 9}, {"flink.job-id": "f-1"}, _stored)
    assert boundary(shop) == {0: 4, 1: 9}
    assert gateway.rows(SQL) == shop.rows
    assert error_of(
        lambda: handing_over.hand_over(shop.connections, shop.name, NEVER, options={})
    ) == ("NOT_A_UNIFIED_TABLE")


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize(("provider", "marks"), [("fluss", True), ("columns", False)])
def test_a_table_goes_from_hand_to_hand(
    shop: Shop, gateway: Gateway, provider: str, marks: bool
) -> None:
    shop.produce(20)
    _own(shop)

    def copied(ends: dict[int, int]) -> None:
        summary = {
            "fluss-offsets": json.dumps([{"bucket": p, "offset": o} for p, o in ends.items()])
        }
        shop.copy(ends, summary if marks else {}, _stored)

    for done in ({0: 2, 1: 3}, {0: 5, 1: 4}):
        handing_over.hand_over(shop.connections, shop.name, NEVER, provider=provider, options={})
        copied(done)
        assert gateway.rows(SQL) == shop.rows
        taken = handing_over.take_over(shop.connections, shop.name, NEVER, lambda _: None)
        assert dict(taken.next) == done
        assert gateway.rows(SQL) == shop.rows, "what its writer has copied is no second writer's"
    copied({0: 6, 1: 4})  # though it was to have stopped
    assert error_of(lambda: gateway.rows(SQL)) == "SECOND_WRITER"


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("provider", ["fluss", "columns"])
def test_each_writer_speaks_of_his_own_snapshots_only(
    shop: Shop, gateway: Gateway, provider: str
) -> None:
    """What was read before a table was handed over, or while another filled it, is read again."""
    shop.produce(20)
    _own(shop)

    def tiered(ends: dict[int, int]) -> None:
        own = boundary_of(shop.state, shop.state.current_snapshot_id)
        moved = dataclasses.replace(own, next=Offsets(ends))
        shop.copy(ends, {"seamline.boundary": encode(moved)}, _stored)

    def token() -> str:
        statement = gateway.statement(SQL)
        assert statement.receipt is not None
        return str(statement.receipt["token"])

    tiered({0: 1, 1: 2})
    seen = [(token(), shop.rows)]
    tiered({0: 3, 1: 3})
    handing_over.hand_over(shop.connections, shop.name, NEVER, provider=provider, options={})
    shop.produce(4)
    for ends in ({0: 5, 1: 4}, {0: 7, 1: 4}):
        copied = json.dumps([{"bucket": p, "offset": o} for p, o in ends.items()])
        shop.copy(ends, {"fluss-offsets": copied} if provider == "fluss" else {}, _stored)
        seen.append((token(), shop.rows))
        assert [gateway.rows(SQL, token=text) for text, _ in seen] == [rows for _, rows in seen]
        shop.produce(2)
    handing_over.take_over(shop.connections, shop.name, NEVER, lambda _: None)
    assert [gateway.rows(SQL, token=text) for text, _ in seen] == [rows for _, rows in seen]
    assert gateway.rows(SQL) == shop.rows


# --- Letting go ----------------------------------------------------------------------------------


def test_unadopting_leaves_no_trace(shop: Shop, gateway: Gateway) -> None:
    shop.create(FLAT, {"owner": "somebody"})
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    before = shop.table.properties
    shop.adopt(columns=POSITIONS)
    assert gateway.rows(SQL) == shop.rows
    adopting.unadopt(shop.connections, shop.name)
    assert shop.table.properties == before
    assert not [ref for ref in shop.table.metadata.refs if ref != "main"]
    assert len(gateway.rows(SQL)) == 2
    unadopt = lambda: adopting.unadopt(shop.connections, shop.name)  # noqa: E731
    assert error_of(unadopt) == "NOT_A_UNIFIED_TABLE"


def test_the_configuration_binds_what_may_not_be_written_to(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 4, 1: 7})
    before = shop.table.metadata_location
    more = shop.examine(columns=POSITIONS).configuration
    bound = Shop(shop.folder, more)
    bound.log, bound.records = shop.log, shop.records
    bound.connections.memory = shop.log
    running = bound.gateway()
    try:
        assert running.rows(SQL) == shop.rows
    finally:
        running.close()
    assert shop.table.metadata_location == before
    unadopt = lambda: adopting.unadopt(bound.connections, bound.name)  # noqa: E731
    assert error_of(unadopt) == "STATEMENT_NOT_ALLOWED"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE TABLE {TABLE} WITH (adopt = true, topic = '{TOPIC}',"
        " columns = ARRAY['partition=k_partition', 'offset=k_offset'])",
        f"ALTER TABLE {TABLE} SET PROPERTIES topic = '{TOPIC}', boundary = 'columns',"
        " columns = 'partition=k_partition,offset=k_offset'",
    ],
)
def test_a_statement_adopts_a_table(shop: Shop, gateway: Gateway, statement: str) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 4, 1: 7})
    gateway.rows(statement)
    assert gateway.rows(SQL) == shop.rows
    assert boundary(shop) == {0: 4, 1: 7}
    ((text,),) = gateway.rows(f"SHOW CREATE TABLE {TABLE}")
    before = shop.table.properties
    adopting.unadopt(shop.connections, shop.name)
    gateway.rows(text)
    assert shop.table.properties == before


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ("adopt = true", "INVALID_TABLE_DEFINITION"),
        (f"adopt = true, topic = '{TOPIC}', colour = 'red'", "INVALID_TABLE_DEFINITION"),
        (f"adopt = true, topic = '{TOPIC}', boundary = 'sundial'", "INVALID_ARGUMENT"),
        (f"adopt = true, topic = '{TOPIC}', columns = 'colour=item'", "INVALID_ARGUMENT"),
        (f"adopt = true, topic = '{TOPIC}'", "OFFSETS_NOT_STORED"),
        ("adopt = true, topic = 'nowhere'", "TOPIC_NOT_FOUND"),
    ],
)
def test_what_a_statement_asks_for_in_vain(
    shop: Shop, gateway: Gateway, properties: str, code: str
) -> None:
    shop.create(FLAT)
    shop.produce(20)
    shop.copy({0: 4, 1: 7})
    assert error_of(lambda: gateway.rows(f"CREATE TABLE {TABLE} WITH ({properties})")) == code
    assert not [name for name in shop.table.properties if name.startswith("seamline")]


def abort(shop: Shop, number: int) -> tuple[int, dict[str, Any]]:
    """A record of partition 0 in an aborted transaction; its offset."""
    record = {"id": number, "item": "aborted", "price": 0.5}
    transaction = shop.log.begin()
    offset = shop.log.produce(TOPIC, 0, json.dumps(record).encode(), transaction=transaction)
    shop.log.end_transaction(TOPIC, transaction, commit=False)
    return offset, record


def test_a_writer_that_copies_aborted_records_is_read_as_it_reads(
    shop: Shop, gateway: Gateway
) -> None:
    shop.create(FLAT)
    shop.produce(10)
    copied, record = abort(shop, 100)
    shop.records[0, copied] = record  # for the writer it is a record like any other
    shop.produce(10)
    shop.copy({0: copied + 3, 1: 6}, {"flink.job-id": "f-1"})
    with pytest.raises(SeamlineError, match="1 of the last rows are of aborted") as caught:
        shop.adopt(columns=POSITIONS)
    assert caught.value.code.name == "ADOPTION_REFUSED"
    assert f"partition 0, offset {copied}: its writer reads uncommitted" in caught.value.message
    shop.adopt(columns=POSITIONS, isolation="read_uncommitted")
    hot, record = abort(shop, 101)
    shop.records[0, hot] = record
    assert gateway.rows(SQL) == shop.rows
    assert _audit(shop).is_clean


def test_a_table_of_upserts_is_refused_when_its_commits_have_expired(shop: Shop) -> None:
    shop.create(FLAT, {"write.upsert.enabled": "true"})
    shop.produce(10)
    shop.copy({0: 5, 1: 5})
    with pytest.raises(SeamlineError, match=r"write\.upsert\.enabled .* newest record") as caught:
        shop.adopt(columns=POSITIONS)
    assert caught.value.code.name == "NOT_SUPPORTED"


def test_records_of_flink_without_a_value_are_bad_as_it_leaves_them_out(
    shop: Shop, gateway: Gateway
) -> None:
    shop.create(FLAT)
    shop.produce(10)
    shop.log.produce(TOPIC, 0, None, key=b"k")
    shop.produce(10)
    shop.copy({0: 8, 1: 8}, {"flink.job-id": "f-1"})
    shop.adopt(columns=POSITIONS, on_error="skip")
    shop.log.produce(TOPIC, 1, None, key=b"k")
    assert gateway.rows(SQL) == shop.rows
    assert _audit(shop).is_clean
    adopting.unadopt(shop.connections, shop.name)
    shop.adopt(columns=POSITIONS)
    assert error_of(lambda: gateway.rows(SQL)) == "BAD_RECORD"


# --- Audit ---------------------------------------------------------------------------------------


def _audit(shop: Shop) -> auditing.Audit:
    return auditing.audit(shop.connections, shop.name, NEVER, lambda _: None)


def test_an_audit_finds_doubles_and_holes_and_what_the_log_explains(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(10)
    transaction = shop.log.begin()
    aborted = shop.log.produce(TOPIC, 0, b'{"id": 99}', transaction=transaction)
    shop.log.end_transaction(TOPIC, transaction, commit=False)
    shop.produce(10)
    end = max(o for p, o in shop.records if p == 0) + 1
    shop.copy({0: end, 1: 10})
    shop.adopt(columns=POSITIONS)
    assert aborted == 5
    assert _audit(shop).is_clean
    again = {place: record for place, record in shop.records.items() if place in {(1, 2), (1, 3)}}
    rows = [{"k_partition": p, "k_offset": o, **r} for (p, o), r in again.items()]
    shop.table.append(pa.Table.from_pylist(rows, schema=FLAT))
    shop.table.delete("k_partition = 0 and k_offset = 1")
    shop.log.delete_records(TOPIC, 0, 1)
    found = [(f.kind.value, f.range.start, f.range.end_exclusive) for f in _audit(shop).found]
    assert found == [("hole", 1, 2), ("double", 2, 4)]
    shop.log.delete_records(TOPIC, 0, 2)
    found = [(f.kind.value, f.range.start, f.range.end_exclusive) for f in _audit(shop).found]
    assert found == [("unknown", 1, 2), ("double", 2, 4)]
    assert _audit(shop).to_json()["clean"] is False


def test_an_audit_finds_rows_of_aborted_records(shop: Shop) -> None:
    shop.create(FLAT)
    shop.produce(10)
    copied, record = abort(shop, 100)
    shop.records[0, copied] = record
    left_out, _ = abort(shop, 101)
    shop.produce(100)
    end = max(o for p, o in shop.records if p == 0) + 1
    shop.copy({0: end, 1: 55})
    shop.adopt(columns=POSITIONS)  # the sample shows nothing of it
    found = [(f.kind.value, f.range.start, f.range.end_exclusive) for f in _audit(shop).found]
    assert copied < left_out
    assert found == [("aborted", copied, copied + 1)]
    assert not _audit(shop).is_clean
    shop.log.delete_records(TOPIC, 0, copied + 1)
    assert _audit(shop).is_clean  # as far as the log shows

"""Goal: a Delta table with its topic is one table, exactly, and what cannot be exact is refused.

Method: real Delta tables, written by `deltalake` as kafka-delta-ingest does, and a log in memory.
"""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
import re
import shutil
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from support.delta import (
    APPLICATION,
    NEVER,
    PLACED,
    SCHEMA,
    TOPIC,
    DeltaShop,
    Streamed,
    placed,
)
from support.gateway import Gateway

from seamline.errors import SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import auditing

TABLE = f"bronze.shop.{TOPIC}"
COLD, HOT = (f'bronze.shop."{TOPIC}${variant}"' for variant in ("cold", "hot"))
UTC = datetime.UTC


@pytest.fixture
def shop(tmp_path: pathlib.Path) -> DeltaShop:
    return DeltaShop(tmp_path)


@pytest.fixture
def gateway(shop: DeltaShop) -> Iterator[Gateway]:
    running = shop.gateway()
    yield running
    running.close()


def rows(gateway: Gateway, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(gateway.rows(f"SELECT id, item, price FROM {TABLE}", **options))


def refused(gateway: Gateway, sql: str, code: str, **options: Any) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, **options)
    assert caught.value.code.name == code, caught.value
    return caught.value


def token_of(gateway: Gateway) -> str:
    receipt = gateway.statement(f"SELECT id FROM {TABLE}").receipt
    assert receipt is not None
    return str(receipt["token"])


# --- One table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("partition_by", [(), ("item",)])
def test_both_tiers_are_one_table_whatever_is_committed(
    tmp_path: pathlib.Path, partition_by: tuple[str, ...]
) -> None:
    shop = DeltaShop(tmp_path, partition_by=partition_by)
    gateway = shop.gateway()
    shop.produce(10)
    shop.copy({0: 2, 1: 3})
    assert rows(gateway) == shop.rows
    shop.copy({0: 4})  # one partition alone
    assert rows(gateway) == shop.rows
    shop.writer.table.optimize.compact()
    shop.writer.table.create_checkpoint()
    shop.produce(6)
    assert rows(gateway) == shop.rows
    assert gateway.rows(f"SELECT count(*) FROM {COLD}") == [(7,)]
    assert gateway.rows(f"SELECT count(*) FROM {HOT}") == [(9,)]
    shop.copy({0: 8, 1: 8})
    assert rows(gateway) == shop.rows
    assert gateway.rows(f"SELECT count(*) FROM {HOT}") == [(0,)]
    gateway.close()


def test_the_seam_says_who_said_it(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(10)
    shop.copy({0: 2, 1: 3})
    receipt = gateway.statement(f"SELECT * FROM {TABLE}").receipt
    assert receipt is not None
    (part,) = receipt["tables"]
    assert (part["boundary"], part["snapshot_id"]) == ({"0": 2, "1": 3}, 0)
    assert (part["boundary_provider"], part["boundary_trust"]) == ("kafka-delta-ingest", "exact")
    assert receipt["engine"] == "duckdb"
    text = "\n".join(line for (line,) in gateway.rows(f"EXPLAIN SELECT * FROM {TABLE}"))
    assert "kafka-delta-ingest" in text
    assert "a Delta table, which Spark cannot read" in text


def test_an_empty_table_is_its_topic(shop: DeltaShop, gateway: Gateway) -> None:
    shop.writer.write([], {})
    shop.produce(4)
    assert rows(gateway) == shop.rows


def test_it_is_listed_and_described(shop: DeltaShop, gateway: Gateway) -> None:
    shop.writer.write([], {})
    assert gateway.rows("SHOW TABLES FROM bronze.shop") == [(TOPIC,)]
    listed = gateway.rows("SELECT table_name, topic, error FROM bronze.information_schema.tables")
    assert listed == [(TOPIC, TOPIC, None)]
    described = [row[:2] for row in gateway.rows(f"DESCRIBE {TABLE}")]
    assert described == [("id", "bigint"), ("item", "varchar"), ("price", "double")]


def test_statistics_leave_files_out(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(40)
    for end in (5, 10, 15, 20):
        shop.copy({0: end, 1: end})
    for condition, files, wanted in (
        ("id = 3", 1, [3]),
        ("item = 'item 39'", 2, [39]),  # which is between the first file's 'item 0' and 'item 9'
        ("price < 3.0", 4, [0, 1]),
        ("id IS NULL", 0, []),
    ):
        sql = f"SELECT id FROM {COLD} WHERE {condition}"
        statement = gateway.statement(sql)
        assert statement.receipt is not None
        assert statement.receipt["tables"][0]["files_read"] == files, condition
        assert sorted(gateway.rows(sql)) == [(number,) for number in wanted]


# --- The past ------------------------------------------------------------------------------------


def test_versions_and_times_are_snapshots(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(12)
    shop.copy({0: 2, 1: 2})
    shop.copy({0: 5, 1: 3})
    found = gateway.rows(
        f"SELECT snapshot_id, parent_id, operation, rows_added, committed_at"
        f' FROM bronze.shop."{TOPIC}$snapshots" ORDER BY 1'
    )
    assert [row[:4] for row in found] == [(0, None, "append", 4), (1, 0, "append", 4)]
    assert found[0][4] < found[1][4]
    assert gateway.rows(f"SELECT count(*) FROM {TABLE} FOR VERSION AS OF 0") == [(4,)]
    assert gateway.rows(f"SELECT count(*) FROM {TABLE} FOR VERSION AS OF 1") == [(8,)]
    between = f"TIMESTAMP '{found[0][4]:%Y-%m-%d %H:%M:%S.%f} UTC'"
    assert gateway.rows(f"SELECT count(*) FROM {COLD} FOR TIMESTAMP AS OF {between}") == [(4,)]
    refused(gateway, f"SELECT 1 FROM {TABLE} FOR VERSION AS OF 7", "TABLE_NOT_FOUND")


def test_metadata_tables(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(12)
    shop.copy({0: 2, 1: 2})
    shop.copy({0: 5, 1: 3})
    history = gateway.rows(
        f"SELECT snapshot_id, parent_id, is_current_ancestor"
        f' FROM bronze.shop."{TOPIC}$HISTORY" ORDER BY 1'
    )
    assert history == [(0, None, True), (1, 0, True)]
    assert gateway.rows(f'SELECT * FROM bronze.shop."{TOPIC}$refs"') == []
    properties = dict(gateway.rows(f'SELECT * FROM bronze.shop."{TOPIC}$properties"'))
    assert properties["seamline.topic"] == TOPIC
    for variant in ("partitions", "manifests", "all_manifests", "entries", "metadata_log_entries"):
        error = refused(gateway, f'SELECT * FROM bronze.shop."{TOPIC}${variant}"', "NOT_SUPPORTED")
        assert f"no ${variant}" in error.message


def test_a_token_repeats_until_its_version_is_vacuumed(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(10)
    shop.copy({0: 2, 1: 3})
    token, before = token_of(gateway), shop.rows
    shop.produce(10)
    shop.copy({0: 6, 1: 6})
    shop.writer.table.optimize.compact()
    assert rows(gateway, token=token) == before
    assert gateway.rows(f"SELECT count(*) FROM {TABLE} FOR VERSION AS OF 0") == [(5,)]
    vacuum(shop)
    refused(gateway, f"SELECT id, item, price FROM {TABLE}", "TOKEN_EXPIRED", token=token)
    refused(gateway, f"SELECT count(*) FROM {TABLE} FOR VERSION AS OF 0", "TABLE_NOT_FOUND")
    assert rows(gateway) == shop.rows


def vacuum(shop: DeltaShop) -> None:
    """Removes every file that the present version lacks."""
    shop.writer.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def test_a_log_that_was_cleaned_up_is_read_from_its_checkpoint(
    shop: DeltaShop, gateway: Gateway
) -> None:
    shop.produce(20)
    for end in range(1, 6):
        shop.copy({0: end, 1: end})
    shop.writer.table.create_checkpoint()
    for old in range(4):
        (shop.writer.folder / "_delta_log" / f"{old:020}.json").unlink()
    fresh = shop.gateway()
    for running in (gateway, fresh):
        assert rows(running) == shop.rows
    shop.copy({0: 7, 1: 6})
    assert rows(fresh) == shop.rows
    known = fresh.rows(f'SELECT snapshot_id FROM bronze.shop."{TOPIC}$snapshots"')
    assert sorted(known) == [(4,), (5,)]
    fresh.close()


def test_checkpoints_of_version_2_are_read(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(20)
    shop.writer.write([], {})
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    commit(shop, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    for end in range(1, 6):
        shop.copy({0: end, 1: end})
    folder = shop.writer.folder / "_delta_log"
    commits = sorted(folder.glob("*.json"))
    actions = [json.loads(line) for path in commits for line in path.read_text().splitlines()]
    newest = {
        (kind, body.get("appId"), body.get("path")): {kind: body}
        for action in actions
        for kind, body in action.items()
        if kind != "commitInfo"
    }
    last = len(commits) - 1
    made = [{"checkpointMetadata": {"version": last}}, *newest.values()]
    name = f"{last:020}.checkpoint.{uuid.uuid4()}.json"
    (folder / name).write_text("\n".join(map(json.dumps, made)))
    for path in commits[:-1]:
        path.unlink()
    fresh = shop.gateway()
    assert rows(fresh) == rows(gateway) == shop.rows
    assert fresh.rows(f"SELECT count(*) FROM {COLD}") == [(10,)]
    fresh.close()


def test_a_version_that_is_written_again_after_a_restore_from_a_copy_is_another(
    shop: DeltaShop, gateway: Gateway
) -> None:
    shop.produce(8)
    shop.copy({0: 1, 1: 1})
    copied = shop.writer.folder.with_name("copied")
    shutil.copytree(shop.writer.folder, copied)
    shop.copy({0: 4, 1: 4})
    assert rows(gateway) == shop.rows
    shutil.rmtree(shop.writer.folder)
    copied.rename(shop.writer.folder)
    shop.writer.copied = {0: 1, 1: 1}
    shop.copy({0: 2, 1: 3})
    assert rows(gateway) == shop.rows


def test_a_table_made_anew_in_the_same_place_is_another(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(10)
    shop.copy({0: 2, 1: 2})
    shop.copy({0: 3, 1: 3})
    token = token_of(gateway)
    shutil.rmtree(shop.writer.folder)
    shop.writer.copied.clear()
    for end in (1, 2, 4):  # past the version that was known
        shop.copy({0: end, 1: end})
    assert rows(gateway) == shop.rows
    refused(gateway, f"SELECT 1 FROM {TABLE}", "HISTORY_CHANGED", token=token)


# --- Columns -------------------------------------------------------------------------------------

EVERY = pa.schema(
    [
        ("id", pa.int64()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("number", pa.int32()),
        ("real", pa.float32()),
        ("wide", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("instant", pa.timestamp("us", "UTC")),
        ("moment", pa.timestamp("us")),
        ("exact", pa.decimal128(20, 4)),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("row", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
    ]
)
FULL: dict[str, Any] = {
    "id": 1,
    "tiny": -3,
    "small": 300,
    "number": 70000,
    "real": 1.5,
    "wide": 2.25,
    "text": "ä'/% x",
    "flag": True,
    "day": datetime.date(2024, 2, 29),
    "instant": datetime.datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
    "moment": datetime.datetime(1969, 1, 2, 3, 4, 5, 654321),
    "exact": decimal.Decimal("1234567890123456.7891"),
    "list": [1, None],
    "map": [("k", 1)],
    "row": {"x": 1, "y": ["p", None]},
}
EMPTY = {**dict.fromkeys(FULL), "id": 2}
AS_JSON = {
    **FULL,
    "day": "2024-02-29",
    "instant": "2024-01-02T03:04:05.123456Z",
    "moment": "1969-01-02T03:04:05.654321",
    "exact": "1234567890123456.7891",
    "map": {"k": 1},
}


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize(
    "partition_by",
    [
        *((), ("text",), ("tiny", "day"), ("instant",), ("moment",)),
        *(("exact",), ("flag",), ("small", "number"), ("real", "wide")),
    ],
)
def test_a_row_is_the_same_in_both_tiers(
    tmp_path: pathlib.Path, partition_by: tuple[str, ...]
) -> None:
    shop = DeltaShop(tmp_path, EVERY, partition_by)
    gateway = shop.gateway()
    for record in (AS_JSON, EMPTY):
        shop.log.produce(TOPIC, 0, json.dumps(record).encode())
    shop.writer.write([], {})
    hot = sorted(gateway.rows(f"SELECT * FROM {TABLE}"))
    shop.writer.write([FULL, EMPTY], {0: 2})
    cold = sorted(gateway.rows(f"SELECT * FROM {TABLE}"))
    assert cold == hot == [(*{**FULL, "map": {"k": 1}}.values(),), (*EMPTY.values(),)]
    assert gateway.rows(f"SELECT count(*) FROM {HOT}") == [(0,)]
    for name in partition_by:
        assert gateway.rows(f"SELECT id FROM {COLD} WHERE {name} IS NULL") == [(2,)]
        assert gateway.rows(f"SELECT id FROM {COLD} WHERE {name} IS NOT NULL") == [(1,)]
    gateway.close()


def test_times_as_spark_writes_them(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path, EVERY)
    shop.writer.write([FULL], {0: 1})
    (path,) = shop.writer.folder.glob("*.parquet")
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    resized(shop, path)
    assert pq.read_schema(path).field("instant").type == pa.timestamp("ns")
    gateway = shop.gateway()
    found = gateway.rows(f"SELECT instant, moment FROM {COLD}")
    assert found == [(FULL["instant"], FULL["moment"])]
    gateway.close()


@pytest.mark.parametrize("year", [1, 1677, 1969, 2262, 2263, 9999])
def test_times_that_nanoseconds_do_not_hold(tmp_path: pathlib.Path, year: int) -> None:
    """Spark writes INT96, a day and nanoseconds of it, for any year; Arrow reads few of them."""
    shop = DeltaShop(tmp_path, EVERY)
    shop.writer.write([FULL], {0: 1})
    (path,) = shop.writer.folder.glob("*.parquet")
    pq.write_table(
        pq.read_table(path),
        path,
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    moment = FULL["moment"].replace(year=year, month=6)
    data = path.read_bytes()
    assert int96(FULL["moment"]) in data
    path.write_bytes(data.replace(int96(FULL["moment"]), int96(moment)))
    resized(shop, path)
    gateway = shop.gateway()
    assert gateway.rows(f"SELECT moment, year(moment) FROM {COLD}") == [(moment, year)]
    gateway.close()


def int96(moment: datetime.datetime) -> bytes:
    """How Parquet's INT96 has a moment: nanoseconds of the day, and its Julian number."""
    day = datetime.datetime.combine(moment.date(), datetime.time())
    nanoseconds = (moment - day) // datetime.timedelta(microseconds=1) * 1000
    return struct.pack(
        "<qi", nanoseconds, (moment.date() - datetime.date(1970, 1, 1)).days + 2440588
    )


def resized(shop: DeltaShop, path: pathlib.Path) -> None:
    """The log's first commit says how long a file is that was rewritten."""
    first = shop.writer.folder / "_delta_log" / f"{0:020}.json"
    text = re.sub(r'"size":\d+', f'"size":{path.stat().st_size}', first.read_text())
    first.write_text(text)


def test_columns_that_come_and_go(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    token, before = token_of(gateway), gateway.rows(f"SELECT * FROM {TABLE}")
    wider = pa.schema([*SCHEMA, ("colour", pa.string())])
    shop.writer.schema = wider
    shop.copy({0: 2, 1: 2}, lambda p, o, r: {**r, "colour": "red"}, schema_mode="merge")
    found = gateway.rows(f"SELECT id, colour FROM {TABLE} ORDER BY id")
    assert found == [(0, None), (1, None), (2, "red"), (3, "red")]
    assert sorted(gateway.rows(f"SELECT * FROM {TABLE}", token=token)) == sorted(before)
    assert len(gateway.rows(f"SELECT * FROM {TABLE} FOR VERSION AS OF 0")[0]) == 3
    fresh = shop.gateway()  # which has seen no version before
    assert min(fresh.rows(f"SELECT * FROM {TABLE} FOR VERSION AS OF 0")) == shop.rows[0]
    fresh.close()


# --- What holds the places of records ------------------------------------------------------------

BY_PLACE = {"columns_from": "k_partition = partition, k_offset = offset"}


def test_an_audit_and_changes_find_records_by_their_places(tmp_path: pathlib.Path) -> None:
    shop = DeltaShop(tmp_path, PLACED, more=BY_PLACE)
    gateway = shop.gateway()
    shop.produce(10)
    shop.copy({0: 2, 1: 3}, placed)
    token = token_of(gateway)
    shop.produce(4)
    shop.copy({0: 6, 1: 5}, placed)
    changes = f"SELECT id FROM TABLE(changes('{TABLE}', '{token}'))"
    assert sorted(gateway.rows(changes)) == [(number,) for number in range(10, 14)]
    session = resolution.session(shop.config, "bronze", "shop")
    name = resolution.resolve((TOPIC,), session, shop.connections)
    audit = auditing.audit(shop.connections, name, NEVER, lambda _: None)
    assert audit.is_clean
    assert audit.to_json()["rows"] == 11
    shop.writer.write([placed(0, 3, shop.records[0, 3])], {})  # once more
    doubled = auditing.audit(shop.connections, name, NEVER, lambda _: None)
    assert [finding.kind for finding in doubled.found] == [auditing.Kind.DOUBLE]
    gateway.close()


# --- A streaming query of Spark ------------------------------------------------------------------


def test_a_streaming_query_says_its_offsets_in_its_checkpoint(tmp_path: pathlib.Path) -> None:
    streamed = Streamed(tmp_path)
    shop = streamed.shop
    gateway = shop.gateway()
    shop.produce(10)
    for ends in ({0: 2, 1: 1}, {0: 4, 1: 3}):
        streamed.plan(ends)
        if ends[0] == 4:  # which is in no version yet
            assert rows(gateway) == shop.rows
        streamed.commit(ends)
        assert rows(gateway) == shop.rows
    receipt = gateway.statement(f"SELECT * FROM {TABLE}").receipt
    assert receipt is not None
    (part,) = receipt["tables"]
    assert (part["boundary"], part["rows_cold"]) == ({"0": 4, "1": 3}, 7)
    assert (part["boundary_provider"], part["boundary_trust"]) == ("spark-streaming", "exact")
    (streamed.checkpoint / "offsets" / "1").unlink()
    fresh = shop.gateway()
    refused(fresh, f"SELECT * FROM {TABLE}", "BOUNDARY_MISSING")
    (streamed.checkpoint / "metadata").write_text(json.dumps({"id": "another"}))
    error = refused(fresh, f"SELECT * FROM {TABLE}", "BOUNDARY_MISSING")
    assert "no transaction of its writer" in error.message
    for running in (gateway, fresh):
        running.close()


def test_a_checkpoint_lies_where_files_of_the_table_may(tmp_path: pathlib.Path) -> None:
    elsewhere = {"boundary_provider": "spark-streaming", "boundary_checkpoint": str(tmp_path / "c")}
    shop = DeltaShop(tmp_path, more=elsewhere)
    shop.writer.write([], {})
    gateway = shop.gateway()
    refused(gateway, f"SELECT * FROM {TABLE}", "LOCATION_NOT_ALLOWED")
    gateway.close()


# --- What is refused -----------------------------------------------------------------------------

READ_ONLY = [
    "CREATE TABLE bronze.shop.another (a bigint)",
    f"SHOW CREATE TABLE {TABLE}",
    f"SHOW STATS FOR {TABLE}",
    f"INSERT INTO {TABLE} VALUES (1, 'a', 1.0)",
    f"COMMENT ON TABLE {TABLE} IS 'ours'",
    f"ALTER TABLE {TABLE} ADD COLUMN a bigint",
    "CREATE VIEW bronze.shop.v AS SELECT 1 AS a",
]


@pytest.mark.parametrize("sql", READ_ONLY)
def test_commands_say_that_it_is_only_read(shop: DeltaShop, gateway: Gateway, sql: str) -> None:
    shop.writer.write([], {})
    error = refused(gateway, sql, "NOT_SUPPORTED")
    assert "Delta tables are read-only" in error.message


def test_spark_is_refused(shop: DeltaShop, gateway: Gateway) -> None:
    shop.writer.write([], {})
    error = refused(gateway, f"SELECT * FROM {TABLE}", "NOT_SUPPORTED", engine="spark")
    assert error.message == "Spark cannot read a Delta table"


def test_it_is_not_given_out_to_be_read_elsewhere(shop: DeltaShop, gateway: Gateway) -> None:
    shop.writer.write([], {})
    with pytest.raises(SeamlineError, match="Delta tables are read-only"):
        gateway.parts.seams.pin(TABLE, Principal("t"), catalog=None, schema=None, token=None)
    answer = gateway.app.test_client().get("/iceberg/v1/bronze/namespaces/shop/tables")
    assert answer.status_code == 406, answer.json
    assert "Delta tables are read-only" in answer.text


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"boundary_app_id": "another"}, "BOUNDARY_MISSING", "boundary_app_id"),
        ({"boundary_provider": "columns"}, "INVALID_TABLE_DEFINITION", "kafka-delta-ingest"),
        ({"boundary_provider": None}, "INVALID_TABLE_DEFINITION", "has no boundary_provider"),
        ({"topic_id": None}, "INVALID_TABLE_DEFINITION", "topic_id: topic-1"),
        ({"topic_id": "an-older-one"}, "TOPIC_RECREATED", "topic-1"),
    ],
)
def test_a_binding_that_says_too_little(
    tmp_path: pathlib.Path, changed: dict[str, str | None], code: str, said: str
) -> None:
    shop = DeltaShop(tmp_path, more=changed)
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    gateway = shop.gateway()
    error = refused(gateway, f"SELECT * FROM {TABLE}", code)
    assert said in str(error)
    assert gateway.rows(f"SELECT count(*) FROM {COLD}") == [(2,)]
    gateway.close()


def test_a_restored_version_has_no_boundary(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(10)
    shop.copy({0: 1, 1: 1})
    shop.copy({0: 3, 1: 3})
    shop.writer.table.restore(0)
    refused(gateway, f"SELECT * FROM {TABLE}", "BOUNDARY_INVALID")
    assert gateway.rows(f"SELECT count(*) FROM {COLD}") == [(2,)]


def test_transactions_that_are_forgotten_are_no_boundary(shop: DeltaShop, gateway: Gateway) -> None:
    forgetting = {"delta.setTransactionRetentionDuration": "interval 7 days"}
    shop.writer.write([], {}, configuration=forgetting)
    error = refused(gateway, f"SELECT * FROM {TABLE}", "BOUNDARY_INVALID")
    assert "setTransactionRetentionDuration" in error.message


def commit(shop: DeltaShop, *actions: dict[str, Any]) -> None:
    """A commit by another hand."""
    folder = shop.writer.folder / "_delta_log"
    path = folder / f"{len(list(folder.glob('*.json'))):020}.json"
    path.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize("feature", ["deletionVectors", "typeWidening", "columnMapping", "x-new"])
def test_features_are_refused_by_name(shop: DeltaShop, gateway: Gateway, feature: str) -> None:
    shop.produce(2)
    shop.copy({0: 1, 1: 1})
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    commit(shop, {"protocol": {**protocol, **features}})
    if feature == "columnMapping":  # which may be possible, and not be used
        assert rows(gateway) == shop.rows
        return
    error = refused(gateway, f"SELECT * FROM {TABLE}", "NOT_SUPPORTED")
    assert feature in error.message
    ((_, _, _, _, _, said),) = gateway.rows("SELECT * FROM bronze.information_schema.tables")
    assert feature in said


def test_files_elsewhere_are_not_read(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(2)
    shop.copy({0: 1, 1: 1})
    outside = shop.writer.folder.parent / "outside.parquet"
    (own,) = shop.writer.folder.glob("*.parquet")
    shutil.copy(own, outside)
    size = outside.stat().st_size
    add = {"partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    commit(shop, {"add": {"path": f"file://{outside}", **add}})
    refused(gateway, f"SELECT * FROM {COLD}", "LOCATION_NOT_ALLOWED")


def test_no_table_where_there_is_no_log(shop: DeltaShop, gateway: Gateway) -> None:
    error = refused(gateway, f"SELECT * FROM {TABLE}", "INVALID_CONFIG")
    assert "there is no Delta table" in error.message
    shop.writer.folder.joinpath("_delta_log").mkdir(parents=True)
    refused(gateway, f"SELECT * FROM {TABLE}", "INVALID_CONFIG")
    shop.writer.write([], {})
    assert rows(gateway) == []


def test_other_applications_transactions_are_not_its_own(shop: DeltaShop, gateway: Gateway) -> None:
    shop.produce(4)
    shop.copy({0: 1, 1: 1})
    others = [Transaction("another-0", 99), Transaction(f"{APPLICATION}-old-0", 7)]
    write_deltalake(
        shop.writer.folder,
        SCHEMA.empty_table(),
        mode="append",
        commit_properties=CommitProperties(app_transactions=others),
    )
    assert rows(gateway) == shop.rows


def test_a_past_moment_outlives_the_log(tmp_path: pathlib.Path) -> None:
    timed = pa.schema([*PLACED, ("k_time", pa.timestamp("us", "UTC"))])
    places = {"columns_from": f"{BY_PLACE['columns_from']}, k_time = timestamp"}
    shop = DeltaShop(tmp_path, timed, more=places)
    times: dict[tuple[int, int], int] = {}

    def send(count: int, at_ms: int) -> None:
        for _ in range(count):
            number = len(shop.records)
            record = {"id": number, "item": "a", "price": 1.0}
            place = 0, shop.log.produce(TOPIC, 0, json.dumps(record).encode(), timestamp_ms=at_ms)
            shop.records[place], times[place] = record, at_ms

    def stored(partition: int, offset: int, record: dict[str, Any]) -> dict[str, Any]:
        at = datetime.datetime.fromtimestamp(times[partition, offset] / 1000, UTC)
        return {**placed(partition, offset, record), "k_time": at}

    gateway = shop.gateway()
    send(3, 1_700_000_000_000)
    shop.copy({0: 2}, stored)
    ((committed,),) = gateway.rows(f'SELECT committed_at FROM bronze.shop."{TOPIC}$snapshots"')
    moment = committed + datetime.timedelta(milliseconds=1)
    moment_ms = int(moment.timestamp() * 1000)
    send(2, moment_ms)
    send(4, moment_ms + 1)
    sql = (
        f"SELECT id FROM {TABLE} FOR TIMESTAMP AS OF TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f} UTC'"
    )
    assert sorted(gateway.rows(sql)) == [(number,) for number in range(5)]
    shop.copy({0: 8}, stored)
    shop.log.delete_records(TOPIC, 0, 8)
    assert sorted(gateway.rows(sql)) == [(number,) for number in range(5)]
    gateway.close()

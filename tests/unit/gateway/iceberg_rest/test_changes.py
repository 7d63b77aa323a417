"""Clients that change plain tables through the Iceberg REST catalog.

Goal: where `iceberg.writes` is set, what a client commits is in the catalog behind and nowhere else
than it may be; a table with a topic is left alone; a failure says whether anything was committed.
Method: PyIceberg as the client, and requests as other clients write them, against a gateway whose
every answer is checked against the specification's models.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from support import offline
from support.gateway import Gateway
from support.rest_answers import Watch
from werkzeug.test import TestResponse

from seamline.connectors.iceberg.tables.changes import CatalogChanges, TableCommit
from seamline.errors import INVALID_CONFIG, SeamlineError

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "text": [f"t{i % 3}" for i in range(10)]})
ROOT = "/iceberg/v1/lake"
COLUMN = {"id": 1, "name": "id", "type": "long", "required": False}
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [COLUMN]}


class World:
    """A gateway that passes changes on, a client of it, and the catalog behind it."""

    def __init__(self, folder: pathlib.Path) -> None:
        config = offline.load_config(folder, "iceberg: {writes: true}\n")
        self.folder = folder
        self.gateway = Gateway(config)
        self.watch = Watch(self.gateway.app)
        self.http = self.gateway.app.test_client()
        lake = config.catalogs["lake"]
        self.own = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
        self.own.create_namespace("sales")
        self.client = RestCatalog("live", uri=f"{self.gateway.url}/iceberg")

    def request(self, method: str, path: str, **options: Any) -> TestResponse:
        """A request as a client on this machine would send it."""
        return self.http.open(path, method=method, base_url="http://127.0.0.1", **options)

    def error(self, method: str, path: str, body: Any) -> tuple[int, str, str]:
        """Status, type and our name of the error with which a request must end."""
        answer = self.request(method, path, json=body)
        assert answer.json is not None
        error = answer.json["error"]
        assert error["code"] == answer.status_code
        return answer.status_code, error["type"], error["message"].partition(":")[0]

    def bound(self, name: str) -> None:
        """Makes a table that has a topic."""
        self.own.create_table(name, ROWS.schema, properties={"seamline.topic": "t"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    yield made
    made.gateway.close()
    assert not made.watch.wrong, made.watch.wrong


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    test = str(request.node.name)
    return "sales." + test.partition("[")[0]


# --- What writers do -----------------------------------------------------------------------------


def test_rows_are_written_read_and_deleted(world: World, name: str) -> None:
    table = world.client.create_table(name, ROWS.schema)
    table.append(ROWS)
    assert world.own.load_table(name).scan().count() == 10
    table.delete("id < 3")
    table.overwrite(ROWS.slice(0, 1), overwrite_filter="id = 5")
    assert sorted(world.client.load_table(name).scan().to_arrow()["id"].to_pylist()) == [
        *(0, 3, 4, 6, 7, 8, 9)
    ]


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_table_and_its_rows_in_one_commit(world: World, name: str, version: str) -> None:
    name = f"{name}_{version}"
    with world.client.create_table_transaction(
        name, ROWS.schema, properties={"format-version": version, "owner": "ann"}
    ) as transaction:
        if version == "2":
            transaction.append(ROWS)
        with pytest.raises(NoSuchTableError):
            world.own.load_table(name)
    made = world.own.load_table(name)
    assert made.metadata.format_version == int(version)
    assert made.properties == {"owner": "ann"}
    assert made.scan().count() == (10 if version == "2" else 0)


def test_a_table_of_version_2_becomes_one_of_version_3(world: World, name: str) -> None:
    table = world.client.create_table(name, ROWS.schema)
    path = f"{ROOT}/namespaces/sales/tables/{table.name()[-1]}"
    body = {"updates": [{"action": "upgrade-format-version", "format-version": 3}]}
    answer = world.request("POST", path, json=body)
    assert answer.json is not None
    assert answer.json["metadata"]["next-row-id"] == 0
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": answer.json["metadata"]["last-updated-ms"],
        "manifest-list": f"{table.location()}/metadata/snap-1.avro",
        "summary": {"operation": "append"},
        "first-row-id": 0,
    }
    add = {"updates": [{"action": "add-snapshot", "snapshot": snapshot}]}
    assert world.error("POST", path, add)[:1] == (400,), "nobody knows where the next rows begin"


def test_columns_partitions_order_and_properties(world: World, name: str) -> None:
    table = world.client.create_table(name, ROWS.schema)
    with table.transaction() as transaction:
        with transaction.update_schema() as schema:
            schema.add_column("n", LongType())
        with transaction.update_spec() as spec:
            spec.add_field("id", BucketTransform(4))
        transaction.set_properties({"owner": "ann", "spare": "x"})
    with table.update_sort_order() as order:
        order.asc("id", IdentityTransform())
    with table.transaction() as transaction:
        transaction.remove_properties("spare")
    found = world.own.load_table(name)
    assert [field.name for field in found.schema().fields] == ["id", "text", "n"]
    assert [field.name for field in found.spec().fields] == ["id_bucket_4"]
    assert found.sort_order().fields[0].source_id == 1
    assert found.properties == {"owner": "ann"}


def test_branches_tags_and_expiry(world: World, name: str) -> None:
    table = world.client.create_table(name, ROWS.schema)
    table.append(ROWS)
    first = table.current_snapshot()
    assert first is not None
    table.append(ROWS)
    table.manage_snapshots().create_tag(first.snapshot_id, "release").commit()
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    assert world.own.load_table(name).scan(snapshot_id=first.snapshot_id).count() == 10
    table.manage_snapshots().remove_tag("release").remove_branch("audit").commit()
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    found = world.own.load_table(name)
    assert len(found.snapshots()) == 1
    assert set(found.refs()) == {"main"}


def test_names_change_and_go(world: World, name: str) -> None:
    world.client.create_table(name, ROWS.schema).append(ROWS)
    world.client.rename_table(name, f"{name}_2")
    assert not world.client.table_exists(name)
    assert world.client.load_table(f"{name}_2").scan().count() == 10
    kept = world.own.load_table(f"{name}_2").metadata_location
    world.client.drop_table(f"{name}_2")
    with pytest.raises(NoSuchTableError):
        world.own.load_table(f"{name}_2")
    assert world.client.register_table(name, kept).scan().count() == 10
    world.client.purge_table(name)
    assert not pathlib.Path(kept.removeprefix("file://")).exists()


def test_a_table_that_was_renamed_keeps_its_place_to_itself(world: World, name: str) -> None:
    first = world.client.create_table(name, ROWS.schema)
    world.client.rename_table(name, f"{name}_2")
    assert world.client.create_table(name, ROWS.schema).location() != first.location()


def test_namespaces(world: World) -> None:
    client = world.client
    client.create_namespace("made", {"owner": "ann"})
    client.create_namespace(("made", "inner"))
    with pytest.raises(NamespaceAlreadyExistsError):
        client.create_namespace("made")
    changed = client.update_namespace_properties("made", {"owner", "none"}, {"a": "1"})
    assert (changed.removed, changed.updated, changed.missing) == (["owner"], ["a"], ["none"])
    assert client.load_namespace_properties("made")["a"] == "1"
    with pytest.raises(NamespaceNotEmptyError):
        client.drop_namespace("made")
    client.drop_namespace(("made", "inner"))
    client.drop_namespace("made")
    with pytest.raises(NoSuchNamespaceError):
        client.drop_namespace("made")


def test_a_client_reads_what_it_has_just_committed(world: World, name: str) -> None:
    """Whatever seam its last statement has been given."""
    world.client.create_table(name, ROWS.schema)
    path = f"{ROOT}/namespaces/sales/tables/{name.partition('.')[2]}"
    for expected in ("1", "2"):
        world.request("GET", f"{path}?snapshots=all")
        body = {"updates": [{"action": "set-properties", "updates": {"n": expected}}]}
        assert world.request("POST", path, json=body).status_code == 200
        answer = world.request("GET", path).json
        assert answer is not None
        assert answer["metadata"]["properties"]["n"] == expected


def test_commits_of_two_clients(world: World, name: str) -> None:
    world.client.create_table(name, Schema(NestedField(1, "id", LongType(), required=False)))
    mine, other = world.client.load_table(name), world.client.load_table(name)
    with other.update_schema() as schema:
        schema.add_column("theirs", StringType())
    with pytest.raises(CommitFailedException), mine.update_schema() as schema:
        schema.add_column("mine", StringType())
    path = f"{ROOT}/namespaces/sales/tables/{name.partition('.')[2]}"
    uuid_body = {"requirements": [{"type": "assert-table-uuid", "uuid": str(uuid.uuid4())}]}
    conflict = (409, "CommitFailedException", "COMMIT_CONFLICT")
    assert world.error("POST", path, {**uuid_body, "updates": []}) == conflict


def test_no_commit_is_lost_among_several_clients(world: World, name: str) -> None:
    world.client.create_table(name, ROWS.schema)

    def append(_: int) -> int:
        client = RestCatalog("live", uri=f"{world.gateway.url}/iceberg-plan")
        try:
            client.load_table(name).append(ROWS)
        except CommitFailedException:
            return 0
        return 10

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        landed = sum(pool.map(append, range(6)))
    assert world.own.load_table(name).scan().count() == landed > 0


def test_what_two_clients_add_has_ids_of_its_own(world: World, name: str) -> None:
    """Both number their first sort order 1, and the first schema that they add."""
    world.client.create_table(name, ROWS.schema)
    path = f"{ROOT}/namespaces/sales/tables/{name.partition('.')[2]}"
    for direction in ("asc", "desc", "asc"):
        order = {"source-id": 1, "transform": "identity", "direction": direction}
        fields = [{**order, "null-order": "nulls-first"}]
        body = {
            "updates": [
                {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": fields}},
                {"action": "set-default-sort-order", "sort-order-id": -1},
            ]
        }
        assert world.request("POST", path, json=body).status_code == 200
    for column in ("a", "b"):
        field = {"id": 3, "name": column, "type": "long", "required": False}
        schema = {**SCHEMA, "schema-id": 1, "fields": [COLUMN, field]}
        body = {
            "updates": [
                {"action": "add-schema", "schema": schema},
                {"action": "set-current-schema", "schema-id": -1},
            ]
        }
        assert world.request("POST", path, json=body).status_code == 200
    found = world.own.load_table(name).metadata
    assert sorted(order.order_id for order in found.sort_orders) == [0, 1, 2]
    assert found.default_sort_order_id == 1, "the third is the first again"
    assert [schema.schema_id for schema in found.schemas] == [0, 1, 2]
    assert [field.name for field in found.schema().fields] == ["id", "b"]


def _together(**changes: tuple[list[Any], list[Any]]) -> dict[str, Any]:
    """A commit of requirements and updates to tables of `sales`."""
    return {
        "table-changes": [
            {
                "identifier": {"namespace": ["sales"], "name": name},
                "requirements": requirements,
                "updates": updates,
            }
            for name, (requirements, updates) in changes.items()
        ]
    }


def test_several_tables_change_together_or_not_at_all(world: World, name: str) -> None:
    short = name.partition(".")[2]
    first, second, new = (f"{short}_{number}" for number in (1, 2, 3))
    for known in (first, second):
        world.client.create_table(f"sales.{known}", ROWS.schema)
    path = f"{ROOT}/transactions/commit"
    updates = [{"action": "set-properties", "updates": {"n": "1"}}]
    stale = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    created: list[Any] = [
        {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": f"file://{world.folder}/warehouse/sales/{new}"},
    ]
    create: tuple[list[Any], list[Any]] = ([{"type": "assert-create"}], created)
    wanted = _together(**{first: ([], updates), new: create, second: (stale, updates)})
    assert world.error("POST", path, wanted)[::2] == (409, "COMMIT_CONFLICT")
    assert world.own.load_table(f"sales.{first}").properties == {}
    assert not world.own.table_exists(f"sales.{new}")
    wanted = _together(**{first: ([], updates), new: create, second: ([], updates)})
    assert world.request("POST", path, json=wanted).status_code == 204
    assert [world.own.load_table(f"sales.{t}").properties for t in (first, second)] == [
        {"n": "1"}
    ] * 2
    assert world.own.load_table(f"sales.{new}").schema().fields[0].name == "id"
    twice = _together(**{first: ([], updates)})
    twice["table-changes"] *= 2
    assert world.error("POST", path, twice)[::2] == (400, "INVALID_REQUEST")
    world.bound(f"{name}_bound")
    other = [{"action": "set-properties", "updates": {"n": "2"}}]
    wanted = _together(**{second: ([], other), f"{short}_bound": ([], other)})
    assert world.error("POST", path, wanted) == READ_ONLY
    assert world.own.load_table(f"sales.{second}").properties == {"n": "1"}
    assert world.own.load_table(f"{name}_bound").properties == {"seamline.topic": "t"}


def test_defaults_of_columns_are_kept(world: World, name: str) -> None:
    own = {"id": 5, "name": "n", "type": "int", "required": True}
    field = {**own, "initial-default": 7, "write-default": 8}
    body = {
        "name": name.partition(".")[2],
        "schema": {**SCHEMA, "fields": [field]},
        "properties": {"format-version": "3"},
    }
    assert world.request("POST", f"{ROOT}/namespaces/sales/tables", json=body).status_code == 200
    (found,) = world.own.load_table(name).schema().fields
    assert (found.field_id, found.initial_default, found.write_default) == (1, 7, 8)


# --- What is refused -----------------------------------------------------------------------------

READ_ONLY = (403, "ForbiddenException", "CATALOG_READ_ONLY")
ELSEWHERE = (403, "ForbiddenException", "LOCATION_NOT_ALLOWED")


def test_a_table_with_a_topic_is_left_alone(world: World, name: str) -> None:
    world.bound(name)
    before = world.own.load_table(name).metadata_location
    short = name.partition(".")[2]
    table = f"{ROOT}/namespaces/sales/tables/{short}"
    named = {"namespace": ["sales"], "name": short}
    renamed = {"source": named, "destination": {**named, "name": "other"}}
    asked = [
        ("POST", table, {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}),
        ("DELETE", table, None),
        ("DELETE", f"{table}?purgeRequested=true", None),
        ("POST", f"{ROOT}/tables/rename", renamed),
    ]
    views = f"{ROOT}/namespaces/sales/views"
    assert world.error("POST", views, {"name": "v"})[::2] == (406, "NOT_SUPPORTED")
    for method, path, body in asked:
        assert world.error(method, path, body) == READ_ONLY
    assert world.own.load_table(name).metadata_location == before


def test_no_table_is_given_a_topic(world: World, name: str) -> None:
    world.client.create_table(name, ROWS.schema)
    short, tables = name.partition(".")[2], f"{ROOT}/namespaces/sales/tables"
    ours = {"seamline.topic": "t"}
    updates = [{"action": "set-properties", "updates": ours}]
    assert world.error("POST", f"{tables}/{short}", {"updates": updates}) == READ_ONLY
    updates = [{"action": "remove-properties", "removals": list(ours)}]
    assert world.error("POST", f"{tables}/{short}", {"updates": updates}) == READ_ONLY
    body = {"name": "new", "schema": SCHEMA, "properties": ours}
    for staged in (False, True):
        assert world.error("POST", tables, {**body, "stage-create": staged}) == READ_ONLY
    world.bound(f"{name}_bound")
    location = world.own.load_table(f"{name}_bound").metadata_location
    body = {"name": "new", "metadata-location": location}
    assert world.error("POST", f"{ROOT}/namespaces/sales/register", body) == READ_ONLY
    views = {"updates": {"seamline.view.v": location}}
    assert world.error("POST", f"{ROOT}/namespaces/sales/properties", views) == READ_ONLY


@pytest.mark.parametrize("place", ["file:///etc", "{warehouse}/../elsewhere/t", "s3://other/t"])
def test_no_table_lies_or_has_files_elsewhere(world: World, name: str, place: str) -> None:
    if not world.own.table_exists(name):
        world.client.create_table(name, ROWS.schema)
    place = place.format(warehouse=f"file://{world.folder}/warehouse")
    short, tables = name.partition(".")[2], f"{ROOT}/namespaces/sales/tables"
    body: dict[str, Any] = {"name": "new", "schema": SCHEMA, "location": place}
    for staged in (False, True):
        assert world.error("POST", tables, {**body, "stage-create": staged}) == ELSEWHERE
    create = {"requirements": [{"type": "assert-create"}]}
    moved = [{"action": "set-location", "location": place}]
    assert world.error("POST", f"{tables}/new", {**create, "updates": moved}) == ELSEWHERE
    assert world.error("POST", f"{tables}/{short}", {"updates": moved}) == ELSEWHERE
    body = {"name": "new", "metadata-location": f"{place}/metadata/v1.metadata.json"}
    assert world.error("POST", f"{ROOT}/namespaces/sales/register", body) == ELSEWHERE
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 1,
        "manifest-list": f"{place}/snap-1.avro",
        "summary": {"operation": "append"},
    }
    added = [{"action": "add-snapshot", "snapshot": snapshot}]
    assert world.error("POST", f"{tables}/{short}", {"updates": added}) == ELSEWHERE
    paths = [{"action": "set-properties", "updates": {"write.metadata.path": place}}]
    refused = (403, "ForbiddenException", "PROPERTY_NOT_ALLOWED")
    assert world.error("POST", f"{tables}/{short}", {"updates": paths}) == refused
    assert world.own.load_table(name).snapshots() == []
    assert not world.own.table_exists("sales.new")


def test_no_namespace_sends_new_tables_elsewhere(world: World) -> None:
    properties = {"location": "file:///etc"}
    body = {"namespace": ["astray"], "properties": properties}
    assert world.error("POST", f"{ROOT}/namespaces", body) == ELSEWHERE
    path = f"{ROOT}/namespaces/sales/properties"
    assert world.error("POST", path, {"updates": properties}) == ELSEWHERE
    inside = {"updates": {"location": f"file://{world.folder}/warehouse/shop"}}
    assert world.request("POST", path, json=inside).status_code == 200
    made = world.client.create_table("sales.astray", ROWS.schema)
    assert made.location().startswith(inside["updates"]["location"])
    world.client.update_namespace_properties("sales", {"location"})


def test_a_view_of_ours_keeps_its_name(world: World) -> None:
    world.gateway.rows("CREATE VIEW lake.sales.shown AS SELECT 1 AS one")
    taken = (409, "AlreadyExistsException", "TABLE_EXISTS")
    body = {"name": "shown", "schema": SCHEMA}
    for staged in (False, True):
        path = f"{ROOT}/namespaces/sales/tables"
        assert world.error("POST", path, {**body, "stage-create": staged}) == taken
    world.client.create_table("sales.hidden", ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        world.client.rename_table("sales.hidden", "sales.shown")
    assert world.gateway.rows("SELECT one FROM lake.sales.shown") == [(1,)]


def test_a_table_that_gets_a_topic_meanwhile_is_left_alone(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.client.create_table(name, ROWS.schema)
    checked = CatalogChanges.checked

    def bind(self: CatalogChanges, commit: TableCommit) -> Any:
        found = checked(self, commit)
        topic = {"seamline.topic": "t"}
        world.own.load_table(name).transaction().set_properties(topic).commit_transaction()
        return found

    monkeypatch.setattr(CatalogChanges, "checked", bind)
    path = f"{ROOT}/namespaces/sales/tables/{name.partition('.')[2]}"
    body = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert world.error("POST", path, body)[::2] == (409, "COMMIT_CONFLICT")
    assert world.own.load_table(name).properties == {"seamline.topic": "t"}


def test_no_table_chooses_code(world: World, name: str) -> None:
    world.client.create_table(name, ROWS.schema)
    path = f"{ROOT}/namespaces/sales/tables/{name.partition('.')[2]}"
    for key in ("write.py-location-provider.impl", "write.location-provider.impl"):
        updates = [{"action": "set-properties", "updates": {key: "os.system"}}]
        found = world.error("POST", path, {"updates": updates})
        assert found == (403, "ForbiddenException", "PROPERTY_NOT_ALLOWED")


@pytest.mark.parametrize(
    "body",
    [
        {"updates": [{"action": "grow-wings"}]},
        {"updates": [{"action": "add-schema", "schema": {"type": "struct", "fields": [{}]}}]},
        {"updates": [{"action": "set-current-schema", "schema-id": 99}]},
        {"updates": [{"action": "assign-uuid", "uuid": str(uuid.UUID(int=7))}]},
        {"updates": [{"action": "remove-snapshots", "snapshot-ids": [7]}]},
        {"requirements": [{"type": "assert-luck"}], "updates": []},
        {"updates": {}},
    ],
)
def test_what_cannot_be_read_or_made_is_a_bad_request(
    world: World, name: str, body: dict[str, Any]
) -> None:
    if not world.own.table_exists(name):
        world.client.create_table(name, ROWS.schema)
    path = f"{ROOT}/namespaces/sales/tables/{name.partition('.')[2]}"
    before = world.own.load_table(name).metadata_location
    found = world.error("POST", path, body)
    assert found == (400, "BadRequestException", "INVALID_REQUEST")
    assert world.own.load_table(name).metadata_location == before


def test_names_that_are_taken_or_not_there(world: World, name: str) -> None:
    world.client.create_table(name, ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        world.client.create_table(name, ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        world.client.create_table_transaction(name, ROWS.schema)
    world.client.create_table(f"{name}_2", ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        world.client.rename_table(name, f"{name}_2")
    with pytest.raises(NoSuchTableError):
        world.client.rename_table(f"{name}_none", f"{name}_3")
    body = {"name": "t", "schema": SCHEMA}
    missing = (404, "NoSuchNamespaceException", "SCHEMA_NOT_FOUND")
    for namespace in ("none", "information_schema"):
        path = f"{ROOT}/namespaces/{namespace}/tables"
        assert world.error("POST", path, body) == missing
    for wrong in ("", " t", "t "):
        path = f"{ROOT}/namespaces/sales/tables"
        assert world.error("POST", path, {**body, "name": wrong})[0] == 400


def test_a_commit_of_unknown_outcome_is_said_to_be_one(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that hears of a failure removes its files; they may be the table's by then."""
    table = world.client.create_table(name, ROWS.schema)
    commit = SqlCatalog.commit_table

    def broken(*arguments: Any) -> Any:
        commit(*arguments)
        raise ConnectionError("the answer is lost")

    monkeypatch.setattr(SqlCatalog, "commit_table", broken)
    with pytest.raises(CommitStateUnknownException):
        table.append(ROWS)
    assert world.own.load_table(name).scan().count() == 10


# --- When it is allowed --------------------------------------------------------------------------


def test_only_where_it_is_served_it_is_announced(world: World) -> None:
    config = world.request("GET", "/iceberg/v1/config").json
    assert config is not None
    assert "POST /v1/{prefix}/tables/rename" in config["endpoints"]
    assert not any("views" in endpoint for endpoint in config["endpoints"])


def test_rules_of_access_exclude_it(tmp_path: pathlib.Path) -> None:
    """With another table's files in one's own metadata, one would read them past the rules."""
    (tmp_path / "rules.yaml").write_text("tables: [{privileges: [SELECT]}]")
    more = f"auth: {{rules: {json.dumps(str(tmp_path / 'rules.yaml'))}}}\n"
    with pytest.raises(SeamlineError, match=r"iceberg\.writes") as error:
        offline.load_config(tmp_path, "iceberg: {writes: true}\n" + more)
    assert error.value.code is INVALID_CONFIG
    assert offline.load_config(tmp_path, more).iceberg.writes is False


def test_without_the_setting_everything_is_refused(tmp_path: pathlib.Path) -> None:
    gateway = Gateway(offline.load_config(tmp_path))
    with contextlib.closing(gateway):
        client = gateway.app.test_client()
        answer = client.post(f"{ROOT}/namespaces", json={"namespace": ["made"]})
        assert answer.status_code == 403
        rest = RestCatalog("live", uri=f"{gateway.url}/iceberg")
        with pytest.raises((NotImplementedError, ForbiddenError)):
            rest.create_namespace("made")


# --- Ids that a client may leave out -------------------------------------------------------------


def spec_of(*transforms: str) -> dict[str, Any]:
    """A partition spec of the column `id`, as clients write it who leave ids to the catalog."""
    fields = [{"source-id": 1, "transform": t, "name": f"p_{t}"} for t in transforms]
    return {"fields": fields}


def test_a_table_is_created_with_a_spec_without_ids(world: World, name: str) -> None:
    spec = spec_of("identity", "bucket[4]")
    table = name.rpartition(".")[2]
    for is_staged in (True, False):
        body = {"name": table, "schema": SCHEMA, "partition-spec": spec, "stage-create": is_staged}
        answer = world.request("POST", f"{ROOT}/namespaces/sales/tables", json=body)
        assert answer.status_code == 200, answer.json
        assert answer.json is not None
        (found,) = answer.json["metadata"]["partition-specs"]
        assert [field["field-id"] for field in found["fields"]] == [1000, 1001]


def test_specs_are_added_without_ids(world: World, name: str) -> None:
    table = name.rpartition(".")[2]
    body = {"name": table, "schema": SCHEMA, "partition-spec": spec_of("bucket[4]")}
    tables = f"{ROOT}/namespaces/sales/tables"
    assert world.request("POST", tables, json=body).status_code == 200
    for transforms, ids in (
        (("identity", "bucket[4]"), [1001, 1000]),
        (("truncate[3]", "identity"), [1002, 1001]),
    ):
        updates = [
            {"action": "add-spec", "spec": spec_of(*transforms)},
            {"action": "set-default-spec", "spec-id": -1},
        ]
        commit = {"requirements": [], "updates": updates}
        answer = world.request("POST", f"{tables}/{table}", json=commit)
        assert answer.status_code == 200, answer.json
        spec = world.own.load_table(("sales", table)).spec()
        assert [field.field_id for field in spec.fields] == ids


def test_what_is_no_spec_is_refused(world: World, name: str) -> None:
    table = name.rpartition(".")[2]
    tables = f"{ROOT}/namespaces/sales/tables"
    body = {"name": table, "schema": SCHEMA}
    assert world.request("POST", tables, json=body).status_code == 200
    odd: list[Any] = [7, [7], [{}], "identity"]
    specs: list[Any] = [*({"fields": fields} for fields in odd), [], 7]
    for spec in specs:
        updates = [{"action": "add-spec", "spec": spec}]
        commit = {"requirements": [], "updates": updates}
        found = world.error("POST", f"{tables}/{table}", commit)
        assert found == (400, "BadRequestException", "INVALID_REQUEST"), spec
        if isinstance(spec, dict):
            wanted = {**body, "name": f"{table}_2", "partition-spec": spec}
            assert world.error("POST", tables, wanted) == found, spec

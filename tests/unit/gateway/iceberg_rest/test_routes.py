"""The Iceberg REST catalog's routes over tables that have no topic.

Goal: every route answers as the specification says, for every table of the backing catalog, knows
its callers, and changes nothing.
Method: a gateway without a broker serves plain tables that PyIceberg made; each answer of the
application is checked against the specification's models while real requests are made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import shutil
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.scan_planning import PlanCompleted
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchTableError
from support import offline
from support.gateway import Gateway
from support.handmade import EQUALITY, File, Handmade, column, with_ids
from support.rest_answers import Watch
from werkzeug.test import TestResponse

from seamline.connectors.config import CatalogConfig
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.model import AccessToken, AuthConfig
from seamline.gateway.iceberg_rest import storage_access
from seamline.gateway.iceberg_rest.routes import SESSIONS_HEADER
from seamline.gateway.iceberg_rest.storage import SnapshotStorage

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "text": [f"t{i % 3}" for i in range(10)]})
TABLE = "/iceberg/v1/lake/namespaces/sales/tables/orders"


class Catalog:
    """A gateway over a catalog of plain tables, its answers watched."""

    def __init__(self, folder: pathlib.Path, *tokens: str) -> None:
        config = offline.config(folder)
        known = tuple(
            AccessToken(name=t, sha256=hashlib.sha256(t.encode()).hexdigest()) for t in tokens
        )
        self.gateway = Gateway(config.model_copy(update={"auth": AuthConfig(tokens=known)}))
        self.watch = Watch(self.gateway.app)
        self.client = self.gateway.app.test_client()
        lake = config.catalogs["lake"]
        self.own = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
        for namespace in ("sales", "sales.north", "empty"):
            self.own.create_namespace(namespace)
        for identifier in ("sales.orders", "sales.north.orders"):
            self.own.create_table(identifier, ROWS.schema).append(ROWS)

    def request(self, method: str, path: str, **options: Any) -> TestResponse:
        """A request as a client on this machine would send it."""
        return self.client.open(path, method=method, base_url="http://127.0.0.1", **options)

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.request("GET", path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json

    def error(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        """Status and type of a request that must fail in the specification's form."""
        answer = self.request(method, path, **options)
        body = answer.json
        assert body is not None
        assert body["error"]["code"] == answer.status_code
        return answer.status_code, body["error"]["type"]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    made = Catalog(tmp_path_factory.mktemp("catalog"))
    yield made
    made.gateway.close()
    assert not made.watch.wrong, made.watch.wrong


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    made = Catalog(tmp_path_factory.mktemp("closed"), "ada", "bob")
    yield made
    made.gateway.close()
    assert not made.watch.wrong, made.watch.wrong


# --- What there is -----------------------------------------------------------------------------


def test_only_what_is_served_is_announced(catalog: Catalog) -> None:
    files = catalog.get("/iceberg/v1/config")
    planned = catalog.get("/iceberg-plan/v1/config?warehouse=lake")
    assert files["overrides"]["prefix"] == planned["overrides"]["prefix"] == "lake"
    writing = [e for e in files["endpoints"] if e.split()[0] in {"POST", "DELETE"}]
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    # the second is refused: a writer that asks removes what it has written
    assert writing == [f"POST {table}/metrics", f"POST {table}"]
    more = set(planned["endpoints"]) - set(files["endpoints"])
    assert {e.rsplit("/", 1)[-1] for e in more} == {"plan", "{plan-id}", "tasks"}
    assert planned["defaults"]["scan-planning-mode"] == "server"
    assert not any("views" in endpoint for endpoint in files["endpoints"])
    assert catalog.error("GET", "/iceberg/v1/config?warehouse=sea") == (
        404,
        "NoSuchWarehouseException",
    )


def test_the_probe_is_a_file_that_is_there(catalog: Catalog) -> None:
    probe = catalog.get("/iceberg/v1/config")["defaults"]["seamline.probe"]
    assert pathlib.Path(probe.removeprefix("file://")).read_text().startswith("A file of")


def test_namespaces_at_every_level(catalog: Catalog) -> None:
    root = "/iceberg/v1/lake/namespaces"
    assert catalog.get(root)["namespaces"] == [["empty"], ["sales"]]
    assert catalog.get(f"{root}?parent=sales")["namespaces"] == [["sales", "north"]]
    assert catalog.get(f"{root}/sales%1Fnorth")["namespace"] == ["sales", "north"]
    assert catalog.request("HEAD", f"{root}/sales%1Fnorth").status_code == 204
    assert catalog.request("HEAD", f"{root}/nowhere").status_code == 404
    assert catalog.error("GET", f"{root}/nowhere") == (404, "NoSuchNamespaceException")
    assert catalog.error("GET", f"{root}?parent=nowhere") == (404, "NoSuchNamespaceException")
    assert catalog.error("GET", "/iceberg/v1/sea/namespaces")[0] == 404


def test_lists_in_pages(catalog: Catalog) -> None:
    root = "/iceberg/v1/lake/namespaces"
    first = catalog.get(f"{root}?pageSize=1&pageToken=")
    second = catalog.get(f"{root}?pageSize=1&pageToken={first['next-page-token']}")
    assert [first["namespaces"], second["namespaces"]] == [[["empty"]], [["sales"]]]
    assert second["next-page-token"] is None


def test_tables_of_a_namespace(catalog: Catalog) -> None:
    root = "/iceberg/v1/lake/namespaces"
    found = catalog.get(f"{root}/sales%1Fnorth/tables")["identifiers"]
    assert found == [{"namespace": ["sales", "north"], "name": "orders"}]
    assert catalog.get(f"{root}/empty/tables")["identifiers"] == []
    assert catalog.error("GET", f"{root}/nowhere/tables") == (404, "NoSuchNamespaceException")


def test_a_plain_table_is_given_as_it_is(catalog: Catalog) -> None:
    own = catalog.own.load_table("sales.orders")
    found = catalog.get(TABLE)
    assert found["metadata-location"] == own.metadata_location
    file = pathlib.Path(own.metadata_location.removeprefix("file://"))
    assert found["metadata"] == json.loads(file.read_text())
    nested = catalog.get("/iceberg/v1/lake/namespaces/sales%1Fnorth/tables/orders")
    assert nested["metadata"]["table-uuid"] != found["metadata"]["table-uuid"]


def test_a_table_that_is_there_and_one_that_is_not(catalog: Catalog) -> None:
    assert catalog.request("HEAD", TABLE).status_code == 204
    for path in ("sales/tables/none", "nowhere/tables/none", "sales%1Forders/tables/files"):
        full = f"/iceberg/v1/lake/namespaces/{path}"
        assert catalog.request("HEAD", full).status_code == 404
        # a client looks for metadata tables this way, and must hear that there is no such table
        assert catalog.error("GET", full) == (404, "NoSuchTableException")


def test_a_client_is_told_no_more_than_it_has_asked_for(catalog: Catalog) -> None:
    """DuckDB treats whatever it is given as credentials, and then requires a region with them."""
    assert catalog.get(TABLE)["config"] == {}
    planned = catalog.get(TABLE.replace("/iceberg/", "/iceberg-plan/"))["config"]
    assert planned == {"scan-planning-mode": "server"}
    session = catalog.get(TABLE, headers={SESSIONS_HEADER: "1"})["config"]
    assert list(session) == ["token"]


def test_a_tag_spares_the_metadata(catalog: Catalog) -> None:
    first = catalog.request("GET", f"{TABLE}?snapshots=all")
    tag = first.headers["ETag"]
    again = catalog.request("GET", f"{TABLE}?snapshots=all", headers={"If-None-Match": tag})
    assert again.status_code == 304
    assert again.headers["ETag"] == tag
    catalog.own.load_table("sales.orders").append(ROWS)
    changed = catalog.request("GET", f"{TABLE}?snapshots=all", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag


def test_only_snapshots_that_are_referred_to(catalog: Catalog) -> None:
    table = catalog.own.load_table("sales.orders")
    table.append(ROWS)
    everything = catalog.get(f"{TABLE}?snapshots=all")["metadata"]
    referred = catalog.get(f"{TABLE}?snapshots=refs")["metadata"]
    assert len(everything["snapshots"]) > 1
    ids = [s["snapshot-id"] for s in referred["snapshots"]]
    assert ids == [everything["current-snapshot-id"]]
    assert {**everything, "snapshots": []} == {**referred, "snapshots": []}
    assert catalog.error("GET", f"{TABLE}?snapshots=some") == (400, "BadRequestException")


def test_metrics_are_taken(catalog: Catalog) -> None:
    report = {"report-type": "scan-report", "table-name": "orders"}
    assert catalog.request("POST", f"{TABLE}/metrics", json=report).status_code == 204
    assert catalog.error("POST", f"{TABLE}/metrics", data=b"[]") == (400, "BadRequestException")
    elsewhere = TABLE.replace("orders", "none")
    assert catalog.error("POST", f"{elsewhere}/metrics", json=report)[0] == 404


def test_views_are_absent_where_the_catalog_has_none(catalog: Catalog) -> None:
    views = "/iceberg/v1/lake/namespaces/sales/views"
    assert catalog.request("GET", views).json == {"identifiers": []}
    assert catalog.error("GET", views.replace("sales", "none"))[1] == "NoSuchNamespaceException"
    assert catalog.error("GET", f"{views}/some") == (404, "NoSuchViewException")
    assert catalog.request("HEAD", f"{views}/some").status_code == 404


def test_unknown_paths_fail_in_form(catalog: Catalog) -> None:
    assert catalog.error("GET", "/iceberg/v1/lake/functions")[0] == 404
    assert catalog.error("GET", "/iceberg/v2/config")[0] == 404


# --- Nothing changes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "lake/namespaces"),
        ("DELETE", "lake/namespaces/empty"),
        ("POST", "lake/namespaces/sales/properties"),
        ("POST", "lake/namespaces/sales/tables"),
        ("POST", "lake/namespaces/sales/tables/orders"),
        ("DELETE", "lake/namespaces/sales/tables/orders"),
        ("POST", "lake/namespaces/sales/register"),
        ("POST", "lake/tables/rename"),
        ("POST", "lake/transactions/commit"),
        ("POST", "lake/namespaces/sales/views"),
        ("DELETE", "lake/namespaces/sales/views/some"),
    ],
)
@pytest.mark.parametrize("root", ["iceberg", "iceberg-plan"])
def test_writes_are_refused(catalog: Catalog, root: str, method: str, path: str) -> None:
    before = catalog.own.load_table("sales.orders").metadata_location
    answer = catalog.request(method, f"/{root}/v1/{path}", json={"requirements": [], "updates": []})
    assert answer.status_code == 403
    assert answer.json is not None
    assert answer.json["error"]["type"] == "ForbiddenException"
    assert "CATALOG_READ_ONLY" in answer.json["error"]["message"]
    assert catalog.own.load_table("sales.orders").metadata_location == before


def test_tokens_are_refused_in_the_form_of_oauth(catalog: Catalog) -> None:
    form = {"grant_type": "client_credentials", "client_id": "ann", "client_secret": "x"}
    answer = catalog.request("POST", "/iceberg/v1/oauth/tokens", data=form)
    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["error"] == "unsupported_grant_type"
    assert "token" in answer.json["error_description"]


def test_a_method_that_is_not_taken_is_answered_with_those_that_are(catalog: Catalog) -> None:
    for path in ("/iceberg/v1/config", "/api/v1/info"):
        answer = catalog.request("TRACE", path)
        assert answer.status_code == 405
        assert "GET" in answer.headers["Allow"].split(", ")


def test_pyiceberg_refuses_by_itself(catalog: Catalog) -> None:
    rest = RestCatalog("live", uri=f"{catalog.gateway.url}/iceberg")
    table = rest.load_table("sales.orders")
    assert table.scan().to_arrow().num_rows >= 10
    with pytest.raises(NotImplementedError, match="does not support endpoint"):
        rest.drop_table("sales.orders")
    with pytest.raises(NoSuchTableError):
        rest.load_table("sales.none")


# --- Planned scans -----------------------------------------------------------------------------

PLAN = TABLE.replace("/iceberg/", "/iceberg-plan/")


def test_a_plan_is_pruned_and_says_what_is_left_to_filter(catalog: Catalog) -> None:
    condition = {"type": "eq", "term": "id", "value": 500}
    nothing = catalog.request("POST", f"{PLAN}/plan", json={"filter": condition}).json
    assert nothing is not None
    assert nothing["status"] == "completed"
    assert nothing["file-scan-tasks"] == []
    some = {"type": "lt", "term": "id", "value": 5}
    found = catalog.request("POST", f"{PLAN}/plan", json={"filter": some, "select": ["text"]}).json
    assert found is not None
    assert [t["residual-filter"] for t in found["file-scan-tasks"]] == [some] * len(
        found["file-scan-tasks"]
    )
    planned = RestCatalog("planned", uri=f"{catalog.gateway.url}/iceberg-plan")
    scan = planned.load_table("sales.orders").scan(row_filter="id = 3")
    assert set(scan.to_arrow()["id"].to_pylist()) == {3}


def test_statistics_only_where_they_are_asked_for(catalog: Catalog) -> None:
    plain = catalog.request("POST", f"{PLAN}/plan", json={}).json
    asked = catalog.request("POST", f"{PLAN}/plan", json={"stats-fields": ["id"]}).json
    assert plain is not None
    assert asked is not None
    assert "lower-bounds" not in plain["file-scan-tasks"][0]["data-file"]
    bounds = asked["file-scan-tasks"][0]["data-file"]["lower-bounds"]
    assert bounds == {"keys": [1], "values": ["0000000000000000"]}


def test_plans_are_what_other_models_of_the_specification_expect(catalog: Catalog) -> None:
    condition = {"type": "lt", "term": "id", "value": 5}
    asked = {"filter": condition, "stats-fields": ["id", "text"]}
    found = catalog.request("POST", f"{PLAN}/plan", json=asked).json
    assert found is not None
    plan = PlanCompleted.model_validate(found)
    files = [task.data_file for task in plan.file_scan_tasks]
    assert len(files) == len(found["file-scan-tasks"]) > 0
    for file, task in zip(files, found["file-scan-tasks"], strict=True):
        assert file.record_count == task["data-file"]["record-count"] > 0
        assert file.lower_bounds is not None
        assert file.lower_bounds.to_dict().keys() == {1, 2}


def test_a_limit_needs_no_more_files_than_hold_it(catalog: Catalog) -> None:
    catalog.own.load_table("sales.orders").append(ROWS)
    everything = catalog.request("POST", f"{PLAN}/plan", json={}).json
    enough = catalog.request("POST", f"{PLAN}/plan", json={"min-rows-requested": 5}).json
    assert everything is not None
    assert enough is not None
    assert len(enough["file-scan-tasks"]) == 1 < len(everything["file-scan-tasks"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"filter": {"type": "eq", "term": "none", "value": 1}}, (400, "BadRequestException")),
        ({"filter": {"type": "eq", "term": "id", "value": "x"}}, (400, "BadRequestException")),
        ({"filter": 7}, (400, "BadRequestException")),
        ({"snapshot-id": "x"}, (400, "BadRequestException")),
        ({"snapshot-id": "1"}, (400, "BadRequestException")),
        ({"select": "text"}, (400, "BadRequestException")),
        ({"select": ["text", 1]}, (400, "BadRequestException")),
        ({"case-sensitive": "no"}, (400, "BadRequestException")),
        ({"min-rows-requested": 1.5}, (400, "BadRequestException")),
        ({"min-rows-requested": 10**30}, (400, "BadRequestException")),
        ({"stats-fields": [1]}, (400, "BadRequestException")),
        ({"snapshot-id": 1}, (404, "NotFoundException")),
        (
            {"filter": {"type": "apply", "function": "f", "arguments": []}},
            (406, "UnsupportedOperationException"),
        ),
        ({"start-snapshot-id": 1, "end-snapshot-id": 2}, (406, "UnsupportedOperationException")),
    ],
)
def test_a_plan_that_cannot_be_made(
    catalog: Catalog, body: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert catalog.error("POST", f"{PLAN}/plan", json=body) == expected


def test_a_plan_can_be_asked_for_and_let_go(catalog: Catalog) -> None:
    made = catalog.request("POST", f"{PLAN}/plan", json={}).json
    assert made is not None
    path = f"{PLAN}/plan/{made['plan-id']}"
    again = catalog.get(path)
    assert again["file-scan-tasks"] == made["file-scan-tasks"]
    assert catalog.request("DELETE", path).status_code == 204
    assert catalog.get(path) == {"status": "cancelled"}
    page = {"plan-task": f"{made['plan-id']}.0"}
    assert catalog.error("POST", f"{PLAN}/tasks", json=page) == (404, "NoSuchPlanIdException")
    assert catalog.error("GET", f"{PLAN}/plan/none") == (404, "NoSuchPlanIdException")
    elsewhere = PLAN.replace("/sales/", "/sales%1Fnorth/")
    assert catalog.error("GET", f"{elsewhere}/plan/{made['plan-id']}")[0] == 404


# --- Who asks ----------------------------------------------------------------------------------


def bearer(token: str, **headers: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}", **headers}}


def test_callers_are_known(closed: Catalog) -> None:
    assert closed.error("GET", "/iceberg/v1/config") == (401, "NotAuthorizedException")
    assert closed.error("GET", TABLE, **bearer("eve")) == (401, "NotAuthorizedException")
    assert closed.get(TABLE, **bearer("ada"))["metadata"]
    rest = RestCatalog(
        "live", uri=f"{closed.gateway.url}/iceberg", token="ada", **{"oauth2-server-uri": "none"}
    )
    assert rest.load_table("sales.orders").scan().to_arrow().num_rows == 10


def test_a_tables_session_is_good_for_that_table_only(closed: Catalog) -> None:
    session = closed.get(TABLE, **bearer("ada", **{SESSIONS_HEADER: "1"}))["config"]["token"]
    assert closed.get(TABLE, **bearer(session))["metadata"]
    others = TABLE.replace("/sales/", "/sales%1Fnorth/")
    for path in (others, "/iceberg/v1/config", "/iceberg/v1/lake/namespaces"):
        assert closed.error("GET", path, **bearer(session))[0] == 401
    assert closed.error("GET", TABLE, **bearer(session + "x"))[0] == 401
    assert closed.request("GET", "/api/v1/statements", **bearer(session)).status_code == 401


def test_a_plan_is_its_principals_own(closed: Catalog) -> None:
    made = closed.request("POST", f"{PLAN}/plan", json={}, **bearer("ada")).json
    assert made is not None
    path = f"{PLAN}/plan/{made['plan-id']}"
    assert closed.error("GET", path, **bearer("bob")) == (404, "NoSuchPlanIdException")
    assert closed.get(path, **bearer("ada"))["status"] == "completed"


def test_another_name_for_this_machine_is_not_answered(catalog: Catalog) -> None:
    answer = catalog.client.get("/iceberg/v1/config", base_url="http://rebound.example")
    assert answer.status_code == 403
    assert answer.json is not None
    assert answer.json["error"]["type"] == "ForbiddenException"


def test_every_route_was_asked(catalog: Catalog) -> None:
    """Kept last: each route that is announced has been answered, and checked, at least once."""
    answered = {(method, status) for method, _, status in catalog.watch.seen}
    assert {("GET", 200), ("GET", 304), ("HEAD", 204), ("POST", 204), ("DELETE", 204)} <= answered


# --- Object storage ------------------------------------------------------------------------------

STORAGE = {
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.access-key-id": "the gateway's",
    "s3.secret-access-key": "the gateway's secret",
    "s3.path-style-access": "true",
}
READERS = {"s3.access-key-id": "readers'", "s3.secret-access-key": "readers' secret"}


@pytest.mark.parametrize("readers", [{}, READERS], ids=["no keys", "keys"])
def test_a_reader_is_given_its_own_keys_and_only_if_it_asks(readers: dict[str, str]) -> None:
    lake = CatalogConfig(
        name="lake",
        type="sql",
        uri="sqlite://",
        warehouse="s3://lake/warehouse",
        properties=STORAGE,
        reader_properties=readers,
    )
    address = {
        "s3.endpoint": "http://127.0.0.1:1",
        "s3.path-style-access": "true",
        "s3.region": "us-east-1",
        "client.region": "us-east-1",
    }
    assert storage_access.addresses(lake, "s3a://lake/warehouse/t") == address
    assert storage_access.addresses(lake, "file:///warehouse/t") == {}
    locations = ("s3a://lake/warehouse/t", "file:///warehouse/t", "s3://lake/_seamline/", "/t")
    prefixes = ["s3a://lake/warehouse/t/", "s3://lake/_seamline/"] if readers else []
    assert storage_access.credentials(lake, locations) == [
        {"prefix": prefix, "config": {**address, **readers}} for prefix in prefixes
    ]


@pytest.mark.parametrize(
    ("header", "asks"),
    [
        (None, False),
        ("", False),
        ("remote-signing", False),
        ("vended-credentials", True),
        ("Vended-Credentials,remote-signing", True),
        ("remote-signing, vended-credentials", True),
    ],
)
def test_what_a_reader_takes(header: str | None, asks: bool) -> None:
    assert storage_access.asks_for_credentials(header) is asks


def test_files_of_this_machine_need_no_keys(catalog: Catalog) -> None:
    vended = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    assert "storage-credentials" not in catalog.get(TABLE, headers=vended)
    assert catalog.get(f"{TABLE}/credentials") == {"storage-credentials": []}
    none = catalog.error("GET", "/iceberg/v1/lake/namespaces/sales/tables/none/credentials")
    assert none == (404, "NoSuchTableException")


@pytest.mark.parametrize(
    ("warehouse", "locations", "table", "folder"),
    [
        ("s3://lake/warehouse", (), None, "s3://lake/warehouse/_seamline/"),
        ("s3://lake/warehouse/", (), "s3a://lake/else/t", "s3://lake/warehouse/_seamline/"),
        ("main", ("s3://a/x", "s3://b/y"), "s3://b/y/t", "s3://b/y/_seamline/"),
        ("main", ("s3://a/x",), "s3://b/y/t", None),
        ("main", (), "s3://b/y/t", None),
        ("/warehouse", (), "s3://b/y/t", None),
        ("/warehouse", (), None, "file:"),
    ],
)
def test_where_our_own_files_go(
    tmp_path: pathlib.Path,
    warehouse: str,
    locations: tuple[str, ...],
    table: str | None,
    folder: str | None,
) -> None:
    config = offline.config(tmp_path, state_directory=str(tmp_path / "state"))
    lake = CatalogConfig(
        name="lake", type="rest", uri="http://127.0.0.1:1", warehouse=warehouse, locations=locations
    )
    config = config.model_copy(update={"catalogs": {"lake": lake}})
    with contextlib.closing(Connections(config)) as connections:
        storage = SnapshotStorage(config, connections)
        if folder is not None:
            assert storage.folder("lake", table).startswith(folder)
            return
        with pytest.raises(SeamlineError) as caught:
            storage.folder("lake", table)
    assert caught.value.code is INVALID_CONFIG


# --- Beside each other -------------------------------------------------------------------------


def _seen(catalog: Catalog, agent: str, query: str = "", table: str = "beside") -> int:
    """The snapshot that a client of a program is given."""
    path = f"/iceberg/v1/lake/namespaces/sales/tables/{table}{query}"
    found = catalog.get(path, headers={"User-Agent": agent})
    return int(found["metadata"]["current-snapshot-id"])


def test_a_statement_of_one_client_holds_nothing_back_from_others(catalog: Catalog) -> None:
    table = catalog.own.create_table("sales.beside", ROWS.schema)
    table.append(ROWS)
    before = _seen(catalog, "java", "?snapshots=all")
    table.append(ROWS)
    now = table.refresh().metadata.current_snapshot_id
    assert now != before
    assert _seen(catalog, "python") == now
    assert _seen(catalog, "java") == before, "its statement goes on"


# --- Odd tables --------------------------------------------------------------------------------


def _planned(catalog: Catalog, table: str, asked: dict[str, Any] | None = None) -> list[Any]:
    path = f"/iceberg-plan/v1/lake/namespaces/sales/tables/{table}/plan"
    answer = catalog.request("POST", path, json=asked or {})
    assert answer.status_code == 200, answer.text
    found = json.loads(answer.text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    return list(found["file-scan-tasks"])


def test_files_of_a_partition_whose_column_was_dropped_are_planned(catalog: Catalog) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "a": ["x", "y"]})
    table = catalog.own.create_table("sales.dropped", rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("a")
    table.append(rows)
    with table.update_spec() as spec:
        spec.remove_field("a")
    with table.update_schema() as schema:
        schema.delete_column("a")
    table.append(rows.select(["id"]))
    found = _planned(catalog, "dropped")
    assert sorted(len(task["data-file"]["partition"]) for task in found) == [0, 1, 1]
    assert {value for task in found for value in task["data-file"]["partition"]} == {None}


def _partitioned(catalog: Catalog, name: str, type_: str, values: Sequence[Any]) -> None:
    """Registers a table by somebody else, with a file of one row for each value of a partition."""
    field = {"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}
    schema = [column(1, "id", "long"), column(2, "p", type_)]
    folder = pathlib.Path(catalog.gateway.config.state_directory) / ".." / "warehouse" / name
    made = Handmade(folder.resolve(), [schema], specs=[[field]])
    rows = with_ids(pa.table({"id": pa.array([1], pa.int64())}), {"id": 1})
    location = made.write([File(rows, partition={"p": value}) for value in values])
    catalog.own.register_table(("sales", name), location)


def test_a_partition_that_is_no_number_is_null(catalog: Catalog) -> None:
    _partitioned(catalog, "nan", "double", [float("nan"), 0.5, 1.5])
    found = [task["data-file"]["partition"] for task in _planned(catalog, "nan")]
    assert sorted(found, key=str) == [[0.5], [1.5], [None]]
    asked = {"filter": {"type": "gt-eq", "term": "p", "value": 1.0}}
    found = [task["data-file"]["partition"] for task in _planned(catalog, "nan", asked)]
    assert sorted(found, key=str) == [[1.5], [None]], "to others it is the greatest number"


def test_a_condition_on_the_partition_leaves_out_the_others_whatever_its_type(
    catalog: Catalog,
) -> None:
    """Engines that plan here do not ask it again: they count the rows of what is left."""
    ids = [uuid.UUID(int=number << 120) for number in (1, 2, 0xF0)]
    _partitioned(catalog, "tenants", "uuid", [one.bytes for one in ids])
    assert len(_planned(catalog, "tenants")) == 3
    for one in ids:
        asked = {"filter": {"type": "eq", "term": "p", "value": str(one)}}
        (task,) = _planned(catalog, "tenants", asked)
        assert task["data-file"]["partition"] == [str(one)]
        asked = {"filter": {"type": "not-eq", "term": "p", "value": str(one)}}
        assert len(_planned(catalog, "tenants", asked)) == 2


# --- Pages that are not there ------------------------------------------------------------------


def test_a_token_continues_a_list_or_is_refused(catalog: Catalog) -> None:
    root = "/iceberg/v1/lake/namespaces"
    first = catalog.get(f"{root}?pageSize=1&pageToken=")
    rest = catalog.get(f"{root}?pageToken={first['next-page-token']}")["namespaces"]
    assert first["namespaces"] + rest == catalog.get(root)["namespaces"]
    for token in ("x", "-1", "9" * 5000):
        assert catalog.error("GET", f"{root}?pageToken={token}") == (400, "BadRequestException")


def test_a_page_past_the_last_one_of_a_plan_is_not_there(catalog: Catalog) -> None:
    plan = "/iceberg-plan/v1/lake/namespaces/sales/tables/orders"
    made = json.loads(catalog.request("POST", f"{plan}/plan", json={}).text)["plan-id"]
    for number in ("1", "77", "9" * 5000, "x", ""):
        asked = {"plan-task": f"{made}.{number}"}
        assert catalog.error("POST", f"{plan}/tasks", json=asked)[0] == 404, number


def test_a_folder_that_cannot_be_written_is_an_error_by_name(tmp_path: pathlib.Path) -> None:
    made = Catalog(tmp_path)
    with contextlib.closing(made.gateway):
        probe = made.get("/iceberg/v1/config")["defaults"]["seamline.probe"]
        folder = pathlib.Path(probe.removeprefix("file://")).parent
        shutil.rmtree(folder)
        folder.write_text("in its place")
        answer = made.request("GET", "/iceberg/v1/config")
    assert answer.status_code == 503
    assert "STORAGE_UNAVAILABLE" in answer.text


@pytest.mark.parametrize("error", [BadRequestError, ForbiddenError, None])
def test_a_catalog_of_one_level_has_nothing_below(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None
) -> None:
    listed = SqlCatalog.list_namespaces

    def flat(self: SqlCatalog, namespace: Any = ()) -> Any:
        if not namespace:
            return listed(self)
        if error is None:
            return [("sales",), ("empty",)]
        raise error("one level")

    monkeypatch.setattr(SqlCatalog, "list_namespaces", flat)
    assert catalog.get("/iceberg/v1/lake/namespaces?parent=sales")["namespaces"] == []


def test_a_plain_table_needs_no_folder_of_ours(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the warehouse of a catalog is a name, which says no place."""

    def folder(*_: Any) -> str:
        raise SeamlineError(INVALID_CONFIG, "no folder is known")

    monkeypatch.setattr(SnapshotStorage, "folder", folder)
    assert catalog.get(TABLE)["metadata"]["current-snapshot-id"] is not None


def test_deletes_of_a_spec_that_says_nothing_any_more_are_of_the_whole_table(
    catalog: Catalog,
) -> None:
    """A table of version 1 keeps a dropped partition field as `void`."""
    field = {"name": "p", "source-id": 2, "field-id": 1000}
    specs = [[{**field, "transform": "identity"}], [{**field, "transform": "void"}]]
    schema = [column(1, "id", "long"), column(2, "p", "long")]
    folder = pathlib.Path(catalog.gateway.config.state_directory) / ".." / "warehouse" / "voided"
    made = Handmade(folder.resolve(), [schema], specs=specs)
    rows = with_ids(pa.table({"id": pa.array([1], pa.int64())}), {"id": 1})
    deleted = File(rows, EQUALITY, partition={"p": None}, equality_ids=(1,), snapshot=2, spec=1)
    location = made.write([File(rows, partition={"p": 5}), deleted])
    catalog.own.register_table(("sales", "voided"), location)
    (task,) = _planned(catalog, "voided")
    assert task["delete-file-references"] == [0]

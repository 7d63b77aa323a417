"""Goal: nothing that a table says of itself chooses code, an address or a credential.

Method: tables are given, by somebody else, every property by which PyIceberg, Iceberg or Spark
choose such a thing; the names are taken from these libraries. The module that the properties name
reports when it is imported, and an address when it is contacted. Every way to read such a table
continues and knows the configuration alone; ways to write it, where a property would lead
elsewhere, are refused by name; and what other engines are given of it has none of those properties.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import json
import pathlib
import pkgutil
import re
import sys
import threading
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pyiceberg.io
import pytest
from pyiceberg.catalog import Catalog as PyCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from support import offline
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.metadata_properties import readable_by_others
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.jvm.jars import spark_jars
from seamline.connectors.spark.splits import Options, Table
from seamline.errors import SeamlineError
from seamline.seam.boundary import Boundary
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, Seam

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


class Trap:
    """A module that reports being imported, and an address that reports being contacted."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.module = f"trap_{uuid.uuid4().hex}"
        folder.mkdir(exist_ok=True)
        self._marker = folder / f"{self.module}.imported"
        (folder / f"{self.module}.py").write_text(
            f"import pathlib\npathlib.Path({str(self._marker)!r}).touch()\n"
            "class Anything:\n    def __init__(self, *given): pass\n"
        )
        sys.path.insert(0, str(folder))
        self.requests: list[str] = []
        trap = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                trap.requests.append(f"{self.path} {dict(self.headers)}")
                self.send_error(404)

            do_POST = do_GET  # noqa: N815 - http.server's name

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._path = str(folder)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def sprung(self) -> bool:
        return self._marker.exists() or self.module in sys.modules or bool(self.requests)

    def properties(self) -> dict[str, str]:
        """Every property by which a library would choose something: the trap, in each."""
        code, place = f"{self.module}.Anything", f"{self.url}/x"
        found = {name: code if "impl" in name else place for name in chosen_by_libraries()}
        return {**found, **dict.fromkeys(CODE, code)}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        sys.path.remove(self._path)


CODE = ("py-io-impl", "io-impl")
WRITER_PLACES = (
    "write.data.path", "write.metadata.path", "write.object-storage.path",
    "write.folder-storage.path",
)  # fmt: skip
BOUNDARY = Boundary(
    snapshot_id=1,
    cluster_id="c",
    topic="t",
    topic_id="id",
    isolation="read_committed",
    start=Offsets({0: 0}),
    next=Offsets({0: 0}),
    max_timestamp_ms=Offsets(),
)
WRITER_CODE = ("write.py-location-provider.impl", "write.location-provider.impl")


def chosen_by_libraries() -> set[str]:
    """Names of properties by which PyIceberg's file access chooses anything at all."""
    found = {
        value
        for module in (pyiceberg.io, importlib.import_module("pyiceberg.catalog"))
        for name, value in vars(module).items()
        if name.isupper()
        and isinstance(value, str)
        and re.fullmatch(r"[a-z0-9]+([.-][\w-]+)+", value)
    }
    named = {name for name in found if not name.startswith(("pyiceberg.", "downcast-"))}
    return {*named, "uri", "token", "credential"}


@pytest.fixture
def trap(tmp_path: pathlib.Path) -> Iterator[Trap]:
    made = Trap(tmp_path / "trap")
    yield made
    made.close()


def config(folder: pathlib.Path) -> CatalogConfig:
    return offline.config(folder).catalogs["lake"]


@contextlib.contextmanager
def written_by_others(
    folder: pathlib.Path, properties: Mapping[str, str], name: str = "default.t"
) -> Iterator[SqlCatalog]:
    """A table with those properties, as another writer's commit leaves it in the catalog."""
    lake = config(folder)
    catalog = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
    catalog.create_namespace_if_not_exists("default")
    table = catalog.create_table(name, ROWS.schema)
    table.append(ROWS)
    rewrite(catalog, name.split(".")[1], lambda body: body["properties"].update(properties))
    yield catalog


def metadata_of(catalog: SqlCatalog, name: str = "t") -> pathlib.Path:
    """A table's metadata file, as the catalog's own table of tables says."""
    with catalog.engine.connect() as connection:
        query = f"SELECT metadata_location FROM iceberg_tables WHERE table_name = '{name}'"
        (location,) = connection.exec_driver_sql(query).one()
    return pathlib.Path(location.removeprefix("file://"))


def rewrite(catalog: SqlCatalog, name: str, change: Any) -> None:
    """Changes a table's metadata file in its place: none of our libraries is involved."""
    path = metadata_of(catalog, name)
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


# --- Reading -------------------------------------------------------------------------------------


def test_reading_a_table_takes_nothing_of_its_properties(
    tmp_path: pathlib.Path, trap: Trap
) -> None:
    with written_by_others(tmp_path, trap.properties()):
        gateway = Gateway(offline.config(tmp_path))
        with contextlib.closing(gateway):
            assert gateway.rows("SELECT count(*), max(id) FROM t", "duckdb") == [(10, 9)]
            assert gateway.rows("DESCRIBE t")
            assert gateway.rows('SELECT count(*) FROM "t$files"') == [(1,)]
            assert gateway.rows("SHOW CREATE TABLE t")
            client = gateway.app.test_client()
            for path in ("iceberg", "iceberg-plan"):
                answer = client.get(
                    f"/{path}/v1/lake/namespaces/default/tables/t", base_url="http://127.0.0.1"
                )
                assert answer.status_code == 200, answer.text
            assert not trap.sprung


def test_files_are_reached_as_the_configuration_says(tmp_path: pathlib.Path, trap: Trap) -> None:
    with written_by_others(tmp_path, trap.properties()):
        catalog = IcebergCatalog(config(tmp_path))
        table = catalog.load(("default", "t"))
        assert set(trap.properties()) <= set(table.state.properties), "they are the table's still"
        assert dict(table.file_access.properties) == dict(catalog.pyiceberg.properties)
        again = catalog.load(("default", "t"))  # from what was kept
        assert dict(again.file_access.properties) == dict(catalog.pyiceberg.properties)
        assert not trap.sprung


def test_the_data_source_takes_nothing_of_a_tables_properties(
    tmp_path: pathlib.Path, trap: Trap
) -> None:
    with written_by_others(tmp_path, trap.properties()) as catalog:
        location = metadata_of(catalog)
        snapshot_id = json.loads(location.read_text())["current-snapshot-id"]
        own = {"url": "http://127.0.0.1:1", "table": "t", "iceberg.s3.region": "here"}
        seam = Seam(("lake", "default", "t"), "", schema_id=0, cold=ColdPart(snapshot_id))
        placed = Table(seam, location.as_uri(), None, Options.of(own))
        (split,) = placed.cold_splits(None)
        assert sum(batch.num_rows for batch in split.read()) == 10
        assert dict(split.scan.file_access.properties) == {"s3.region": "here"}
        assert not trap.sprung


class Vended(BaseHTTPRequestHandler):
    """A REST catalog of one table, which gives out an address and a key of its own for it."""

    table: Mapping[str, Any]
    config: Mapping[str, str]

    def do_GET(self) -> None:
        answer = self.table if "/tables/" in self.path else {"defaults": {}, "overrides": {}}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def test_a_rest_catalog_gives_what_a_table_cannot(tmp_path: pathlib.Path, trap: Trap) -> None:
    """What the catalog itself hands out with a table comes from the catalog, and is used."""
    vended = {"s3.endpoint": "http://vended.example", "s3.access-key-id": "vended"}
    with written_by_others(tmp_path, trap.properties()) as own:
        location = metadata_of(own)
        body = json.loads(location.read_text())
        answer = {"metadata-location": location.as_uri(), "metadata": body, "config": vended}
        handler = type("Handler", (Vended,), {"table": answer})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            rest = CatalogConfig(
                name="lake",
                type="rest",
                uri=url,
                properties={"s3.region": "here"},
                locations=(config(tmp_path).warehouse,),
            )
            loaded = IcebergCatalog(rest).load(("default", "t"))
            given = loaded.file_access.properties
            assert vended.items() <= given.items()
            assert given["s3.region"] == "here"
            assert not [name for name, value in given.items() if "trap_" in str(value)]
            assert not [name for name, value in given.items() if trap.url in str(value)]
            assert set(trap.properties()) <= set(loaded.state.properties)
            assert not trap.sprung
        finally:
            server.shutdown()
            server.server_close()


@pytest.mark.parametrize("kind", ["sql", "in-memory"])
def test_no_kind_of_catalog_takes_a_tables_properties(
    tmp_path: pathlib.Path, trap: Trap, kind: str
) -> None:
    lake = config(tmp_path)
    uri = lake.uri if kind == "sql" else "sqlite:///:memory:"
    catalog = IcebergCatalog(lake.model_copy(update={"type": kind, "uri": uri})).pyiceberg
    access = catalog._load_file_io(trap.properties(), f"{lake.warehouse}/default/t/metadata/x")
    assert dict(access.properties) == dict(catalog.properties)
    assert not trap.sprung


def test_catalogs_reach_files_of_tables_in_one_way_only() -> None:
    """What is fixed in `_load_file_io` holds for every catalog of PyIceberg's while this does.

    Whatever else makes a file access in a catalog is given the catalog's own properties alone.
    """
    calls = []
    for info in pkgutil.walk_packages(pyiceberg.catalog.__path__, "pyiceberg.catalog."):
        spec = importlib.util.find_spec(info.name)
        assert spec is not None
        assert spec.origin is not None
        tree = ast.parse(pathlib.Path(spec.origin).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "load_file_io":
                given = ast.unparse(node.args[0] if node.args else node.keywords[0].value)
                calls.append((info.name, given))
    catalog = ast.parse(inspect.getsource(pyiceberg.catalog))
    calls += [
        ("pyiceberg.catalog", ast.unparse(node.args[0]))
        for node in ast.walk(catalog)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "load_file_io"
    ]
    inside = {"{**self.properties, **properties}", "merged_properties"}
    assert {given for _, given in calls} <= {"self.properties", *inside}
    assert len([given for _, given in calls if given in inside]) == 2


# --- Writing -------------------------------------------------------------------------------------


def test_a_table_that_chooses_its_writers_code_is_not_written(
    tmp_path: pathlib.Path, trap: Trap
) -> None:
    name = WRITER_CODE[0]
    properties = {name: f"{trap.module}.Anything", "seamline.topic": "t"}
    with written_by_others(tmp_path, properties) as own:
        before = metadata_of(own)
        table = IcebergCatalog(config(tmp_path)).load(("default", "t"))
        writes = (
            functools.partial(commits.set_properties, table, {"a": "b"}),
            functools.partial(
                commits.create_tag, table, "x", table.state.current_snapshot_id or 0, 1000
            ),
            functools.partial(commits.remove_refs, table, ["main"]),
        )
        for write in writes:
            with pytest.raises(SeamlineError) as caught:
                write()
            assert caught.value.code.name == "PROPERTY_NOT_ALLOWED"
            assert name in caught.value.message
        assert metadata_of(own) == before
        assert not trap.sprung
        with contextlib.closing(Gateway(offline.config(tmp_path))) as gateway:
            assert gateway.rows('SELECT count(*) FROM "t$snapshots"') == [(1,)]
        assert not trap.sprung


@pytest.mark.parametrize("name", WRITER_PLACES)
def test_a_table_that_leads_its_writers_elsewhere_is_not_written(
    tmp_path: pathlib.Path, name: str
) -> None:
    elsewhere = tmp_path / "else"
    with written_by_others(tmp_path, {name: elsewhere.as_uri(), "seamline.topic": "t"}) as own:
        before = metadata_of(own)
        table = IcebergCatalog(config(tmp_path)).load(("default", "t"))
        for write in (
            functools.partial(commits.set_properties, table, {"a": "b"}),
            functools.partial(commits.commit_boundary, table, BOUNDARY),
        ):
            with pytest.raises(SeamlineError, match=name) as caught:
                write()
            assert caught.value.code.name == "PROPERTY_NOT_ALLOWED"
        assert metadata_of(own) == before
        assert not elsewhere.exists()
        with contextlib.closing(Gateway(offline.config(tmp_path))) as gateway:
            assert gateway.rows('SELECT count(*) FROM "t$snapshots"') == [(1,)]


def test_writers_may_be_led_to_places_that_the_configuration_names(tmp_path: pathlib.Path) -> None:
    elsewhere = (tmp_path / "else").as_uri()
    lake = config(tmp_path)
    with written_by_others(tmp_path, {"write.metadata.path": f"{elsewhere}/t"}):
        catalog = IcebergCatalog(lake.model_copy(update={"data_locations": (elsewhere,)}))
        commits.set_properties(catalog.load(("default", "t")), {"a": "b"})
        assert catalog.load(("default", "t")).state.metadata_location.startswith(elsewhere)
    with written_by_others(
        tmp_path, {"write.data.path": f"{lake.warehouse}/default/u/d"}, "default.u"
    ):
        commits.set_properties(IcebergCatalog(lake).load(("default", "u")), {"a": "b"})


# --- What other engines are given ----------------------------------------------------------------


def test_other_engines_are_not_given_what_would_lead_them_elsewhere(
    tmp_path: pathlib.Path, trap: Trap
) -> None:
    harmless = {"comment": "a table", "team": "sales", "write.format.default": "parquet"}
    given = {**trap.properties(), **harmless, WRITER_CODE[0]: f"{trap.module}.Anything"}
    with (
        written_by_others(tmp_path, given),
        contextlib.closing(Gateway(offline.config(tmp_path))) as gateway,
    ):
        rest = RestCatalog("live", uri=f"{gateway.url}/iceberg")
        table = rest.load_table("default.t")
        assert table.scan().to_arrow().num_rows == 10
        assert not trap.sprung
        left = {n for n, v in table.properties.items() if trap.url in v or trap.module in v}
        assert left == set()
        assert harmless.items() <= table.properties.items()


def test_every_property_that_pyiceberg_takes_is_left_out() -> None:
    named = dict.fromkeys((*chosen_by_libraries(), *CODE, *WRITER_CODE), "x")
    assert readable_by_others(named) == {}


@pytest.mark.spark
def test_every_property_by_which_iceberg_chooses_code_is_known() -> None:
    """The names are the constants of Iceberg's own class of table properties."""
    (jar,) = (j for j in spark_jars(print) if j.name.startswith("iceberg-spark-runtime"))
    with zipfile.ZipFile(jar) as archive:
        constants = archive.read("org/apache/iceberg/TableProperties.class")
    names = {name.decode() for name in re.findall(rb"[a-z]+(?:[.-][a-z0-9]+)+", constants)}
    assert {"write.data.path", "gc.enabled"} <= names
    assert {name for name in names if re.search(r"impl|class|uri|endpoint", name)} == {
        WRITER_CODE[1]
    }
    assert {name for name in names if re.search(r"path$|location$", name)} == set(WRITER_PLACES)


# --- Spark ---------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.spark
def test_spark_loads_no_class_that_a_table_names(stack: Stack, gateway: Gateway, name: str) -> None:
    """Iceberg makes a table's location provider when Spark reads the table, too."""
    catalog = stack.connections.catalog("lake").pyiceberg
    assert isinstance(catalog, PyCatalog)
    catalog.create_table(("default", name), ROWS.schema).append(ROWS)
    assert gateway.rows(f"SELECT count(*) FROM {name}", "spark") == [(10,)]
    sql = SqlCatalog("lake", **catalog.properties)
    rewrite(
        sql,
        name,
        lambda body: body["properties"].update({WRITER_CODE[1]: "java.lang.Thread"}),
    )
    fresh = Gateway(
        stack.configured({**stack.flags, "state_directory": str(stack.directory / name)})
    )
    with contextlib.closing(fresh):
        with pytest.raises(SeamlineError) as caught:
            fresh.rows(f"SELECT count(*) FROM {name}", "spark")
        assert caught.value.code.name == "PROPERTY_NOT_ALLOWED"
        assert fresh.rows(f"SELECT count(*) FROM {name}", "duckdb") == [(10,)]
    with pytest.raises(SeamlineError, match=WRITER_CODE[1]):
        stack.tier_table(name).load()

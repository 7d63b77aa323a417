"""Goal: whatever a table's metadata says, what comes of it is a named error of that table alone.

Method: tables of every version of the format (partitioned, with deletes by position, deletion
vectors, statistics, snapshots that name their manifests themselves) have one of their parts changed
at random, as whoever may write to the warehouse could: the metadata, a list of manifests, a
manifest, a deletion vector; with numbers that are negative or huge, ids twice, other types, types
inside each other, paths that lead elsewhere, bytes lost, and with blocks that unpack to far more
than they are. Each is then read by every road. None ends unnamed or opens a file outside the
table; and a table beside it is read, listed and described all the while.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from support import offline
from support.damaged import damaged
from support.gateway import Gateway, statement_rows
from support.handmade import POSITIONS, File, Handmade, column, with_ids
from support.hostile import JSON, changed

from seamline.errors import ERRORS

SECRET = 666_000_666
DEEP = json.loads(
    '{"type":"list","element-id":7,"element-required":false,"element":' * 400 + '"long"' + "}" * 400
)
NUMBERS = (0, -1, 1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63))
HUGE = (2**63, -(2**64), 10**30, 10**400, float("nan"), float("inf"), 1e308)


def rows(*ids: int) -> pa.Table:
    found = pa.table({"id": pa.array(ids, pa.int64()), "part": pa.array(ids, pa.int32())})
    return with_ids(found, {"id": 1, "part": 2})


class Tables:
    """A gateway over a table that is fine, `plain`, and one that is changed, `t`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / "warehouse" / "default"
        self._database = folder / "catalog.db"
        config = offline.config(folder, limits__statement_seconds_max="20", tail__follow="false")
        self.gateway = Gateway(config, connections=offline.MemoryConnections(config))
        self.client = self.gateway.app.test_client()
        catalog = self.gateway.parts.connections.catalog("lake").pyiceberg
        catalog.create_namespace("default")
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.secret = self.outside / "secret.parquet"
        pq.write_table(rows(SECRET), self.secret)
        self.bases = [self._base(version) for version in (1, 2, 3)]
        fine = Handmade(self.folder / "plain", [COLUMNS])
        catalog.register_table(("default", "plain"), fine.write([File(rows(1, 2))]))
        catalog.register_table(("default", "t"), self.bases[1])
        self.opened: list[str] = []

    def _base(self, version: int) -> str:
        table = Handmade(
            self.folder / f"v{version}", [COLUMNS], version, [PARTITIONED],
            properties={"comment": "a table", "write.metadata.metrics.default": "full"},
            embedded=version == 1,
        )  # fmt: skip
        first = table.new_path()
        files = [File(rows(1, 1), partition={"part": 1}, path=str(first)),
                 File(rows(2), partition={"part": 2}, snapshot=2)]  # fmt: skip
        if version > 1:
            gone = pa.table({"pos": pa.array([0], pa.int64())})
            files.append(File(gone, POSITIONS, {"part": 1}, snapshot=2, of=str(first)))
        location = table.write(files)
        path = pathlib.Path(location.removeprefix("file://"))
        body = json.loads(path.read_text())
        head = body["snapshots"][-1]["snapshot-id"]
        body["refs"] = {
            "main": {"snapshot-id": head, "type": "branch"},
            "old": {"snapshot-id": body["snapshots"][0]["snapshot-id"], "type": "tag"},
        }
        body["metadata-log"] = [{"metadata-file": location, "timestamp-ms": 1_700_000_000_000}]
        body["statistics"] = [
            {
                "snapshot-id": head, "statistics-path": f"file://{self.folder}/v{version}/s.puffin",
                "file-size-in-bytes": 10, "file-footer-size-in-bytes": 5, "blob-metadata": [],
            }
        ]  # fmt: skip
        path.write_text(json.dumps(body))
        return location

    def use(self, location: str) -> None:
        """Has the catalog know metadata as that of `t`, without looking at it."""
        with contextlib.closing(sqlite3.connect(self._database)) as database, database:
            database.execute(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 't'",
                (location,),
            )

    def is_own(self, location: str) -> bool:
        """Whether a location is one of a table's."""
        path = pathlib.Path(location.removeprefix("file://").removeprefix("file:")).resolve()
        return path.is_relative_to(self.folder.resolve())


COLUMNS = [
    column(1, "id", "long"),
    column(2, "part", "int", doc="what it is partitioned by"),
    column(3, "inner", {"type": "struct", "fields": [column(4, "x", "string")]}),
]
PARTITIONED = [{"field-id": 1000, "source-id": 2, "name": "part", "transform": "identity"}]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    made = Tables(tmp_path_factory.mktemp("metadata"))
    known = PyArrowFileIO.new_input

    def noted(self: Any, location: str) -> Any:
        made.opened.append(location)
        return known(self, location)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PyArrowFileIO, "new_input", noted)
        with contextlib.closing(made.gateway):
            yield made


# --- What is changed -----------------------------------------------------------------------------


def path_of(location: str) -> pathlib.Path:
    return pathlib.Path(location.removeprefix("file://"))


@st.composite
def values(draw: st.DrawFn, tables: Tables, known: Any) -> Any:
    """What replaces a part of the metadata."""
    leading = [
        tables.secret.as_uri(), str(tables.secret), "/etc/passwd", "file:///dev/zero", "",
        f"{tables.folder.as_uri()}/../../outside/secret.parquet", "http://127.0.0.1:1/x",
        "s3://bucket/x", "\0", "x" * 100_000, f"file://{tables.folder}/plain/data/none.parquet",
    ]  # fmt: skip
    return draw(
        st.sampled_from([*NUMBERS, *HUGE, *leading, DEEP, True, None, [], {}, [[]]])
        | st.sampled_from([known, [known], {"type": known}])
        | JSON
    )


@st.composite
def metadata(draw: st.DrawFn, tables: Tables) -> bytes:
    """The metadata of a table, changed in one to three parts, or damaged."""
    body = json.loads(path_of(draw(st.sampled_from(tables.bases))).read_text())
    for _ in range(draw(st.integers(1, 3))):
        body = draw(changed(body, values(tables, body)))
        if not isinstance(body, dict | list) or not body:
            break
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    return damaged(raw, draw(st.data())) if draw(st.integers(0, 9)) == 0 else raw


@st.composite
def records(
    draw: st.DrawFn, tables: Tables, found: list[Any], schema: Any
) -> tuple[list[Any], Any]:
    """Records of Avro, one value of theirs changed to another of its type, or a type to another."""
    found, schema = json.loads(json.dumps(found)), json.loads(json.dumps(schema))
    record, fields = draw(st.sampled_from(found)), schema["fields"]
    while True:
        field = draw(st.sampled_from(fields))
        value, type_ = record.get(field["name"]), field["type"]
        if isinstance(value, dict) and isinstance(type_, dict) and draw(st.integers(0, 4)):
            record, fields = value, type_["fields"]
            if not fields:
                return found, schema
            continue
        break
    if draw(st.integers(0, 3)) == 0:
        field["type"], filling = draw(st.sampled_from(OTHER_TYPES))
        field.pop("default", None)
        for each in found:
            holder = each if field in schema["fields"] else each.get("data_file", each)
            holder[field["name"]] = filling
        return found, schema
    if type(value) is int or value is None:
        record[field["name"]] = draw(st.sampled_from(NUMBERS))
    elif isinstance(value, str):
        record[field["name"]] = draw(
            st.sampled_from([str(tables.secret), tables.secret.as_uri(), "", "\0", "PARQUET", "ORC",
                             "PUFFIN", "NONE", "x" * 100_000, value + "/../../x", "/dev/zero"])
        )  # fmt: skip
    elif isinstance(value, list) and value:
        record[field["name"]] = draw(st.sampled_from([[], value * 3, [*value, *NUMBERS]]))
    return found, schema


OTHER_TYPES: tuple[tuple[Any, Any], ...] = (
    ("string", "x"), ("boolean", True), ("double", 1e308), ("null", None), ("long", -1),
    ({"type": "array", "items": "long"}, [1]), ({"type": "map", "values": "long"}, {"a": 1}),
    ("bytes", "\xff"),
)  # fmt: skip


def read_avro(path: pathlib.Path) -> tuple[list[Any], Any, dict[str, str], bytes]:
    raw = path.read_bytes()
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        found = list(reader)
        meta = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
        return found, reader.writer_schema, meta, raw


def written(folder: pathlib.Path, name: str, raw: bytes) -> str:
    path = folder / f"{uuid.uuid4()}{name}"
    path.write_bytes(raw)
    return f"file://{path}"


@st.composite
def avro(draw: st.DrawFn, tables: Tables, path: pathlib.Path) -> str:
    """A file of Avro in place of another: its records changed, its bytes damaged, or a bomb."""
    found, schema, meta, raw = read_avro(path)
    match draw(st.integers(0, 9)):
        case 0 | 1:
            return written(path.parent, ".avro", damaged(raw, draw(st.data())))
        case 2:
            found = found * draw(st.sampled_from([0, 2, 50]))
        case _:
            found, schema = draw(records(tables, found, schema))
    target = path.parent / f"{uuid.uuid4()}.avro"
    codec = draw(st.sampled_from(["null", "deflate"]))
    try:
        with target.open("wb") as stream:
            parsed = fastavro.parse_schema(schema)
            fastavro.writer(stream, parsed, found, codec=codec, metadata=meta)
    except Exception:  # noqa: BLE001 - it is nothing that Avro can hold
        assume(False)
    return f"file://{target}"


@st.composite
def altered(draw: st.DrawFn, tables: Tables) -> str:
    """Where the metadata of a table is, somewhere in which something was changed."""
    location = draw(st.sampled_from(tables.bases))
    folder = path_of(location).parent
    what = draw(st.sampled_from(["metadata", "metadata", "list", "manifest", "vector"]))
    if what == "metadata":
        return written(folder, ".metadata.json", draw(metadata(tables)))
    body = json.loads(path_of(location).read_text())
    head = body["snapshots"][-1]
    if "manifest-list" not in head:
        paths = head["manifests"]
        paths[0] = draw(avro(tables, path_of(paths[0])))
        return written(folder, ".metadata.json", json.dumps(body).encode())
    list_path = path_of(head["manifest-list"])
    if what == "list":
        head["manifest-list"] = draw(avro(tables, list_path))
        return written(folder, ".metadata.json", json.dumps(body).encode())
    listed, schema, meta, _ = read_avro(list_path)
    entry = draw(st.sampled_from(listed))
    old = path_of(entry["manifest_path"])
    if what == "manifest":
        entry["manifest_path"] = draw(avro(tables, old))
    else:
        entry = listed[-1]
        entry["manifest_path"] = with_damaged_deletes(draw, path_of(entry["manifest_path"]))
    with (folder / f"{uuid.uuid4()}.avro").open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), listed, metadata=meta)
        head["manifest-list"] = f"file://{stream.name}"
    return written(folder, ".metadata.json", json.dumps(body).encode())


def with_damaged_deletes(draw: st.DrawFn, manifest: pathlib.Path) -> str:
    """A manifest whose delete file, or vector, is damaged."""
    found, schema, meta, _ = read_avro(manifest)
    file = found[0]["data_file"]
    raw = path_of(file["file_path"]).read_bytes()
    folder = path_of(file["file_path"]).parent
    file["file_path"] = written(folder, ".deletes", damaged(raw, draw(st.data())))
    target = manifest.parent / f"{uuid.uuid4()}.avro"
    with target.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), found, metadata=meta)
    return f"file://{target}"


# --- The roads -----------------------------------------------------------------------------------

STATEMENTS = (
    "SELECT count(*), min(id), max(id) FROM t",
    "SELECT * FROM t WHERE part = 1",
    "SELECT id FROM t FOR VERSION AS OF 7000000000000000001",
    "SHOW STATS FOR t",
    "EXPLAIN SELECT id FROM t WHERE id > 1",
    "SELECT * FROM system.jdbc.columns",
    "DESCRIBE t",
    "SHOW CREATE TABLE t",
    *(
        f'SELECT * FROM "t${name}"'
        for name in ("snapshots", "files", "history", "refs", "properties", "partitions")
    ),
)
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/iceberg/v1/lake/namespaces/default/tables/t", None),
    ("GET", "/iceberg-plan/v1/lake/namespaces/default/tables/t?snapshots=refs", None),
    ("POST", "/iceberg-plan/v1/lake/namespaces/default/tables/t/plan", {}),
    ("POST", "/api/v1/seams", {"table": "t"}),
)
FINE: tuple[tuple[str, Callable[[list[Any]], bool]], ...] = (
    ("SELECT count(*) FROM plain", lambda found: found == [(2,)]),
    ("SHOW TABLES", lambda found: found == [("plain",), ("t",)]),
    (
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'plain'",
        lambda found: ("id",) in found,
    ),
)


def look(tables: Tables, location: str) -> Iterator[str]:
    """What is wrong when the table is read by every road."""
    tables.use(location)
    tables.opened.clear()
    for sql in STATEMENTS:
        statement = tables.gateway.statement(sql, "duckdb")
        error = statement.error
        if error is None:
            if str(SECRET) in str(statement_rows(statement)):
                yield f"{sql} tells the secret"
        elif error.code.name in {"INTERNAL_ERROR", "STATEMENT_TOO_LARGE"}:
            yield f"{sql}: {error}"
        statement.close()
    for method, path, body in REQUESTS:
        answer = tables.client.open(path, method=method, json=body)
        if answer.status_code >= 400:
            error = answer.get_json()["error"]
            name = error.get("code") if "kind" in error else error["message"].partition(":")[0]
            if name not in ERRORS or name == "INTERNAL_ERROR":
                yield f"{path}: {answer.text}"
    yield from (f"{one} was opened" for one in tables.opened if not tables.is_own(one))
    for sql, is_fine in FINE:
        found = tables.gateway.statement(sql, "duckdb")
        if found.error is not None or not is_fine(statement_rows(found)):
            yield f"{sql}: {found.error}"
    listed = tables.client.get("/iceberg/v1/lake/namespaces/default/tables").get_json()
    if [one["name"] for one in listed["identifiers"]] != ["plain", "t"]:
        yield f"tables are {listed}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(12, id="some", marks=pytest.mark.prove),
        pytest.param(3000, id="many", marks=pytest.mark.soak),
    ],
)
def test_whatever_metadata_says(tables: Tables, count: int) -> None:
    wrong: dict[str, str] = {}

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(altered(tables))
    def ask(location: str) -> None:
        wrong.update(dict.fromkeys(look(tables, location), location))

    for base in tables.bases:
        assert not list(look(tables, base))
    ask()
    assert not wrong, "\n".join(f"{location}\n    {what}" for what, location in wrong.items())

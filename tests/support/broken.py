"""Tables that are broken, each in a way of its own, in a catalog of one file.

A table is made whole, by PyIceberg, and then its metadata file is spoilt as a disk, a newer writer
or a person's hand would spoil it.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from seamline.seam.boundary import Boundary, encode
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import Offsets

NAMESPACE = "shop"
ROWS = pa.table({"id": pa.array(range(3), pa.int64())})
TOPIC = {"seamline.topic": "bids", "seamline.cluster": "default"}

BOUNDARY = Boundary(
    snapshot_id=0,
    cluster_id="memory",
    topic="bids",
    topic_id="topic-1",
    isolation=READ_COMMITTED,
    start=Offsets({0: 0}),
    next=Offsets({0: 0}),
)

Metadata = dict[str, Any]


def _with(**properties: str) -> Mapping[str, str]:
    return {**TOPIC, **{f"seamline.{k.replace('_', '-')}": v for k, v in properties.items()}}


PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "without_boundary": TOPIC,
    "unknown_cluster": _with(cluster="nowhere"),
    "unknown_topic": _with(topic="nowhere"),
    "empty_topic": _with(topic=""),
    "partitions_not_a_number": _with(key_partitions="many"),
    "unknown_format": _with(format="hologram"),
    "unknown_mode": _with(mode="sideways"),
    "unknown_policy": _with(on_error="explode"),
    "unknown_isolation": _with(isolation="none"),
    "unknown_key_format": _with(key_format="odd"),
    "unknown_partitioner": _with(key_partitioner="odd"),
}
"""Properties that nobody should have set, by what is wrong with them."""


def _set(**changes: Any) -> Callable[[Metadata], None]:
    return lambda body: body.update({k.replace("_", "-"): v for k, v in changes.items()})


def _unknown_type(body: Metadata) -> None:
    body["schemas"][0]["fields"][0]["type"] = "hologram"


def _unknown_transform(body: Metadata) -> None:
    field = {"source-id": 1, "field-id": 1000, "name": "p", "transform": "hologram[3]"}
    body["partition-specs"][0]["fields"] = [field]


def _unknown_operation(body: Metadata) -> None:
    body["snapshots"][0]["summary"]["operation"] = "hologram"


def _with_boundary(body: Metadata) -> None:
    body["snapshots"][-1]["summary"]["seamline.boundary"] = encode(BOUNDARY)


def _boundary(text: str) -> Callable[[Metadata], None]:
    def change(body: Metadata) -> None:
        body["properties"].update(TOPIC)
        body["snapshots"][-1]["summary"]["seamline.boundary"] = text

    return change


CHANGES: Mapping[str, Callable[[Metadata], None]] = {
    "version_4": _set(format_version=4),
    "version_text": _set(format_version="two"),
    "without_schemas": _set(schemas=[]),
    "unknown_schema": _set(current_schema_id=77),
    "unknown_snapshot": _set(current_snapshot_id=77),
    "without_uuid": lambda body: body.pop("table-uuid"),
    "bad_uuid": _set(table_uuid="none"),
    "without_location": lambda body: body.pop("location"),
    "snapshots_not_a_list": _set(snapshots={"a": 1}),
    "properties_not_texts": _set(properties={"seamline.topic": {"a": 1}}),
    "unknown_type": _unknown_type,
    "unknown_transform": _unknown_transform,
    "unknown_operation": _unknown_operation,
    "boundary_not_json": _boundary("{"),
    "boundary_of_the_future": _boundary('{"v":99}'),
    "boundary_without_offsets": _boundary('{"v":1,"next":"all"}'),
}
"""What is done to the JSON of the metadata."""


def _garbage(pattern: str) -> Callable[[pathlib.Path], None]:
    def spoil(file: pathlib.Path) -> None:
        for path in file.parent.glob(pattern):
            path.write_bytes(b"this is no Avro file")

    return spoil


def _without_manifests(file: pathlib.Path) -> None:
    for path in file.parent.glob("*.avro"):
        path.unlink()


def _as_folder(file: pathlib.Path) -> None:
    file.unlink()
    file.mkdir()


SPOILS: Mapping[str, Callable[[pathlib.Path], object]] = {
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "half": lambda file: file.write_bytes(file.read_bytes()[:200]),
    "not_json": lambda file: file.write_text("<html>Not here</html>"),
    "binary": lambda file: file.write_bytes(bytes(range(256))),
    "half_compressed": lambda file: file.write_bytes(b"\x1f\x8b\x08\x00"),
    "a_list": lambda file: file.write_text("[]"),
    "null": lambda file: file.write_text("null"),
    "a_folder": _as_folder,
    "without_manifests": _without_manifests,
    "manifest_lists_not_avro": _garbage("snap-*.avro"),
    "manifests_not_avro": _garbage("*-m0.avro"),
}
"""What is done to the metadata file itself, and to the files it names."""

LOCATIONS = {
    "location_missing": None,
    "location_empty": "",
    "location_unknown": "hologram://bucket/metadata.json",
    "location_relative": "metadata.json",
}
"""What the catalog says instead of where the metadata is."""

KINDS = (*PROPERTIES, *CHANGES, *SPOILS, *LOCATIONS)


class BrokenTables:
    """A catalog with a whole table `good` and a broken one of every kind.

    Args:
        folder: As in `offline.config`.
        kinds: Which to make.
    """

    def __init__(self, folder: pathlib.Path, kinds: tuple[str, ...] = KINDS) -> None:
        self._folder = folder
        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        with contextlib.closing(SqlCatalog("lake", uri=uri, warehouse=warehouse)) as catalog:
            catalog.create_namespace(NAMESPACE)
            for kind in ("good", *kinds):
                self._create(catalog, kind)

    def _create(self, catalog: SqlCatalog, kind: str) -> None:
        properties = dict(PROPERTIES.get(kind, {}))
        table = catalog.create_table((NAMESPACE, kind), ROWS.schema, properties=properties)
        table.append(ROWS)
        file = pathlib.Path(table.metadata_location.removeprefix("file://"))
        change = CHANGES.get(kind)
        if kind in PROPERTIES and kind != "without_boundary":
            change = _with_boundary
        if change is not None:
            body = json.loads(file.read_text())
            change(body)
            file.write_text(json.dumps(body))
        elif kind in SPOILS:
            SPOILS[kind](file)
        elif kind in LOCATIONS:
            self._move(kind, LOCATIONS[kind])

    def _move(self, kind: str, location: str | None) -> None:
        with contextlib.closing(sqlite3.connect(self._folder / "catalog.db")) as connection:
            connection.execute(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
                (location, kind),
            )
            connection.commit()

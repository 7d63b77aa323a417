"""The readers, with what each cannot do and why.

A gap says what a reader returns in place of a value, for a reason of its own: the file says
otherwise, as the other readers show. A test fails when a gap has closed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from readers.environments import Go, Python

LOCAL, OBJECTS = "local files", "object storage"
LIVE, PLANNED = "live", "planned"


Row = dict[str, Any]
"""A row in canonical form, by the names of its columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Something that a reader returns in a form of its own.

    Attributes:
        reason: Why.
        given: What it returns in place of a row.
    """

    reason: str
    given: Callable[[Row], Row]


@dataclasses.dataclass(frozen=True, slots=True)
class Unread:
    """A kind of table that a reader cannot read.

    Attributes:
        shape: The kind; see `support.shapes`.
        reason: Why.
        storages: Where.
    """

    shape: str
    reason: str
    storages: tuple[str, ...] = (LOCAL, OBJECTS)


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """One way to read a live table.

    Attributes:
        name: What it is called.
        program: What runs it.
        catalog: The catalog it reads from: the one of files, or the one that plans scans.
        storages: Where the tables may be that it reads.
        spark: Its version, if it is Spark.
        own_keys: Why it does not take the keys that it is given with a table; empty when it does.
        gaps: What it gives in another form.
        unread: Tables it cannot read.
    """

    name: str
    program: Python | Go
    catalog: str = LIVE
    storages: tuple[str, ...] = (LOCAL, OBJECTS)
    spark: str | None = None
    own_keys: str = ""
    gaps: tuple[Gap, ...] = ()
    unread: tuple[Unread, ...] = ()

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def reads(self, shape: str, storage: str) -> bool:
        """Whether it can read a table of that shape there."""
        return not any(u.shape == shape and storage in u.storages for u in self.unread)

    def given(self, row: Row) -> tuple[Any, ...]:
        """What it returns in place of a row."""
        for gap in self.gaps:
            row = gap.given(row)
        return tuple(row.values())


# --- Gaps ----------------------------------------------------------------------------------------

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _uuids_as_bytes(value: Any) -> Any:
    match value:
        case dict():
            return {key: _uuids_as_bytes(item) for key, item in value.items()}
        case list():
            return [_uuids_as_bytes(item) for item in value]
        case str() if _UUID.fullmatch(value):
            return f"0x{value.replace('-', '')}"
    return value


def _emptied(*columns: str) -> Callable[[Row], Row]:
    """Null lists and maps of some columns as empty ones."""
    return lambda row: {c: [] if c in columns and v is None else v for c, v in row.items()}


def _filled(row: Row) -> Row:
    """Null lists, maps and structs as empty ones, at any depth."""
    row = _emptied("a", "aa", "m", "mm", "_kafka_headers")(row)
    if "r" in row:
        r = row["r"] or {"a": None, "b": None}
        row["r"] = {**r, "b": r["b"] or {"c": None, "u": None}}
        row["aa"] = [inner or [] for inner in row["aa"]]
    return row


def _text_as_bytes(row: Row) -> Row:
    return {column: _BYTES.get(column, lambda value: value)(v) for column, v in row.items()}


def _bytes(value: Any) -> Any:
    match value:
        case str():
            return f"0x{value.encode().hex()}"
        case list():
            return [_bytes(item) for item in value]
    return value


def _keys(value: Any) -> Any:
    """Keys are bytes, too; the canonical form has them as Python writes them."""
    return {repr(k.encode()): item for k, item in value.items()} if value else value


_BYTES: Mapping[str, Callable[[Any], Any]] = {
    "s": _bytes,
    "text": _bytes,
    "a": _bytes,
    "_kafka_error": _bytes,
    "r": lambda r: r and {**r, "b": {**r["b"], "c": _bytes(r["b"]["c"])}},
    "m": _keys,
    "mm": _keys,
    "_kafka_headers": lambda found: found and [{**h, "key": _bytes(h["key"])} for h in found],
}

UUIDS_AS_BYTES = Gap("it has no type for uuids", _uuids_as_bytes)
LISTS_OF_STRUCTS = Gap(
    "PyIceberg gives null lists of structs, such as headers, and maps to structs as empty ones",
    _emptied("_kafka_headers", "mm"),
)
NEVER_NULL = Gap("its arrays, maps and tuples cannot be null", _filled)
TEXT_AS_BYTES = Gap("its strings are bytes", _text_as_bytes)
NULL_PARTITIONS = Unread(
    "by a value",
    "its model of a plan takes the specification, which forgot partition values of null, at its "
    "word",
)
NO_DELETION_VECTORS = tuple(
    Unread(shape, "it takes a deletion vector for a file of position deletes")
    for shape in ("with deletion vectors", "upserts in version 3")
)

PYICEBERG = "pyiceberg==0.12.0"
PYARROW = "pyarrow==25.0.1"
_NESTED_UUIDS = "it has no uuids inside of other types"

READERS: tuple[Reader, ...] = (
    Reader(
        "DuckDB",
        Python(
            ("duckdb_client",),
            (
                "duckdb==1.5.5",
                "duckdb-extension-avro==1.5.5",
                "duckdb-extension-httpfs==1.5.5",
                "duckdb-extension-iceberg==1.5.5",
                PYARROW,
                "pytz",
            ),
        ),
    ),
    Reader(
        "ClickHouse",
        Python(("clickhouse_client",), ("chdb==4.4.0", PYARROW)),
        own_keys="given the keys with a table, it looks for the metadata file below the table's "
        "folder, twice over, where the storage is not Amazon's",
        storages=(OBJECTS,),  # takes file:/x, which is how Spark writes it, for a path of its own
        gaps=(NEVER_NULL, TEXT_AS_BYTES),
        unread=NO_DELETION_VECTORS,
    ),
    Reader("Spark 4.0", Python(("spark_client",)), spark="4.0"),
    Reader("Spark 4.0 planned", Python(("spark_client",)), catalog=PLANNED, spark="4.0"),
    Reader(
        "Spark 3.5", Python(("spark_client",), ("pyspark==3.5.9", PYARROW, "pandas<3")), spark="3.5"
    ),
    Reader("PyIceberg", Python(("pyiceberg_client", "pyiceberg")), gaps=(LISTS_OF_STRUCTS,)),
    Reader(
        "PyIceberg planned",
        Python(("pyiceberg_client", "pyiceberg")),
        catalog=PLANNED,
        gaps=(LISTS_OF_STRUCTS,),
        unread=(NULL_PARTITIONS,),
    ),
    Reader(
        "Polars",
        Python(("pyiceberg_client", "polars_native"), ("polars==2.1.0", PYICEBERG, PYARROW)),
        gaps=(UUIDS_AS_BYTES,),
    ),
    Reader(
        "Polars by PyIceberg",
        Python(("pyiceberg_client", "polars_pyiceberg"), ("polars==2.1.0", PYICEBERG, PYARROW)),
        gaps=(UUIDS_AS_BYTES, LISTS_OF_STRUCTS),
    ),
    Reader(
        "Daft",
        Python(("pyiceberg_client", "daft"), ("daft==0.7.26", PYICEBERG, PYARROW)),
        unread=(
            Unread("every type", _NESTED_UUIDS),
            Unread("every type in version 3", _NESTED_UUIDS),
            Unread(
                "with a column dropped and added again",
                "it loses its place in a file of which it leaves out a column",
                (LOCAL,),
            ),
            *NO_DELETION_VECTORS,
        ),
    ),
    Reader(
        "Rust",
        Python(
            ("pyiceberg_client", "rust"),
            ("pyiceberg-core==0.11.0", "datafusion>=54,<55", PYICEBERG, PYARROW),
        ),
        gaps=(UUIDS_AS_BYTES,),
    ),
    Reader("Go", Go()),
)

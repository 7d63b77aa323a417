"""Metadata tables say of a table what PyIceberg says of it.

Method: random histories of appends, deletes, and changed columns and ways to partition, of every
format version, with null and NaN; and tables of other writers. Each metadata table is compared with
PyIceberg's `inspect`, whose statistics of single files are summed here once more.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import json
import math
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.types import BooleanType, DoubleType, LongType, StringType
from support import offline
from support.gateway import Gateway, statement_rows
from support.handmade_shapes import Story

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match:UserWarning")
DAY = datetime.date(2024, 2, 28)
COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "id": (pa.int64(), lambda chance: chance.randrange(2**40)),
    "k": (pa.int64(), lambda chance: chance.randint(-5, 5)),
    "part": (pa.string(), lambda chance: chance.choice("abcdefgh") * 3),
    "i": (pa.int32(), lambda chance: chance.randint(-(2**31), 2**31 - 1)),
    "r": (pa.float32(), lambda chance: chance.choice([math.nan, -0.5, 2.25])),
    "f": (pa.float64(), lambda chance: chance.choice([math.nan, 1.5, -2.5, 1024.0])),
    "n": (pa.decimal128(9, 2), lambda chance: decimal.Decimal(chance.randint(-999, 999)) / 100),
    "day": (pa.date32(), lambda chance: DAY + datetime.timedelta(chance.randint(-40, 40))),
    "at": (
        pa.timestamp("us"),
        lambda chance: (
            datetime.datetime(2024, 1, 1)
            + datetime.timedelta(
                seconds=chance.randint(0, 10**6), microseconds=chance.randint(0, 9)
            )
        ),
    ),
    "z": (
        pa.timestamp("us", "UTC"),
        lambda chance: (
            datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
            + datetime.timedelta(hours=chance.randint(0, 99))
        ),
    ),
    "s": (pa.string(), lambda chance: chance.choice(["é", "x" * 40, "'", "z"])),
    "b": (pa.binary(), lambda chance: chance.randbytes(2) + b"\x01"),
    "ok": (pa.bool_(), lambda chance: chance.random() < 0.5),
}
TRANSFORMS = (
    *(("k", transform) for transform in ("identity", "bucket[3]", "truncate[4]")),
    *(("part", transform) for transform in ("identity", "truncate[1]", "bucket[2]")),
    *(("day", transform) for transform in ("identity", "month", "year", "bucket[2]")),
    *(("at", transform) for transform in ("day", "hour")),
    *(("z", transform) for transform in ("day", "month")),
    *(("f", "identity"), ("n", "identity"), ("b", "identity"), ("ok", "identity")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("metadata")


@pytest.fixture(scope="module")
def gateway(folder: pathlib.Path) -> Iterator[Gateway]:
    with offline.running(folder) as running:
        yield running


# --- Random histories ----------------------------------------------------------------------------


class History:
    """One plain table, changed at random.

    Args:
        gateway: Changes tables of version 3, which PyIceberg does not write.
        seed: Decides everything.
    """

    def __init__(self, gateway: Gateway, seed: int) -> None:
        self.gateway, self.name = gateway, f"m{seed}"
        self.chance = random.Random(seed)
        self.version = self.chance.choice([1, 2, 2, 3])
        self.catalog = gateway.parts.connections.catalog("lake").pyiceberg
        self.catalog.create_table(
            ("default", self.name),
            pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()]),
            properties={"format-version": str(self.version), "owner": "none"},
        )
        self._added = 0

    @property
    def table(self) -> Table:
        return self.catalog.load_table(("default", self.name))

    def make(self) -> None:
        for _ in range(self.chance.randint(3, 8)):
            step = self.chance.choice(
                [self._append, self._append, self._delete, self._partition, self._evolve, self._tag]
            )
            step()

    def _append(self) -> None:
        count = self.chance.randint(1, 6)
        table = self.table
        columns = {}
        for field in table.schema().as_arrow():
            _, make = COLUMNS.get(field.name, (None, lambda _: None))
            if any(f.name.startswith(f"p_{field.name}_") for f in table.spec().fields):
                make = _without_nan(make)
            values = [
                None if self.chance.random() < 0.2 else make(self.chance) for _ in range(count)
            ]
            columns[field.name] = pa.array(values, field.type)
        rows = pa.table(columns)
        if self.version < 3:
            table.append(rows)
            return
        texts = ", ".join(f"({', '.join(map(_literal, row.values()))})" for row in rows.to_pylist())
        self.gateway.rows(f"INSERT INTO {self.name} VALUES {texts}")

    def _delete(self) -> None:
        if self.table.current_snapshot() is None:
            return
        number = self.chance.choice([*range(-5, 6), None])
        condition = "k IS NULL" if number is None else f"k = {number}"
        if self.version < 3:
            self.table.delete(condition)
        else:
            self.gateway.rows(f"DELETE FROM {self.name} WHERE {condition}")

    def _partition(self) -> None:
        column, transform = self.chance.choice(
            [
                (column, transform)
                for column, transform in TRANSFORMS
                if self.version > 1 or transform.startswith(("identity", "truncate"))
            ]  # of others, PyIceberg mistakes the type once version 1 has made them void
        )
        table = self.table
        source = table.schema().find_field(column).field_id
        with table.update_spec() as update:
            for field in table.spec().fields:
                if str(field.transform) != "void" and (
                    field.source_id == source or self.chance.random() < 0.4
                ):
                    update.remove_field(field.name)
            if all(field.source_id != source for field in table.spec().fields):
                update.add_field(
                    column, transform, f"p_{column}_{transform.rstrip(']').replace('[', '_')}"
                )

    def _evolve(self) -> None:
        with self.table.update_schema() as update:
            match self.chance.randrange(3):
                case 0:
                    self._added += 1
                    kind = self.chance.choice(
                        [StringType(), BooleanType(), LongType(), DoubleType()]
                    )
                    update.add_column(f"c{self._added}", kind)
                case 1 if "s" in self.table.schema().column_names:
                    update.delete_column("s")
                case 2 if "r" in self.table.schema().column_names:
                    update.rename_column("r", "Ratio")

    def _tag(self) -> None:
        head = self.table.current_snapshot()
        if head is None:
            return
        name, age_ms = f"x{self.chance.randrange(3)}", self.chance.choice([None, 10**9])
        with self.table.manage_snapshots() as update:
            if self.chance.random() < 0.5:
                update.create_tag(head.snapshot_id, f"tag {name}", max_ref_age_ms=age_ms)
            else:
                update.create_branch(
                    head.snapshot_id,
                    f"branch {name}",
                    max_ref_age_ms=age_ms,
                    max_snapshot_age_ms=7,
                    min_snapshots_to_keep=self.chance.choice([None, 3]),
                )


def _without_nan(make: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    """PyIceberg writes no partition of NaN."""

    def made(chance: random.Random) -> Any:
        value = make(chance)
        return 0.25 if isinstance(value, float) and math.isnan(value) else value

    return made


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return (
                "nan()"
                if math.isnan(value)
                else f"{value!r}e0"
                if "e" not in repr(value)
                else repr(value)
            )
        case datetime.datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}{' UTC' if value.tzinfo else ''}'"
        case datetime.date():
            return f"DATE '{value}'"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


def check_history(gateway: Gateway, seed: int) -> None:
    history = History(gateway, seed)
    history.make()
    check(gateway, history.name, history.table)


def check_foreign(gateway: Gateway, folder: pathlib.Path, seed: int) -> None:
    story, name = Story(seed, folder / "warehouse" / "default" / f"h{seed}"), f"h{seed}"
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", name), story.make())
    if story.table.embedded:  # which PyIceberg does not read
        found = gateway.rows(f'SELECT sum(added_rows_count) FROM "{name}$manifests"')
        assert found == gateway.rows(f'SELECT sum(record_count) FROM "{name}$partitions"')
        assert found == [(len(story.rows()),)]
    else:
        check(gateway, name, catalog.load_table(("default", name)), has_statistics=False)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("seed", range(12))
def test_random_histories(gateway: Gateway, seed: int) -> None:
    check_history(gateway, seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 140))
def test_more_random_histories(gateway: Gateway, seed: int) -> None:
    check_history(gateway, seed)


@pytest.mark.parametrize("seed", range(12))
def test_tables_of_other_writers(gateway: Gateway, folder: pathlib.Path, seed: int) -> None:
    check_foreign(gateway, folder, seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 140))
def test_more_tables_of_other_writers(gateway: Gateway, folder: pathlib.Path, seed: int) -> None:
    check_foreign(gateway, folder, seed)


# --- Comparison ----------------------------------------------------------------------------------

_Row = dict[str, Any]


def check(gateway: Gateway, name: str, table: Table, *, has_statistics: bool = True) -> None:
    """Compares every metadata table with what PyIceberg says.

    PyIceberg knows no entries of files without statistics; they are compared with its files.
    """

    def rows(variant: str) -> list[_Row]:
        statement = gateway.statement(f'SELECT * FROM "{name}${variant}"', "duckdb")
        assert statement.error is None, statement.error
        names = [column.name for column in statement.output]
        return [dict(zip(names, row, strict=True)) for row in statement_rows(statement)]

    inspect = table.inspect
    assert rows("history") == _zoned(inspect.history(), "made_current_at")
    assert rows("refs") == sorted(inspect.refs().to_pylist(), key=lambda ref: ref["name"])
    assert {row["key"]: row["value"] for row in rows("properties")} == table.properties
    assert rows("metadata_log_entries") == _zoned(inspect.metadata_log_entries(), "timestamp")
    check_manifests(rows("manifests"), inspect.manifests().to_pylist())
    every = rows("all_manifests")
    listed = inspect.all_manifests().to_pylist() if table.snapshots() else []
    assert len(every) == len(listed)
    kept = [{key: row[key] for key in every[0]} for row in listed]
    assert sorted(map(repr, every)) == sorted(map(repr, kept))
    if table.current_snapshot() is None:
        assert rows("partitions") == rows("entries") == []
        return
    if all(file.column_sizes is not None for file, _ in _files(table)):
        check_entries(rows("entries"), inspect.entries().to_pylist(), table)
    else:
        check_files(rows("entries"), table)
    check_partitions(rows("partitions"), table, has_statistics=has_statistics)


def _zoned(found: pa.Table, column: str) -> list[_Row]:
    """Rows with a moment of UTC in a column."""
    rows: list[_Row] = found.to_pylist()
    for row in rows:
        row[column] = row[column].replace(tzinfo=datetime.UTC)
    return rows


def check_manifests(found: list[_Row], expected: list[_Row]) -> None:
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for key in row.keys() & other.keys() - {key for key in row if "_data_files" in key}:
            assert row[key] == other[key], key
        for kind in ("added", "existing", "deleted"):
            counts = other[f"{kind}_data_files_count"] + other[f"{kind}_delete_files_count"]
            assert row[f"{kind}_data_files_count"] == counts
            assert (row[f"{kind}_rows_count"] > 0) == (counts > 0)


def check_entries(found: list[_Row], expected: list[_Row], table: Table) -> None:
    schema = table.schema()
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for key in ("status", "snapshot_id", "sequence_number", "file_sequence_number"):
            assert row[key] == other[key], key
        file, its = row["data_file"], other["data_file"]
        assert _filled(file.get("partition")) == _filled(its["partition"])
        for key in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
            assert (file[key] or {}) == dict(its[key] or ()), key
        for key in file.keys() & its.keys() - {"partition"}:
            if not key.endswith(("_sizes", "_counts", "_bounds")):
                assert file[key] == its[key], key
        for key in ("lower_bounds", "upper_bounds"):
            now = {number for number, _ in its[key] or () if number in schema.field_ids}
            assert (file[key] or {}).keys() == now
        readable = json.loads(row["readable_metrics"])
        for name, metrics in other["readable_metrics"].items():
            if schema.find_field(name).field_type.is_primitive:
                assert _shown(readable[name]) == _shown(metrics), name


def _files(table: Table) -> list[tuple[DataFile, _Row]]:
    """The files of the current snapshot, and their partitions."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = []
    for manifest in snapshot.manifests(table.io):
        fields = table.specs()[manifest.partition_spec_id].fields
        for entry in manifest.fetch_manifest_entry(table.io):
            values = {f.name: entry.data_file.partition[i] for i, f in enumerate(fields)}
            found.append((entry.data_file, values))
    return found


def check_files(found: list[_Row], table: Table) -> None:
    deleted = {row["data_file"]["file_path"] for row in found if row["status"] == 2}
    files = {row["data_file"]["file_path"]: row["data_file"] for row in found if row["status"] < 2}
    assert len(found) - len(deleted) == len(_files(table))
    for other, partition in _files(table):
        file = files[other.file_path]
        assert _filled(file.get("partition")) == _filled(partition)
        assert (file["content"], file["file_format"]) == (other.content, other.file_format)
        for key in file.keys() - {"partition", "content", "file_format"}:
            value = getattr(other, key)
            if key.endswith("_bounds") and value is not None:
                assert file[key].keys() == value.keys() & table.schema().field_ids
            else:
                assert file[key] == value, key


def _filled(partition: _Row | None) -> dict[str, str]:
    """The values of a partition that are not null; NaN equals NaN."""
    return {key: repr(value) for key, value in (partition or {}).items() if value is not None}


def _comparable(statistics: _Row | None) -> _Row:
    """Statistics in which NaN equals NaN."""
    return {
        key: repr(value) if isinstance(value, float) else value
        for key, value in (statistics or {}).items()
    }


def _shown(metrics: _Row) -> _Row:
    """Statistics of a column, with bounds as one text for each value."""
    found = {**metrics}
    for key in ("lower_bound", "upper_bound"):
        value = metrics[key]
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.datetime.fromisoformat(value)
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = datetime.datetime(value.year, value.month, value.day)
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        found[key] = str(value)
    return found


def check_partitions(found: list[_Row], table: Table, *, has_statistics: bool) -> None:
    """Compares counts with PyIceberg's partitions, and statistics with those of its files."""

    def counts(rows: list[_Row], size: str) -> dict[str, tuple[int, ...]]:
        summed: dict[str, tuple[int, ...]] = {}
        for row in rows:
            if row["file_count"]:
                key = repr(sorted(_filled(row.get("partition")).items()))
                own = (row["record_count"], row["file_count"], row[size])
                summed[key] = tuple(map(sum, zip(own, summed.get(key, (0, 0, 0)), strict=True)))
        return summed

    expected = table.inspect.partitions().to_pylist()
    assert counts(found, "total_size") == counts(expected, "total_data_file_size_in_bytes")
    files: dict[str, list[_Row]] = {}
    for file in _data_files(table, has_statistics=has_statistics):
        files.setdefault(repr(sorted(_filled(file["partition"]).items())), []).append(file)
    keys = [repr(sorted(_filled(row.get("partition")).items())) for row in found]
    for key, row in zip(keys, found, strict=True):
        own = files[key]
        if keys.count(key) == 1 and len({file["spec_id"] for file in own}) == 1:
            for name, statistics in (row.get("data") or {}).items():
                assert _comparable(statistics) == _comparable(_summed(name, own, table)), name


def _data_files(table: Table, *, has_statistics: bool) -> list[_Row]:
    """PyIceberg's rows of data files; it has none of tables with columns of UUIDs."""
    if has_statistics:
        rows: list[_Row] = table.inspect.data_files().to_pylist()
        return rows
    keys = ("null_value_count", "nan_value_count", "lower_bound", "upper_bound")
    metrics = {field.name: dict.fromkeys(keys) for field in table.schema().fields}
    return [
        {
            "spec_id": file.spec_id,
            "partition": partition,
            "record_count": file.record_count,
            "readable_metrics": metrics,
        }
        for file, partition in _files(table)
        if file.content == DataFileContent.DATA
    ]


def _summed(name: str, files: Sequence[_Row], table: Table) -> _Row | None:
    """The statistics of a column in files of one partition."""
    column = table.schema().find_field(name)
    metrics = [file["readable_metrics"][name] for file in files]

    def total(key: str) -> int | None:
        found = [of[key] for of in metrics]
        return None if None in found else sum(found)

    summed = {
        "min": None,
        "max": None,
        "null_count": total("null_value_count"),
        "nan_count": total("nan_value_count"),
    }
    identities = [
        files[0]["partition"][field.name]
        for field in table.specs()[files[0]["spec_id"]].fields
        if field.source_id == column.field_id and str(field.transform) == "identity"
    ]
    if identities:
        (value,) = identities
        rows = sum(file["record_count"] for file in files)
        summed.update(min=value, max=value, null_count=rows if value is None else 0)
    else:
        known = [
            (of["lower_bound"], of["upper_bound"])
            for of, file in zip(metrics, files, strict=True)
            if of["null_value_count"] != file["record_count"]
        ]
        for place, (key, fold) in enumerate((("min", min), ("max", max))):
            bounds = [pair[place] for pair in known]
            if bounds and None not in bounds:
                summed[key] = fold(bounds)
    is_empty = summed["min"] is None and summed["max"] is None and summed["null_count"] is None
    return None if is_empty else summed

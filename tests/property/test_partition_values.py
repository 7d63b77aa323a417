"""Goal: partition values that other writers get wrong never leave a row out, and right ones prune.

Method: for every transform and type, rows at the edges of both, each in a file of its own, with the
partition value that a writer gives it: as the specification says, or by the arithmetic of one that
is seen to differ. For conditions of every form around every row, the files and manifests that a
scan keeps are compared with the rows that a scan without pruning would return.
"""

from __future__ import annotations

import dataclasses
import itertools
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from pyiceberg import expressions as iceberg
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestFile,
    construct_partition_summaries,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    LongType,
    NestedField,
)
from support import offline
from support.gateway import Gateway
from support.partition_writers import (
    DATE,
    DAY_S,
    DECIMAL,
    EDGES,
    INT,
    LONG,
    TEXT,
    TIMES,
    UNITS,
    UUID,
    WRITTEN,
    Case,
    clamped,
    first_bit_flipped,
    in_a_zone,
    nothing,
    specification,
    towards_zero,
    unsigned,
    wrapped,
    write,
)

from seamline.connectors.iceberg.partition_trust import PartitionTrust
from seamline.connectors.iceberg.pruning import Pruner


def cases() -> Iterator[Case]:
    for kind in (INT, LONG, DECIMAL):
        for transform in ("truncate[10]", "truncate[3]", "truncate[16]", "truncate[1000000]"):
            yield from (Case(kind, transform, one) for one in (specification, unsigned, nothing))
            if kind is not DECIMAL:
                yield Case(kind, transform, wrapped)
    for kind in (DATE, *TIMES):
        for transform in UNITS:
            if kind is DATE and transform == "hour":
                continue
            writers = (specification, towards_zero, clamped, nothing)
            yield from (Case(kind, transform, one) for one in writers)
            if kind is not DATE:
                yield from (Case(kind, transform, in_a_zone(h), True) for h in (14, -12))
    for kind in (TEXT, UUID, INT, DATE):
        yield from (Case(kind, "bucket[7]", one) for one in (specification, nothing))
    yield Case(UUID, "bucket[7]", first_bit_flipped)
    for transform in ("truncate[2]", "identity"):
        yield from (Case(TEXT, transform, one) for one in (specification, nothing))


CASES = list(cases())


# --- Tables --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Table:
    """A table, every row in a file of its own; the last is null.

    Args:
        case: How it is partitioned and written.
        statistics: Whether its manifests have column statistics.
    """

    case: Case
    statistics: bool

    def __post_init__(self) -> None:
        kind, field = self.case.kind, NestedField(2, "c", self.case.kind.type)
        self.schema = Schema(NestedField(1, "n", LongType()), field)
        transform = parse_transform(self.case.transform)
        self.spec = PartitionSpec(PartitionField(2, 1000, transform, "p"), spec_id=0)
        self.metadata: Any = types.SimpleNamespace(
            schema=lambda: self.schema, specs=lambda: {0: self.spec}
        )
        self.rows = [*filter(self._is_written, kind.rows), None]
        self.files = [self._file(row) for row in self.rows]

    def _is_written(self, row: Any) -> bool:
        """Whether the partition value of a row fits its type; if not, no writer could store it."""
        if self.case.kind not in EDGES:
            return True
        value = self.case.writer(self.case.transform, self.case.kind, row)
        return value is None or value >= EDGES[self.case.kind]

    def _file(self, row: Any) -> DataFile:
        stated: dict[str, Any] = {}
        if self.statistics:
            bounds = {} if row is None else {2: to_bytes(self.case.kind.type, row)}
            stated = {"value_counts": {2: 1}, "null_value_counts": {2: int(row is None)}}
            stated |= {"lower_bounds": bounds, "upper_bounds": dict(bounds)}
        value = None if row is None else self.case.writer(self.case.transform, self.case.kind, row)
        file = DataFile.from_args(
            _table_format_version=2,
            content=DataFileContent.DATA,
            file_path=str(row),
            file_format=FileFormat.PARQUET,
            partition=Record(value),
            record_count=1,
            file_size_in_bytes=1,
            **stated,
        )
        file.spec_id = 0
        return file

    def manifests(self) -> Iterator[tuple[Sequence[int], ManifestFile]]:
        """Manifests of one file, of two neighbours, and of all; with the numbers of the files."""
        by_row = sorted(range(len(self.files) - 1), key=lambda n: self.rows[n])
        null = len(by_row)
        for some in [
            *((n,) for n in (*by_row, null)),
            *itertools.pairwise(by_row),
            [*by_row, null],
        ]:
            partitions = [self.files[n].partition for n in some]
            summaries = construct_partition_summaries(self.spec, self.schema, partitions)
            yield some, ManifestFile.from_args(partition_spec_id=0, partitions=summaries)

    def conditions(self) -> Iterator[tuple[Any, frozenset[int]]]:
        """Conditions, with the rows that each keeps."""
        rows = self.rows[:-1]
        kept: Callable[[Callable[[Any], bool]], frozenset[int]] = lambda test: frozenset(  # noqa: E731
            n for n, row in enumerate(rows) if test(row)
        )
        make: Any = self.case.kind.literal
        for value in rows:
            for of, test in COMPARISONS.items():
                if self.case.kind is not UUID or of is iceberg.EqualTo:
                    yield of("c", make(value)), kept(lambda row, t=test, v=value: t(row, v))  # type: ignore[misc]
        for one, other in itertools.pairwise(rows):
            pair = {one, other}
            yield IN("c", {make(one), make(other)}), kept(lambda row, p=pair: row in p)  # type: ignore[misc]
        yield IS_NULL("c"), frozenset({len(rows)})
        yield NOT_NULL("c"), kept(lambda _: True)


IN: Any = iceberg.In
IS_NULL: Any = iceberg.IsNull
NOT_NULL: Any = iceberg.NotNull
EQUAL: Any = iceberg.EqualTo
COMPARISONS: Mapping[Any, Callable[[Any, Any], bool]] = {
    iceberg.EqualTo: lambda row, value: row == value,
    iceberg.LessThan: lambda row, value: row < value,
    iceberg.LessThanOrEqual: lambda row, value: row <= value,
    iceberg.GreaterThan: lambda row, value: row > value,
    iceberg.GreaterThanOrEqual: lambda row, value: row >= value,
}


def check(table: Table, *, is_binding: bool) -> None:
    manifests = list(table.manifests())
    for condition, kept in table.conditions():
        pruner = Pruner(table.metadata, condition, is_binding=is_binding)
        for number in kept:
            assert pruner.keeps_file(table.files[number]), (condition, table.rows[number])
        for some, manifest in manifests:
            if found := kept.intersection(some):
                assert pruner.keeps_manifest(manifest), (condition, some, found)


@pytest.mark.one_in(test=20, prove=8)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_partition_value_leaves_out_a_row(case: Case) -> None:
    check(Table(case, statistics=True), is_binding=False)
    if not case.needs_statistics:
        check(Table(case, statistics=False), is_binding=False)


@pytest.mark.one_in(test=20, prove=8)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_partition_value_leaves_out_a_row_of_a_planned_scan(case: Case) -> None:
    if case.transform == "identity" and case.writer is nothing:
        pytest.skip("Iceberg's readers take the partition's null for the value")
    check(Table(case, statistics=True), is_binding=True)


RIGHT = [case for case in CASES if case.writer is specification]


@pytest.mark.one_in(test=8, prove=2)
@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_right_partition_values_prune(case: Case) -> None:
    """Files without statistics are left out by their partition values, as ever."""
    table = Table(case, statistics=False)
    values = [file.partition[0] for file in table.files[:-1]]
    last_early = 23 if case.transform == "hour" else 0 if case.transform in UNITS else -(2**63)
    left_out = 0
    for row, value in zip(table.rows, values, strict=False):
        pruner = Pruner(table.metadata, EQUAL("c", case.kind.literal(row)))
        for other, file in zip(values, table.files, strict=False):
            kept = pruner.keeps_file(file)
            if case.kind is not UUID and (case.kind is TEXT or max(value, other) > last_early):
                assert kept == (value == other), (value, other)
            left_out += not kept
    assert left_out >= len(values)


@pytest.mark.one_in(test=8, prove=2)
@pytest.mark.parametrize("case", [case for case in RIGHT if case.kind is not UUID], ids=str)
def test_right_partition_values_prune_no_less_than_statistics(case: Case) -> None:
    table = Table(case, statistics=True)
    for condition, kept in table.conditions():
        pruner = Pruner(table.metadata, condition)
        found = {n for n, file in enumerate(table.files) if pruner.keeps_file(file)}
        assert found == kept, condition


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_that_mislead_other_readers_are_named(case: Case) -> None:
    table = Table(case, statistics=True)
    trust = PartitionTrust(table.spec, table.schema)
    for row, file in zip(table.rows[:-1], table.files, strict=False):
        is_right = file.partition[0] == specification(case.transform, case.kind, row)
        found = set(trust.misleading(file))
        assert found == (set() if is_right and case.transform != "bucket[7]" else {2}) or (
            case.transform == "bucket[7]" and case.kind is not UUID and is_right and not found
        ), row


@pytest.mark.parametrize("is_mixed", [True, False])
def test_a_plan_has_no_file_of_which_a_reader_would_keep_too_many_rows(is_mixed: bool) -> None:
    """Java drops a condition on whole days; rows of two days must then not be in one file."""
    table = Table(Case(TIMES[0], "day", in_a_zone(5)), statistics=True)
    second, type_ = 1_000_000, TIMES[0].type
    midnight = 20_000 * DAY_S * second
    file = table.files[0]
    rows = (midnight - 3600 * second, midnight + (3600 if is_mixed else -60) * second)
    file.partition[0] = 20_000
    file.lower_bounds[2], file.upper_bounds[2] = (to_bytes(type_, row) for row in rows)
    make: Any = TIMES[0].literal
    comparisons: tuple[Any, ...] = (iceberg.GreaterThanOrEqual, iceberg.LessThan)
    for of in comparisons:
        pruner = Pruner(table.metadata, of("c", make(midnight)), is_binding=True)
        assert pruner.undecided(file) == ("c" if is_mixed else None)
    other = EQUAL("c", make(midnight + 5))
    assert Pruner(table.metadata, other, is_binding=True).undecided(file) is None


@pytest.mark.one_in(test=8, prove=2)
@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_right_partition_values_are_never_undecided(case: Case) -> None:
    table = Table(case, statistics=True)
    for condition, _ in itertools.islice(table.conditions(), 0, None, 7):
        pruner = Pruner(table.metadata, condition, is_binding=True)
        assert not any(map(pruner.undecided, table.files))


# --- Whole tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("case", [Case(TEXT, "identity", nothing), Case(INT, "identity", nothing)])
def test_a_null_is_wrong_only_if_statistics_count_values(case: Case, statistics: bool) -> None:
    table = Table(case, statistics)
    trust = PartitionTrust(table.spec, table.schema)
    *of_values, of_null = [trust.replaced(file) for file in table.files]
    assert of_null is None
    assert {column and column.name for column in of_values} == {"c" if statistics else None}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with offline.running(tmp_path_factory.mktemp("written")) as running:
        yield running


@pytest.mark.parametrize("written", WRITTEN)
def test_wrong_partition_values_do_not_prune(gateway: Gateway, written: str) -> None:
    _, _, rows, conditions = WRITTEN[written]
    name = "t" + str(list(WRITTEN).index(written))
    paths = write(gateway, name, written)
    for condition in conditions:
        unpruned = f"SELECT n FROM (SELECT * FROM {name} OFFSET 0) WHERE {condition}"
        kept = gateway.rows(unpruned, "duckdb")
        assert kept
        assert sorted(gateway.rows(f"SELECT n FROM {name} WHERE {condition}", "duckdb")) == sorted(
            kept
        )
    client = gateway.app.test_client()
    plan = f"/iceberg-plan/v1/lake/namespaces/default/tables/{name}/plan"
    for row, path in zip(rows, paths, strict=True):
        for of in ("eq", "lt-eq", "gt-eq"):
            stated = {"type": of, "term": "c", "value": json_of(row)}
            body: Any = client.post(plan, json={"filter": stated}, base_url="http://127.0.0.1").json
            files = {task["data-file"]["file-path"] for task in body["file-scan-tasks"]}
            assert path in files, (stated, body)


def json_of(value: Any) -> Any:
    """A literal as the REST specification writes it."""
    match value:
        case int():
            return value
        case uuid.UUID():
            return str(value)
    return value.isoformat()

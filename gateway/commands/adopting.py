"""Adopting a table that another writer fills from a topic, and letting go of it again.

What is found is shown before anything is written: who fills the table, how far it has the log and
how far that can be trusted, where each column comes from, and the same records of both tiers side
by side. A record that the log shows and the table lacks, or has otherwise, speaks against it.
Adopting writes properties of the table, or prints them for the configuration where the table may
not be written to; un-adopting removes them, and leaves nothing else behind.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.arrow import conform
from seamline.connectors.continuity import checked
from seamline.connectors.duckdb.audit import cold_scan, expression
from seamline.connectors.duckdb.engine import open_scan
from seamline.connectors.iceberg import commits
from seamline.connectors.iceberg.boundaries.provider import OPTION_PREFIX
from seamline.connectors.iceberg.boundaries.registry import PROVIDERS
from seamline.connectors.iceberg.boundaries.writers import BY_COLUMNS, Writer, writer_of
from seamline.connectors.iceberg.catalog import IcebergTable
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols import Deadline, HotLog
from seamline.errors import (
    ADOPTION_REFUSED,
    INVALID_ARGUMENT,
    INVALID_TABLE_DEFINITION,
    NOT_A_UNIFIED_TABLE,
    STATEMENT_NOT_ALLOWED,
    SeamlineError,
)
from seamline.gateway.commands import alterations
from seamline.gateway.connections import Connections
from seamline.gateway.query.names import TableName
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import Boundary, boundary_of
from seamline.seam.checks import LogRead, truncated
from seamline.seam.encoding import LOG_PARTS, parse_sources, spelt_as
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec, Places
from seamline.seam.table import TableState
from seamline.sql import types
from seamline.sql.near import did_you_mean

SAMPLE_RECORDS = 20
"""Records of each partition that are compared, the last ones below the boundary."""
_PARTITIONS_MAX = 16
_PARTS = ("partition", "offset", "timestamp", "key", "headers")


@dataclasses.dataclass(frozen=True, slots=True)
class Adoption:
    """How a table is to be adopted.

    Attributes:
        name: The table.
        topic: The topic that is copied into it.
        cluster: The topic's cluster.
        provider: Who says how far its snapshots have the log; None for what is found.
        columns: Columns that hold parts of a record: `partition=k_partition`, ….
        columns_from: Further entries of `columns_from`: `column = source`.
        format: How values are encoded.
        key_format: How keys are.
        on_error: What a bad record becomes.
        isolation: What the log is read under.
        value_schema: The schema of all values, where they name none of a registry.
        key_schema: The same of keys.
        spellings: Ways to write values that are taken besides.
        csv_separator: What stands between the fields of CSV.
        csv_quote: What its fields are quoted with.
        options: Options of the provider, by name.
        start: Where the table begins, for partitions of which it has nothing.
        force: Whether it is adopted although something speaks against it.
    """

    name: TableName
    topic: str
    cluster: str
    provider: str | None = None
    columns: tuple[str, ...] = ()
    columns_from: tuple[str, ...] = ()
    format: str = "json"
    key_format: str = "string"
    on_error: str = "fail"
    isolation: str = READ_COMMITTED
    value_schema: str | None = None
    key_schema: str | None = None
    spellings: tuple[str, ...] = ()
    csv_separator: str | None = None
    csv_quote: str | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    start: Mapping[int, int] = dataclasses.field(default_factory=dict, hash=False)
    force: bool = False


_TEXTS = (
    *("topic", "cluster", "format", "key_format", "on_error", "isolation"),
    *("value_schema", "key_schema", "csv_separator", "csv_quote"),
)
_OTHERS = (
    *("adopt", "columns", "columns_from", "spellings"),
    *("boundary", "boundary_options", "start", "force"),
)


def of_statement(name: TableName, given: Mapping[str, Any], cluster: str) -> Adoption:
    """What the properties of CREATE TABLE … WITH, or of ALTER TABLE … SET PROPERTIES, ask for.

    Args:
        name: The table.
        given: The properties; lists are arrays, or texts with commas.
        cluster: The cluster of a topic without one.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION, INVALID_ARGUMENT.
    """
    known = (*_TEXTS, *_OTHERS)
    unknown = sorted(set(given) - set(known))
    if unknown or "topic" not in given:
        problem = f"{unknown[0]!r} is no property of it" if unknown else "its topic is missing"
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{name.display} cannot be adopted so: {problem}",
            hint=f"Properties are: {', '.join(known)}.",
        )
    said: dict[str, Any] = {key: str(given[key]) for key in _TEXTS if key in given}
    said["columns"], said["spellings"] = _list(given, "columns"), _list(given, "spellings")
    said["columns_from"] = _items(given, "columns_from")  # which has commas of its own
    return Adoption(
        name=name,
        provider=str(given["boundary"]) if "boundary" in given else None,
        options=dict(map(option_of, _list(given, "boundary_options"))),
        start=offsets_of(str(given.get("start", ""))),
        force=str(given.get("force", "")).lower() == "true",
        **{"cluster": cluster, **said},
    )


def _items(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name, ())
    return tuple(map(str, value if isinstance(value, tuple) else (value,)))


def _list(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    parts = (part.strip() for item in _items(given, name) for part in item.split(","))
    return tuple(filter(None, parts))


def option_of(text: str) -> tuple[str, str]:
    """`name=value`, an option of a provider.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise SeamlineError(INVALID_ARGUMENT, f"the option {text} has no value")
    return name.strip().replace("_", "-"), value.strip()


def offsets_of(text: str) -> dict[int, int]:
    """`partition:offset,…`.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    try:
        pairs = [entry.split(":") for entry in text.split(",")] if text else []
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError as error:
        raise SeamlineError(
            INVALID_ARGUMENT, f"the start {text} is not understood", hint="Such as 0:500,1:480."
        ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A record in both tiers.

    Attributes:
        partition: Its partition.
        offset: Its offset.
        cold: Its row in the snapshot, by column; None when there is none.
        hot: The row that the log gives; None when there is none.
    """

    partition: int
    offset: int
    cold: Mapping[str, Any] | None
    hot: Mapping[str, Any] | None

    @property
    def differences(self) -> list[str]:
        """Columns that are not the same in both."""
        if self.cold is None or self.hot is None:
            return []
        return [name for name in self.hot if not _is_same(self.hot[name], self.cold[name])]


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same; NaN is the same as itself."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_is_same(one[k], other[k]) for k in one)
        case list(), list():
            return len(one) == len(other) and all(map(_is_same, one, other))
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What was found of a table.

    Attributes:
        table: The table as it would be.
        writer: Who fills it.
        binding: What would be recorded.
        boundary: The boundary at its snapshot.
        bounds: What the log holds.
        sample: Records of both tiers.
        problems: What speaks against adopting it.
        notes: What its owner should know.
    """

    table: IcebergTable
    writer: Writer
    binding: TopicBinding
    boundary: Boundary
    bounds: LogBounds
    sample: tuple[Pair, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def properties(self) -> dict[str, str]:
        """The properties that say all of it."""
        own = self.table.state.properties
        return {k: v for k, v in own.items() if k.startswith(PROPERTY_PREFIX)}

    @property
    def configuration(self) -> str:
        """The same for the configuration, in YAML."""
        lines = [
            f"    {k.removeprefix(PROPERTY_PREFIX).replace('-', '_')}: {json.dumps(v)}"
            for k, v in self.properties.items()
        ]
        return "\n".join(["tables:", f"  {self.table.state.display_name}:", *lines])

    @property
    def lag(self) -> int:
        """Offsets between the boundary and the log's end."""
        return sum(max(0, e - self.boundary.next.get(p, 0)) for p, e in self.bounds.end.items())


def examine(connections: Connections, wanted: Adoption, deadline: Deadline) -> Findings:
    """Looks at a table and its topic; writes nothing.

    Raises:
        SeamlineError: ADOPTION_REFUSED when Seamline fills the table itself, or when it has no
            snapshot; TABLE_NOT_FOUND, TOPIC_NOT_FOUND, BOUNDARY_MISSING, OFFSETS_NOT_STORED, ….
    """
    table = alterations.load(connections, wanted.name)
    state = table.state
    _require_foreign(state)
    writer = _writer(wanted, state)
    log = connections.log(wanted.cluster)
    bounds = log.bounds([wanted.topic], wanted.isolation, deadline)[wanted.topic]
    binding = _binding(wanted, writer, state, bounds)
    options = {f"{OPTION_PREFIX}{name}": value for name, value in wanted.options.items()}
    if wanted.start:
        options[f"{OPTION_PREFIX}start"] = json.dumps(Offsets(wanted.start).to_json())
    catalog = connections.catalog(wanted.name.catalog)
    as_adopted = catalog.as_if(table, {**binding.to_properties(), **options})
    as_adopted.require_single_writer(state.current_snapshot_id)
    boundary = boundary_of(as_adopted.state, state.current_snapshot_id)
    sample = _compare(as_adopted, binding, boundary, bounds, log, deadline)
    of_log = {e.column[0] for e in binding.encoding.sources if e.source.part in LOG_PARTS}
    of_log |= writer.unknown
    return Findings(
        as_adopted,
        writer,
        binding,
        boundary,
        bounds,
        tuple(sample),
        (
            *_ends(boundary, bounds),
            *_missing(sample),
            *_differences(sample, of_log, not_in=True),
        ),
        (
            *_notes(as_adopted.state, binding, boundary, bounds),
            *_differences(sample, of_log, not_in=False),
        ),
    )


def create_text(state: TableState, binding: TopicBinding) -> str:
    """The statement that adopts a table as it has been."""
    texts = {
        "topic": binding.topic,
        "cluster": binding.cluster,
        "boundary": binding.boundary_provider or "",
        "format": binding.format,
        "key_format": binding.key_format,
        "on_error": binding.on_error,
        "isolation": binding.isolation,
        **{k: v for k, v in binding.settings().items() if k in _TEXTS and isinstance(v, str)},
    }
    prefix = len(OPTION_PREFIX)
    options = {k[prefix:]: v for k, v in state.properties.items() if k.startswith(OPTION_PREFIX)}
    start = options.pop("start", None)
    if start is not None:
        texts["start"] = ",".join(f"{p}:{o}" for p, o in json.loads(start).items())
    lists = {
        "columns_from": binding.columns_from,
        "spellings": binding.spellings,
        "boundary_options": [f"{k}={v}" for k, v in options.items() if k != "provider"],
    }
    lines = ["adopt = true", *(f"{key} = {_quoted(value)}" for key, value in texts.items())]
    lines += [f"{k} = ARRAY[{', '.join(map(_quoted, v))}]" for k, v in lists.items() if v]
    inside = ",\n".join(f"   {line}" for line in lines)
    return f"CREATE TABLE {state.display_name}\nWITH (\n{inside}\n)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def adopt(connections: Connections, findings: Findings, *, force: bool = False) -> None:
    """Records what was found in the table's properties.

    Raises:
        SeamlineError: ADOPTION_REFUSED when something speaks against it; CATALOG_ACCESS_DENIED,
            COMMIT_CONFLICT, ….
    """
    require_no_problems(findings, force=force)
    name = findings.table.state.name

    def work() -> None:
        table = connections.catalog(name[0]).load(name[1:])
        _require_foreign(table.state)
        old = [k for k in table.iceberg.properties if k.startswith(PROPERTY_PREFIX)]
        gone = [k for k in old if k not in findings.properties]
        if gone:
            commits.remove_properties(table, gone)
            table = connections.catalog(name[0]).load(name[1:])
        commits.set_properties(table, findings.properties)

    commits.insist(work)


def require_no_problems(findings: Findings, *, force: bool) -> None:
    """What speaks against adopting a table must be accepted by its owner.

    Raises:
        SeamlineError: ADOPTION_REFUSED.
    """
    if findings.problems and not force:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"{findings.table.state.display_name} is not adopted: {'; '.join(findings.problems)}",
        )


def unadopt(connections: Connections, name: TableName) -> None:
    """Takes away what adopting has written into a table.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, ADOPTION_REFUSED when it was never adopted;
            STATEMENT_NOT_ALLOWED when the configuration binds it.
    """

    def work() -> None:
        table = alterations.load(connections, name)
        written = [k for k in table.iceberg.properties if k.startswith(PROPERTY_PREFIX)]
        if TopicBinding.from_properties(table.state.properties) is None:
            raise SeamlineError(NOT_A_UNIFIED_TABLE, f"table {name.display} has no topic")
        _require_foreign(table.state)
        if not written:
            raise SeamlineError(
                STATEMENT_NOT_ALLOWED,
                f"the configuration binds {name.display} to its topic",
                hint="Take it out of `tables:` there.",
            )
        refs = [ref for ref in table.state.refs if ref.startswith("seamline")]
        if refs:
            commits.remove_refs(table, refs)
            table = alterations.load(connections, name)
        commits.remove_properties(table, written)

    commits.insist(work)


# --- What is to be recorded ----------------------------------------------------------------------


def _require_foreign(state: TableState) -> None:
    bound = TopicBinding.from_properties(state.properties)
    if bound is not None and bound.boundary_provider is None:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"table {state.display_name} is bound to topic {bound.topic}, and Seamline itself "
            "copies it",
            hint="`seamline table hand-over` lets another writer continue.",
        )
    if state.current_snapshot_id is None:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"table {state.display_name} has no snapshot yet",
            hint="Adopt it once its writer has committed.",
        )


def _writer(wanted: Adoption, state: TableState) -> Writer:
    """Who fills the table; what is said goes before what is found."""
    named = {writer.name.lower(): writer for writer in BY_COLUMNS}
    found = writer_of(state)
    if wanted.provider is None:
        return found
    given = wanted.provider.lower()
    if given in PROVIDERS:
        return dataclasses.replace(found, provider=given)
    if given in named:
        return named[given]
    known = (*PROVIDERS, *named)
    raise SeamlineError(
        INVALID_ARGUMENT,
        f"the boundary provider {wanted.provider!r} is not known",
        hint=did_you_mean(given, known) or f"It is one of: {', '.join(known)}.",
    )


def _binding(
    wanted: Adoption, writer: Writer, state: TableState, bounds: LogBounds
) -> TopicBinding:
    sources = parse_sources((*wanted.columns_from, *map(_entry, wanted.columns)))
    given = spelt_as(sources, state.schema.columns)
    said = {entry.column for entry in given}
    found = (e for e in parse_sources(writer.sources(state.schema.columns)) if e.column not in said)
    return TopicBinding(
        cluster=wanted.cluster,
        topic=wanted.topic,
        format=wanted.format,
        on_error=wanted.on_error,
        isolation=wanted.isolation,
        key_format=wanted.key_format,
        value_schema=wanted.value_schema,
        key_schema=wanted.key_schema,
        spellings=wanted.spellings,
        csv_separator=wanted.csv_separator,
        csv_quote=wanted.csv_quote,
        columns_from=tuple(map(str, (*given, *found))),
        tombstones="bad" if writer.needs_values else None,
        boundary_provider=writer.provider,
        topic_id=bounds.topic_id,
        cluster_id=bounds.cluster_id,
    )


def _entry(text: str) -> str:
    """`partition=k_partition` as an entry of `columns_from`, where the column comes first."""
    part, equals, column = text.partition("=")
    if not equals or part.strip() not in _PARTS:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{text!r} does not say which column holds a part of the record",
            hint=f"Such as offset=k_offset; parts are: {', '.join(_PARTS)}.",
        )
    return f"{column.strip()} = {part.strip()}"


# --- What speaks against it ----------------------------------------------------------------------


def _ends(boundary: Boundary, bounds: LogBounds) -> Iterator[str]:
    error = truncated(bounds, boundary.next)
    if error is not None:
        yield f"the table has more than the topic: {error.message}"


def _notes(
    state: TableState, binding: TopicBinding, boundary: Boundary, bounds: LogBounds
) -> Iterator[str]:
    if Places.of(binding.encoding, state.schema.columns) is None:
        yield (
            "no column holds the offsets of records: tokens are repeated only on their own "
            "snapshot, and neither changes nor an audit can be had"
        )
    for partition, start in bounds.start.items():
        if start > boundary.next.get(partition, 0):
            yield (
                f"partition {partition} of the log starts at {start}, past the table's boundary "
                f"{boundary.next.get(partition, 0)}: queries will fail with LOG_TRIMMED. If the "
                f"table was meant to begin there, say --start {partition}:{start}"
            )


def _compare(
    table: IcebergTable,
    binding: TopicBinding,
    boundary: Boundary,
    bounds: LogBounds,
    log: HotLog,
    deadline: Deadline,
) -> list[Pair]:
    """The last records below the boundary, as the log and as the snapshot have them."""
    spec = DecoderSpec.of(binding, table.state.schema.columns)
    decoder = Decoder(spec, schemas_of(log, deadline))
    places = Places.of(binding.encoding, table.state.schema.columns)
    ranges = [
        OffsetRange(p, max(bounds.start.get(p, 0), end - SAMPLE_RECORDS), end)
        for p, end in list(boundary.next.items())[:_PARTITIONS_MAX]
        if p in bounds.end and bounds.start.get(p, 0) < end <= bounds.end[p]
    ]
    if places is None or not ranges:
        return []
    hot: dict[tuple[int, int], Mapping[str, Any]] = {}
    with checked(log, LogRead.within(bounds, ranges), deadline):
        for batch in log.read(binding.topic, ranges, binding.isolation, deadline):
            rows, bad = decoder.decode_all(batch)
            own = rows.select([column.name for column in spec.stored])
            for index, row in enumerate(own.to_pylist()):
                if index not in bad or binding.on_error == "null":
                    hot[int(batch.partitions[index]), int(batch.offsets[index])] = row
    cold = _cold_rows(table, places, ranges)
    return [Pair(*place, cold.get(place), hot.get(place)) for place in sorted({*hot, *cold})]


def _cold_rows(
    table: IcebergTable, places: Places, ranges: Sequence[OffsetRange]
) -> dict[tuple[int, int], Mapping[str, Any]]:
    snapshot_id = table.state.current_snapshot_id
    assert snapshot_id is not None
    columns = table.state.schema.columns
    p, o = expression(places.partition), expression(places.offset)
    wanted = " OR ".join(
        f"({p} = {r.partition} AND {o} >= {r.start} AND {o} < {r.end_exclusive})" for r in ranges
    )
    scan = cold_scan(table, snapshot_id, columns)
    with open_scan(scan) as (connection, relation):
        found = connection.sql(
            f"SELECT {p} AS __p, {o} AS __o, * FROM ({relation}) WHERE {wanted}"
        ).to_arrow_table()
    found_at = zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
    schema = pa.schema([types.arrow_field(column) for column in columns])
    rows = [
        row
        for batch in found.drop_columns(["__p", "__o"]).to_batches()
        for row in conform(batch, schema).to_pylist()
    ]
    return dict(zip(found_at, rows, strict=True))


def _missing(pairs: Sequence[Pair]) -> Iterator[str]:
    missing = [pair for pair in pairs if pair.cold is None]
    if missing:
        first = missing[0]
        yield (
            f"{len(missing)} of {len(pairs)} records of the log are not in the table, such as "
            f"partition {first.partition}, offset {first.offset}: its writer leaves out records, "
            "or does not commit them in order"
        )


def _differences(pairs: Sequence[Pair], columns: Container[str], *, not_in: bool) -> Iterator[str]:
    """The first difference in columns that are, or are not, among some.

    A column that only says what the log knows of a record may differ: it does not spoil the rows.
    """
    for pair in pairs:
        for name in pair.differences:
            if (name in columns) is not_in or pair.hot is None or pair.cold is None:
                continue
            yield (
                f"partition {pair.partition}, offset {pair.offset}: column {name} is "
                f"{pair.cold[name]!r} in the table, and the record gives {pair.hot[name]!r}"
            )
            return

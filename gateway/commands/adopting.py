"""Adopts a table that another writer fills from a topic, and releases it again.

The findings are shown before anything is written: the table's writer, its boundary and how far that
can be trusted, the source of each column, and the same records of both tiers side by side. A record
that the log shows and the table lacks, or has with other values, is an objection to adopting it.
Adopting writes table properties. If tables of its format are read-only, it prints them for the
configuration. Un-adopting removes them and leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from seamline.connectors.iceberg.boundaries.adoption import Adoptable, require_foreign
from seamline.connectors.iceberg.boundaries.provider import OPTION_PREFIX
from seamline.connectors.iceberg.boundaries.redpanda import CONTEXT, DEFAULT_CONTEXT, MODE, Mode
from seamline.connectors.iceberg.boundaries.writers import REDPANDA, Writer
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.kafka.formats import infer_schema
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog, TellsSettings
from seamline.errors import (
    ADOPTION_REFUSED,
    INVALID_ARGUMENT,
    INVALID_TABLE_DEFINITION,
    KAFKA_UNAVAILABLE,
    STATEMENT_NOT_ALLOWED,
    SeamlineError,
)
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import suggesting_topics
from seamline.gateway.commands import alterations, comparison, inferring, tables
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import Boundary, boundary_of
from seamline.seam.encoding import KEY, LOG_PARTS, VALUE, LatestSchema, parse_sources, spelt_as
from seamline.seam.history_checks import truncated
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.options import ADOPT_OPTIONS, AdoptOptions
from seamline.seam.records import DecoderSpec, Places
from seamline.seam.table import TableState
from seamline.sql.quoting import quoted_text

_PARTS = ("partition", "offset", "timestamp", "key", "headers")


@dataclasses.dataclass(frozen=True, slots=True)
class Adoption(AdoptOptions):
    """How a table is to be adopted.

    Attributes:
        name: The table.
        location: Its location, if neither its catalog nor the configuration nor its name gives it.
    """

    name: TableName = dataclasses.field(kw_only=True)
    location: str | None = None


_OPTIONS = {option.name: option for option in ADOPT_OPTIONS}


def of_statement(name: TableName, properties: Mapping[str, Any], cluster: str) -> Adoption:
    """Parses the properties of CREATE TABLE … WITH, or of ALTER TABLE … SET PROPERTIES.

    Args:
        name: The table.
        properties: The properties; a list is an array, or a string with commas.
        cluster: The cluster of the topic, if the properties name none.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION, INVALID_ARGUMENT.
    """
    names = (*_OPTIONS, "adopt")
    unknown = sorted(set(properties) - set(names))
    if unknown or "topic" not in properties:
        problem = (
            f"{unknown[0]!r} is not one of its properties" if unknown else "its topic is missing"
        )
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{name.display} cannot be adopted: {problem}",
            hint=f"The properties are {', '.join(names)}.",
        )
    return Adoption(name=name, **{"cluster": cluster, **_options(properties)})


def _options(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of the table; those that are lists may be written in one string."""
    values = {
        name: option.value(properties[name])
        for name, option in _OPTIONS.items()
        if name in properties
    }
    for name, option in _OPTIONS.items():
        if name in values and option.type is tuple:
            values[name] = tuple(itertools.chain.from_iterable(map(option.read, values[name])))
    return values


def option_of(text: str) -> tuple[str, str]:
    """Parses `name=value`, an option of a provider.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise SeamlineError(INVALID_ARGUMENT, f"the option {text} has no value")
    return name.strip().replace("_", "-"), value.strip()


def offsets_of(text: str) -> dict[int, int]:
    """Parses `partition:offset,…`.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    try:
        pairs = [entry.split(":") for entry in text.split(",")] if text else []
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError as error:
        raise SeamlineError(
            INVALID_ARGUMENT, f"start {text} is not understood", hint="Write it like 0:500,1:480."
        ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What is known about a table.

    Attributes:
        table: The table as it would be when adopted.
        writer: The writer that fills it.
        binding: The binding that would be recorded.
        boundary: The boundary of its current snapshot.
        bounds: The bounds of the topic.
        sample: Records of both tiers.
        problems: Objections to adopting it.
        notes: What the table's owner should know.
        is_for_configuration: Whether the table is read-only, so that the configuration must bind
            it.
    """

    table: ColdTable
    writer: Writer
    binding: TopicBinding
    boundary: Boundary
    bounds: LogBounds
    sample: tuple[comparison.Pair, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    is_for_configuration: bool = False

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that record the adoption."""
        own = self.table.state.properties
        return {k: v for k, v in own.items() if k.startswith(PROPERTY_PREFIX)}

    @property
    def configuration(self) -> str:
        """The same settings as YAML for the configuration."""
        lines = [
            f"    {k.removeprefix(PROPERTY_PREFIX).replace('-', '_')}: {json.dumps(v)}"
            for k, v in self.properties.items()
        ]
        return "\n".join(["tables:", f"  {self.table.state.display_name}:", *lines])

    @property
    def lag(self) -> int:
        """Offsets between the boundary and the log's end."""
        return sum(max(0, e - self.boundary.next.get(p, 0)) for p, e in self.bounds.end.items())


def examine(connections: Connections, adoption: Adoption, deadline: Deadline) -> Findings:
    """Examines a table and its topic, and writes nothing.

    Raises:
        SeamlineError: ADOPTION_REFUSED when Seamline fills the table itself, when it has no
            snapshot, or when the topic's configuration contradicts it; TABLE_NOT_FOUND,
            TOPIC_NOT_FOUND, BOUNDARY_MISSING, OFFSETS_NOT_STORED, ….
    """
    start = Offsets(offsets_of(adoption.start))
    seen = _adoptable(connections, adoption)
    state, writer = seen.state, seen.writer
    log = connections.log(adoption.cluster)
    with suggesting_topics(adoption.cluster, adoption.topic, connections):
        bounds = log.bounds([adoption.topic], adoption.isolation, deadline)[adoption.topic]
    sampled = functools.cache(lambda: inferring.sample(log, adoption.topic, bounds, deadline))
    configured = _Configured()
    if writer.name == REDPANDA.name:
        configured = _configured(adoption, state, log, sampled, deadline)
    binding = _binding(adoption, writer, configured, state, bounds)
    tables.check_policy(binding.on_error, state.schema.columns)
    options = {f"{OPTION_PREFIX}{name}": value for name, value in seen.options.items()}
    if start:
        options[f"{OPTION_PREFIX}start"] = json.dumps(start.to_json())
    as_adopted = seen.as_if({**binding.to_properties(), **options})
    as_adopted.require_single_writer(state.current_snapshot_id)
    boundary = boundary_of(as_adopted.state, state.current_snapshot_id)
    compared = comparison.compare(as_adopted, binding, boundary, bounds, log, deadline)
    of_log = {e.column[0] for e in binding.encoding.sources if e.source.part in LOG_PARTS}
    of_log |= writer.unknown
    return Findings(
        as_adopted,
        writer,
        binding,
        boundary,
        bounds,
        compared.pairs,
        (
            *_ends(boundary, bounds),
            *comparison.missing(compared.pairs),
            *comparison.doubles(compared.doubled),
            *comparison.aborted(compared.aborted),
            *(comparison.all_doubles(as_adopted, binding) if writer.may_double else ()),
            *comparison.differences(compared.pairs, of_log, not_in=True),
        ),
        (
            *filter(None, [writer.note]),
            *_notes(as_adopted.state, binding, boundary, bounds),
            *configured.notes,
            *_absent(as_adopted.state, binding, sampled(), log, of_log, deadline),
            *comparison.differences(compared.pairs, of_log, not_in=False),
        ),
        not connections.format(adoption.name.catalog).is_writable,
    )


def _adoptable(connections: Connections, adoption: Adoption) -> Adoptable:
    name, path = adoption.name, adoption.name.path
    if connections.format(name.catalog).is_listed:
        if adoption.location is not None:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"the location of {name.display} cannot be given: its catalog knows it",
            )
        path = alterations.identifier_of(connections, name)
    catalog = connections.cold(name.catalog)
    options = dict(map(option_of, adoption.boundary_options))
    return catalog.adoptable(path, adoption.location, adoption.boundary, options)


def create_text(state: TableState, binding: TopicBinding) -> str:
    """Returns the statement that would adopt a table the way it has been adopted."""
    values = {name: value for name, value in binding.settings().items() if name in _OPTIONS}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    texts["boundary"] = binding.boundary_provider or ""
    prefix = len(OPTION_PREFIX)
    options = {k[prefix:]: v for k, v in state.properties.items() if k.startswith(OPTION_PREFIX)}
    start = options.pop("start", None)
    if start is not None:
        texts["start"] = ",".join(f"{p}:{o}" for p, o in json.loads(start).items())
    lists = {
        **{name: value for name, value in values.items() if isinstance(value, tuple)},
        "boundary_options": [f"{k}={v}" for k, v in options.items() if k != "provider"],
    }
    lines = ["adopt = true", *(f"{key} = {quoted_text(value)}" for key, value in texts.items())]
    lines += [f"{k} = ARRAY[{', '.join(map(quoted_text, v))}]" for k, v in lists.items() if v]
    inside = ",\n".join(f"   {line}" for line in lines)
    return f"CREATE TABLE {state.display_name}\nWITH (\n{inside}\n)"


def adopt(connections: Connections, findings: Findings, *, force: bool = False) -> None:
    """Adopts the table: records the findings in its properties.

    Raises:
        SeamlineError: ADOPTION_REFUSED when there are problems, unless forced;
            STATEMENT_NOT_ALLOWED for a read-only table; CATALOG_ACCESS_DENIED, COMMIT_CONFLICT, ….
    """
    require_no_problems(findings, force=force)
    name = findings.table.state.name
    if findings.is_for_configuration:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"the {connections.format(name[0]).title} table "
            f"{findings.table.state.display_name} is read-only: adopt it in the configuration",
            hint=f"Add to the configuration, and restart: {findings.configuration}",
        )

    def work() -> None:
        table = connections.catalog(name[0]).load(name[1:])
        require_foreign(table.state)
        old = [k for k in table.iceberg.properties if k.startswith(PROPERTY_PREFIX)]
        gone = [k for k in old if k not in findings.properties]
        if gone:
            commits.remove_properties(table, gone)
            table = connections.catalog(name[0]).load(name[1:])
        commits.set_properties(table, findings.properties)

    commits.insist(work)


def require_no_problems(findings: Findings, *, force: bool) -> None:
    """Refuses to adopt a table with problems, unless its owner accepts them.

    Raises:
        SeamlineError: ADOPTION_REFUSED.
    """
    if findings.problems and not force:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"{findings.table.state.display_name} is not adopted: {'; '.join(findings.problems)}",
        )


def unadopt(connections: Connections, name: TableName) -> None:
    """Removes what adopting wrote into a table.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, ADOPTION_REFUSED when it was never adopted;
            STATEMENT_NOT_ALLOWED when the configuration binds it.
    """
    if not connections.format(name.catalog).is_writable:
        state = LoadedTables(connections).now([name])[name].state
        TopicBinding.required(state.properties, state.display_name)
        raise _bound_elsewhere(state)

    def work() -> None:
        table = alterations.load(connections, name)
        written = [k for k in table.iceberg.properties if k.startswith(PROPERTY_PREFIX)]
        TopicBinding.required(table.state.properties, table.state.display_name)
        require_foreign(table.state)
        if not written:
            raise _bound_elsewhere(table.state)
        refs = [ref for ref in table.state.refs if ref.startswith("seamline")]
        if refs:
            commits.remove_refs(table, refs)
            table = alterations.load(connections, name)
        commits.remove_properties(table, written)

    commits.insist(work)


def _bound_elsewhere(state: TableState) -> SeamlineError:
    return SeamlineError(
        STATEMENT_NOT_ALLOWED,
        f"the configuration binds {state.display_name} to its topic",
        hint="Remove it from `tables:` there.",
    )


# --- The binding to be recorded ------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Configured:
    """What the topic's own configuration says about the table.

    Attributes:
        options: The options of the table, by name, for those that were not stated.
        sources: The entries of `columns_from` for columns that were not stated either.
        copies_tombstones: Whether the writer copies records without a value.
        notes: What the table's owner should know.
    """

    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sources: tuple[str, ...] = ()
    copies_tombstones: bool = False
    notes: tuple[str, ...] = ()


def _configured(
    adoption: Adoption,
    state: TableState,
    log: HotLog,
    seen: Callable[[], inferring.Sample],
    deadline: Deadline,
) -> _Configured:
    """Returns what the topic's `redpanda.iceberg.mode` says; nothing if it has none.

    Raises:
        SeamlineError: ADOPTION_REFUSED when it contradicts the table, or its schemas are not known;
            NOT_SUPPORTED, SCHEMA_REGISTRY_UNAVAILABLE.
    """
    try:
        settings = log.settings(adoption.topic, deadline) if isinstance(log, TellsSettings) else {}
    except SeamlineError as error:
        if error.code is not KAFKA_UNAVAILABLE:
            raise
        return _Configured(notes=(f"{MODE} cannot be read, and counts as unset: {error.message}",))
    mode = Mode.parse(settings[MODE]) if MODE in settings else None
    if mode is None:
        return _Configured()
    refused = f"{state.display_name} is not adopted: topic {adoption.topic} has {MODE} = "
    refused += settings[MODE]
    for contradiction in mode.contradictions(state.schema.columns):
        raise SeamlineError(ADOPTION_REFUSED, f"{refused}, but {contradiction}")
    context = settings.get(CONTEXT, DEFAULT_CONTEXT)
    options: dict[str, str] = {}
    for part, part_mode in ((VALUE, mode.value), (KEY, mode.key)):
        schema = getattr(adoption, f"{part}_schema") or part_mode.schema
        is_registered = schema is None or LatestSchema.parse(schema) is not None
        if not part_mode.has_schema:
            options[_FORMAT_OPTIONS[part]] = part_mode.format
        elif is_registered and context != DEFAULT_CONTEXT:
            raise SeamlineError(
                ADOPTION_REFUSED,
                f"{refused} and {CONTEXT} = {context}, where ids may stand for other schemas",
                hint=f"State {part}_schema.",
            )
        elif is_registered:
            options |= {f"{part}_schema": schema} if schema is not None else {}
            if getattr(adoption, _FORMAT_OPTIONS[part]) == _OPTIONS[_FORMAT_OPTIONS[part]].default:
                setting = Setting(part, schemas_of(log, deadline), schema)
                kind = _kind(setting, adoption.topic, seen(), refused)
                options[_FORMAT_OPTIONS[part]] = part_mode.format_of(kind)
    return _Configured(options, mode.sources, copies_tombstones=not mode.value.has_schema)


_FORMAT_OPTIONS = {VALUE: "format", KEY: "key_format"}


def _kind(setting: Setting, topic: str, seen: inferring.Sample, refused: str) -> str:
    """Returns the kind of the schema of keys or values; raises a SeamlineError if none is known."""
    parts = seen.keys if setting.part == KEY else seen.values
    kind = infer_schema.kind_of(setting, topic, parts, seen.headers)
    if kind is None:
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"{refused}, but neither the schema registry nor a record says which schema its "
            f"{setting.part}s have",
            hint=f"Register the schema, or state {_FORMAT_OPTIONS[setting.part]}.",
        )
    return kind


def _binding(
    adoption: Adoption,
    writer: Writer,
    configured: _Configured,
    state: TableState,
    bounds: LogBounds,
) -> TopicBinding:
    parts = (part for text in adoption.columns for part in text.split(","))
    sources = parse_sources((*adoption.columns_from, *map(_entry, parts)))
    stated = spelt_as(sources, state.schema.columns)
    columns = {entry.column for entry in stated}
    of_writer = parse_sources((*writer.sources(state.schema.columns), *configured.sources))
    others = (e for e in of_writer if all(c[: len(e.column)] != e.column for c in columns))
    stored = adoption.stored()
    unset = {n: v for n, v in configured.options.items() if stored[n] == _OPTIONS[n].default}
    spellings = tuple(dict.fromkeys((*stored.get("spellings", ()), *writer.spellings)))
    columns_from = tuple(map(str, (*stated, *others)))
    return TopicBinding(
        **{**stored, **unset, "columns_from": columns_from, "spellings": spellings},
        tombstones="bad" if writer.needs_values and not configured.copies_tombstones else None,
        boundary_provider=writer.provider,
        topic_id=bounds.topic_id,
        cluster_id=bounds.cluster_id,
    )


def _entry(text: str) -> str:
    """Turns `partition=k_partition` into an entry of `columns_from`, which has the column first."""
    part, equals, column = text.partition("=")
    if not equals or part.strip() not in _PARTS:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{text!r} does not name a part of the record and its column",
            hint=f"Write it like offset=k_offset; the parts are {', '.join(_PARTS)}.",
        )
    return f"{column.strip()} = {part.strip()}"


# --- Problems and notes --------------------------------------------------------------------------


def _ends(boundary: Boundary, bounds: LogBounds) -> Iterator[str]:
    error = truncated(bounds, boundary.next)
    if error is not None:
        yield f"the table has more than the topic: {error.message}"


def _absent(
    state: TableState,
    binding: TopicBinding,
    seen: inferring.Sample,
    log: HotLog,
    of_log: Collection[str],
    deadline: Deadline,
) -> Iterator[str]:
    """Yields columns that no record has, except those that the writer itself fills."""
    own = tuple(column for column in state.schema.columns if column.name not in of_log)
    spec = DecoderSpec.of(binding, own)
    yield from inferring.absent_notes(spec, seen, schemas_of(log, deadline))


def _notes(
    state: TableState, binding: TopicBinding, boundary: Boundary, bounds: LogBounds
) -> Iterator[str]:
    if Places.of(binding.encoding, state.schema.columns) is None:
        yield (
            "no column holds the offsets of records: tokens work only while their own "
            "snapshot exists, and neither changes nor audits are available"
        )
    for partition, start in bounds.start.items():
        if start > boundary.next.get(partition, 0):
            yield (
                f"partition {partition} of the log starts at {start}, past the table's boundary "
                f"{boundary.next.get(partition, 0)}: queries will fail with LOG_TRIMMED. If the "
                f"table is meant to begin there, pass --start {partition}:{start}"
            )

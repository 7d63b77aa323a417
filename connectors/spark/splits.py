"""A table and its seam as the gateway pins them, split into parts that Spark's executors read.

The gateway says where the snapshot's metadata and the log are, which offsets to read, and how
records are decoded. Parts have a bounded size, and are read as the gateway itself would read them.
For an upsert table, the newest record of each key of the tail is found first, once. Parts of the
snapshot then leave out the tail's keys, and parts of the log return only these records.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql.datasource import (
    InputPartition,
)

from seamline.connectors.config import (
    ClusterConfig,
    LoginConfig,
    SchemaRegistryConfig,
    Settings,
)
from seamline.connectors.duckdb.engine import read_scan
from seamline.connectors.iceberg.static_table import static_table
from seamline.connectors.iceberg.tables.catalog import IcebergTable, table_of_file
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.continuity import Overtaken, checked, overtaken
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.kafka.tail import Looked
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.engines import EngineScan
from seamline.connectors.spark.decoding import plain
from seamline.connectors.spark.hot_keys import HotKeys, KeysFound
from seamline.errors import (
    COLD_FILE_INVALID,
    GATEWAY_UNAVAILABLE,
    INVALID_ARGUMENT,
    LOG_TRIMMED,
    NOT_A_UNIFIED_TABLE,
    OFFSETS_NOT_STORED,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.seam import compaction, encoding
from seamline.seam.binding import TopicBinding
from seamline.seam.files import DataFile, ScanRequest, together
from seamline.seam.history_checks import LogRead
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec, Places
from seamline.seam.seam import ColdSpan, Seam
from seamline.seam.table import TableState
from seamline.seam.upserts import Newest
from seamline.sql.columns import DELETED, DELETED_FIELD, OFFSET
from seamline.sql.predicates import Or, Predicate, of_offsets
from seamline.sql.types import Field

SPLIT_BYTES = 128 << 20
SPLIT_OFFSETS = 250_000
_SHARED_OFFSETS = 25_000
"""Small ranges, of any partitions, are one part until they have this many offsets together: a
task takes longer to start than to read a few records."""
"""The offsets of one part; its rows stay in memory until the log is found to still be the same."""

_KEYS_SHARE = 4
"""How many times larger a part's files are than the tail's keys, which are sent with each part."""

_READS_MAX = 4
"""The most reads of a tail, each of which continues to where compaction has come meanwhile."""

_REQUEST_S = 60.0
_Settings = TypeVar("_Settings", bound=Settings)


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a read.

    Attributes:
        url: Address of the gateway (`url`).
        access_token: Its bearer token (`accessToken`).
        user: A user of the gateway, instead of a bearer token (`user`).
        password: The user's password (`password`).
        table: Name of the table (`table`).
        token: The token of a receipt, to read that seam again (`token`); batches only.
        changes: Whether to read an upsert table's changes instead of its rows (`changes`).
        kafka: librdkafka properties of the executors (`kafka.…`); the brokers' addresses come from
            the gateway unless they are among them.
        storage: PyIceberg properties of the storage (`iceberg.…`).
        login: The executors' login to the cluster, as in the gateway's configuration (`login.…`).
        registry: How executors reach the schema registry, as in the gateway's configuration
            (`registry.…`); what it is and where comes from the gateway unless it is among them.
    """

    url: str
    table: str
    access_token: str
    user: str
    password: str
    token: str
    changes: bool
    kafka: Mapping[str, str]
    storage: Mapping[str, str]
    login: LoginConfig
    registry: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        """Parses the options that Spark passes, with names in any case."""
        given = {name.lower(): value for name, value in options.items()}
        for name in ("url", "table"):
            if not given.get(name):
                raise SeamlineError(
                    INVALID_ARGUMENT,
                    f"the option {name} is missing",
                    hint='spark.read.format("seamline").option("url", …).option("table", …)',
                )
        changes = given.get("changes", "false").lower()
        if changes not in {"true", "false"}:
            raise SeamlineError(
                INVALID_ARGUMENT, f"the option changes must be true or false, not {changes!r}"
            )
        return cls(
            given["url"].rstrip("/"),
            given["table"],
            given.get("accesstoken", ""),
            given.get("user", ""),
            given.get("password", ""),
            given.get("token", ""),
            changes == "true",
            _with_prefix(options, "kafka."),
            _with_prefix(options, "iceberg."),
            _settings(LoginConfig, _with_prefix(options, "login."), "login"),
            _registry_settings(_with_prefix(options, "registry.")),
        )


def _with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {n.removeprefix(prefix): v for n, v in options.items() if n.startswith(prefix)}


def _registry_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns settings of a registry, those of its login as a value of their own."""
    login = _with_prefix(options, "login.")
    own = {name: value for name, value in options.items() if not name.startswith("login.")}
    return {**own, "login": login} if login else own


def _settings(kind: type[_Settings], values: Mapping[str, Any], prefix: str) -> _Settings:
    """Returns settings that options state.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        name = ".".join([prefix, *map(str, problem["loc"])])
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"the option {name}: {problem['msg']}",
            hint=f"The options {prefix}.… are settings of the gateway's configuration.",
        ) from error


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as the gateway has pinned it.

    Attributes:
        seam: Its seam.
        metadata_location: The file that holds its metadata.
        bootstrap_servers: Where its topic's cluster is; None when there is no topic.
        options: The options of the read.
        data_locations: Where its files may be in addition to its own location.
        schema_registry: What has the schemas of its topic's records, and where it is.
    """

    seam: Seam
    metadata_location: str
    bootstrap_servers: str | None
    options: Options
    data_locations: Sequence[str] = ()
    schema_registry: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def place(cls, options: Options) -> Table:
        """Asks the gateway for the seam: the current one, or the token's."""
        request = urllib.request.Request(  # noqa: S310 - the address is the user's own
            f"{options.url}/api/v1/seams",
            data=json.dumps({"table": options.table, "token": options.token or None}).encode(),
            headers={"Content-Type": "application/json"},
        )
        if options.user:
            proof = base64.b64encode(f"{options.user}:{options.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {proof}")
        elif options.access_token:
            request.add_header("Authorization", f"Bearer {options.access_token}")
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_S) as answer:  # noqa: S310
                return cls.from_json(json.load(answer), options)
        except urllib.error.HTTPError as error:
            raise _gateway_error(error) from error
        except OSError as error:
            raise SeamlineError(GATEWAY_UNAVAILABLE, f"{options.url}: {error}") from error

    @classmethod
    def from_json(cls, body: Mapping[str, Any], options: Options) -> Table:
        """Returns the table that the gateway's response describes.

        Raises:
            SeamlineError: NOT_A_UNIFIED_TABLE.
        """
        seam = Seam.from_json(body)
        if body["metadata_location"] is None:
            raise SeamlineError(
                NOT_A_UNIFIED_TABLE,
                f"{options.table} is a topic without a table",
                hint="CREATE TABLE … WITH (topic = '…') makes the table that is read here.",
            )
        located = body["metadata_location"], body["bootstrap_servers"]
        registry = body.get("schema_registry") or {}
        return cls(seam, *located, options, body["data_locations"], registry)

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns, metadata columns included; for changes, also whether each is a delete."""
        own = self.state.schemas[self.seam.schema_id].columns
        return (*own, DELETED_FIELD) if self.gives_changes else own

    @property
    def gives_changes(self) -> bool:
        """Whether to read every record of the topic, instead of the table that results from them.

        Raises:
            SeamlineError: INVALID_ARGUMENT if that is requested for a table whose rows are records.
        """
        if self.options.changes and self._spec_and_newest[1] is None:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"{self.options.table} is not an upsert table with its topic, so it has no changes "
                "besides its rows",
                hint="Omit the option changes.",
            )
        return self.options.changes

    @property
    def newest(self) -> Newest | None:
        """Which of the records count; None if all do."""
        return None if self.gives_changes else self._spec_and_newest[1]

    @property
    def _spec_and_newest(self) -> tuple[DecoderSpec | None, Newest | None]:
        """How records are decoded, and which of them count; None for both without a hot side."""
        state, seam = self.state, self.seam
        binding = TopicBinding.from_properties(state.properties)
        if binding is None or not seam.log.topic:
            return None, None
        columns = state.schemas[seam.schema_id].columns
        spec = DecoderSpec.of(binding, columns, seam.log.format, seam.log.on_error)
        return spec, Newest.of(binding, spec)

    @property
    def places(self) -> Places | None:
        """The columns that say which record a row is, if there are any."""
        if not self.seam.log.topic:
            return None
        return Places.of(encoding.parse(self.seam.log.format), self.columns)

    @property
    def state(self) -> TableState:
        """The table's metadata."""
        return self._cold().state

    def _cold(self) -> IcebergTable:
        static = static_table(self.metadata_location, self.options.storage)
        return table_of_file(self.seam.table, static, self.data_locations)

    def hot_splits(
        self,
        ranges: Sequence[OffsetRange],
        epochs: Mapping[int, int],
        end: Offsets,
        end_epochs: Offsets,
        found: KeysFound | None = None,
    ) -> list[HotSplit]:
        """Splits ranges of the log into parts of a bounded length; small ones share a part.

        Args:
            ranges: The offsets.
            epochs: Leader epochs of the records below the ranges' starts, where known.
            end: The ends that the log was found to have.
            end_epochs: Leader epochs at that time, where known.
            found: For an upsert table, which of the records are the newest of their keys.
        """
        spec, _ = self._spec_and_newest
        if self.bootstrap_servers is None or spec is None:
            return []
        log, cluster = self.seam.log, self._cluster()
        names = tuple(column.name for column in self.columns)
        starts = {range_.partition: range_.start for range_ in ranges}
        parts = [part for range_ in ranges for part in _parts(range_)]
        splits = [
            HotSplit(
                cluster,
                spec,
                names,
                LogRead(log.topic, log.topic_id, log.isolation, shared, end, end_epochs),
                {
                    part.partition: epochs[part.partition]
                    for part in shared
                    if part.start == starts[part.partition] and part.partition in epochs
                },
                found.within(shared[0]) if found is not None else None,
            )
            for shared in (_together(parts) if found is None else ((part,) for part in parts))
        ]
        return [split for split in splits if split.newest is None or len(split.newest)]

    def find_keys(self) -> tuple[Table, KeysFound | None]:
        """Finds the keys of an upsert table's tail.

        What compaction has removed from the tail may have been replaced by records past its end.
        Then these are read, too.

        Returns:
            The table at the seam that the keys belong to, and the keys; None for the keys if every
            record is a row.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN, READ_CONFLICT, and as reading the log does.
        """
        spec, _ = self._spec_and_newest
        newest, seam = self.newest, self.seam
        if spec is None or newest is None:
            return self, None
        keys = HotKeys(newest)
        ranges, epochs = seam.hot_ranges, seam.cold.epochs
        for attempt in range(_READS_MAX):
            read = LogRead.of(seam, ranges)
            keys_found = self._read_keys(keys, spec, read, epochs)
            if not keys_found.ends:
                return dataclasses.replace(self, seam=seam), keys.found()
            if self.options.token or attempt == _READS_MAX - 1:
                raise compaction.conflict(seam.log.topic, keys_found.ends)
            ranges = tuple(OffsetRange(p, seam.end[p], end) for p, end in keys_found.ends.items())
            epochs = seam.log.end_epochs
            end_epochs = {
                p: keys_found.end_epochs[p] for p in keys_found.ends if p in keys_found.end_epochs
            }
            log = dataclasses.replace(seam.log, end_epochs=epochs.replace(end_epochs))
            seam = dataclasses.replace(seam, end=seam.end.replace(keys_found.ends), log=log)
        raise AssertionError("the last attempt returns or raises")

    def _read_keys(
        self, keys: HotKeys, spec: DecoderSpec, read: LogRead, epochs: Mapping[int, int]
    ) -> Overtaken:
        """Reads the keys of a part of the tail, and asks whether that was enough."""
        cluster, looked = self._cluster(), Looked(read.ranges)
        for rows in _rows(cluster, spec, read, epochs, looked):
            keys.add(rows)
        gone = [part.range.partition for part in looked.seen if not part.is_whole]
        if not gone:
            return Overtaken(Offsets(), Offsets(), Offsets())
        with contextlib.closing(Cluster(cluster)) as own:
            return overtaken(KafkaLog(own), read, gone, NoDeadline())

    def require_every_change(self, *, begins_first: bool) -> None:
        """Raises if the log may have lost changes.

        Args:
            begins_first: Whether the changes begin with the first one there was.

        Raises:
            SeamlineError: LOG_TRIMMED, TOPIC_RECREATED.
        """
        topic = self.seam.log.topic
        if begins_first and self.seam.cold.first_batch:
            raise SeamlineError(
                TOPIC_RECREATED,
                f"the changes of {self.options.table} cannot be read from the beginning: topic "
                f"{topic} was recreated since, and the earlier log is gone",
                hint="Read the table itself.",
            )
        with contextlib.closing(Cluster(self._cluster())) as cluster:
            if KafkaLog(cluster).is_compacted(topic, NoDeadline()):
                raise SeamlineError(
                    LOG_TRIMMED,
                    f"topic {topic} is compacted, so it may have lost changes of "
                    f"{self.options.table}",
                )

    def _cluster(self) -> ClusterConfig:
        assert self.bootstrap_servers is not None
        return ClusterConfig(
            name="source",
            bootstrap_servers=self.bootstrap_servers,
            properties=self.options.kafka,
            login=self.options.login,
            schema_registry=self._schema_registry(),
        )

    def _schema_registry(self) -> SchemaRegistryConfig:
        if not encoding.parse(self.seam.log.format).needs_registry:
            return SchemaRegistryConfig()
        stated = {**self.schema_registry, **self.options.registry}
        return _settings(SchemaRegistryConfig, stated, "registry")

    def cold_splits(self, span: ColdSpan | None, keys: KeysFound | None = None) -> list[ColdSplit]:
        """Splits the files of the snapshot into parts of a bounded size.

        Args:
            span: Which of its rows to read; None for all.
            keys: For an upsert table, those whose rows in the files do not count.

        Raises:
            SeamlineError: OFFSETS_NOT_STORED, COLD_FILE_INVALID, ….
        """
        seam = self.seam
        is_truncated = keys is not None and keys.is_truncated
        if seam.cold.snapshot_id is None or is_truncated or (span is not None and _is_empty(span)):
            return []
        table = self._cold()
        columns, places = self.columns, self.places
        if span is not None and places is None:
            raise SeamlineError(
                OFFSETS_NOT_STORED, f"no column of {self.options.table} holds its records' offsets"
            )
        predicate = None
        if span is not None and places is not None and places.names is not None:
            predicate = _lies_in(span, *places.names)
        request = ScanRequest(seam.schema_id, tuple(c.name for c in columns), predicate)
        plan = table.inspect(table.plan(seam.cold.snapshot_id, request))
        if plan.unsupported is not None:
            raise SeamlineError(
                COLD_FILE_INVALID,
                f"table {self.options.table} has {plan.unsupported}",
                hint="Read it through the gateway's catalog, or with engine = 'spark'.",
            )
        deletes = table.deleted_rows(plan)
        scan = EngineScan(
            "scan",
            seam.table,
            columns,
            seam.cold.snapshot_id,
            table.state.schema_of(seam.cold.snapshot_id).columns,
            cold_span=seam.cold_span if span is None else span,
            file_access=table.file_access,
            newest=self.newest,
            places=places,
        )
        replaced = keys.keys if keys is not None and keys.keys.num_rows else None
        size = SPLIT_BYTES
        if replaced is not None:
            size = max(size, _KEYS_SHARE * replaced.nbytes)
        return [
            ColdSplit(
                dataclasses.replace(
                    scan,
                    cold=dataclasses.replace(plan, files=files),
                    deletes=_of_files(deletes, files),
                ),
                replaced,
            )
            for files in together(plan.files, lambda file: file.size_bytes, size)
        ]


def _gateway_error(error: urllib.error.HTTPError) -> SeamlineError:
    try:
        return SeamlineError.from_json(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return SeamlineError(GATEWAY_UNAVAILABLE, f"{error.url}: HTTP {error.code}")


def _is_empty(span: ColdSpan) -> bool:
    """Whether a span has no offsets, and no rows of earlier logs."""
    return not span.start and not (span.first_batch and span.takes_earlier)


def _lies_in(span: ColdSpan, partition_name: str, offset_name: str) -> Predicate | None:
    """Returns a predicate that every row of a span meets; None if rows of earlier logs may not."""
    start, end = span.start, span.end
    if start is None or end is None or (span.first_batch and span.takes_earlier):
        return None
    return Or(
        tuple(
            of_offsets((partition_name, offset_name), partition, offset, end[partition])
            for partition, offset in start.items()
        )
    )


def _parts(range_: OffsetRange) -> Iterator[OffsetRange]:
    for start in range(range_.start, range_.end_exclusive, SPLIT_OFFSETS):
        yield OffsetRange(range_.partition, start, min(start + SPLIT_OFFSETS, range_.end_exclusive))


def _together(parts: Sequence[OffsetRange]) -> Iterator[tuple[OffsetRange, ...]]:
    """Yields the parts of which several are read as one, with at most one of each partition."""
    shared: dict[int, OffsetRange] = {}
    for part in parts:
        count = sum(map(len, shared.values())) + len(part)
        if shared and (count > _SHARED_OFFSETS or part.partition in shared):
            yield tuple(shared.values())
            shared = {}
        shared[part.partition] = part
    if shared:
        yield tuple(shared.values())


def _of_files(deletes: pa.Table | None, files: Sequence[DataFile]) -> pa.Table | None:
    if deletes is None:
        return None
    paths = pa.array([file.path for file in files])
    return deletes.filter(pa.compute.is_in(deletes.column("path"), paths))


@dataclasses.dataclass
class ColdSplit(InputPartition):
    """Some files of the snapshot.

    Attributes:
        scan: How they are read.
        replaced: Keys whose rows in the files do not count, if there are any.
    """

    scan: EngineScan
    replaced: pa.Table | None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows."""
        for batch in read_scan(self.scan, self.replaced):
            if batch.num_rows:
                yield plain(batch)


@dataclasses.dataclass
class HotSplit(InputPartition):
    """Some offsets of the log.

    Attributes:
        cluster: How executors reach it.
        spec: How records are decoded.
        names: The columns to return.
        log_read: The offsets, and the log that they must be from.
        epochs: Leader epochs of the records below them, by partition, where known.
        newest: For an upsert table, the offsets of the records that are its rows; None if all are.
    """

    cluster: ClusterConfig
    spec: DecoderSpec
    names: tuple[str, ...]
    log_read: LogRead
    epochs: Mapping[int, int]
    newest: pa.Array | None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows, once the log has been found to still be the same.

        Raises:
            SeamlineError: LOG_TRIMMED, also if compaction has since removed a newest record.
        """
        read = self.log_read
        batches = list(_rows(self.cluster, self.spec, read, self.epochs))
        if self.newest is not None:
            batches = [_rows_at(rows, self.newest) for rows in batches]
            count = sum(rows.num_rows for rows in batches)
            if count != len(self.newest):
                raise SeamlineError(
                    LOG_TRIMMED,
                    f"only {count} of the {len(self.newest)} newest records of topic {read.topic} "
                    f"are left: it was compacted meanwhile",
                )
        yield from (plain(rows.select(self.names)) for rows in batches if rows.num_rows)


def _rows(
    config: ClusterConfig,
    spec: DecoderSpec,
    read: LogRead,
    epochs: Mapping[int, int],
    looked: Looked | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the decoded records of a read; `looked` records where they are.

    They only count once the last has been taken: then the log has been found to still be the same.
    """
    with contextlib.closing(Cluster(config)) as cluster:
        log, deadline = KafkaLog(cluster), NoDeadline()
        decoder = Decoder(spec, log.schemas)
        records = log.read(read.topic, read.ranges, read.isolation, deadline, epochs=epochs)
        with checked(log, read, deadline):
            for raw in records:
                if looked is not None:
                    looked.at(raw)
                yield decoder.decode(raw).rows


def _rows_at(rows: pa.RecordBatch, offsets: pa.Array) -> pa.RecordBatch:
    """Returns the rows of some records; a record that changes a key is also a delete, left out."""
    is_row = pa.compute.invert(rows.column(DELETED))
    return rows.filter(pa.compute.and_(is_row, pa.compute.is_in(rows.column(OFFSET), offsets)))

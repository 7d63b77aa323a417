"""The recorded history of a run: what was sent, what the log holds, what was read, what went wrong.

Every event is one line of JSON, written when it is known, so that a run that was killed leaves what
it saw. Times are seconds of the system's monotonic clock, the same in every process. The rows of a
read are kept whole, packed: the checker judges answers, not summaries of them.
"""

from __future__ import annotations

import base64
import dataclasses
import decimal
import itertools
import json
import operator
import pathlib
import threading
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

NO_ID = -(2**62)
"""Stands for a null id, also of a record without a value, which is a row of nulls."""

BAD_ID = NO_ID - 1
"""Stands for the id of a record that cannot be decoded: the table's policy decides."""

NO_PARTITION = -1
"""Stands for the null partition of a row that no record of the log became."""

Ends = Mapping[int, int]
"""Partition to exclusive end offset."""

Column = tuple["array[int]", "array[int]"]
"""Offsets, ascending, and the id at each."""

Rows = dict[int, Column]
"""The rows of a read by partition."""


@dataclasses.dataclass(frozen=True, slots=True)
class EarlierLog:
    """A log that a table continued until its topic was recreated, and what it holds of it.

    Attributes:
        topic_id: The log.
        start: First offsets in the table.
        end: First offsets that are not in the table.
        gaps: (partition, start, end) of offsets between that it lacks.
    """

    topic_id: str
    start: dict[int, int]
    end: dict[int, int]
    gaps: list[list[int]]


@dataclasses.dataclass(frozen=True, slots=True)
class TableOpened:
    """A unified table was created.

    Attributes:
        table: Its name.
        topic_id: The log behind it.
        start: First offsets it holds.
        policy: How bad records are handled.
        invoked: When creating began; the table may have been there since.
        ended: When it was there for certain.
        errors: Names of errors this table may answer, beside the passing ones.
        compacted: Whether Kafka may drop records that a later one of the same key replaces.
        touched_modulus: Rows whose id is divisible by it may have been deleted by somebody else;
            0 when nobody else touches rows.
        has_transactions: Whether acknowledged records may still be unreadable.
        is_upsert: Whether it is the newest record of each key.
        changes_hands: Whether who fills it may tell nothing of its past.
        has_schemas: Whether its records name schemas of the registry, which its columns follow.
        gaps: (partition, start, end) of offsets that the log lost, and whose loss was accepted.
        earlier: What it holds of each log that it continued before.
    """

    table: str
    topic_id: str
    start: dict[int, int]
    policy: str
    invoked: float
    ended: float
    errors: tuple[str, ...] = ()
    compacted: bool = False
    touched_modulus: int = 0
    has_transactions: bool = False
    is_upsert: bool = False
    changes_hands: bool = False
    has_schemas: bool = False
    gaps: list[list[int]] = dataclasses.field(default_factory=list)
    earlier: list[EarlierLog] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class TableSpoiled:
    """Something was done after which the table must, or may, answer one certain error only.

    Where it is in the tail, only who reads the whole tail of now must meet it.
    """

    table: str
    error: str
    must_fail: bool
    invoked: float
    ended: float
    is_in_tail: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class TableClosed:
    """The table was dropped."""

    table: str
    invoked: float
    ended: float


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A record is about to be sent; ids are unique in a run."""

    id: int
    topic: str
    at: float
    transaction: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Acknowledged:
    """Kafka has acknowledged a record."""

    id: int
    partition: int
    offset: int
    at: float


@dataclasses.dataclass(frozen=True, slots=True)
class TransactionEnded:
    """What became of a transaction: `commit`, `abort`, or `unknown`."""

    transaction: str
    outcome: str
    at: float


@dataclasses.dataclass(frozen=True, slots=True)
class Logged:
    """Records an independent read_committed consumer saw.

    Attributes:
        topic: Name of the topic.
        topic_id: Its id.
        partition: The partition.
        records: (offset, id, key).
        at: When they were seen.
        timestamps_ms: Of each record; empty when they do not matter.
        headers: How many each has; empty when they do not matter.
        bodies: What each says, by the names that its writer had; empty when that is all known.
    """

    topic: str
    topic_id: str
    partition: int
    records: list[tuple[int, int, str]]
    at: float
    timestamps_ms: list[int] = dataclasses.field(default_factory=list)
    headers: list[int] = dataclasses.field(default_factory=list)
    bodies: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class SchemaRegistered:
    """A registry has a schema of Avro, perhaps for long."""

    subject: str
    schema_id: int
    text: str
    at: float


@dataclasses.dataclass(frozen=True, slots=True)
class RegistryDisturbed:
    """The registry may not have answered everybody, or only slowly."""

    invoked: float
    ended: float


@dataclasses.dataclass(frozen=True, slots=True)
class ForeignRow:
    """A row that somebody else is about to add to a table; its id is negative."""

    table: str
    id: int
    at: float


SIGNS: Mapping[str, Callable[[decimal.Decimal, decimal.Decimal], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def price_of(id_: int) -> decimal.Decimal | None:
    """The price of the record with an id, a decimal(12, 2): known, so that it need not be kept."""
    return None if id_ < 0 else decimal.Decimal(id_ % 1000).scaleb(-2)


def value_of(id_: int, text: str) -> bytes:
    """The value of the record with an id."""
    price = price_of(id_)
    return f'{{"id": {id_}, "text": {json.dumps(text)}, "price": {price}}}'.encode()


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """The predicate of a read; ranges are half-open.

    `price` is a condition on the column of that name, as a sign and a literal of any scale; `key`
    one on the primary key of an upsert table.
    """

    partition: int | None = None
    offset_from: int | None = None
    offset_to: int | None = None
    id_from: int | None = None
    price_sign: str = ""
    price: str = ""
    key: str = ""

    @property
    def sql(self) -> str:
        """As a WHERE clause, empty for everything."""
        parts = [
            f"{column} {sign} {value}"
            for column, sign, value in (
                ("_kafka_partition", "=", self.partition),
                ("_kafka_offset", ">=", self.offset_from),
                ("_kafka_offset", "<", self.offset_to),
                ("id", ">=", self.id_from),
            )
            if value is not None
        ]
        if self.price_sign:
            parts.append(f"price {self.price_sign} {self.price}")
        if self.key:
            parts.append(f"k = '{self.key}'")
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def passes(self, partition: int, offset: int, id_: int) -> bool:
        """Whether a row passes; a null passes no condition on it."""
        if partition == NO_PARTITION and (
            self.partition is not None or self.offset_from is not None or self.offset_to is not None
        ):
            return False
        return (
            (self.partition is None or partition == self.partition)
            and (self.offset_from is None or offset >= self.offset_from)
            and (self.offset_to is None or offset < self.offset_to)
            and (self.id_from is None or (id_ != NO_ID and id_ >= self.id_from))
            and (not self.price_sign or self._price_passes(price_of(id_)))
        )

    def _price_passes(self, price: decimal.Decimal | None) -> bool:
        return price is not None and SIGNS[self.price_sign](price, decimal.Decimal(self.price))

    @property
    def is_empty(self) -> bool:
        """Whether everything passes."""
        return self == Filter()


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """One statement and its answer.

    Attributes:
        op: Number of the statement in the run.
        client: Who asked.
        session: Reads of one session come one after another, each told of the last.
        table: The table.
        form: `rows`, `columns` (all of each row), `groups` (aggregates by partition), `twice` (two
            counts of one table), `meta` (aggregates over prices, headers and timestamps by
            partition).
        filter: Its predicate.
        engine: Asked for.
        invoked: When it was sent.
        ended: When its last row, or its error, was there.
        error: Name of the error; empty when it was answered.
        message: What the error said.
        topic_id: The log that the receipt names.
        end: Exclusive ends that the receipt names.
        boundary: First offsets not in the snapshot, as the receipt names them.
        rows: Packed rows of the forms `rows` and `columns`.
        names: The columns of the form `columns`.
        cells: Packed, with the offset of its row before them, what each row has in those.
        values: The answer of the other forms.
        token_of: Number of the read whose token this one was given.
        after: Per partition the offset of an acknowledged write it was told to see.
        way: Who read: `sql` (the gateway), `changes` of it added up, `pyiceberg` or `catalog`
            (Spark), both through the REST catalog, or `source` (a batch or a stream of the data
            source).
        freshness: What it asked for; only `latest` has to hold all that was readable before.
        start: First offsets of a stream's batch; what is missing here starts at 0.
        moment: When the past moment was that it asked for; None for the present.
        moment_ms: The same by the clock of records.
        version: The snapshot it asked for.
    """

    op: int
    client: str
    session: str
    table: str
    form: str
    filter: Filter
    engine: str
    invoked: float
    ended: float
    error: str = ""
    message: str = ""
    topic_id: str = ""
    end: dict[int, int] = dataclasses.field(default_factory=dict)
    boundary: dict[int, int] = dataclasses.field(default_factory=dict)
    rows: dict[int, str] = dataclasses.field(default_factory=dict)
    names: list[str] = dataclasses.field(default_factory=list)
    cells: dict[int, str] = dataclasses.field(default_factory=dict)
    values: list[list[int]] = dataclasses.field(default_factory=list)
    token_of: int | None = None
    after: dict[int, int] = dataclasses.field(default_factory=dict)
    way: str = "sql"
    freshness: str = "latest"
    start: dict[int, int] = dataclasses.field(default_factory=dict)
    moment: float | None = None
    moment_ms: int = 0
    version: int | None = None

    @property
    def is_present(self) -> bool:
        """Whether it asked for all that can be read now; PyIceberg is then told of a snapshot."""
        asks_past = self.moment is not None or (self.version is not None and self.way == "sql")
        return self.freshness == "latest" and self.token_of is None and not asks_past


@dataclasses.dataclass(frozen=True, slots=True)
class Lagged:
    """A broker may have answered from an old view: of topics, of leaders, of how far a log goes.

    Nobody who asks it can know better, so that a read of that time need not see what was readable
    only after it had begun. What a session or a writer already knows, it must see nevertheless.
    """

    broker: int
    invoked: float
    ended: float


@dataclasses.dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected, or could not be."""

    fault: str
    invoked: float
    ended: float
    failure: str = ""
    detail: str = ""


Event = (
    TableOpened
    | TableSpoiled
    | TableClosed
    | Sent
    | Acknowledged
    | TransactionEnded
    | Logged
    | SchemaRegistered
    | RegistryDisturbed
    | ForeignRow
    | Read
    | Lagged
    | Injected
)

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        TableOpened,
        TableSpoiled,
        TableClosed,
        Sent,
        Acknowledged,
        TransactionEnded,
        Logged,
        SchemaRegistered,
        RegistryDisturbed,
        ForeignRow,
        Read,
        Lagged,
        Injected,
    )
}
_OFFSETS = frozenset({"start", "end", "boundary", "rows", "cells", "after"})


# --- Rows ----------------------------------------------------------------------------------------


def sorted_rows(rows: Iterable[tuple[int | None, int | None, int | None]]) -> Rows:
    """(partition, offset, id) as they came from a cursor, by partition and in order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for partition, offset, id_ in rows:
        found.setdefault(NO_PARTITION if partition is None else partition, []).append(
            (-1 if offset is None else offset, NO_ID if id_ is None else id_)
        )
    return {
        partition: (
            array("q", (offset for offset, _ in sorted(pairs))),
            array("q", (id_ for _, id_ in sorted(pairs))),
        )
        for partition, pairs in found.items()
    }


def pack(rows: Rows) -> dict[int, str]:
    """Rows as short texts: differences, compressed."""
    return {
        partition: base64.b85encode(zlib.compress(_differences(o) + _differences(i), 1)).decode()
        for partition, (o, i) in rows.items()
    }


def unpack(packed: Mapping[int, str]) -> Rows:
    """The inverse of `pack`."""
    return {partition: _unpacked(text) for partition, text in packed.items()}


Cells = list[tuple[int, list[Any]]]
"""Offsets, ascending, and what the rows there hold, in the words of JSON."""


def pack_cells(cells: Mapping[int, Cells]) -> dict[int, str]:
    """Cells of each partition as short texts."""
    return {
        partition: base64.b85encode(zlib.compress(json.dumps(rows).encode(), 1)).decode()
        for partition, rows in cells.items()
    }


def unpack_cells(packed: Mapping[int, str]) -> dict[int, Cells]:
    """The inverse of `pack_cells`."""
    return {
        partition: [(offset, cells) for offset, cells in json.loads(_decompressed(text))]
        for partition, text in packed.items()
    }


def _decompressed(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def _differences(values: array[int]) -> bytes:
    return array("q", map(operator.sub, values, itertools.chain((0,), values))).tobytes()


def _unpacked(text: str) -> Column:
    data = _decompressed(text)
    half = len(data) // 2
    offsets, ids = array("q"), array("q")
    offsets.frombytes(data[:half])
    ids.frombytes(data[half:])
    return array("q", itertools.accumulate(offsets)), array("q", itertools.accumulate(ids))


# --- The file ------------------------------------------------------------------------------------


class Recorder:
    """Writes a history. Safe to share between threads.

    Args:
        path: The file; replaced if it exists.

    Attributes:
        answered: Reads that were answered so far.
        opened: How each table began last.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.answered = 0
        self.opened: dict[str, TableOpened] = {}
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def record(self, *events: Event) -> None:
        """Appends events."""
        text = "".join(to_line(event) for event in events)
        with self._lock:
            self.opened |= {e.table: e for e in events if isinstance(e, TableOpened)}
            self.answered += sum(isinstance(event, Read) and not event.error for event in events)
            if not self._file.closed:
                self._file.write(text)

    def close(self) -> None:
        """Makes sure that all of it is in the file."""
        with self._lock:
            self._file.close()


def to_line(event: Event) -> str:
    """An event as a line."""
    body = dataclasses.asdict(event)
    return json.dumps({"kind": type(event).__name__, **body}, separators=(",", ":")) + "\n"


def from_line(line: str) -> Event:
    """The inverse of `to_line`."""
    body = json.loads(line)
    kind = _KINDS[body.pop("kind")]
    for name in _OFFSETS & body.keys():
        body[name] = _by_partition(body[name])
    if "earlier" in body:
        body["earlier"] = [
            EarlierLog(
                log["topic_id"], _by_partition(log["start"]), _by_partition(log["end"]), log["gaps"]
            )
            for log in body["earlier"]
        ]
    if "filter" in body:
        body["filter"] = Filter(**body["filter"])
    if "errors" in body:
        body["errors"] = tuple(body["errors"])
    event: Event = kind(**body)
    return event


def _by_partition(body: Mapping[str, Any]) -> dict[int, Any]:
    return {int(partition): value for partition, value in body.items()}


def load(path: pathlib.Path) -> Iterator[Event]:
    """The events of a file, in the order they were written; a torn last line is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield from_line(line)

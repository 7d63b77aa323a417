"""Envelopes: records of change data capture, which say what happened to a row of a database.

Debezium's have the row after the change, the row before it, and an operation; Maxwell's the row and
a type; Canal's a list of rows and a type; others the like, at other places. The contents of an
envelope are read by the format of the values, at their places in the envelope, so a change is
decoded as exactly as a row. Kafka Connect may have wrapped values with their schema. MongoDB's
documents are rewritten as plain JSON first.

An update of a primary key deletes the row of the former key and writes one of the new key. Maxwell
and Canal send one record for both, which includes the former key. Debezium sends a record for each,
unless the key of the table is not that of the records.

Records that a source writes beside its changes, such as Debezium's heartbeats, say nothing about
any row; they are known by their shape.

A write whose row the source has not sent is a bad record. A kind of change that its record alone
does not fully describe is refused, whatever the policy for bad records, because leaving it out
would leave wrong rows in the table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats import mongodb
from seamline.connectors.kafka.formats.absent import Absent
from seamline.connectors.kafka.formats.connect import PAYLOAD, ConnectReader, part_reader
from seamline.connectors.kafka.formats.parts import (
    PRESENCE,
    AllHeaders,
    Format,
    Leaf,
    PartReader,
    Parts,
    nulled,
)
from seamline.errors import (
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    UPSERT_ORDER_UNKNOWN,
    SeamlineError,
)
from seamline.seam.encoding import KEY, Path
from seamline.seam.records import DecoderSpec
from seamline.sql.columns import DELETED
from seamline.sql.types import BIGINT, VARCHAR, Array, Field, Row, Type


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """The shape of records that a source writes beside its changes, which have no operation.

    Attributes:
        field: The field that they have.
        words: What it may say; anything if empty.
        others: Further fields that they have.
        lacks: Fields that they do not have, besides the columns of the table's key.
    """

    field: str
    words: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Envelope:
    """The names that one kind of envelope uses for its parts; dots lead to names inside others.

    Attributes:
        operation: What happened.
        row: The row after the change.
        before: For a delete, the row before it.
        old: For an update, the values before it: of the columns that changed, or of the whole row.
        writes: Operations that write a row.
        deletes: Operations that delete a row.
        truncates: Operations that delete all rows.
        nothing: Operations that say nothing about any row.
        refused: Operations that change rows that their record does not name.
        absent: The placeholder for a value that the source has not sent.
        is_listed: Whether the row is in a list. The list may hold only one row: with several, it is
            unknown which offset belongs to which row.
        deletes_may_have_row: Whether a delete may have its row in `row` instead of `before`.
        besides: The shapes of records that say nothing about any row.
        rewritten: Makes plain JSON of a value or a key, for sources that write JSON only.
    """

    operation: str
    row: str
    before: str
    old: str
    writes: frozenset[str]
    deletes: frozenset[str]
    truncates: frozenset[str]
    nothing: frozenset[str]
    refused: frozenset[str]
    absent: Absent | None = None
    is_listed: bool = False
    deletes_may_have_row: bool = False
    besides: tuple[Beside, ...] = ()
    rewritten: Callable[[bytes], bytes] | None = None

    @property
    def row_path(self) -> Path:
        """The names that lead to the row."""
        return path_of(self.row)


def path_of(names: str) -> Path:
    """Returns the path that names with dots between them are."""
    return tuple(names.split("."))


_DEBEZIUMS = (
    Beside("status", frozenset({"BEGIN", "END"}), others=("id",)),  # of transactions
    Beside("databaseName", others=("source",)),  # changes of schemas
    Beside("ts_ms", lacks=("source", "before", "after")),  # heartbeats
)
_DEBEZIUM = Envelope(
    operation="op",
    row="after",
    before="before",
    old="before",
    writes=frozenset("cur"),
    deletes=frozenset("d"),
    truncates=frozenset("t"),
    nothing=frozenset("m"),
    refused=frozenset(),
    absent=Absent("__debezium_unavailable_value"),
    besides=_DEBEZIUMS,
)
_QLIK = Envelope(
    operation="headers.operation",
    row="data",
    before="beforeData",
    old="beforeData",
    writes=frozenset({"REFRESH", "INSERT", "UPDATE"}),
    deletes=frozenset({"DELETE"}),
    truncates=frozenset(),
    nothing=frozenset(),
    refused=frozenset(),
    deletes_may_have_row=True,
)

ENVELOPES: Mapping[str, Envelope] = {
    "debezium": _DEBEZIUM,
    "maxwell": Envelope(
        operation="type",
        row="data",
        before="data",
        old="old",
        writes=frozenset({"insert", "update", "bootstrap-insert"}),
        deletes=frozenset({"delete"}),
        truncates=frozenset(),
        nothing=frozenset({"bootstrap-start", "bootstrap-complete"}),
        refused=frozenset(
            f"{of}-{what}" for of in ("table", "database") for what in ("create", "alter", "drop")
        ),
    ),
    "canal": Envelope(
        operation="type",
        row="data",
        before="data",
        old="old",
        writes=frozenset({"INSERT", "UPDATE"}),
        deletes=frozenset({"DELETE"}),
        truncates=frozenset({"TRUNCATE"}),
        nothing=frozenset({"CREATE", "CINDEX", "DINDEX", "QUERY", "TIDB_WATERMARK"}),
        refused=frozenset({"ERASE", "RENAME", "ALTER"}),
        is_listed=True,
    ),
    "debezium_mongodb": dataclasses.replace(
        _DEBEZIUM, truncates=frozenset(), absent=None, rewritten=mongodb.plain_change
    ),
    "mongodb": Envelope(
        operation="operationType",
        row="fullDocument",
        before="documentKey",
        old="documentKey",
        writes=frozenset({"insert", "replace", "update"}),
        deletes=frozenset({"delete"}),
        truncates=frozenset({"drop", "dropDatabase"}),
        nothing=frozenset(
            {
                *("invalidate", "create", "createIndexes", "dropIndexes", "modify"),
                *("shardCollection", "reshardCollection", "refineCollectionShardKey"),
            }
        ),
        refused=frozenset({"rename"}),
        rewritten=mongodb.plain_change,
    ),
    "dms": Envelope(
        operation="metadata.operation",
        row="data",
        before="data",
        old="before-image",
        writes=frozenset({"load", "insert", "update"}),
        deletes=frozenset({"delete"}),
        truncates=frozenset({"drop-table"}),
        nothing=frozenset(
            {
                *("create-table", "rename-table", "change-columns"),
                *("add-column", "drop-column", "rename-column", "column-type-change"),
            }
        ),
        refused=frozenset(),
    ),
    "goldengate": Envelope(
        operation="op_type",
        row="after",
        before="before",
        old="before",
        writes=frozenset("IU"),
        deletes=frozenset("D"),
        truncates=frozenset("T"),
        nothing=frozenset(),
        refused=frozenset(),
    ),
    "qlik": dataclasses.replace(
        _QLIK,
        operation="message.headers.operation",
        row="message.data",
        before="message.beforeData",
        old="message.beforeData",
        besides=(Beside("type", frozenset({"MD"})),),  # of metadata
    ),
    "qlik_data": _QLIK,  # without the envelope around messages
}
"""All kinds of envelopes, by their names in `envelope`."""

_OPERATION, _BEFORE, _LIST, _ROW = "$operation", "$before", "$list", "$row"
OLD, TRUNCATE = "$old", "$truncate"
"""First parts of the names that an envelope's other contents have while it is decoded."""


class EnvelopeReader:
    """Decodes values that are changes, as `PartReader` decodes values that are rows.

    Args:
        spec: How records become rows.
        format_: The format of the values.
        leaves: What comes from values; leaves that are found by name are in the row.
    """

    def __init__(self, spec: DecoderSpec, format_: Format, leaves: Sequence[Leaf]) -> None:
        self._topic = spec.topic
        self._takes_truncates = spec.takes_truncates
        self._envelope = envelope = ENVELOPES[spec.encoding.envelope]
        self._required = [leaf for leaf in leaves if leaf.field.required]
        self._key = spec.primary_key
        self._moving = [name for name in spec.primary_key if _is_of_row(spec, name)]
        inside = [_inside(leaf, envelope.row_path) for leaf in leaves]
        said = [
            Leaf((_OPERATION,), path_of(envelope.operation), Field(_OPERATION, VARCHAR), False),
            Leaf((_ROW,), envelope.row_path, Field(_ROW, PRESENCE), False),
        ]
        for column in spec.key_columns:
            field = dataclasses.replace(column, required=False, write_default=None)
            before, old = path_of(envelope.before), path_of(envelope.old)
            said.append(Leaf((_BEFORE, column.name), (*before, column.name), field, False))
            if old != before:
                said.append(Leaf((OLD, column.name), (*old, column.name), field, False))
        every = [*inside, *said]
        if envelope.rewritten is not None and format_.name != "json":
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"the envelope {spec.encoding.envelope} is for values of the format json, and not "
                f"{format_.name}",
                hint="Let the connector write JSON.",
            )
        self._reader: PartReader | ConnectReader | ListedReader
        if envelope.is_listed:
            self._reader = ListedReader(format_, every, {envelope.row, envelope.old}, spec.topic)
        elif format_.name == "json":
            self._reader = ConnectReader(format_, every)
        else:
            self._reader = PartReader(format_, every)
        self._beside = BesideReader(format_, envelope, spec.primary_key)

    def decode(
        self, parts: Parts, headers: AllHeaders = ()
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """Returns the arrays of the columns and the marks, and why parts (by index) are bad.

        A mark is null if the record names no row; `TRUNCATE` says whether it then means all rows.
        The columns of the key before a write, as far as the record has them, are returned as `OLD`.
        """
        if self._envelope.rewritten is not None:
            parts = rewritten(self._envelope, parts)
        arrays, bad = self._reader.decode(parts, headers)
        operations, rows = arrays.pop((_OPERATION,)), arrays.pop((_ROW,))
        before = {name: arrays.pop((_BEFORE, name)) for name in self._key}
        is_delete = _is_among(operations, self._envelope.deletes)
        is_truncate = _is_among(operations, self._envelope.truncates)
        is_nothing = pc.or_(is_truncate, _is_among(operations, self._envelope.nothing))
        is_write = _is_among(operations, self._envelope.writes)
        self._refuse(operations)
        self._check_truncates(is_truncate)
        is_beside = self._beside.among(operations, parts, headers)
        if is_beside is not None:
            is_nothing = pc.or_(is_nothing, is_beside)
        for index in pc.indices_nonzero(_none_of(is_delete, is_nothing, is_write)).to_pylist():
            word = operations[index].as_py()
            reason = f"{self._envelope.operation}: {word!r} is not a change of a row"
            bad.setdefault(index, reason if word is not None else "it contains no change")
        for index in pc.indices_nonzero(pc.and_(is_write, rows.is_null())).to_pylist():
            bad.setdefault(index, self._rowless(operations[index].as_py()))
        self._check_rows(arrays, is_write, bad)
        for name, array in before.items():
            sent = self._sent(array)
            if (name,) in arrays:
                own = arrays[name,]
                if self._envelope.deletes_may_have_row:
                    sent = pc.coalesce(sent, pc.if_else(is_delete, own, None))
                arrays[name,] = pc.if_else(is_delete, sent, own)
            old = arrays.pop((OLD, name), sent)
            if name in self._moving:
                arrays[OLD, name] = pc.if_else(is_write, old, None)
        marks = pc.if_else(is_nothing, pa.scalar(None, pa.bool_()), is_delete)
        return {**arrays, (DELETED,): marks, (TRUNCATE,): is_truncate}, bad

    def _rowless(self, operation: str) -> str:
        envelope = self._envelope
        return (
            f"{envelope.row}: null or missing, but {envelope.operation} is {operation!r}: the "
            "source has not sent the row"
        )

    def _check_truncates(self, is_truncate: pa.Array) -> None:
        """Raises at a truncate if it is unknown which records are older.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN.
        """
        if not self._takes_truncates and pc.any(is_truncate).as_py():
            raise SeamlineError(
                UPSERT_ORDER_UNKNOWN,
                f"topic {self._topic} has several partitions and a truncate of the table, which "
                "does not say which records of other partitions are older",
                hint="Capture the table into a topic with one partition, or create the table here "
                "from what comes after the truncate (start).",
            )

    def _refuse(self, operations: pa.Array) -> None:
        """Raises at a change that its record alone does not fully describe."""
        for word in self._envelope.refused & set(operations.unique().to_pylist()):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"topic {self._topic} has a change of the kind {word!r}, which changes rows that "
                "its record does not name",
                hint="Recreate the table from what comes after it (start), or let the source omit "
                "such changes.",
            )

    def _sent(self, array: pa.Array) -> pa.Array:
        """Returns a column of former values, null where there is only a placeholder."""
        places = self._envelope.absent.places(array) if self._envelope.absent else []
        return nulled(array, places) if places else array

    def _check_rows(
        self, arrays: Mapping[Path, pa.Array], is_write: pa.Array, bad: dict[int, str]
    ) -> None:
        """Checks that rows are complete: required columns have values, and no value is absent."""
        for leaf in self._required:
            missing = pc.and_(is_write, arrays[leaf.column].is_null())
            for index in pc.indices_nonzero(missing).to_pylist():
                bad.setdefault(index, f"{leaf.name}: null, but the column is required")
        absent = self._envelope.absent
        if absent is None:
            return
        for path, array in arrays.items():
            for index in absent.places(array):
                reason = f"{'.'.join(path)}: the source has not sent its value ({absent.word})"
                bad.setdefault(index, reason)


class BesideReader:
    """Finds the records that a source writes beside its changes.

    Args:
        format_: The format of the values.
        envelope: The envelope of the changes.
        key: The columns of the table's key.
    """

    def __init__(self, format_: Format, envelope: Envelope, key: Sequence[str]) -> None:
        self._key = key
        self._readers = {
            shape: part_reader(format_, [_leaf_of(name) for name in self._names(shape)])
            for shape in envelope.besides
        }

    def _names(self, shape: Beside) -> tuple[str, ...]:
        return tuple(dict.fromkeys((shape.field, *shape.others, *shape.lacks, *self._key)))

    def among(self, operations: pa.Array, parts: Parts, headers: AllHeaders) -> pa.Array | None:
        """Returns a mask of these records; None if every record has an operation."""
        if not self._readers or not operations.null_count:
            return None
        indices = pc.indices_nonzero(operations.is_null()).to_pylist()
        beside: set[int] = set()
        for shape, reader in self._readers.items():
            arrays, bad = reader.decode(
                [parts[index] for index in indices],
                [headers[index] for index in indices] if headers else (),
            )
            mask = self._of_shape(shape, arrays)
            of_shape = (n for n in pc.indices_nonzero(mask).to_pylist() if n not in bad)
            beside.update(indices[n] for n in of_shape)
        return pa.array([index in beside for index in range(len(operations))], pa.bool_())

    def _of_shape(self, shape: Beside, arrays: Mapping[Path, pa.Array]) -> pa.Array:
        mask = arrays[shape.field,].is_valid()
        if shape.words:
            mask = _is_among(arrays[shape.field,], shape.words)
        for name in self._names(shape)[1:]:
            is_there = arrays[name,].is_valid()
            mask = pc.and_(mask, is_there if name in shape.others else pc.invert(is_there))
        return mask


def _leaf_of(name: str) -> Leaf:
    return Leaf((name,), (name,), Field(name, _BESIDE_TYPES.get(name, VARCHAR)), by_name=False)


_BESIDE_TYPES: Mapping[str, Type] = {
    "ts_ms": BIGINT,
    **dict.fromkeys(("source", "before", "after"), PRESENCE),
}


class ListedReader:
    """Reads parts that have their rows in lists of one row each.

    Args:
        format_: Their format.
        leaves: What to read from them.
        listed: The fields that are lists of rows.
        topic: The topic, for messages.
    """

    def __init__(
        self, format_: Format, leaves: Sequence[Leaf], listed: Collection[str], topic: str
    ) -> None:
        self._topic = topic
        inside = [leaf for leaf in leaves if len(leaf.path) > 1 or leaf.field.type == PRESENCE]
        self._inside = {n: [leaf for leaf in inside if leaf.path[0] == n] for n in listed}
        lists = [
            Leaf((_LIST, name), (name,), Field(name, Array(Row(_fields(members)))), by_name=False)
            for name, members in self._inside.items()
        ]
        beside = [leaf for leaf in leaves if leaf not in inside or leaf.path[0] not in listed]
        self._reader = PartReader(format_, [*lists, *beside])

    def decode(
        self, parts: Parts, headers: AllHeaders = ()
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """See `PartReader.decode`."""
        arrays, bad = self._reader.decode(parts, headers)
        for name, members in self._inside.items():
            rows = self._rows(arrays.pop((_LIST, name)))
            for leaf in members:
                is_row = leaf.field.type == PRESENCE
                arrays[leaf.column] = rows if is_row else pc.struct_field(rows, leaf.path[1])
        return arrays, bad

    def _rows(self, lists: pa.Array) -> pa.Array:
        lengths = pc.fill_null(pc.list_value_length(lists), 0)
        if pc.any(pc.greater(lengths, 1)).as_py():
            raise SeamlineError(
                NOT_SUPPORTED,
                f"topic {self._topic} has records with several rows each",
                hint="Let Canal write one record per row.",
            )
        places = pc.subtract(pc.cumulative_sum(lengths), 1)
        there = pc.equal(lengths, 1)
        return pc.list_flatten(lists).take(pc.if_else(there, places, None))


def _fields(leaves: Sequence[Leaf]) -> tuple[Field, ...]:
    """Returns the fields of the row that leaves belong to, each once."""
    inner = [leaf for leaf in leaves if len(leaf.path) > 1]
    by_name = {leaf.path[1]: dataclasses.replace(leaf.field, name=leaf.path[1]) for leaf in inner}
    return tuple(by_name.values())


def rows_of(envelope: str, values: Sequence[bytes | None]) -> list[bytes | None]:
    """Returns the rows in enveloped JSON, as JSON; None where there is none. For samples."""
    kind = ENVELOPES[envelope]
    return [_row_of(value, kind) for value in rewritten(kind, values)]


def rewritten(envelope: Envelope, parts: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """Returns values, or keys, as the reader takes them; see `Envelope.rewritten`."""
    make = envelope.rewritten
    return parts if make is None else [None if part is None else make(part) for part in parts]


def _row_of(value: bytes | None, kind: Envelope) -> bytes | None:
    try:
        body: Any = json.loads(value) if value is not None else None
        if isinstance(body, dict) and path_of(kind.operation)[0] not in body:
            body = body.get(PAYLOAD)
        row = body
        for name in kind.row_path:
            row = row.get(name) if isinstance(row, dict) else None
        if kind.is_listed and isinstance(row, list):
            row = row[0] if row else None
    except (ValueError, RecursionError):
        return None
    return None if row is None else json.dumps(row).encode()


def _is_of_row(spec: DecoderSpec, name: str) -> bool:
    """Whether a key column is the row's field of that name, which a former row also has."""
    source = spec.encoding.source_of((name,))
    if source is None or source.part != KEY:
        return source is None or source.path == (*ENVELOPES[spec.encoding.envelope].row_path, name)
    return not source.path or source.path[-1].rpartition(".")[2] == name  # Maxwell's pk.name


def _inside(leaf: Leaf, row: Path) -> Leaf:
    field = dataclasses.replace(leaf.field, required=False)
    if not leaf.by_name:
        return dataclasses.replace(leaf, field=field)
    return dataclasses.replace(leaf, path=(*row, *leaf.path), field=field)


def _is_among(operations: pa.Array, words: frozenset[str]) -> pa.Array:
    return pc.is_in(operations, pa.array(sorted(words), pa.string()))


def _none_of(*masks: pa.Array) -> pa.Array:
    any_of = masks[0]
    for mask in masks[1:]:
        any_of = pc.or_(any_of, mask)
    return pc.invert(any_of)

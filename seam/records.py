"""How records become rows: their format, the columns, and the handling of bad records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from seamline.errors import (
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    TOKEN_EXPIRED,
    SeamlineError,
)
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import (
    TYPE_NAME,
    TYPED,
    VALUE,
    Encoding,
    LatestSchema,
    Path,
    Source,
    digest,
    parse,
    parse_sources,
)
from seamline.seam.evolution import Watch, dropped_columns
from seamline.seam.options import POLICIES
from seamline.seam.table import TableState
from seamline.sql import columns as names
from seamline.sql import predicates, types
from seamline.sql.predicates import Predicate
from seamline.sql.types import Field, Row, arrow_field


@dataclasses.dataclass(frozen=True, slots=True)
class DecoderSpec:
    """How the records of a topic become rows of a table; it is sent to Spark's workers.

    Attributes:
        topic: Name of the topic.
        format: How the records are encoded and which parts of them columns come from: the text of
            an `Encoding`.
        on_error: One of `POLICIES`.
        columns: The table's columns in order, with their ids, including metadata columns. Those of
            an upsert table end with the deletion marker.
        primary_key: The key columns of an upsert table.
        key_encoding: Where the key columns are in a tombstone: the text of an `Encoding`.
        texts: Schema texts by digest, for the digests in `format`.
        watch: How to handle records whose schema the columns do not fit yet; None if nothing
            compares the schemas.
        keys_are_placed: Whether the owner vouches for the partition of each key, in a topic of
            several partitions.
        needed_types: The condition on the names of types under which a reader needs the rows of
            records, if there is one; see `narrowed`.
        takes_truncates: Whether a record may remove all rows whose records are older: those of a
            change log in a topic with one partition, whose offsets say which are older.
        hidden: How many of the last columns the table itself does not have: the deletion marker,
            and partition and offset unless the table has columns of these names. They are needed
            because a tail is cut by offsets.
        errors_of: If set, the rows are the records that this spec cannot decode, as the log holds
            them; the columns are `ERROR_FIELDS`.
    """

    topic: str
    format: str
    on_error: str
    columns: tuple[Field, ...]
    primary_key: tuple[str, ...] = ()
    key_encoding: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    hidden: int = 0
    watch: Watch | None = None
    keys_are_placed: bool = False
    takes_truncates: bool = False
    needed_types: Predicate | None = None
    errors_of: DecoderSpec | None = None

    def __post_init__(self) -> None:
        if self.on_error not in POLICIES:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"on_error {self.on_error!r} is not a policy",
                hint=f"on_error is one of: {', '.join(POLICIES)}",
            )

    @property
    def encoding(self) -> Encoding:
        """The encoding that `format` describes."""
        return parse(self.format)

    @property
    def key_columns(self) -> tuple[Field, ...]:
        """The columns of the primary key, in key order."""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.primary_key)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of decoded batches: every column, in table order."""
        return pa.schema([arrow_field(column) for column in self.columns])

    def schema_of(self, part: str) -> str | None:
        """Returns the schema of all keys, or of all values, if the table specifies it.

        It is a schema, or the text of a `LatestSchema`.

        Raises:
            SeamlineError: TOKEN_EXPIRED when the table specifies a different one by now.
        """
        both = (*parse(self.key_encoding).schemas, *self.encoding.schemas)
        named = dict(both).get(part)
        if named is None or LatestSchema.parse(named) is not None:
            return named
        text = dict(self.texts).get(named)
        if text is None:
            raise SeamlineError(
                TOKEN_EXPIRED, f"the {part}s of topic {self.topic} were read with another schema"
            )
        return text

    @property
    def type_column(self) -> str | None:
        """The column that holds the name of each record's type, if there is one.

        In an upsert table a record of any type may hide a row of another, so there is none.
        """
        encoding = self.encoding
        if self.primary_key or self.errors_of is not None or encoding.value not in TYPED:
            return None
        named = encoding.columns_of(Source(VALUE, (TYPE_NAME,)))
        for column in self.columns:
            # a column that was renamed to it may be another field of earlier records
            is_own = column.name == TYPE_NAME and not column.aliases
            is_type = is_own if not encoding.names(column.name) else (column.name,) in named
            if is_type and column.type == types.VARCHAR:
                return column.name
        return None

    def narrowed(self, predicate: Predicate | None) -> DecoderSpec:
        """Returns the spec for a reader that needs only rows for which a predicate is true.

        Records whose type says that it is not true of their rows are left out before they are
        decoded, so it does not matter whether they are bad. Those whose type is not known are not.
        """
        column = self.type_column
        about = predicates.about(predicate, column) if column is not None else None
        if about is None or predicates.holds(about, None):  # bad records become rows of nulls
            return self
        return dataclasses.replace(self, needed_types=about)

    def needs(self, type_name: str | None) -> bool:
        """Whether records of a type are needed; None if the type is not known."""
        needed = self.needed_types
        return needed is None or type_name is None or predicates.holds(needed, type_name)

    @classmethod
    def of(
        cls,
        binding: TopicBinding,
        columns: tuple[Field, ...],
        format_: str | None = None,
        on_error: str | None = None,
    ) -> DecoderSpec:
        """Returns how the records of a table's topic become rows of one of the table's schemas.

        Args:
            binding: The topic.
            columns: The schema's columns.
            format_: The format a seam has pinned; the current one by default.
            on_error: The policy a seam has pinned; the current one by default.

        Raises:
            SeamlineError: NOT_SUPPORTED for columns that records cannot fill.
        """
        _require_decodable(columns)
        column_names = {column.name for column in columns}
        cut_by = _CUT_BY - column_names
        hidden = tuple(field for field in names.METADATA_FIELDS if field.name in cut_by)
        if binding.is_upsert:
            hidden = (*hidden, names.DELETED_FIELD)
        return cls(
            binding.topic,
            format_ or str(binding.encoding),
            on_error or binding.on_error,
            (*columns, *hidden),
            binding.primary_key,
            str(binding.key_encoding) if binding.is_upsert else "",
            tuple((digest(text), text) for text in binding.schemas.values()),
            len(hidden),
            _watch(binding) if binding.evolves else None,
            binding.key_partitioner is not None and binding.key_partitions != 1,
            bool(binding.envelope) and binding.key_partitions == 1,
        )

    def tiering(self, state: TableState) -> DecoderSpec:
        """Returns the spec for tiering, where every field of a record's schema needs its column."""
        if self.watch is None:
            return self
        watch = dataclasses.replace(self.watch, is_tiering=True, dropped=dropped_columns(state))
        return dataclasses.replace(self, watch=watch)

    @property
    def errors(self) -> DecoderSpec:
        """How the records that cannot be decoded become rows of `t$errors`."""
        return DecoderSpec(self.topic, _ERRORS, "fail", names.ERROR_FIELDS, errors_of=self)

    @property
    def stored(self) -> tuple[Field, ...]:
        """The table's own columns, without the hidden ones."""
        return self.columns[: len(self.columns) - self.hidden]

    @property
    def places(self) -> Places | None:
        """The columns that identify a row's log record, if the table has any."""
        return Places.of(self.encoding, self.stored)


_ERRORS = str(
    Encoding(
        "raw", sources=parse_sources(f"{p} = {p}" for p in ("partition", "offset", "timestamp"))
    )
)


def _watch(binding: TopicBinding) -> Watch:
    key = (binding.key,) if binding.key is not None else ()
    return Watch(fixed=(*binding.primary_key, *key))


_OWN = {"partition": names.PARTITION, "offset": names.OFFSET, "timestamp": names.TIMESTAMP}


def column_of(part: str, encoding: Encoding, columns: Sequence[Field]) -> Path | None:
    """Finds the column that holds the `partition`, `offset` or `timestamp` of each record.

    `columns_from` takes precedence over the table's own metadata columns. The column may be a field
    inside a row column.

    Returns:
        The path of names to it; None if the table has no such column.
    """
    for path in encoding.columns_of(Source(part)):
        if any(column.name == path[0] for column in columns):
            return path
    own = _OWN[part]
    return (own,) if any(column.name == own for column in columns) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The columns that identify the log record behind a row.

    Attributes:
        partition: The path of fields to the partition: a column, then any fields inside it.
        offset: The path of fields to the offset.
        batch: The column with the batch that wrote the row, if there is one.
    """

    partition: tuple[Field, ...]
    offset: tuple[Field, ...]
    batch: Field | None = None

    @classmethod
    def of(cls, encoding: Encoding, columns: Sequence[Field]) -> Places | None:
        """Returns the places of a table; None if it has no such columns."""
        partition = fields_to("partition", encoding, columns)
        offset = fields_to("offset", encoding, columns)
        if partition is None or offset is None:
            return None
        batch = next((column for column in columns if column.name == names.BATCH), None)
        return cls(partition, offset, batch)

    @property
    def names(self) -> tuple[str, str] | None:
        """The names of both columns; None if either is nested inside another column."""
        if len(self.partition) > 1 or len(self.offset) > 1:
            return None
        return self.partition[0].name, self.offset[0].name


def fields_to(part: str, encoding: Encoding, columns: Sequence[Field]) -> tuple[Field, ...] | None:
    """Returns the path of fields to the column with a part of each record; see `column_of`."""
    path = column_of(part, encoding, columns)
    fields: list[Field] = []
    inside = columns
    for name in path or ():
        field = next(field for field in inside if field.name == name)
        fields.append(field)
        inside = field.type.fields if isinstance(field.type, Row) else ()
    return tuple(fields) or None


def _require_decodable(columns: Sequence[Field]) -> None:
    for column in columns:
        is_variant = types.holds_variant(column.type)
        if is_variant or types.contains(column.type, types.UNKNOWN):
            stored = "variant" if is_variant else str(column.type)
            raise SeamlineError(
                NOT_SUPPORTED,
                f"records cannot fill the column {column.name}, which is stored as {stored}",
                hint='Read "t$cold", the table without its topic.',
            )


_CUT_BY = frozenset({names.PARTITION, names.OFFSET})

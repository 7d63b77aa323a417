"""How a topic's records are encoded, and which part of a record each column comes from.

One canonical text describes all of it. Seams, tokens and boundaries pin that text, so a change to
any part of it is noticed. If records are plain values of one format, the text is just the format's
name.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError

if TYPE_CHECKING:
    from seamline.sql.types import Field

Path: TypeAlias = tuple[str, ...]

VALUE = "value"
KEY = "key"
HEADER = "header"
TYPE_NAME = "@type"
"""The field with the name of a record's type, unless a record has such a field itself."""
TYPED = frozenset({"avro", "protobuf"})
"""Formats whose values have a schema, and types with names."""
LOG_PARTS = ("headers", "partition", "offset", "timestamp", "timestamp_type", "topic")
"""What the log itself knows about a record; these parts cannot be bad and cannot be written."""

_SOURCES = (
    "value, value.<field>, key, key.<field>, header.<name>, headers, partition, offset, timestamp, "
    "timestamp_type, topic"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A part of a record, such as `key`, `value.id`, `header.trace-id` or `offset`.

    Attributes:
        part: `value`, `key`, `header`, or one of `LOG_PARTS`.
        path: For a value or key, the field names that lead to it; for a header, its name.
    """

    part: str
    path: Path = ()

    def __str__(self) -> str:
        return ".".join((self.part, *map(_written, self.path)))


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a column, or a field inside a row column, comes from.

    Attributes:
        column: The column's name, followed by the names of the fields that lead further.
        source: The part of the record it holds.
    """

    column: Path
    source: Source

    def __str__(self) -> str:
        return f"{'.'.join(map(_written, self.column))} = {self.source}"


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteMark:
    """The field of a value that says whether the record deletes its key.

    Attributes:
        path: The field names that lead to it.
        word: The text it has in a delete; None if it is true in a delete, and false in a row.
    """

    path: Path
    word: str | None = None

    def __str__(self) -> str:
        path = ".".join(map(_written, self.path))
        return path if self.word is None else f"{path} = {self.word}"

    @classmethod
    def parse(cls, text: str) -> DeleteMark:
        """Parses `deleted_by`: `field`, or `field = word`; the field may be inside others.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION.
        """
        match = _MARK.fullmatch(text)
        if match is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"deleted_by: {text!r} is not `field` or `field = word`",
                hint="For example: __deleted, or op = d",
            )
        return cls(_names(match["path"]), match["word"])


@dataclasses.dataclass(frozen=True, slots=True)
class LatestSchema:
    """The newest version of a subject in the registry, as the schema of all keys or all values.

    Attributes:
        subject: The subject; empty for the one that is named after the topic and the part.
        message: The full name of the Protobuf message that the parts are; empty for the first.
        schema_id: The registry's id of the version, once it is pinned.
    """

    subject: str = ""
    message: str = ""
    schema_id: int | str | None = None

    def __str__(self) -> str:
        values = (self.subject, self.message, "" if self.schema_id is None else self.schema_id)
        pairs = [f"{name}={value}" for name, value in zip(_LATEST, values, strict=True) if value]
        return ":".join(["latest", *filter(None, [",".join(pairs)])])

    @classmethod
    def parse(cls, text: str) -> LatestSchema | None:
        """Parses `latest`, or `latest:subject=…,protobuf_name=…`; returns None for a schema's text.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION.
        """
        word, colon, rest = text.partition(":")
        if word != "latest":
            return None
        pairs = [entry.partition("=") for entry in rest.split(",")] if colon else []
        values = {name: value for name, _, value in pairs if name in _LATEST and value}
        if len(values) < len(pairs):
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{text!r} does not say which schema is meant",
                hint="For example: latest, or latest:subject=orders,protobuf_name=shop.Order",
            )
        subject, message, schema_id = (values.get(name, "") for name in _LATEST)
        number = int(schema_id) if schema_id.isdecimal() else schema_id or None
        return cls(subject, message, number)


_LATEST = ("subject", "protobuf_name", "id")


@dataclasses.dataclass(frozen=True, slots=True)
class Encoding:
    """How records are encoded. Its text form is canonical, and `parse` reads it back.

    Attributes:
        value: Format of the values.
        key: Format of the keys.
        sources: Where columns come from; a column that is not listed comes from the value's field
            of the same name.
        envelope: The envelope that wraps values describing row changes; empty if values are rows.
        schemas: For each part whose schema the table itself specifies, the text's digest, or the
            text of a `LatestSchema`.
        options: Format options, by name.
    """

    value: str = "json"
    key: str = "string"
    sources: tuple[ColumnSource, ...] = ()
    envelope: str = ""
    schemas: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        has_key = any(entry.source.part == KEY for entry in self.sources)
        fields = {
            "envelope": self.envelope,
            "key": self.key if has_key else "",
            "columns_from": [str(entry) for entry in self.sources],
            "schemas": {p: digest for p, digest in self.schemas if p == VALUE or has_key},
            "options": dict(self.options),
        }
        body = {"value": self.value, **{name: part for name, part in fields.items() if part}}
        if not body.keys() - {"value", "key"}:
            return self.value
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False)

    def source_of(self, column: Path) -> Source | None:
        """Returns where a column comes from, if `sources` lists it."""
        return next((s.source for s in self.sources if s.column == column), None)

    def names(self, column: str) -> bool:
        """Whether `sources` lists a column, or a field inside it."""
        return any(entry.column[0] == column for entry in self.sources)

    @property
    def needs_registry(self) -> bool:
        """Whether a registry has the schemas of values or keys."""
        stated = {part: LatestSchema.parse(text) is None for part, text in self.schemas}
        formats = {VALUE: self.value, KEY: self.key}
        return not all(stated.values()) or any(
            form in TYPED and part not in stated for part, form in formats.items()
        )

    @property
    def delete_mark(self) -> DeleteMark | None:
        """The field of a value that says whether the record is a delete, if any."""
        text = dict(self.options).get("deleted_by")
        return None if text is None else DeleteMark.parse(text)

    def columns_of(self, source: Source) -> list[Path]:
        """Returns the columns that come from a part of the record."""
        return [entry.column for entry in self.sources if entry.source == source]


def digest(schema: str) -> str:
    """Returns what stands for a schema where its text would be too long: a digest, or its name."""
    if LatestSchema.parse(schema) is not None:
        return schema
    return hashlib.sha256(schema.encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Encoding:
    """Returns the encoding that a canonical text describes.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if not text.startswith("{"):
        return Encoding(text)
    try:
        body = json.loads(text)
        return Encoding(
            body["value"],
            body.get("key", "string"),
            parse_sources(body.get("columns_from", ())),
            body.get("envelope", ""),
            tuple(body.get("schemas", {}).items()),
            tuple(body.get("options", {}).items()),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION, f"{text!r} is not a valid encoding of records: {error!r}"
        ) from error


# --- Sources -------------------------------------------------------------------------------------

_NAME = r'"(?:[^"]|"")*"|[^\s".,=]+'
_PATH = rf"(?:{_NAME})(?:\.(?:{_NAME}))*"
_ENTRY = re.compile(rf"\s*(?P<column>{_PATH})\s*=\s*(?P<source>{_PATH})\s*(?:,|$)")
_MARK = re.compile(rf"\s*(?P<path>{_PATH})\s*(?:=\s*(?P<word>\S|\S.*\S)\s*)?")
_PLAIN = re.compile(r"[\w$-]+")


def parse_sources(texts: Iterable[str]) -> tuple[ColumnSource, ...]:
    """Parses the entries of `columns_from`: each text is `column path = source`, or several.

    Commas separate the entries of a text. Names with characters other than letters, digits, `_`,
    `$` and `-` are in double quotes.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    sources = tuple(entry for text in texts for entry in _entries(text))
    paths = [entry.column for entry in sources]
    for path in paths:
        if sum(other[: len(path)] == path for other in paths) > 1:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"columns_from names {'.'.join(path)}, or a field inside it, more than once",
                hint="Name each column, or each of its fields, once.",
            )
    return sources


def _entries(text: str) -> Iterator[ColumnSource]:
    start = 0
    while start < len(text):
        match = _ENTRY.match(text, start)
        if match is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"columns_from: {text[start:].strip()!r} is not `column = source`",
                hint="For example: id = key, trace = header.trace-id, at = timestamp",
            )
        yield ColumnSource(_names(match["column"]), _source(match["source"]))
        start = match.end()


def _source(text: str) -> Source:
    part, *path = _names(text)
    part = part.lower()
    is_known = part in (VALUE, KEY) or (part == HEADER and path) or (part in LOG_PARTS and not path)
    if not is_known:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"columns_from: {text} is not a part of a record",
            hint=f"It is one of: {_SOURCES}.",
        )
    return Source(part, (".".join(path),) if part == HEADER else tuple(path))


def _names(text: str) -> Path:
    return tuple(
        name[1:-1].replace('""', '"') if name.startswith('"') else name
        for name in re.findall(_NAME, text)
    )


def _written(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def spelt_as(sources: Sequence[ColumnSource], columns: Sequence[Field]) -> tuple[ColumnSource, ...]:
    """Returns the sources with column names spelled as in the table.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION for a column that the table does not have.
    """
    return tuple(
        dataclasses.replace(entry, column=_spelt(entry, entry.column, columns)) for entry in sources
    )


def _spelt(entry: ColumnSource, path: Path, fields: Sequence[Field]) -> Path:
    from seamline.sql.types import Row  # not at the top: a command's --help need not load types

    field = Row(tuple(fields)).field(path[0])
    inner = field.type.fields if field is not None and isinstance(field.type, Row) else ()
    if field is None or (path[1:] and not inner):
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"columns_from: the table has no column {'.'.join(entry.column)}",
            hint="Name an existing column, or declare it with the other columns.",
        )
    return (field.name, *(_spelt(entry, path[1:], inner) if path[1:] else ()))

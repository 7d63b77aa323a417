"""The topic property `redpanda.iceberg.mode`: what Redpanda decodes of a record, and into what.

It is a shorthand such as `key_value`, or sections such as `key:mode=string;value:mode=binary`. From
it follow the types of a table's columns, and how the same columns are read from the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.seam.encoding import KEY, VALUE, LatestSchema
from seamline.sql import types
from seamline.sql.types import Array, Field, Row, Type

MODE = "redpanda.iceberg.mode"
CONTEXT = "redpanda.schema.registry.context"
DEFAULT_CONTEXT = "."
_DISABLED = "disabled"
_SHORTHANDS = {
    "key_value": "",
    "value_schema_id_prefix": "value:mode=schema_id_prefix",
    "value_schema_latest": "value:mode=schema_latest",
}
_WITHOUT_SCHEMA: dict[str, Type] = {"binary": types.VARBINARY, "string": types.VARCHAR}
_LATEST = "schema_latest"
_OF_KEYS: dict[str, set[str]] = {
    "mode": {*_WITHOUT_SCHEMA, "schema_id_prefix", _LATEST},
    "subject": set(),
    "protobuf_name": set(),
}
_OPTIONS = {
    KEY: _OF_KEYS,
    VALUE: {**_OF_KEYS, "layout": {"flat", "nested"}},
    "headers": {"value_type": {*_WITHOUT_SCHEMA}},
}
"""The options of each section, with the words that each may have; any text where there are none."""
_FIELDS = {"value_type": "mode"}


@dataclasses.dataclass(frozen=True, slots=True)
class PartMode:
    """How keys, values or the values of headers are translated.

    Attributes:
        mode: `binary`, `string`, `schema_id_prefix` or `schema_latest`.
        subject: The subject of the latest schema; empty for that of the topic.
        protobuf_name: The message of the latest schema; empty for the first.
        layout: Whether the fields of a value are columns, `flat`, or one column, `nested`.
    """

    mode: str = "binary"
    subject: str = ""
    protobuf_name: str = ""
    layout: str = "flat"

    @property
    def has_schema(self) -> bool:
        """Whether it is a record that a schema describes."""
        return self.mode not in _WITHOUT_SCHEMA

    @property
    def schema(self) -> str | None:
        """The option `value_schema` or `key_schema` that reads it; None if each names its own."""
        if self.mode != _LATEST:
            return None
        return str(LatestSchema(self.subject, self.protobuf_name))

    @property
    def format(self) -> str:
        """The format that reads it, if it has no schema."""
        return {"binary": "raw"}.get(self.mode, self.mode)

    def format_of(self, kind: str) -> str:
        """Returns the format that reads records of a kind of schema."""
        is_framed_json = kind == "JSON" and self.mode != _LATEST
        return "json_schema" if is_framed_json else kind.lower()

    def writes(self, type_: Type) -> bool:
        """Whether a column of a type is what it is translated into."""
        return isinstance(type_, Row) if self.has_schema else type_ == _WITHOUT_SCHEMA[self.mode]

    @property
    def title(self) -> str:
        """The type of its column, for messages."""
        return "a row" if self.has_schema else str(_WITHOUT_SCHEMA[self.mode])


@dataclasses.dataclass(frozen=True, slots=True)
class Mode:
    """What the property says.

    Attributes:
        key: How keys are translated.
        value: How values are.
        headers: How the values of headers are.
    """

    key: PartMode = PartMode()
    value: PartMode = PartMode()
    headers: PartMode = PartMode()

    @classmethod
    def parse(cls, text: str) -> Mode | None:
        """Returns what the property says; None if Redpanda fills no table from the topic.

        Raises:
            SeamlineError: NOT_SUPPORTED for another form, as of a later release.
        """
        if text == _DISABLED:
            return None
        name, _, options = text.partition(":")
        sections = text
        if name in _SHORTHANDS:
            sections = ",".join(filter(None, (_SHORTHANDS[name], options)))
        try:
            return cls(**_parts(sections))
        except ValueError as error:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{MODE} is {text}, which is not understood",
                hint="It may be of a later release of Redpanda than this one of Seamline.",
            ) from error

    @property
    def is_flat(self) -> bool:
        """Whether the fields of a value are columns, instead of the whole value being one."""
        return self.value.has_schema and self.value.layout == "flat"

    @property
    def sources(self) -> tuple[str, ...]:
        """The entries of `columns_from` for what is not in a column by its name."""
        return () if self.is_flat else ("value = value",)

    def contradictions(self, columns: Sequence[Field]) -> Iterator[str]:
        """Yields where the columns of a table are not those that it writes."""
        by_name = {column.name: column.type for column in columns}
        own = by_name.get("redpanda")
        inner = {f.name: f.type for f in own.fields} if isinstance(own, Row) else {}
        expected = [("redpanda.key", inner.get("key"), self.key)]
        match inner.get("headers"):
            case Array(Row((_, Field(type=header)))):
                expected.append(("the values of redpanda.headers", header, self.headers))
        if not self.is_flat:
            expected.append(("value", by_name.get("value", types.UNKNOWN), self.value))
            for name in by_name.keys() - {"redpanda", "value"}:
                yield f"it has a column {name}, and that mode writes none but redpanda and value"
        for name, type_, mode in expected:
            if type_ == types.UNKNOWN:
                yield f"it has no column {name}, where that mode writes {mode.title}"
            elif type_ is not None and not mode.writes(type_):
                yield f"{name} is {type_}, where that mode writes {mode.title}"


def _parts(sections: str) -> dict[str, PartMode]:
    pairs = [_section(section) for section in sections.split(";") if section]
    if len(dict(pairs)) < len(pairs):
        raise ValueError(sections)
    return dict(pairs)


def _section(text: str) -> tuple[str, PartMode]:
    """Returns the part that a section is about, and what it says; raises ValueError."""
    name, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",")]
    options = {option: value for option, _, value in pairs}
    words = _OPTIONS.get(name, {})
    if len(options) < len(pairs):
        raise ValueError(text)
    for option, value in options.items():
        if option not in words or value not in (words[option] or {value}) or not value:
            raise ValueError(text)
    return name, PartMode(**{_FIELDS.get(option, option): v for option, v in options.items()})

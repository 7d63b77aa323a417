"""Upsert tables: checks of their definition, so that none of them is read wrongly."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from seamline.connectors.kafka.formats.envelopes import ENVELOPES
from seamline.connectors.kafka.formats.tombstones import KEY_TYPES
from seamline.errors import INVALID_TABLE_DEFINITION, NOT_SUPPORTED, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import KEY, VALUE, DeleteMark, parse_sources
from seamline.sql.types import Field

if TYPE_CHECKING:
    from seamline.gateway.commands.tables import TableDefinition

TABLE_PROPERTIES = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}
"""Tiering changes rows all over a table, so it keeps data files and writes delete files."""


_STRUCTURED = frozenset({"json", "avro", "protobuf", "json_schema"})
"""Formats in which a key has fields."""


def defined(
    definition: TableDefinition, fields: tuple[Field, ...]
) -> tuple[TableDefinition, tuple[Field, ...]]:
    """Returns the definition and columns, with the key spelt like the columns and made NOT NULL.

    Those of any other table are returned unchanged.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if definition.mode == "append":
        if not (definition.primary_key or definition.envelope or definition.deleted_by):
            return definition, fields
        raise _invalid(
            "only upsert tables have a primary key, an envelope or deleted_by", "mode = 'upsert'"
        )
    if definition.mode == "changelog" and definition.envelope not in ENVELOPES:
        words = ", ".join(ENVELOPES)
        raise _invalid(
            f"envelope {definition.envelope!r} is not known", f"It must be one of: {words}."
        )
    if definition.mode == "upsert" and definition.envelope:
        raise _invalid("envelopes are for tables of mode 'changelog'", "mode = 'changelog'")
    is_silent = definition.key is None and definition.key_format == "string"
    if definition.mode == "changelog" and is_silent and not definition.columns_from:
        as_values = definition.format if definition.format in _STRUCTURED else "json"
        definition = dataclasses.replace(definition, key_format=as_values)  # as Connect does
    if not definition.primary_key:
        raise _invalid(
            "an upsert table needs a primary key", "primary_key = ARRAY['id'], or --primary-key id"
        )
    by_name = {field.name.lower(): field for field in fields}
    key: list[str] = []
    for name in definition.primary_key:
        field = by_name.get(name.lower())
        if field is None:
            raise _invalid(f"the primary key {name} is not a column of the table")
        if field.name in key:
            raise _invalid(f"the primary key names {name} twice")
        if field.type not in KEY_TYPES:
            words = ", ".join(str(type_) for type_ in KEY_TYPES)
            raise _invalid(
                f"{name} is {field.type}, which cannot be a key", f"A key column may be {words}."
            )
        key.append(field.name)
    if definition.on_error == "null":
        raise _invalid(
            "on_error = 'null' is not for upsert tables: a bad record has no key",
            "It must be 'fail' or 'skip'.",
        )
    _check_record_key(definition, key)
    if definition.deleted_by:
        definition = _marked(definition, definition.deleted_by)
    required = tuple(
        dataclasses.replace(field, required=field.required or field.name in key) for field in fields
    )
    return dataclasses.replace(definition, primary_key=tuple(key)), required


def _marked(definition: TableDefinition, mark: str) -> TableDefinition:
    """Returns the definition with `deleted_by` in its canonical form."""
    if definition.mode == "changelog":
        raise _invalid(
            f"the envelope {definition.envelope} itself says which rows are deleted",
            "Leave out deleted_by.",
        )
    if definition.format not in _STRUCTURED:
        raise _invalid(
            f"deleted_by names a field, and format {definition.format} has no named fields",
            f"It works with the formats {', '.join(sorted(_STRUCTURED))}.",
        )
    return dataclasses.replace(definition, deleted_by=str(DeleteMark.parse(mark)))


def _check_record_key(definition: TableDefinition, key: list[str]) -> None:
    """Requires that a delete's row, having no value, can be found by the record's key."""
    sources = {
        ".".join(entry.column).lower(): entry.source
        for entry in parse_sources(definition.columns_from)
    }
    is_whole = definition.key is not None and [definition.key.lower()] == [k.lower() for k in key]
    is_repeated = is_whole or (definition.key_format in _STRUCTURED and definition.key is None)
    for name in key:
        source = sources.get(name.lower())
        if source is not None and source.part not in (KEY, VALUE):
            raise _invalid(f"the primary key's {name} cannot come from {source}")
        if (source is None or source.part != KEY) and not is_repeated:
            raise _invalid(
                "a delete is a record without a value, and nothing says where record keys "
                f"hold {name}, which is in the primary key",
                _where_keys_hold(name, is_only=len(key) == 1),
            )


def _where_keys_hold(name: str, *, is_only: bool) -> str:
    whole = f" If {name} is the whole key, set key = '{name}'." if is_only else ""
    return (
        f"If keys are objects with a field {name}, set key_format = 'json' and no key; "
        f"columns_from = ARRAY['{name} = key.other'] takes it from another field.{whole}"
    )


def check_altered(name: str, value: Any) -> None:
    """Refuses a property value that an upsert table cannot have.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if name == "on_error" and value == "null":
        raise _invalid(
            "on_error = 'null' is not for upsert tables: a bad record has no key",
            "It must be 'fail' or 'skip'.",
        )


def check_writable(binding: TopicBinding) -> None:
    """Requires that records written here go to the partition where other producers put their key.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    if binding.envelope:
        raise SeamlineError(
            NOT_SUPPORTED,
            "a changelog table is written only by the program that captures the changes",
            hint="Write to the database that the changes come from.",
        )
    is_keyed = binding.key is not None or any(
        entry.source.part == KEY for entry in binding.encoding.sources
    )
    if not is_keyed or (binding.key_partitioner is None and binding.key_partitions != 1):
        raise SeamlineError(
            NOT_SUPPORTED,
            "an upsert table can be written only if its records' keys and partitioner are known",
            hint="Create it with key = '…' and key_partitioner = 'murmur2' or 'crc32'.",
        )


def _invalid(message: str, hint: str = "") -> SeamlineError:
    return SeamlineError(INVALID_TABLE_DEFINITION, message, hint=hint)

"""All formats, by their names in `format` and `key_format`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from seamline.connectors.kafka.formats.csv_values import CsvValues
from seamline.connectors.kafka.formats.framed import FramedTypes, FramedValues, Unframed
from seamline.connectors.kafka.formats.json_values import JsonDocuments, JsonValues
from seamline.connectors.kafka.formats.numbers import int32_values, int64_values
from seamline.connectors.kafka.formats.parts import Format, PartDecoder, Setting, WholeRecords
from seamline.connectors.kafka.formats.raw_values import raw_values
from seamline.connectors.kafka.formats.text_values import TextValues
from seamline.connectors.kafka.formats.trees import record_of
from seamline.connectors.kafka.formats.watching import DescribedValues
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.sql.types import Field, Row

Fields: TypeAlias = tuple[Field, ...]
JSON = frozenset({"json", "json_schema"})
"""Formats that are JSON, whose text has several spellings."""
_NOTHING = Setting()


def _json(setting: Setting) -> Format:
    spelling = setting.spelling
    fields = functools.partial(JsonValues, spelling=spelling)

    def whole(column: Field) -> PartDecoder:
        if isinstance(column.type, Row):
            return WholeRecords(column, fields, b"null")
        return JsonDocuments(column, spelling)

    return Format("json", whole, fields, spelling)


def _json_schema(setting: Setting) -> Format:
    plain = _json(setting)
    fields = plain.fields
    assert fields is not None

    def framed(decoder: PartDecoder) -> PartDecoder:
        if setting.watch is None:
            return Unframed(decoder)
        from seamline.connectors.kafka.formats.json_schema import parsed

        return DescribedValues(decoder, setting, lambda schema: record_of(parsed(schema)))

    return Format(
        "json_schema",
        lambda column: framed(plain.whole(column)),
        lambda columns: framed(fields(columns)),
    )


def _csv(setting: Setting) -> Format:
    separator = setting.options.get("csv_separator", ",")
    quote = setting.options.get("csv_quote", '"')

    def fields(columns: Fields) -> PartDecoder:
        return CsvValues(columns, setting.spelling, separator, quote)

    return Format("csv", lambda column: fields((column,)), fields)


def _string(setting: Setting) -> Format:
    return Format("string", functools.partial(TextValues, spelling=setting.spelling))


def _avro(setting: Setting) -> Format:
    from seamline.connectors.kafka.formats.avro_values import avro_types, avro_values

    def framed(columns: Fields, *, whole: bool) -> PartDecoder:
        make = functools.partial(
            avro_values,
            columns=columns,
            whole=whole,
            spelling=setting.spelling,
            watch=setting.watch,
        )
        return FramedValues(setting, "AVRO", columns, lambda own: make(own.schema))

    return Format(
        "avro",
        lambda column: framed((column,), whole=True),
        lambda columns: framed(columns, whole=False),
        types=FramedTypes(setting, "AVRO", lambda own: avro_types(own.schema)),
    )


def _protobuf(setting: Setting) -> Format:
    from seamline.connectors.kafka.formats.protobuf_values import ProtobufValues, protobuf_types

    framing = setting.schemas.framing if setting.schema is None else None

    def framed(columns: Fields, *, whole: bool) -> PartDecoder:
        make = functools.partial(
            ProtobufValues,
            columns=columns,
            whole=whole,
            framing=framing,
            spelling=setting.spelling,
            watch=setting.watch,
        )
        return FramedValues(
            setting,
            "PROTOBUF",
            columns,
            lambda own: make(own.schema, earlier=own.earlier, message=own.message),
        )

    return Format(
        "protobuf",
        lambda column: framed((column,), whole=True),
        lambda columns: framed(columns, whole=False),
        types=FramedTypes(setting, "PROTOBUF", functools.partial(protobuf_types, framing=framing)),
    )


def _one_value(name: str, decoder: Callable[[Field], PartDecoder]) -> Callable[[Setting], Format]:
    return lambda _: Format(name, decoder)


FORMATS: Mapping[str, Callable[[Setting], Format]] = {
    "json": _json,
    "avro": _avro,
    "json_schema": _json_schema,
    "protobuf": _protobuf,
    "csv": _csv,
    "string": _string,
    "int32": _one_value("int32", int32_values),
    "int64": _one_value("int64", int64_values),
    "bytes": _one_value("bytes", raw_values),
    "raw": _one_value("raw", raw_values),
}


def format_of(name: str, setting: Setting = _NOTHING) -> Format:
    """Returns the format of a name.

    Args:
        name: Its name in `format` or `key_format`.
        setting: What the format may need to know besides columns.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when there is no such format.
    """
    make = FORMATS.get(name)
    if make is None:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"format {name!r} is not known",
            hint=f"format is one of: {', '.join(sorted(FORMATS))}",
        )
    return make(setting)

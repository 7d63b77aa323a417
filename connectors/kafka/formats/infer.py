"""Infers column types from sample records of a topic.

The result is a guess by nature, so it is shown, and used only on request. Whole numbers become
bigint, other numbers double; strings that are all dates, instants or timestamps become these. A key
that was always null becomes varchar and is reported as unknown. A key that changes shape is an
error.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seamline.connectors.kafka.formats.json_values import NOT_FINITE, is_text_of
from seamline.errors import INFERENCE_FAILED, SeamlineError
from seamline.seam.encoding import KEY, Encoding, Path
from seamline.sql import coercion, columns, types
from seamline.sql.types import Array, Field, Row, Type

_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?"
_ZONE = r"\s?(Z|[+-]\d{2}(:?\d{2})?)"
_FORMS = (
    (re.compile(_DAY), types.DATE),
    (re.compile(_DAY + _TIME + _ZONE), types.TIMESTAMP_TZ),
    (re.compile(_DAY + _TIME), types.TIMESTAMP),
)
"""The forms of strings that are treated as times; the decoder decides whether they are valid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Inferred:
    """What was inferred from a sample.

    Attributes:
        columns: A column for each key, in the order in which the keys first appeared.
        records: The number of records examined.
        bad: The number of records that are not JSON objects.
        unknown: Keys, with dots between levels, that never had a value and so are varchar.
        source: What the columns were inferred from, for people to read.
        notes: What else people should know.
        is_mixed: Whether the sample has records of several schemas.
    """

    columns: tuple[Field, ...]
    records: int
    bad: int
    unknown: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    is_mixed: bool = False


def infer_json(values: Sequence[bytes | None]) -> Inferred:
    """Infers the columns for a topic of JSON objects.

    Raises:
        SeamlineError: INFERENCE_FAILED when there is nothing to infer from, or when no single
            column can hold the shapes of a key's values.
    """
    merged: Type | None = None
    bad = 0
    for value in values:
        try:
            record = json.loads(value) if value is not None else None
        except (ValueError, RecursionError):
            record = ()
        if record is None:
            continue
        if not isinstance(record, dict):
            bad += 1
            continue
        found = _type_of(record)
        merged = found if merged is None else _merge(merged, found, "the record")
    if not isinstance(merged, Row) or not merged.fields:
        raise SeamlineError(
            INFERENCE_FAILED, f"none of {len(values)} sampled records is a JSON object with keys"
        )
    unknown = tuple(_unknown(merged, ()))
    return Inferred(_settle_row(merged).fields, len(values), bad, unknown)


_LOG_TYPES: Mapping[str, Type] = {
    "partition": types.INTEGER,
    "offset": types.BIGINT,
    "timestamp": types.TIMESTAMP_TZ,
    "timestamp_type": types.INTEGER,
    "headers": columns.METADATA_TYPES[columns.HEADERS],
}
_KEY_TYPES: Mapping[str, Type] = {
    "int32": types.INTEGER,
    "int64": types.BIGINT,
    "bytes": types.VARBINARY,
    "raw": types.VARBINARY,
}


def sourced_columns(
    encoding: Encoding, known: Sequence[Field], of_key: Callable[[Path], Type | None]
) -> Iterator[Field]:
    """Yields columns for what `columns_from` names and the values do not have.

    Args:
        encoding: How records are encoded.
        known: The columns that the values have.
        of_key: Returns the type that a path inside keys leads to, if it is known.
    """
    names = {field.name.lower() for field in (*known, *columns.METADATA_FIELDS)}
    for entry in encoding.sources:
        if len(entry.column) == 1 and entry.column[0].lower() not in names:
            source = entry.source
            found = _LOG_TYPES.get(source.part, types.VARCHAR)
            if source.part == KEY:
                found = _KEY_TYPES.get(encoding.key) or of_key(source.path) or types.VARCHAR
            yield Field(entry.column[0], found)


def _type_of(value: Any) -> Type:
    match value:
        case None:
            return types.UNKNOWN
        case bool():
            return types.BOOLEAN
        case int():
            if -(2**63) <= value < 2**63:
                return types.BIGINT
            return types.Decimal(38, 0) if abs(value) < 10**38 else types.DOUBLE
        case float():
            return types.DOUBLE
        case str():
            return _type_of_text(value)
        case list():
            element: Type = types.UNKNOWN
            for item in value:
                element = _merge(element, _type_of(item), "an array")
            return Array(element)
        case dict():
            return Row(tuple(Field(key, _type_of(item)) for key, item in value.items()))
    raise AssertionError(value)


_NOT_FINITE = types.REAL
"""Stands for text that is a number beside numbers: NaN and the infinities."""


def _type_of_text(text: str) -> Type:
    if text in NOT_FINITE:
        return _NOT_FINITE
    for form, type_ in _FORMS:
        if form.fullmatch(text) and is_text_of(type_, text):
            return type_
    return types.VARCHAR


_TEXTS = frozenset({_NOT_FINITE, types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ, types.VARCHAR})


def _merge(one: Type, other: Type, where: str) -> Type:
    """Returns the narrowest type that holds both."""
    match one, other:
        case Row(fields), Row(others):
            return _merge_rows(fields, others)
        case Array(element), Array(another):
            return Array(_merge(element, another, where))
    if one != other and one in _TEXTS and other in _TEXTS:
        return types.VARCHAR
    if one != other and _NOT_FINITE in (one, other):
        one, other = (types.DOUBLE if type_ == _NOT_FINITE else type_ for type_ in (one, other))
    common = coercion.common_type(one, other)
    if common is None:
        raise SeamlineError(
            INFERENCE_FAILED,
            f"{where} is {one} in some records and {other} in others",
            hint="State the columns, without this one or with one of these types; on_error = "
            "'null' or 'skip' then handles the others.",
        )
    return common


def _merge_rows(fields: Sequence[Field], others: Sequence[Field]) -> Row:
    merged = {field.name: field.type for field in fields}
    for field in others:
        known = merged.get(field.name, types.UNKNOWN)
        merged[field.name] = _merge(known, field.type, f"key {field.name!r}")
    return Row(tuple(Field(name, type_) for name, type_ in merged.items()))


def _unknown(type_: Type, path: tuple[str, ...]) -> Iterator[str]:
    match type_:
        case types.UNKNOWN:
            yield ".".join(path)
        case Array(element):
            yield from _unknown(element, path)
        case Row(fields):
            for field in fields:
                yield from _unknown(field.type, (*path, field.name))


def _settle(type_: Type) -> Type:
    """Turns what never had a value into text, and drops objects that never had a key."""
    match type_:
        case types.UNKNOWN:
            return types.VARCHAR
        case types.REAL:  # what was never anything but `_NOT_FINITE`
            return types.DOUBLE
        case Array(element):
            return Array(_settle(element))
        case Row():
            return _settle_row(type_)
    return type_


def _settle_row(row: Row) -> Row:
    return Row(
        tuple(
            Field(field.name, _settle(field.type))
            for field in row.fields
            if not (isinstance(field.type, Row) and not field.type.fields)
        )
    )

"""From rows to records: values and keys as the table's own decoder and pruning read them.

Every batch is decoded again before it is sent: what would not come back as the same row is refused,
so that no statement writes a record that its table cannot read.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.kafka.formats.decoder import FORMATS
from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Varbinary

KeyBytes = Callable[[Any, str], bytes | None]
"""The record key that a value of the key column is written as; None when that is not known."""


class RecordWriter:
    """Makes records of rows of one table.

    Args:
        binding: The topic.
        fields: The columns of its records.
        key_bytes: How keys are written.
    """

    def __init__(
        self, binding: TopicBinding, fields: tuple[Field, ...], key_bytes: KeyBytes
    ) -> None:
        self._binding = binding
        self._fields = fields
        self._key_bytes = key_bytes
        self._decoder = FORMATS[binding.format](fields)

    def records(self, rows: pa.Table) -> list[tuple[bytes | None, bytes | None]]:
        """(key, value) of each row, whose columns are those of the table, in order.

        Raises:
            SeamlineError: INVALID_ARGUMENT for a row that would not be read again as it is.
        """
        columns = [column.to_pylist() for column in rows.columns]
        values = self._raw(columns[0]) if self._binding.format == "raw" else self._json(columns)
        self._require_same(rows, values)
        return list(zip(self._keys(rows), values, strict=True))

    def _raw(self, column: Sequence[Any]) -> list[bytes | None]:
        return [value.encode() if isinstance(value, str) else value for value in column]

    def _json(self, columns: Sequence[Sequence[Any]]) -> list[bytes | None]:
        converters = [_converter(field.type) for field in self._fields]
        found: list[bytes | None] = []
        for row in zip(*columns, strict=True):
            body = {
                field.name: convert(value)
                for field, convert, value in zip(self._fields, converters, row, strict=True)
                if value is not None or field.write_default is not None
            }
            found.append(_dumped(body).encode())
        return found

    def _keys(self, rows: pa.Table) -> list[bytes | None]:
        name = self._binding.key
        if name is None:
            return [None] * rows.num_rows
        place = next(i for i, f in enumerate(self._fields) if f.name.lower() == name.lower())
        return [
            None if value is None else self._key(value) for value in rows.column(place).to_pylist()
        ]

    def _key(self, value: Any) -> bytes:
        key_format = self._binding.key_format
        if key_format == "json" and isinstance(value, str):
            return json.dumps(value).encode()
        found = self._key_bytes(value, key_format)
        if found is None:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"the record key cannot repeat {value!r} of column {self._binding.key} "
                f"as {key_format}",
                hint="Produce it to the topic.",
            )
        return found

    def _require_same(self, rows: pa.Table, values: Sequence[bytes | None]) -> None:
        arrays, bad = self._decoder.decode(values)
        for reason in bad.values():
            raise SeamlineError(
                INVALID_ARGUMENT, f"a row cannot be written as a record: {reason}", hint=""
            )
        for field, array, column in zip(self._fields, arrays, rows.columns, strict=True):
            if array.to_pylist() != column.to_pylist():
                raise SeamlineError(
                    INVALID_ARGUMENT,
                    f"a value of column {field.name} would not be read again as it is",
                    hint="NaN and infinity cannot be written as JSON.",
                )


class _Number:
    """A number in its own digits, which the standard library's JSON would round."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _dumped(value: Any) -> str:
    match value:
        case _Number():
            return value.text
        case dict():
            pairs = (f"{_dumped(str(name))}:{_dumped(item)}" for name, item in value.items())
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _converter(type_: Type) -> Callable[[Any], Any]:
    """What turns a value into one of JSON's."""
    match type_:
        case Decimal():
            return lambda value: None if value is None else _Number(format(value, "f"))
        case Varbinary():
            return lambda value: None if value is None else base64.b64encode(value).decode()
        case Array(element):
            inner = _converter(element)
            return lambda value: None if value is None else [inner(item) for item in value]
        case Map(key, item):
            keys, items = _converter(key), _converter(item)
            return lambda value: (
                None if value is None else {_key_text(keys(k)): items(v) for k, v in value}
            )
        case Row(fields):
            parts = [(field.name, _converter(field.type)) for field in fields]
            return lambda value: (
                None if value is None else {name: convert(value[name]) for name, convert in parts}
            )
        case types.REAL | types.DOUBLE:
            return _finite
    return _scalar


def _key_text(value: Any) -> str:
    if isinstance(value, _Number):
        return value.text
    return value if isinstance(value, str) else json.dumps(value)


def _finite(value: Any) -> Any:
    if value is not None and not math.isfinite(value):
        raise SeamlineError(INVALID_ARGUMENT, f"{value} cannot be written as JSON", hint="")
    return value


def _scalar(value: Any) -> Any:
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return moment.isoformat(timespec="microseconds") + "Z"
        case datetime.datetime():
            return value.isoformat(timespec="microseconds")
        case datetime.date():
            return value.isoformat()
    return value

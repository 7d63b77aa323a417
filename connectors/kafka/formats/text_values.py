"""Converts text to a value of a column, for the format `string` and the fields of `csv`.

For each type, text means what it means inside JSON strings, and numbers and booleans are written as
in JSON. Text for a row, an array, a map or json is JSON.
"""

from __future__ import annotations

import re

import pyarrow as pa

from seamline.connectors.kafka.formats import json_values
from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, Parts
from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.sql import types
from seamline.sql.types import Field, Type, Varbinary, children, to_arrow


class TextValues:
    """Decodes UTF-8 text into one column."""

    def __init__(self, column: Field, spelling: Spelling = PLAIN) -> None:
        self._column = column
        self._spelling = spelling
        self._type = to_arrow(column.type)

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),  # noqa: ARG002 - used by other decoders
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        if isinstance(self._column.type, Varbinary):
            return [pa.array(values, pa.binary())], {}
        if self._column.type == types.VARCHAR:
            try:
                return [pa.array(values, pa.binary()).cast(pa.string())], {}
            except pa.ArrowInvalid:
                pass  # each is checked below
        converted: list[object] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                converted.append(None if value is None else self._value(value))
            except (ValueError, RecursionError) as error:
                converted.append(None)
                bad[index] = str(error)
        return [pa.array(converted, self._type)], bad

    def _value(self, value: bytes) -> object:
        try:
            text = self._spelling.text_of(value)
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 at byte {error.start}") from None
        return value_of_text(text, self._column.type, self._column.name, self._spelling)


_NUMBERS = frozenset({types.INTEGER, types.BIGINT, types.REAL, types.DOUBLE, types.BOOLEAN})
_WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_WORDS = {"true": True, "false": False}


def value_of_text(text: str, type_: Type, path: str, spelling: Spelling = PLAIN) -> object:
    """Returns the value of a type that a text stands for, as Arrow's constructors take it.

    Raises:
        ValueError: naming the path and the text.
    """
    if isinstance(type_, types.Timestamp) and _WHOLE.fullmatch(text):
        return json_values.exact(int(text), type_, path, spelling)
    if type_ == types.BOOLEAN and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if type_ in (types.INTEGER, types.BIGINT) and _WHOLE.fullmatch(text):
        return json_values.exact(int(text), type_, path)
    if type_ == types.JSON:
        return _json(text, path)
    if type_ in _NUMBERS or any(True for _ in children(type_)):
        try:
            parsed = json_values.parse(text.encode())
        except ValueError:
            parsed = text
        return json_values.exact(parsed, type_, path, spelling)
    return json_values.exact(text, type_, path, spelling.of_every_part)


def _json(text: str, path: str) -> object:
    try:
        parsed = json_values.parse(text.encode())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return json_values.exact(parsed, types.JSON, path)

"""The format `json`: one JSON object per record, its keys matched to columns.

Two code paths, one meaning. The exact path reads record by record and is the definition. The fast
path hands a whole batch to Arrow's JSON reader and is taken only when it provably gives the same
result, and for more than a few records; whenever it rejects anything, the exact path decides. A
property test checks that the two are equal.

How JSON becomes a value: numbers for integers (whole, in range), real and double (the nearest that
is finite, or NaN, Infinity and -Infinity, as bare words or in strings), decimal (as a number or in
a string, never rounded); strings for varchar, date, time (ISO 8601), uuid and varbinary (base64);
ISO 8601 strings or whole milliseconds since the epoch for timestamps, with no digits beyond
microseconds, and a time zone only where the column has one; objects for rows and for maps; arrays
for arrays; anything for json, where the word null is JSON's own. A key that is absent is null; a
key without a column is ignored. A tombstone or the word null gives a row of nulls.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import decimal
import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, Parts, contains
from seamline.connectors.kafka.formats.spelling import (
    DAYS_MAX,
    DAYS_MIN,
    MICROS_MAX,
    MICROS_MIN,
    PLAIN,
    TOO_FINE,
    Days,
    Micros,
    Spelling,
    json_type,
)
from seamline.sql import types
from seamline.sql.kernels import json_texts
from seamline.sql.kernels.json_texts import Number
from seamline.sql.slices import list_like
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Varbinary

DEPTH_MAX = 200
"""A record nested deeper is bad: every reader must agree on it, however much stack it has left."""

_BLOCK_SIZE_MIN = 1 << 20
_ONE_BY_ONE_MAX = 8
"""So many records are read one by one in less time than Arrow's reader takes to start."""
_UNDIVIDED_MAX = 64
_PARTS = 8
"""Into how many parts a rejected batch of more records is divided."""
_REJECTED_MAX = 2
"""After so many rejected parts, the fast path is not tried on the others."""


class JsonValues:
    """Decodes JSON objects into columns."""

    def __init__(self, columns: tuple[Field, ...], spelling: Spelling = PLAIN) -> None:
        self._columns = columns
        self._spelling = spelling
        self._fast = all(
            column.write_default is None
            and _type_has_fast_path(column.type)
            and not spelling.changes(column.type)
            for column in columns
        )

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),  # noqa: ARG002 - used by other decoders
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        if len(values) <= _ONE_BY_ONE_MAX:
            return self._decode_exactly(values)
        arrays = self.decode_fast(values)
        if arrays is not None:
            return arrays, {}
        is_divided = self._fast and len(values) > _UNDIVIDED_MAX
        return self._decode_parts(values) if is_divided else self._decode_exactly(values)

    def _decode_parts(self, values: Parts) -> tuple[list[pa.Array], Bad]:
        """Decodes a rejected batch in parts, so that what is odd in it slows down few others."""
        parts: list[list[pa.Array]] = []
        bad: dict[int, str] = {}
        start = rejected = 0
        while start < len(values):
            tries = rejected < _REJECTED_MAX
            part = values[start : start + -(-len(values) // _PARTS)] if tries else values[start:]
            arrays = self.decode_fast(part) if tries else None
            if arrays is None:
                rejected += 1
                arrays, reasons = self._decode_exactly(part)
                bad |= {start + index: reason for index, reason in reasons.items()}
            parts.append(arrays)
            start += len(part)
        return [pa.concat_arrays(column) for column in zip(*parts, strict=True)], bad

    # --- The fast path -------------------------------------------------------------------------

    def decode_fast(self, values: Parts) -> list[pa.Array] | None:
        """Returns the columns if no value is bad; None when the exact path must decide."""
        if not self._fast or not values:
            return None
        whole = _joined(values)
        if whole is None:
            return None
        sample = _sample(values)
        parse_schema = pa.schema(
            [
                pa.field(name, _carrier(column.type, sample.get(name)))
                for column in self._columns
                for name in (column.name, *column.aliases)
            ]
        )
        try:
            table = pa_json.read_json(
                pa.BufferReader(whole),
                read_options=pa_json.ReadOptions(
                    use_threads=False, block_size=max(_BLOCK_SIZE_MIN, len(whole) + 1)
                ),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=parse_schema, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(values):
                return None
            return [self._column(table, column) for column in self._columns]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            return None

    def _column(self, table: pa.Table, column: Field) -> pa.Array:
        """Returns one column of a parsed batch; raises ValueError if the exact path must decide."""
        arrays = []
        for name in (column.name, *column.aliases):
            carrier = _one_chunk(table.column(name))
            carrier.validate(full=True)  # UTF-8 and the precision of decimals
            if not _finite(carrier):
                raise ValueError("a number overflowed")
            arrays.append(_convert(carrier, column.type))
        array = pc.coalesce(*arrays) if len(arrays) > 1 else arrays[0]
        if column.required and array.null_count:
            raise ValueError("null in a required column")
        return array

    # --- The exact path ------------------------------------------------------------------------

    def _decode_exactly(
        self, values: Sequence[bytes | None]
    ) -> tuple[list[pa.Array], dict[int, str]]:
        rows: list[tuple[Any, ...] | None] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                rows.append(self._row(value))
            except (ValueError, RecursionError) as error:
                rows.append(None)
                bad[index] = str(error)
        arrays = []
        for position, column in enumerate(self._columns):
            slots = [None if row is None else row[position] for row in rows]
            arrays.append(pa.array(slots, types.to_arrow(column.type)))
        return arrays, bad

    def _row(self, value: bytes | None) -> tuple[Any, ...] | None:
        record = None if value is None else parse(value)
        if record is None:
            required = next((c.name for c in self._columns if c.required), None)
            if required is not None:
                raise ValueError(f"{required}: null, but the column is required")
            return None
        if not isinstance(record, _Object):
            raise ValueError(f"{_shape(record)} where an object is expected")
        return tuple(_member(record, column, "", self._spelling) for column in self._columns)


class JsonDocuments:
    """Decodes JSON texts, each as one value of a column."""

    def __init__(self, column: Field, spelling: Spelling = PLAIN) -> None:
        self._column = column
        self._spelling = spelling

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),  # noqa: ARG002 - used by other decoders
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        converted: list[Any] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                converted.append(None if value is None else self._value(parse(value)))
            except (ValueError, RecursionError) as error:
                converted.append(None)
                bad[index] = str(error)
        return [pa.array(converted, types.to_arrow(self._column.type))], bad

    def _value(self, parsed: Any) -> Any:
        return exact(parsed, self._column.type, self._column.name, self._spelling)


# --- Exact values --------------------------------------------------------------------------------


class _MinusZero(int):
    """The JSON number -0, which is a zero with a sign where a column has one."""

    __slots__ = ()

    def __str__(self) -> str:
        return "-0"


_DIGITS_MAX = 4300
"""A whole number with more digits is kept as it is written: Python refuses to convert it."""
_WHOLE_MINUS_ZERO = re.compile(rb"-0(?![\d.eE])")
_MANY_DIGITS = re.compile(rb"(?<!\d)\d{%d}" % (_DIGITS_MAX + 1))


def _has_odd_whole(value: bytes) -> bool:
    """Whether a JSON text may have a number for `whole_number`, which is slower than Python."""
    if len(value) > _DIGITS_MAX and _MANY_DIGITS.search(value):
        return True
    return b"-0" in value and _WHOLE_MINUS_ZERO.search(value) is not None


def whole_number(text: str) -> int | Number:
    """Returns a whole number, however many digits JSON has for it."""
    if text == "-0":
        return _MinusZero(0)
    return Number(text) if len(text) > _DIGITS_MAX else int(text)


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys appeared twice."""

    __slots__ = ("twice",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: frozenset[str] = frozenset()
        if len(self) != len(pairs):
            keys = [key for key, _ in pairs]
            self.twice = frozenset(key for key in self if keys.count(key) > 1)


def parse(value: bytes) -> Any:
    """Parses a JSON text, keeping its numbers exact.

    Raises:
        ValueError: saying what is wrong with it.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    if _too_deep(value):
        raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
    whole = whole_number if _has_odd_whole(value) else None
    try:
        return json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_Object,
            parse_float=Number,
            parse_int=whole,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= DEPTH_MAX:
        return False
    depth = 0
    for byte in _STRING.sub(b"", value):
        if byte in b"[{":
            depth += 1
            if depth > DEPTH_MAX:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def _member(record: _Object, field: Field, path: str, spelling: Spelling) -> Any:
    """Returns a field's value in a record: the first value under its names, newest first."""
    here = f"{path}{field.name}"
    present = [name for name in (field.name, *field.aliases) if name in record]
    for name in present:
        if name in record.twice:
            raise ValueError(f"{path}{name}: appears twice")
        if record[name] is not None:
            return exact(record[name], field.type, here, spelling)
    null = exact(None, field.type, here, spelling) if present else field.write_default
    if null is None and field.required:
        raise ValueError(f"{here}: null, but the column is required")
    return null


def exact(value: Any, type_: Type, path: str, spelling: Spelling = PLAIN) -> Any:
    """Returns the Python value of a JSON value, as Arrow's constructors take it.

    Raises:
        ValueError: naming the path and what was found there.
    """
    if value is None:
        return _JSON_NULL if type_ == types.JSON and spelling.json_nulls else None
    if isinstance(type_, Row):
        if spelling.is_of_several(type_):
            return _of_several(value, type_, path, spelling)
        if not isinstance(value, _Object):
            raise _unlike(value, type_, path)
        return {f.name: _member(value, f, f"{path}.", spelling) for f in type_.fields}
    if isinstance(type_, Array):
        if not isinstance(value, list):
            raise _unlike(value, type_, path)
        element = type_.element
        return [exact(v, element, f"{path}[{i}]", spelling) for i, v in enumerate(value)]
    if isinstance(type_, Map):
        return _exact_map(value, type_, path, spelling)
    if spelling is not PLAIN:
        try:
            value = spelling.respelt(value, type_, Number)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return _EXACT[type(type_) if isinstance(type_, Decimal | Varbinary) else type_](
        value, type_, path
    )


def _of_several(value: Any, type_: Row, path: str, spelling: Spelling) -> dict[str, Any]:
    """Returns a row with the value in the field of its type."""
    types_ = {field.name: field.type for field in type_.fields}
    name = json_type(value, Number)
    if name not in types_ and isinstance(value, str) and value in NOT_FINITE:
        name = "number"
    if name not in types_:
        raise _unlike(value, type_, path)
    return dict.fromkeys(types_) | {name: exact(value, types_[name], f"{path}.{name}", spelling)}


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
    """A record that is parsed once, to be decoded into one column after another.

    Attributes:
        record: The object; None for a tombstone, or the word null.
    """

    record: _Object | None

    def value(self, column: Field, spelling: Spelling = PLAIN) -> Any:
        """Returns the value of a column.

        Raises:
            ValueError: the record is bad.
        """
        if self.record is not None:
            return _member(self.record, column, "", spelling)
        if column.required:
            raise ValueError(f"{column.name}: null, but the column is required")
        return None


def parsed_record(value: bytes | None) -> Parsed:
    """Returns a record, parsed.

    Raises:
        ValueError: it is not JSON, or not an object.
    """
    record = None if value is None else parse(value)
    if record is not None and not isinstance(record, _Object):
        raise ValueError(f"{_shape(record)} where an object is expected")
    return Parsed(record)


def is_text_of(type_: Type, text: str, spelling: Spelling = PLAIN) -> bool:
    """Whether a JSON string is a value of a type."""
    try:
        exact(text, type_, "", spelling)
    except ValueError:
        return False
    return True


def _exact_map(value: Any, type_: Map, path: str, spelling: Spelling) -> list[tuple[Any, Any]]:
    if not isinstance(value, _Object):
        raise _unlike(value, type_, path)
    if value.twice:
        raise ValueError(f"{path}: the key {min(value.twice)!r} appears twice")
    items = ((k, exact(v, type_.value, f"{path}[{k!r}]", spelling)) for k, v in value.items())
    return map_entries(items, type_.key, path)


def map_entries(items: Iterable[tuple[str, Any]], type_: Type, path: str) -> list[tuple[Any, Any]]:
    """Returns the entries of a map, whose keys are made from the keys of an object.

    Raises:
        ValueError: a key is not of its type, is null, or appears twice.
    """
    entries = [(_map_key(key, type_, path), item) for key, item in items]
    if type_ == types.VARCHAR:
        return entries
    met = set()
    for key, _ in entries:
        if key is None:
            raise ValueError(f"{path} key: null")
        same = repr(key) if key != key or isinstance(key, dict | list) else key
        if same in met:
            raise ValueError(f"{path}: the key {key} appears twice")
        met.add(same)
    return entries


def _map_key(key: str, type_: Type, path: str) -> Any:
    """Returns a map key from an object's key, a string; other key types are their JSON text."""
    if isinstance(type_, Varbinary) or type_ in _KEYS_IN_STRINGS:
        return exact(key, type_, f"{path} key")
    try:
        parsed = json.loads(key, parse_float=Number)
    except (json.JSONDecodeError, RecursionError):
        parsed = key
    return exact(parsed, type_, f"{path} key")


def _boolean(value: Any, type_: Type, path: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _unlike(value, type_, path)


_RANGES: dict[Type, tuple[int, int]] = {
    types.INTEGER: (-(2**31), 2**31 - 1),
    types.BIGINT: (-(2**63), 2**63 - 1),
}


def _integer(value: Any, type_: Type, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unlike(value, type_, path)
    low, high = _RANGES[type_]
    if not low <= value <= high:
        raise ValueError(f"{path}: {value} is out of range for {type_}")
    return value


NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
"""The numbers that JSON lacks, as Jackson (so Kafka Connect), Protobuf and others write them."""


def _double(value: Any, type_: Type, path: str) -> float:
    if isinstance(value, float):  # the bare words NaN, Infinity, -Infinity
        return value
    if isinstance(value, str) and value in NOT_FINITE:
        return float(value)
    if not isinstance(value, int | Number) or isinstance(value, bool):
        raise _unlike(value, type_, path)
    if type_ == types.DOUBLE:
        number = float(str(value))
    else:  # rounded once, not to a double first
        number = pa.scalar(str(value)).cast(types.to_arrow(type_)).as_py()
    if math.isinf(number):
        raise ValueError(f"{path}: {value} is out of range for {type_}")
    return number


_DECIMAL_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


def _decimal(value: Any, type_: Type, path: str) -> decimal.Decimal:
    assert isinstance(type_, Decimal)
    is_number = isinstance(value, int | str) and not isinstance(value, bool)
    if not is_number or not _DECIMAL_TEXT.fullmatch(str(value)):
        raise _unlike(value, type_, path)
    try:
        with decimal.localcontext(_DECIMALS):
            number = decimal.Decimal(str(value))
            exact = number.quantize(decimal.Decimal(1).scaleb(-type_.scale))
    except decimal.InvalidOperation:
        raise ValueError(f"{path}: {str(value)[:40]} is out of range for {type_}") from None
    if exact != number:
        raise ValueError(f"{path}: {value} has more than {type_.scale} digits after the point")
    if len(exact.as_tuple().digits) > type_.precision and exact:
        raise ValueError(f"{path}: {value} is out of range for {type_}")
    return exact


_DECIMALS = decimal.Context(prec=20_000, Emax=100_000, Emin=-100_000)


def _string(value: Any, type_: Type, path: str) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise _unlike(value, type_, path)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{path}: half of a surrogate pair") from None
    return value


def _bytes(value: Any, type_: Type, path: str) -> bytes:
    assert isinstance(type_, Varbinary)
    text = _string(value, type_, path)
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{path}: not base64") from None
    if type_.length is not None and len(raw) != type_.length:
        raise ValueError(f"{path}: {len(raw)} bytes where {type_.length} are expected")
    return raw


WORD = types.Char(0)
"""The type for text, a boolean or a whole number, read as its text."""


def _word(value: Any, type_: Type, path: str) -> str:
    if isinstance(value, int):
        return f"{value:d}" if not isinstance(value, bool) else str(value).lower()
    return _string(value, type_, path)


@dataclasses.dataclass(frozen=True, slots=True)
class Unscaled(Varbinary):
    """The bytes of a decimal without its point, which JSON may also have as the number itself."""

    scale: int = 0


def _unscaled(value: Any, type_: Type, path: str) -> bytes:
    assert isinstance(type_, Unscaled)
    if isinstance(value, bool) or not isinstance(value, int | Number):
        return _bytes(value, type_, path)
    try:
        with decimal.localcontext(_DECIMALS):
            number = decimal.Decimal(str(value)).scaleb(type_.scale)
            whole = number.to_integral_value()
    except decimal.InvalidOperation:
        raise ValueError(f"{path}: {str(value)[:40]} is out of range for a decimal") from None
    if whole != number:
        raise ValueError(f"{path}: {value} has more than {type_.scale} digits after the point")
    unscaled = int(whole)
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


_JSON_NULL = "null"
"""JSON's null, which is a value of type json; what is absent is the column's null."""


def _json(value: Any, type_: Type, path: str) -> str:
    """Returns the text that json_parse makes of it; refuses what that would change."""
    _require_exact(value, type_, path)
    try:
        return json_texts.canonical(value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _require_exact(value: Any, type_: Type, path: str) -> None:
    match value:
        case _Object():
            if value.twice:
                raise ValueError(f"{path}: the key {min(value.twice)!r} appears twice")
            for key, item in value.items():
                _string(key, type_, path)
                _require_exact(item, type_, path)
        case list():
            for item in value:
                _require_exact(item, type_, path)
        case str() if not isinstance(value, Number):
            _string(value, type_, path)
        case float():  # the bare words NaN, Infinity, -Infinity
            raise _unlike(value, type_, path)


_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def _uuid(value: Any, type_: Type, path: str) -> str:
    text = _string(value, type_, path)
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"{path}: {text!r} is not a uuid")
    return str(uuid.UUID(text))


_TIMESTAMP_TEXT = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"(?:[T ](\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d+))?)?)?)?"
    r"\s?(Z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _timestamp(value: Any, type_: Type, path: str) -> int:
    """Returns microseconds since the epoch."""
    if isinstance(value, Micros):
        if not MICROS_MIN <= value <= MICROS_MAX:
            raise ValueError(f"{path}: {value} microseconds is out of range for {type_}")
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not MICROS_MIN <= value * 1000 <= MICROS_MAX:
            raise ValueError(f"{path}: {value} milliseconds is out of range for {type_}")
        return value * 1000
    text = _string(value, type_, path)
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{path}: {text!r} is not an ISO 8601 timestamp")
    day, hour, minute, second, fraction, zone = match.groups()
    if zone is not None and type_ == types.TIMESTAMP:
        raise ValueError(f"{path}: {text!r} has a time zone, but the column has none")
    micros = _days(day, text, path) * 86_400_000_000
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"{path}: {text!r} is not a time of day")
    micros += ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    micros += _fraction_micros(fraction, text, path)
    micros -= _zone_micros(zone, text, path)
    if not MICROS_MIN <= micros <= MICROS_MAX:
        raise ValueError(f"{path}: {text!r} is out of range for {type_}")
    return micros


def _fraction_micros(fraction: str | None, text: str, path: str) -> int:
    digits = fraction or ""
    if digits[6:].strip("0"):
        raise ValueError(f"{path}: {text[:40]!r} {TOO_FINE}")
    return int(digits[:6].ljust(6, "0"))


def _zone_micros(zone: str | None, text: str, path: str) -> int:
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        raise ValueError(f"{path}: {text!r} has no valid time zone")
    micros = (hours * 60 + minutes) * 60_000_000
    return -micros if zone[0] == "-" else micros


_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _date(value: Any, type_: Type, path: str) -> int:
    """Returns days since the epoch."""
    if isinstance(value, Days):
        if not DAYS_MIN <= value <= DAYS_MAX:
            raise ValueError(f"{path}: {value} days is out of range for {type_}")
        return int(value)
    return _days(_string(value, type_, path), str(value), path)


def _days(day: str, text: str, path: str) -> int:
    if not _DATE_TEXT.fullmatch(day) or day.startswith("0000"):
        raise ValueError(f"{path}: {text!r} is not a date")
    try:
        return datetime.date.fromisoformat(day).toordinal() - _EPOCH
    except ValueError:
        raise ValueError(f"{path}: {text!r} is not a date") from None


_TIME_TEXT = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?", re.ASCII)


def _time(value: Any, type_: Type, path: str) -> int:
    """Returns microseconds since midnight."""
    text = _string(value, type_, path)
    match = _TIME_TEXT.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        raise ValueError(f"{path}: {text!r} is not a time of day")
    seconds = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3] or 0)
    return seconds * 1_000_000 + _fraction_micros(match[4], text, path)


_EXACT: dict[Any, Callable[[Any, Type, str], Any]] = {
    types.BOOLEAN: _boolean,
    types.INTEGER: _integer,
    types.BIGINT: _integer,
    types.REAL: _double,
    types.DOUBLE: _double,
    types.VARCHAR: _string,
    types.JSON: _json,
    types.DATE: _date,
    types.TIME: _time,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMP_TZ: _timestamp,
    types.UUID: _uuid,
    Decimal: _decimal,
    Varbinary: _bytes,
    Unscaled: _unscaled,
    WORD: _word,
}
_KEYS_IN_STRINGS = frozenset(
    {types.VARCHAR, types.UUID, types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMP_TZ}
)


def _unlike(value: Any, type_: Type, path: str) -> ValueError:
    return ValueError(f"{path}: {_shape(value)} where {type_} is expected")


def _shape(value: Any) -> str:
    match value:
        case bool():
            return f"the word {str(value).lower()}"
        case int() | Number() | float():
            return f"the number {str(value)[:40]}"
        case str():
            return f"the string {value[:40]!r}"
        case list():
            return "an array"
        case None:
            return "null"
        case _:
            return "an object"


# --- Fast values ---------------------------------------------------------------------------------

_CARRIED_AS_ITSELF = frozenset(
    {types.BOOLEAN, types.INTEGER, types.BIGINT, types.DOUBLE, types.REAL, types.VARCHAR}
)
_CARRIERS_OF_WORDS = {bool: pa.bool_(), int: pa.int64()}
_CARRIED_IN_STRINGS = frozenset({types.DATE, types.UUID})
_TIMESTAMPS = frozenset({types.TIMESTAMP, types.TIMESTAMP_TZ})


def _type_has_fast_path(type_: Type) -> bool:
    """Whether Arrow's reader alone can decide what a value of that type is."""
    match type_:
        case Row(fields):
            return all(
                _type_has_fast_path(f.type)
                and not (f.aliases or f.required or f.write_default is not None)
                for f in fields
            )
        case Array(element):
            return _type_has_fast_path(element)
        case Decimal() | Varbinary():
            return True
        case _:
            return (
                type_ in _CARRIED_AS_ITSELF
                or type_ in _CARRIED_IN_STRINGS
                or type_ in _TIMESTAMPS
                or type_ == WORD
            )


def _joined(values: Sequence[bytes | None]) -> bytes | None:
    """Returns the records as lines if each surely holds only whole JSON objects, else None.

    A line that starts with `{` and ends with `}` cannot run into the next one: in any JSON text,
    `}` and `{` with only a line break between them are two values at the top level, and strings
    cannot hold a raw line break. So as many rows as lines means one object per line.
    """
    lines = [b"{}" if value is None else value for value in values]  # a tombstone has no members
    text = b"\n".join([b"", *lines, b""])
    codes = np.frombuffer(text, np.uint8)
    breaks = np.flatnonzero(codes == _LINE_BREAK)
    if (
        len(breaks) != len(lines) + 1
        or (codes[breaks[:-1] + 1] != _OPENING).any()
        or (codes[breaks[1:] - 1] != _CLOSING).any()
    ):
        return None
    if np.diff(breaks).max() > _DEEP_BYTES_MIN and any(
        len(line) > _DEEP_BYTES_MIN and _too_deep(line) for line in lines
    ):
        return None
    may_have_words = (b"N" in text and contains(text, b"NaN")) or (
        b"I" in text and contains(text, b"Inf")
    )
    if may_have_words and _BARE_WORD.search(text):
        return None
    whole = [None, pa.py_buffer(np.array([0, len(text)])), pa.py_buffer(text)]
    try:  # names without a column too
        pa.Array.from_buffers(pa.large_string(), 1, whole).validate(full=True)
    except pa.ArrowInvalid:
        return None
    return text


_LINE_BREAK, _OPENING, _CLOSING = b"\n{}"
_DEEP_BYTES_MIN = 2 * DEPTH_MAX
"""A shorter record that opens more than `DEPTH_MAX` brackets cannot close them: it is not JSON."""


_BARE_WORD = re.compile(rb"[:,\[]\s*-?(?:NaN|Inf)")


def _sample(values: Sequence[bytes | None]) -> Mapping[str, Any]:
    """Returns the first record, which shows whether timestamps come as text or as numbers."""
    first = next((value for value in values if value is not None), None)
    if first is None:
        return {}
    try:
        record = parse(first)
    except ValueError:
        return {}
    return record if isinstance(record, _Object) else {}


def _carrier(type_: Type, sample: Any) -> pa.DataType:
    """Returns the Arrow type to parse into, from which `_convert` makes the column's own."""
    match type_:
        case Row(fields):
            members = sample if isinstance(sample, _Object) else {}
            return pa.struct(
                [pa.field(f.name, _carrier(f.type, members.get(f.name))) for f in fields]
            )
        case Array(element):
            first = sample[0] if isinstance(sample, list) and sample else None
            return pa.list_(_carrier(element, first))
        case Decimal():
            return types.to_arrow(type_)
        case Varbinary():
            return pa.string()
        case _ if type_ in _TIMESTAMPS:
            return pa.int64() if isinstance(sample, int) else pa.string()
        case _ if type_ in _CARRIED_AS_ITSELF:
            return types.to_arrow(type_)
        case _ if type_ == WORD:
            return _CARRIERS_OF_WORDS.get(type(sample), pa.string())
        case _:
            return pa.string()


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _finite(array: pa.Array) -> bool:
    """Whether no floating-point value in it overflowed; such records go to the exact path."""
    if pa.types.is_floating(array.type):
        return bool(pc.all(pc.is_finite(array)).as_py() is not False)
    if pa.types.is_struct(array.type):
        return all(_finite(child) for child in array.flatten())
    if pa.types.is_list(array.type):
        return _finite(array.flatten())
    return True


def _convert(array: pa.Array, type_: Type) -> pa.Array:
    """Converts carriers to the column's values.

    Raises:
        ValueError: (Arrow's errors are among them) when the exact path must decide.
    """
    arrow_type = types.to_arrow(type_)
    match type_:
        case Row(fields):
            arrays = [_convert(array.field(i), f.type) for i, f in enumerate(fields)]
            mask = array.is_null() if array.null_count or not fields else None
            return pa.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=mask)
        case Array(element):
            items = _convert(array.values, element)
            return list_like(array, items, arrow_type)
        case Varbinary():
            return _each(array, lambda text: _bytes(text, type_, ""), arrow_type)
        case types.UUID:
            return _each(array, lambda text: _uuid(text, type_, ""), arrow_type)
        case types.DATE:
            _check_all(array, _DATE_PATTERN)
            return array.cast(arrow_type)
        case _ if type_ in _TIMESTAMPS:
            return _convert_timestamps(array, type_)
        case _ if type_ == WORD:
            return array.cast(arrow_type)
        case _:
            return array


_DATE_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"


def _convert_timestamps(array: pa.Array, type_: Type) -> pa.Array:
    arrow_type = types.to_arrow(type_)
    if pa.types.is_integer(array.type):
        _check_range(array, MICROS_MIN // 1000, MICROS_MAX // 1000)
        return pc.multiply(array, 1000).cast(arrow_type)
    if type_ == types.TIMESTAMP:
        _check_all(array, _MOMENT_PATTERN + "$")
        return array.cast(arrow_type)
    _check_all(array, _MOMENT_PATTERN + r"(Z|[+-][0-9]{2}:[0-9]{2})$")
    moments = array.cast(arrow_type)
    _check_range(moments.cast(pa.int64()), MICROS_MIN, MICROS_MAX)
    return moments


def _check_range(array: pa.Array, low: int, high: int) -> None:
    if pc.any(pc.or_(pc.less(array, low), pc.greater(array, high))).as_py():
        raise ValueError("out of range")


def _check_all(array: pa.Array, pattern: str) -> None:
    """Accepts plain forms only, not the year 0000: Arrow and the exact path agree on them."""
    same = pc.and_(
        pc.match_substring_regex(array, pattern), pc.invert(pc.starts_with(array, "0000"))
    )
    if pc.all(same).as_py() is False:
        raise ValueError("not in the plain form")


def _each(array: pa.Array, convert: Callable[[Any], Any], arrow_type: pa.DataType) -> pa.Array:
    return pa.array(
        [None if text is None else convert(text) for text in array.to_pylist()], arrow_type
    )

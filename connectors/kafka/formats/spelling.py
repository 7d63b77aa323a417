"""Options of a table that accept other common ways of writing the values of a column.

Without the option, such a value makes a bad record, like any value of another type.
"""

from __future__ import annotations

import base64
import codecs
import dataclasses
import datetime
import decimal
import json
import re
from typing import Any

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.evolution import has_json_types
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Map, Row, Type

EPOCHS = {
    "epoch_seconds": "seconds",
    "epoch_millis": "millis",
    "epoch_micros": "micros",
    "epoch_nanos": "nanos",
}
TEXT_NUMBERS, JSON_TEXT = "text_numbers", "json_text"
EPOCH_DAYS, BASE64_DECIMALS = "epoch_days", "base64_decimals"
TRUNCATED_TIMES, ISO_TIMES = "truncated_times", "iso_times"
WHOLE_NUMBERS, INFINITE_TIMES = "whole_numbers", "infinite_times"
SEVERAL_TYPES, REPLACED_BYTES = "several_types", "replaced_bytes"
ACCEPTING_MORE = frozenset(
    {
        *(EPOCH_DAYS, TEXT_NUMBERS, JSON_TEXT, TRUNCATED_TIMES, ISO_TIMES),
        *(WHOLE_NUMBERS, INFINITE_TIMES, REPLACED_BYTES),
    }
)
"""Spellings that only make good records of bad ones, and so may be changed later."""
SPELLINGS = (
    *EPOCHS,
    EPOCH_DAYS,
    BASE64_DECIMALS,
    TEXT_NUMBERS,
    WHOLE_NUMBERS,
    JSON_TEXT,
    ISO_TIMES,
    TRUNCATED_TIMES,
    INFINITE_TIMES,
    SEVERAL_TYPES,
    REPLACED_BYTES,
)
MICROS = {"seconds": (1_000_000, 1), "millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""What converts a number of each unit to microseconds: a factor and a divisor."""
TOO_FINE = (
    "has digits beyond microseconds, which no column keeps; with "
    f"spellings = ARRAY['{TRUNCATED_TIMES}'] the table drops them"
)
_FINER_TEXT = re.compile(r"(?<=[.,]\d{6})\d+", re.ASCII)
_NUMBER = re.compile(r"\s*-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\s*", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,20}", re.ASCII)
_WORDS = {"true": True, "false": False}


MICROS_MAX, MICROS_MIN = 253_402_300_799_999_999, -62_135_596_800_000_000
DAYS_MAX, DAYS_MIN = 2_932_896, -719_162
"""The greatest and least timestamp and date, since the epoch."""
_INFINITE: dict[str | int, int] = {
    "infinity": MICROS_MAX,
    "-infinity": MICROS_MIN,
    9_223_372_036_825_200_000: MICROS_MAX,
    -9_223_372_036_832_400_000: MICROS_MIN,
}
"""PostgreSQL's text, and its JDBC driver's numbers, which Debezium takes for microseconds."""
_INFINITE_DAYS: dict[str | int, int] = {
    "infinity": DAYS_MAX,
    "-infinity": DAYS_MIN,
    2**31 - 1: DAYS_MAX,
    -(2**31): DAYS_MIN,
    2_146_033_979: DAYS_MAX,
    -2_147_472_692: DAYS_MAX,
    -2_147_472_691: DAYS_MIN,
}
"""PostgreSQL's own numbers, then Debezium's; its earlier versions have a negative `infinity`."""


def json_type(value: Any, numbers: type[str]) -> str:
    """Returns the type of a JSON value other than null; for `numbers`, see `Spelling.respelt`."""
    match value:
        case bool():
            return "boolean"
        case dict():
            return "object"
        case list():
            return "array"
        case str() if not isinstance(value, numbers):
            return "string"
    return "number"


class Micros(int):
    """A whole number of microseconds since the epoch."""

    __slots__ = ()


class Days(int):
    """A whole number of days since the epoch."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Spelling:
    """Which ways of writing values are accepted.

    Attributes:
        epoch: The unit of whole numbers that stand for a timestamp.
        text_numbers: Whether numbers and booleans may be written as text.
        json_text: Whether a varchar may hold what is not text, as its JSON.
        epoch_days: Whether whole numbers that stand for a date count days.
        base64_decimals: Whether text that stands for a decimal is the bytes of the unscaled number.
            The scale is the column's, or is given beside it in an object.
        truncated_times: Whether digits of a time beyond microseconds are dropped.
        iso_times: Whether dates and times may have further forms of RFC 3339, ISO 8601 and Java.
        whole_numbers: Whether whole numbers may have a point or an exponent.
        infinite_times: Whether PostgreSQL's `infinity` is the greatest date or timestamp, and
            `-infinity` the least.
        several_types: Whether a row that has nothing but fields with the names of JSON's types
            holds values of these types, each in the field of its type.
        replaced_bytes: Whether texts of the format `string` and of headers may have bytes that are
            not UTF-8, each of which becomes U+FFFD.
        json_nulls: Whether null in a record is JSON's null in a column of type json, as in an
            event, rather than the null of a database's column.
    """

    epoch: str = "millis"
    text_numbers: bool = False
    json_text: bool = False
    epoch_days: bool = False
    base64_decimals: bool = False
    truncated_times: bool = False
    iso_times: bool = False
    whole_numbers: bool = False
    infinite_times: bool = False
    several_types: bool = False
    replaced_bytes: bool = False
    json_nulls: bool = True

    @classmethod
    def of(cls, words: str) -> Spelling:
        """Returns the spelling with the ways that the option `spellings` lists, comma-separated.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION.
        """
        names = [word.strip() for word in words.split(",") if word.strip()]
        unknown = [name for name in names if name not in SPELLINGS]
        epochs = [EPOCHS[name] for name in names if name in EPOCHS]
        if unknown or len(epochs) > 1:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"spellings {words!r} is not valid",
                hint=f"Use any of {', '.join(SPELLINGS)}, with only one epoch.",
            )
        return cls(
            epochs[0] if epochs else "millis",
            text_numbers=TEXT_NUMBERS in names,
            json_text=JSON_TEXT in names,
            epoch_days=EPOCH_DAYS in names,
            base64_decimals=BASE64_DECIMALS in names,
            truncated_times=TRUNCATED_TIMES in names,
            iso_times=ISO_TIMES in names,
            whole_numbers=WHOLE_NUMBERS in names,
            infinite_times=INFINITE_TIMES in names,
            several_types=SEVERAL_TYPES in names,
            replaced_bytes=REPLACED_BYTES in names,
        )

    @property
    def of_every_part(self) -> Spelling:
        """Only what holds for every part of a record: what it says about times, and about bytes."""
        if not (self.iso_times or self.infinite_times or self.replaced_bytes):
            return TRUNCATED if self.truncated_times else PLAIN
        return Spelling(
            truncated_times=self.truncated_times,
            iso_times=self.iso_times,
            infinite_times=self.infinite_times,
            replaced_bytes=self.replaced_bytes,
        )

    def text_of(self, raw: bytes) -> str:
        """Returns a text in UTF-8; raises UnicodeDecodeError for bytes that are not replaced."""
        return raw.decode("utf-8", _EACH_BYTE if self.replaced_bytes else "strict")

    def changes(self, type_: Type) -> bool:
        """Whether the options change how a value of a type may be written."""
        match type_:
            case Row() if self.is_of_several(type_):
                return True
            case Row(fields):
                return any(self.changes(field.type) for field in fields)
            case Array(element):
                return self.changes(element)
            case Map(key, value):
                return self.changes(key) or self.changes(value)
            case Decimal():
                return self.base64_decimals
            case types.DATE:
                return self.epoch_days
        return isinstance(type_, types.Timestamp) and self.epoch != "millis"

    def is_of_several(self, type_: Row) -> bool:
        """Whether a row has a field for each of several types of JSON values."""
        return self.several_types and has_json_types(type_.fields)

    def respelt(self, value: Any, type_: Type, numbers: type[str] = str) -> Any:
        """Returns a JSON value as it would be written without options.

        Args:
            value: The value; instances of `numbers` are numbers in their original digits.
            type_: The type of its column.
            numbers: The class of such numbers.

        Raises:
            ValueError: the value is not written as it must be.
        """
        is_text = isinstance(value, str) and not isinstance(value, numbers)
        if isinstance(type_, types.Timestamp) or type_ in (types.DATE, types.TIME):
            return self._time(value, type_, numbers)
        if isinstance(type_, Decimal) and self.base64_decimals:
            return _of_bytes(value, type_.scale) if is_text or isinstance(value, dict) else value
        if self.json_text and type_ == types.VARCHAR and value is not None and not is_text:
            return dumped(value, numbers)
        if self.text_numbers and is_text:
            value = _number(value, type_, numbers)
        if self.whole_numbers and type_ in types.INTEGERS and isinstance(value, numbers):
            return whole(value)
        return value

    def infinite(self, value: Any, type_: Type, units: tuple[int, int] = (1, 1)) -> int | None:
        """Returns the greatest or least value of a type, if the value is PostgreSQL's infinity.

        Args:
            value: A text, or a whole number.
            type_: The type of its column, in whose own unit the result is.
            units: What converts a number to microseconds.
        """
        if not self.infinite_times or not (isinstance(value, str) or _is_whole(value)):
            return None
        if type_ == types.DATE:
            days = _INFINITE_DAYS.get(value)
            return None if days is None else Days(days)
        if not isinstance(type_, types.Timestamp):
            return None
        if isinstance(value, str):
            micros = _INFINITE.get(value)
        elif units == MICROS["nanos"]:
            return None  # each of their numbers is a moment
        else:  # as milliseconds, the driver's number, or Debezium's, converted to them
            micros = _INFINITE.get(value, _INFINITE.get(value * units[0]))
        return None if micros is None else Micros(micros)

    def _time(self, value: Any, type_: Type, numbers: type[str]) -> Any:
        if self.whole_numbers and isinstance(value, numbers):
            value = whole(value)
        is_text = isinstance(value, str) and not isinstance(value, numbers)
        if is_text and isinstance(type_, types.Timestamp) and self.text_numbers:
            value = int(value) if _WHOLE.fullmatch(value) else value
        infinite = self.infinite(value, type_, MICROS[self.epoch])
        if infinite is not None:
            return infinite
        if isinstance(value, str) and not isinstance(value, numbers):
            text = value if type_ == types.TIME else self.plain_form(value)
            is_cut = self.truncated_times and type_ != types.DATE
            return _FINER_TEXT.sub("", text) if is_cut else text
        if isinstance(type_, types.Timestamp):
            return self._moment(value, numbers)
        is_days = type_ == types.DATE and self.epoch_days and _is_whole(value)
        return Days(value) if is_days else value

    def plain_form(self, text: str) -> str:
        """Returns a date or time in the form that all tables accept; other text is left alone."""
        return _plain_form(text) if self.iso_times else text

    def _moment(self, value: Any, numbers: type[str]) -> Any:
        """Returns a number of the unit of `epoch` as microseconds; seconds may have a fraction."""
        if _is_whole(value):
            micros = whole_micros(value, *MICROS[self.epoch], is_truncated=self.truncated_times)
            return Micros(micros)
        if self.epoch != "seconds" or not isinstance(value, numbers):
            return value
        nanos = whole(str(decimal.Decimal(value).scaleb(9, _EXACT)))
        if isinstance(nanos, int):
            return Micros(whole_micros(nanos, 1, 1000, is_truncated=self.truncated_times))
        raise ValueError(f"{value[:40]} {TOO_FINE}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def whole(number: str) -> int | str:
    """Returns a number as a whole one, or as it is if it is not whole, or very large."""
    exact = decimal.Decimal(number)
    if exact.adjusted() > _DIGITS_MAX or exact != exact.to_integral_value():
        return number
    return int(exact)


_DIGITS_MAX = 40
_FURTHER_FORM = re.compile(
    r"(?P<day>\d{4}(?P<dash>-?)\d{2}(?P=dash)\d{2})"
    r"(?:[Tt ](?P<time>\d{2}(?::?\d{2}(?::?\d{2}(?:[.,]\d+)?)?)?)"
    r"\s?(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?(?:\[[\w/+:~-]+\])?)?",
    re.ASCII,
)
"""RFC 3339 in lower case, ISO 8601's basic form, and a region after the offset (Java)."""
_LEAP_SECOND = re.compile(r":59:60(.*)")


def _plain_form(text: str) -> str:
    """Returns a time in the form that all tables accept; a leap second is the second after it."""
    match = _FURTHER_FORM.fullmatch(text)
    if match is None:
        return text
    digits = match["day"].replace("-", "")
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
    if match["time"] is None:
        return day
    time, zone = match["time"].replace(":", ""), (match["zone"] or "").upper()
    rest = "".join(f":{part}" for part in (time[2:4], time[4:]) if part)
    leap = _LEAP_SECOND.fullmatch(rest)
    if leap is None:
        return f"{day}T{time[:2]}{rest}{zone}"
    try:
        hour = datetime.datetime.fromisoformat(f"{day}T{time[:2]}:00:00")
        return f"{(hour + datetime.timedelta(hours=1)).isoformat()}{leap[1]}{zone}"
    except (ValueError, OverflowError):
        return text


_EACH_BYTE = "seamline.each_byte"


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_EACH_BYTE, _replaced)

PLAIN = Spelling()
"""The spelling without options."""
TRUNCATED = Spelling(truncated_times=True)


def whole_micros(value: int, factor: int, divisor: int, *, is_truncated: bool) -> int:
    """Returns a number of some unit of time as microseconds.

    Raises:
        ValueError: it has digits beyond them, and these are not dropped.
    """
    micros, rest = divmod(value * factor, divisor)
    if rest and not is_truncated:
        raise ValueError(f"{value} {TOO_FINE}")
    return micros


def _number(text: str, type_: Type, numbers: type[str]) -> Any:
    if type_ == types.BOOLEAN:
        return _WORDS.get(text.strip().lower(), text)
    if type_ in (*types.INTEGERS, *types.FLOATS) and _NUMBER.fullmatch(text):
        digits = text.strip()
        return int(digits) if digits.lstrip("-").isdigit() else numbers(digits)
    return text


def _of_bytes(value: Any, scale: int) -> str:
    """Returns the digits of a decimal that is written as bytes, possibly beside its scale."""
    text = value
    if isinstance(value, dict):
        own, text = value.get("scale"), value.get("value")
        if not isinstance(own, int) or not isinstance(text, str) or abs(own) > _SCALE_MAX:
            raise ValueError("an object that is not a decimal, with its scale and its value")
        scale = own
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if not raw:
        raise ValueError(f"the string {text[:40]!r} where a decimal in base64 is expected")
    number = decimal.Decimal(int.from_bytes(raw, "big", signed=True))
    return str(number.scaleb(-scale, _EXACT))


_SCALE_MAX = 1000
_EXACT = decimal.Context(prec=10_000)


def dumped(value: Any, numbers: type[str]) -> str:
    """Returns a value as compact JSON, its numbers in their original digits."""
    match value:
        case dict():
            pairs = ((json.dumps(k, ensure_ascii=False), v) for k, v in value.items())
            return "{" + ",".join(f"{k}:{dumped(v, numbers)}" for k, v in pairs) + "}"
        case list():
            return "[" + ",".join(dumped(item, numbers) for item in value) + "]"
        case str() if isinstance(value, numbers):
            return str(value)
        case float():
            raise ValueError(f"JSON has no number {value}")
    return json.dumps(value, ensure_ascii=False)

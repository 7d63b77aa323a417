"""The kernel of format(): Java's format specifiers, as Trino accepts them."""

from __future__ import annotations

import datetime
import decimal
import re
import zoneinfo
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql import time_zones, types
from seamline.sql.kernels import floating
from seamline.sql.kernels.kernel import Use
from seamline.sql.types import Timestamp, Type

_SPECIFIER = re.compile(
    r"%(?:(?P<place>\d+)\$|(?P<again><))?(?P<flags>[-#+ 0,(]*)(?P<width>\d+)?(?:\.(?P<digits>\d+))?"
    r"(?P<time>[tT])?(?P<kind>[a-zA-Z%])|%"
)
WIDTH_MAX = 10_000


def compute(use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that formats each row: null if the pattern is null; a null value is written."""
    rows = zip(*(argument.to_pylist() for argument in arguments), strict=True)
    kinds = use.parameters[1:]
    texts = [
        None if pattern is None else formatted(pattern, list(map(_of_type, values, kinds)))
        for pattern, *values in rows
    ]
    return pa.array(texts, pa.string())


class Real(float):
    """A number that has only the digits of a real as text."""


def _of_type(value: Any, type_: Type) -> Any:
    """Returns an instant as a local time in the zone of its type, and a real as one."""
    if value is not None and type_ == types.REAL:
        return Real(value)
    if value is None or not isinstance(type_, Timestamp) or not type_.zoned:
        return value
    minutes = time_zones.offset_of(type_.zone)
    if minutes is None or type_.zone == time_zones.UTC:
        return value.astimezone(zoneinfo.ZoneInfo(type_.zone))
    return value.astimezone(datetime.timezone(datetime.timedelta(minutes=minutes)))


def formatted(pattern: str, values: Sequence[Any]) -> str:
    """Formats values by a pattern.

    Args:
        pattern: Text with specifiers such as `%s`, `%05d`, `%,.2f`, `%2$s`, `%tY`.
        values: The values in order.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    following = iter(range(len(values)))
    last: int | None = None

    def written(match: re.Match[str]) -> str:
        nonlocal last
        kind = match["kind"]
        if kind is None:
            raise _wrong(match)
        if kind in "%n" and not match["time"]:
            return _aligned("%" if kind == "%" else "\n", match)
        if match["again"] is None:
            last = int(match["place"]) - 1 if match["place"] else next(following, None)
        if last is None or not 0 <= last < len(values):
            raise _wrong(match, "has no argument")
        return _aligned(_written(match, values[last]), match)

    return _SPECIFIER.sub(written, pattern)


def _wrong(match: re.Match[str], why: str = "is not known") -> SeamlineError:
    return SeamlineError(INVALID_ARGUMENT, f"the format specifier {match[0]!r} {why}", hint="")


def _aligned(text: str, match: re.Match[str]) -> str:
    width = int(match["width"] or 0)
    if width > WIDTH_MAX:
        raise _wrong(match, "is too wide")
    filling = " " * (width - len(_utf16(text)) // 2)
    return text + filling if "-" in match["flags"] else filling + text


def _utf16(text: str) -> bytes:
    """Encodes text in the units of Java's widths; a character takes one or two."""
    return text.encode("utf-16-le", "replace")


def _written(match: re.Match[str], value: Any) -> str:
    kind = match["kind"]
    if match["time"]:
        text = "null" if value is None else _time(match, value)
        return text.upper() if match["time"] == "T" else text
    if kind.lower() == "b":
        text = str(value is not None and value is not False).lower()
        text = _cut(text, match)
    elif kind.lower() == "s" or value is None:
        text = _cut("null" if value is None else _text(value), match)
    elif kind in "dxXo" and isinstance(value, int) and not isinstance(value, bool):
        text = _whole(match, value)
    elif kind in "feE" and isinstance(value, float | decimal.Decimal):
        text = _fraction(match, value)
    elif kind in "cC" and isinstance(value, int):
        text = chr(value)
    else:
        raise _wrong(match, f"does not accept {type(value).__name__}")
    return text.upper() if kind.isupper() else text


def _cut(text: str, match: re.Match[str]) -> str:
    if match["digits"] is None:
        return text
    head = _utf16(text)[: 2 * int(match["digits"])]
    return head.decode("utf-16-le", "replace").replace("\ufffd", "?")  # half a surrogate pair


def _text(value: Any) -> str:
    """Returns a value as text, as Java writes it."""
    match value:
        case bool():
            return str(value).lower()
        case Real():
            return floating.plain_real(value)
        case float():
            return floating.plain(value)
        case datetime.datetime():
            return _moment(value)
        case datetime.time():
            return _moment(datetime.datetime.combine(datetime.date.min, value))[
                len("0001-01-01T") :
            ]
        case bytes():
            return value.hex()
        case list():
            return f"[{', '.join('null' if v is None else _text(v) for v in value)}]"
    return str(value)


def _moment(value: datetime.datetime) -> str:
    """Returns a local time, or an instant with the name of its zone, with digits in threes."""
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    has_seconds = "seconds" if value.second else "minutes"
    local = value.replace(tzinfo=None).isoformat("T", digits if value.microsecond else has_seconds)
    if value.tzinfo is None:
        return local
    offset = value.isoformat()[-6:].replace("+00:00", "Z")
    name = getattr(value.tzinfo, "key", "")
    return f"{local}{offset}[{name}]" if name else f"{local}{offset}"


def _whole(match: re.Match[str], value: int) -> str:
    kind, flags = match["kind"], match["flags"]
    if kind == "d":
        return _signed(match, value < 0, format(abs(value), "," if "," in flags else ""))
    digits = format(value % 2**64 if value < 0 else value, "o" if kind == "o" else "x")
    prefix = ("0" if kind == "o" else "0x") if "#" in flags else ""
    width = int(match["width"] or 0) if "0" in flags else 0
    return prefix + digits.rjust(width - len(prefix), "0")


def _fraction(match: re.Match[str], value: float | decimal.Decimal) -> str:
    number = decimal.Decimal(repr(value)) if isinstance(value, float) else value
    if not number.is_finite():
        return floating.not_finite(float(number))
    places = 6 if match["digits"] is None else int(match["digits"])
    if places > WIDTH_MAX:
        raise _wrong(match, "has too many digits")
    with decimal.localcontext(prec=WIDTH_MAX + 400, rounding=decimal.ROUND_HALF_UP):
        if match["kind"] == "f":
            text = format(abs(number), f"{',' if ',' in match['flags'] else ''}.{places}f")
        elif number == 0:
            text = f"{0:.{places}e}"
        else:
            text = re.sub(r"e([+-])(\d)$", r"e\g<1>0\2", format(abs(number), f".{places}e"))
    return _signed(match, number.is_signed(), text)


def _signed(match: re.Match[str], is_negative: bool, digits: str) -> str:
    flags = match["flags"]
    sign = "-" if is_negative else "+" if "+" in flags else " " if " " in flags else ""
    end = ""
    if is_negative and "(" in flags:
        sign, end = "(", ")"
    width = int(match["width"] or 0) if "0" in flags else 0
    return sign + digits.rjust(width - len(sign) - len(end), "0") + end


_TIMES = {
    "Y": "%Y",
    "y": "%y",
    "m": "%m",
    "B": "%B",
    "b": "%b",
    "h": "%b",
    "d": "%d",
    "A": "%A",
    "a": "%a",
    "j": "%j",
    "H": "%H",
    "I": "%I",
    "M": "%M",
    "S": "%S",
    "p": "%p",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "F": "%Y-%m-%d",
    "D": "%m/%d/%y",
}


_OF_CLOCKS = frozenset("HIMSpTRrkl")
"""The specifiers that work for a time of day."""


def _time(match: re.Match[str], value: Any) -> str:
    if not isinstance(value, datetime.date | datetime.time):
        raise _wrong(match, f"does not accept {type(value).__name__}")
    if isinstance(value, datetime.time) and match["kind"] not in _OF_CLOCKS:
        raise _wrong(match, "does not accept a time")
    match match["kind"]:
        case "e" if isinstance(value, datetime.date):
            return str(value.day)
        case "k" | "l" as hour if isinstance(value, datetime.datetime | datetime.time):
            return str(value.hour if hour == "k" else value.hour % 12 or 12)
        case "Y" if isinstance(value, datetime.date):
            return format(value.year, "04d")
        case "p":
            return value.strftime("%p").lower()
        case kind if kind in _TIMES:
            return value.strftime(_TIMES[kind])
    raise _wrong(match)

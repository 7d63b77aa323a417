"""Parses the date patterns of MySQL and Joda into one form: a sequence of parts.

`date_formats` writes dates by these parts and `date_parsing` reads them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Literal, TypeAlias

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError

Field: TypeAlias = Literal[
    "year", "century", "week_year", "month", "day", "day_of_year", "week", "day_of_week",
    "hour", "hour_of_half", "clock_hour_of_half", "clock_hour", "minute", "second",
]  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A field in digits.

    Attributes:
        field: The field.
        written: Minimum number of digits to write.
        read: Maximum number of digits to read.
    """

    field: Field
    written: int
    read: int


@dataclasses.dataclass(frozen=True, slots=True)
class YearOfCentury:
    """The last two digits of a year; when read, a year from 1970 to 2069."""

    field: Field


@dataclasses.dataclass(frozen=True, slots=True)
class Fraction:
    """Fractional digits of a second, of which three are significant.

    Attributes:
        written: Number of digits to write.
        read: Maximum number of digits to read.
    """

    written: int
    read: int


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """The English name of a month or day, short or full; or AM and PM, or the era."""

    field: Literal["month", "day_of_week", "half", "era"]
    is_short: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    """The offset as `+0100` or `+01:00`, or the name of the zone."""

    form: Literal["offset", "offset with colon", "name"]


Part: TypeAlias = Text | Number | YearOfCentury | Fraction | Name | Zone
Pattern: TypeAlias = tuple[Part, ...]

# --- MySQL ---------------------------------------------------------------------------------------

_MYSQL: dict[str, Pattern] = {
    "a": (Name("day_of_week", is_short=True),),
    "b": (Name("month", is_short=True),),
    "c": (Number("month", 1, 2),),
    "d": (Number("day", 2, 2),),
    "e": (Number("day", 1, 2),),
    "f": (Fraction(6, 9),),
    "H": (Number("hour", 2, 2),),
    "h": (Number("clock_hour_of_half", 2, 2),),
    "I": (Number("clock_hour_of_half", 2, 2),),
    "i": (Number("minute", 2, 2),),
    "j": (Number("day_of_year", 3, 3),),
    "k": (Number("hour", 1, 2),),
    "l": (Number("clock_hour_of_half", 1, 2),),
    "M": (Name("month"),),
    "m": (Number("month", 2, 2),),
    "p": (Name("half"),),
    "S": (Number("second", 2, 2),),
    "s": (Number("second", 2, 2),),
    "v": (Number("week", 2, 2),),
    "W": (Name("day_of_week"),),
    "x": (Number("week_year", 4, 4),),
    "Y": (Number("year", 4, 4),),
    "y": (YearOfCentury("year"),),
    "%": (Text("%"),),
}
_COLON = Text(":")
_MYSQL["T"] = (*_MYSQL["H"], _COLON, *_MYSQL["i"], _COLON, *_MYSQL["s"])
_MYSQL["r"] = (*_MYSQL["h"], _COLON, *_MYSQL["i"], _COLON, *_MYSQL["s"], Text(" "), *_MYSQL["p"])
_NOT_IN_TRINO = frozenset("DUuVwX")


@functools.lru_cache(maxsize=1024)
def of_mysql(text: str) -> Pattern:
    """Parses a pattern of `date_format` and `date_parse`.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    parts: list[Part] = []
    for match in re.finditer(r"%(.?)|([^%]+)", text, re.DOTALL):
        letter, plain = match[1], match[2]
        if plain is not None:
            parts.append(Text(plain))
        elif letter in _NOT_IN_TRINO:
            raise SeamlineError(
                INVALID_ARGUMENT, f"%{letter} is not supported in a date format", hint=""
            )
        else:
            parts.extend(_MYSQL.get(letter, (Text(letter),)))
    return tuple(parts)


# --- Joda ----------------------------------------------------------------------------------------

_JODA: dict[str, Field] = {
    "C": "century",
    "x": "week_year",
    "y": "year",
    "Y": "year",
    "w": "week",
    "e": "day_of_week",
    "D": "day_of_year",
    "d": "day",
    "K": "hour_of_half",
    "h": "clock_hour_of_half",
    "H": "hour",
    "k": "clock_hour",
    "m": "minute",
    "s": "second",
}
_YEARS = frozenset("xyY")
_ANY_NUMBER = 9
_JODA_TOKEN = re.compile(r"'(?:[^']|'')*'?|([A-Za-z])\1*|[^A-Za-z']+")


@functools.lru_cache(maxsize=1024)
def of_joda(text: str) -> Pattern:
    """Parses a pattern of `format_datetime` and `parse_datetime`.

    Raises:
        SeamlineError: INVALID_ARGUMENT, NOT_SUPPORTED.
    """
    if not text:
        raise SeamlineError(INVALID_ARGUMENT, "the date format is empty", hint="")
    tokens = [match[0] for match in _JODA_TOKEN.finditer(text)]
    return tuple(
        _joda_part(letters, tokens[index + 1] if index + 1 < len(tokens) else "")
        for index, letters in enumerate(tokens)
    )


def _joda_part(letters: str, following: str) -> Part:
    letter, width = letters[0], len(letters)
    if letters == "''":
        return Text("'")
    if letter == "'":
        return Text(letters[1:].removesuffix("'").replace("''", "'"))
    if not letter.isascii() or not letter.isalpha():
        return Text(letters)
    if letter in _YEARS and width == 2:
        return YearOfCentury(_JODA[letter])
    match letter:
        case "M":
            is_name = width > 2
            return Name("month", is_short=width == 3) if is_name else Number("month", width, 2)
        case "E":
            return Name("day_of_week", is_short=width < 4)
        case "a":
            return Name("half")
        case "G":
            return Name("era")
        case "S":
            return Fraction(width, width)
        case "Z":
            return Zone("offset" if width == 1 else "offset with colon" if width == 2 else "name")
        case "z":
            raise SeamlineError(
                NOT_SUPPORTED,
                "names of time zones such as PST are not supported in a date format",
                hint="ZZZ is the zone's own name, ZZ its offset.",
            )
    field = _JODA.get(letter)
    if field is None:
        raise SeamlineError(
            INVALID_ARGUMENT, f"{letter!r} is not a letter of a date format", hint=""
        )
    return Number(field, width, _digits_read(letter, width, following))


def _digits_read(letter: str, width: int, following: str) -> int:
    """Returns the most digits to read; years take any number unless digits follow directly."""
    if letter in _YEARS:
        is_followed = following[:1] in _JODA or following[:1] == "S" or following in {"M", "MM"}
        return max(width, 1) if is_followed else _ANY_NUMBER
    return max(width, 3 if letter == "D" else 2)

"""Kernels of text: distances, characters, pieces, and numbers with units.

Characters are code points throughout, as in all functions of text.
"""

from __future__ import annotations

import decimal
import fractions
import itertools
import math
import re
import unicodedata
from collections.abc import Callable

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.kernels.arguments import invalid


def code_point(text: str) -> int:
    """Returns the code point of a single character."""
    if len(text) != 1:
        raise invalid(f"codepoint takes one character, not {len(text)}")
    return ord(text)


def character(code: int) -> str:
    """Returns the character of a code point."""
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise invalid(f"{code} is not a code point of Unicode")
    return chr(code)


def hamming_distance(one: str, other: str) -> int:
    """Returns the number of positions in which two texts of equal length differ."""
    if len(one) != len(other):
        raise invalid("hamming_distance takes texts of the same length")
    return sum(a != b for a, b in zip(one, other, strict=True))


def levenshtein_distance(one: str, other: str) -> int:
    """Returns how many characters to insert, delete or replace to turn one text into the other."""
    if len(one) * len(other) > DISTANCE_MAX:
        raise invalid("the texts are too long for levenshtein_distance")
    row = list(range(len(other) + 1))
    for count, a in enumerate(one, 1):
        left, diagonal = count, count - 1
        next_row = [count]
        for b, above in zip(other, row[1:], strict=True):
            left = min(left + 1, above + 1, diagonal + (a != b))
            diagonal = above
            next_row.append(left)
        row = next_row
    return row[-1]


DISTANCE_MAX = 1_000_000
"""Maximum product of the lengths of two texts whose distance is computed."""


def luhn_check(text: str) -> bool:
    """Whether a text of digits ends with the check digit of Luhn's algorithm.

    Raises:
        SeamlineError: INVALID_ARGUMENT for anything but digits.
    """
    if not text:
        return False
    if not (text.isascii() and text.isdigit()):
        raise invalid(f"{text[:100]!r} does not consist of digits")
    digits = [int(digit) for digit in reversed(text)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def normalizer(form: str) -> Callable[[str], str]:
    """Returns Unicode's normalisation to one form: NFC, NFD, NFKC or NFKD."""

    def normalize(text: str) -> str:
        return unicodedata.normalize(form, text)  # type: ignore[arg-type]

    return normalize


def backwards(value: str | bytes) -> str | bytes:
    """Returns the characters or bytes in reverse order."""
    return value[::-1]


_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230120022455012623010202", strict=True))


def overlay(text: str, inserted: str, start: int, length: int | None = None) -> str:
    """Returns the text with another one in place of `length` characters from `start` on.

    By default, as many characters are replaced as are inserted.
    """
    if start < 1:
        raise invalid(f"the start in overlay must be at least 1, not {start}")
    replaced = len(inserted) if length is None else max(length, 0)
    return text[: start - 1] + inserted + text[start - 1 + replaced :]


_WORDS = re.compile(r"[^\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]+")
"""Matches what is between blanks, of which non-breaking ones are none."""


def title_case(text: str) -> str:
    """Returns the text with the first character of each word in title case, others in lower."""
    return _WORDS.sub(lambda word: _titled(word[0]), text)


def _titled(word: str) -> str:
    first = word[0].title()
    lower = (letter.lower()[:1] for letter in word[1:])  # only İ has two, and becomes i
    return (first if len(first) == 1 else word[0]) + "".join(lower)


def soundex(text: str) -> str:
    """Returns the American Soundex code: the first letter, and three digits for later sounds."""
    letters = [letter for letter in text.upper() if letter.isalpha()]
    if not letters:
        return ""
    unknown = next((letter for letter in letters if letter not in _SOUNDS), None)
    if unknown is not None:
        raise invalid(f"soundex has no code for {unknown}")
    code, last = letters[0], _SOUNDS[letters[0]]
    for letter in letters[1:]:
        if letter in "HW":
            continue
        sound = _SOUNDS[letter]
        if sound not in ("0", last):
            code += sound
        last = sound
    return code[:4].ljust(4, "0")


def split(text: str, delimiter: str, limit: int) -> list[str]:
    """Splits into at most `limit` pieces, the last of which has the rest."""
    if not delimiter:
        raise invalid("split needs a delimiter")
    if limit <= 0:
        raise invalid(f"split takes a limit above zero, not {limit}")
    return text.split(delimiter, limit - 1)


def split_to_map(text: str, between: str, inside: str) -> list[tuple[str, str]]:
    """Returns the entries of a text such as `a=1,b=2`, with each key once."""
    entries = _entries(text, between, inside)
    keys = [key for key, _ in entries]
    for key in keys:
        if keys.count(key) > 1:
            raise invalid(f"split_to_map needs distinct keys, but {key!r} appears twice")
    return entries


def split_to_multimap(text: str, between: str, inside: str) -> list[tuple[str, list[str]]]:
    """Returns the entries of a text such as `a=1,b=2,a=3`, with all values of a key."""
    entries: dict[str, list[str]] = {}
    for key, value in _entries(text, between, inside):
        entries.setdefault(key, []).append(value)
    return list(entries.items())


def _entries(text: str, between: str, inside: str) -> list[tuple[str, str]]:
    if not between or not inside or between == inside:
        raise invalid("entries and their keys need two different delimiters")
    pieces = text.split(between)
    if not pieces[-1]:
        pieces.pop()
    entries = []
    for piece in pieces:
        key, *values = piece.split(inside)
        if len(values) != 1:
            raise invalid(f"an entry must contain {inside!r} exactly once, unlike {piece!r}")
        entries.append((key, values[0]))
    return entries


def position_of(text: str, part: str, instance: int) -> int:
    """Returns the position, from 1, of a part's nth occurrence; negative n count from the end."""
    if instance == 0:
        raise invalid("strpos takes an occurrence from 1, or from -1 backwards, but not 0")
    if not part:
        return 1
    starts = range(len(text) - len(part) + 1)
    ordered = starts if instance > 0 else reversed(starts)
    positions = (at for at in ordered if text.startswith(part, at))
    return next(itertools.islice(positions, abs(instance) - 1, None), -1) + 1


def left_padded(value: bytes, size: int, fill: bytes) -> bytes:
    """Returns bytes padded at the front, or cut at the end, to a length."""
    return (_filling(value, size, fill) + value)[:size]


def right_padded(value: bytes, size: int, fill: bytes) -> bytes:
    """Returns bytes padded or cut at the end to a length."""
    return (value + _filling(value, size, fill))[:size]


def _filling(value: bytes, size: int, fill: bytes) -> bytes:
    if not 0 <= size < 2**31 or not fill:
        raise invalid("lpad and rpad need a length of at least 0 and text to pad with")
    missing = max(0, size - len(value))
    return (fill * (missing // len(fill) + 1))[:missing]


def part_of(value: bytes, start: int, size: int = 2**62) -> bytes:
    """Returns the bytes from a position on, counted from 1, or from the end if negative."""
    if start == 0 or size <= 0 or abs(start) > len(value):
        return b""
    first = start - 1 if start > 0 else len(value) + start
    return value[first : first + size]


def from_utf8(value: bytes, replacement: str | int = "\ufffd") -> str:
    """Decodes UTF-8; invalid bytes are replaced, or left out if the replacement is empty."""
    if isinstance(replacement, int):
        replacement = character(replacement)
    if len(replacement) > 1:
        raise invalid("from_utf8 replaces with one character or none")
    text = value.decode("utf-8", "replace" if replacement == "\ufffd" else "surrogateescape")
    return "".join(replacement if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


_UNITS = ("", "K", "M", "B", "T", "Q")
_LONG = 2**63


def with_unit(value: float) -> str:
    """Formats the whole part of a number with its unit: 123K, 1.5M; three digits if positive."""
    if math.isnan(value):
        return "0"
    number = float(int(min(max(value, -_LONG), _LONG)))
    unit = 0
    while abs(number) >= 1000 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    places = 2 if number < 10 else 1 if number < 100 else 0
    step = decimal.Decimal(1).scaleb(-places)
    rounded = decimal.Decimal(number).quantize(step, decimal.ROUND_HALF_UP)
    text = format(rounded, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + _UNITS[unit]


def utf16_digits(text: str) -> str:
    """Returns the UTF-16 code units of a text, each as four hexadecimal digits."""
    return text.encode("utf-16-be").hex().upper()


_DATA_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_DATA_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")


def data_size(text: str) -> decimal.Decimal:
    """Parses a size such as `2.3MB` to whole bytes, rounded down; units are powers of 1,024.

    Raises:
        SeamlineError: INVALID_ARGUMENT for anything else.
    """
    match = _DATA_SIZE.fullmatch(text)
    if match is None or match[2] not in _DATA_UNITS:
        raise SeamlineError(
            INVALID_ARGUMENT, f"{text!r} is not a size", hint=f"Units: {', '.join(_DATA_UNITS)}."
        )
    size = fractions.Fraction(match[1]) * 1024 ** _DATA_UNITS.index(match[2])
    return decimal.Decimal(math.floor(size))

"""Texts that engines may read, count or write differently, and what can be done to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from seamline.sql import types
from seamline.sql.functions import FUNCTIONS
from seamline.sql.types import Type
from support import nesting

LETTERS = (
    "", " ", "a", "straße", "STRASSE", "ẞ", "ΑΣ", "ΑΣ. Σ", "İI", "ıi", "ﬃ", "ŉ", "ᾳ", "ᾼ", "ǆ", "ǅ",
    "é", "e\u0301", "日本語", "😀", "👨\u200d👩\u200d👧", "🇩🇪", "K", "\ua7cb", "\u0264", "\u1c89",
    "a\nb", "\n", "\r\n", "\t", "\u00a0x\u00a0", "\u2028", "\u0085", "\ufeffx", "\u0001", "\x7f",
    "'", '"', "`", "\\", "\\n", "\\'", "%", "_", "a%b", "${env:HOME}", "{0}", "?", ":x", "--",
    "a b",
)  # fmt: skip
NUMBERS = (
    "12", "12\n", "12\r", "12\u2028", "12\u0085", "\n12", "12 ", " 12", "+12", "-12", "-0", "+-1",
    "1_000", "१२", "\uff11\uff12", "0x1F", "1e3", "1E-3", "1e400", "1e-400", "1e", ".5", "5.",
    ".", "1,5",
    "1.5\n", "NaN", "nan", "inf", "Infinity", "-Infinity", "+Infinity", "infinity\n", "0.005",
    "127", "128", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "3.4e39",
    "99999999999999999999999999999999999999", "100000000000000000000000000000000000000", "999.994",
    "999.995", "-0.004", "1d", "1f", "1L", "12D", "0b1", "1e+2", "00012", "1 2",
)  # fmt: skip
TRUTHS = ("true", "TRUE", "t", "f", "1", "0", "yes", "no", "on", "true\n", "TRUE ", "ſ", "truE")
MOMENTS = (
    "2024-02-29", "2023-02-29", "2024-2-9", "2024-02-29\n", "2024-13-01", "0000-01-01",
    "0001-01-01",
    "9999-12-31", "10000-01-01", "-0001-01-01", "2024-02-29 12:00:00", "2024-02-29T12:00:00.123456",
    "2024-02-29 12:00:00\n", "2024-02-29 24:00:00", "2024-02-29 23:59:60", "2024-02-29 12:00",
    "2024-02-29 12:00:00.1", "2024-02-29 12:00:00.1234567", "2024-02-29 12:00:00 UTC",
    "2024-02-29 12:00:00Z", "2024-02-29 12:00:00+02:00", "2024-02-29 12:00:00-18:00",
    "2024-02-29 12:00:00+25:00", "2024-02-29 12:00:00 +02:00", "2024-02-29 12:00:00 Europe/Berlin",
    "epoch", "today", "now", "infinity", "1970-01-01", "1582-10-10", "1900-01-01 00:00:00",
    "9999-12-31 23:59:59", "2024-02-29 12:00:00+14:00", "2024-02-29 12:00:00+14:01",
)  # fmt: skip
OTHERS = (
    "123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000\n",
    "123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}",
)  # fmt: skip
ALL = (*LETTERS, *NUMBERS, *TRUTHS, *MOMENTS, *OTHERS)
PARTS = ("a", "ß", "Σ", "\n", "\u0301", "😀", "%", "_", "\\", "'", "2", "st", " ")
"""What is looked for in them, cut off or filled in."""
COUNTS = (1, 2, 5)

TARGETS = (
    types.BOOLEAN, types.TINYINT, types.SMALLINT, types.INTEGER, types.BIGINT, types.REAL,
    types.DOUBLE,
    types.Decimal(5, 2), types.Decimal(38, 0), types.DATE, types.Timestamp(3, False),
    types.TIMESTAMP, types.TIMESTAMP_TZ, types.UUID, types.VARBINARY,
)  # fmt: skip
"""What a text can be converted to."""

_ARGUMENTS: dict[Type, tuple[str, ...]] = {
    types.VARCHAR: ("v.x", "v.y", "'é'"),
    types.BIGINT: ("v.n",) * 3,
    types.VARBINARY: ("to_utf8(v.x)",) * 3,
}
_OPERATORS = (
    "v.x LIKE v.y", "v.x LIKE '%' || v.y", "v.x || v.y", "v.x < v.y", "v.x = v.y",
    "v.x IN (v.y, '😀')",
    "trim(BOTH v.y FROM v.x)", "trim(LEADING v.y FROM v.x)", "position(v.y IN v.x)",
    "CASE v.x WHEN v.y THEN 1 ELSE 0 END", "row_number() OVER (ORDER BY v.x, v.y, v.n)",
)  # fmt: skip


def calls() -> Iterator[str]:
    """Every function that takes or gives a text, over columns v.x, v.y and v.n."""
    for overload in itertools.chain.from_iterable(FUNCTIONS.values()):
        taken = nesting.parameters_of(overload)
        is_callable = overload.kind == "scalar" and not overload.name.startswith("$")
        if is_callable and types.VARCHAR in taken and all(t in _ARGUMENTS for t in taken):
            given = {type_: itertools.cycle(values) for type_, values in _ARGUMENTS.items()}
            yield f"{overload.name}({', '.join(next(given[type_]) for type_ in taken)})"
    yield from _OPERATORS


def literal(text: str) -> str:
    """The text in a statement."""
    return "'" + text.replace("'", "''") + "'"


def source(texts: tuple[str, ...], alias: str) -> str:
    """A relation of texts, numbered from 0."""
    rows = ", ".join(f"({place}, {literal(text)})" for place, text in enumerate(texts))
    return f"(VALUES {rows}) AS {alias}"

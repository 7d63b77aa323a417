"""Goal: what a text is made of is taken letter by letter, and a number's text is that and no more.

Method: every letter that Python knows by Unicode, against DuckDB; what Spark says to the same
texts is in the integration tests.
"""

from __future__ import annotations

import pytest
from support import texts
from support.gateway import Gateway

CODES = [code for code in range(160, 0x1FFFF) if not 0xD800 <= code < 0xE000]
NEWER = frozenset("\u019b\u0264\u1c89\u1c8a\ua7cb\ua7cc\ua7cd\ua7da\ua7db\ua7dc").union(
    map(chr, [*range(0x10D50, 0x10D66), *range(0x10D70, 0x10D86)])
)
"""Letters that got another one in Unicode 16; Python's Unicode may be older or newer."""


def upper(letter: str) -> str:
    """The one upper-case letter of Unicode's simple mapping, itself if there is none."""
    return next((to for to in (letter.upper(), letter.title()) if len(to) == 1), letter)


def lower(letter: str) -> str:
    """The one lower-case letter."""
    return letter.lower()[0]


def test_every_letter_has_one_other_at_most(offline_gateway: Gateway) -> None:
    letters = [letter for letter in map(chr, CODES) if letter not in NEWER]
    for start in range(0, len(letters), 50_000):
        part = "".join(letters[start : start + 50_000])
        sql = f"SELECT upper(x), lower(x) FROM (VALUES '{part}') AS t(x)"
        ((ours_upper, ours_lower),) = offline_gateway.rows(sql, "duckdb")
        assert ours_upper == "".join(map(upper, part))
        assert ours_lower == "".join(map(lower, part))


@pytest.mark.parametrize("type_", ["integer", "double", "decimal(5,2)", "date", "uuid", "boolean"])
def test_a_text_with_more_around_it_is_no_value(offline_gateway: Gateway, type_: str) -> None:
    value = {"date": "2024-02-29", "uuid": "123e4567-e89b-12d3-a456-426614174000"}.get(type_, "1")
    spaced = ("{} ", " {}", "  {} ")
    forms = [form.format(value) for form in ("{}", "{}\n", "{}\r", "{}\u2028", "\n{}", *spaced)]
    converted = ", ".join(f"TRY_CAST({texts.literal(form)} AS {type_})" for form in forms)
    (first, *others) = offline_gateway.rows(f"SELECT {converted}", "duckdb")[0]
    assert first is not None
    trimmed = first if type_ in {"integer", "double", "date"} else None  # as in Trino
    # numbers are trimmed as Java does it, which a line separator is no blank for
    around = [trimmed, trimmed, first if type_ == "date" else None, trimmed]
    assert others == around + [trimmed] * len(spaced)

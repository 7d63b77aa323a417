"""Goal: what is offered at the prompt is what may come there, in the order of how near it is.

Method: places in statements, over names that are known; no gateway.
"""

from __future__ import annotations

import pytest

from seamline.shell.completing import candidates
from seamline.shell.prompt import coloured
from seamline.terminal.output import WRITERS

SCHEMAS = {"": ["bids", "Odd Name", "order"], "shop": ["orders"]}
COLUMNS = {"bids": ["price", "channel"], "shop.orders": ["price", "id"], '"Odd Name"': ["odd col"]}


class Known:
    """Names that are known."""

    def tables(self, schema: str = "") -> list[str]:
        return SCHEMAS.get(schema, [])

    def schemas(self) -> list[str]:
        return ["shop"]

    def functions(self) -> list[str]:
        return ["count", "count_if", "strpos"]

    def columns(self, table: str) -> list[str]:
        return COLUMNS.get(table, [])


def offered(text: str) -> list[str]:
    """What the text becomes; a bar marks the cursor."""
    before, _, after = text.partition("|")
    length, found = candidates(before, after, Known())
    return [before[: len(before) - length] + each.text for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sel|", ["select"]),
        ("SEL|", ["SELECT"]),
        ("SELECT * FROM |",
         [f"SELECT * FROM {n}" for n in ("bids", '"Odd Name"', '"order"', "shop")]),
        ("SELECT * FROM b|", ["SELECT * FROM bids"]),
        ("DESCRIBE o|", ['DESCRIBE "Odd Name"', 'DESCRIBE "order"']),
        ("SELECT * FROM shop.|", ["SELECT * FROM shop.orders"]),
        ("SELECT | FROM bids", ["SELECT price", "SELECT channel"]),
        ("SELECT cha| FROM bids", ["SELECT channel"]),
        ("SELECT b.pr| FROM bids AS b", ["SELECT b.price"]),
        ("SELECT 1 FROM shop.orders o JOIN bids ON o.|",
         [f"SELECT 1 FROM shop.orders o JOIN bids ON o.{c}" for c in ("price", "id")]),
        ('SELECT o| FROM "Odd Name"',
         ['SELECT "odd col"', *(f"SELECT {k}" for k in ("offset", "on", "or", "order", "ordinality",
                                                      "outer", "over", '"Odd Name"', '"order"'))]),
        ("SELECT count_|", ["SELECT count_if"]),
        ("SELECT 1 FROM bids; SELECT cha|", []),
        ("SELECT 'sel|", []),
        ("-- sel|", []),
        (r"\de|", []),
        (r"\ti|", [r"\timing"]),
        (r"\d b|", [r"\d bids"]),
        (r"\format |", [rf"\format {name}" for name in WRITERS]),
    ],
)  # fmt: skip
def test_what_is_offered(text: str, expected: list[str]) -> None:
    assert [each.lower() if text != text.upper() else each for each in offered(text)] == [
        each.lower() if text != text.upper() else each for each in expected
    ]


def test_colours() -> None:
    first, second = coloured("SELECT 'a\nb' -- c")
    assert first == [("class:keyword", "SELECT"), ("", " "), ("class:string", "'a")]
    assert second == [("class:string", "b'"), ("", " "), ("class:comment", "-- c")]
    assert coloured("\\x") == [[("class:meta", "\\x")]]

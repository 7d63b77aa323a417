"""Goal: nothing that a statement says is passed over: each flag has its meaning or is refused.

Method: forms whose flags a parser keeps beside the operands, and answers where they are offered.
"""

from __future__ import annotations

import pytest
from support.gateway import Gateway

from seamline.errors import NOT_SUPPORTED, SeamlineError


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("'abc' NOT LIKE 'a%'", False),
        ("'abc' NOT LIKE 'b%'", True),
        ("'a%' NOT LIKE 'a$%' ESCAPE '$'", False),
        ("NULL NOT LIKE 'a'", None),
        ("NOT 'abc' NOT LIKE 'a%'", True),
        ("1 NOT IN (2)", True),
        ("1 NOT BETWEEN 2 AND 3", True),
        ("1 IS NOT NULL", True),
        ("true IS NOT TRUE", False),
        ("CAST(NULL AS boolean) IS NOT TRUE", True),
        ("1 IS DISTINCT FROM NULL", True),
        ("NULL IS NOT DISTINCT FROM NULL", True),
        ("((SELECT true) LIMIT 0)", None),
    ],
)
def test_what_stands_beside_the_operands_counts(
    offline_gateway: Gateway, condition: str, expected: bool | None
) -> None:
    assert offline_gateway.rows(f"SELECT {condition}") == [(expected,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST('2024' AS date FORMAT 'YYYY')",
        "SELECT 'a' NOT ILIKE 'A'",
        "SELECT trim(BOTH 'x' FROM 'xax' COLLATE de)",
        "SELECT 1 IN UNNEST(ARRAY[1])",
        "SELECT CAST(1 AS int8)",
        "SELECT CAST(1.5 AS number)",
        "SELECT CAST(1.5 AS fixed)",
    ],
)
def test_a_form_whose_meaning_is_not_settled_is_refused(offline_gateway: Gateway, sql: str) -> None:
    assert refused(offline_gateway, sql) in {NOT_SUPPORTED.name, "SYNTAX_ERROR"}


def refused(gateway: Gateway, sql: str) -> str | None:
    try:
        gateway.rows(sql)
    except SeamlineError as error:
        return error.code.name
    return None

"""Goal: a statement that is large in any one way gives its answer or a named error, never a crash.

Method: statements made by a rule whose answer is known by arithmetic, on DuckDB. Those that are too
large must say so. What Spark says to the same is in the integration tests.
"""

from __future__ import annotations

import pytest
from support import large
from support.gateway import Gateway

from seamline.errors import SeamlineError
from seamline.sql import parse


@pytest.mark.parametrize("name", large.ANSWERED)
def test_large_statements_are_answered(offline_gateway: Gateway, name: str) -> None:
    sql, answer = large.ANSWERED[name]
    assert offline_gateway.rows(sql, "duckdb") == [(answer,)]


@pytest.mark.parametrize("name", large.REFUSED)
def test_what_is_too_large_says_so(name: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        parse.parse(large.REFUSED[name])
    assert caught.value.code.name == "STATEMENT_TOO_LARGE"


@pytest.mark.parametrize("name", large.EITHER)
def test_others_have_an_answer_or_a_name(offline_gateway: Gateway, name: str) -> None:
    sql, answer = large.EITHER[name]
    try:
        found = offline_gateway.rows(sql, "duckdb")
    except SeamlineError as error:
        assert error.code.name in {"STATEMENT_TOO_LARGE", "SYNTAX_ERROR"}, error
    else:
        assert found == [(answer,)]

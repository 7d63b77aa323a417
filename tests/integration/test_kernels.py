"""Goal: what a kernel receives and returns is what the engines hold, for every type.

Method: a kernel that gives back its argument is called by both engines over values at the edges of
each type, and over none; and one that fails, where a CASE leaves its row out and where it does not.
What kernels compute of random values is compared with functions of Spark's that mean the same.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator

import pytest
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.spark.sessions import connect
from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.functions import FUNCTIONS
from seamline.sql.functions.registry import kernel
from seamline.sql.kernels.kernel import by_row

VALUES: dict[str, list[str]] = {
    "boolean": ["true", "false"],
    "tinyint": ["CAST(-128 AS tinyint)", "CAST(127 AS tinyint)"],
    "bigint": ["9007199254740993", "-9223372036854775808", "0"],
    "real": ["CAST(1.1e0 AS real)", "CAST(3.4028235e38 AS real)", "CAST(nan() AS real)"],
    "double": ["0.1e0", "-0e0", "4.9e-324", "1.7976931348623157e308", "nan()", "-infinity()"],
    "whole": ["1", "-2147483648", "0", "1", "1", "1", "1"],
    "decimal": ["12345678901234567890123456789012345.678", "-0.001"],
    "text": ["''", "'null'", "'NaN'", "'a\"b\\c'", "'é😀 日'", "'\t'"],
    "bytes": ["X''", "X'00FF80'"],
    "date": ["DATE '0001-01-01'", "DATE '1969-12-31'", "DATE '9999-12-31'"],
    "moment": ["TIMESTAMP '0001-01-01 00:00:00.000001'", "TIMESTAMP '9999-12-31 23:59:59.999999'"],
    "instant": [
        "TIMESTAMP '1582-10-04 12:00:00.000001 UTC'",
        "TIMESTAMP '2024-02-29 01:02:03 UTC'",
    ],
    "texts": ["ARRAY['a', NULL, '']", "ARRAY['\"']"],
    "numbers": ["ARRAY[9007199254740993, NULL]", "ARRAY[-1]"],
    "floats": ["ARRAY[1.5e0, NULL, nan(), -infinity()]"],
    "moments": ["ARRAY[TIMESTAMP '2024-02-29 01:02:03.000001', NULL]"],
    "many_bytes": ["ARRAY[X'00FF', NULL]"],
    "decimals": ["ARRAY[ARRAY[0.10, NULL], NULL]"],
    "map": ["MAP(ARRAY[1, 2], ARRAY['x', NULL])", "MAP(ARRAY[3], ARRAY[''])"],
    "row": ["CAST(ROW(1, 'x', NULL) AS row(a integer, \"B c\" varchar, d array(boolean)))"],
    "rows": ["ARRAY[ROW(true, DATE '2024-02-29'), NULL]"],
}
"""Values of a type, which nulls follow."""


@pytest.fixture
def same() -> Iterator[str]:
    """A function that gives back its argument."""
    kernel("same", "T -> T", by_row(copy.copy))
    yield "same"
    del FUNCTIONS["same"]


@pytest.mark.one_in(prove=2)
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_values_arrive_and_come_back(gateway: Gateway, same: str, engine: str) -> None:
    rows = itertools.zip_longest(*VALUES.values(), fillvalue="NULL")
    listed = ", ".join(f"({', '.join(row)})" for row in rows)
    columns = ", ".join(f'"{name}", {same}("{name}"), {same}({same}("{name}"))' for name in VALUES)
    names = ", ".join(f'"{name}"' for name in VALUES)
    wrong = []
    for row in gateway.rows(f"SELECT {columns} FROM (VALUES {listed}) AS t({names})", engine):
        cells = zip(*[iter(row)] * 3, strict=True)
        wrong += [c for c in zip(VALUES, cells, strict=True) if len(set(map(repr, c[1]))) > 1]
    assert not wrong


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_fails_only_where_it_is_wanted(gateway: Gateway, engine: str) -> None:
    source = "FROM (VALUES 'b', '(', 'a', NULL) AS t(x)"
    guarded = f"SELECT CASE WHEN x <> '(' THEN regexp_like('a', x) END {source}"
    assert sorted(map(repr, gateway.rows(guarded, engine))) == [
        "(False,)",
        "(None,)",
        "(None,)",
        "(True,)",
    ]
    with pytest.raises(SeamlineError, match=r"\(") as failure:
        gateway.rows(f"SELECT regexp_like('a', x) {source}", engine)
    assert failure.value.code is INVALID_ARGUMENT
    assert gateway.rows(f"SELECT regexp_like(x, 'b') {source} WHERE false", engine) == []


# --- What others compute --------------------------------------------------------------------------

OTHERS = {
    "format('%,.2f|%e|%08.3f|%+.0f', d, d, d, d)": (
        "format_string('%,.2f|%e|%08.3f|%+.0f', d, d, d, d)"
    ),
    "format('%d|%,d|%08d|%x|%o|%-6d|%(d', n, n, n, n, n, n, n)": (
        "format_string('%d|%,d|%08d|%x|%o|%-6d|%(d', n, n, n, n, n, n, n)"
    ),
    "format('%s|%5s|%-5s|%.2s|%S', s, s, s, s, s)": (
        "format_string('%s|%5s|%-5s|%.2s|%S', s, s, s, s, s)"
    ),
    "levenshtein_distance(s, t)": "levenshtein(s, t)",
    "luhn_check(CAST(abs(n) AS varchar))": "luhn_check(CAST(abs(n) AS STRING))",
    "crc32(to_utf8(s))": "crc32(CAST(s AS BINARY))",
    "lower(to_hex(sha1(to_utf8(s))))": "sha1(CAST(s AS BINARY))",
    "lower(to_hex(sha512(to_utf8(s))))": "sha2(CAST(s AS BINARY), 512)",
    "to_base64(to_utf8(s))": "base64(CAST(s AS BINARY))",
    "reverse(s)": "reverse(s)",
    "translate(s, 'ab1', 'xé')": "translate(s, 'ab1', 'xé')",
    "concat_ws('-', s, NULL, t)": "concat_ws('-', s, NULL, t)",
    "codepoint(substr(s || 'x', 1, 1))": "ascii(substr(concat(s, 'x'), 1, 1))",
    "regexp_count(s, '[a-c]+')": "regexp_count(s, '[a-c]+')",
    "regexp_replace(s, '([ab])(.)', '<$2$1>')": "regexp_replace(s, '([ab])(.)', '<$2$1>')",
    "array_join(regexp_extract_all(s, '([a-c])([a-c1])', 2), ';')": (
        "array_join(regexp_extract_all(s, '([a-c])([a-c1])', 2), ';')"
    ),
    "array_join(split(s, 'a'), ';')": "array_join(split(s, 'a'), ';')",
    "json_extract_scalar(CAST(MAP(ARRAY['k'], ARRAY[s]) AS json), '$.k')": (
        "get_json_object(to_json(map('k', s)), '$.k')"
    ),
    "url_decode(url_encode(s))": "s",
}
"""Functions of ours, and what computes the same in Spark, in Java."""


def samples() -> str:
    """Rows of two texts, a whole number and a double."""
    chosen = random.Random(20240229)
    rows = []
    for _ in range(60):
        s, t = ("".join(chosen.choices("aabbc1 é日😀", k=chosen.randrange(9))) for _ in "st")
        n = chosen.choice([1, -1]) * chosen.randrange(10 ** chosen.randrange(1, 15))
        d = chosen.uniform(-1, 1) * 10 ** chosen.randrange(-3, 9)
        rows.append(f"('{s}', '{t}', CAST({n} AS bigint), CAST('{d!r}' AS double))")
    return f"(VALUES {', '.join(rows)}) AS v(s, t, n, d)"


@pytest.mark.spark
@pytest.mark.integration
def test_kernels_give_what_others_give(stack: Stack, gateway: Gateway) -> None:
    source = samples()
    ours = gateway.rows(f"SELECT {', '.join(OTHERS)} FROM {source}", "duckdb")
    session = connect(stack.spark_url)
    try:
        columns = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(OTHERS.values()))
        found = session.sql(f"SELECT {columns} FROM {source}").toArrow()
    finally:
        session.client.close()
    theirs = zip(*(column.to_pylist() for column in found.columns), strict=True)
    wrong = {
        name: (mine, other)
        for row, others in zip(ours, theirs, strict=True)
        for name, mine, other in zip(OTHERS, row, others, strict=True)
        if mine != other
    }
    assert not wrong

"""Goal: every name, type and parameter is settled as Trino would, or refused with place and remedy.

Method: queries over one small table and over VALUES; answers through the real engine where meaning
is at stake, errors where a name is.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from support.gateway import Gateway

from seamline.errors import Location, SeamlineError
from seamline.sql.binder.qualify import BoundQuery, Relation, TableReference, qualify, references
from seamline.sql.expressions.calls import Call
from seamline.sql.parsing import parameters, parse
from seamline.sql.types import BIGINT, VARCHAR, Field, Row

NOW = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
TABLE = Relation(
    (
        Field("Price", BIGINT),
        Field("channel", VARCHAR),
        Field("extra", Row((Field("Code", VARCHAR),))),
        Field("_kafka_offset", BIGINT),
    ),
    frozenset({"_kafka_offset"}),
)
EAST = datetime.timezone(datetime.timedelta(hours=14))
PAIRS = "(VALUES (1, 2), (3, 1)) AS t(x, y)"


def tree(sql: str, values: Any = ()) -> Any:
    parsed = parse.parse(sql)
    assert isinstance(parsed, parse.Query)
    return parameters.bind(parsed, values)


def bound(sql: str, values: Any = ()) -> BoundQuery:
    found = tree(sql, values)
    return qualify(found, [TABLE] * len(references(found)), now=NOW)


def refused(sql: str, values: Any = ()) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        bound(sql, values)
    return caught.value


# --- Names ---------------------------------------------------------------------------------------


def _cols(first: int, end: int) -> list[str]:
    return [f"_col{i}" for i in range(first, end)]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM bids", ["Price", "channel", "extra"]),
        ("SELECT _kafka_offset, * FROM bids", ["_kafka_offset", "Price", "channel", "extra"]),
        ("SELECT PRICE, Channel FROM bids", ["Price", "channel"]),
        ("SELECT price AS P, price + 1, extra.code FROM bids", ["P", "_col1", "code"]),
        (
            "SELECT * FROM UNNEST(ARRAY[(1, 'x')], MAP(ARRAY[1], ARRAY[2]))",
            _cols(0, 4),
        ),
        ("SELECT * FROM UNNEST(ARRAY[CAST(ROW(1) AS row(a integer))])", ["a"]),
        ("SELECT extra.*, (ROW(1, 2)).*, ARRAY[extra][1].code FROM bids", ["Code", *_cols(1, 4)]),
        ("SELECT * FROM (SELECT (ROW(1, 2)).*)", _cols(0, 2)),
        ("SELECT b.* FROM bids b JOIN bids c ON b.price = c.price", ["Price", "channel", "extra"]),
        ("SELECT price FROM bids UNION ALL SELECT 1", ["Price"]),
        ("WITH w AS (SELECT price AS p FROM bids) SELECT * FROM w", ["p"]),
    ],
)
def test_columns_keep_the_case_they_were_declared_or_written_with(
    sql: str, names: list[str]
) -> None:
    assert [column.name for column in bound(sql).output] == names


def test_only_the_columns_that_are_used_are_read() -> None:
    (scan,) = bound("SELECT count(*) FROM bids WHERE PRICE > 1 AND extra.code = 'a'").scans
    assert [column.name for column in scan.columns] == ["Price", "extra"]


def test_references_are_the_tables_in_the_order_of_the_text() -> None:
    sql = (
        "WITH w AS (SELECT * FROM a.b.c), bids AS (SELECT * FROM bids) "
        "SELECT * FROM w JOIN bids ON true WHERE EXISTS (SELECT * FROM d FOR VERSION AS OF 7)"
    )
    found = references(tree(sql))
    assert [reference.name for reference in found] == [("a", "b", "c"), ("bids",), ("d",)]
    assert found[2] == TableReference(("d",), found[2].version)
    assert found[2].version is not None
    assert found[2].version.value == 7
    assert found[0].location == Location(1, 26)


@pytest.mark.parametrize(
    ("text", "zone", "hour"),
    [
        ("2026-07-01 12:00", "UTC", 12),
        ("2026-07-01 12:00", "Europe/Berlin", 10),
        ("2026-07-01 12:00 UTC", "Europe/Berlin", 12),
    ],
)
def test_a_moment_of_the_past_is_in_the_session_s_zone(text: str, zone: str, hour: int) -> None:
    sql = f"SELECT * FROM bids FOR TIMESTAMP AS OF TIMESTAMP '{text}'"
    (found,) = references(tree(sql), zone)
    assert found.version is not None
    assert found.version.value == datetime.datetime(2026, 7, 1, hour, tzinfo=datetime.UTC)


def test_a_literal_is_still_one_in_the_session_s_zone() -> None:
    """So that files can be left out by it."""
    values = "TIMESTAMP '2026-07-01 10:00 UTC', TIMESTAMP '2026-07-01 12:00', DATE '2026-07-02'"
    bound = qualify(tree(f"SELECT greatest({values})"), [], now=NOW, zone="Europe/Berlin")
    calls = bound.tree.find_all(Call, bfs=False)
    constants = [call.spec.constant for call in calls if call.spec.constant is not None]
    noon = datetime.datetime(2026, 7, 1, 10, tzinfo=datetime.UTC)
    assert constants == [noon, noon, noon + datetime.timedelta(hours=12)]


@pytest.mark.parametrize(
    ("sql", "code", "place", "hint"),
    [
        ("SELECT pricy FROM bids", "COLUMN_NOT_FOUND", Location(1, 8), "Did you mean Price?"),
        ("SELECT b.nope\nFROM bids b", "COLUMN_NOT_FOUND", Location(1, 10), "DESCRIBE"),
        ("SELECT c.price FROM bids b", "COLUMN_NOT_FOUND", Location(1, 10), "DESCRIBE"),
        ("SELECT extra.nope FROM bids", "COLUMN_NOT_FOUND", Location(1, 14), ""),
        ("SELECT u.* FROM bids", "COLUMN_NOT_FOUND", Location(1, 8), "DESCRIBE"),
        ("SELECT price FROM bids a, bids b", "COLUMN_AMBIGUOUS", Location(1, 8), "alias"),
        ("SELECT 1 FROM bids a, bids a", "COLUMN_AMBIGUOUS", Location(1, 23), "alias"),
        ("SELECT a FROM (SELECT 1 AS a, 2 AS a)", "COLUMN_AMBIGUOUS", Location(1, 8), "alias"),
        (
            "SELECT * FROM bids a JOIN bids b USING (nope)",
            "COLUMN_NOT_FOUND",
            Location(1, 41),
            "DESCRIBE",
        ),
        ("SELECT lenght('a')", "FUNCTION_NOT_FOUND", Location(1, 8), "length"),
        ("SELECT length(1)", "TYPE_MISMATCH", Location(1, 8), "length(varchar)"),
        ("SELECT rank()", "NOT_SUPPORTED", Location(1, 8), ""),
        ("SELECT * FROM read_parquet('x')", "NOT_SUPPORTED", Location(1, 15), "FROM takes"),
        ("SELECT * FROM a.b.c.d", "SYNTAX_ERROR", Location(1, 15), "a name is"),
        ("SELECT", "SYNTAX_ERROR", None, "Check"),
        ("SELECT price, count(*) FROM bids", "GROUPING_ERROR", Location(1, 8), "GROUP BY"),
        ("SELECT count(*) FROM bids GROUP BY 1", "GROUPING_ERROR", Location(1, 8), ""),
        ("SELECT 1 FROM bids WHERE max(price) = 1", "GROUPING_ERROR", Location(1, 8), "HAVING"),
        ("SELECT 1 WHERE 1", "TYPE_MISMATCH", Location(1, 16), ""),
        ("SELECT 1 UNION SELECT 'a'", "TYPE_MISMATCH", Location(1, 8), "CAST"),
        ("SELECT 'a' < DATE '2024-01-01'", "TYPE_MISMATCH", Location(1, 8), "DATE '…'"),
        ("SELECT DATE '2024-02-30'", "INVALID_LITERAL", Location(1, 13), "literal"),
        ("SELECT " + " + ".join(["1"] * 2000), "STATEMENT_TOO_LARGE", Location(1, 4010), "VALUES"),
    ],
)
def test_an_error_has_its_place_and_its_remedy(
    sql: str, code: str, place: Location | None, hint: str
) -> None:
    error = refused(sql)
    assert (error.code.name, error.location) == (code, place), error
    assert hint in error.hint


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"SELECT x AS y FROM {PAIRS} WHERE y = 2", [(1,)]),
        (f"SELECT x AS y FROM {PAIRS} ORDER BY y", [(1,), (3,)]),
        (f"SELECT x AS y FROM {PAIRS} ORDER BY t.y", [(3,), (1,)]),
        (f"SELECT sum(x) AS y, y AS z FROM {PAIRS} GROUP BY y HAVING y > 1", [(1, 2)]),
        (f"SELECT max(x) AS y FROM {PAIRS} HAVING max(y) = 2", [(3,)]),
        (f"SELECT -x AS x, sum(y) FROM {PAIRS} GROUP BY x ORDER BY x", [(-3, 1), (-1, 2)]),
        (f"SELECT x % 2 AS x, count(*) FROM {PAIRS} GROUP BY 1", [(1, 2)]),
    ],
)
def test_a_column_goes_before_an_alias_but_in_order_by(
    offline_gateway: Gateway, sql: str, rows: list[tuple[int, ...]]
) -> None:
    assert offline_gateway.rows(sql) == rows


def test_an_instant_before_the_first_year_is_none() -> None:
    assert refused("SELECT TIMESTAMP '0001-01-01 00:00:00+14:00'").code.name == "INVALID_LITERAL"


# --- Parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT ?, ?", [1]),
        ("SELECT 1", [1]),
        ("SELECT :a", {"b": 1}),
        ("SELECT :a", {"a": 1, "b": 2}),
        ("SELECT :a", [1]),
        ("SELECT ?", {"a": 1}),
        ("SELECT ?, :a", [1]),
        ("SELECT ?", [object()]),
        ("SELECT ?", ["\ud800"]),
        ("SELECT ?", ["a\0"]),
        ("SELECT ?", [datetime.datetime(1, 1, 1, tzinfo=EAST)]),
    ],
)
def test_values_and_placeholders_must_match(sql: str, values: Any) -> None:
    assert refused(sql, values).code.name == "INVALID_PARAMETERS"


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -7, 2**62, 1.5, -0.25, "it's", "", "?; DROP TABLE t", b"\x00\xff",
     datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
     datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.UTC), [1, 2], [],
     decimal.Decimal("1.50"), decimal.Decimal("-" + "1" * 28 + ".2222222222")],
)  # fmt: skip
def test_a_value_comes_back_as_it_went_in(offline_gateway: Gateway, value: Any) -> None:
    assert offline_gateway.rows("SELECT ?", parameters=[value]) == [(value,)]
    assert offline_gateway.rows("SELECT :v", parameters={"v": value}) == [(value,)]

"""Goal: the n-th `?` of a text takes the n-th value, whatever the tree makes of the text.

Method: statements are written with their values in place, between ‹ and ›. Their oracle is the
statement as it then reads; beside it stand the same text with `?` and with names, over several
lines, among comments, texts and quoted names that hold a `?` of their own. All three must give the
same tree: for every clause and special syntax, for clauses and expressions put together at random,
and in every dialect that takes the statement at all.
"""

from __future__ import annotations

import datetime
import itertools
import re
from typing import Any

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.gateway import Gateway

from seamline.errors import ERRORS, Location, SeamlineError
from seamline.sql.parsing import parameters, parse

FORMS = [
    # the select list and its expressions
    "SELECT ‹1›, ‹2› AS a, ‹'c'› || ‹'d'›, ‹5› + ‹6› * ‹7› - ‹8› / ‹9› % ‹10› FROM t",
    "SELECT DISTINCT x + ‹1› FROM t WHERE x > ‹2›",
    "SELECT CASE WHEN x > ‹1› THEN ‹2› WHEN x > ‹3› THEN ‹4› ELSE ‹5› END FROM t",
    "SELECT CASE ‹1› WHEN ‹2› THEN ‹3› WHEN ‹4› THEN ‹5› ELSE ‹6› END FROM t",
    "SELECT if(x > ‹1›, ‹2›, ‹3›), coalesce(x, ‹4›, ‹5›), nullif(‹6›, ‹7›) FROM t",
    "SELECT CAST(‹1› AS bigint), TRY_CAST(‹'2'› AS integer), CAST(‹3› AS varchar) FROM t",
    "SELECT x BETWEEN ‹1› AND ‹2›, ‹3› BETWEEN ‹4› AND ‹5›, x NOT BETWEEN ‹6› AND ‹7› FROM t",
    "SELECT x IN (‹1›, ‹2›, ‹3›), ‹4› IN (‹5›, x), x NOT IN (‹6›, ‹7›) FROM t",
    "SELECT s LIKE ‹'a'›, ‹'b'› LIKE ‹'c'› ESCAPE ‹'d'›, s NOT LIKE ‹'e'› FROM t",
    "SELECT position(‹'a'› IN ‹'b'›), position(s IN ‹'c'›), strpos(‹'d'›, ‹'e'›) FROM t",
    "SELECT substring(‹'a'› FROM ‹2› FOR ‹3›), substr(‹'d'›, ‹5›, ‹6›) FROM t",
    "SELECT substring(‹'a'›, ‹2›, ‹3›), substring(‹'a'› FROM ‹4›) FROM t",
    "SELECT trim(‹'a'› FROM ‹'b'›), trim(BOTH ‹'c'› FROM ‹'d'›), trim(‹'e'›) FROM t",
    "SELECT trim(LEADING ‹'a'› FROM s), trim(TRAILING ‹'b'› FROM ‹'c'›), ‹4› FROM t",
    "SELECT extract(YEAR FROM CAST(‹'2024-01-01'› AS date)), ‹2› FROM t",
    "SELECT d + INTERVAL ‹'1'› DAY, d - INTERVAL ‹'2'› MONTH, ‹3› FROM t",
    "SELECT date_add('day', ‹1›, d), date_diff('day', CAST(‹'2'› AS date), d), ‹3› FROM t",
    "SELECT ARRAY[‹1›, ‹2›][‹3›], MAP(ARRAY[‹4›], ARRAY[‹5›])[‹6›], ROW(‹7›, ‹8›) FROM t",
    "SELECT CAST(ROW(‹1›, ‹'b'›) AS row(a bigint, b varchar)).a, ‹3› FROM t",
    "SELECT d AT TIME ZONE ‹'UTC'›, ‹2› FROM t",
    "SELECT greatest(‹1›, ‹2›), concat(‹'c'›, ‹'d'›), replace(‹'e'›, ‹'f'›, ‹'g'›) FROM t",
    "SELECT split_part(‹'a'›, ‹'b'›, ‹3›), lpad(‹'d'›, ‹5›, ‹'f'›), round(‹7›, ‹8›) FROM t",
    "SELECT x IS DISTINCT FROM ‹1›, ‹2› IS NOT DISTINCT FROM x, NOT x = ‹3› FROM t",
    "SELECT x = ‹1› AND x = ‹2› OR x = ‹3› AND (x = ‹4› OR x = ‹5›) FROM t",
    "SELECT (x, ‹1›) = (‹2›, ‹3›), x <> ‹4›, ‹5› <= x FROM t",
    # aggregates and windows
    "SELECT count(*) FILTER (WHERE x > ‹1›), max_by(x, ‹2›), sum(x + ‹3›) FROM t",
    "SELECT sum(x) FILTER (WHERE x > ‹1›) OVER (PARTITION BY x + ‹2› ORDER BY x + ‹3›) FROM t",
    "SELECT lag(x, ‹1›, ‹2›) OVER (ORDER BY x + ‹3›), ntile(‹4›) OVER (ORDER BY x) FROM t",
    "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN ‹1› PRECEDING AND ‹2› FOLLOWING) + ‹3› FROM t",
    "SELECT nth_value(x, ‹1›) IGNORE NULLS OVER w, ‹2› FROM t WINDOW w AS (ORDER BY x + ‹3›)",
    "SELECT x FROM t QUALIFY row_number() OVER (PARTITION BY x + ‹1› ORDER BY x - ‹2›) = ‹3›",
    # clauses, in the order of the text and of trees
    "SELECT x FROM t LIMIT ‹1›",
    "SELECT x FROM t LIMIT ‹1› OFFSET ‹2›",
    "SELECT x FROM t OFFSET ‹1› LIMIT ‹2›",
    "SELECT x FROM t OFFSET ‹1› ROWS FETCH FIRST ‹2› ROWS ONLY",
    "SELECT x FROM t WHERE x > ‹1› ORDER BY x + ‹2› OFFSET ‹3› ROW FETCH NEXT ‹4› ROW ONLY",
    "SELECT x + ‹1› FROM t WHERE x > ‹2› GROUP BY x + ‹3› HAVING count(*) > ‹4› ORDER BY ‹5› + x",
    "SELECT x FROM t GROUP BY GROUPING SETS ((x + ‹1›), (x + ‹2›, x)), ROLLUP (x + ‹3›), x + ‹4›",
    "SELECT x FROM t GROUP BY ROLLUP (x, x + ‹1›) HAVING max(x) > ‹2› LIMIT ‹3›",
    "WITH a AS (SELECT ‹1› AS x), b AS (SELECT ‹2› AS x) SELECT ‹3› FROM a, b WHERE a.x < ‹4›",
    "WITH a(x) AS (VALUES ‹1›, ‹2›) SELECT ‹3›, (SELECT max(x) + ‹4› FROM a) FROM t LIMIT ‹5›",
    "WITH a AS (WITH b AS (SELECT ‹1› AS x) SELECT x + ‹2› FROM b) SELECT ‹3› FROM a",
    "SELECT ‹1› FROM (WITH a AS (SELECT ‹2› AS x) SELECT x, ‹3› FROM a LIMIT ‹4›) AS q",
    "VALUES (‹1›, ‹'b'›), (‹3›, ‹'d'›)",
    "SELECT * FROM (VALUES (‹1›, ‹2›), (‹3›, ‹4›)) AS v(a, b) WHERE a > ‹5›",
    "SELECT ‹1› UNION ALL SELECT ‹2› UNION SELECT ‹3› ORDER BY 1 LIMIT ‹4›",
    "(SELECT ‹1› LIMIT ‹2›) EXCEPT (SELECT ‹3› OFFSET ‹4›) LIMIT ‹5›",
    "SELECT ‹1› INTERSECT SELECT ‹2› OFFSET ‹3› LIMIT ‹4›",
    "WITH a AS (SELECT ‹1› AS x UNION ALL SELECT ‹2›) SELECT x FROM a UNION ALL SELECT ‹3›",
    "SELECT ‹1› FROM t JOIN u ON t.x = u.x + ‹2› LEFT JOIN v ON v.x > ‹3› WHERE t.x = ‹4›",
    "SELECT ‹1› FROM (SELECT x + ‹2› AS x FROM t) AS a JOIN (SELECT ‹3› AS x) AS b ON a.x = ‹4›",
    "SELECT ‹1›, x IN (SELECT x + ‹2› FROM u WHERE x > ‹3›), ‹4› FROM t",
    "SELECT ‹1› FROM t WHERE EXISTS (SELECT ‹2› FROM u WHERE u.x = t.x + ‹3›) AND x > ‹4›",
    "SELECT (SELECT ‹1› + max(x) FROM u WHERE x > ‹2›) + ‹3› FROM t",
    "SELECT ‹1› FROM t CROSS JOIN UNNEST(ARRAY[‹2›, ‹3›]) AS n(y) WHERE y < ‹4›",
    "SELECT ‹1› FROM t FOR VERSION AS OF ‹2› WHERE x > ‹3›",
    "SELECT ‹1› FROM t FOR TIMESTAMP AS OF TIMESTAMP '2024-01-01 00:00:00 UTC' WHERE x > ‹2›",
    "SELECT ‹1› FROM t FOR TIMESTAMP AS OF ‹'x'› WHERE x > ‹3›",
    "TABLE t ORDER BY x + ‹1› OFFSET ‹2› LIMIT ‹3›",
    # what only looks like one
    "SELECT '?', ‹1› AS \"a?\", 'it''s ?', \"a?\", \":no\", ':no', ‹2› FROM t WHERE \"a?\" = ‹3›",
    # what other dialects write
    "SELECT x FROM t LIMIT ‹1›, ‹2›",
    "SELECT TOP (‹1›) x FROM t WHERE x > ‹2›",
    "SELECT TOP ‹1› x FROM t WHERE x > ‹2›",
    "SELECT DISTINCT ON (x + ‹1›) x FROM t WHERE x > ‹2›",
    "SELECT ifnull(x, ‹1›), nvl(x, ‹2›), nvl2(x, ‹3›, ‹4›), decode(x, ‹5›, ‹6›, ‹7›) FROM t",
    "SELECT locate(‹'a'›, ‹'b'›), instr(‹'c'›, ‹'d'›), charindex(‹'e'›, ‹'f'›) FROM t",
    "SELECT iif(x > ‹1›, ‹2›, ‹3›), left(‹'d'›, ‹5›), right(‹'f'›, ‹7›) FROM t",
    "SELECT dateadd(day, ‹1›, d), datediff(day, ‹'2'›, d), date_add(d, INTERVAL ‹'3'› DAY) FROM t",
    "SELECT log(‹2›, ‹3›), pow(‹4›, ‹5›), mod(‹6›, ‹7›), ‹8› DIV ‹9› FROM t",
    "SELECT array_contains(a, ‹1›), list_contains(a, ‹2›), element_at(a, ‹3›), ‹4› FROM t",
    "SELECT ‹1› :: bigint, x :: varchar || ‹'b'›, ‹3› FROM t",
    "SELECT x FROM t WHERE s ILIKE ‹'a'› OR s RLIKE ‹'b'› OR regexp_like(s, ‹'c'›)",
    "SELECT string_agg(s, ‹'a'›), listagg(s, ‹'b'›) WITHIN GROUP (ORDER BY x + ‹3›) FROM t",
]
UNITS = ["SELECT date_trunc(‹'day'›, d), date_diff(‹'hour'›, d, d), ‹3› FROM t"]
"""Where a text must be written out in other dialects."""
DIALECTS = sorted(
    dialect.value
    for dialect in sqlglot.Dialects
    if dialect.value not in {"", "prql", "dax"}  # whose statements are written otherwise
)
SLOT = re.compile(r"‹(.*?)›")
NOT_SLOTS = (" ", "\n\t", "\r\n", " /* ? :no */ ", " -- '?' :no\n")


def values_of(form: str) -> list[Any]:
    return [text[1:-1] if text.startswith("'") else int(text) for text in SLOT.findall(form)]


def with_literals(form: str) -> str:
    return SLOT.sub(r"\1", form)


def with_marks(form: str) -> str:
    return SLOT.sub("?", form)


def with_names(form: str) -> tuple[str, dict[str, Any]]:
    """Each place has its name; the names sort in the reverse order."""
    values = values_of(form)
    names = [f"p{len(values) - i:02}" for i in range(len(values))]
    left = iter(names)
    return SLOT.sub(lambda _: f":{next(left)}", form), dict(zip(names, values, strict=True))


def tree_of(sql: str, values: Any = (), dialect: str | None = None) -> str:
    """The tree with its values filled in, as text; the name of the error if there is none."""
    try:
        query = parse.parse(sql, dialect=dialect)
        assert isinstance(query, parse.Query)
        return parameters.bind(query, values).sql("trino", comments=False)
    except SeamlineError as error:
        return error.code.name


def in_order(tree: str, form: str) -> list[str]:
    """The values of a form in the order in which they first occur in a tree, however written.

    A translation knows more about a literal than about a placeholder, so the trees may differ in a
    cast.
    """
    wanted = {str(value) for value in values_of(form)}
    found = re.findall(r"(?<![\w'])(?:'([^']*)'|(\d+))(?![\w'])", tree)
    return [v for v in dict.fromkeys(text or number for text, number in found) if v in wanted]


# --- The order of the text ------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS + UNITS)
def test_a_value_stands_where_it_was_written(form: str) -> None:
    expected = tree_of(with_literals(form))
    assert tree_of(with_marks(form), values_of(form)) == expected
    if expected != "SYNTAX_ERROR":
        assert tree_of(*with_names(form)) == expected


@pytest.mark.one_in(test=8)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect(dialect: str) -> None:
    read = 0
    for form in FORMS:
        expected = tree_of(with_literals(form), dialect=dialect)
        if expected in {"SYNTAX_ERROR", "STATEMENT_NOT_ALLOWED"}:
            continue
        read += 1
        by_mark = tree_of(with_marks(form), values_of(form), dialect)
        assert in_order(by_mark, form) == in_order(expected, form)
        if dialect != "duckdb":  # which writes names otherwise
            named, values = with_names(form)
            assert tree_of(named, values, dialect) == by_mark
    assert read > len(FORMS) * 3 // 4


# --- Put together at random -----------------------------------------------------------------------

# ‹n› stands for a number, ‹t› for a text, ‹c› for a condition, ‹q› for a query; `#` is
# a parameter that is a number, `@` one that is a text.
TEMPLATES = {
    "n": ["#", "x", "(‹n› + ‹n›)", "coalesce(‹n›, ‹n›)", "CASE WHEN ‹c› THEN ‹n› ELSE ‹n› END",
          "position(‹t› IN ‹t›)", "(SELECT max(x) FROM (‹q›) AS q)"],
    "t": ["@", "s", "trim(‹t› FROM ‹t›)", "substring(‹t› FROM ‹n› FOR ‹n›)"],
    "c": ["‹n› = ‹n›", "‹n› BETWEEN ‹n› AND ‹n›", "‹n› IN (‹n›, ‹n›)", "‹t› LIKE ‹t› ESCAPE @",
          "(‹c› OR ‹c›)", "EXISTS (‹q›)"],
    "q": ["‹Q›", "(‹Q›) UNION ALL ‹Q›", "(‹Q›) EXCEPT (VALUES (‹n›, ‹t›))"],
}  # fmt: skip
CLAUSES = ["WITH a AS (‹q›) ", "SELECT DISTINCT ‹n› AS x", ", ‹t› AS s", " FROM t JOIN u ON ‹c›",
           " WHERE ‹c›", " GROUP BY x, s, ‹n›", " HAVING ‹c›", " ORDER BY ‹n›", " OFFSET #",
           " LIMIT #"]  # fmt: skip


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query whose parts are drawn, the deeper the plainer."""

    def part(kind: str, depth: int) -> str:
        if kind == "Q":
            text = "".join(
                clause
                for clause in CLAUSES
                if clause.startswith("SELECT") or (depth < 4 and draw(st.integers(0, depth)) == 0)
            )
        else:
            choices = TEMPLATES[kind]
            text = draw(st.sampled_from(choices if depth < 4 else choices[:1]))
        return re.sub("‹(.)›", lambda inner: part(inner[1], depth + 1), text)

    return part("q", 0)


def numbered(text: str) -> str:
    """A number for each `#` and a text for each `@`, all different."""
    count = itertools.count(1)
    values = {"#": "‹{}›", "@": "‹'v{}'›"}
    return re.sub("[#@]", lambda mark: values[mark[0]].format(next(count)), text)


def spread(text: str, draw: st.DataObject) -> str:
    """The text over lines, with comments before and after each placeholder."""
    gaps = draw.draw(st.lists(st.sampled_from(NOT_SLOTS), min_size=1, max_size=7))
    left = itertools.cycle(gaps)
    return re.sub(r" (?=[?:])|(?<=\?) |(?<=:p\d\d) ", lambda _: next(left), text)


@examples(200)
@given(queries(), st.data())
def test_clauses_and_expressions_at_random(query: str, data: st.DataObject) -> None:
    form = numbered(query)
    expected = tree_of(with_literals(form))
    assert expected not in ERRORS, with_literals(form)
    assert tree_of(spread(with_marks(form), data), values_of(form)) == expected
    named, values = with_names(form)
    assert tree_of(spread(named, data), values) == expected


# --- Through a gateway ----------------------------------------------------------------------------

T = "(VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')) AS t(x, s)"


@pytest.mark.parametrize(
    ("sql", "values", "rows"),
    [
        (f"SELECT x FROM {T} ORDER BY x OFFSET ? LIMIT ?", [1, 2], [(2,), (3,)]),
        (f"SELECT x FROM {T} ORDER BY x OFFSET ? ROWS FETCH FIRST ? ROWS ONLY", [3, 1], [(4,)]),
        ("SELECT position(? IN ?)", ["c", "abc"], [(3,)]),
        ("SELECT trim(? FROM ?)", ["x", "xax"], [("a",)]),
        (
            f"WITH w AS (SELECT x + ? AS x FROM {T}) SELECT ? FROM w WHERE x = ?",
            [10, 7, 15],
            [(7,)],
        ),
        (
            f"SELECT x % ? FROM {T} GROUP BY x % ? HAVING count(*) = ? ORDER BY max(x) + ?",
            [2, 2, 2, 1],
            [(0,)],
        ),
        (
            f"SELECT ? FROM {T} WHERE x = (WITH w AS (SELECT ? AS y) SELECT y + ? FROM w)",
            [1, 2, 3],
            [(1,)],
        ),
        (
            "SELECT DATE '2024-01-31' + INTERVAL ? DAY, ?",
            [-1, 2],
            [(datetime.date(2024, 1, 30), 2)],
        ),
    ],
)
def test_rows(
    offline_gateway: Gateway, sql: str, values: list[Any], rows: list[tuple[Any, ...]]
) -> None:
    assert offline_gateway.rows(sql, parameters=values) == rows


@pytest.mark.one_in(test=8)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_subscript_counts_as_its_dialect_does(offline_gateway: Gateway, dialect: str) -> None:
    """Whether it is a literal, a value or a column."""
    array = (
        "[10, 20, 30]" if dialect in {"bigquery", "clickhouse", "duckdb"} else "ARRAY[10, 20, 30]"
    )
    table = f"(SELECT 2 AS i, {array} AS a) AS t"
    try:
        expected = offline_gateway.rows(f"SELECT a[2] FROM {table}", dialect=dialect)
    except SeamlineError as error:
        assert error.code.name in {"SYNTAX_ERROR", "COLUMN_NOT_FOUND", "NOT_SUPPORTED"}
        return
    first = sqlglot.Dialect.get_or_raise(dialect).INDEX_OFFSET
    assert expected == [(30 if first == 0 else 20,)]
    for index, values in (("?", [2]), ("i", []), ("? + ?", [1, 1])):
        found = offline_gateway.rows(
            f"SELECT a[{index}] FROM {table}", dialect=dialect, parameters=values
        )
        assert found == expected, index


def test_the_key_of_a_map_is_no_place(offline_gateway: Gateway) -> None:
    sql = "SELECT MAP(ARRAY[2], ARRAY[7])[{}]"
    assert offline_gateway.rows(sql.format("2"), dialect="mysql") == [(7,)]
    assert offline_gateway.rows(sql.format("?"), dialect="mysql", parameters=[2]) == [(7,)]


@pytest.mark.parametrize(
    ("sql", "values", "place"),
    [
        ("SELECT ?,\n  ? + nope", [1, 2], Location(2, 7)),
        ("SELECT ? -- ?\n,\n ?,\tnope FROM (VALUES ?) AS t(x)", [1, 2, 3], Location(3, 5)),
        ("EXPLAIN SELECT ?,\n nope LIMIT ?", [1, 2], Location(2, 2)),
        ("SELECT ?,\n\n ? + FROM t", [1, 2], Location(3, 6)),
    ],
)
def test_an_error_has_its_place_beside_placeholders(
    offline_gateway: Gateway, sql: str, values: list[Any], place: Location
) -> None:
    error = offline_gateway.statement(sql, parameters=values).error
    assert error is not None
    assert error.location == place, error


def test_explain_takes_values_in_the_order_of_the_text(offline_gateway: Gateway) -> None:
    sql = f"EXPLAIN ANALYZE SELECT x FROM {T} ORDER BY x OFFSET ? LIMIT ?"
    lines = [row[0] for row in offline_gateway.rows(sql, parameters=[3, 1])]
    assert "1 rows" in lines[-1]


def test_an_error_of_a_translated_statement_has_no_place_in_the_translation(
    offline_gateway: Gateway,
) -> None:
    error = offline_gateway.statement("SELECT  1,\n `nope`", dialect="mysql").error
    assert error is not None
    assert (error.code.name, error.location) == ("COLUMN_NOT_FOUND", None)


# --- Their JSON form -----------------------------------------------------------------------------

KINDS = [
    *("decimal", "date", "time", "time with time zone", "timestamp", "timestamp with time zone"),
    *("double", "varbinary"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*KINDS, "uuid", "row"]) | JSON, JSON)
def test_whatever_json_holds_it_is_a_value_or_refused_by_name(kind: Any, value: Any) -> None:
    try:
        parameters.from_json([{"type": kind, "value": value}])
    except SeamlineError as error:
        assert error.code is ERRORS["INVALID_PARAMETERS"]


def test_a_time_keeps_its_offset() -> None:
    sent = {"type": "time with time zone", "value": "10:00:00.5-03:30"}
    node = parameters.literal(parameters.from_json(sent))
    assert node.sql("trino") == "CAST('10:00:00.500000-03:30' AS TIME(6) WITH TIME ZONE)"


@pytest.mark.parametrize(
    "text", ["1e5000000000", "-1e-5000000000", "1e1001", "0e9999999", "1e-1001"]
)
def test_a_short_decimal_of_many_digits_is_refused_at_once(text: str) -> None:
    value = parameters.from_json({"type": "decimal", "value": text})
    with pytest.raises(SeamlineError) as caught:
        parameters.literal(value)
    assert caught.value.code is ERRORS["INVALID_PARAMETERS"]


def test_lists_in_lists_without_end_are_refused() -> None:
    value: list[Any] = [1]
    for _ in range(100_000):
        value = [value]
    with pytest.raises(SeamlineError) as caught:
        parameters.literal(value)
    assert caught.value.code is ERRORS["INVALID_PARAMETERS"]
    while value != [1]:  # else Python ends with it in a recursion of its own
        value = value[0]

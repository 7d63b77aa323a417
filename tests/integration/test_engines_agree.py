"""Goal: both engines compute the same, value by value.

Method: expressions made by generators (calls inside calls, casts there and back, decimals of
random types) are asked of DuckDB one by one, where properties check them against an oracle; those
that have a value are combined in a few statements for Spark, which takes its time to plan one.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from support import large, nesting, statements, texts
from support.gateway import Gateway

from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.binder.qualify import qualify, references
from seamline.sql.parsing import parameters, parse

pytestmark = [pytest.mark.spark, pytest.mark.integration]

BATCH = 40
EVERY = pytest.mark.parametrize(
    "every", [48, pytest.param(1, marks=pytest.mark.soak)], ids=("some", "all")
)
"""One in this many expressions is asked."""
ENGINE_ERRORS = {"INTERNAL_ERROR", "SPARK_FAILED"}


def disagreements(
    gateway: Gateway, expressions: list[str]
) -> tuple[int, list[tuple[str, str, str]]]:
    """How many have a value; each of these that Spark computes otherwise, and both answers."""
    answers: dict[str, Any] = {}
    for start in range(0, len(expressions), BATCH):
        answers |= values(gateway, expressions[start : start + BATCH])
    wrong = []
    for start in range(0, len(answers), BATCH):
        batch = list(answers.items())[start : start + BATCH]
        (row,) = gateway.rows(f"SELECT {', '.join(sql for sql, _ in batch)}", "spark")
        wrong += [
            (sql, repr(expected), repr(found))
            for (sql, expected), found in zip(batch, row, strict=True)
            if not same(expected, found)
        ]
    return len(answers), wrong


def values(gateway: Gateway, expressions: list[str]) -> dict[str, Any]:
    """Those that have a value on DuckDB, with it: half by half, where something in them fails."""
    try:
        (row,) = gateway.rows(f"SELECT {', '.join(expressions)}", "duckdb")
    except SeamlineError as error:
        assert error.code.name not in ENGINE_ERRORS, (expressions, error)
        if len(expressions) == 1:
            return {}
        middle = len(expressions) // 2
        return values(gateway, expressions[:middle]) | values(gateway, expressions[middle:])
    return dict(zip(expressions, row, strict=True))


def same(one: Any, other: Any) -> bool:
    """Powers and logarithms may differ in their last digit."""
    if isinstance(one, float) and isinstance(other, float) and math.isfinite(one):
        return math.isclose(one, other, rel_tol=1e-12)
    return repr(one) == repr(other)


@pytest.mark.soak
@EVERY
def test_nested_calls_agree(gateway: Gateway, every: int) -> None:
    calls = []
    for resolved, place in nesting.scalars():
        pair = nesting.statements(resolved, place, 3)
        if pair is not None:
            calls.append(f"({pair[0]})")
    for one, other in itertools.permutations(nesting.SAMPLES, 2):
        if nesting.converts(one, other) and nesting.converts(other, one):
            cast = f"TRY_CAST(TRY_CAST(v.x AS {other}) AS {one})"
            calls.append(f"(SELECT {cast} FROM (VALUES {nesting.SAMPLES[one]}) AS v(x))")
    count, wrong = disagreements(gateway, calls[::every])
    assert not wrong
    assert count > 100 // every


@pytest.mark.soak
@EVERY
def test_decimals_agree(gateway: Gateway, every: int) -> None:
    chosen = random.Random(20)

    def operand() -> str:
        precision = chosen.randint(1, 38)
        scale = chosen.randint(0, precision)
        digits = str(chosen.randint(0, 10 ** chosen.randint(1, precision) - 1)).rjust(
            scale + 1, "0"
        )
        point = len(digits) - scale
        sign = chosen.choice(["", "-"])
        text = f"{sign}{digits[:point]}.{digits[point:]}" if scale else f"{sign}{digits}"
        return f"CAST('{text}' AS decimal({precision},{scale}))"

    forms = ["{0} / {1}", "{0} * {1}", "{0} + {1}", "{0} - {1}", "round({0}, {n})",
             "round({0}, CAST('{n}' AS integer))", "CAST({0} AS varchar)",
             "(SELECT avg(x) FROM (VALUES ({0}), (NULL), ({0} - {0})) AS t(x))",
             "(SELECT sum(x) / count(*) FROM (VALUES ({0}), ({0})) AS t(x))"]  # fmt: skip
    expressions = [
        form.format(operand(), operand(), n=chosen.randint(-20, 40))
        for form in forms
        for _ in range(20)
    ]
    asked = expressions[:: -(-every // 6)]
    count, wrong = disagreements(gateway, asked)
    assert not wrong
    assert count > len(asked) * 4 // 9


CORRELATED = statements.EXPRESSIONS["correlated subquery"]
REFUSED = (CORRELATED, "GROUPS", "RECURSIVE", "lag(", "nth_value(")
"""What Spark refuses by name, some of it in some places."""
EVALUATION = {"NUMERIC_OVERFLOW", "DIVISION_BY_ZERO", "INVALID_CAST", "SUBQUERY_MULTIPLE_ROWS"}
"""What depends on which rows an engine computes; one that needs a row not at all may not fail."""


def outcome(gateway: Gateway, sql: str, engine: str) -> tuple[str, list[str]]:
    try:
        return "rows", sorted(map(repr, gateway.rows(sql, engine)))
    except SeamlineError as error:
        return error.code.name, []


def reaches_an_engine(sql: str) -> bool:
    try:
        query = parse.parse(sql)
        assert isinstance(query, parse.Query)
        tree = parameters.bind(query, [])
        if references(tree):
            return False
        qualify(tree, [], now=nesting.NOW)
    except SeamlineError:
        return False
    return True


@EVERY
def test_statements_agree(gateway: Gateway, every: int) -> None:
    """Of all that reaches an engine, a part: every clause, every expression, every statement."""
    found = [sql for sql in statements.all_statements() if reaches_an_engine(sql)]
    chosen = [sql for i, sql in enumerate(found) if i % (2 * every) == 0 or sql in statements.WHOLE]
    wrong = []
    for sql in chosen:
        ours, sparks = (outcome(gateway, sql, engine) for engine in ("duckdb", "spark"))
        names = {ours[0], sparks[0]}
        assert not names & ENGINE_ERRORS, sql
        is_refused = sparks[0] == "NOT_SUPPORTED" and any(part in sql for part in REFUSED)
        if ours != sparks and not is_refused and not names & EVALUATION:
            wrong.append((sql, ours, sparks))
    assert not wrong
    assert len(chosen) > 30


NUMBERS = {
    "tinyint": ("127", "-128"),
    "smallint": ("32767", "-128"),
    "integer": ("2147483647", "-2147483648"),
    "bigint": ("9223372036854775807", "-1000"),
    "real": ("1e30", "nan()", "-infinity()", "300"),
    "double": ("1e300", "nan()", "infinity()", "40000"),
    "decimal(5,2)": ("999.99", "-129"),
    "decimal(20,0)": ("99999999999999999999", "-2147483649"),
    "decimal(38,10)": ("9999999999999999999999999999.9999999999", "0.5"),
    "varchar": ("'99999999999999999999'", "'1000.5'", "'1e400'", "'x'", "''"),
}


@pytest.mark.soak
def test_failing_casts_have_one_name(gateway: Gateway) -> None:
    casts = [
        f"SELECT CAST(CAST({value} AS {source}) AS {target}) FROM (VALUES 1) AS t(x)"
        for source, values in NUMBERS.items()
        for value in values
        for target in NUMBERS
        if target not in (source, "varchar")
    ]
    names = {sql: outcome(gateway, sql, "duckdb")[0] for sql in casts}
    failing = {sql: name for sql, name in names.items() if name != "rows"}
    wrong = []
    for sql, name in failing.items():
        found = outcome(gateway, sql, "spark")[0]
        if found != name:
            wrong.append((sql, name, found))
    assert not wrong
    assert len(failing) > 50
    assert set(failing.values()) == {"INVALID_CAST", "NUMERIC_OVERFLOW"}


@pytest.mark.soak
@pytest.mark.prove
@pytest.mark.parametrize("name", large.ON_SPARK)
def test_large_statements_have_an_answer_or_a_name(gateway: Gateway, name: str) -> None:
    sql, answer = (large.ANSWERED | large.EITHER)[name]
    found, rows = outcome(gateway, sql, "spark")
    assert found in {"rows", "STATEMENT_TOO_LARGE", "SYNTAX_ERROR"}
    assert found != "rows" or rows == [repr((answer,))]


# --- Texts ---------------------------------------------------------------------------------------


def columns_that_differ(gateway: Gateway, expressions: list[str], source: str) -> dict[str, Any]:
    """Of each expression that the engines compute otherwise, the first rows that differ."""
    sql = f"SELECT i, {', '.join(expressions)} FROM {source} ORDER BY i"
    ours, sparks = (gateway.rows(sql, engine) for engine in ("duckdb", "spark"))
    assert len(ours) == len(sparks) > 0
    wrong: dict[str, Any] = {}
    for one, other in zip(ours, sparks, strict=True):
        for sql, expected, found in zip(expressions, one[1:], other[1:], strict=True):
            if repr(expected) != repr(found):
                wrong.setdefault(sql, []).append((one[0], expected, found))
    return {sql: found[:5] for sql, found in wrong.items()}


def test_texts_are_converted_alike(gateway: Gateway) -> None:
    casts = []
    for target in texts.TARGETS:
        cast = f"TRY_CAST(x AS {target})"
        is_moment = target == types.DATE or isinstance(target, types.Timestamp)
        casts.append(f"CAST({cast} AS varchar)" if is_moment else cast)  # Python knows no year 0
    source = texts.source(texts.ALL, "t(i, x)")
    assert columns_that_differ(gateway, casts, source) == {}


@EVERY
def test_functions_of_texts_agree(gateway: Gateway, every: int) -> None:
    def only(*letters: str) -> str:
        return (
            "(SELECT (a.i * 100 + b.j) * 10 + c.n AS i, x, y, n"
            f" FROM {texts.source(letters, 'a(i, x)')}"
            f" CROSS JOIN {texts.source(texts.PARTS, 'b(j, y)')}"
            f" CROSS JOIN (VALUES {', '.join(map(str, texts.COUNTS))}) AS c(n)) AS v"
        )

    rows = only(*texts.LETTERS)
    answered: list[str] = []
    refused: list[str] = []
    for sql in itertools.islice(texts.calls(), None, None, every):
        (answered if failure(gateway, sql, rows, "duckdb") is None else refused).append(sql)
    assert columns_that_differ(gateway, answered, rows) == {}
    for sql in refused:  # some of the texts: these by both engines, and by the same name
        name = failure(gateway, sql, rows, "duckdb")
        assert name not in ENGINE_ERRORS, sql
        assert failure(gateway, sql, rows, "spark") == name, sql
        taken = [text for text in texts.LETTERS if not failure(gateway, sql, only(text), "duckdb")]
        if taken:
            assert columns_that_differ(gateway, [sql], only(*taken)) == {}


def failure(gateway: Gateway, expression: str, source: str, engine: str) -> str | None:
    """The name of the error that computing it over all rows ends with."""
    statement = gateway.statement(f"SELECT count({expression}) FROM {source}", engine)
    return None if statement.error is None else statement.error.code.name


@pytest.mark.parametrize("plane", [0, 1])
def test_every_letter_has_the_same_case(gateway: Gateway, plane: int) -> None:
    """All characters in one text, each between two others, then each between blanks."""
    codes = range(max(160, plane << 16), (plane + 1) << 16)
    characters = "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
    for text in (characters, " ".join(characters)):
        sql = f"SELECT upper(x), lower(x) FROM (VALUES '{text}') AS t(x)"
        ours, sparks = (gateway.rows(sql, engine)[0] for engine in ("duckdb", "spark"))
        assert ours == sparks

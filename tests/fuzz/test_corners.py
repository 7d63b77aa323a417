"""Goal: at the corners of values, Seamline answers as Trino does, on both engines.

Method: `corners.txt` has what a real Trino answered to questions drawn from a seed (`corners.py`);
`python -m fuzz.record` asks again. The rows of `numbers` are in several files, whose statistics the
planner prunes by. Conditions are asked in SELECT, in WHERE and negated: a row is kept if the
condition is true of it.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from support.gateway import statement_rows
from support.offline import MemoryWorld

from fuzz import corner_answers, corners
from seamline.errors import ErrorKind
from seamline.gateway.statements.statement import Statement
from seamline.sql.types import arrow_field

ANSWERS = corner_answers.read()
TOGETHER = 25
ROWS_OF_A_FILE = 9
EVERY = 5
"""One in this many questions is asked in the first pass."""
WHERE_EVERY = 3
"""One in this many conditions is also asked in WHERE."""
ALONE = {"duckdb": 1, "spark": 16}
"""One in this many questions that have a statement of their own, queries and errors, is asked."""
PASSES = pytest.mark.parametrize(
    "every", [EVERY, pytest.param(1, marks=pytest.mark.prove)], ids=("some", "all")
)
Ask = Callable[[str], Statement]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path_factory.mktemp("corners"))
    schema = pa.schema([arrow_field(field) for field in corners.FIELDS])
    columns = zip(*corners.numbers(), strict=True)
    rows = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
    world.catalog.create_namespace("default")
    table = world.catalog.create_table("default.numbers", schema)
    for start in range(0, rows.num_rows, ROWS_OF_A_FILE):
        table.append(rows.slice(start, ROWS_OF_A_FILE))
    yield world
    world.gateway.close()


def test_what_was_recorded_is_what_is_drawn() -> None:
    assert set(ANSWERS) == set(corner_answers.SECTIONS)
    for section, questions in corners.drawn().items():
        assert set(ANSWERS[section]) <= set(questions), section
        assert len(ANSWERS[section]) > len(set(questions)) * 0.7, section


@PASSES
@pytest.mark.parametrize("section", corner_answers.SECTIONS)
def test_corners_on_duckdb(world: MemoryWorld, section: str, every: int) -> None:
    _assert_alike(section, world, "duckdb", every)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("every", [4, 1], ids=("some", "all"))
@pytest.mark.parametrize("section", corner_answers.SECTIONS)
def test_corners_on_spark(world: MemoryWorld, section: str, every: int) -> None:
    _assert_alike(section, world, "spark", every)


@PASSES
def test_where_keeps_the_rows_of_which_a_condition_is_true(world: MemoryWorld, every: int) -> None:
    for condition, truths in list(ANSWERS["conditions"].items())[:: every * WHERE_EVERY]:
        for sql, letter in ((condition, "t"), (f"NOT {condition}", "f")):
            expected = [n for n, truth in enumerate(truths) if truth == letter]
            rows = world.rows(f"SELECT n FROM numbers WHERE {sql} ORDER BY n", engine="duckdb")
            assert [n for (n,) in rows] == expected, sql


def _assert_alike(section: str, world: MemoryWorld, engine: str, every: int) -> None:
    ask = functools.partial(world.gateway.statement, engine=engine)
    answers = _asked(section, every, ALONE[engine])
    found = _FOUND[section](list(answers), ask, answers)
    refused = {question for question, answer in found.items() if answer == _REFUSED}
    assert len(refused) < len(answers) * _REFUSED_MAX[engine], refused
    wrong = [
        f"{question}\n  Trino: {answer}\n  here:  {found[question]}"
        for question, answer in answers.items()
        if question not in refused
        and found[question] != answer
        and not _both_fail(found[question], answer)
    ]
    assert not wrong, f"{len(wrong)} of {len(answers)}\n" + "\n".join(wrong[:60])


def _asked(section: str, every: int, alone: int) -> dict[str, str]:
    """One in some questions, and fewer of those that have a statement of their own."""
    items = ANSWERS[section].items()
    errors = [item for item in items if corner_answers.is_error(item[1])]
    if section == "queries":
        return dict(list(items)[:: max(every, alone)])
    others = [item for item in items if not corner_answers.is_error(item[1])]
    return dict([*others[::every], *errors[:: every * alone]])


_REFUSED = corner_answers.error("NOT_SUPPORTED")
_REFUSED_MAX = {"duckdb": 0.01, "spark": 0.1}
"""How many questions an engine may refuse by name, as it reads columns of queries further out."""


def _both_fail(one: str, other: str) -> bool:
    """Whether both are errors, and ours is one of the user's."""
    return all(map(corner_answers.is_error, (one, other))) and not one.endswith(_NOT_USERS)


_NOT_USERS = "NOT_THE_USERS"


def _conditions(questions: Sequence[str], ask: Ask, _: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _parts(questions):
        statement = ask(f"SELECT n, {', '.join(part)} FROM numbers ORDER BY n")
        if statement.error is not None:
            if len(part) == 1:
                found[part[0]] = corner_answers.error(statement.error.code.name)
            else:
                for half in _halves(part):
                    found |= _conditions(half, ask, {})
            continue
        rows = statement_rows(statement)
        for place, question in enumerate(part, 1):
            found[question] = corner_answers.truths([(row[place],) for row in rows])
    return found


def _calls(questions: Sequence[str], ask: Ask, answers: dict[str, str]) -> dict[str, str]:
    """The values of calls; those that must fail are asked one by one."""
    groups = collections.defaultdict(list)
    for question in questions:
        groups[corner_answers.is_error(answers[question])].append(question)
    found: dict[str, str] = {}
    for part in [*_parts(groups[False]), *([one] for one in groups[True])]:
        statement = ask(f"SELECT {', '.join(part)}")
        if statement.error is None:
            (row,) = statement_rows(statement)
            texts = map(corner_answers.value_text, row, (str(c.type) for c in statement.output))
            found |= zip(part, texts, strict=True)
        elif len(part) > 1:
            for half in _halves(part):
                found |= _calls(half, ask, dict.fromkeys(half, ""))
        else:
            code = statement.error.code
            is_users = code.kind is ErrorKind.USER
            found[part[0]] = corner_answers.error(code.name if is_users else _NOT_USERS)
    return found


def _queries(questions: Sequence[str], ask: Ask, _: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for question in questions:
        statement = ask(question)
        if statement.error is not None:
            found[question] = corner_answers.error(statement.error.code.name)
            continue
        kinds = [str(column.type) for column in statement.output]
        found[question] = corner_answers.rows_text(statement_rows(statement), kinds)
    return found


_FOUND: dict[str, Callable[[Sequence[str], Ask, dict[str, str]], dict[str, Any]]] = {
    "conditions": _conditions,
    "calls": _calls,
    "queries": _queries,
}


def _parts(questions: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(questions), TOGETHER):
        yield questions[start : start + TOGETHER]


def _halves(questions: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    half = len(questions) // 2
    return questions[:half], questions[half:]

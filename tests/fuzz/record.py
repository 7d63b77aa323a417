"""`python -m fuzz.record`: asks a real Trino the questions of `corners`, and writes its answers.

What Trino itself refuses to analyse is left out, and so is what Seamline refuses by name.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import trino
from support.engine_tables import bound
from support.trino_server import VERSION, trino_server

from fuzz import corner_answers, corners
from seamline.errors import NOT_SUPPORTED, SYNTAX_ERROR, TYPE_MISMATCH, SeamlineError

_TOGETHER = 20
_NOT_ASKED = frozenset(
    {"FUNCTION_NOT_FOUND", "SYNTAX_ERROR", "TYPE_MISMATCH", "NOT_SUPPORTED",
     "AMBIGUOUS_FUNCTION_CALL", "GENERIC_INTERNAL_ERROR", "COMPILER_ERROR"}
)  # fmt: skip
"""Errors of Trino that say nothing of a value."""


class Judge:
    """A Trino.

    Args:
        url: Its address.
    """

    def __init__(self, url: str) -> None:
        address = urllib.parse.urlsplit(url)
        self._connection = trino.dbapi.connect(  # type: ignore[no-untyped-call]
            host=address.hostname, port=address.port, user="tests", timezone="UTC"
        )
        self._numbers = f"WITH numbers AS ({corners.numbers_query()}) "

    def answers(self, sql: str) -> tuple[list[str], list[Any]]:
        """Types and rows of a query over `numbers`.

        Raises:
            trino.exceptions.TrinoQueryError: what it ended with.
        """
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(self._numbers + sql)
            rows = cursor.fetchall()
            return [column[1] for column in cursor.description], rows


def conditions(judge: Judge, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The truth of each condition in each row."""
    for part in _parts(questions):
        try:
            _, rows = judge.answers(f"SELECT {', '.join(part)} FROM numbers ORDER BY n")
        except trino.exceptions.TrinoQueryError as error:
            if len(part) > 1:
                yield from conditions(judge, part[: len(part) // 2])
                yield from conditions(judge, part[len(part) // 2 :])
            else:
                _say(str(error.error_name), part[0])
            continue
        for place, question in enumerate(part):
            yield question, corner_answers.truths([[row[place]] for row in rows])


def calls(judge: Judge, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The value of each call, or its error."""
    for part in _parts(questions):
        try:
            types, (row,) = judge.answers(f"SELECT {', '.join(part)}")
        except trino.exceptions.TrinoQueryError as error:
            if len(part) > 1:
                yield from calls(judge, part[: len(part) // 2])
                yield from calls(judge, part[len(part) // 2 :])
            elif error.error_name in _NOT_ASKED:
                _say(str(error.error_name), part[0])
            else:
                yield part[0], corner_answers.error(str(error.error_name))
            continue
        for question, value, type_ in zip(part, row, types, strict=True):
            yield question, corner_answers.value_text(value, type_)


def queries(judge: Judge, questions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The rows of each query."""
    for question in questions:
        try:
            types, rows = judge.answers(question)
        except trino.exceptions.TrinoQueryError as error:
            _say(str(error.error_name), question)
            continue
        yield question, corner_answers.rows_text(rows, types)


def _parts(questions: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(questions), _TOGETHER):
        yield questions[start : start + _TOGETHER]


def _offered(questions: Iterable[str], statement: str) -> list[str]:
    """Questions that Seamline does not refuse by name, each once."""
    found = []
    for question in dict.fromkeys(questions):
        try:
            bound(statement.format(question), {"numbers": corners.FIELDS})
        except SeamlineError as error:
            if error.code in {NOT_SUPPORTED, SYNTAX_ERROR, TYPE_MISMATCH}:
                continue
        found.append(question)
    return found


def _say(error: str, question: str) -> None:
    print(f"left out ({error}): {question}", file=sys.stderr)


@contextlib.contextmanager
def _judge(url: str | None) -> Iterator[Judge]:
    if url is not None:
        yield Judge(url)
        return
    with tempfile.TemporaryDirectory() as folder, trino_server(pathlib.Path(folder), {}) as server:
        yield Judge(server.url)


def main() -> int:
    """Records what is not recorded yet, or all answers."""
    parser = argparse.ArgumentParser(prog="fuzz.record", description=__doc__)
    parser.add_argument("--url", help="a Trino that is running; otherwise one is started")
    parser.add_argument("--anew", action="store_true", help="ask also what is recorded")
    asked = parser.parse_args()
    before = {} if asked.anew else corner_answers.read()
    sections = {}
    with _judge(asked.url) as judge:
        for section, (statement, ask) in _SECTIONS.items():
            known = before.get(section, {})
            questions = _offered(corners.drawn()[section], statement)
            answers = dict(ask(judge, [q for q in questions if q not in known]))
            sections[section] = {q: a for q in questions if (a := answers.get(q, known.get(q)))}
    corner_answers.write(sections, VERSION)
    return 0


_SECTIONS = {
    "conditions": ("SELECT {} FROM numbers", conditions),
    "calls": ("SELECT {}", calls),
    "queries": ("{}", queries),
}


if __name__ == "__main__":
    sys.exit(main())

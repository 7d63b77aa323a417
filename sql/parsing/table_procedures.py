"""ALTER TABLE … EXECUTE: the procedures that a table has, and their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    SYNTAX_ERROR,
    Location,
    SeamlineError,
)
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.queries import query_of
from seamline.sql.parsing.statements import MaintainTable, Query
from seamline.sql.parsing.words import Words


class _Parameter(NamedTuple):
    """What an argument must be, an example, and how its text is read; None if it cannot be."""

    what: str
    example: str
    read: Callable[[str], float | None]
    is_text: bool = True


def _measured(units: Mapping[str, float]) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]+)\s*", text)
        unit = units.get(match[2]) if match is not None else None
        return float(match[1]) * unit if match is not None and unit is not None else None

    return read


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text) and int(text) > 0 else None


_SIZE = _Parameter(
    "a size",
    "'100MB'",
    _measured({unit: 1024.0**n for n, unit in enumerate(("B", "kB", "MB", "GB", "TB", "PB"))}),
)
_DURATION = _Parameter(
    "a duration",
    "'7d'",
    _measured(
        {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    ),
)
_COUNT = _Parameter("a whole number above zero", "10", _count, is_text=False)

_FLAG = _Parameter("a boolean", "true", {"true": 1.0, "false": 0.0}.get, is_text=False)

_PROCEDURES: Mapping[str, Mapping[str, _Parameter]] = {
    "optimize": {"file_size_threshold": _SIZE},
    "optimize_manifests": {},
    "expire_snapshots": {"retention_threshold": _DURATION, "retain_last": _COUNT},
    "remove_orphan_files": {"retention_threshold": _DURATION},
    "resume": {"accept_loss": _FLAG},
}
"""The procedures, and their parameters in order."""

_INSTEAD = {
    "drop_extended_stats": "There are none: Iceberg keeps statistics with every file.",
    "rollback_to_snapshot": "CREATE OR REPLACE TABLE t AS SELECT … FOR VERSION AS OF a snapshot.",
    "add_files": "Spark's procedure add_files adds files to a table in place.",
    "add_files_from_table": "Spark's procedure add_files adds a table's files in place.",
}
"""Trino's procedures that are not offered, and the remedy for each."""


def read(
    words: Words, name: tuple[str, ...], location: Location | None, *, if_exists: bool
) -> MaintainTable:
    """Parses the rest of ALTER TABLE name EXECUTE.

    Args:
        words: The words after EXECUTE.
        name: The table's name.
        location: The location of the name.
        if_exists: Whether the table may be absent.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_NOT_ALLOWED, NOT_SUPPORTED, INVALID_ARGUMENT.
    """
    at = words.location()
    procedure = words.identifier().lower()
    parameters = _PROCEDURES.get(procedure)
    if parameters is None:
        raise _unknown(procedure, at)
    arguments = _arguments(words, procedure, parameters) if words.take("(") else {}
    query, at = None, words.location(1)
    if words.peek() == "WHERE":
        if procedure != "optimize":
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{procedure} takes no condition",
                location=words.location(),
                hint="It concerns the whole table; only optimize can be restricted by WHERE.",
            )
        query = _query(words, name)
    return MaintainTable(
        name, procedure, tuple(arguments.items()), query, if_exists, at, location=location
    )


def _unknown(procedure: str, location: Location | None) -> SeamlineError:
    if procedure in _INSTEAD:
        hint = _INSTEAD[procedure]
        return SeamlineError(
            NOT_SUPPORTED, f"{procedure} is not supported", location=location, hint=hint
        )
    return SeamlineError(
        STATEMENT_NOT_ALLOWED,
        f"a table has no procedure {procedure}",
        location=location,
        hint=did_you_mean(procedure, _PROCEDURES)
        or f"The procedures are {', '.join(_PROCEDURES)}.",
    )


def _arguments(
    words: Words, procedure: str, parameters: Mapping[str, _Parameter]
) -> dict[str, float]:
    """Reads arguments up to the closing parenthesis: by name, or in the order of the parameters."""
    arguments: dict[str, float] = {}
    by_name = words.peek(1) == "=>"
    while not words.take(")"):
        if arguments:
            words.require(",")
            if words.peek() == ")":
                raise words.unexpected_next("an argument")
        location = words.location()
        if by_name != (words.peek(1) == "=>"):
            raise SeamlineError(
                SYNTAX_ERROR,
                "either all arguments have names, or none",
                location=location,
                hint=_signature(procedure, parameters),
            )
        if by_name:
            name = words.identifier().lower()
            words.require("=>")
        else:
            name = next((each for each in parameters if each not in arguments), "")
        _check_name(procedure, parameters, name, arguments, location)
        arguments[name] = _value(words, name, parameters[name])
    return arguments


def _check_name(
    procedure: str,
    parameters: Mapping[str, _Parameter],
    name: str,
    arguments: Mapping[str, float],
    location: Location | None,
) -> None:
    if name in parameters and name not in arguments:
        return
    problem = f"{procedure} has no argument {name}" if name else f"{procedure} has fewer arguments"
    raise SeamlineError(
        INVALID_ARGUMENT,
        f"{name} is given twice" if name in arguments else problem,
        location=location,
        hint=did_you_mean(name, [each for each in parameters if each not in arguments])
        or _signature(procedure, parameters),
    )


def _signature(procedure: str, parameters: Mapping[str, _Parameter]) -> str:
    listed = ", ".join(f"{name} => {each.example}" for name, each in parameters.items())
    return f"{procedure}({listed})" if listed else f"{procedure} takes no arguments."


def _value(words: Words, name: str, parameter: _Parameter) -> float:
    location, is_text = words.location(), words.is_string()
    is_literal = is_text or words.peek()[:1].isdigit() or words.peek() in {"TRUE", "FALSE"}
    if words.peek() and (not is_literal or words.peek(1) not in {",", ")", ""}):
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{name} can only be a single literal",
            location=location,
            hint=f"{name} => {parameter.example}",
        )
    text = words.constant()
    value = parameter.read(text) if is_text == parameter.is_text else None
    if value is None:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{name} is {parameter.what}, which {repr(text) if is_text else text} is not",
            location=location,
            hint=f"{name} => {parameter.example}",
        )
    return value


def _query(words: Words, name: tuple[str, ...]) -> Query:
    """Parses the condition as that of a query of the table's cold rows."""
    location = words.location(1)
    where, *condition = words.rest()
    if not condition:
        raise words.missing("a condition")

    def token_of(kind: TokenType, text: str) -> Token:
        return Token(kind, text, where.line, where.col, where.start, where.end)

    table = [token_of(TokenType.IDENTIFIER, part) for part in (*name[:-1], f"{name[-1]}$cold")]
    dotted = [token for part in table for token in (token_of(TokenType.DOT, "."), part)][1:]
    alias = [token_of(TokenType.ALIAS, "AS"), token_of(TokenType.IDENTIFIER, name[-1])]
    select = [token_of(TokenType.SELECT, "SELECT"), token_of(TokenType.NUMBER, "1")]
    from_ = token_of(TokenType.FROM, "FROM")
    query = query_of(words.sql, [*select, from_, *dotted, *alias, where, *condition])
    clauses = {clause for clause, value in query.tree.args.items() if value}
    if query.token is not None or not clauses <= {"expressions", "from_", "where"}:
        raise SeamlineError(
            SYNTAX_ERROR,
            "WHERE is followed by more than a condition",
            location=location,
            hint="optimize WHERE day = DATE '2024-05-01'",
        )
    return query

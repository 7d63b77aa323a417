"""`TABLE(changes(table => 't', from_token => '…', to_token => '…'))`: rows that arrived in between.

Its arguments are constants, given by name or in this order; `to_token` and `offsets_max` are
optional. The other table function is `sequence` (`sequences.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from seamline.errors import (
    FUNCTION_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    SeamlineError,
)
from seamline.sql.locations import locate_errors, location_of
from seamline.sql.parsing import parse
from seamline.sql.parsing.sequences import USAGE as SEQUENCE_USAGE

NAME = "changes"
_SCHEMA = "system"
"""The schema, in the catalog of its table, that may qualify its name."""
BEGINNING = "beginning"
"""Stands for the token of a read before the first record."""
USAGE = "TABLE(changes(table => 't', from_token => '…' [, to_token => '…'] [, offsets_max => n]))"
_ARGUMENTS = {"table": True, "from_token": True, "to_token": False, "offsets_max": False}
"""The arguments in order, and whether each is required."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The requested changes of a table.

    Attributes:
        table: The parts of the table's name.
        from_token: The read after which the changes begin; `beginning` for everything.
        to_token: The read with which they end; None for now.
        offsets_max: The number of offsets after which they end earlier, if given.
    """

    table: tuple[str, ...]
    from_token: str
    to_token: str | None = None
    offsets_max: int | None = None


def name_of(table: exp.Table) -> tuple[str, ...]:
    """Returns the parts of the name of the table that a FROM item reads.

    Raises:
        SeamlineError: As `changes_of`; SYNTAX_ERROR when it is not a name.
    """
    changes = changes_of(table)
    return parse.table_name(table) if changes is None else changes.table


def changes_of(table: exp.Table) -> Changes | None:
    """Returns the changes that a FROM item requests, or None when it names a table.

    Raises:
        SeamlineError: NOT_SUPPORTED for a function without TABLE, FUNCTION_NOT_FOUND for any other
            table function, INVALID_ARGUMENT for arguments that it does not take, SYNTAX_ERROR.
    """
    call = table.this
    if not isinstance(call, exp.Func):
        return None
    if not isinstance(call, exp.Anonymous) or call.name.upper() != "TABLE":
        raise SeamlineError(
            NOT_SUPPORTED,
            "a function cannot be read as a table",
            location=location_of(table),
            hint=f"FROM takes a table, a query in brackets, VALUES, UNNEST or {USAGE}.",
        )
    inner = call.expressions[0] if len(call.expressions) == 1 else None
    if isinstance(inner, exp.Dot) and _is_schema(inner.this):
        inner = inner.expression
    if not isinstance(inner, exp.Anonymous) or inner.name.lower() != NAME:
        raise SeamlineError(
            FUNCTION_NOT_FOUND,
            "TABLE(…) knows no such function",
            location=location_of(table),
            hint=f"{USAGE}, or {SEQUENCE_USAGE}.",
        )
    if table.args.get("version") is not None:
        raise _wrong("changes take no version: to_token says where they end", table)
    return _changes(inner)


def _is_schema(node: exp.Expr) -> bool:
    return isinstance(node, exp.Identifier) and node.name.lower() == _SCHEMA


def _changes(call: exp.Anonymous) -> Changes:
    values = {}
    for name, node in _named(call):
        if name in values:
            raise _wrong(f"{name} is given twice", node)
        values[name] = _constant(name, node)
    missing = next((n for n, needed in _ARGUMENTS.items() if needed and not values.get(n)), None)
    if missing is not None:
        raise _wrong(f"the argument {missing} is missing", call)
    with locate_errors(call):
        table = parse.parse_name(str(values["table"]))
    to_token, offsets_max = values.get("to_token"), values.get("offsets_max")
    if offsets_max is not None and (not isinstance(offsets_max, int) or offsets_max < 1):
        raise _wrong("offsets_max must be at least 1", call)
    return Changes(
        table,
        str(values["from_token"]),
        None if to_token is None else str(to_token),
        offsets_max,
    )


def _named(call: exp.Anonymous) -> Iterator[tuple[str, exp.Expr]]:
    """Yields each argument with its name; an unnamed argument is named by its position."""
    if len(call.expressions) > len(_ARGUMENTS):
        raise _wrong("there are too many arguments", call)
    for argument, node in zip(_ARGUMENTS, call.expressions, strict=False):
        is_named = isinstance(node, exp.Kwarg)
        name = node.name.lower() if is_named else argument
        if name not in _ARGUMENTS:
            raise _wrong(f"{name} is not an argument", node)
        yield name, node.expression if is_named else node


def _constant(name: str, node: exp.Expr) -> str | int | None:
    node = node.unnest()
    if isinstance(node, exp.Null):
        return None
    is_number = name == "offsets_max"
    if not isinstance(node, exp.Literal) or node.is_string == is_number:
        raise _wrong(f"{name} must be {'a whole number' if is_number else 'a text'}", node)
    if not is_number:
        return str(node.name)
    if not node.name.isdecimal():
        raise _wrong(f"{name} must be a whole number", node)
    return int(node.name)


def _wrong(message: str, node: exp.Expr) -> SeamlineError:
    return SeamlineError(INVALID_ARGUMENT, message, location=location_of(node), hint=USAGE)

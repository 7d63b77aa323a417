"""Conditional functions."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.functions.registry import scalar
from seamline.sql.templates import Template
from seamline.sql.types import Type

scalar("coalesce", "T... -> T", "coalesce({args})")


def _null_if(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
    """The engines take NaN for equal to itself; nothing is equal to it."""
    one, other = args
    equal = f"{one} = {other}"
    if arguments[0] in types.FLOATS:
        equal += f" AND NOT isnan({one})"
    return f"(CASE WHEN {equal} THEN NULL ELSE {one} END)"


scalar("nullif", "T, T -> T", _null_if)


def _null_if_any(function: str) -> Template:
    """The engines skip nulls in greatest and least; Trino answers null."""

    def render(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        missing = " OR ".join(f"{arg} IS NULL" for arg in args)
        if len(args) == 1:
            return args[0]
        return f"(CASE WHEN {missing} THEN NULL ELSE {function}({', '.join(args)}) END)"

    return render


scalar("greatest", "O... -> O", _null_if_any("greatest"))
scalar("least", "O... -> O", _null_if_any("least"))

"""Conditional functions."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.equality import equal
from seamline.sql.functions.registry import scalar
from seamline.sql.templates import DUCKDB, SPARK, Template
from seamline.sql.types import Type

scalar("coalesce", "T... -> T", "coalesce({args})")


def _null_if(engine: str) -> Template:
    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        one, other = args
        return f"(CASE WHEN {equal(engine, arguments[0], one, other)} THEN NULL ELSE {one} END)"

    return render


scalar("nullif", "T, T -> T", _null_if(DUCKDB), _null_if(SPARK))


def _null_if_any(function: str) -> Template:
    """Returns a template that is null if any argument is, as in Trino; the engines skip nulls.

    The engines treat NaN as the greatest number; here it counts only if there is no other.
    """

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        missing = " OR ".join(f"{arg} IS NULL" for arg in args)
        if len(args) == 1:
            return args[0]
        value = f"{function}({', '.join(args)})"
        if returns in types.FLOATS and function == "greatest":
            numbers = ", ".join(f"CASE WHEN NOT isnan({arg}) THEN {arg} END" for arg in args)
            value = f"coalesce(greatest({numbers}), {args[0]})"
        return f"(CASE WHEN {missing} THEN NULL ELSE {value} END)"

    return render


scalar("greatest", "O... -> O", _null_if_any("greatest"))
scalar("least", "O... -> O", _null_if_any("least"))

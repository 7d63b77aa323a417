"""Conditional functions."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql.functions.registry import scalar
from seamline.sql.templates import Template
from seamline.sql.types import Type

scalar("coalesce", "T... -> T", "coalesce({args})")
scalar("nullif", "T, T -> T", "(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)")


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

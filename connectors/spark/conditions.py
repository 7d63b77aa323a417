"""Predicates as text in Spark's SQL, for procedures that take a condition."""

from __future__ import annotations

import datetime
import decimal
import math

from seamline.sql.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
    Value,
)
from seamline.sql.quoting import spark_name, spark_text


def condition(predicate: Predicate) -> str | None:
    """Returns a condition; None if it has a value that Spark's SQL has no exact literal for."""
    match predicate:
        case And(parts) | Or(parts):
            word = "AND" if isinstance(predicate, And) else "OR"
            conditions = [condition(part) for part in parts]
            if None in conditions:
                return None
            neutral = "TRUE" if isinstance(predicate, And) else "FALSE"
            return f" {word} ".join(f"({part})" for part in conditions) or neutral
        case Comparison(column, operator, value):
            return _with(f"{spark_name(column)} {operator} ", [value])
        case In(column, values):
            return _with(f"{spark_name(column)} IN (", values, ")")
        case IsNull(column, negated):
            return f"{spark_name(column)} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(column, prefix):
            return f"startswith({spark_name(column)}, {spark_text(prefix)})"


def _with(before: str, values: tuple[Value, ...] | list[Value], after: str = "") -> str | None:
    """Returns literals with what is around them; None if there is not a literal for each."""
    literals = [_literal(value) for value in values]
    texts = [text for text in literals if text is not None]
    return f"{before}{', '.join(texts)}{after}" if len(texts) == len(literals) else None


def _literal(value: Value) -> str | None:
    match value:
        case bool():
            return str(value).upper()
        case int():
            return f"{value}L"
        case decimal.Decimal():
            return f"{value:f}BD"
        case float():
            return f"{value!r}D" if math.isfinite(value) else None
        case str():
            return spark_text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime(tzinfo=None):
            return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
        case datetime.datetime():
            return f"TIMESTAMP_LTZ '{value.astimezone(datetime.UTC).isoformat(' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
    return None

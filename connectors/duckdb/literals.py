"""Python values as literals in DuckDB's SQL."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from seamline.sql.quoting import quoted_text


def literal(value: Any) -> str:
    """Returns a Python value as a SQL literal; the caller adds a cast where it needs a type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | float() | decimal.Decimal():
            return f"'{value}'"
        case bytes():
            return f"unhex('{value.hex()}')"
        case datetime.datetime() | datetime.date() | datetime.time():
            return quoted_text(str(value))
        case _:
            return quoted_text(str(value))

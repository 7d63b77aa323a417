"""Statement parameters: placeholders are replaced by literal nodes made from Python values.

Values never become text that is parsed again. `?` takes values in text order, `:name` by name; a
statement uses one of the two.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import reprlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from seamline.errors import INVALID_PARAMETERS, SeamlineError
from seamline.sql.locations import move
from seamline.sql.parsing.dialects import mixed_placeholders
from seamline.sql.parsing.parse import Query, check_text
from seamline.sql.parsing.words import DEPTH_MAX

_DIGITS_MAX = 1_000
"""More than any type has: text of eleven letters can denote a number of gigabytes."""


Values = Sequence[Any] | Mapping[str, Any]
"""Values of placeholders: Python values, or syntax tree nodes."""


def bind(query: Query, values: Values) -> exp.Expr:
    """Returns the tree of a query with each placeholder replaced by a literal.

    Without placeholders, it is the very tree of the query.

    Raises:
        SeamlineError: INVALID_PARAMETERS when values and placeholders do not match one to one.
    """
    tree = query.tree
    placeholders = list(tree.find_all(exp.Placeholder))
    if placeholders:
        tree = tree.copy()
        placeholders = list(tree.find_all(exp.Placeholder))
    names = {node.name for node in placeholders if node.this}
    if names and query.placeholders:
        raise mixed_placeholders()
    chosen: Mapping[Any, Any] = values if isinstance(values, Mapping) else dict(enumerate(values))
    if isinstance(values, Mapping):
        _check_names(names, values, any_placeholder=bool(query.placeholders))
    elif names:
        raise SeamlineError(
            INVALID_PARAMETERS, "the statement has :name placeholders, but the values have no names"
        )
    elif len(values) != query.placeholders:
        raise SeamlineError(
            INVALID_PARAMETERS,
            f"the statement has {query.placeholders} placeholders, but got {len(values)} values",
        )
    for node in placeholders:
        key = node.name if node.this else node.meta["number"]
        value = literal(chosen[key])
        move(value, node)
        node.replace(value)
    return tree


def _check_names(
    placeholders: set[str], values: Mapping[str, Any], *, any_placeholder: bool
) -> None:
    if any_placeholder:
        raise SeamlineError(
            INVALID_PARAMETERS, "the statement has ? placeholders, but the values have names"
        )
    missing, unknown = sorted(placeholders - set(values)), sorted(set(values) - placeholders)
    if missing:
        raise SeamlineError(INVALID_PARAMETERS, f"no value for :{missing[0]}")
    if unknown:
        raise SeamlineError(INVALID_PARAMETERS, f"the statement has no placeholder :{unknown[0]}")


def literal(value: Any, depth: int = 0) -> exp.Expr:
    """Converts a Python value or a constant expression to a node.

    Raises:
        SeamlineError: INVALID_PARAMETERS for a type without a literal, and for lists nested too
        deeply.
    """
    if depth > DEPTH_MAX:
        raise SeamlineError(
            INVALID_PARAMETERS, f"lists are nested more than {DEPTH_MAX} levels deep"
        )
    match value:
        case exp.Literal() | exp.Null() | exp.Boolean() | exp.Cast() | exp.Paren():
            return value.copy()
        case exp.Expr():
            return exp.Paren(this=value.copy())
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return _signed(exp.Literal.number(abs(value)), negative=value < 0)
        case float():
            return _double(value)
        case decimal.Decimal() if value.is_finite():
            if max(abs(value.adjusted()), -int(value.as_tuple().exponent)) > _DIGITS_MAX:
                raise SeamlineError(
                    INVALID_PARAMETERS,
                    f"a decimal has at most {_DIGITS_MAX:,} digits before and after its point",
                    hint="Send a double, or the text and a CAST; decimals hold 38 digits.",
                )
            text = format(value.copy_abs(), "f")  # abs() rounds to 28 digits
            digits = text if "." in text else text + "."
            return _signed(exp.Literal.number(digits), negative=value < 0)
        case str():
            check_text(value, INVALID_PARAMETERS)
            return exp.Literal.string(value)
        case uuid.UUID():
            return _cast(str(value), "uuid")
        case bytes() | bytearray() | memoryview():
            return exp.HexString(this=bytes(value).hex())
        case datetime.datetime():
            return _moment(value)
        case datetime.time():
            zone = "" if value.tzinfo is None else " with time zone"
            return _cast(value.isoformat(), f"time(6){zone}")
        case datetime.date():
            return _cast(value.isoformat(), "date")
        case list() | tuple():
            return exp.Array(expressions=[literal(item, depth + 1) for item in value])
    raise SeamlineError(
        INVALID_PARAMETERS,
        f"a value of type {type(value).__name__} cannot be a parameter",
        hint="None, bool, int, float, Decimal, str, bytes, UUID, date, time, datetime and lists "
        "can.",
    )


def _double(value: float) -> exp.Expr:
    if math.isnan(value):
        return exp.Anonymous(this="nan")
    if math.isinf(value):
        return _signed(exp.Anonymous(this="infinity"), negative=value < 0)
    mantissa = repr(abs(value))
    text = mantissa if "e" in mantissa else f"{mantissa}e0"
    return _signed(exp.Literal.number(text), negative=math.copysign(1.0, value) < 0)


def _moment(value: datetime.datetime) -> exp.Expr:
    if value.tzinfo is None:
        return _cast(value.isoformat(" "), "timestamp(6)")
    try:
        moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise SeamlineError(
            INVALID_PARAMETERS, f"{value} is outside the years 1 to 9999 in UTC"
        ) from error
    return _cast(moment.isoformat(" ") + " UTC", "timestamp(6) with time zone")


def _signed(node: exp.Expr, *, negative: bool) -> exp.Expr:
    return exp.Paren(this=exp.Neg(this=node)) if negative else node


def _cast(text: str, type_: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(type_, dialect="trino"))


def from_json(body: Any) -> Any:
    """Converts a parameter from its JSON form to a Python value.

    JSON's own types stand for themselves. Anything else is `{"type": "decimal", "value": "1.50"}`
    with a type of date, time, timestamp, the latter two also with time zone, decimal, double,
    varbinary (base64) or uuid.

    Raises:
        SeamlineError: INVALID_PARAMETERS.
    """
    if not isinstance(body, Mapping):
        return [from_json(item) for item in body] if isinstance(body, list) else body
    kind, value = body.get("type"), body.get("value")
    try:
        match kind, value:
            case _, None:
                return None
            case "decimal", str():
                return decimal.Decimal(value)
            case "date", str():
                return datetime.date.fromisoformat(value)
            case "time" | "time with time zone", str():
                return datetime.time.fromisoformat(value)
            case "timestamp", str():
                return datetime.datetime.fromisoformat(value)
            case "timestamp with time zone", str():
                moment = datetime.datetime.fromisoformat(value)
                return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            case "varbinary", str():
                return base64.b64decode(value, validate=True)
            case "uuid", str():
                return uuid.UUID(value)
            case "double", str() | int() | float():
                return float(value)
    except (ValueError, OverflowError, decimal.InvalidOperation) as error:
        raise SeamlineError(
            INVALID_PARAMETERS, f"{value!r} is not a value of type {kind}"
        ) from error
    raise SeamlineError(
        INVALID_PARAMETERS,
        f"no parameter has the type {reprlib.repr(kind)} and the value {reprlib.repr(value)}",
        hint='Write {"type": "decimal", "value": "1.50"}; likewise a date, time, timestamp, '
        "timestamp with time zone, double, varbinary (base64) or uuid; not for JSON's own types.",
    )

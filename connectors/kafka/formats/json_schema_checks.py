"""Checks JSON against a JSON Schema before it is written to a record.

A schema that names no draft is of draft 7, as in Confluent's clients for Java. A text whose format
cannot be checked is refused, so that nothing is written that a reader's validator would reject.
"""

from __future__ import annotations

import decimal
import json
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from seamline.connectors.kafka.formats.schemas import Schema

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})")


class _Number(decimal.Decimal):
    """A number with all of its digits, which messages show as in JSON."""

    __repr__ = decimal.Decimal.__str__


def checker(schema: Schema) -> Callable[[bytes], None]:
    """Returns a function that checks texts, and raises ValueError for what does not conform.

    It also does if the schema refers to something that is missing.

    Raises:
        ValueError: it is not JSON Schema.
    """
    root = _loads(schema.text)
    draft = validator_for(root, default=Draft7Validator)
    try:
        draft.check_schema(root)
    except SchemaError as error:
        raise ValueError(f"the schema is not JSON Schema: {error.message}") from error
    types = draft.TYPE_CHECKER.redefine("integer", _is_integer)
    exact = extend(draft, type_checker=types)  # type: ignore[no-untyped-call]
    judge = exact(root, registry=_registry(schema, root), format_checker=_FORMATS)

    def check(text: bytes) -> None:
        try:
            problem = best_match(judge.iter_errors(_loads(text)))
        except Unresolvable as error:
            raise ValueError(f"the schema refers to {error.ref}, which is missing") from error
        if problem is not None:
            path = ".".join(map(str, problem.absolute_path))
            raise ValueError(f"{path}: {problem.message}" if path else problem.message)

    return check


def _loads(text: str | bytes) -> Any:
    """Parses JSON, keeping all digits of its numbers."""
    return json.loads(text, parse_float=_Number)


def _registry(schema: Schema, root: Any) -> Registry[Any]:
    """Returns the schemas that one refers to, by the names that it uses for them."""
    base = root.get("$id", "") if isinstance(root, dict) else ""
    documents = {
        urllib.parse.urljoin(base, name): DRAFT7.create_resource(_loads(other.text))
        for name, other in schema.references
    }
    return Registry().with_resources(documents.items())


def _is_integer(_: Any, value: Any) -> bool:
    if isinstance(value, decimal.Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


class _Formats(FormatChecker):
    """Formats, of which the library checks those that need no other package."""

    def check(self, instance: object, format: str) -> None:  # noqa: A002 - as in the base class
        """Raises an error for a text that is not of the format, or may not be."""
        if isinstance(instance, str) and format not in self.checkers:
            raise ValueError(f"the schema uses the format {format!r}, which is not checked here")
        super().check(instance, format)


_FORMATS = _Formats(Draft202012Validator.FORMAT_CHECKER.checkers)


@_FORMATS.checks("date-time")
def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or _MOMENT.fullmatch(value) is not None

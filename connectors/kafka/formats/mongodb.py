"""MongoDB's documents as plain JSON.

Connectors write them as Extended JSON, in which `{"$oid": …}`, `{"$numberLong": …}` and the like
stand for values that JSON lacks: legacy, canonical or relaxed. In Debezium's changes and keys they
are text inside JSON. Here numbers become numbers with all their digits, dates become ISO 8601 in
UTC, ids and bytes become text, and what has no counterpart stays as it is.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

_PAYLOAD = "payload"
_DOCUMENTS = ("after", "before")
"""Members of Debezium's changes that are documents as text."""


class _Number(str):
    """The digits of a number."""

    __slots__ = ()


def plain_change(part: bytes) -> bytes:
    """Returns a change, or its key, with its documents as plain JSON; `_id` is added to a key.

    What is not JSON is returned as it is, for its reader to say what is wrong with it.
    """
    try:
        body = _unwrapped(_parsed(part))
        if not isinstance(body, dict):
            return part
        is_key = body.keys() == {"id"}
        for name in ("id",) if is_key else _DOCUMENTS:
            if isinstance(body.get(name), str) and not isinstance(body[name], _Number):
                body[name] = _document(body[name])
        if is_key:
            body["_id"] = body["id"]
        return _written(_plain(body)).encode()
    except (ValueError, RecursionError):
        return part


def _parsed(text: bytes | str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number)


def _unwrapped(body: Any) -> Any:
    """Returns what Kafka Connect's converter may have wrapped, or written as a text of JSON."""
    if isinstance(body, dict) and body.keys() <= {"schema", _PAYLOAD} and _PAYLOAD in body:
        body = body[_PAYLOAD]
    return _parsed(body) if isinstance(body, str) and not isinstance(body, _Number) else body


def _document(text: str) -> Any:
    try:
        return _parsed(text)
    except ValueError:
        return text


# --- Extended JSON -------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    match value:
        case dict() if value and next(iter(value)).startswith("$"):
            return _extended(value)
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return value


def _extended(value: Mapping[str, Any]) -> Any:
    kind = next(iter(value))
    make = _KINDS.get(kind)
    if make is None or not value.keys() <= {kind, "$type", "$scope", "$options"}:
        return {name: _plain(inner) for name, inner in value.items()}
    made = make(value[kind], value)
    return value if made is None else made


_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def _number(content: Any, _: Mapping[str, Any]) -> Any:
    text = str(content)
    return _Number(text) if _NUMBER.fullmatch(text) else text


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _date(content: Any, _: Mapping[str, Any]) -> Any:
    if isinstance(content, dict):
        content = content.get("$numberLong")
    text = str(content)
    if re.fullmatch(r"-?\d+", text) is None:
        return text
    try:
        moment = _EPOCH + datetime.timedelta(milliseconds=int(text))
    except OverflowError:
        return _Number(text)  # beyond our calendar: the column says so
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _binary(content: Any, value: Mapping[str, Any]) -> Any:
    kind = value.get("$type")
    if isinstance(content, dict):
        content, kind = content.get("base64"), content.get("subType")
    if kind in ("4", "04"):
        return str(uuid.UUID(bytes=base64.b64decode(content)))
    return content


def _timestamp(content: Any, _: Mapping[str, Any]) -> Any:
    seconds = content.get("t") if isinstance(content, dict) else None
    return None if seconds is None else _date(int(seconds) * 1000, {})


def _same(content: Any, _: Mapping[str, Any]) -> Any:
    return content


_KINDS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    **dict.fromkeys(("$oid", "$uuid", "$symbol", "$code"), _same),
    **dict.fromkeys(("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"), _number),
    "$date": _date,
    "$binary": _binary,
    "$timestamp": _timestamp,
}
"""What stands for a value: its first member."""


def _written(value: Any) -> str:
    """Returns a value as JSON, with numbers as they were."""
    match value:
        case _Number():
            return str(value)
        case dict():
            inner = (f"{json.dumps(name)}:{_written(part)}" for name, part in value.items())
            return "{" + ",".join(inner) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)

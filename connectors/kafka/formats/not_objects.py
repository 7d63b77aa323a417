"""What records look like that are not JSON objects, for people who expected columns of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from seamline.errors import INFERENCE_FAILED, SeamlineError

_SHOWN = 60
_SEPARATORS = (",", ";", "\t", "|")
_STATE = "State the columns with --schema, and"


def not_objects(values: Sequence[bytes | None]) -> SeamlineError:
    """Returns the error for a sample of which no columns can be inferred: no JSON object is in it.

    Args:
        values: The sample.
    """
    first = next((value for value in values if value is not None), None)
    if not values:
        return SeamlineError(
            INFERENCE_FAILED,
            "the topic has no records",
            hint="Produce one first, or state the columns with --schema.",
        )
    if first is None:
        return SeamlineError(
            INFERENCE_FAILED,
            f"all {len(values)} sampled records have a key at most, and no value",
            hint="State the columns with --schema, and their sources with --columns-from.",
        )
    looks, hint = _look(first)
    shown = (
        repr(first[:_SHOWN].decode(errors="replace")) if _is_text(first) else first[:20].hex(" ")
    )
    more = "…" if len(first) > _SHOWN else ""
    return SeamlineError(
        INFERENCE_FAILED,
        f"none of {len(values)} sampled records is a JSON object with keys; the first one "
        f"{looks}: {shown}{more}",
        hint=hint,
    )


def _look(value: bytes) -> tuple[str, str]:
    """Returns what a value looks like, and the remedy."""
    if value[:1] == b"\0" and len(value) > 5:
        number = int.from_bytes(value[1:5], "big")
        return (
            f"begins like one of a schema registry, with the id {number}",
            "State --format avro, protobuf or json_schema, and schema_registry of the cluster.",
        )
    if value[:4] == b"Obj\x01":
        return "is a file of Avro, with its schema", "Produce single records: --format avro."
    if not _is_text(value):
        return "is binary", "State --format avro or protobuf, with --value-schema FILE."
    text = value.decode().strip()
    if not text:
        return "is empty", f"{_STATE} --format string."
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return _look_of_text(text)
    if isinstance(parsed, list):
        return (
            "is a JSON array",
            "Produce one record for each of its elements; an array is one column with "
            "--schema 'items array(…)' --columns-from 'items = value'.",
        )
    if parsed == {}:
        return "is an object without keys", "Produce a record with keys, or state --schema."
    return "is a single JSON value", f"{_STATE} --format string."


def _look_of_text(text: str) -> tuple[str, str]:
    if re.search(r"\b(ObjectId|ISODate|NumberLong|NumberDecimal|Timestamp|BinData)\(", text):
        return (
            "is text of MongoDB's shell, not JSON",
            'Produce JSON, as mongoexport writes it: {"_id": {"$oid": "…"}}.',
        )
    if text.startswith("{"):
        if re.search(r"}\s*{", text):
            return "is several JSON objects", "Produce one record for each of them."
        if "'" in text and '"' not in text:
            return "has single quotes, so it is no JSON", "Write names and texts in double quotes."
        return "is JSON that is not whole or not correct", "Correct the producer."
    if text.startswith("<"):
        return "looks like XML", f"{_STATE} --format string."
    separator = max(_SEPARATORS, key=text.count)
    if text.count(separator):
        fields = text.count(separator) + 1
        written = "$'\\t'" if separator == "\t" else f"'{separator}'"
        option = "" if separator == "," else f" --csv-separator {written}"
        return f"looks like CSV of {fields} fields", f"{_STATE} --format csv{option}."
    return "is text", f"{_STATE} --format string."


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(c.isprintable() or c.isspace() for c in text)

"""What a Trino answered, as text: sections of `question ---- answer`, one a line.

An answer is JSON: of a condition a letter for each row of `numbers` (true, false, `-` for null), of
a call its value, of a query its rows, sorted; or the name of Trino's error.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

FILE = pathlib.Path(__file__).with_name("corners.txt")
_IS = " ---- "
_ERROR = "error "
_FIELD = re.compile(r"field\d+")
SECTIONS = ("conditions", "calls", "queries")


def read() -> dict[str, dict[str, str]]:
    """The answers of each section, by question."""
    sections: dict[str, dict[str, str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            section = sections.setdefault(line.removeprefix("== "), {})
        elif line and not line.startswith("#"):
            question, _, answer = line.rpartition(_IS)
            section[question] = answer
    return sections


def write(sections: Mapping[str, Mapping[str, str]], server: str) -> None:
    """Replaces the file."""
    lines = [f"# Recorded from Trino {server} by `python -m fuzz.record`; not to be edited."]
    for name, answers in sections.items():
        lines += ["", f"== {name}", *(f"{key}{_IS}{value}" for key, value in answers.items())]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def error(name: str) -> str:
    """The answer that is an error."""
    return _ERROR + name


def is_error(answer: str) -> bool:
    """Whether an answer is an error."""
    return answer.startswith(_ERROR)


def truths(rows: Sequence[Sequence[Any]]) -> str:
    """The values of a condition, of rows in the order of `n`."""
    return "".join({True: "t", False: "f", None: "-"}[value] for (value,) in rows)


def value_text(value: Any, type_: str) -> str:
    """A value, floating-point numbers to the digits that both sides have."""
    return json.dumps(_plain(value, 6 if "real" in type_ else 12), ensure_ascii=False)


def rows_text(rows: Sequence[Sequence[Any]], types: Sequence[str]) -> str:
    """The rows of a query, without their order."""
    cells = ([value_text(v, t) for v, t in zip(row, types, strict=True)] for row in rows)
    return "[" + ", ".join(sorted(f"[{', '.join(row)}]" for row in cells)) + "]"


def _plain(value: Any, digits: int) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return float(f"{value:.{digits}g}") + 0.0  # zeros of both signs are one
        case float():
            return str(value)
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return "0x" + value.hex()
        case dict() if all(isinstance(k, str) and _FIELD.fullmatch(k) for k in value):
            return [_plain(item, digits) for item in value.values()]
        case dict():
            pairs = ([_plain(k, digits), _plain(v, digits)] for k, v in value.items())
            return {"map": sorted(pairs, key=repr)}
        case list() | tuple():
            return [_plain(item, digits) for item in value]
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).isoformat(" ")
    return str(value)

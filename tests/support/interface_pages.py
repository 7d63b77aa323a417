"""The reference pages of the interfaces that programs use.

HTTP's is made of its OpenAPI description, that of the Python client of signatures and docstrings.
"""

from __future__ import annotations

import collections
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import seamline
import seamline.aio
import seamline.spark
from seamline.seam.options import OPTIONS

# --- Options of tables ----------------------------------------------------------------------------


def options_of_tables() -> Iterator[str]:
    """The rows of the table in the page on tables, one for each option."""
    for option in OPTIONS:
        default = "none" if option.default in (None, "", ()) else f"`{option.default}`"
        where = {"ALTER TABLE": option.alter, "adoption": option.adopt}
        also = ", ".join(name for name, flag in where.items() if flag is not None)
        required = option.create.required
        cells = (
            f"`{option.name}`",
            "" if required else option.default_text or default,
            also,
            ". ".join(filter(None, (option.description, option.more))).replace("|", "\\|"),
        )
        yield f"| {' | '.join(cells)} |"


# --- HTTP ----------------------------------------------------------------------------------------

_CATALOG, _PLANNING_CATALOG = "/iceberg/", "/iceberg-plan/"
_SHOWN_MAX = 8
"""Values of an enumeration that are written out."""
_ANY = "any"


def http_api_page(document: Mapping[str, Any]) -> Iterator[str]:
    """The page of an OpenAPI description.

    Args:
        document: The description.
    """
    yield "# HTTP API"
    yield ""
    yield (
        "Every route of the gateway with its parameters, and every object that it takes or gives. "
        "The same for programs is [openapi.json](openapi.json); [HTTP](../http.md) says how to use "
        "it. A failure is a [`Failure`](#failure), whose `code` is one of the [errors](errors.md) "
        "(`make golden` writes this page)."
    )
    paths = document["paths"]
    own = {path: there for path, there in paths.items() if not path.startswith("/iceberg")}
    yield "\n## Routes"
    for path, method, operation in _operations(own):
        yield from _operation(path, method, operation)
    yield "\n## The Iceberg catalog\n"
    yield (
        "Iceberg's REST protocol, read only, for [readers](../readers.md). Under `/iceberg-plan` "
        "the same routes are there, and those that plan scans."
    )
    yield ""
    yield "| route | what it does |\n|---|---|"
    for path, method, operation in _operations(paths):
        is_planning = path.startswith(_PLANNING_CATALOG)
        is_twin = is_planning and path.replace(_PLANNING_CATALOG, _CATALOG) in paths
        if path.startswith((_CATALOG, _PLANNING_CATALOG)) and not is_twin:
            yield f"| `{method} {path}` | {operation['summary']} |"
    yield "\n## Objects"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _object(name, schema)


def _operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, there in paths.items():
        for method, operation in there.items():
            yield path, method.upper(), operation


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### `{method} {path}`\n"
    yield f"{operation['summary']}."
    if body := operation.get("requestBody"):
        yield f"\nBody: {_content(body['content'])}."
    if parameters := operation.get("parameters"):
        yield "\n| parameter | in | type | what it is |\n|---|---|---|---|"
        for each in parameters:
            what = each.get("description", "")
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_cell(what)} |"
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = _content(answer.get("content", {}))
            yield f"\n`{status}`: {answer['description']}{content and f': {content}'}."


def _content(content: Mapping[str, Any]) -> str:
    """What a body may be, by its media type."""
    forms = ((_type(there.get("schema", {})), kind) for kind, there in content.items())
    return ", ".join(f"`{kind}`{'' if form == _ANY else f' ({form})'}" for form, kind in forms)


def _object(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### `{name}`\n"
    yield str(schema.get("description", "One of the values below."))
    if "enum" in schema:
        yield f"\n{_type(schema)}"
    if properties := schema.get("properties"):
        required = schema.get("required", ())
        yield "\n| field | type | what it is |\n|---|---|---|"
        for field, there in properties.items():
            needed = ", required" if field in required else ""
            what = _cell(there.get("description", ""))
            yield f"| `{field}` | {_type(there)}{needed} | {what} |"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a word or two, with links to the objects it names."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            return f"[`{name}`](#{name.lower()})"
        case {"anyOf": [*options]}:
            return " or ".join(_type(option) for option in options)
        case {"enum": [*values]} if len(values) <= _SHOWN_MAX:
            return ", ".join(f"`{value}`" for value in values if value is not None)
        case {"type": "array", "items": items} if items:
            return f"array of {_type(items)}"
        case {"type": str(name)}:
            return name
    return _ANY


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- Python --------------------------------------------------------------------------------------

_PYTHON: Mapping[str, Sequence[tuple[str, Any]]] = {
    "seamline": [
        ("connect", seamline.connect),
        ("Connection", seamline.Connection),
        ("Cursor", seamline.Cursor),
        ("write_token", seamline.write_token),
        ("Error", seamline.Error),
    ],
    "seamline.aio": [
        ("connect", seamline.aio.connect),
        ("AsyncConnection", seamline.aio.AsyncConnection),
        ("AsyncCursor", seamline.aio.AsyncCursor),
    ],
    "seamline.spark": [
        ("configure_spark", seamline.spark.configure_spark),
        ("configuration", seamline.spark.configuration),
        ("register", seamline.spark.register),
    ],
}
"""What a program uses, by module."""
_LINE_MAX = 88
_TITLES = {"Args": "Arguments"}
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
_ITEM = re.compile(r"^ {4}(\w[\w ,.]*): (.*)$")


def python_api_page() -> Iterator[str]:
    """The page of the Python client."""
    yield "# Python API"
    yield ""
    yield (
        "The classes and functions of the Python client, as their docstrings have them; "
        "[Python client](../python.md) says how to use them (`make golden` writes this page)."
    )
    for module, members in _PYTHON.items():
        yield f"\n## `{module}`"
        for name, member in members:
            yield from _member(f"{module}.{name}", name, member)


def _member(full: str, name: str, member: Any) -> Iterator[str]:
    yield f"\n### `{full}`\n"
    if not inspect.isclass(member):
        yield _signature(name, member)
    yield from _docstring(member)
    if inspect.isclass(member):
        for title, method in _methods(member):
            yield f"\n#### `{name}.{title}`\n"
            if not isinstance(method, property):
                yield _signature(title, method)
            yield from _docstring(method)


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, in the order of its source."""
    for title, value in vars(owner).items():
        is_ours = inspect.isfunction(value) or isinstance(value, property)
        if is_ours and not title.startswith("_") and inspect.getdoc(value):
            yield title, value


class _Annotation(str):
    """An annotation that is shown as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(name: str, function: Any) -> str:
    """A signature as one would write it, a parameter a line where it is long."""
    signature = inspect.signature(function)
    shown = signature.replace(
        parameters=[
            p if p.annotation is p.empty else p.replace(annotation=_Annotation(p.annotation))
            for p in signature.parameters.values()
            if p.name != "self"
        ],
        return_annotation=_Annotation(signature.return_annotation),
    )
    whole = f"{name}{shown}"
    if len(whole) > _LINE_MAX:
        inside, _, gives = str(shown)[1:].rpartition(")")
        lines = "".join(f"    {part},\n" for part in _split(inside))
        whole = f"{name}(\n{lines}){gives}"
    return f"```\n{whole}\n```\n"


def _split(parameters: str) -> Iterator[str]:
    """Parameters at the commas that are in no brackets."""
    depth, part = 0, ""
    for letter in parameters:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
    yield part.strip()


def _docstring(member: Any) -> Iterator[str]:
    """A docstring of Google's style as Markdown: sections become lists."""
    section = ""
    items: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    prose: list[str] = []
    for line in (inspect.getdoc(member) or "").splitlines():
        if found := _SECTION.match(line):
            section = found[1]
        elif not section:
            prose.append(line)
        elif found := _ITEM.match(line):
            items[section].append((found[1], found[2]))
        elif items[section]:
            name, text = items[section][-1]
            items[section][-1] = (name, f"{text} {line.strip()}".strip())
        elif line.strip():
            items[section].append(("", line.strip()))
    yield "\n".join(prose).strip()
    for title, listed in items.items():
        yield f"\n**{_TITLES.get(title, title)}**\n"
        yield from (f"- {f'`{name}`: ' if name else ''}{text}" for name, text in listed)

"""Avro schemas as trees, with their names resolved and their logical types kept apart."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.tree_arrow import NotFastError
from seamline.connectors.kafka.formats.trees import Node, logical_of, tagged

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "bytes"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})


def parsed(schema: Schema) -> Node:
    """Returns the tree of a schema.

    Raises:
        ValueError: it is not an Avro schema.
    """
    names: dict[str, Node] = {}
    try:
        for text in _texts(schema):
            root = _node(json.loads(text), "", names)
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema is not Avro, since it is not JSON: {error}") from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the schema is not Avro: {error!r}") from error
    return root


def _texts(schema: Schema) -> Iterator[str]:
    """Yields the texts of a schema and of all that it refers to, its own text last."""
    for _, reference in schema.references:
        yield from _texts(reference)
    yield schema.text


def self_contained(node: Node, met: set[str] | None = None) -> Any:
    """Returns the schema of a tree as JSON: each named type is defined where it first occurs.

    Logical types and defaults are left out. Each branch of a union of several types is a record of
    one field, which has the same bytes, so that values say which branch they are of (`tagged`).

    Args:
        node: The tree.
        met: The names that are already defined.
    """
    met = set() if met is None else met
    match node.kind:
        case "union" if len(node.alternatives) > 1:
            return _tagged(node, met)
        case "union":
            return [self_contained(branch, met) for branch in node.branches]
        case "array" if node.inner is not None:
            return {"type": "array", "items": self_contained(node.inner, met)}
        case "map" if node.inner is not None:
            return {"type": "map", "values": self_contained(node.inner, met)}
        case kind if kind not in _NAMED:
            return kind
    if node.name in met:
        return node.name
    met.add(node.name)
    space, _, name = node.name.rpartition(".")
    made = {"type": node.kind, "name": name, "namespace": space}
    if node.kind == "record":
        fields = [{"name": n, "type": self_contained(m, met)} for n, m in node.members.items()]
        return {**made, "fields": fields}
    key = "symbols" if node.kind == "enum" else "size"
    return {**made, key: node.attributes[key]}


def _tagged(node: Node, met: set[str]) -> list[Any]:
    branches: list[Any] = []
    for branch in node.branches:
        if branch.kind == "null":
            branches.append("null")
        else:
            name, (field,) = tagged(node, node.alternatives.index(branch), None)
            fields = [{"name": field, "type": self_contained(branch, met)}]
            branches.append({"type": "record", "name": name, "namespace": "", "fields": fields})
    return branches


def _node(schema: Any, space: str, names: dict[str, Node]) -> Node:
    match schema:
        case str() if schema in _PRIMITIVES:
            return Node(schema)
        case str():
            full = schema if "." in schema or f"{space}.{schema}" not in names else ""
            node = names.get(full or f"{space}.{schema}", names.get(schema))
            if node is None:
                raise ValueError(f"the schema is not Avro: there is no type {schema}")
            return node
        case list():
            node = Node("union", name=f"SeamlineUnion{len(names)}")
            names[node.name] = node
            node.branches += [_node(branch, space, names) for branch in schema]
            return node
        case {"type": str(kind)} if kind in _NAMED:
            return _named(kind, schema, space, names)
        case {"type": "array", "items": items}:
            return Node("array", inner=_node(items, space, names))
        case {"type": "map", "values": values}:
            return Node("map", inner=_node(values, space, names))
        case {"type": str(kind)} if kind in _PRIMITIVES:
            return Node(kind, _logical(schema), attributes=schema)
        case {"type": inner}:
            return _node(inner, space, names)
    raise ValueError(f"the schema is not Avro: {str(schema)[:80]}")


def _logical(schema: Mapping[str, Any]) -> str:
    """Returns the logical type; that of Kafka Connect if Avro has none for it."""
    return str(schema.get("logicalType", "")) or logical_of(str(schema.get("connect.name", "")))


def _named(kind: str, schema: Mapping[str, Any], space: str, names: dict[str, Node]) -> Node:
    name = str(schema["name"])
    space = name.rpartition(".")[0] or str(schema.get("namespace", space))
    full = name if "." in name or not space else f"{space}.{name}"
    kind = "record" if kind == "error" else kind
    earlier = names.get(full)
    if earlier is not None and earlier.attributes == schema:
        return earlier
    if earlier is not None:
        raise ValueError(f"the schema is not Avro: there are two types {full}")
    node = Node(kind, str(schema.get("logicalType", "")), full, attributes=schema)
    names[full] = node
    for field in schema["fields"] if kind == "record" else ():
        node.members[str(field["name"])] = _node(field["type"], space, names)
        if field.get("aliases"):
            node.aliases[str(field["name"])] = tuple(map(str, field["aliases"]))
        if "default" in field:
            node.defaults[str(field["name"])] = field["default"]
    return node


# --- The schema of the fast path ------------------------------------------------------------------

_CARRIERS = {
    "boolean": "boolean",
    "int": "long",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "string",
}


def carrier(node: Node) -> Any:
    """Returns a schema of the same bytes for a simpler decoder: integers are longs, bytes strings.

    That decoder knows no logical types, does not validate text, and truncates integers.

    Raises:
        NotFastError: there is no such schema.
    """
    return _carrier(node, (), itertools.count())


def _carrier(node: Node, inside: tuple[Node, ...], numbers: Iterator[int]) -> Any:
    if node in inside:
        raise NotFastError
    inside = (*inside, node)
    match node.kind:
        case "union" if node.only is not None and len(node.branches) == 2:
            return [
                "null" if branch.kind == "null" else _carrier(branch, inside, numbers)
                for branch in node.branches
            ]
        case "record" if node.members:
            fields = [
                {"name": name, "type": _carrier(member, inside, numbers)}
                for name, member in node.members.items()
            ]
            return {"type": "record", "name": f"R{next(numbers)}", "fields": fields}
        case "enum":
            symbols = node.attributes["symbols"]
            return {"type": "enum", "name": f"E{next(numbers)}", "symbols": symbols}
        case "array" if node.inner is not None:
            return {"type": "array", "items": _carrier(node.inner, inside, numbers)}
        case "map" if node.inner is not None:
            return {"type": "map", "values": _carrier(node.inner, inside, numbers)}
    if node.kind not in _CARRIERS:
        raise NotFastError
    return _CARRIERS[node.kind]

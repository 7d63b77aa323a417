"""JSON Schema as a tree, as far as it says which type a value has.

A value of several types, or of no stated type, is a union, which no column can hold. Kafka
Connect's own types (`connect.type`) are understood too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.trees import Node, every

_KINDS = {"null": "null", "boolean": "boolean", "integer": "long", "number": "double"}
_CONNECT = {"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float32": "float"}
_FORMATS = {"date": "date", "date-time": "timestamp-micros", "uuid": "uuid"}


def parsed(schema: Schema) -> Node:
    """Returns the tree of a schema.

    Raises:
        ValueError: it is not JSON Schema, or refers to something that is missing.
    """
    try:
        root = json.loads(schema.text)
        others = {name: json.loads(other.text) for name, other in schema.references}
        node = _Documents(others).node(root, "", root)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"the schema is not JSON Schema: {error!r}") from error
    for union in every(node):
        if len(union.alternatives) > 1:
            union.branches = []  # no value of it says which of them it is of
    return node


def _pointed(root: Any, path: str) -> Any:
    """Returns what a JSON pointer leads to in a document."""
    target = root
    for step in path.split("/")[1:]:
        target = target[step.replace("~1", "/").replace("~0", "~")]
    return target


class _Documents:
    """A schema and those it refers to, by the names it uses for them."""

    def __init__(self, others: Mapping[str, Any]) -> None:
        self._others = others
        self._known: dict[tuple[str, str], Node] = {}

    def node(self, schema: Any, name: str, root: Any) -> Node:
        """Returns the tree of a part of the document of that name."""
        if not isinstance(schema, dict):
            return Node("union")
        if "$ref" in schema:
            return self._referred(str(schema["$ref"]), name, root)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                branches = [self.node(branch, name, root) for branch in schema[word]]
                return Node("union", branches=branches)
        kinds = schema.get("type")
        match kinds:
            case list():
                branches = [self.node({**schema, "type": kind}, name, root) for kind in kinds]
                return Node("union", branches=branches)
            case "object":
                return self._object(schema, name, root)
            case "array":
                return Node("array", inner=self.node(schema.get("items"), name, root))
            case "string" if schema.get("connect.type") == "bytes":
                return Node("bytes")
            case "string":
                return Node("string", _FORMATS.get(str(schema.get("format")), ""))
            case str() if kinds in _KINDS:
                return Node(_CONNECT.get(str(schema.get("connect.type")), _KINDS[kinds]))
        return Node("union")

    def _object(self, schema: Mapping[str, Any], name: str, root: Any) -> Node:
        members = schema.get("properties") or {}
        further = schema.get("additionalProperties")
        if not members and isinstance(further, dict):
            return Node("map", inner=self.node(further, name, root))
        nodes = {str(field): self.node(inner, name, root) for field, inner in members.items()}
        return Node("record", members=nodes) if nodes else Node("union")

    def _referred(self, reference: str, name: str, root: Any) -> Node:
        """Returns what a reference leads to; a reference to itself leads to the same node."""
        other, _, path = reference.partition("#")
        if other:
            name, root = other, self._others[other]
        if (name, path) not in self._known:
            node = self._known[name, path] = Node("union")
            referred = self.node(_pointed(root, path), name, root)
            for field in dataclasses.fields(Node):
                setattr(node, field.name, getattr(referred, field.name))
        return self._known[name, path]

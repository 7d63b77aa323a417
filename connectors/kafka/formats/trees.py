"""The schema of a record as a tree, whatever language it is written in.

The kinds of types and the names of logical types are Avro's, which has the most of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.seam.evolution import matched
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Unsupported


@dataclasses.dataclass(slots=True, eq=False)
class Node:
    """A type of a schema. A record may contain itself.

    Attributes:
        kind: `record`, `union`, `int`, …
        logical: The logical type, if there is one.
        name: Full name of a record, an enum or a fixed.
        members: The fields of a record by name, in order.
        branches: The types of a union.
        inner: The items of an array, the values of a map.
        attributes: Everything else the schema says about it.
        aliases: The former names of a record's fields, by field name.
        defaults: The values of a record's fields that are not given one, by field name; None if
            they are then left out.
        is_truncated: Whether digits of its times beyond microseconds are dropped.
    """

    kind: str
    logical: str = ""
    name: str = ""
    members: dict[str, Node] = dataclasses.field(default_factory=dict)
    branches: list[Node] = dataclasses.field(default_factory=list)
    inner: Node | None = None
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    aliases: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    is_truncated: bool = False

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The fields of a record, each with its former names."""
        return {name: self.aliases.get(name, ()) for name in self.members}

    @property
    def only(self) -> Node | None:
        """The only branch of a union that is not null; None unless there is exactly one."""
        others = [branch for branch in self.branches if branch.kind != "null"]
        return others[0] if len(others) == 1 else None


_CONNECT = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
    "io.debezium.time.IsoDate": "iso-date",
    "io.debezium.time.IsoTimestamp": "iso-timestamp",
    "io.debezium.time.ZonedTimestamp": "zoned-timestamp",
    "io.debezium.data.Uuid": "uuid",
}
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
"""A record that is a decimal: its scale, and its unscaled value."""


def logical_of(name: str) -> str:
    """Returns the logical type that a Kafka Connect or Debezium name stands for; empty if none."""
    return _CONNECT.get(name, "")


def finds_all(node: Node, type_: Type | None) -> bool:
    """Whether every field of a type finds its match in a tree, at every depth."""
    node = node.only or node
    match type_:
        case Row(fields) if node.kind == "record":
            which = matched(fields, node.names)
            return all(
                field.name in which and finds_all(node.members[which[field.name]], field.type)
                for field in fields
            )
        case Array(inner) | Map(_, inner) if node.inner is not None:
            return finds_all(node.inner, inner)
    return True


def has_all(type_: Type | None, node: Node) -> bool:
    """Whether every field of a tree finds its match in a type, at every depth."""
    node = node.only or node
    match type_:
        case Row(fields) if node.kind == "record":
            which = matched(fields, node.names)
            types_of = {which[field.name]: field.type for field in fields if field.name in which}
            return all(n in types_of and has_all(types_of[n], m) for n, m in node.members.items())
        case Array(inner) | Map(_, inner) if node.inner is not None:
            return has_all(inner, node.inner)
    return True


def spelt(root: Node, spelling: Spelling) -> Node:
    """Returns the tree with the spellings of a table.

    Its plain integers count the unit of `epoch` where a column is a timestamp; integers with a
    logical type other than one of time are plain. Its times may be truncated.
    """
    seen: set[int] = set()
    left = [root] if spelling.epoch != "millis" or spelling.truncated_times else []
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            is_plain = node.kind in ("int", "long") and node.logical not in _OF_TIME
            if is_plain and spelling.epoch != "millis":
                node.logical = f"timestamp-{spelling.epoch}"
            node.is_truncated = spelling.truncated_times
            left += [*node.members.values(), *node.branches]
            left += [node.inner] if node.inner is not None else []
    return root


# --- The columns of a schema ---------------------------------------------------------------------

_PLAIN: Mapping[str, Type] = {
    "boolean": types.BOOLEAN,
    "int": types.INTEGER,
    "long": types.BIGINT,
    "float": types.REAL,
    "double": types.DOUBLE,
    "string": types.VARCHAR,
    "enum": types.VARCHAR,
    "bytes": types.VARBINARY,
    "fixed": types.VARBINARY,
}
_LOGICAL: Mapping[str, Type] = {
    "date": types.DATE,
    "time-millis": types.TIME,
    "time-micros": types.TIME,
    **{f"timestamp-{unit}": types.TIMESTAMP_TZ for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": types.TIMESTAMP for unit in ("millis", "micros", "nanos")},
    "iso-date": types.DATE,
    "iso-timestamp": types.TIMESTAMP,
    "zoned-timestamp": types.TIMESTAMP_TZ,
    "uuid": types.UUID,
    "unsigned": Decimal(20, 0),
}

_OF_TIME = frozenset(_LOGICAL) - {"uuid", "unsigned"}


def columns_of(node: Node, inside: tuple[Node, ...] = ()) -> tuple[Field, ...]:
    """Returns the columns for the fields of a record; leaves out what no column can hold.

    The former names of fields are aliases of the columns.
    """
    inside = inside or (node,)
    members = ((name, type_of(member, inside)) for name, member in node.members.items())
    return tuple(
        Field(name, type_, aliases=node.aliases.get(name, ()))
        for name, type_ in members
        if type_ is not None
    )


def type_of(node: Node, inside: tuple[Node, ...] = ()) -> Type | None:
    """Returns the type of a column for a node, or None if there is none."""
    if node in inside:
        return None  # a record inside itself has no end
    inside = (*inside, node)
    match node.kind:
        case "union":
            return None if node.only is None else type_of(node.only, inside)
        case "array" | "map":
            assert node.inner is not None
            inner = type_of(node.inner, inside)
            if inner is None:
                return None
            return Array(inner) if node.kind == "array" else Map(types.VARCHAR, inner)
        case "record":
            fields = columns_of(node, inside)
            return Row(fields) if fields else None
    if node.logical == "decimal" and node.kind in ("bytes", "fixed"):
        precision = int(node.attributes.get("precision", 0))
        if 0 < precision <= types.MAX_DECIMAL_PRECISION:
            return Decimal(precision, int(node.attributes.get("scale", 0)))
        return types.VARBINARY
    return _LOGICAL.get(node.logical) or _PLAIN.get(node.kind)


def record_of(node: Node) -> Type:
    """Returns the type of everything in a schema, with the former names of fields as aliases.

    What no column can hold is included too, as an `Unsupported` type.
    """
    return _whole(node, ())


def _whole(node: Node, inside: tuple[Node, ...]) -> Type:
    if node in inside:
        return Unsupported("a record inside itself")
    inside = (*inside, node)
    match node.kind:
        case "union":
            return _whole(node.only, inside) if node.only is not None else Unsupported("a union")
        case "array" | "map":
            assert node.inner is not None
            inner = _whole(node.inner, inside)
            if isinstance(inner, Unsupported):
                return inner
            return Array(inner) if node.kind == "array" else Map(types.VARCHAR, inner)
        case "record" if node.members:
            members = ((name, _whole(member, inside)) for name, member in node.members.items())
            return Row(
                tuple(Field(n, type_, aliases=node.aliases.get(n, ())) for n, type_ in members)
            )
    return type_of(node) or Unsupported(node.kind)

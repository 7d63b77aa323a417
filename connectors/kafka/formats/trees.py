"""The schema of a record as a tree, whatever language it is written in.

The kinds of types and the names of logical types are Avro's, which has the most of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.seam.encoding import TYPE_NAME
from seamline.seam.evolution import Alternatives, Packed, matched
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
        spelling: Which ways of writing its values are accepted.
        packed: The messages that a `google.protobuf.Any` may hold, by full name.
        sampled: The full names of what sampled records have in it.
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
    spelling: Spelling = PLAIN
    packed: dict[str, Node] = dataclasses.field(default_factory=dict)
    sampled: set[str] = dataclasses.field(default_factory=set)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The fields of a record, each with its former names."""
        return {name: self.aliases.get(name, ()) for name in self.members}

    @property
    def only(self) -> Node | None:
        """The only branch of a union that is not null; None unless there is exactly one."""
        others = self.alternatives
        return others[0] if len(others) == 1 else None

    @property
    def alternatives(self) -> list[Node]:
        """The branches of a union that are not null."""
        return [branch for branch in self.branches if branch.kind != "null"]


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
    "io.debezium.data.Json": "json",
}
ANY = "google.protobuf.Any"
"""A message that holds one of any type."""
PACKED = "@packed"
"""What an `Any` holds: the full name of its type, and the message; None if the type is missing."""
PLAIN_NUMBER = "plain-number"
"""The attribute of an integer that is a time only in a column that is a timestamp."""
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
"""A record that is a decimal: its scale, and its unscaled value."""


def logical_of(name: str) -> str:
    """Returns the logical type that a Kafka Connect or Debezium name stands for; empty if none."""
    return _CONNECT.get(name, "")


# --- Unions --------------------------------------------------------------------------------------


def tagged(union: Node, position: int, value: Any) -> tuple[str, dict[str, Any]]:
    """Returns a value of a union of several types, with a tag that says which of them it is of."""
    return f"{union.name}_{position}", {_TAGGED: value}


def untagged(value: tuple[str, Mapping[str, Any]]) -> tuple[int, Any]:
    """Returns which of a union's types a value is of, and the value."""
    tag, content = value
    return int(tag.rpartition("_")[2]), content[_TAGGED]


_TAGGED = "value"


def labels(alternatives: Sequence[Node]) -> list[str]:
    """Returns the names of a union's branches as fields of a row: those of their types.

    A named type has its name without the namespace, unless another one is spelt like it.
    """
    short = [_short(branch) for branch in alternatives]
    folded = [name.lower() for name in short]
    return [
        name if folded.count(name.lower()) == 1 else branch.name or branch.kind
        for name, branch in zip(short, alternatives, strict=True)
    ]


def by_label(alternatives: Sequence[Node]) -> dict[str, int]:
    """Returns the positions of a union's branches by the names that a row may have for them.

    These are the names of their types, as Redpanda has them, too, or the places of the branches, as
    Redpanda (`0`) and Spark (`member0`) had them, or `member_` and a name in lower case (Spark).
    """
    names: dict[str, int] = {}
    for naming in (labels(alternatives), *_other_names(alternatives)):
        for position, name in enumerate(naming):
            names.setdefault(name, position)
    return names


def _other_names(alternatives: Sequence[Node]) -> tuple[tuple[str, ...], ...]:
    full = tuple(branch.name or branch.kind for branch in alternatives)
    if len(full) < 2:
        return (full,)
    places = range(len(full))
    stable = tuple(f"member_{_short(branch).lower()}" for branch in alternatives)
    return (full, tuple(f"member{i}" for i in places), tuple(map(str, places)), stable)


def branch_of(field: Field, names: Mapping[str, int]) -> int | None:
    """Returns the branch of a union that a field of a row stands for; None if it stands for none.

    Args:
        field: The field.
        names: See `by_label`.
    """
    return next((names[name] for name in (field.name, *field.aliases) if name in names), None)


def own_rows(node: Node, fields: Sequence[Field]) -> list[Field]:
    """Returns the rows that a record as a whole is in, as one of several kinds of records.

    They have the name of the record's type, and no field of the record has it.
    """
    names = by_label([node])
    which = matched(fields, node.names)
    return [
        field
        for field in fields
        if isinstance(field.type, Row)
        and field.name not in which
        and branch_of(field, names) is not None
    ]


def packed_names(node: Node) -> dict[str, str]:
    """Returns the full names of what an `Any` may hold, by the names that a row may have for them.

    These are full names, and names without their package that no other message has.
    """
    short: dict[str, list[str]] = {}
    for name in node.packed:
        short.setdefault(name.rpartition(".")[2], []).append(name)
    only = {label: names[0] for label, names in short.items() if len(names) == 1}
    return {**only, **{name: name for name in node.packed}}


def packed_fields(node: Node, fields: Sequence[Field]) -> dict[str, str]:
    """Returns the fields of a row that are for a message in an `Any`, each with its full name."""
    names = packed_names(node)
    return {
        field.name: names[own]
        for field in fields
        for own in (field.name, *field.aliases)
        if own in names and field.name not in node.members
    }


def is_type_name(field: Field, which: Mapping[str, str]) -> bool:
    """Whether a field is the name of a record's type.

    Args:
        field: The field.
        which: The fields of the record by the names of those that they are matched to.
    """
    return field.name == TYPE_NAME and field.type == types.VARCHAR and field.name not in which


def _short(branch: Node) -> str:
    return branch.name.rpartition(".")[2] or branch.kind


def finds_all(node: Node, type_: Type | None) -> bool:
    """Whether every field of a type finds its match in a tree, at every depth."""
    node = node.only or node
    match type_:
        case Row(fields) if node.kind == "record":
            which = matched(fields, node.names)
            elsewhere = {TYPE_NAME, *packed_fields(node, fields)}
            return all(
                field.name in which and finds_all(node.members[which[field.name]], field.type)
                for field in fields
                if field.name not in elsewhere
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
    for node in every(root) if spelling != PLAIN else ():
        is_plain = node.kind in ("int", "long") and node.logical not in _OF_TIME
        if is_plain and spelling.epoch != "millis":
            node.logical = f"timestamp-{spelling.epoch}"
            node.attributes = {**node.attributes, PLAIN_NUMBER: True}
        node.spelling = spelling
    return root


def every(root: Node) -> Iterator[Node]:
    """Yields a tree's nodes, each once."""
    seen: set[Node] = set()
    left = [root]
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            left += [*node.members.values(), *node.branches, *node.packed.values()]
            left += [node.inner] if node.inner is not None else []
            yield node


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

    The former names of fields are aliases of the columns. For a union of records, they are those of
    all of them; where these differ in a field's type, each record has a row for its own.
    """
    inside = inside or (node,)
    if node.kind == "union":
        return _columns_of_all([(b, columns_of(b, (*inside, b))) for b in node.alternatives])
    members = ((name, type_of(member, inside)) for name, member in node.members.items())
    return tuple(
        Field(name, type_, aliases=node.aliases.get(name, ()))
        for name, type_ in members
        if type_ is not None
    )


def _columns_of_all(records: Sequence[tuple[Node, tuple[Field, ...]]]) -> tuple[Field, ...]:
    """Returns the columns for the fields of any of several records."""
    common: dict[str, Field | None] = {}
    for _, columns in records:
        for column in columns:
            earlier = common.setdefault(column.name.lower(), column)
            if earlier is not None:
                common[column.name.lower()] = _wider_of(earlier, column)
    own = []
    for label, (_, columns) in zip(labels([r for r, _ in records]), records, strict=True):
        differing = tuple(c for c in columns if common[c.name.lower()] is None)
        if differing and label.lower() not in common:
            own.append(Field(label, Row(differing)))
    return (*(column for column in common.values() if column is not None), *own)


def _wider_of(one: Field, other: Field) -> Field | None:
    """Returns the field whose type holds the values of both; None if neither does."""
    if one.name != other.name:
        return None
    if one.type == other.type or (other.type, one.type) in _WIDENED:
        return one
    return other if (one.type, other.type) in _WIDENED else None


_WIDENED = frozenset({(types.INTEGER, types.BIGINT), (types.REAL, types.DOUBLE)})


def type_of(node: Node, inside: tuple[Node, ...] = ()) -> Type | None:
    """Returns the type of a column for a node, or None if there is none.

    If its values may be JSON text, this is what a union is, and what has no type of its own.
    """
    if node.spelling.json_text and node.kind in ("union", "record", "array", "map"):
        return type_of(node.only, inside) if node.only else _own_type(node, inside) or types.VARCHAR
    return _own_type(node, inside)


def _own_type(node: Node, inside: tuple[Node, ...]) -> Type | None:
    if node in inside:
        return None  # a record inside itself has no end
    inside = (*inside, node)
    match node.kind:
        case "union" if node.only is not None:
            return type_of(node.only, inside)
        case "union" if node.spelling.json_text:
            return types.VARCHAR
        case "union":
            fields = _alternative_columns(node, inside)
            return Row(fields) if fields else None
        case "array" | "map":
            assert node.inner is not None
            inner = type_of(node.inner, inside)
            if inner is None:
                return None
            return Array(inner) if node.kind == "array" else Map(types.VARCHAR, inner)
        case "record" if node.packed:
            return _packed_type(node, inside)
        case "record":
            fields = columns_of(node, inside)
            return Row(fields) if fields else None
    if node.logical == "decimal" and node.kind in ("bytes", "fixed"):
        precision = int(node.attributes.get("precision", 0))
        if 0 < precision <= types.MAX_DECIMAL_PRECISION:
            return Decimal(precision, int(node.attributes.get("scale", 0)))
        return types.VARBINARY
    return _LOGICAL.get(node.logical) or _PLAIN.get(node.kind)


def _packed_type(node: Node, inside: tuple[Node, ...]) -> Type:
    """Returns a row with a field per message that samples have in an `Any`; json if none holds all.

    A message without fields is true where it is present.
    """
    by_name: dict[str, str] = {}
    for label, name in packed_names(node).items():  # those without a package come first
        if label not in node.members:
            by_name.setdefault(name, label)
    fields = [Field(TYPE_NAME, types.VARCHAR)]
    for name in sorted(node.sampled):
        if name not in by_name:
            return types.JSON  # the schema lacks it, or it is called like a field of `Any`
        message = node.packed[name]
        is_empty = message.kind == "record" and not message.members
        type_ = types.BOOLEAN if is_empty else type_of(message, inside)
        if type_ is None:
            return types.JSON
        fields.append(Field(by_name[name], type_))
    is_row = 1 < len(fields) == len({field.name.lower() for field in fields})
    return Row(tuple(fields)) if is_row else types.JSON


def _alternative_columns(node: Node, inside: tuple[Node, ...]) -> tuple[Field, ...]:
    """Returns the fields of a row that has one for each branch of a union."""
    names = labels(node.alternatives)
    if len({name.lower() for name in names}) < len(names):
        return ()
    typed = [(name, type_of(b, inside)) for name, b in zip(names, node.alternatives, strict=True)]
    return tuple(Field(name, type_) for name, type_ in typed if type_ is not None)


def record_of(node: Node) -> Type:
    """Returns the type of everything in a schema, with the former names of fields as aliases.

    What no column can hold is included too, as an `Unsupported` type. A union of records is the row
    of their fields, as in `columns_of`.
    """
    if node.kind == "union" and node.only is None and node.branches:
        return Row(columns_of(node))
    return _whole(node, ())


def _whole(node: Node, inside: tuple[Node, ...]) -> Type:
    if node in inside:
        return Unsupported("a record inside itself")
    inside = (*inside, node)
    match node.kind:
        case "union" if node.only is not None:
            return _whole(node.only, inside)
        case "union" if node.branches and not node.spelling.json_text:
            branches = node.alternatives
            names = tuple(labels(branches)), *_other_names(branches)
            return Alternatives(tuple(_whole(b, inside) for b in branches), names)
        case "union":
            return Unsupported("a union")
        case "array" | "map":
            assert node.inner is not None
            inner = _whole(node.inner, inside)
            if isinstance(inner, Unsupported):
                return inner
            return Array(inner) if node.kind == "array" else Map(types.VARCHAR, inner)
        case "record" if node.packed:
            return Packed(Row(tuple(Field(n, _whole(m, inside)) for n, m in node.members.items())))
        case "record" if node.members:
            members = ((name, _whole(member, inside)) for name, member in node.members.items())
            return Row(
                tuple(Field(n, type_, aliases=node.aliases.get(n, ())) for n, type_ in members)
            )
    return type_of(node) or Unsupported(node.kind)

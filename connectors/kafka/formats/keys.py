"""Finds columns that no record of a sample has a value for: misspelt names, which stay null.

What the records of a sample have is taken from the records themselves where they name their fields,
as JSON does, and from their schemas where they have one. A column is looked for as the decoder
looks for it: by its names in the value, or at the path of its source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from seamline.connectors.kafka.formats.connect import PAYLOAD, SCHEMA
from seamline.connectors.kafka.formats.json_values import parse
from seamline.connectors.kafka.formats.parts import Leaf, Parts
from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.connectors.kafka.formats.trees import Node, by_label, packed_names
from seamline.seam.encoding import TYPE_NAME, Path
from seamline.sql import types
from seamline.sql.near import did_you_mean
from seamline.sql.types import Array, Field, Map, Row, Type, quote


class Keys(dict[str, "Keys"]):
    """The keys that the objects at one place have, each with the keys inside it.

    What is in an array is at the place of the array.
    """

    @classmethod
    def of_json(cls, parts: Parts) -> Keys:
        """Returns the keys of JSON objects; what is not JSON has none."""
        keys = cls()
        for part in parts:
            try:
                keys.add(None if part is None else parse(part))
            except (ValueError, RecursionError):
                continue
        return keys

    @classmethod
    def of_schemas(cls, nodes: Iterable[Node]) -> Keys:
        """Returns the fields of schemas, under all of their names."""
        keys = cls()
        for node in nodes:
            keys.add_schema(node)
        return keys

    def at(self, path: Path) -> Keys:
        """Returns the keys of what a path leads to; none if nothing has it."""
        keys = self
        for name in path:
            keys = keys.get(name, Keys())
        return keys

    def add(self, value: Any) -> None:
        """Adds the keys of a JSON value."""
        match value:
            case dict():
                for key, inner in value.items():
                    self.setdefault(key, Keys()).add(inner)
            case list():
                for item in value:
                    self.add(item)

    def add_schema(self, node: Node, inside: tuple[Node, ...] = ()) -> None:
        """Adds the fields of a schema; `inside` is what it is inside of, where it may recur."""
        if node in inside:
            return
        inside = (*inside, node)
        for name, member in node.members.items():
            for own in (name, *node.aliases.get(name, ())):
                self.setdefault(own, Keys()).add_schema(member, inside)
        if node.kind == "record":
            self.setdefault(TYPE_NAME, Keys())
        for branch in node.branches:
            self.add_schema(branch, inside)
        alternatives = node.alternatives if node.kind == "union" else [node]
        for label, position in by_label(alternatives).items():
            self.setdefault(label, Keys()).add_schema(alternatives[position], inside)
        for label, name in packed_names(node).items():
            self.setdefault(label, Keys()).add_schema(node.packed[name], inside)
        if node.inner is not None:
            place = self if node.kind == "array" else self.setdefault(_ANY_KEY, Keys())
            place.add_schema(node.inner, inside)

    @property
    def all(self) -> Keys:
        """What is inside any of them, as in the values of a map."""
        return merged(self.values())

    @property
    def unwrapped(self) -> Keys:
        """The same, with what Kafka Connect has wrapped with its schema beside the wrapper."""
        is_wrapped = PAYLOAD in self and SCHEMA in self
        return merged((self, self[PAYLOAD])) if is_wrapped else self


_ANY_KEY = "*"


def merged(every: Iterable[Keys]) -> Keys:
    """Returns the keys of several places as those of one."""
    union = Keys()
    for keys in every:
        for name, inner in keys.items():
            union[name] = merged((union[name], inner)) if name in union else inner
    return union


@dataclasses.dataclass(frozen=True, slots=True)
class Unmet:
    """A column, or a field inside one, that no record has.

    Attributes:
        column: Its path in the table.
        source: The path where it was looked for, as far as records have it and one name further.
        beside: The keys that records have in its place.
    """

    column: Path
    source: Path
    beside: Keys

    def note(self, part: str, of: str) -> str:
        """Returns it as a note.

        Args:
            part: The part of the record that the path is in; empty where the column's name says it.
            of: Where it was looked for.
        """
        what = f"{part}.{'.'.join(map(quote, self.source))}" if part else "it"
        near = did_you_mean(self.source[-1], self.beside)
        note = f"{'.'.join(map(quote, self.column))}: {of} has {what}, so it is null."
        return f"{note} {near}" if near else note


def unmet(
    leaves: Sequence[Leaf], keys: Keys, spelling: Spelling = PLAIN
) -> Iterator[tuple[Leaf, Unmet]]:
    """Yields what no record has of the leaves of one part, with the leaf.

    Args:
        leaves: What is read from that part.
        keys: What the records have there.
        spelling: Which ways of writing values are accepted.
    """
    for leaf in leaves:
        for reason in _unmet_leaf(leaf, keys, spelling):
            yield leaf, reason


def _named(type_: Type, spelling: Spelling) -> Type:
    """Returns a type without the rows whose fields no record names, as they are types of values."""
    match type_:
        case Row() if spelling.is_of_several(type_):
            return types.JSON
        case Row(fields):
            inner = (dataclasses.replace(f, type=_named(f.type, spelling)) for f in fields)
            return Row(tuple(inner))
        case Array(element):
            return Array(_named(element, spelling))
        case Map(key, value):
            return Map(key, _named(value, spelling))
    return type_


def _unmet_leaf(leaf: Leaf, keys: Keys, spelling: Spelling) -> Iterator[Unmet]:
    for place, name in enumerate(leaf.path):
        is_last = place == len(leaf.path) - 1
        names = (name, *leaf.field.aliases) if leaf.by_name and is_last else (name,)
        inside = [keys[own] for own in names if own in keys]
        if not inside:
            yield Unmet(leaf.column, leaf.path[: place + 1], keys)
            return
        keys = merged(inside)
    yield from _unmet_inside(_named(leaf.field.type, spelling), keys, leaf.column, leaf.path)


def _unmet_inside(type_: Type, keys: Keys, column: Path, path: Path) -> Iterator[Unmet]:
    match type_:
        case Row(fields) if keys:
            for field in fields:
                yield from _unmet_field(field, keys, (*column, field.name), (*path, field.name))
        case Array(element):
            yield from _unmet_inside(element, keys, column, path)
        case Map(_, value):
            yield from _unmet_inside(value, keys.all, column, path)


def _unmet_field(field: Field, keys: Keys, column: Path, path: Path) -> Iterator[Unmet]:
    inside = [keys[name] for name in (field.name, *field.aliases) if name in keys]
    if not inside:
        yield Unmet(column, path, keys)
        return
    yield from _unmet_inside(field.type, merged(inside), column, path)

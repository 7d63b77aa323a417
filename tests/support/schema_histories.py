"""Random histories of an Avro schema: fields added, widened, renamed and dropped, at any depth.

Names are never used again, so that a name, present or former, stands for one field forever.
"""

from __future__ import annotations

import dataclasses
import decimal
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any


@dataclasses.dataclass
class Leaf:
    """A type without others in it."""

    kind: Any

    def avro(self, everything: bool) -> Any:
        return self.kind

    def value(self, chance: random.Random) -> Any:
        match self.kind:
            case "int" | "long":
                bits = 31 if self.kind == "int" else 63
                return chance.randint(-(2**bits), 2**bits - 1)
            case "float":
                return float(chance.randint(-100, 100)) / 4
            case "double":
                return chance.random()
            case "string":
                return chance.choice(["", "a", "é"])
        digits = 10 ** self.kind["precision"] - 1
        return decimal.Decimal(chance.randint(-digits, digits)).scaleb(-2)

    @property
    def wider(self) -> Any:
        match self.kind:
            case "int":
                return "long"
            case "float":
                return "double"
            case {"precision": int(digits)} if digits < 36:
                return decimals(digits + 2)
        return None


def decimals(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


@dataclasses.dataclass
class Nested:
    """An array or a map."""

    kind: str
    inner: Any

    def avro(self, everything: bool) -> Any:
        word = "items" if self.kind == "array" else "values"
        return {"type": self.kind, word: self.inner.avro(everything)}

    def value(self, chance: random.Random) -> Any:
        values = [self.inner.value(chance) for _ in range(chance.randint(0, 2))]
        return values if self.kind == "array" else {f"k{i}": v for i, v in enumerate(values)}


@dataclasses.dataclass
class Several:
    """A union of several types."""

    branches: Sequence[Any]

    def avro(self, everything: bool) -> list[Any]:
        return [branch.avro(everything) for branch in self.branches]

    def value(self, chance: random.Random) -> Any:
        return chance.choice(self.branches).value(chance)


@dataclasses.dataclass
class Member:
    """A field, with the names it had; its present one is the last."""

    names: list[str]
    type: Any
    is_there: bool = True
    is_steady: bool = False


@dataclasses.dataclass
class Record:
    """A record, with every field it ever had."""

    name: str
    members: list[Member]

    def avro(self, everything: bool) -> Any:
        fields = [
            {
                "name": member.names[-1],
                "type": ["null", *_branches(member.type.avro(everything))],
                "default": None,
                "aliases": member.names[:-1],
            }
            for member in self.members
            if member.is_there or everything
        ]
        return {"type": "record", "name": self.name, "fields": fields}

    def value(self, chance: random.Random) -> Any:
        return {
            m.names[-1]: m.type.value(chance) if chance.random() < 0.8 else None
            for m in self.members
            if m.is_there
        }


def _branches(type_: Any) -> list[Any]:
    return type_ if isinstance(type_, list) else [type_]


def records_in(type_: Any) -> Iterator[Record]:
    if isinstance(type_, Nested):
        yield from records_in(type_.inner)
    elif isinstance(type_, Record):
        yield type_
        for member in type_.members:
            if member.is_there:
                yield from records_in(member.type)


class History:
    """Makes schemas and changes them.

    Args:
        seed: Of every decision.
        steady: Fields that come first and stay as they are.
    """

    def __init__(self, seed: int, steady: Sequence[Member] = ()) -> None:
        self.chance = random.Random(seed)
        self._numbers = itertools.count()
        self.root = self._record(0)
        self.root.members[:0] = steady

    def step(self) -> None:
        """Changes one thing."""
        record = self.chance.choice(list(records_in(self.root)))
        there = [m for m in record.members if m.is_there and not m.is_steady]
        member = self.chance.choice(there)
        match self.chance.choice(["add", "widen", "rename", "drop"]):
            case "widen" if (wider := _leaf_of(member.type)) is not None and wider.wider:
                wider.kind = wider.wider
            case "rename":
                member.names.append(self._name())
            case "drop" if len(there) > 1:
                member.is_there = False
            case _:
                place = self.chance.randint(
                    sum(m.is_steady for m in record.members), len(record.members)
                )
                record.members.insert(place, Member([self._name()], self._type(1)))

    def _name(self) -> str:
        return f"f{next(self._numbers)}"

    def _record(self, depth: int) -> Record:
        members = [
            Member([self._name()], self._type(depth)) for _ in range(self.chance.randint(1, 4))
        ]
        return Record(f"R{next(self._numbers)}", members)

    def _type(self, depth: int) -> Any:
        kind = self.chance.choice(["leaf", "leaf", "record", "array", "map"])
        if kind == "leaf" or depth > 2:
            leaves = ["int", "long", "float", "double", "string", decimals(6)]
            return Leaf(self.chance.choice(leaves))
        if kind == "record":
            return self._record(depth + 1)
        return Nested(kind, self._type(depth + 1))


def _leaf_of(type_: Any) -> Leaf | None:
    while isinstance(type_, Nested):
        type_ = type_.inner
    return type_ if isinstance(type_, Leaf) else None

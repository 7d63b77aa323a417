"""Refuses Avro that is nested too deeply, before a reader that would exhaust its stack sees it.

Only a schema that contains itself can have such values. They are walked here without recursion, and
strictly: what this walk accepts, the reader reads in the same way.
"""

from __future__ import annotations

import graphlib

from seamline.connectors.kafka.formats.json_values import DEPTH_MAX
from seamline.connectors.kafka.formats.trees import Node

_NESTING = frozenset({"record", "array", "map"})
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_EMPTY_ITEMS_MAX = 1 << 20
"""How many items without bytes, such as nulls, a value may have."""


def is_recursive(root: Node) -> bool:
    """Whether a schema contains itself."""
    inner: dict[Node, list[Node]] = {}
    left = [root]
    while left:
        node = left.pop()
        if node not in inner:
            inner[node] = [*node.members.values(), *node.branches]
            inner[node] += [node.inner] if node.inner is not None else []
            left += inner[node]
    try:
        graphlib.TopologicalSorter(inner).prepare()
    except graphlib.CycleError:
        return True
    return False


def check_depth(value: bytes, root: Node) -> None:
    """Raises ValueError if a value is nested deeper than `DEPTH_MAX` levels, or is not Avro."""
    walk = _Walk(value)
    left: list[tuple[Node, int, int]] = [(root, 1, 1)]
    while left:
        node, depth, count = left.pop()
        if count > 1:
            left.append((node, depth, count - 1))
        if node.kind in _NESTING and depth > DEPTH_MAX:
            raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
        match node.kind:
            case "union":
                left.append((node.branches[walk.index(len(node.branches))], depth, 1))
            case "record" | "entry":
                left += [(member, depth + 1, 1) for member in reversed(node.members.values())]
            case "array" | "map" if node.inner is not None:
                items = walk.count()
                if items:
                    left.append((node, depth, 1))  # the next block
                    is_map = node.kind == "map"
                    item = _entry(node.inner) if is_map else node.inner
                    left.append((item, depth if is_map else depth + 1, items))
            case _:
                walk.leaf(node)


def _entry(value: Node) -> Node:
    """Returns the schema of a map's entries."""
    return Node("entry", members={"key": Node("string"), "value": value})


class _Walk:
    """A position in the bytes of a value. Its methods raise ValueError for anything but Avro."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._place = 0
        self._items = 0

    def leaf(self, node: Node) -> None:
        """Skips a value without others in it."""
        match node.kind:
            case "int" | "long":
                self._number()
            case "enum":
                self.index(len(node.attributes["symbols"]))
            case "string" | "bytes":
                self._skip(self._number())
            case "fixed":
                self._skip(int(node.attributes["size"]))
            case _:
                self._skip(_SIZES[node.kind])

    def index(self, count: int) -> int:
        """Reads the index of a branch or a symbol."""
        number = self._number()
        if not 0 <= number < count:
            raise ValueError(f"not Avro: {number} where one of {count} is expected")
        return number

    def count(self) -> int:
        """Reads how many items a block has; a negative number has the block's size after it."""
        number = self._number()
        if number < 0:
            self._number()
        self._items += abs(number)
        if self._items > max(len(self._value), _EMPTY_ITEMS_MAX):
            raise ValueError(f"not Avro: {self._items} items in {len(self._value)} bytes")
        return abs(number)

    def _number(self) -> int:
        bits = shift = 0
        while shift < 70:
            if self._place >= len(self._value):
                raise ValueError("not Avro: it ends too early")
            byte = self._value[self._place]
            self._place += 1
            bits |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 and bits < 2**64:
                return (bits >> 1) ^ -(bits & 1)
            if byte < 0x80:
                break
        raise ValueError("not Avro: a number of more than 64 bits")

    def _skip(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"not Avro: a size of {size}")
        if size > len(self._value) - self._place:
            raise ValueError("not Avro: it ends too early")
        self._place += size

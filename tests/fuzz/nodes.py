"""A query as a tree that is written twice, and whose parts can be taken out.

Every part is written in Trino's SQL, for Seamline, and in DuckDB's own, for an oracle that knows
nothing of Seamline; a part with another meaning in DuckDB has no such text, nor has what is around
it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

_HOLE = re.compile(r"\{(\d+)\}")
LIST = "list"
"""The kind of a part that is a list: what is in it can be taken out, but for the last."""
OPTION = "option"
"""The kind of a part that can be left out."""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A part of a query.

    Attributes:
        kind: What it may be replaced by: another of its kind. An expression's is its type.
        sql: Its text, with `{0}` for its first part; text of a part without parts is as it is.
        plain: The same for DuckDB itself, None where it has none.
        parts: What is in it.
    """

    kind: str
    sql: str
    plain: str | None
    parts: tuple[Node, ...] = ()

    @property
    def trino(self) -> str:
        """Its text for Seamline."""
        return self._filled(self.sql, [part.trino for part in self.parts])

    @property
    def duckdb(self) -> str | None:
        """Its text for DuckDB alone."""
        texts = [part.duckdb for part in self.parts]
        if self.plain is None or None in texts:
            return None
        return self._filled(self.plain, [text for text in texts if text is not None])

    @property
    def size(self) -> int:
        """How many parts there are in all."""
        return 1 + sum(part.size for part in self.parts)

    def walk(self) -> Iterator[Node]:
        """It, and everything in it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def _filled(self, text: str, texts: Sequence[str]) -> str:
        if self.kind == LIST:
            return ", ".join(texts)
        return _HOLE.sub(lambda hole: texts[int(hole[1])], text) if self.parts else text


def same(kind: str, text: str, *parts: Node) -> Node:
    """A part that both write the same way."""
    return Node(kind, text, text, parts)


def ours(kind: str, text: str, *parts: Node) -> Node:
    """A part that only Seamline answers."""
    return Node(kind, text, None, parts)


def listed(parts: Sequence[Node]) -> Node:
    """Parts with commas between them."""
    return Node(LIST, "", "", tuple(parts))


def option(node: Node | None) -> Node:
    """A clause that may be missing."""
    return NOTHING if node is None else Node(OPTION, " {0}", " {0}", (node,))


NOTHING = Node(OPTION, "", "")


def smaller(root: Node, simplest: Callable[[str], Node | None]) -> Iterator[Node]:
    """The tree with one part replaced by less, the greatest cuts first.

    Args:
        root: The tree.
        simplest: The least expression of a kind, if it has one.
    """
    found = sorted(_cuts(root, simplest), key=lambda node: node.size)
    yield from (node for node in found if node.size < root.size or len(node.sql) < len(root.sql))


def _cuts(node: Node, simplest: Callable[[str], Node | None]) -> Iterator[Node]:
    if node.kind == OPTION and node.parts:
        yield NOTHING
    if node.kind == LIST and len(node.parts) > 1:
        for place in range(len(node.parts)):
            yield dataclasses.replace(node, parts=(*node.parts[:place], *node.parts[place + 1 :]))
    if node.kind not in (LIST, OPTION):
        yield from (inner for inner in list(node.walk())[1:] if inner.kind == node.kind)
        least = simplest(node.kind)
        if least is not None and node.parts:
            yield least
    for place, part in enumerate(node.parts):
        for cut in _cuts(part, simplest):
            parts = (*node.parts[:place], cut, *node.parts[place + 1 :])
            yield dataclasses.replace(node, parts=parts)

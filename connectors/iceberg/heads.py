"""Parses the metadata of tables; what the next head of a table repeats is parsed only once.

A head lists the snapshots of the one before it, and one more. An element of these lists whose text
is the same as in the head before becomes the same object, so a new head costs what is new in it, in
time and in memory. Everything else is parsed as PyIceberg does it, and so is the whole text if its
lists cannot be told apart with certainty.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.cache import Cache

HEADS_BYTES_MAX = 256 << 20
"""How much memory the last heads of all tables may take here, and where they are cached."""
SNAPSHOT_BYTES = 4096
"""About what a parsed snapshot takes."""
_HEAD_BYTES = 64 << 10
_BYTES_OF_TEXT = 4
"""About what a character of such a list takes, with what it is parsed to."""
_LISTS = {"snapshots": "snapshots", "snapshot-log": "snapshot_log", "metadata-log": "metadata_log"}
_TABLE = re.compile(r'"table-uuid"\s*:\s*"([^"]*)"')
_OPENING = re.compile(r"[ \t\r\n]*:[ \t\r\n]*\[")
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_MARK = "seamline"
_LISTING = '"manifests"'
"""What only version 1 allows in a snapshot, so that its text alone does not say what it means."""

T = TypeVar("T")
E = TypeVar("E")


def bytes_of(metadata: TableMetadata) -> int:
    """Returns about how much memory the metadata of a table takes."""
    return _HEAD_BYTES + SNAPSHOT_BYTES * len(metadata.snapshots)


def added(listed: Sequence[E], earlier: Sequence[E]) -> Sequence[E]:
    """Returns the elements of a list of a head that are not the objects of an earlier head."""
    if listed[: len(earlier)] == earlier:
        return listed[len(earlier) :]
    before = set(map(id, earlier))
    return [element for element in listed if id(element) not in before]


@dataclasses.dataclass(frozen=True)
class _ListText:
    """The text of a list of a head, from its first element to its last.

    Attributes:
        base: The text, or most of it, which successive heads share.
        more: The rest of it.
        starts: Where elements begin in it.
        ends: Where they end.
        elements: What they were parsed to; None for those that have yet to be parsed.
        new: The numbers of these.
    """

    base: str
    more: str
    starts: list[int]
    ends: list[int]
    elements: list[Any]
    new: list[int]

    @functools.cached_property
    def text(self) -> str:
        """The whole text."""
        return self.base + self.more

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers of elements, by their texts."""
        bounds = zip(self.starts, self.ends, strict=True)
        return {self.text[start:end]: number for number, (start, end) in enumerate(bounds)}

    def begins(self, text: str, position: int) -> bool:
        """Whether a text repeats all of it at a position."""
        return (
            bool(self.starts)
            and text.startswith(self.base, position)
            and text.startswith(self.more, position + len(self.base))
        )

    def of(self, text: str, first: int) -> _ListText:
        """Returns the elements with their text, which begins at a position of another."""
        end = first + self.ends[-1]
        if self.base and self.ends[-1] < len(self.base) * 9 // 8:
            return dataclasses.replace(self, more=text[first + len(self.base) : end])
        return dataclasses.replace(self, base=text[first:end], more="")

    def repeated(self, first: int, text: str, position: int) -> int:
        """Returns how many elements, from one of them on, a text repeats at a position."""
        start, least, most = self.starts[first], 0, len(self.starts) - first
        count = most
        while least < most:
            if text.startswith(self.text[start : self.ends[first + count - 1]], position):
                least = count
            else:
                most = count - 1
            count = (least + most + 1) // 2
        return least

    def new_elements(self) -> str:
        """Returns the elements that have yet to be parsed."""
        length = len(self.base)
        if self.new and self.starts[self.new[0]] >= length:
            bounds = ((self.starts[n] - length, self.ends[n] - length) for n in self.new)
            return ",".join(self.more[start:end] for start, end in bounds)
        return ",".join(self.text[self.starts[n] : self.ends[n]] for n in self.new)


@dataclasses.dataclass(frozen=True, slots=True)
class _ListSpan:
    """Where the elements of a list are in the text of a head, with the space around them."""

    start: int
    end: int
    list: _ListText


class HeadParser:
    """Parses metadata. Safe to share between threads."""

    def __init__(self) -> None:
        self._last: Cache[str, dict[str, _ListText]] = Cache(HEADS_BYTES_MAX, weight=_weight)

    def parsed(
        self,
        text: str,
        parse: Callable[[str], T],
        metadata_of: Callable[[T], TableMetadata],
        path: Sequence[str] = (),
    ) -> T:
        """Returns what a text is parsed to.

        Args:
            text: JSON that holds the metadata of a table.
            parse: Parses it, or the same text with shorter lists.
            metadata_of: Returns the metadata in what `parse` returns.
            path: The names that lead to the metadata in the text.

        Raises:
            Exception: what `parse` raises.
        """
        table = _TABLE.search(text)
        if table is None:
            return parse(text)
        try:
            spans = _spans(text, self._last.get(table[1]) or {})
            shorter = _replaced(text, spans, lambda span: span.list.new_elements())
            if _LISTING in shorter or not _are_of_metadata(text, spans, path):
                return parse(text)
        except (ValueError, IndexError, RecursionError):
            return parse(text)  # which says what is wrong with it
        result = parse(shorter)
        metadata = metadata_of(result)
        for name, span in spans.items():
            parsed, elements = getattr(metadata, _LISTS[name]), span.list.elements
            for number, element in zip(span.list.new, parsed, strict=True):
                elements[number] = element
            parsed[:] = elements
            span.list.new.clear()
        self._last.put(table[1], {name: span.list for name, span in spans.items()})
        return result


def _weight(lists: dict[str, _ListText]) -> int:
    return _HEAD_BYTES + _BYTES_OF_TEXT * sum(len(one.base) for one in lists.values())


def _spans(text: str, last: Mapping[str, _ListText]) -> dict[str, _ListSpan]:
    """Returns the lists in a text.

    Raises:
        ValueError, IndexError, RecursionError: when the text is no metadata.
    """
    spans: dict[str, _ListSpan] = {}
    after = 0
    for name in _LISTS:  # they mostly follow each other, and the first may be long
        start = _start(text, name, after)
        if start is None and after:
            start = _start(text, name, 0)
        if start is not None:
            spans[name] = _span(text, start, last.get(name))
            after = spans[name].end
    return spans


def _start(text: str, name: str, position: int) -> int | None:
    """Returns where the elements of a list begin."""
    quoted = f'"{name}"'
    while (position := text.find(quoted, position)) >= 0:
        position += len(quoted)
        opening = _OPENING.match(text, position)
        if opening is not None:
            return opening.end()
    return None


def _span(text: str, start: int, last: _ListText | None) -> _ListSpan:
    first = position = _after_space(text, start)
    elements = _ListText("", "", [], [], [], [])
    if last is not None and last.begins(text, first):
        starts, ends = list(last.starts), list(last.ends)
        elements = _ListText(last.base, "", starts, ends, list(last.elements), [])
        position, last = first + last.ends[-1], None
    elif text[first] == "]":
        return _ListSpan(start, first, elements)
    else:
        position = _read(text, first, first, last, elements)
    while text[position := _after_space(text, position)] == ",":
        position = _read(text, first, _after_space(text, position + 1), last, elements)
    if text[position] != "]":
        raise ValueError(f"a list goes on with {text[position]!r}")
    return _ListSpan(start, position, elements.of(text, first))


def _read(text: str, first: int, position: int, last: _ListText | None, elements: _ListText) -> int:
    """Adds the element at a position, and those after it that follow it in the last head, too.

    Args:
        text: The text of a head.
        first: Where the first element of the list begins.
        position: Where this element begins.
        last: The list in the last head.
        elements: The elements so far, to which more are added.

    Returns:
        Where the last of them ends.
    """
    end = _DECODER.raw_decode(text, position)[1]
    number = None if last is None else last.numbers.get(text[position:end])
    if last is None or number is None:
        elements.starts.append(position - first)
        elements.ends.append(end - first)
        elements.new.append(len(elements.elements))
        elements.elements.append(None)
    else:
        repeated = slice(number, number + last.repeated(number, text, position))
        shift = position - first - last.starts[number]
        elements.starts.extend(start + shift for start in last.starts[repeated])
        elements.ends.extend(end + shift for end in last.ends[repeated])
        elements.elements.extend(last.elements[repeated])
    return first + elements.ends[-1]


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()


def _are_of_metadata(text: str, spans: Mapping[str, _ListSpan], path: Sequence[str]) -> bool:
    """Whether the lists are the metadata's own, not others of the same names.

    Raises:
        ValueError: when the text is not JSON.
    """
    body = json.loads(_replaced(text, spans, lambda _: f'"{_MARK}"'))
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return isinstance(body, dict) and all(body.get(name) == [_MARK] for name in spans)


def _replaced(
    text: str, spans: Mapping[str, _ListSpan], elements: Callable[[_ListSpan], str]
) -> str:
    """Returns a text with other elements in its lists."""
    parts, position = list[str](), 0
    for span in sorted(spans.values(), key=lambda span: span.start):
        parts += [text[position : span.start], elements(span)]
        position = span.end
    return "".join((*parts, text[position:]))

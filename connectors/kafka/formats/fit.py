"""Checks whether columns fit the records of a sample, and which types would.

A column that does not fit turns every record with a value for it into a bad one, and epoch seconds
are silently read as milliseconds. Both can be detected before the first query: the sample is
decoded once for all columns. Only if a record is bad, it is parsed, once, each leaf of a column is
decoded alone, as the decoder does it, and if it fails, other types are tried on the whole sample.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.json_values import JsonValues, Parsed, parsed_record
from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.expressions import casts
from seamline.sql.types import Array, Field, Map, Row, Type, quote

Inner = TypeVar("Inner")
Outer = TypeVar("Outer")
Values = Sequence[bytes | None]

_OTHERS: tuple[Type, ...] = (
    types.BIGINT,
    types.DOUBLE,
    types.BOOLEAN,
    types.DATE,
    types.TIMESTAMP,
    types.TIMESTAMP_TZ,
    types.VARCHAR,
    types.JSON,
)
"""Tried in this order, the narrowest first."""
_TIMESTAMPS = (types.TIMESTAMP, types.TIMESTAMP_TZ)
_SECONDS = range(946_684_800, 4_102_444_800)
"""The years 2000 to 2099 in seconds; as milliseconds they would be five weeks of 1970."""
_FATES = {
    "fail": "every query over such a record fails",
    "null": "such a record becomes a row of nulls",
    "skip": "such a record is left out",
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Leaf:
    """A column, or a field inside one, that has no fields itself.

    Attributes:
        path: Names that lead to it.
        type: Its declared type.
        alone: Whether a record has only one of it, named by `path`: it is in no array or map.
        column: Makes the column with only this leaf, of another type.
    """

    path: tuple[str, ...]
    type: Type
    alone: bool
    column: Callable[[Type], Field]

    @property
    def name(self) -> str:
        """How queries refer to it."""
        return ".".join(map(quote, self.path))

    def bad(self, records: Sequence[Parsed], type_: Type) -> Mapping[int, str]:
        """Returns which records do not fit if the leaf has that type, and why."""
        return dict(self._each_bad(records, type_))

    def fits(self, records: Sequence[Parsed], type_: Type) -> bool:
        """Whether all records fit if the leaf has that type."""
        return next(self._each_bad(records, type_), None) is None

    def _each_bad(self, records: Sequence[Parsed], type_: Type) -> Iterator[tuple[int, str]]:
        column = self.column(type_)
        for index, record in enumerate(records):
            try:
                record.value(column)
            except ValueError as error:
                yield index, str(error)

    def numbers(self, records: Sequence[Parsed]) -> list[int]:
        """Returns the whole numbers in its place."""
        column = self.column(types.BIGINT)
        parsed: list[Any] = []
        for record in records:
            with contextlib.suppress(ValueError):
                parsed.append(record.value(column))
        return list(_flat(parsed))


def misfits(columns: Sequence[Field], values: Values, on_error: str) -> list[str]:
    """Returns a note for each leaf that cannot hold what sampled JSON records have there.

    Args:
        columns: The columns of the values.
        values: The sampled records.
        on_error: The policy for bad records.
    """
    arrays = JsonValues(tuple(columns)).decode_fast(values)
    if arrays is None:
        return _misfits(columns, values, on_error)
    early = [c for c, array in zip(columns, arrays, strict=True) if _has_early_times(array)]
    objects = list(map(parsed_record, values)) if early else []
    timestamps = (leaf for c in early for leaf in _leaves(c) if leaf.type in _TIMESTAMPS)
    return [note for leaf in timestamps for note in _seconds(leaf, objects)]


def _has_early_times(array: pa.Array) -> bool:
    """Whether a column has times that may come from seconds, which were read as milliseconds."""
    if pa.types.is_struct(array.type):
        return any(map(_has_early_times, array.flatten()))
    if pa.types.is_list(array.type):
        return _has_early_times(array.flatten())
    if not pa.types.is_timestamp(array.type):
        return False
    micros = array.cast(pa.int64())
    early = pc.and_(
        pc.greater_equal(micros, _SECONDS.start * 1000), pc.less(micros, _SECONDS.stop * 1000)
    )
    return bool(pc.any(early).as_py())


def _misfits(columns: Sequence[Field], values: Values, on_error: str) -> list[str]:
    leaves = (leaf for column in columns for leaf in _leaves(column))
    broken: dict[int, str] = {}
    objects: list[Parsed] = []
    for index, value in enumerate(values):
        try:
            objects.append(parsed_record(value))
        except (ValueError, RecursionError) as error:
            broken[index] = str(error)
    notes = [share_of(broken, len(values), on_error)] if broken else []
    for leaf in leaves:
        bad = leaf.bad(objects, leaf.type)
        if bad:
            other = next((t for t in _OTHERS if leaf.fits(objects, t)), None)
            offer = "" if other is None else f" {_offer(leaf, other, objects)}"
            notes.append(share_of(bad, len(objects), on_error) + offer)
        elif leaf.type in _TIMESTAMPS:
            notes += _seconds(leaf, objects)
    return notes


def share_of(bad: Mapping[int, str], count: int, on_error: str) -> str:
    """Returns a note about the bad ones among sampled records, with the first of their reasons."""
    share = f"{len(bad)} of {count} sampled records do not fit"
    return f"{bad[min(bad)]} ({share}): {_FATES[on_error]}."


def _seconds(leaf: _Leaf, values: Sequence[Parsed]) -> list[str]:
    """Notes numbers that are early in 1970 as milliseconds but in this century as seconds."""
    seconds = [number for number in leaf.numbers(values) if number in _SECONDS]
    if not seconds:
        return []
    read = datetime.datetime.fromtimestamp(seconds[0] / 1000, datetime.UTC)
    return [
        f"{leaf.name}: the number {seconds[0]} is read as {read:%Y-%m-%d}, since numbers in a "
        f"timestamp are milliseconds; it looks like seconds. {_offer(leaf, types.BIGINT, values)}"
    ]


def _offer(leaf: _Leaf, other: Type, values: Sequence[Parsed]) -> str:
    declare = f"Declare {leaf.name} {other}"
    how = _conversion(leaf, other, values) if leaf.alone else None
    return f"{declare}." if how is None else f"{declare}, and read it with {how}."


def _conversion(leaf: _Leaf, other: Type, values: Sequence[Parsed]) -> str | None:
    """Returns an expression that converts the other type to the declared one, or None."""
    if other == types.BIGINT and leaf.type in _TIMESTAMPS:
        largest = max(map(abs, leaf.numbers(values)), default=0)
        power = next((p for p in (0, 3, 6) if largest < _SECONDS.stop * 10**p), 9)
        return f"from_unixtime({leaf.name}{f' / 1e{power}' if power else ''})"
    if types.VARCHAR not in (leaf.type, other):
        return None
    safe = other == types.VARCHAR  # any string may occur
    try:
        casts.overload(other, leaf.type, safe=safe)
    except SeamlineError:
        return None
    return f"{'TRY_CAST' if safe else 'CAST'}({leaf.name} AS {leaf.type})"


def _leaves(column: Field) -> Iterator[_Leaf]:
    for path, type_, alone, inner in _inside(column.type):
        yield _Leaf((column.name, *path), type_, alone, _then(_of_type(column), inner))


def _inside(type_: Type) -> Iterator[tuple[tuple[str, ...], Type, bool, Callable[[Type], Type]]]:
    """Yields each leaf's path, its type, whether it is alone, and what replaces its type."""
    match type_:
        case Row(fields):
            for field in fields:
                for path, leaf, alone, inner in _inside(field.type):
                    member = _then(_of_type(field), inner)
                    yield (field.name, *path), leaf, alone, _then(lambda f: Row((f,)), member)
        case Array(element):
            for path, leaf, _, inner in _inside(element):
                yield path, leaf, False, _then(Array, inner)
        case Map(key, value):
            for path, leaf, _, inner in _inside(value):
                yield path, leaf, False, _then(functools.partial(Map, key), inner)
        case _:
            yield (), type_, True, lambda other: other


def _of_type(field: Field) -> Callable[[Type], Field]:
    return lambda type_: dataclasses.replace(field, type=type_)


def _then(
    outer: Callable[[Inner], Outer], inner: Callable[[Type], Inner]
) -> Callable[[Type], Outer]:
    return lambda type_: outer(inner(type_))


def _flat(value: Any) -> Iterator[int]:
    match value:
        case int():
            yield value
        case dict():
            for inner in value.values():
                yield from _flat(inner)
        case tuple():  # an entry of a map
            yield from _flat(value[1])
        case list():
            for inner in value:
                yield from _flat(inner)

"""Infers column types from sample records of a topic.

The result is a guess by nature, so it is shown, and used only on request. Whole numbers become
bigint, other numbers double, or decimal if one has digits that a double would lose; strings that
are all dates, instants or timestamps become these, unless one has digits beyond microseconds. A key
that was always null becomes varchar and is reported as unknown. A key that changes shape is an
error.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seamline.connectors.kafka.formats.json_values import NOT_FINITE, is_text_of
from seamline.connectors.kafka.formats.not_objects import not_objects
from seamline.connectors.kafka.formats.spelling import (
    JSON_TEXT,
    PLAIN,
    SEVERAL_TYPES,
    TRUNCATED,
    TRUNCATED_TIMES,
    Spelling,
    whole,
)
from seamline.errors import INFERENCE_FAILED, SeamlineError
from seamline.seam.encoding import KEY, Encoding, Path
from seamline.sql import coercion, columns, types
from seamline.sql.kernels.json_texts import Number
from seamline.sql.types import Array, Field, Row, Type

_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?"
_ZONE = r"\s?(Z|[+-]\d{2}(:?\d{2})?)"
_FORMS = (
    (re.compile(_DAY), types.DATE),
    (re.compile(_DAY + _TIME + _ZONE), types.TIMESTAMP_TZ),
    (re.compile(_DAY + _TIME), types.TIMESTAMP),
)
"""The forms of strings that are treated as times; the decoder decides whether they are valid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Inferred:
    """What was inferred from a sample.

    Attributes:
        columns: A column for each key, in the order in which the keys first appeared.
        records: The number of records examined.
        bad: The number of records that are not JSON objects.
        unknown: Keys, with dots between levels, that never had a value and so are varchar.
        source: What the columns were inferred from, for people to read.
        notes: What else people should know.
        is_mixed: Whether the sample has records of several schemas.
    """

    columns: tuple[Field, ...]
    records: int
    bad: int
    unknown: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    is_mixed: bool = False


def infer_json(values: Sequence[bytes | None], spelling: Spelling = PLAIN) -> Inferred:
    """Infers the columns for a topic of JSON objects.

    Args:
        values: The sample.
        spelling: Which ways of writing values the table accepts.

    Raises:
        SeamlineError: INFERENCE_FAILED when there is nothing to infer from, or when no single
            column can hold the shapes of a key's values.
    """
    merged = _Members({})
    bad = 0
    for value in values:
        try:
            record = json.loads(value, parse_float=Number) if value is not None else None
        except (ValueError, RecursionError):
            record = ()
        if record is None:
            continue
        if not isinstance(record, dict):
            bad += 1
            continue
        merged.add(_type_of(record, spelling))
    if not merged.types:
        raise not_objects(values)
    is_held = spelling.json_text or spelling.several_types
    several = None if is_held else _first_of_several(merged)
    if several is not None:
        raise SeamlineError(
            INFERENCE_FAILED,
            several.problem,
            hint="State the columns, with this one as json, which holds both. With spellings = "
            f"ARRAY['{SEVERAL_TYPES}'] it is a row with a field per type, with "
            f"ARRAY['{JSON_TEXT}'] a varchar with its JSON text.",
        )
    unknown = tuple(_unknown(merged, ()))
    notes = tuple(_notes(merged, ()))
    columns_ = _settle_members(merged, as_rows=spelling.several_types).fields
    return Inferred(columns_, len(values), bad, unknown, notes=notes)


_LOG_TYPES: Mapping[str, Type] = {
    "partition": types.INTEGER,
    "offset": types.BIGINT,
    "timestamp": types.TIMESTAMP_TZ,
    "timestamp_type": types.INTEGER,
    "headers": columns.METADATA_TYPES[columns.HEADERS],
}
_KEY_TYPES: Mapping[str, Type] = {
    "int32": types.INTEGER,
    "int64": types.BIGINT,
    "bytes": types.VARBINARY,
    "raw": types.VARBINARY,
}


def sourced_columns(
    encoding: Encoding, known: Sequence[Field], of_key: Callable[[Path], Type | None]
) -> Iterator[Field]:
    """Yields columns for what `columns_from` names and the values do not have.

    Args:
        encoding: How records are encoded.
        known: The columns that the values have.
        of_key: Returns the type that a path inside keys leads to, if it is known.
    """
    names = {field.name.lower() for field in (*known, *columns.METADATA_FIELDS)}
    for entry in encoding.sources:
        if len(entry.column) == 1 and entry.column[0].lower() not in names:
            source = entry.source
            type_ = _LOG_TYPES.get(source.part, types.VARCHAR)
            if source.part == KEY:
                type_ = _KEY_TYPES.get(encoding.key) or of_key(source.path) or types.VARCHAR
            yield Field(entry.column[0], type_)


@dataclasses.dataclass(frozen=True, slots=True)
class _Numbers(Type):
    """The numbers that a key has.

    Attributes:
        whole: How many digits they have before the point.
        scale: How many they have after it.
        is_whole: Whether each is written as a whole number.
        is_bigint: Whether each is one that bigint holds.
        is_finite: Whether none is NaN or infinite.
        lost: One with digits that a double would lose; empty if there is none.
    """

    whole: int = 0
    scale: int = 0
    is_whole: bool = True
    is_bigint: bool = True
    is_finite: bool = True
    lost: str = ""

    @classmethod
    def of(cls, number: Any) -> _Numbers:
        """Returns the one number."""
        if isinstance(number, float):
            return _NOT_FINITE_NUMBER
        is_whole = isinstance(number, int)
        if is_whole and -_EXACT_MAX <= number <= _EXACT_MAX:
            return _whole_numbers(len(str(abs(number))) if number else 0)
        exact = decimal.Decimal(number if is_whole else str(number))
        _, digits, exponent = exact.as_tuple()
        assert isinstance(exponent, int)
        return cls(
            max(0, len(digits) + exponent) if exact else 0,
            max(0, -exponent),
            is_whole,
            isinstance(number, int) and -(2**63) <= number < 2**63,
            lost="" if _is_kept(exact) else str(number)[:40],
        )

    def merged(self, other: _Numbers) -> _Numbers:
        """Returns the numbers of both."""
        return _Numbers(
            max(self.whole, other.whole),
            max(self.scale, other.scale),
            self.is_whole and other.is_whole,
            self.is_bigint and other.is_bigint,
            self.is_finite and other.is_finite,
            self.lost or other.lost,
        )

    @property
    def type(self) -> Type:
        """The type of a column for them."""
        if self.is_whole and self.is_bigint:
            return types.BIGINT
        spare = types.MAX_DECIMAL_PRECISION - self.whole - self.scale
        if spare < 0 or not self.is_finite or not (self.is_whole or self.lost):
            return types.DOUBLE
        scale = 0 if self.is_whole else self.scale + spare // 2
        return types.Decimal(types.MAX_DECIMAL_PRECISION, scale)

    @property
    def note(self) -> str | None:
        """What people should know about that."""
        match self.type:
            case _ if not self.is_finite:
                return "double, as NaN and Infinity beside numbers are numbers, in text as well"
            case types.DOUBLE if self.lost:
                return f"a double keeps about 16 digits, but not all of those of {self.lost}"
            case types.Decimal(_, scale) if scale:
                return f"{self.type}, as a double would not keep the digits of {self.lost}"
        return None


@functools.cache
def _whole_numbers(digits: int) -> _Numbers:
    return _Numbers(digits)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Members(Type):
    """The keys that objects at one place have, in the order in which they first appeared.

    It is filled as records are read, since a row of many fields is dear to make for each of them.

    Attributes:
        types: The type of each key's values.
    """

    types: dict[str, Type]

    def add(self, other: Type) -> None:
        """Adds what another object has."""
        assert isinstance(other, _Members)
        for name, type_ in other.types.items():
            earlier = self.types.get(name)
            if earlier is None:
                self.types[name] = type_
            elif earlier is not type_:
                self.types[name] = _merge(earlier, type_, f"key {name!r}")


def _is_kept(exact: decimal.Decimal) -> bool:
    """Whether a double keeps the digits of a number: it is equal, or a way to write the double."""
    number = float(exact)
    if repr(number) == str(exact):
        return True
    if math.isinf(number):
        return False
    digits = len(exact.normalize(_ALL_DIGITS).as_tuple().digits)
    is_way = digits <= _DIGITS and decimal.Decimal(f"{number:.{digits}g}") == exact
    return is_way or decimal.Decimal(number) == exact


_EXACT_MAX = 2**53
"""A double keeps every whole number up to it."""
_DIGITS = 17
"""No way to write a double needs more, and many programs write that many."""
_ALL_DIGITS = decimal.Context(prec=10_000)
_NOT_FINITE_NUMBER = _Numbers(is_whole=False, is_bigint=False, is_finite=False)
_NOT_FINITE = types.REAL
"""Stands for text that is a number beside numbers: NaN and the infinities."""
_FINER = types.Char(0)
"""Stands for text that is a time with digits beyond microseconds."""


def _type_of(value: Any, spelling: Spelling) -> Type:
    match value:
        case None:
            return types.UNKNOWN
        case bool():
            return types.BOOLEAN
        case int() | float():
            return _Numbers.of(value)
        case Number():
            return _Numbers.of(whole(value) if spelling.whole_numbers else value)
        case str():
            return _type_of_text(value, spelling)
        case list():
            element: Type = types.UNKNOWN
            for item in value:
                element = _merge(element, _type_of(item, spelling), "an array")
            return Array(element)
        case dict():
            return _Members({key: _type_of(item, spelling) for key, item in value.items()})
    raise AssertionError(value)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Several(Type):
    """Values of types that no type holds, except as JSON text, or a row with a field per type.

    Attributes:
        problem: What people should know.
        types: The types, by JSON's names for them.
    """

    problem: str
    types: Mapping[str, Type]

    @classmethod
    def of(cls, type_: Type, problem: str) -> _Several:
        """Returns the one type as one of several."""
        match type_:
            case _Several():
                return type_
            case types.BOOLEAN:
                return cls(problem, {"boolean": type_})
            case _Numbers():
                return cls(problem, {"number": type_})
            case Array():
                return cls(problem, {"array": type_})
            case _Members():
                return cls(problem, {"object": type_})
        return cls(problem, {"string": type_})

    def merged(self, other: _Several) -> _Several:
        """Returns the types of both."""
        merged = dict(self.types)
        for name, type_ in other.types.items():
            merged[name] = _merge(merged[name], type_, name) if name in merged else type_
        return _Several(self.problem or other.problem, merged)


def _type_of_text(text: str, spelling: Spelling) -> Type:
    if text in NOT_FINITE:
        return _NOT_FINITE
    if spelling.infinite(text, types.DATE) is not None:
        return types.UNKNOWN  # of whichever time the other records have
    text = spelling.plain_form(text)
    for form, type_ in _FORMS:
        if form.fullmatch(text):
            if is_text_of(type_, text, spelling.of_every_part):
                return type_
            if is_text_of(type_, text, TRUNCATED):
                return _FINER
    return types.VARCHAR


_TEXTS = frozenset(
    {_NOT_FINITE, _FINER, types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ, types.VARCHAR}
)
_TIMESTAMPS = frozenset({_FINER, types.TIMESTAMP, types.TIMESTAMP_TZ})


def _merge(one: Type, other: Type, where: str) -> Type:
    """Returns the narrowest type that holds both."""
    match one, other:
        case _Members(), _Members():
            one.add(other)
            return one
        case Array(element), Array(another):
            return Array(_merge(element, another, where))
        case _Numbers(), _Numbers():
            return one.merged(other)
        case _Numbers(), types.REAL:
            return one.merged(_NOT_FINITE_NUMBER)
        case types.REAL, _Numbers():
            return other.merged(_NOT_FINITE_NUMBER)
    if one == other or types.UNKNOWN in (one, other):
        return other if one == types.UNKNOWN else one
    if isinstance(one, _Several) or isinstance(other, _Several):
        return _Several.of(one, "").merged(_Several.of(other, ""))
    if one in _TEXTS and other in _TEXTS:
        return _FINER if {one, other} <= _TIMESTAMPS and _FINER in (one, other) else types.VARCHAR
    settled, another = _settle(one), _settle(other)
    common = coercion.common_type(settled, another)
    if common is not None:
        return common
    problem = f"{where} is {settled} in some records and {another} in others"
    return _Several.of(one, problem).merged(_Several.of(other, problem))


def _first_of_several(type_: Type) -> _Several | None:
    match type_:
        case _Several():
            return type_
        case Array(element):
            return _first_of_several(element)
        case _Members(members):
            return next(filter(None, map(_first_of_several, members.values())), None)
    return None


def _unknown(type_: Type, path: tuple[str, ...]) -> Iterator[str]:
    match type_:
        case types.UNKNOWN:
            yield ".".join(path)
        case Array(element):
            yield from _unknown(element, path)
        case _Members(members):
            for name, member in members.items():
                yield from _unknown(member, (*path, name))


def _notes(type_: Type, path: tuple[str, ...]) -> Iterator[str]:
    match type_:
        case _Numbers(note=str(note)):
            yield f"{'.'.join(path)}: {note}"
        case types.REAL:
            yield f"{'.'.join(path)}: varchar, as it has no numbers beside NaN or Infinity as text"
        case _ if type_ == _FINER:
            yield (
                f"{'.'.join(path)}: varchar, as it has times with digits beyond microseconds; with "
                f"spellings = ARRAY['{TRUNCATED_TIMES}'] it is a timestamp without these digits"
            )
        case Array(element):
            yield from _notes(element, path)
        case _Members(members):
            for name, member in members.items():
                yield from _notes(member, (*path, name))


def _settle(type_: Type, *, as_rows: bool = False) -> Type:
    """Turns what never had a value into text, and drops objects that never had a key.

    What is of several types becomes a row with a field for each, or text.
    """
    match type_:
        case types.UNKNOWN | types.REAL:  # never a value, or never anything but `_NOT_FINITE`
            return types.VARCHAR
        case _ if type_ == _FINER:
            return types.VARCHAR
        case _Several() if as_rows:
            settled = {name: _settle(own, as_rows=True) for name, own in type_.types.items()}
            is_empty = settled.get("object") == Row(())  # no field would hold it
            fields = {**settled, "object": types.JSON} if is_empty else settled
            return Row(tuple(Field(name, own) for name, own in fields.items()))
        case _Several():
            return types.VARCHAR
        case _Numbers():
            return type_.type
        case Array(element):
            return Array(_settle(element, as_rows=as_rows))
        case _Members():
            return _settle_members(type_, as_rows=as_rows)
    return type_


def _settle_members(members: _Members, *, as_rows: bool = False) -> Row:
    return Row(
        tuple(
            Field(name, _settle(type_, as_rows=as_rows))
            for name, type_ in members.types.items()
            if not (isinstance(type_, _Members) and not type_.types)
        )
    )

"""The columns that come from one part of a record: from its value, or from its key.

A format knows how to decode a part as a whole, or the fields of a record in it. This module decides
which columns of the table these are, so that no format knows about sources.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.schemas import NoRegistry, Schemas
from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.connectors.protocols.raw_records import Headers
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.encoding import VALUE, Path
from seamline.sql.types import Field, Row, to_arrow

if TYPE_CHECKING:
    from seamline.connectors.kafka.formats.watching import SchemaWatch

Parts: TypeAlias = Sequence[bytes | None]
"""The keys, or the values, of some records."""
Bad: TypeAlias = Mapping[int, str]
"""Why parts are bad, by index."""
AllHeaders: TypeAlias = Sequence[Headers | None]
"""The headers of some records."""


def contains(text: bytes, word: bytes) -> bool:
    """Whether a word of a few bytes is in a text; if that is long, several times faster than `in`.

    Args:
        text: The text.
        word: The word, not empty.
    """
    codes = np.frombuffer(text, np.uint8)
    places = max(0, len(text) - len(word) + 1)
    is_there = codes[:places] == word[0]
    for position, code in enumerate(word[1:], 1):
        is_there &= codes[position : position + places] == code
    return bool(is_there.any())


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """What a format needs to know besides columns.

    Attributes:
        part: `key` or `value`.
        schemas: Where schemas are registered.
        schema: The text of the one schema that the table itself names.
        options: Options of formats, by name.
        watch: Checks the schemas that parts were written with, if any.
        is_wrapped: Whether values wrap rows of a database, in an envelope.
    """

    part: str = VALUE
    schemas: Schemas = dataclasses.field(default_factory=NoRegistry)
    schema: str | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    watch: SchemaWatch | None = dataclasses.field(default=None, hash=False)
    is_wrapped: bool = False

    @property
    def spelling(self) -> Spelling:
        """Which ways of writing values are accepted."""
        spelling = Spelling.of(self.options.get("spellings", ""))
        return dataclasses.replace(spelling, json_nulls=not self.is_wrapped)


class PartDecoder(Protocol):
    """Decodes parts of one format into columns."""

    def decode(self, values: Parts, headers: AllHeaders = ()) -> tuple[list[pa.Array], Bad]:
        """Returns one array per column, a slot per part, and why bad parts (by index) are bad.

        A bad part has nulls in its slots. Headers are those of the records, for formats that use
        them.
        """


TypesOf: TypeAlias = Callable[[Parts, AllHeaders], Sequence[str | None]]
"""Names the types of the records that parts are, without decoding them; None where unknown."""


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A format of keys or values.

    Attributes:
        name: Its name in `format` and `key_format`.
        whole: Makes the decoder of a part that is one value of a column's type.
        fields: Makes the decoder of a part that is a record, whose fields are columns by name;
            None if a part is always one value.
        spelling: Which ways of writing values are accepted.
        types: Names the types of parts; None if nothing but their contents does.
    """

    name: str
    whole: Callable[[Field], PartDecoder]
    fields: Callable[[tuple[Field, ...]], PartDecoder] | None = None
    spelling: Spelling = PLAIN
    types: TypesOf | None = None


PRESENCE = Row(())
"""The type of a leaf that says only whether there is a record at its path: none of its fields.

It is decoded as a boolean, true or null, however the fields of the record were written.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field inside a row column, that a part is decoded into.

    Attributes:
        column: Its path in the table.
        path: Its path in the part; empty for the whole part.
        field: Its type, and the names by which it is found.
        by_name: Whether it is found by name because no source was specified.
    """

    column: Path
    path: Path
    field: Field
    by_name: bool

    @property
    def name(self) -> str:
        """Its name for messages."""
        return ".".join(self.column)


class PartReader:
    """Decodes the leaves of one part.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when the format cannot supply one of them.
    """

    def __init__(self, format_: Format, leaves: Sequence[Leaf]) -> None:
        if format_.fields is None:
            leaves = [_as_whole(leaf, leaves, format_) for leaf in leaves]
        self._wholes = [(leaf, format_.whole(leaf.field)) for leaf in leaves if not leaf.path]
        self._groups: list[tuple[list[Leaf], list[str], PartDecoder]] = []
        inner = [leaf for leaf in leaves if leaf.path]
        if inner:
            assert format_.fields is not None
            for members, fields in grouped(inner):
                names = [field.name for field in fields]
                self._groups.append((members, names, format_.fields(fields)))

    def decode(
        self, parts: Parts, headers: AllHeaders = ()
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """Returns the leaves' arrays by column, and why parts are bad; these are null in all."""
        arrays: dict[Path, pa.Array] = {}
        bad: dict[int, str] = {}
        for leaf, decoder in self._wholes:
            (arrays[leaf.column],), reasons = decoder.decode(parts, headers)
            _add(bad, reasons)
            _add(bad, _missing(leaf, arrays[leaf.column]))
        for members, names, decoder in self._groups:
            roots, reasons = decoder.decode(parts, headers)
            _add(bad, reasons)
            for leaf in members:
                array = _inside(roots[names.index(leaf.path[0])], leaf.path[1:])
                if leaf.field.type == PRESENCE:
                    array = _presence(array)
                arrays[leaf.column] = array
                if len(leaf.path) > 1:
                    _add(bad, _missing(leaf, array))
        is_one = len(self._wholes) + len(self._groups) == 1 and not self._has_inner
        if bad and not is_one:
            arrays = {column: nulled(array, bad) for column, array in arrays.items()}
        return arrays, bad

    @property
    def _has_inner(self) -> bool:
        return any(len(leaf.path) != 1 for members, _, _ in self._groups for leaf in members)


def _as_whole(leaf: Leaf, leaves: Sequence[Leaf], format_: Format) -> Leaf:
    """Returns the leaf for the whole part, for a format whose parts are always one value."""
    if leaf.path and not leaf.by_name:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"column {leaf.name} cannot come from a field: parts in the format {format_.name} have "
            "no fields",
            hint="Name the whole `key` or `value`, or another format.",
        )
    if sum(other.by_name for other in leaves) > 1 or len(leaf.path) > 1:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"format {format_.name} needs exactly one column",
            hint="declare one column, such as `value varbinary`, or set columns_from for the "
            "others",
        )
    return dataclasses.replace(leaf, path=())


def nulled(array: pa.Array, bad: Iterable[int]) -> pa.Array:
    """Returns the array with nulls in the bad slots."""
    gone = frozenset(bad)
    return array.take(pa.array([None if i in gone else i for i in range(len(array))], pa.int64()))


def _add(bad: dict[int, str], more: Bad) -> None:
    for index, reason in more.items():
        bad.setdefault(index, reason)


def _missing(leaf: Leaf, array: pa.Array) -> Bad:
    """Returns the slots in which a required column is null."""
    if not leaf.field.required or not array.null_count:
        return {}
    reason = f"{leaf.name}: null, but the column is required"
    return dict.fromkeys(pc.indices_nonzero(array.is_null()).to_pylist(), reason)


def _presence(array: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))


def _inside(array: pa.Array, path: Path) -> pa.Array:
    for name in path:
        array = pc.struct_field(array, name)
    return array


# --- Which fields of a record supply all leaves --------------------------------------------------


class _Node(dict[str, "_Node | Field"]):
    """Fields of a row, by name."""

    def insert(self, path: Path, field: Field) -> bool:
        """Adds a field; returns False if another one is in its place."""
        name, *rest = path
        if not rest and field.type == PRESENCE:
            return isinstance(self.setdefault(name, _Node()), _Node)
        there = self.get(name)
        if not rest:
            if there is not None:
                return False
            self[name] = field
            return True
        if there is None:
            there = self[name] = _Node()
        return isinstance(there, _Node) and there.insert(tuple(rest), field)

    def fields(self) -> tuple[Field, ...]:
        return tuple(
            Field(name, Row(inner.fields())) if isinstance(inner, _Node) else inner
            for name, inner in self.items()
        )


def grouped(leaves: Sequence[Leaf]) -> list[tuple[list[Leaf], tuple[Field, ...]]]:
    """Groups leaves that belong together in one record, with the fields of that record.

    There is one group, unless two columns come from the same place.
    """
    groups: list[tuple[list[Leaf], _Node]] = []
    for leaf in leaves:
        field = leaf.field
        if not leaf.by_name:
            field = dataclasses.replace(field, name=leaf.path[-1], aliases=())
        for members, node in groups:
            if node.insert(leaf.path, field):
                members.append(leaf)
                break
        else:
            node = _Node()
            node.insert(leaf.path, field)
            groups.append(([leaf], node))
    return [(members, node.fields()) for members, node in groups]


class WholeRecords:
    """Decodes parts that are records into one row column.

    Args:
        column: The column.
        fields: Makes the decoder of its fields.
        null: The bytes of a part that is null instead of a record.
    """

    def __init__(
        self,
        column: Field,
        fields: Callable[[tuple[Field, ...]], PartDecoder],
        null: bytes | None = None,
    ) -> None:
        assert isinstance(column.type, Row)
        self._type = to_arrow(column.type)
        self._decoder = fields(column.type.fields)
        self._null = null

    def decode(self, values: Parts, headers: AllHeaders = ()) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        there = [i for i, v in enumerate(values) if v is not None and v.strip() != self._null]
        arrays, reasons = self._decoder.decode(
            [values[i] for i in there], [headers[i] for i in there] if headers else ()
        )
        bad = {there[i]: reason for i, reason in reasons.items()}
        mask = pa.array([i in reasons for i in range(len(there))], pa.bool_())
        rows = pa.StructArray.from_arrays(arrays, fields=list(self._type), mask=mask)
        if len(there) < len(values):
            places = dict(zip(there, range(len(there)), strict=True))
            rows = rows.take(pa.array([places.get(i) for i in range(len(values))], pa.int64()))
        return [rows], bad

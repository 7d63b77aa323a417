"""Schema evolution: how a table's columns must change for records of another schema.

Pure. The rules are:

- A field without a matching column becomes a new, nullable column.
- A wider type widens its column, as far as Iceberg allows.
- A field that declares a former name renames the column of that name. If the column already has the
  new name, it keeps the former one as an alias, for older records that are still to come.
- A field that is gone leaves its column in place, with nulls.

Nothing is ever removed, and a column never returns to a name it has had. So records of old and new
schemas, in any order, end up in the same table. If no column can hold both the existing and the new
values, the result is a named error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from seamline.errors import SCHEMA_INCOMPATIBLE, SeamlineError
from seamline.seam.encoding import VALUE, Encoding, Path
from seamline.seam.table import TableState
from seamline.sql import columns as names
from seamline.sql import types
from seamline.sql.types import (
    Array,
    Decimal,
    Field,
    Map,
    Row,
    Type,
    Unsupported,
    Varbinary,
    is_numeric,
)

ELEMENT, MAP_VALUE = "element", "value"
"""Iceberg's names for the inside of an array and of a map, in the path of a field."""


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """How to handle records whose schema the table does not fit yet.

    Without a watch, nothing compares the schemas.

    Attributes:
        is_tiering: Whether rows are written, so that every field needs a column. A reader shows the
            table's current schema, and only needs types that hold the values.
        dropped: The columns that the owner has dropped.
        fixed: The columns that other settings of the table refer to by name.
    """

    is_tiering: bool = False
    dropped: tuple[Path, ...] = ()
    fixed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, or a new field inside one.

    Attributes:
        path: The path to it, including its own name.
        type: Its type.
    """

    path: Path
    type: Type

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.type} is new"


@dataclasses.dataclass(frozen=True, slots=True)
class WidenColumn:
    """A wider type for a column: it holds all existing values, and more."""

    path: Path
    was: Type
    type: Type

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.was} becomes {self.type}"


@dataclasses.dataclass(frozen=True, slots=True)
class RenameColumn:
    """A new name for a column, or for a field inside one."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} is called {self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class KnowColumn:
    """Aliases that records may use for a column, or for a field inside one.

    Attributes:
        path: The path to it.
        names: The aliases, newest first.
    """

    path: Path
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} was called {', '.join(self.names)}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Rules:
    """Rules that apply at every nesting level.

    Attributes:
        encoding: Determines which spellings are accepted.
        dropped: The columns that the owner has dropped.
        is_tiering: Whether every field needs a column of its own name.
    """

    encoding: Encoding
    dropped: Collection[Path]
    is_tiering: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Alternatives(Type):
    """The type of a value of one of several types, for each of which a row has a field.

    Attributes:
        types: The types.
        namings: What a row may call its fields; new columns have the first of them.
    """

    types: tuple[Type, ...]
    namings: tuple[tuple[str, ...], ...]

    def as_row(self, column: Row) -> Row | None:
        """Returns the row with the names that a column has for them; None if it has no such."""
        places = {name: i for names in reversed(self.namings) for i, name in enumerate(names)}
        known = {
            places[name]: field.name
            for field in column.fields
            for name in (field.name, *field.aliases)
            if name in places
        }
        if not known:
            return None
        own = set(known.values())
        naming = max(self.namings, key=lambda names: len(own.intersection(names)))
        return self.named([known.get(place, name) for place, name in enumerate(naming)])

    def named(self, names: Sequence[str]) -> Row:
        """Returns the row with these names."""
        return Row(tuple(Field(name, t) for name, t in zip(names, self.types, strict=True)))


@dataclasses.dataclass(frozen=True, slots=True)
class Packed(Type):
    """The type of a `google.protobuf.Any`, which a row with a field per message holds as it is.

    Attributes:
        plain: The row of its own fields, which a new column gets.
    """

    plain: Row


Change: TypeAlias = AddColumn | WidenColumn | RenameColumn | KnowColumn


def changes(
    columns: Sequence[Field],
    record: Type,
    *,
    encoding: Encoding = Encoding(),  # noqa: B008 - a frozen value
    row: Path = (),
    watch: Watch = Watch(is_tiering=True),
) -> tuple[Change, ...]:
    """Returns how a table's columns must change so that records of a schema fit them.

    A reader needs no new columns and no renames, only types that hold the values.

    Paths are the table's paths, with the names from before the changes.

    Args:
        columns: The table's columns.
        record: The type of the schema's values. Fields that no column can hold have an
            `Unsupported` type, and the former names of fields are their aliases.
        encoding: Tells which columns have a source of their own.
        row: If the values wrap a row, the path to the fields that match columns by name.
        watch: Whether rows are tiered or only read, and which columns were dropped or are fixed.

    Raises:
        SeamlineError: SCHEMA_INCOMPATIBLE.
    """
    rules = _Rules(encoding, watch.dropped, watch.is_tiering)
    own = [column for column in columns if column.name not in names.METADATA_NAMES]
    changes_: list[Change] = []
    taken: set[str] = set()
    is_whole = False
    for column in own:
        source = encoding.source_of((column.name,))
        if encoding.names(column.name):
            taken.add(column.name)  # the owner has set its source; a field of that name is not it
        if source is not None and source.part == VALUE:
            if source.path[: len(row)] == row and len(source.path) > len(row):
                taken.add(source.path[len(row)])
            is_whole = is_whole or (not source.path and isinstance(column.type, Row))
            inner = _at(record, source.path)
            if inner is not None and (source.path or isinstance(column.type, Row)):
                changes_ += _of_type((column.name,), column.type, inner, rules)
    mark = encoding.delete_mark
    if mark is not None and mark.word is None and len(mark.path) == 1:
        taken.add(mark.path[0])  # it is false in every row
    inside = _at(record, row)
    if isinstance(inside, Row) and not is_whole:
        named = [column for column in own if not encoding.names(column.name)]
        reserved = {column.name for column in columns} - {column.name for column in named}
        changes_ += _of_row((), named, inside, rules, taken=taken, reserved=reserved)
    for change in changes_:
        if isinstance(change, RenameColumn) and change.path in [(name,) for name in watch.fixed]:
            raise _incompatible(
                change.path,
                f"other settings of the table name it, but it is called {change.name} now",
            )
    return tuple(changes_)


def dropped_columns(state: TableState) -> tuple[Path, ...]:
    """Returns the columns that a table no longer has, under the names they had.

    Fields on the path to them that still exist have their current names.
    """
    now = {path[-1].field_id: path[-1].name for path in _every(Row(state.schema.columns), ())}
    gone = {
        tuple(now.get(field.field_id, field.name) for field in path)
        for schema in state.schemas.values()
        for path in _every(Row(schema.columns), ())
        if path[-1].field_id not in now
    }
    return tuple(sorted(gone))


def _every(type_: Type, path: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    """Yields the path to every field in a type, as the fields from the outermost inwards."""
    match type_:
        case Row(fields):
            for field in fields:
                yield (*path, field)
                yield from _every(field.type, (*path, field))
        case Array(element, field_id):
            yield from _every(element, (*path, Field(ELEMENT, element, field_id)))
        case Map(_, value, _, field_id):
            yield from _every(value, (*path, Field(MAP_VALUE, value, field_id)))


def _at(type_: Type | None, path: Path) -> Type | None:
    """Returns the type at a path; None if there is nothing at it."""
    for name in path:
        if isinstance(type_, Alternatives):
            type_ = type_.as_row(Row((Field(name, types.UNKNOWN),)))
        members = type_.fields if isinstance(type_, Row) else ()
        names = matched([Field(name, types.UNKNOWN)], {m.name: m.aliases for m in members})
        type_ = next((member.type for member in members if member.name == names.get(name)), None)
    return type_


# --- Rows ----------------------------------------------------------------------------------------


def _of_row(
    path: Path,
    columns: Sequence[Field],
    record: Row,
    rules: _Rules,
    *,
    taken: Collection[str] = (),
    reserved: Collection[str] = (),
) -> Iterator[Change]:
    """Yields how the fields of a row must change.

    Args:
        path: The path to the row.
        columns: Its fields in the table.
        record: Its fields in the schema.
        rules: The rules that apply at every nesting level.
        taken: Fields of the schema whose column is elsewhere.
        reserved: Additional names that no new field may have.
    """
    members = {member.name: member for member in record.fields}
    which = matched(columns, {name: member.aliases for name, member in members.items()})
    used = {*members, *reserved, *(n for c in columns for n in (c.name, *c.aliases))}
    for column in columns:
        inside = (*path, column.name)
        if column.name not in which:
            if column.required:
                raise _incompatible(inside, "it is required, but the schema lacks it")
            continue
        member = members[which[column.name]]
        for other in columns:
            if other.name not in which and other.name in member.aliases:
                raise _incompatible(
                    inside, f"its field says it was {other.name}, which is another column"
                )
        is_renamed = member.name not in (column.name, *column.aliases)
        if is_renamed and column.name in member.aliases and rules.is_tiering:
            _require_free((*path, member.name), columns, reserved)
            yield RenameColumn(inside, member.name)
        if rules.is_tiering:
            yield from _known_by(inside, member, used)
        yield from _of_type(inside, column.type, member.type, rules)
    taken_names = {*which.values(), *taken}
    for member in record.fields if rules.is_tiering else ():
        inside = (*path, member.name)
        if member.name in taken_names or inside in rules.dropped:
            continue
        type_ = _storable(inside, member.type)
        if type_ is not None:
            _require_free(inside, columns, reserved)
            yield AddColumn(inside, type_)
            yield from _known_by(inside, member, used)
            yield from former_names(inside, member.type)


def _known_by(path: Path, member: Field, used: set[str]) -> Iterator[KnowColumn]:
    """Yields a field's former names that nothing else in the row has or had; marks them used."""
    free = tuple(name for name in dict.fromkeys(member.aliases) if name not in used)
    used.update(free)
    if free:
        yield KnowColumn(path, free)


def former_names(path: Path, type_: Type) -> Iterator[KnowColumn]:
    """Yields the former names of fields inside a type.

    Args:
        path: The path to the type.
        type_: The type in the schema; fields that no column can hold are left out.
    """
    match type_:
        case Alternatives():
            yield from former_names(path, type_.named(type_.namings[0]))
        case Row(fields):
            used = {field.name for field in fields}
            for field in fields:
                if _storable((*path, field.name), field.type) is not None:
                    yield from _known_by((*path, field.name), field, used)
                    yield from former_names((*path, field.name), field.type)
        case Array(element):
            yield from former_names((*path, ELEMENT), element)
        case Map(_, value):
            yield from former_names((*path, MAP_VALUE), value)


def matched(columns: Sequence[Field], members: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Matches columns to fields of a record: by name, by the column's aliases, by the field's.

    Args:
        columns: The columns.
        members: The former names of each field of the record, by field name.

    Returns:
        Field names by column name; columns without a match are absent.
    """
    names: dict[str, str] = {}
    for column in columns:
        for name in (column.name, *column.aliases):
            if name in members:
                names[column.name] = name
                break
    free = {name: had for name, had in members.items() if name not in names.values()}
    for column in columns:
        if column.name not in names:
            had = {column.name, *column.aliases}
            which = next((name for name, before in free.items() if had.intersection(before)), None)
            if which is not None:
                names[column.name] = which
                del free[which]
    return names


def _require_free(path: Path, columns: Sequence[Field], reserved: Collection[str]) -> None:
    """Checks that no other field of the row has, or has had, the last name of the path."""
    name = path[-1]
    for column in columns:
        if name.lower() == column.name.lower():
            raise _incompatible(path, f"there is a column {column.name} (case is ignored)")
        if name in column.aliases:
            raise _incompatible(path, f"column {column.name} once had that name")
    folded = {other.lower() for other in (*reserved, *names.RESERVED_BY_ICEBERG)}
    if len(path) == 1 and (name.lower() in folded or name.startswith(names.RESERVED_PREFIX)):
        raise _incompatible(path, "its name is reserved, or another column's")


def _storable(path: Path, type_: Type) -> Type | None:
    """Returns a new column's type, without parts no column can hold; None if nothing is left."""
    match type_:
        case Unsupported():
            return None
        case Alternatives():
            return _storable(path, type_.named(type_.namings[0]))
        case Packed(plain):
            return plain
        case types.Time():
            raise _incompatible(path, "Spark cannot write Iceberg's type time")
        case Row(fields):
            inner = [(field.name, _storable((*path, field.name), field.type)) for field in fields]
            kept = tuple(Field(name, problem) for name, problem in inner if problem is not None)
            return Row(kept) if kept else None
        case Array(element):
            problem = _storable(path, element)
            return None if problem is None else Array(problem)
        case Map(key, value):
            problem = _storable(path, value)
            return None if problem is None else Map(key, problem)
    return type_


# --- Types ---------------------------------------------------------------------------------------


def _of_type(path: Path, column: Type, member: Type, rules: _Rules) -> Iterator[Change]:
    match column, member:
        case _, Alternatives():
            row = member.as_row(column) if isinstance(column, Row) else None
            if isinstance(column, Row) and row is not None:
                yield from _of_row(path, column.fields, row, rules)
        case _, Packed(plain):
            if not isinstance(column, Row):
                yield from _of_type(path, column, plain, rules)
        case Row(fields), _ if _is_of_several(fields, member, rules.encoding):
            yield from _of_row(path, fields, Row((_json_field(member),)), rules)
        case Row(fields), _ if _is_one_of(fields, member, rules.encoding):
            return
        case Row(fields), Row():
            yield from _of_row(path, fields, member, rules)
        case Array(element), Array(inner):
            yield from _of_type((*path, ELEMENT), element, inner, rules)
        case Map(_, value), Map(_, inner):
            yield from _of_type((*path, MAP_VALUE), value, inner, rules)
        case _:
            wider = _wider(path, column, member, rules.encoding)
            if wider is not None:
                yield WidenColumn(path, column, wider)


JSON_TYPES = frozenset({"boolean", "number", "string", "array", "object"})
"""The types of JSON values, but for null."""


def has_json_types(fields: Sequence[Field]) -> bool:
    """Whether a row has a field for each of several types of JSON values, and no others."""
    return len(fields) > 1 and JSON_TYPES.issuperset(field.name for field in fields)


def _is_of_several(fields: Sequence[Field], member: Type, encoding: Encoding) -> bool:
    """Whether a row has a field for each type of JSON values, and a schema states one type."""
    is_spelt = "several_types" in dict(encoding.options).get("spellings", "").split(",")
    return is_spelt and has_json_types(fields) and not isinstance(member, Unsupported)


def _json_field(member: Type) -> Field:
    """Returns the field that such a row has for values of a type."""
    match member:
        case types.BOOLEAN:
            return Field("boolean", member)
        case Array():
            return Field("array", member)
        case Row() | Map():
            return Field("object", member)
        case _ if is_numeric(member):
            return Field("number", member)
    return Field("string", types.VARCHAR)


_UNNAMED = frozenset(
    ("boolean", "int", "long", "float", "double", "string", "bytes", "array", "map")
)
"""The names of types without a name of their own, as rows have them."""


def _is_one_of(fields: Sequence[Field], member: Type, encoding: Encoding) -> bool:
    """Whether one field of a row is for values of a type: in other schemas it is one of several."""
    if not isinstance(member, Row):
        branches = [field.type for field in fields if field.name in _UNNAMED]
        return any(t == member or _may_hold(t, member, encoding) for t in branches)
    names = {inner.name: inner.aliases for inner in member.fields}
    rows = [field.type.fields for field in fields if isinstance(field.type, Row)]
    return not matched(fields, names) and any(matched(inner, names) for inner in rows)


def _wider(path: Path, column: Type, member: Type, encoding: Encoding) -> Type | None:
    """Returns a type that holds what a column and a field hold; None if the column's type does.

    Also None if it depends on the value whether the column's type can hold it.
    """
    match column, member:
        case (types.INTEGER, types.BIGINT) | (types.REAL, types.DOUBLE):
            return member
        case Decimal(), Decimal():
            digits = member.precision - member.scale + column.scale
            if member.scale <= column.scale and digits <= column.precision:
                return None
            if member.scale <= column.scale and digits <= types.MAX_DECIMAL_PRECISION:
                return Decimal(digits, column.scale)
        case _ if column == member or _may_hold(column, member, encoding):
            return None
    raise _incompatible(
        path, f"its type is {column}, and a field of type {member} cannot become it"
    )


_WHOLE = frozenset({types.INTEGER, types.BIGINT})


def _may_hold(column: Type, member: Type, encoding: Encoding) -> bool:
    """Whether the decoder accepts at least some of a field's values for a column."""
    spellings = dict(encoding.options).get("spellings", "")
    match column, member:
        case (Unsupported(), _) | (_, Unsupported()) | (types.JSON, _):
            return True
        case (types.BIGINT, types.INTEGER) | (types.DOUBLE, types.REAL):
            return True
        case ((types.REAL | types.DOUBLE | Decimal() | types.Timestamp()), _) if member in _WHOLE:
            return True
        case Decimal(), (types.REAL | types.DOUBLE):
            return True
        case _, Decimal(_, 0) if column in _WHOLE:
            return True
        case _, (types.REAL | types.DOUBLE) if column in _WHOLE:
            return encoding.value == "json_schema"  # whose numbers are text, and may be whole
        case _, (types.Timestamp() | types.DATE | types.Time()) if is_numeric(column):
            return True
        case types.Timestamp(), types.Timestamp():
            return True
        case ((types.Timestamp() | types.DATE | types.Time() | types.UUID), types.VARCHAR):
            return True
        case ((types.VARCHAR | Varbinary()), (types.VARCHAR | Varbinary() | types.UUID)):
            return True
        case types.VARCHAR, types.TIMESTAMP_TZ:  # Debezium's are text
            return True
        case Varbinary(), Decimal():
            return True
        case types.VARCHAR, _:
            return "json_text" in spellings
        case _, types.VARCHAR:
            return "text_numbers" in spellings and not isinstance(column, Row | Array | Map)
    return False


def _incompatible(path: Path, problem: str) -> SeamlineError:
    return SeamlineError(SCHEMA_INCOMPATIBLE, f"{'.'.join(path)}: {problem}")

"""Random tables as other writers leave them, with the rows that they hold.

Columns of every type are added (with defaults, from version 3 on), dropped, renamed, brought back
under an old name, moved and widened, inside rows too; files are written at any time in between,
with or without ids, partitioned one way and then another, and rows are deleted from them, by their
places and by keys. What a table holds is known from how it was made.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
import json
import pathlib
import random
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from support.handmade import DATA, EQUALITY, POSITIONS, File, Handmade, column

_Json = dict[str, Any]
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A primitive type.

    Attributes:
        name: Iceberg's name.
        arrow: How Parquet files have it.
        make: Makes a value, as SQL shows it.
        default: A value as the JSON of metadata has it.
        wider: What it may become.
    """

    name: str
    arrow: pa.DataType
    make: Callable[[random.Random], Any]
    default: Callable[[Any], Any] = lambda value: value
    wider: str = ""


def _moment(chance: random.Random) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=chance.randint(-(10**15), 2 * 10**15))


def _zoned(chance: random.Random) -> datetime.datetime:
    return _moment(chance).replace(tzinfo=datetime.UTC)


def _iso(value: datetime.datetime | datetime.time) -> str:
    return value.isoformat(timespec="microseconds")


def _decimal(digits: int) -> Callable[[random.Random], Any]:
    return lambda chance: decimal.Decimal(chance.randint(1 - 10**digits, 10**digits - 1)).scaleb(-2)


def _text(chance: random.Random) -> str:
    return "".join(chance.choices("ab é'\"\\\n%", k=chance.randint(0, 5)))


def _bytes(size: int) -> Callable[[random.Random], bytes]:
    return lambda chance: chance.randbytes(size)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("boolean", pa.bool_(), lambda chance: chance.random() < 0.5),
        Kind("int", pa.int32(), lambda chance: chance.randint(-(2**31), 2**31 - 1), wider="long"),
        Kind("long", pa.int64(), lambda chance: chance.randint(-(2**63), 2**63 - 1)),
        Kind("float", pa.float32(), lambda chance: chance.randint(-99, 99) / 8, wider="double"),
        Kind("double", pa.float64(), lambda chance: chance.uniform(-1e9, 1e9)),
        Kind("decimal(9, 2)", pa.decimal128(9, 2), _decimal(9), str, "decimal(20, 2)"),
        Kind("decimal(20, 2)", pa.decimal128(20, 2), _decimal(20), str),
        Kind("date", pa.date32(), lambda chance: _moment(chance).date(), str),
        Kind(
            "time", pa.time64("us"), lambda chance: _moment(chance).time(), datetime.time.isoformat
        ),
        Kind("timestamp", pa.timestamp("us"), _moment, _iso),
        Kind("timestamptz", pa.timestamp("us", "UTC"), _zoned, _iso),
        Kind("timestamp_ns", pa.timestamp("ns"), _moment, lambda v: f"{_iso(v)}000"),
        Kind("string", pa.string(), _text),
        Kind("binary", pa.binary(), _bytes(3), bytes.hex),
        Kind("fixed[4]", pa.binary(4), _bytes(4), bytes.hex),
        Kind("uuid", pa.binary(16), lambda chance: str(uuid.UUID(bytes=chance.randbytes(16)))),
    )
}
_NEW = ("timestamp_ns", "unknown")
_KEYS = KINDS.keys() - {"float", "double", "timestamp_ns"}


@dataclasses.dataclass(frozen=True)
class Col:
    """A column, or a field of a row.

    Attributes:
        id: Its id.
        name: Its name.
        type: The name of a kind; a tuple of fields; or `list` or `map` with what is in it.
        default: What rows written before it hold.
    """

    id: int
    name: str
    type: Any
    default: Any = None


class Story:
    """One table's history.

    Args:
        seed: Decides everything.
        folder: Where the table is.
    """

    def __init__(self, seed: int, folder: pathlib.Path) -> None:
        self._chance = chance = random.Random(seed)
        self.version = chance.choice([1, 2, 2, 3, 3])
        self._kinds = [
            *(k for k in KINDS if k not in _NEW or self.version == 3),
            *(["unknown"] if self.version == 3 else []),
        ]
        self._ids = 0
        self._numbers = itertools.count()
        self._gone: list[str] = []
        self._named = chance.random() < 0.2
        self._names: dict[int, list[str]] = {}
        self.columns = [Col(self._id(), "id", "long"), Col(self._id(), "p", "int")]
        for _ in range(chance.randint(0, 3)):
            self.columns = self._added(self.columns, first=True)
        self._schemas = [self._shown()]
        self._rows: dict[int, tuple[list[Col], list[_Json]]] = {}
        self._files: list[File] = []
        self._deleted: set[int] = set()
        self.key_types: set[str] = set()
        """The types of the columns by which rows were deleted."""
        self._next = 0
        self.table = Handmade(
            folder,
            self._schemas,
            self.version,
            embedded=self.version == 1 and chance.random() < 0.5,
        )
        self._specs()

    def make(self) -> str:
        """Makes the table.

        Returns:
            Where its metadata is.
        """
        for snapshot in range(1, self._chance.randint(2, 5)):
            for _ in range(self._chance.randint(0, 2)):
                self._evolve()
            self._write(snapshot)
            if snapshot > 1 and self.version > 1 and self._chance.random() < 0.6:
                self._delete(snapshot)
            while snapshot > 1 and self.version > 1 and self._chance.random() < 0.5:
                self._delete_by_key(snapshot)
        for _ in range(self._chance.randint(0, 2)):
            self._evolve()
        if self._named:
            mapping = json.dumps(self._mapping(self.columns))
            self.table.properties["schema.name-mapping.default"] = mapping
        return self.table.write(self._files)

    def rows(self) -> list[tuple[Any, ...]]:
        """What it holds, by the columns it has now."""
        return [
            tuple(self._read(column, columns, row) for column in self.columns)
            for number, (columns, rows) in sorted(self._rows.items())
            for row in rows
            if row["id"] not in self._deleted
        ]

    # --- Columns -------------------------------------------------------------------------------

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    def _name(self, names: list[str]) -> str:
        """One of the names; a new one where files are read by name, or where all are taken."""
        if self._named or not names:
            return f"n{next(self._numbers)}"
        return self._chance.choice(names)

    def _type(self, depth: int = 0) -> Any:
        if depth < 2 and self._chance.random() < 0.3:
            match self._chance.choice(["row", "list", "map"]):
                case "row":
                    names = self._chance.sample(["a", "b", "c"], self._chance.randint(1, 3))
                    return tuple(Col(self._id(), n, self._type(depth + 1)) for n in names)
                case "list":
                    return ("list", Col(self._id(), "element", self._type(depth + 1)))
                case "map":
                    key = Col(self._id(), "key", self._chance.choice(["string", "int", "date"]))
                    return ("map", key, Col(self._id(), "value", self._type(depth + 1)))
        return self._chance.choice([k for k in self._kinds if depth == 0 or k != "unknown"])

    def _added(self, columns: list[Col], depth: int = 0, *, first: bool = False) -> list[Col]:
        taken = {c.name for c in columns}
        names = [n for n in ("x", "y", "z", "w", "v", "Größe", "a b", "data") if n not in taken]
        gone = [n for n in self._gone if n not in taken]
        name = self._name(gone or names)
        column_ = Col(self._id(), name, self._type(depth))
        can_default = self.version == 3 and isinstance(column_.type, str) and column_.type in KINDS
        if can_default and not first and self._chance.random() < 0.5:
            value = KINDS[column_.type].make(self._chance)
            column_ = dataclasses.replace(column_, default=value)
        return [*columns, column_]

    def _evolve(self) -> None:
        if self._chance.random() < 0.4:
            self.columns = self._added(self.columns)
        else:
            self.columns = self._changed(self.columns, kept=2)
        self._schemas.append(self._shown())

    def _changed(self, columns: list[Col], kept: int) -> list[Col]:
        if len(columns) <= kept:
            return columns
        at = self._chance.randrange(kept, len(columns))
        old, rest = columns[at], [*columns[:at], *columns[at + 1 :]]
        taken = {c.name for c in rest}
        match self._chance.choice(["drop", "rename", "move", "widen", "inside", "inside"]):
            case "drop" if len(columns) > max(kept, 1):
                self._gone.append(old.name)
                return rest
            case "rename":
                free = [n for n in ("new", "x", "y", "B") if n not in taken | {old.name}]
                renamed = dataclasses.replace(old, name=self._name(free))
                return [*columns[:at], renamed, *columns[at + 1 :]]
            case "move":
                to = self._chance.randrange(kept, len(columns))
                return [*rest[:to], old, *rest[to:]]
            case "widen" if isinstance(old.type, str) and old.type in KINDS:
                wider = KINDS[old.type].wider
                if wider and old.default is None:
                    widened = dataclasses.replace(old, type=wider)
                    return [*columns[:at], widened, *columns[at + 1 :]]
            case "inside" if isinstance(old.type, tuple) and isinstance(old.type[0], Col):
                inner = self._changed(list(old.type), kept=0)
                if self._chance.random() < 0.5:
                    inner = self._added(inner, depth=1)
                changed = dataclasses.replace(old, type=tuple(inner) or old.type)
                return [*columns[:at], changed, *columns[at + 1 :]]
        return columns

    def _shown(self) -> list[_Json]:
        return [self._shown_field(column) for column in self.columns]

    def _shown_field(self, field: Col) -> _Json:
        self._names.setdefault(field.id, []).append(field.name)
        more = {}
        if field.default is not None:
            more["initial-default"] = KINDS[field.type].default(field.default)
            more["write-default"] = more["initial-default"]
        return column(field.id, field.name, self._shown_type(field.type), **more)

    def _shown_type(self, type_: Any) -> Any:
        match type_:
            case str():
                return type_
            case ("list", element):
                shown = self._shown_field(element)["type"]
                names = {"type": "list", "element-id": element.id}
                return {**names, "element-required": False, "element": shown}
            case ("map", key, value):
                return {
                    "type": "map", "key-id": key.id, "key": self._shown_field(key)["type"],
                    "value-id": value.id, "value-required": False,
                    "value": self._shown_field(value)["type"],
                }  # fmt: skip
        return {"type": "struct", "fields": [self._shown_field(field) for field in type_]}

    def _mapping(self, columns: list[Col] | tuple[Col, ...]) -> list[_Json]:
        return [self._mapped(column_) for column_ in columns]

    def _mapped(self, field: Col) -> _Json:
        found: _Json = {"field-id": field.id, "names": sorted(set(self._names[field.id]))}
        match field.type:
            case str():
                return found
            case ("list" | "map", *inside):
                return {**found, "fields": self._mapping(inside)}
        return {**found, "fields": self._mapping(field.type)}

    # --- Rows ----------------------------------------------------------------------------------

    def _specs(self) -> None:
        """By a value, perhaps not stored in its files; later otherwise, or not at all."""
        field = {"source-id": 2, "field-id": 1000, "name": "p", "transform": "identity"}
        void = {**field, "transform": "void"}
        by_value, by_none = [field], [void] if self.version == 1 else []
        one: list[list[list[_Json]]] = [[[]], [by_value]]
        two = [[by_value, by_none], [by_none, by_value]]
        # manifests without a list are all of the first, in Java
        self.table.specs = self._chance.choice(one if self.table.embedded else [*one, *two])
        self._unstored = self._chance.random() < 0.5

    def _value(self, type_: Any, depth: int = 0) -> Any:
        if self._chance.random() < 0.2:
            return None
        match type_:
            case "unknown":
                return None
            case str():
                return KINDS[type_].make(self._chance)
            case ("list", element):
                return [self._value(element.type) for _ in range(self._chance.randint(0, 3))]
            case ("map", key, value):
                keys = {
                    KINDS[key.type].make(self._chance) for _ in range(self._chance.randint(0, 2))
                }
                return {k: self._value(value.type) for k in keys}
        return {field.id: self._value(field.type) for field in type_}

    def _write(self, snapshot: int) -> None:
        for _ in range(self._chance.randint(1, 2)):
            spec = self._chance.randrange(len(self.table.specs))
            is_parted = [f["transform"] for f in self.table.specs[spec]] == ["identity"]
            p = self._chance.choice([None, 1, 7])
            rows = []
            for _ in range(self._chance.randint(1, 6)):
                values = {c.id: self._value(c.type) for c in self.columns}
                values[1], self._next = self._next, self._next + 1
                if is_parted:
                    values[2] = p
                rows.append({"id": values[1], "values": values})
            stored = [c for c in self.columns if not (is_parted and self._unstored and c.id == 2)]
            arrays = [
                pa.array([_physical(r["values"][c.id], c.type) for r in rows], _arrow(c.type, True))
                for c in stored
                if c.type != "unknown"
            ]
            ids = not self._named
            fields = [_arrow_field(c, ids) for c in stored if c.type != "unknown"]
            arrays = [array.cast(f.type) for array, f in zip(arrays, fields, strict=True)]
            path = str(self.table.new_path())
            partition = {"p": p} if is_parted else {"p": None} if self.table.specs[spec] else {}
            table = pa.table(arrays, schema=pa.schema(fields))
            self._files.append(
                File(table, partition=partition, snapshot=snapshot, path=path, spec=spec)
            )
            self._rows[len(self._files)] = (list(self.columns), rows)

    def _delete(self, snapshot: int) -> None:
        """Positions of rows of earlier files: in a file, or from version 3 on in a vector."""
        for number, (_, rows) in list(self._rows.items()):
            file = self._files[number - 1]
            if file.snapshot >= snapshot or self._chance.random() < 0.5 or file.content != DATA:
                continue
            if any(f.of == file.path for f in self._files):
                continue
            places = sorted(
                self._chance.sample(range(len(rows)), self._chance.randint(1, len(rows)))
            )
            self._deleted |= {rows[place]["id"] for place in places}
            self._files.append(
                File(
                    pa.table({"pos": pa.array(places, pa.int64())}),
                    POSITIONS,
                    file.partition,
                    snapshot=snapshot,
                    spec=file.spec,
                    of=file.path,
                )
            )

    def _delete_by_key(self, snapshot: int) -> None:
        """Keys of rows of earlier files, and others; of one partition, or of all."""
        chance = self._chance
        known = [c for c in self.columns if isinstance(c.type, str) and c.type in _KEYS]
        key = chance.sample(known, chance.randint(1, min(3, len(known))))
        spec, p = chance.randrange(len(self.table.specs)), chance.choice([None, 1, 7])
        is_parted = bool(self.table.specs[spec])
        partition = {"p": p} if is_parted else {}
        older = [
            (row["id"], tuple(self._read(c, columns, row) for c in key), self._files[number - 1])
            for number, (columns, rows) in self._rows.items()
            for row in rows
            if self._files[number - 1].snapshot < snapshot
        ]
        keys = {
            found for _, found, _ in chance.sample(older, chance.randint(1, min(4, len(older))))
        }
        keys.add(tuple(self._value(c.type) for c in key))
        self._deleted |= {
            number
            for number, found, file in older
            if found in keys and (not is_parted or (file.spec, file.partition) == (spec, partition))
        }
        arrays = [
            pa.array([_physical(values[place], c.type) for values in keys], _arrow(c.type, True))
            for place, c in enumerate(key)
        ]
        rows = pa.table(arrays, schema=pa.schema([_arrow_field(c, True) for c in key]))
        ids = tuple(c.id for c in key)
        self.key_types |= {c.type for c in key}
        self._files.append(
            File(rows, EQUALITY, partition, equality_ids=ids, snapshot=snapshot, spec=spec)
        )

    def _read(self, wanted: Col, columns: list[Col] | tuple[Col, ...], row: _Json) -> Any:
        found = next((c for c in columns if c.id == wanted.id), None)
        if found is None:
            return wanted.default
        return self._converted(row["values"][wanted.id], found.type, wanted.type)

    def _converted(self, value: Any, stored: Any, wanted: Any) -> Any:
        if value is None:
            return None
        match stored, wanted:
            case str(), str():
                return value
            case ("list", one), ("list", other):
                return [self._converted(item, one.type, other.type) for item in value]
            case ("map", _, one), ("map", _, other):
                return {k: self._converted(v, one.type, other.type) for k, v in value.items()}
        by_id = {field.id: field for field in stored}
        return {
            field.name: self._converted(value[field.id], by_id[field.id].type, field.type)
            if field.id in by_id
            else field.default
            for field in wanted
        }


def _physical(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    match type_:
        case "uuid":
            return uuid.UUID(value).bytes
        case str():
            return value
        case ("list", element):
            return [_physical(item, element.type) for item in value]
        case ("map", _, item):
            return [(k, _physical(v, item.type)) for k, v in value.items()]
    return {field.name: _physical(value[field.id], field.type) for field in type_}


def _arrow(type_: Any, ids: bool) -> pa.DataType:
    match type_:
        case str():
            return KINDS[type_].arrow
        case ("list", element):
            return pa.list_(_arrow_field(element, ids))
        case ("map", key, value):
            return pa.map_(_arrow_field(key, ids).with_nullable(False), _arrow_field(value, ids))
    return pa.struct([_arrow_field(field, ids) for field in type_])


def _arrow_field(field: Col, ids: bool) -> pa.Field:
    metadata = {"PARQUET:field_id": str(field.id)} if ids else None
    return pa.field(field.name, _arrow(field.type, ids), metadata=metadata)

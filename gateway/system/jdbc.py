"""`system.jdbc`: catalogs, schemas, tables, columns and types, shaped like JDBC's metadata.

Hidden columns are left out of a table's columns; `DESCRIBE` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from seamline.gateway.system import listings
from seamline.gateway.system.request import Row, Rows, SystemTableRequest
from seamline.sql import columns, types
from seamline.sql.types import Array, Char, Decimal, Field, Time, Timestamp, Type, Varbinary

_UNBOUNDED = 2_147_483_647
_NO_NULLS, _NULLABLE = 0, 1
_SEARCHABLE = 3
_NUMBERS: Mapping[Type, int] = {
    types.BOOLEAN: 16,
    types.TINYINT: -6,
    types.SMALLINT: 5,
    types.INTEGER: 4,
    types.BIGINT: -5,
    types.REAL: 7,
    types.DOUBLE: 8,
    types.VARCHAR: 12,
    types.DATE: 91,
}
"""Their numbers in `java.sql.Types`."""
_SIZES: Mapping[Type, int] = {
    types.TINYINT: 3,
    types.SMALLINT: 5,
    types.INTEGER: 10,
    types.BIGINT: 19,
    types.REAL: 24,
    types.DOUBLE: 53,
    types.VARCHAR: _UNBOUNDED,
    types.DATE: 10,
}
"""Sizes in digits or characters; in bits for `real` and `double`."""
_JAVA_OBJECT = 2000
_PLACE = ("table_cat", "table_schem", "table_name")


def number_of(type_: Type) -> int:
    """Returns a type's number in `java.sql.Types`."""
    match type_:
        case Decimal():
            return 3
        case Char():
            return 1
        case Varbinary():
            return -3
        case Time(zoned=zoned):
            return 2013 if zoned else 92
        case Timestamp(zoned=zoned):
            return 2014 if zoned else 93
        case Array():
            return 2003
    return _NUMBERS.get(type_, _JAVA_OBJECT)


def size_of(type_: Type) -> int | None:
    """Returns a type's size, as digits or characters at most; None where that is meaningless."""
    match type_:
        case Decimal(precision):
            return precision
        case Char(length):
            return length
        case Varbinary(length):
            return length or _UNBOUNDED
        case Time(precision, zoned):
            return len("01:02:03") + _fraction(precision) + (len("+00:00") if zoned else 0)
        case Timestamp(precision, zoned):
            zone = len(" +00:00") if zoned else 0
            return len("2024-02-29 01:02:03") + _fraction(precision) + zone
    return _SIZES.get(type_)


def _fraction(precision: int) -> int:
    return precision + 1 if precision else 0


def digits_of(type_: Type) -> tuple[int | None, int | None]:
    """Returns the digits after the decimal point, and the radix of a type's digits."""
    if isinstance(type_, Decimal):
        return type_.scale, 10
    if isinstance(type_, Timestamp | Time):
        return type_.precision, None
    if type_ in types.INTEGERS:
        return 0, 10
    return None, 2 if type_ in types.FLOATS else None


# --- Rows ----------------------------------------------------------------------------------------


def _catalogs(request: SystemTableRequest) -> Iterator[Row]:
    for catalog in listings.catalogs(request.sources):
        yield (catalog,)


def _schemas(request: SystemTableRequest) -> Iterator[Row]:
    for catalog in listings.catalogs(request.sources):
        if request.equals.get("table_catalog", catalog) != catalog:
            continue
        for schema in listings.schemas_or_none(request.sources, catalog):
            yield schema, catalog


def _tables(request: SystemTableRequest) -> Iterator[Row]:
    only = request.only(*_PLACE)
    for listed in listings.everything(request.sources, listings.all_names, request.deadline, only):
        if listed.name is not None:
            kind = "VIEW" if listed.is_view else "TABLE"
            yield listed.source, listed.schema, listed.name.table, kind, *[None] * 6


def _columns(request: SystemTableRequest) -> Iterator[Row]:
    only = request.only(*_PLACE)
    for listed in listings.everything(request.sources, listings.all_tables, request.deadline, only):
        if listed.name is not None:
            table = (listed.source, listed.schema, listed.name.table)
            shown = (f for f in listed.columns if f.name not in columns.METADATA_NAMES)
            for position, field in enumerate(shown, start=1):
                yield (*table, *_column(field, position))


def _column(field: Field, position: int) -> Row:
    digits, base = digits_of(field.type)
    size = size_of(field.type)
    is_text = isinstance(field.type, Char | Varbinary) or field.type == types.VARCHAR
    return (
        field.name,
        number_of(field.type),
        str(field.type),
        size,
        None,
        digits,
        base,
        _NO_NULLS if field.required else _NULLABLE,
        field.comment,
        None,
        None,
        None,
        size if is_text else None,
        position,
        "NO" if field.required else "YES",
        *[None] * 6,
    )


def _types(_: SystemTableRequest) -> Iterator[Row]:
    for type_, name, parameters in _TYPES:
        is_number = types.is_numeric(type_)
        quotes = None if is_number or type_ == types.BOOLEAN else "'"
        scale, base = digits_of(type_)
        yield (
            name,
            number_of(type_),
            size_of(type_),
            *(quotes, quotes),
            parameters,
            _NULLABLE,
            type_ == types.VARCHAR or isinstance(type_, Char),
            _SEARCHABLE,
            not is_number,
            isinstance(type_, Decimal),
            False,
            None,
            *((0, scale) if is_number and scale is not None else (None, None)),
            *(None, None),
            base,
        )


_TYPES: tuple[tuple[Type, str, str | None], ...] = (
    *((type_, str(type_), None) for type_ in (types.BOOLEAN, *types.INTEGERS, *types.FLOATS)),
    (Decimal(38, 38), "decimal", "precision,scale"),
    (types.VARCHAR, "varchar", "length"),
    (Char(65535), "char", "length"),
    (types.VARBINARY, "varbinary", None),
    (types.DATE, "date", None),
    (types.TIME, "time", "precision"),
    (types.TIME_TZ, "time with time zone", "precision"),
    (types.TIMESTAMP, "timestamp", "precision"),
    (types.TIMESTAMP_TZ, "timestamp with time zone", "precision"),
    (types.UUID, "uuid", None),
    (types.JSON, "json", None),
    (Array(types.UNKNOWN), "array", None),
    (types.Row(()), "row", None),
    (types.Map(types.UNKNOWN, types.UNKNOWN), "map", None),
)


ROWS: Mapping[str, Rows] = {
    "catalogs": _catalogs,
    "columns": _columns,
    "schemas": _schemas,
    "table_types": lambda _: [("TABLE",), ("VIEW",)],
    "tables": _tables,
    "types": _types,
}
"""The function that computes the rows, for each table that may have any."""

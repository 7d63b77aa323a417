"""Flight SQL's metadata lists: catalogs, schemas, tables, types, and the SQL that is supported.

The lists are read from `system.jdbc` by statements of the caller, so callers see only what they
may. The lists of keys are empty: tables have no keys that other tables refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from seamline.gateway.flight import sql_info
from seamline.gateway.flight.columns import with_metadata
from seamline.gateway.flight.flight_data import schema_bytes
from seamline.gateway.flight.running import Call, Running
from seamline.sql import types


def _required(name: str, type_: pa.DataType = pa.string()) -> pa.Field:  # noqa: B008 - a constant
    return pa.field(name, type_, nullable=False)


_CATALOGS = pa.schema([_required("catalog_name")])
_SCHEMAS = pa.schema([("catalog_name", pa.string()), _required("db_schema_name")])
_TABLES = pa.schema(
    [
        ("catalog_name", pa.string()),
        ("db_schema_name", pa.string()),
        _required("table_name"),
        _required("table_type"),
    ]
)
_WITH_SCHEMA = _TABLES.append(_required("table_schema", pa.binary()))
_TABLE_TYPES = pa.schema([_required("table_type")])
_PRIMARY_KEYS = pa.schema(
    [
        ("catalog_name", pa.string()),
        ("db_schema_name", pa.string()),
        _required("table_name"),
        _required("column_name"),
        ("key_name", pa.string()),
        _required("key_sequence", pa.int32()),
    ]
)
_KEYS = pa.schema(
    [
        *(
            field
            for side in ("pk", "fk")
            for field in (
                pa.field(f"{side}_catalog_name", pa.string()),
                pa.field(f"{side}_db_schema_name", pa.string()),
                _required(f"{side}_table_name"),
                _required(f"{side}_column_name"),
            )
        ),
        _required("key_sequence", pa.int32()),
        ("fk_key_name", pa.string()),
        ("pk_key_name", pa.string()),
        _required("update_rule", pa.uint8()),
        _required("delete_rule", pa.uint8()),
    ]
)
_TYPES = pa.schema(
    [
        _required("type_name"),
        _required("data_type", pa.int32()),
        ("column_size", pa.int32()),
        ("literal_prefix", pa.string()),
        ("literal_suffix", pa.string()),
        ("create_params", pa.list_(_required("item"))),
        _required("nullable", pa.int32()),
        _required("case_sensitive", pa.bool_()),
        _required("searchable", pa.int32()),
        ("unsigned_attribute", pa.bool_()),
        _required("fixed_prec_scale", pa.bool_()),
        ("auto_increment", pa.bool_()),
        ("local_type_name", pa.string()),
        ("minimum_scale", pa.int32()),
        ("maximum_scale", pa.int32()),
        _required("sql_data_type", pa.int32()),
        ("datetime_subcode", pa.int32()),
        ("num_prec_radix", pa.int32()),
        ("interval_precision", pa.int32()),
    ]
)


class Listings:
    """Answers metadata commands. Safe to share between threads."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._answers: Mapping[str, Callable[[Call, Any], pa.Table]] = {
            "CommandGetCatalogs": self._catalogs,
            "CommandGetDbSchemas": self._schemas,
            "CommandGetTables": self._tables,
            "CommandGetTableTypes": lambda *_: _TABLE_TYPES_TABLE,
            "CommandGetPrimaryKeys": lambda *_: _PRIMARY_KEYS.empty_table(),
            "CommandGetExportedKeys": lambda *_: _KEYS.empty_table(),
            "CommandGetImportedKeys": lambda *_: _KEYS.empty_table(),
            "CommandGetCrossReference": lambda *_: _KEYS.empty_table(),
            "CommandGetSqlInfo": lambda _, command: sql_info.rows(list(command.info)),
            "CommandGetXdbcTypeInfo": self._types,
        }

    def schema(self, name: str, command: Any) -> pa.Schema | None:
        """Returns the columns of a command's answer; None for a command that is not a list."""
        if name == "CommandGetTables":
            return _WITH_SCHEMA if command.include_schema else _TABLES
        return _SCHEMA_BY_COMMAND.get(name)

    def answer(self, call: Call, name: str, command: Any) -> pa.Table:
        """Returns the list that a command asks for.

        Raises:
            SeamlineError: why the list cannot be read.
        """
        return self._answers[name](call, command)

    def _catalogs(self, call: Call, _: Any) -> pa.Table:
        sql = "SELECT table_cat AS catalog_name FROM system.jdbc.catalogs ORDER BY 1"
        return self._running.rows(call, sql).cast(_CATALOGS)

    def _schemas(self, call: Call, command: Any) -> pa.Table:
        where, values = _where(
            ("table_catalog = ?", command, "catalog"),
            (r"table_schem LIKE ? ESCAPE '\'", command, "db_schema_filter_pattern"),
        )
        sql = (
            "SELECT table_catalog AS catalog_name, table_schem AS db_schema_name"
            f" FROM system.jdbc.schemas{where} ORDER BY 1, 2"
        )
        return self._running.rows(call, sql, values).cast(_SCHEMAS)

    def _tables(self, call: Call, command: Any) -> pa.Table:
        where, values = _where(*_name_conditions(command))
        kinds = list(command.table_types)
        if kinds:
            where += (
                f"{' AND' if where else ' WHERE'} table_type IN ({', '.join('?' * len(kinds))})"
            )
        sql = (
            "SELECT table_cat AS catalog_name, table_schem AS db_schema_name, table_name,"
            f" table_type FROM system.jdbc.tables{where} ORDER BY 4, 1, 2, 3"
        )
        tables = self._running.rows(call, sql, [*values, *kinds]).cast(_TABLES)
        if not command.include_schema:
            return tables
        fields = self._fields(call, command)
        schemas = [
            schema_bytes(pa.schema(fields.get((catalog, schema, table), [])))
            for catalog, schema, table, _ in map(dict.values, tables.to_pylist())
        ]
        column = pa.array(schemas, pa.binary())  # also of no tables
        return tables.append_column(_WITH_SCHEMA.field("table_schema"), column)

    def _fields(self, call: Call, command: Any) -> dict[tuple[str, str, str], list[pa.Field]]:
        """Returns the columns of the tables a command selects, by catalog, schema and table."""
        where, values = _where(*_name_conditions(command))
        sql = (
            "SELECT table_cat, table_schem, table_name, column_name, type_name, column_size,"
            " decimal_digits, is_nullable"
            f" FROM system.jdbc.columns{where} ORDER BY 1, 2, 3, ordinal_position"
        )
        fields: dict[tuple[str, str, str], list[pa.Field]] = {}
        for row in self._running.rows(call, sql, values).to_pylist():
            table = (row["table_cat"], row["table_schem"], row["table_name"])
            fields.setdefault(table, []).append(_field(row))
        return fields

    def _types(self, call: Call, command: Any) -> pa.Table:
        where, values = _where(("data_type = ?", command, "data_type"))
        sql = f"SELECT * FROM system.jdbc.types{where} ORDER BY data_type, type_name"
        rows = [_type(row) for row in self._running.rows(call, sql, values).to_pylist()]
        return pa.Table.from_pylist(rows, _TYPES)


_TABLE_TYPES_TABLE = pa.table({"table_type": ["TABLE", "VIEW"]}, schema=_TABLE_TYPES)
_SCHEMA_BY_COMMAND: Mapping[str, pa.Schema] = {
    "CommandGetCatalogs": _CATALOGS,
    "CommandGetDbSchemas": _SCHEMAS,
    "CommandGetTableTypes": _TABLE_TYPES,
    "CommandGetPrimaryKeys": _PRIMARY_KEYS,
    "CommandGetExportedKeys": _KEYS,
    "CommandGetImportedKeys": _KEYS,
    "CommandGetCrossReference": _KEYS,
    "CommandGetSqlInfo": sql_info.SCHEMA,
    "CommandGetXdbcTypeInfo": _TYPES,
}


def _name_conditions(command: Any) -> Iterator[tuple[str, Any, str]]:
    """Yields the conditions on names that a command for tables may have."""
    yield "table_cat = ?", command, "catalog"
    yield r"table_schem LIKE ? ESCAPE '\'", command, "db_schema_filter_pattern"
    yield r"table_name LIKE ? ESCAPE '\'", command, "table_name_filter_pattern"


def _where(*conditions: tuple[str, Any, str]) -> tuple[str, list[Any]]:
    """Returns WHERE with the conditions whose field the command has set, and their values."""
    used = [(sql, getattr(of, field)) for sql, of, field in conditions if of.HasField(field)]
    where = " AND ".join(sql for sql, _ in used)
    return (f" WHERE {where}" if where else ""), [value for _, value in used]


def _field(row: Mapping[str, Any]) -> pa.Field:
    """Returns a column of a table, with the metadata that JDBC needs."""
    field = types.result_field(row["column_name"], types.parse(row["type_name"]))
    metadata = {
        "CATALOG_NAME": row["table_cat"],
        "SCHEMA_NAME": row["table_schem"],
        "TABLE_NAME": row["table_name"],
        "TYPE_NAME": row["type_name"],
        "PRECISION": row["column_size"],
        "SCALE": row["decimal_digits"],
    }
    return with_metadata(field.with_nullable(row["is_nullable"] == "YES"), metadata)


_RENAMED = {"precision": "column_size", "sql_datetime_sub": "datetime_subcode"}


def _type(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a type in the form of Flight SQL."""
    values = {_RENAMED.get(name, name): value for name, value in row.items()}
    parameters = row["create_params"]
    values["create_params"] = parameters.split(",") if parameters else None
    return {**values, "sql_data_type": row["data_type"], "interval_precision": None}

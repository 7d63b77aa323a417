"""The tables of the catalog `system`, and the columns of each.

Those of `jdbc` have the shapes that JDBC's DatabaseMetaData prescribes.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.sql import types
from seamline.sql.types import Timestamp, Type

Shape = Mapping[str, Type]


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.VARCHAR)


def _numbers(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.BIGINT)


_MOMENT = Timestamp(3, zoned=True)
_IN_TABLE = _texts("table_cat", "table_schem", "table_name")
_IN_TYPE = _texts("type_cat", "type_schem", "type_name")
_SCOPE = {**_texts("scope_catalog", "scope_schema", "scope_table"), **_numbers("source_data_type")}

_JDBC: Mapping[str, Shape] = {
    "catalogs": _texts("table_cat"),
    "schemas": _texts("table_schem", "table_catalog"),
    "table_types": _texts("table_type"),
    "tables": {
        **_IN_TABLE,
        **_texts("table_type", "remarks", "type_cat", "type_schem", "type_name"),
        **_texts("self_referencing_col_name", "ref_generation"),
    },
    "columns": {
        **_IN_TABLE,
        **_texts("column_name"),
        **_numbers("data_type"),
        **_texts("type_name"),
        **_numbers("column_size", "buffer_length", "decimal_digits", "num_prec_radix"),
        **_numbers("nullable"),
        **_texts("remarks", "column_def"),
        **_numbers("sql_data_type", "sql_datetime_sub", "char_octet_length"),
        **_numbers("ordinal_position"),
        **_texts("is_nullable"),
        **_SCOPE,
        **_texts("is_autoincrement", "is_generatedcolumn"),
    },
    "types": {
        **_texts("type_name"),
        **_numbers("data_type", "precision"),
        **_texts("literal_prefix", "literal_suffix", "create_params"),
        **_numbers("nullable"),
        "case_sensitive": types.BOOLEAN,
        **_numbers("searchable"),
        "unsigned_attribute": types.BOOLEAN,
        "fixed_prec_scale": types.BOOLEAN,
        "auto_increment": types.BOOLEAN,
        **_texts("local_type_name"),
        **_numbers("minimum_scale", "maximum_scale", "sql_data_type", "sql_datetime_sub"),
        **_numbers("num_prec_radix"),
    },
    "procedures": {
        **_texts("procedure_cat", "procedure_schem", "procedure_name", "remarks"),
        **_numbers("procedure_type"),
        **_texts("specific_name"),
    },
    "procedure_columns": {
        **_texts("procedure_cat", "procedure_schem", "procedure_name", "column_name"),
        **_numbers("column_type", "data_type"),
        **_texts("type_name"),
        **_numbers("precision", "length", "scale", "radix", "nullable"),
        **_texts("remarks", "column_def"),
        **_numbers("sql_data_type", "sql_datetime_sub", "char_octet_length"),
        **_numbers("ordinal_position"),
        **_texts("is_nullable", "specific_name"),
    },
    "pseudo_columns": {
        **_IN_TABLE,
        **_texts("column_name"),
        **_numbers("data_type", "column_size", "decimal_digits", "num_prec_radix"),
        **_texts("column_usage", "remarks"),
        **_numbers("char_octet_length"),
        **_texts("is_nullable"),
    },
    "udts": {
        **_IN_TYPE,
        **_texts("class_name"),
        **_numbers("data_type"),
        **_texts("remarks"),
        **_numbers("base_type"),
    },
    "super_types": {
        **_IN_TYPE,
        **_texts("supertype_cat", "supertype_schem", "supertype_name"),
    },
    "super_tables": {**_IN_TABLE, **_texts("supertable_name")},
    "attributes": {
        **_IN_TYPE,
        **_texts("attr_name"),
        **_numbers("data_type"),
        **_texts("attr_type_name"),
        **_numbers("attr_size", "decimal_digits", "num_prec_radix", "nullable"),
        **_texts("remarks", "attr_def"),
        **_numbers("sql_data_type", "sql_datetime_sub", "char_octet_length"),
        **_numbers("ordinal_position"),
        **_texts("is_nullable"),
        **_SCOPE,
    },
}

_PROPERTIES = _texts("catalog_name", "property_name", "default_value", "type", "description")
_MATERIALIZED_VIEWS: Shape = {
    **_texts("catalog_name", "schema_name", "name"),
    **_texts("storage_catalog", "storage_schema", "storage_table", "freshness"),
    "last_fresh_time": _MOMENT,
    **_texts("comment", "definition"),
}

SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "jdbc": _JDBC,
    "metadata": {
        "catalogs": _texts("catalog_name", "connector_id", "connector_name"),
        "column_properties": _PROPERTIES,
        "materialized_view_properties": _PROPERTIES,
        "materialized_views": _MATERIALIZED_VIEWS,
        "schema_properties": _PROPERTIES,
        "table_comments": _texts("catalog_name", "schema_name", "table_name", "comment"),
        "table_properties": _PROPERTIES,
    },
    "runtime": {
        "nodes": {
            **_texts("node_id", "http_uri", "node_version"),
            "coordinator": types.BOOLEAN,
            "state": types.VARCHAR,
        },
        "queries": {
            **_texts("query_id", "state", "user", "source", "query"),
            "created": _MOMENT,
            "end": _MOMENT,
            **_texts("error_type", "error_code", "engine"),
            **_numbers("rows"),
            **_texts("token", "session", "write_token"),
        },
    },
}
"""The columns of each table, by schema and table."""

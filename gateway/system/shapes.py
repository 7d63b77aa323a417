"""The tables of the catalog `system`, and the columns of each.

Those of `jdbc` have the shapes that JDBC's DatabaseMetaData prescribes.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.sql import types
from seamline.sql.types import Array, Map, Timestamp, Type

Shape = Mapping[str, Type]


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.VARCHAR)


def _numbers(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.BIGINT)


_MOMENT = Timestamp(3, zoned=True)


def _moments(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, _MOMENT)


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

_AUTHORIZATION = _texts("authorization_type", "authorization")
_IN_SCHEMA = _texts("catalog", "schema", "name")

SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "jdbc": _JDBC,
    "metadata": {
        "analyze_properties": _PROPERTIES,
        "catalogs": _texts("catalog_name", "connector_id", "connector_name", "state"),
        "column_properties": _PROPERTIES,
        "functions_authorization": {**_IN_SCHEMA, **_AUTHORIZATION},
        "materialized_view_properties": _PROPERTIES,
        "materialized_views": _MATERIALIZED_VIEWS,
        "schema_properties": _PROPERTIES,
        "schemas_authorization": {**_texts("catalog", "schema"), **_AUTHORIZATION},
        "table_comments": _texts("catalog_name", "schema_name", "table_name", "comment"),
        "table_properties": _PROPERTIES,
        "tables_authorization": {**_IN_SCHEMA, **_AUTHORIZATION},
    },
    "runtime": {
        "nodes": {
            **_texts("node_id", "http_uri", "node_version"),
            "coordinator": types.BOOLEAN,
            "state": types.VARCHAR,
        },
        "optimizer_rule_stats": {
            **_texts("rule_name"),
            **_numbers("invocations", "matches", "failures"),
            "average_time": types.DOUBLE,
            "time_distribution_percentiles": Map(types.DOUBLE, types.DOUBLE),
        },
        "queries": {
            **_texts("query_id", "state", "user", "source", "query"),
            "resource_group_id": Array(types.VARCHAR),
            **_numbers("queued_time_ms", "analysis_time_ms", "planning_time_ms"),
            **_moments("created", "started", "last_heartbeat", "end"),
            **_texts("error_type", "error_code", "engine"),
            **_numbers("rows"),
            **_texts("token", "session", "write_token"),
            "cache_hit": types.BOOLEAN,
        },
        "tasks": {
            **_texts("node_id", "task_id", "stage_id", "query_id", "state"),
            **_numbers("splits", "queued_splits", "running_splits", "completed_splits"),
            **_numbers("split_scheduled_time_ms", "split_cpu_time_ms", "split_blocked_time_ms"),
            **_numbers("internal_network_input_bytes"),
            **_numbers("processed_input_bytes", "processed_input_rows"),
            **_numbers("output_bytes", "output_rows"),
            **_numbers("physical_input_bytes", "physical_written_bytes"),
            **_moments("created", "start", "last_heartbeat", "end"),
        },
        "transactions": {
            **_texts("transaction_id", "isolation_level"),
            "read_only": types.BOOLEAN,
            "auto_commit_context": types.BOOLEAN,
            **_moments("create_time"),
            **_numbers("idle_time_secs"),
            **_texts("written_catalog"),
            "catalogs": Array(types.VARCHAR),
        },
    },
}
"""The columns of each table, by schema and table."""

"""What SQLAlchemy's suite may expect of a gateway, and why it may not expect the rest.

A test of the suite names what it requires. What the suite takes for granted, or leaves to each
database, and is not there has a reason here: it is printed with every test that is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

THERE = frozenset(
    """
    array_type boolean_col_expressions cast_precision_numerics_many_significant_digits
    comment_reflection comment_reflection_full_unicode create_or_replace_view create_table_as ctes
    ctes_with_values date date_historic datetime datetime_historic datetime_literals
    datetime_timezone datetime_timezone_historic default_schema_name_switch except_ fetch_first
    fetch_no_order_by fetch_offset_with_options fetch_ties
    float_or_double_precision_behaves_generically get_isolation_level_values
    group_by_complex_expression implicit_default_schema infinity_floats intersect isolation_level
    mod_operator_as_percent_sign no_lastrowid_support nullable_booleans nullsordering
    order_by_label_with_expression percent_schema_names precision_generic_float_type
    precision_numerics_enotation_large precision_numerics_enotation_small
    precision_numerics_general precision_numerics_many_significant_digits
    precision_numerics_retains_significant_digits regexp_match regexp_replace
    sane_multi_rowcount sane_rowcount schema_create_delete schema_reflection schemas
    standalone_binds supports_bitwise_and supports_bitwise_not supports_bitwise_or
    supports_bitwise_shift supports_bitwise_xor
    supports_is_distinct_from symbol_names_w_double_quote table_ddl_if_exists
    table_value_constructor timestamp_microseconds
    timestamp_microseconds_implicit_bound tuple_in tuple_in_w_empty unbounded_varchar unicode_data
    unicode_data_no_special_types unicode_ddl update_where_target_in_subquery uuid_data_type
    view_column_reflection view_reflection views window_functions window_range window_range_numeric
    """.split()  # noqa: SIM905 - read as a list of words
)
"""What is offered, beyond what the suite takes for granted."""

_GROUPS: Mapping[str, str] = {
    "tables have neither keys nor constraints": """
        check_constraint_reflection constraint_comment_reflection cross_schema_fk_reflection
        deferrable_fks duplicate_key_raises_integrity_error
        fk_constraint_option_reflection_ondelete_noaction
        fk_constraint_option_reflection_ondelete_restrict
        fk_constraint_option_reflection_onupdate_restrict foreign_key_constraint_name_reflection
        foreign_key_constraint_option_reflection_ondelete
        foreign_key_constraint_option_reflection_onupdate foreign_key_constraint_reflection
        foreign_keys foreign_keys_reflect_as_index inline_check_constraint_reflection
        named_constraints non_updating_cascade on_update_cascade primary_key_constraint_reflection
        reflects_pk_names repeated_column_foreign_keys repeated_remote_col_foreign_keys
        self_referential_foreign_keys unique_constraint_reflection
        unique_constraints_reflect_as_index unique_index_reflect_as_unique_constraints""",
    "tables have no indexes": """
        index_ddl_if_exists index_reflection index_reflects_included_columns
        indexes_check_column_order indexes_with_expressions
        reflect_indexes_with_ascdesc_as_expression reflect_indexes_with_expressions""",
    "columns have no defaults on the server, and nothing counts up": """
        autoincrement_insert autoincrement_without_sequence computed_columns
        computed_columns_default_persisted
        computed_columns_reflect_persisted computed_columns_stored computed_columns_virtual
        dbapi_lastrowid emulated_lastrowid emulated_lastrowid_even_with_sequences
        expression_server_defaults identity_columns identity_columns_standard
        implements_get_lastrowid sequences server_defaults""",
    "WITH begins a query, as in Trino, and no other statement": """
        ctes_on_dml ctes_with_update_delete""",
    "DELETE and UPDATE read further tables in subqueries only, as in Trino": """
        delete_from update_from""",
    "each statement is a transaction of its own": """
        autocommit savepoints skip_autocommit_rollback two_phase_transactions""",
    "there are no temporary tables or views": """
        create_temp_table_as has_temp_table temp_table_comment_reflection temp_table_names
        temp_table_reflection temporary_tables temporary_views""",
    "there are no materialized views": "materialized_views materialized_views_reflect_pk",
    "a number after LIMIT, OFFSET and FETCH is written out or a parameter": """
        fetch_expression sql_expression_limit_offset""",
    "SQL has no such clause here": "aggregate_order_by fetch_percent supports_distinct_on",
    "columns of tables hold no JSON, as Iceberg has no such type": """
        json_array_indexes json_deserializer_binary json_type legacy_unconditional_json_extract""",
    "columns have no lengths, collations or options, as Iceberg has none": """
        column_collation_reflection nvarchar_types reflect_table_options""",
    "time has no zone, and intervals are stored nowhere": """
        datetime_interval time_timezone window_range_non_numeric""",
    "columns hold no times of day, which Spark cannot write": "time time_microseconds",
    "a table has a column": "reflect_tables_no_columns",
    "the dialect waits": "async_dialect",
}
REASONS: Mapping[str, str] = {
    name: reason for reason, names in _GROUPS.items() for name in names.split()
}
"""Why each of the others is not offered."""


_MARKS = frozenset({"memory_intensive", "timing_intensive"})
"""Properties that are not requirements."""


def _is_left_out(name: str) -> bool:
    """Whether the suite itself leaves a requirement out, unless a database says otherwise."""
    found = getattr(SuiteRequirements(), name)
    predicates = found.skips | found.fails if isinstance(found, exclusions.compound) else ()
    return any(isinstance(p, exclusions.BooleanPredicate) and p.value for p in predicates)


class Requirements(SuiteRequirements):
    """As the two lists say."""


# SQLAlchemy's suite has no types
_OPEN: Any = exclusions.open
_CLOSED: Any = exclusions.skip_if
_PREDICATE: Any = exclusions.BooleanPredicate


def _is(name: str, state: Callable[[], Any]) -> None:
    """Says whether a requirement is there; each test gets an object of its own, and extends it."""
    setattr(Requirements, name, property(lambda _: state()))


for _name in THERE:
    _is(_name, _OPEN)
for _name, _reason in REASONS.items():
    _is(_name, functools.partial(_CLOSED, _PREDICATE(True, f"{_name}: {_reason}")))


def without_reason() -> set[str]:
    """Requirements that are left out without a reason."""
    known = vars(SuiteRequirements).items()
    names = {name for name, found in known if isinstance(found, property)}
    return {name for name in names - THERE - set(REASONS) - _MARKS if _is_left_out(name)}

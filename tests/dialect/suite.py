"""SQLAlchemy's suite, and the few tests of it that are left out by hand, each with its reason.

It is collected by a pytest of its own, whose plugin is the suite's: see
`tests/integration/test_sqlalchemy_suite.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.testing import provision
from sqlalchemy.testing.suite import *  # noqa: F403 - its way

BY_HAND = "by hand: "
_UNORDERED = "rows come in no order unless a query asks for one"
OWN = {
    (
        "ComponentReflectionTestExtra",
        "test_string_length_reflection",
    ): "columns have no lengths, as Iceberg has none",
    (
        "ComponentReflectionTest",
        "test_get_multi_columns",
    ): "tables have no primary keys, whose columns may be null",
    ("FetchLimitOffsetTest", "test_fetch_offset_ties_exact_number"): _UNORDERED,
    ("IsolationLevelTest", "test_dialect_user_setting_is_restored"): "there is one isolation level",
    ("LongNameBlowoutTest", "test_long_convention_name"): "tables have neither keys nor indexes",
    ("TrueDivTest", "test_truediv_divisor"): "decimals divide with the digits of their types",
    ("WindowFunctionTest", "test_window_range"): _UNORDERED,
    ("WindowFunctionTest", "test_window_range_numeric"): _UNORDERED,
}
"""Tests that nothing says may be left out, and why they are."""


@provision.set_default_schema_on_connection.for_db("seamline")  # type: ignore[untyped-decorator]
def set_default_schema_on_connection(_: Any, connection: Any, schema: str) -> None:
    """The schema of names without one."""
    connection.schema = schema


def _left_out(name: str, reason: str) -> Any:
    def test(self: Any) -> None:
        pytest.skip(f"left out : {BY_HAND}{reason}")

    test.__name__ = name  # by which the suite's plugin recognises a test
    return test


for (_class, _test), _reason in OWN.items():
    _base = globals()[_class]
    globals()[_class] = type(
        _class, (_base,), {_test: _left_out(_test, _reason), "__backend__": True}
    )

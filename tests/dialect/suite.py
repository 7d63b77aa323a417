"""SQLAlchemy's suite, and the few tests of it that are left out by hand, each with its reason.

It is collected by a pytest of its own, whose plugin is the suite's: see
`tests/integration/test_sqlalchemy_suite.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.testing import provision, suite
from sqlalchemy.testing.suite import *  # noqa: F403 - its way

OWN = {
    (
        "ComponentReflectionTestExtra",
        "test_string_length_reflection",
    ): "columns have no lengths, as Iceberg has none",
}
"""Tests that nothing says may be left out, and why they are."""


@provision.delete_from_all_tables.for_db("seamline")  # type: ignore[untyped-decorator]
def delete_from_all_tables(connection: Any, _: Any, metadata: Any) -> None:
    """Empties tables between tests: they are made again, since rows are never deleted."""
    metadata.drop_all(connection)
    metadata.create_all(connection)


@provision.set_default_schema_on_connection.for_db("seamline")  # type: ignore[untyped-decorator]
def set_default_schema_on_connection(_: Any, connection: Any, schema: str) -> None:
    """The schema that names leave unsaid."""
    connection.schema = schema


def _left_out(reason: str) -> Any:
    def test(self: Any) -> None:
        pytest.skip(f"left out by hand : {reason}")

    return test


for (_class, _test), _reason in OWN.items():
    _base = getattr(suite, _class)
    globals()[_class] = type(_class, (_base,), {_test: _left_out(_reason), "__backend__": True})

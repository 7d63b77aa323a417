"""Goal: tools that ask for roles and grants are told that there are none, and where rights are.

Method: the statements that BI tools and Trino's own clients send, to a gateway with rules.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.ruled import Ruled

from seamline.errors import SeamlineError

RULES = """
tables:
- {table: secret, user: ann, privileges: []}
- {privileges: [SELECT, OWNERSHIP]}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    made = Ruled(tmp_path_factory.mktemp("roles"), RULES, {"boss": (), "ann": ()})
    for name in ("t", "secret"):
        made.rows("boss", f"CREATE TABLE {name} (a bigint)")
    yield made
    made.gateway.close()


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SHOW ROLES", ["Role"]),
        ("SHOW ROLES FROM lake", ["Role"]),
        ("SHOW CURRENT ROLES", ["Role"]),
        ("SHOW CURRENT ROLES IN lake", ["Role"]),
        ("SHOW ROLE GRANTS", ["Role Grants"]),
        ("SHOW GRANTS", ["Grantor", "Grantor Type", "Grantee", "Grantee Type", "Catalog",
                         "Schema", "Table", "Privilege", "Grantable", "Hierarchy"]),
        ("SHOW GRANTS ON TABLE t", None),
        ("SHOW GRANTS ON lake.default.t", None),
        ("SELECT role_name FROM lake.information_schema.roles", ["role_name"]),
        ("SELECT role_name FROM information_schema.enabled_roles", ["role_name"]),
        ("SELECT role_name FROM information_schema.applicable_roles", ["role_name"]),
        ("SELECT privilege_type FROM information_schema.table_privileges", ["privilege_type"]),
    ],
)  # fmt: skip
def test_lists_are_empty(world: Ruled, sql: str, columns: list[str] | None) -> None:
    assert world.rows("ann", sql) == []
    with world.gateway.connect(access_token="ann") as connection:
        names = [column[0] for column in connection.execute(sql).description or ()]
    assert columns is None or names == columns


@pytest.mark.parametrize("sql", ["SET ROLE ALL", "SET ROLE NONE", "SET ROLE NONE IN lake"])
def test_no_role_may_be_set(world: Ruled, sql: str) -> None:
    assert world.do("ann", sql) == "done"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SET ROLE admin", "INVALID_ARGUMENT"),
        ('SET ROLE "none" IN lake', "INVALID_ARGUMENT"),
        ("GRANT SELECT ON t TO ann", "STATEMENT_NOT_ALLOWED"),
        ("GRANT admin TO USER ann WITH ADMIN OPTION", "STATEMENT_NOT_ALLOWED"),
        ("REVOKE ALL PRIVILEGES ON t FROM ann", "STATEMENT_NOT_ALLOWED"),
        ("DENY SELECT ON t TO ann", "STATEMENT_NOT_ALLOWED"),
        ("CREATE ROLE admin", "STATEMENT_NOT_ALLOWED"),
        ("DROP ROLE admin", "STATEMENT_NOT_ALLOWED"),
    ],
)
def test_what_needs_roles_points_to_the_rules(world: Ruled, sql: str, code: str) -> None:
    for dialect in (None, "postgres"):
        with pytest.raises(SeamlineError) as caught:
            world.rows("boss", sql, dialect=dialect)
        error = caught.value
        assert error.code.name == code, error
        assert "auth.rules" in error.hint or dialect
        assert error.location is not None or dialect


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SHOW ROLES FROM nowhere", "CATALOG_NOT_FOUND"),
        ("SET ROLE NONE IN nowhere", "CATALOG_NOT_FOUND"),
        ("SHOW GRANTS ON nothing", "TABLE_NOT_FOUND"),
        ("SHOW GRANTS ON secret", "TABLE_NOT_FOUND"),
        ("SHOW ROLES LIKE 'a'", "SYNTAX_ERROR"),
        ("SHOW ROLES FROM a.b", "SYNTAX_ERROR"),
        ("SET ROLE", "SYNTAX_ERROR"),
    ],
)
def test_names_are_looked_up(world: Ruled, sql: str, code: str) -> None:
    assert world.do("ann", sql) == code

"""The rules file: who may do what, in the shape of Trino's file-based access control.

A section is a list of rules. The first rule whose patterns all match decides. Patterns are regular
expressions for whole names; a pattern that is left out matches everything. If a section is present
and none of its rules matches, the answer is no. If a section is left out, everything is allowed,
except two: without a rule, nobody may bind a topic, or read the metrics of the gateway.
"""

from __future__ import annotations

import enum
import functools
import pathlib
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from sqlglot import exp

from seamline.connectors.config import Settings, refused
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config import yaml_file
from seamline.sql.parsing import parse


class Privilege(enum.StrEnum):
    """Privileges on a table; OWNERSHIP covers creating, changing and dropping it."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    OWNERSHIP = "OWNERSHIP"
    GRANT_SELECT = "GRANT_SELECT"


class FunctionPrivilege(enum.StrEnum):
    """Privileges on a function; whoever may grant it may execute it."""

    EXECUTE = "EXECUTE"
    GRANT_EXECUTE = "GRANT_EXECUTE"
    OWNERSHIP = "OWNERSHIP"


class CatalogAccess(enum.StrEnum):
    """The most that is allowed in a catalog."""

    ALL = "all"
    READ_ONLY = "read-only"
    NONE = "none"


class Action(enum.StrEnum):
    """What may be done with statements; the last two are for those of others."""

    EXECUTE = "execute"
    VIEW = "view"
    KILL = "kill"


class SystemAccess(enum.StrEnum):
    """What may be done with information about the gateway; there is nothing to write."""

    READ = "read"
    WRITE = "write"


# --- Values --------------------------------------------------------------------------------------


def _pattern(text: str) -> str:
    try:
        _compiled(text)
    except re.error as error:
        raise refused(f"is not a regular expression: {error}", value=text) from error
    return text


def _expression(text: str) -> str:
    try:
        expression(text)
    except SeamlineError as error:
        raise refused(f"cannot be used: {error.message}", value=text) from error
    return text


def _of_trino(value: object) -> object:
    """Converts the booleans that Trino also accepts."""
    return {"true": "all", "false": "none"}.get(str(value).lower(), value)


Pattern = Annotated[str, AfterValidator(_pattern)]
Expression = Annotated[str, AfterValidator(_expression)]


@functools.lru_cache(4096)
def _compiled(pattern: str, *, case_matters: bool = False) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL | (0 if case_matters else re.IGNORECASE))


@functools.lru_cache(4096)
def expression(text: str) -> exp.Expr:
    """Returns a filter or mask as a tree, which must not be changed.

    Raises:
        SeamlineError: SYNTAX_ERROR, NOT_SUPPORTED.
    """
    return parse.parse_expression(text)


def matches(pattern: str | None, name: str, *, case_matters: bool = False) -> bool:
    """Whether a pattern matches a whole name; None matches all. Case matters only for topics."""
    if pattern is None:
        return True
    return _compiled(pattern, case_matters=case_matters).fullmatch(name) is not None


# --- Rules ---------------------------------------------------------------------------------------


class Rule(Settings):
    """A rule, and whom it is for."""

    user: Pattern | None = None
    """The name of the principal."""
    group: Pattern | None = None
    """One of the principal's groups."""

    def is_for(self, user: str, groups: Sequence[str]) -> bool:
        """Whether it is for a principal."""
        in_group = self.group is None or any(matches(self.group, group) for group in groups)
        return in_group and matches(self.user, user)


class CatalogRule(Rule):
    """The most that is allowed in catalogs; clusters are catalogs, too."""

    catalog: Pattern | None = None
    allow: Annotated[CatalogAccess, BeforeValidator(_of_trino)]


class ColumnRule(Settings):
    """Whether a column may be seen, and how."""

    name: str
    allow: bool = True
    """Whether the column exists for those the rule is for."""
    mask: Expression | None = None
    """What is shown instead: SQL over the table's columns, of the column's type."""


class TableRule(Rule):
    """What may be done with tables and topics, and which of their rows and columns are seen."""

    catalog: Pattern | None = None
    schema_: Annotated[Pattern | None, Field(alias="schema")] = None
    table: Pattern | None = None
    privileges: frozenset[Privilege]
    filter: Expression | None = None
    """A condition in SQL over the table's columns; other rows are not seen."""
    columns: tuple[ColumnRule, ...] = ()


class FunctionRule(Rule):
    """Which functions of catalogs may be executed; those of SQL itself always may."""

    catalog: Pattern | None = None
    schema_: Annotated[Pattern | None, Field(alias="schema")] = None
    function: Pattern | None = None
    privileges: frozenset[FunctionPrivilege]


class TopicRule(Rule):
    """Whether tables may be made over topics."""

    cluster: Pattern | None = None
    topic: Pattern | None = None
    allow: bool = True


class QueryRule(Rule):
    """What may be done with whose statements; users may always see and end their own."""

    owner: Annotated[Pattern | None, Field(alias="queryOwner")] = None
    """Who has submitted the statement."""
    allow: frozenset[Action]


class SystemRule(Rule):
    """Who may read what the gateway reports about itself: its metrics, which name tables."""

    allow: frozenset[SystemAccess]


class SessionPropertyRule(Rule):
    """Which session properties may be set."""

    property: Pattern | None = None
    allow: bool


class CatalogSessionPropertyRule(SessionPropertyRule):
    """Which session properties of a catalog may be set; there are none."""

    catalog: Pattern | None = None


class Rules(Settings):
    """All rules of a file."""

    catalogs: tuple[CatalogRule, ...] | None = None
    tables: tuple[TableRule, ...] | None = None
    functions: tuple[FunctionRule, ...] | None = None
    topics: tuple[TopicRule, ...] = ()
    queries: tuple[QueryRule, ...] | None = None
    system_information: tuple[SystemRule, ...] = ()
    system_session_properties: tuple[SessionPropertyRule, ...] | None = None
    catalog_session_properties: tuple[CatalogSessionPropertyRule, ...] | None = None


def read(file: pathlib.Path) -> Rules:
    """Reads the rules from a JSON or YAML file.

    Raises:
        SeamlineError: INVALID_CONFIG, naming what is wrong and where.
    """
    tree = yaml_file.read(file)
    try:
        return Rules.model_validate(tree)
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            path = ".".join(map(str, problem["loc"]))
            if problem["type"] == "extra_forbidden":
                problems.append(f"{path} is not known ({file})")
            else:
                problems.append(f"{path}: {problem['msg']} ({file})")
        raise SeamlineError(
            INVALID_CONFIG,
            "\n".join(problems),
            hint="docs/security.md says what a rules file may hold.",
        ) from error

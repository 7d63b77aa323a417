"""What one principal may do: the rules, applied to names.

What a principal may not see at all does not exist for them: the error is the same as for a name
that does not exist. What they see but may not use is PERMISSION_DENIED, which names the missing
right.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from seamline.connectors.cache import Cache
from seamline.errors import (
    BAD_RECORD,
    BOUNDARY_INVALID,
    BOUNDARY_MISSING,
    BOUNDARY_NOT_TRUSTED,
    CATALOG_NOT_FOUND,
    COLD_FILE_INVALID,
    COLD_FILE_MISSING,
    DIVISION_BY_ZERO,
    EVALUATION_FAILED,
    HISTORY_CHANGED,
    INTERNAL_ERROR,
    INVALID_ARGUMENT,
    INVALID_CAST,
    INVALID_LITERAL,
    LOCATION_NOT_ALLOWED,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    MEMORY_LIMIT,
    NUMERIC_OVERFLOW,
    OFFSETS_NOT_STORED,
    PERMISSION_DENIED,
    READ_CONFLICT,
    RETRY_AFTER,
    SCAN_TOO_LARGE,
    SCHEMA_INCOMPATIBLE,
    SCHEMA_NOT_EVOLVED,
    SECOND_WRITER,
    SNAPSHOT_GONE,
    SPARK_FAILED,
    STORAGE_UNAVAILABLE,
    TABLE_NOT_FOUND,
    TAIL_TOO_LARGE,
    TIERING_GAP,
    TOPIC_NOT_FOUND,
    UPSERT_ORDER_UNKNOWN,
    WRITE_NOT_VISIBLE,
    SeamlineError,
)
from seamline.gateway.access.rules import (
    Action,
    CatalogAccess,
    FunctionPrivilege,
    Privilege,
    Rule,
    Rules,
    SystemAccess,
    TableRule,
    expression,
    matches,
)
from seamline.gateway.names import SYSTEM_CATALOG
from seamline.sql import columns
from seamline.sql.row_filters_and_masks import NO_RESTRICTION, Restriction
from seamline.sql.types import Field

if TYPE_CHECKING:
    from seamline.gateway.names import TableName

RuleT = TypeVar("RuleT", bound=Rule)
_REMEMBERED_MAX = 1024
_CHANGING = frozenset(Privilege) - {Privilege.SELECT, Privilege.GRANT_SELECT}
_EXECUTING = frozenset({FunctionPrivilege.EXECUTE, FunctionPrivilege.GRANT_EXECUTE})
_EVERY_TABLE = frozenset({None, ".*"})
"""Patterns of rules that decide about all tables of a schema."""
_OF_FUNCTIONS = "system"
"""The schema of a catalog's table functions."""
_ABOUT_ROWS = frozenset({"", "cold", "hot", "changes"})
"""Variants of a table that have its columns."""
_WITHOUT_VALUES = frozenset({"seam", "tail", "snapshots", "history", "refs"})
"""Variants that reveal no column names, and no column values, as bounds and paths would. They count
rows, and reveal how many are hidden."""
_POSITIONS = frozenset({columns.BATCH, columns.FILE_PATH, columns.FILE_POSITION})
"""Columns of a table's own that reveal how many rows lie before a row."""
_KEPT_WHEN_COLUMNS_ARE_HIDDEN = frozenset({columns.PARTITION, columns.OFFSET, columns.TIMESTAMP})
"""Columns of a record that reveal nothing of hidden columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who sends requests."""

    name: str
    groups: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class TableRights:
    """What a principal may do with a table."""

    privileges: frozenset[Privilege] = frozenset(Privilege)
    restriction: Restriction = NO_RESTRICTION

    @property
    def sees(self) -> bool:
        """Whether the table exists at all for the principal."""
        return bool(self.privileges)

    @property
    def sees_all(self) -> bool:
        """Whether all rows and columns may be read."""
        return Privilege.SELECT in self.privileges and not self.restriction

    def sees_column(self, name: str) -> bool:
        """Whether a column may be read, or what its mask makes of it."""
        return Privilege.SELECT in self.privileges and name.lower() not in self.restriction.denied

    def columns(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Returns the columns of a table that exist for the principal."""
        denied = self.restriction.denied
        return tuple(f for f in fields if f.name.lower() not in denied) if denied else fields


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """How much of some tables somebody may see.

    Attributes:
        all: Whether they see everything.
        rows: Whether they see all rows, and so may count them.
        values: Whether all rows and values that they see are there as they are, so that what is
            computed from them may be quoted.
    """

    all: bool = True
    rows: bool = True
    values: bool = True

    @staticmethod
    def of(rights: Iterable[TableRights]) -> Sight:
        """Returns how much of tables is seen by whoever has all of these rights."""
        all_rights = tuple(rights)
        is_read = all(Privilege.SELECT in each.privileges for each in all_rights)
        rows = is_read and not any(each.restriction.hides_rows for each in all_rights)
        return Sight(
            all=all(each.sees_all for each in all_rights),
            rows=rows,
            values=rows and not any(each.restriction.masks for each in all_rights),
        )

    @staticmethod
    def common(sights: Iterable[Sight]) -> Sight:
        """Returns how much is seen of each of several tables."""
        all_sights = tuple(sights)
        return Sight(
            all=all(each.all for each in all_sights),
            rows=all(each.rows for each in all_sights),
            values=all(each.values for each in all_sights),
        )


WHOLE = Sight()


class Rights:
    """What one principal may do. Safe to share between threads.

    Args:
        principal: Who it is.
        rules: The rules; None allows everything.
        rights_of: Returns the rights of others; by default, by the same rules.
    """

    def __init__(
        self,
        principal: Principal,
        rules: Rules | None = None,
        rights_of: Callable[[Principal], Rights] | None = None,
    ) -> None:
        self.principal = principal
        self._rules = rules
        self._rights_of = rights_of or (lambda other: Rights(other, rules))
        self._tables: Cache[tuple[str, ...], TableRights] = Cache(_REMEMBERED_MAX)

    def of(self, user: str) -> Rights:
        """Returns the rights of a user, who has the groups that the file of groups gives."""
        return self if user == self.principal.name else self._rights_of(Principal(user))

    # --- Names -------------------------------------------------------------------------------

    def sees_catalog(self, name: str) -> bool:
        """Whether a catalog, or a cluster, may be seen."""
        return self._catalog(name) is not CatalogAccess.NONE

    def sees_schema(self, catalog: str, schema: str) -> bool:
        """Whether a schema may be seen, because a table in it may be."""
        rules = self._rules
        if not self.sees_catalog(catalog) or rules is None or rules.tables is None:
            return self.sees_catalog(catalog)
        if catalog == SYSTEM_CATALOG:
            return True
        rule = self._first(
            rules.tables,
            lambda rule: (
                matches(rule.catalog, catalog)
                and matches(rule.schema_, schema)
                and (bool(rule.privileges) or rule.table in _EVERY_TABLE)
            ),
        )
        return rule is not None and bool(rule.privileges)

    def table(self, name: TableName) -> TableRights:
        """Returns the rights to a table, which hold for its variants, too."""
        if self._rules is None or name.is_system:
            return _EVERYTHING
        key = (name.catalog or name.cluster, name.schema, name.table)
        is_topic = bool(name.cluster)
        return self._tables.get_or_make(key, lambda: self._table(*key, is_topic=is_topic))

    def check_catalog(self, name: str) -> None:
        """Checks that a catalog may be seen.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND.
        """
        if not self.sees_catalog(name):
            raise SeamlineError(CATALOG_NOT_FOUND, f"catalog {name} does not exist")

    def check_visible(self, name: TableName) -> None:
        """Checks that a table may be seen.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND, TABLE_NOT_FOUND, TOPIC_NOT_FOUND.
        """
        self.check_catalog(name.catalog or name.cluster)
        if self.table(name).sees:
            return
        if name.cluster:
            raise SeamlineError(
                TOPIC_NOT_FOUND, f"topic {name.table}: Broker: Unknown topic or partition"
            )
        raise SeamlineError(TABLE_NOT_FOUND, f"table {'.'.join(name.full)} does not exist")

    def require(self, privilege: Privilege, name: TableName) -> None:
        """Checks that a table may be seen, and that a privilege on it is granted.

        Raises:
            SeamlineError: as `check_visible`; PERMISSION_DENIED.
        """
        self.check_visible(name)
        if privilege not in self.table(name).privileges:
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{self.principal.name} lacks the privilege {privilege} on {name.display}",
            )

    def restriction(self, name: TableName) -> Restriction:
        """Returns which rows and columns may be seen of a table that is read.

        Raises:
            SeamlineError: as `require` for SELECT; PERMISSION_DENIED for a metadata table that
                would reveal more.
        """
        self.require(Privilege.SELECT, name)
        restriction = self.table(name).restriction
        if not restriction or name.variant in _ABOUT_ROWS:
            return restriction
        if name.variant not in _WITHOUT_VALUES or restriction.hides_rows:
            raise self._denied("SELECT all rows and columns", name.display)
        return NO_RESTRICTION

    def require_shared(self, name: TableName, view: str) -> None:
        """Checks that others may read a table by a view of this principal, with these rights.

        Raises:
            SeamlineError: as `require` for SELECT; PERMISSION_DENIED.
        """
        self.require(Privilege.SELECT, name)
        if Privilege.GRANT_SELECT not in self.table(name).privileges:
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{self.principal.name}, the owner of view {view}, lacks the privilege "
                f"{Privilege.GRANT_SELECT} on {name.display}",
                hint="Others can read the view if its owner has that privilege, or if it is "
                "created again with SECURITY INVOKER and they may read the table themselves.",
            )

    def require_new(self, name: TableName) -> None:
        """Checks that something with this name may be created.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND, PERMISSION_DENIED.
        """
        self.check_catalog(name.catalog or name.cluster)
        if Privilege.OWNERSHIP not in self.table(name).privileges:
            raise self._denied("create", name.display)

    def require_alterable(self, name: TableName) -> None:
        """Checks that a table may be altered, for which all of it must be seen.

        Rules know columns by their names, not by where their values come from.

        Raises:
            SeamlineError: as `require` for OWNERSHIP; PERMISSION_DENIED.
        """
        self.require(Privilege.OWNERSHIP, name)
        self.require_all_seen(name, "and so may not alter it")

    def require_all_seen(self, name: TableName, consequence: str) -> None:
        """Checks that all of a table or a view may be seen.

        Args:
            name: Its name.
            consequence: What follows if it may not, for the message.

        Raises:
            SeamlineError: PERMISSION_DENIED.
        """
        if self.table(name).restriction:
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{self.principal.name} may not see all of {name.display}, {consequence}",
            )

    def require_whole(self, name: TableName) -> None:
        """Checks that all of a table may be read, by a reader that takes its files.

        Raises:
            SeamlineError: as `require`; PERMISSION_DENIED.
        """
        self.require(Privilege.SELECT, name)
        if self.table(name).restriction:
            raise not_whole(self.principal, name.display)

    # --- Other things ------------------------------------------------------------------------

    def require_topic(self, cluster: str, topic: str) -> None:
        """Checks that a table may be made over a topic.

        Raises:
            SeamlineError: PERMISSION_DENIED.
        """
        if self._rules is None:
            return
        rule = self._first(
            self._rules.topics,
            lambda rule: (
                matches(rule.cluster, cluster) and matches(rule.topic, topic, case_matters=True)
            ),
        )
        if rule is None or not rule.allow:
            raise self._denied("make tables over", f"topic {topic} of cluster {cluster}")

    def require_function(self, catalog: str, function: str) -> None:
        """Checks that a catalog's table function may be used; its schema is `system`, as in Trino.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND, PERMISSION_DENIED.
        """
        self.check_catalog(catalog)
        if self._rules is None or self._rules.functions is None:
            return
        rule = self._first(
            self._rules.functions,
            lambda rule: (
                matches(rule.catalog, catalog)
                and matches(rule.schema_, _OF_FUNCTIONS)
                and matches(rule.function, function)
            ),
        )
        if rule is None or not rule.privileges & _EXECUTING:
            raise self._denied("execute", f"function {catalog}.{_OF_FUNCTIONS}.{function}")

    def require_property(self, name: str) -> None:
        """Checks that a session property may be set.

        Raises:
            SeamlineError: PERMISSION_DENIED.
        """
        if self._rules is None or self._rules.system_session_properties is None:
            return
        rules = self._rules.system_session_properties
        rule = self._first(rules, lambda rule: matches(rule.property, name))
        if rule is None or not rule.allow:
            raise self._denied("set", f"session property {name}")

    def require_metrics(self) -> None:
        """Checks that the metrics of the gateway may be read, which name tables of all catalogs.

        Raises:
            SeamlineError: PERMISSION_DENIED.
        """
        if self._rules is None:
            return
        rule = self._first(self._rules.system_information, lambda _: True)
        if rule is None or SystemAccess.READ not in rule.allow:
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{self.principal.name} may not read metrics",
                hint="A rule under system_information allows it: {user: …, allow: [read]}.",
            )

    def may(self, action: Action, owner: str) -> bool:
        """Whether an action is allowed on the statements of an owner."""
        if owner == self.principal.name and action is not Action.EXECUTE:
            return True
        if self._rules is None or self._rules.queries is None:
            return action is Action.EXECUTE
        rule = self._first(
            self._rules.queries,
            lambda rule: action is Action.EXECUTE or matches(rule.owner, owner),
        )
        return rule is not None and action in rule.allow

    def require_execute(self) -> None:
        """Checks that statements may be executed.

        Raises:
            SeamlineError: PERMISSION_DENIED.
        """
        if not self.may(Action.EXECUTE, self.principal.name):
            raise self._denied("execute", "statements")

    # --- Rules -------------------------------------------------------------------------------

    def _is_mine(self, rule: Rule) -> bool:
        return rule.is_for(self.principal.name, self.principal.groups)

    def _first(self, rules: Iterable[RuleT], holds: Callable[[RuleT], bool]) -> RuleT | None:
        """Returns the rule that decides: the first that is for the principal and holds."""
        return next((rule for rule in rules if self._is_mine(rule) and holds(rule)), None)

    def _catalog(self, name: str) -> CatalogAccess:
        if self._rules is None or self._rules.catalogs is None or name == SYSTEM_CATALOG:
            return CatalogAccess.ALL  # each table of `system` shows only what may be seen
        rule = self._first(self._rules.catalogs, lambda rule: matches(rule.catalog, name))
        return CatalogAccess.NONE if rule is None else rule.allow

    def _table(self, catalog: str, schema: str, table: str, *, is_topic: bool) -> TableRights:
        assert self._rules is not None
        allowed = self._catalog(catalog)
        if allowed is CatalogAccess.NONE:
            return _NOTHING
        rights = _EVERYTHING
        if self._rules.tables is not None:
            rule = self._first(
                self._rules.tables,
                lambda rule: (
                    matches(rule.catalog, catalog)
                    and matches(rule.schema_, schema)
                    and matches(rule.table, table, case_matters=is_topic)
                ),
            )
            rights = _NOTHING if rule is None else _of_rule(rule)
        if allowed is CatalogAccess.READ_ONLY:
            rights = dataclasses.replace(rights, privileges=rights.privileges - _CHANGING)
        return rights

    def _denied(self, what: str, name: str) -> SeamlineError:
        return SeamlineError(PERMISSION_DENIED, f"{self.principal.name} may not {what} {name}")


def not_whole(principal: Principal, table: str) -> SeamlineError:
    """Returns the error for a reader of files that may not see all of a table."""
    return SeamlineError(
        PERMISSION_DENIED,
        f"{principal.name} may not see all of {table}, which this reader would show",
        hint="Read it with a statement, which leaves out what may not be seen.",
    )


def as_seen(error: SeamlineError, sight: Sight) -> SeamlineError:
    """Returns an error as it may be told to whoever sees this much of the tables that it is about.

    Positions and sizes count rows, paths have the values of partitions in them, and what fails to
    be computed is quoted.
    """
    code = error.code
    limits = {name: error.details[name] for name in _LIMITS & error.details.keys()}
    if code is BAD_RECORD and sight.rows and not sight.all:
        limits = dict(error.details)
        where = ", ".join(f"{name} {value}" for name, value in limits.items())
        text = (
            f"record at {where or 'some offset'} "
            "(the reason may quote columns that you may not see)"
        )
    elif (
        (code in _COUNTING and not sight.rows)
        or (code in _COMPUTING and not sight.values)
        or (code in _WITH_PATHS and not sight.all)
    ):
        text = "the reason is left out, as it may tell of rows or values that you may not see"
    else:
        return error
    return SeamlineError(code, text, location=error.location, details=limits)


@contextlib.contextmanager
def told_as_seen(sight: Callable[[], Sight]) -> Iterator[None]:
    """Tells errors as `as_seen` does.

    Args:
        sight: Returns how much is seen of the tables that errors may be about.

    Raises:
        SeamlineError: what is raised inside, as far as it may be told.
    """
    try:
        yield
    except SeamlineError as error:
        seen = as_seen(error, sight())
        if seen is error:
            raise
        raise seen from error


_LIMITS = frozenset({"limit", "allowed", RETRY_AFTER})
"""Details of errors that are about the configuration alone."""
_COUNTING = frozenset(
    {
        *(BAD_RECORD, SCHEMA_INCOMPATIBLE, SCHEMA_NOT_EVOLVED, SCAN_TOO_LARGE, TAIL_TOO_LARGE),
        *(LOG_TRIMMED, LOG_TRUNCATED, SNAPSHOT_GONE, HISTORY_CHANGED, TIERING_GAP, SECOND_WRITER),
        *(BOUNDARY_MISSING, BOUNDARY_INVALID, BOUNDARY_NOT_TRUSTED, UPSERT_ORDER_UNKNOWN),
        *(WRITE_NOT_VISIBLE, READ_CONFLICT, OFFSETS_NOT_STORED, INTERNAL_ERROR),
    }
)
"""Errors whose messages have offsets, snapshots, sizes or numbers of rows in them."""
_COMPUTING = frozenset(
    {
        *(INVALID_CAST, INVALID_ARGUMENT, NUMERIC_OVERFLOW, DIVISION_BY_ZERO, EVALUATION_FAILED),
        *(INVALID_LITERAL, MEMORY_LIMIT, SPARK_FAILED, INTERNAL_ERROR),
    }
)
"""Errors of computing an answer, whose messages may quote values."""
_WITH_PATHS = frozenset(
    {COLD_FILE_MISSING, COLD_FILE_INVALID, LOCATION_NOT_ALLOWED, STORAGE_UNAVAILABLE}
)
"""Errors whose messages have paths of files in them."""


def within(restriction: Restriction, hidden: frozenset[str]) -> Restriction:
    """Returns a restriction of a table that also holds for the columns `SELECT *` leaves out.

    These may repeat the values of hidden columns, or count the rows that are left out.
    """
    denied, sort_only = restriction.denied, restriction.sort_only
    if restriction.hides_columns:
        denied |= hidden - _KEPT_WHEN_COLUMNS_ARE_HIDDEN
    if restriction.hides_rows:
        denied |= hidden & _POSITIONS
        sort_only |= hidden & {columns.OFFSET}
    return dataclasses.replace(restriction, denied=denied, sort_only=sort_only)


_EVERYTHING = TableRights()
_NOTHING = TableRights(frozenset())


def _of_rule(rule: TableRule) -> TableRights:
    privileges = rule.privileges
    if Privilege.GRANT_SELECT in privileges:
        privileges |= {Privilege.SELECT}
    condition = expression(rule.filter) if rule.filter is not None else None
    denied = frozenset(column.name.lower() for column in rule.columns if not column.allow)
    masks = {
        column.name.lower(): expression(column.mask)
        for column in rule.columns
        if column.mask is not None and column.allow
    }
    return TableRights(privileges, Restriction(condition, masks, denied))


OPERATOR = Rights(Principal("operator"))
"""The rights of whoever runs the gateway and its commands: everything is allowed."""

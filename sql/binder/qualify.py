"""Resolves the names, types and functions of a query against the tables it reads.

`references` returns the tables that a parsed query names, and the caller supplies their columns as
`Relation`s. `qualify` then returns a `BoundQuery`, in which every column belongs to a relation,
every conversion is explicit and every function is a verified one. Identifiers ignore case, as in
Trino; the columns of the result keep the case they were declared or written with.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from sqlglot import exp

from seamline.errors import (
    NOT_SUPPORTED,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    Location,
    SeamlineError,
)
from seamline.sql import time_zones
from seamline.sql.binder.bind import bind
from seamline.sql.binder.options import check_options
from seamline.sql.binder.scope import Column, Output, Source
from seamline.sql.binder.views import owner_of
from seamline.sql.equalities import Equalities, equalities
from seamline.sql.expressions.naming import scan_column, unused_prefix
from seamline.sql.locations import location_of, location_of_name
from seamline.sql.parsing.changes import Changes, changes_of, name_of
from seamline.sql.row_filters_and_masks import NO_RESTRICTION, Restriction
from seamline.sql.session_zone import UTC
from seamline.sql.trees import copy_of
from seamline.sql.types import Field


@dataclasses.dataclass(frozen=True, slots=True)
class TableVersion:
    """FOR VERSION AS OF or FOR TIMESTAMP AS OF.

    Attributes:
        kind: `version` (a snapshot id, a tag or a branch) or `timestamp`.
        value: An int, a str, or an aware datetime.
    """

    kind: str
    value: int | str | datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class TableReference:
    """One place where a query names a table.

    Attributes:
        name: The parts of the name as written.
        version: The version for time travel, if requested.
        changes: The requested changes, if the query reads only changes.
        location: The location in the statement.
        equals: What the query requires of its columns, as far as `equalities` finds it.
        owner: The owner of the view that names it, if it is read with that user's rights.
    """

    name: tuple[str, ...]
    version: TableVersion | None = None
    changes: Changes | None = None
    location: Location | None = dataclasses.field(default=None, compare=False)
    equals: Equalities = ()
    owner: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Relation:
    """The columns behind a reference.

    Attributes:
        columns: Every column, hidden ones included, as declared.
        hidden: Names of columns that `SELECT *` leaves out.
        name: The full name; a statement may leave out its leading parts.
        restriction: The restriction on what may be seen of the relation.
    """

    columns: tuple[Field, ...]
    hidden: frozenset[str] = frozenset()
    name: tuple[str, ...] = ()
    restriction: Restriction = NO_RESTRICTION


@dataclasses.dataclass(frozen=True, slots=True)
class BoundScan:
    """One table reference of a bound query.

    Attributes:
        scan_id: Name of the relation in the bound tree, `scan_0`, `scan_1`, …; no column of a
            relation begins with its prefix.
        reference: The reference in the statement.
        columns: The columns the query uses, as declared, in declared order.
    """

    scan_id: str
    reference: TableReference
    columns: tuple[Field, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query whose names, types and functions are all resolved.

    Attributes:
        tree: The tree; tables are scans by id, columns are lower-case; never changed in place.
        scans: The scans, in text order.
        output: Name and type of each column of the result.
        holds_moment: Whether it contains the moment it was submitted, or the groups that its user
            had then, and so is valid for that one only.
    """

    tree: exp.Expr
    scans: tuple[BoundScan, ...]
    output: tuple[Output, ...]
    holds_moment: bool = False


def references(tree: exp.Expr, zone: str = UTC) -> list[TableReference]:
    """Returns the tables a query names, in text order, without common table expressions.

    Args:
        tree: The parsed query.
        zone: The session's time zone, for moments of the past that are written without one.

    Raises:
        SeamlineError: NOT_SUPPORTED, SYNTAX_ERROR; as `changes_of` for a function.
    """
    check_options(tree)
    return [_reference(table, zone) for table in tables_of(tree)]


def qualify(
    tree: exp.Expr,
    relations: Sequence[Relation],
    *,
    now: datetime.datetime,
    user: str = "",
    session: tuple[str, str] = ("", ""),
    zone: str = UTC,
    groups: Sequence[str] = (),
) -> BoundQuery:
    """Binds a query.

    Args:
        tree: The parsed query, with parameters already filled in.
        relations: The relations of `references(tree)`, in the same order.
        now: The moment the statement was submitted, for CURRENT_TIMESTAMP and the like; aware.
        user: The user who submitted it, for CURRENT_USER.
        session: The default catalog and schema, for CURRENT_CATALOG and CURRENT_SCHEMA.
        zone: The canonical name of the session's time zone, in which local times become instants.
        groups: The user's groups, for current_groups().

    Raises:
        SeamlineError: COLUMN_NOT_FOUND, COLUMN_AMBIGUOUS, TYPE_MISMATCH, FUNCTION_NOT_FOUND,
            NOT_SUPPORTED, GROUPING_ERROR and the like.
    """
    written, tree = tree, copy_of(tree)
    scans: dict[str, tuple[TableReference, dict[str, Field]]] = {}
    sources: dict[str, Source] = {}
    restrictions: dict[str, Restriction] = {}
    prefix = unused_prefix("scan_", (c.name for relation in relations for c in relation.columns))
    for number, table in enumerate(tables_of(tree)):
        scan_id, reference = f"{prefix}{number}", _reference(table, zone)
        table.meta["scan_id"] = scan_id
        fields = _fields(relations[number])
        scans[scan_id] = reference, fields
        sources[scan_id] = _source(scan_id, reference, relations[number], fields)
        restrictions[scan_id] = relations[number].restriction
    try:
        tree, output, used, holds_moment = bind(
            tree, sources, now, restrictions, user, session, zone, groups
        )
    except RecursionError as error:
        raise SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply") from error
    except SeamlineError as error:
        error.location = error.location or location_of(written)
        raise
    return BoundQuery(
        tree=tree,
        scans=tuple(
            BoundScan(
                scan_id, reference, tuple(f for n, f in fields.items() if (scan_id, n) in used)
            )
            for scan_id, (reference, fields) in scans.items()
        ),
        output=tuple(Output(c.name or _unnamed(i), c.type) for i, c in enumerate(output)),
        holds_moment=holds_moment,
    )


def is_unnamed(name: str, position: int) -> bool:
    """Whether a result column is unnamed, and so named by its position."""
    return name == _unnamed(position)


def _unnamed(position: int) -> str:
    return f"_col{position}"


def _source(
    scan_id: str, reference: TableReference, relation: Relation, fields: Mapping[str, Field]
) -> Source:
    """Returns the source of a table, whose columns any trailing parts of its name may qualify."""
    written, whole = (
        tuple(part.lower() for part in name) for name in (reference.name, relation.name)
    )
    columns = tuple(
        Column(
            field.name,
            field.type,
            exp.column(scan_column(field.name)),
            (scan_id, field.name.lower()),
            field.name in relation.hidden,
            () if field is fields.get(field.name.lower()) else _twins(relation, field),
        )
        for field in relation.columns
    )
    return Source(whole if whole[-len(written) :] == written else written, scan_id, columns)


def _fields(relation: Relation) -> dict[str, Field]:
    """Returns the columns by lower-case name, without those whose names differ only in case."""
    names = collections.Counter(field.name.lower() for field in relation.columns)
    fields = {field.name.lower(): field for field in relation.columns}
    return {name: field for name, field in fields.items() if names[name] == 1}


def _twins(relation: Relation, field: Field) -> tuple[str, ...]:
    folded = field.name.lower()
    return tuple(other.name for other in relation.columns if other.name.lower() == folded)


def tables_of(tree: exp.Expr) -> list[exp.Table]:
    """Returns the table nodes that are not common table expressions, in text order.

    Raises:
        SeamlineError: SYNTAX_ERROR, with its location, for a name of too many parts; as
            `changes_of` for a function.
    """
    tables = list(tree.find_all(exp.Table, bfs=False))
    for table in tables:
        name_of(table)
    return sorted((table for table in tables if not _is_cte(table)), key=_position)


def _position(table: exp.Table) -> tuple[int, int]:
    meta = table.this.meta
    return meta.get("line", 0), meta.get("col", 0)


def _is_cte(table: exp.Table) -> bool:
    """Whether a WITH whose scope includes the table defines its name.

    A common table expression sees only earlier ones, and with RECURSIVE also itself.
    """
    if table.args.get("db") is not None:
        return False
    name = table.name.lower()
    below: exp.Expr = table
    above = table.parent
    while above is not None:
        with_ = above.args.get("with_") if not isinstance(above, exp.With) else None
        definitions = with_.expressions if with_ is not None and below is not with_ else ()
        if isinstance(above, exp.With):
            position = next(i for i, cte in enumerate(above.expressions) if cte is below)
            definitions = above.expressions[: position + bool(above.args.get("recursive"))]
        if any(cte.alias.lower() == name for cte in definitions):
            return True
        below, above = above, above.parent
    return False


def _reference(table: exp.Table, zone: str) -> TableReference:
    return TableReference(
        name_of(table),
        _version(table, zone),
        changes_of(table),
        location_of_name(table),
        equalities(table),
        owner_of(table),
    )


def _version(table: exp.Table, zone: str) -> TableVersion | None:
    version = table.args.get("version")
    if version is None:
        return None
    value = version.expression
    if version.name.upper() == "VERSION":
        if isinstance(value, exp.Literal):
            return TableVersion("version", value.name if value.is_string else int(value.name))
    elif isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):
        text = value.this.name.strip()
        if text.upper().endswith(" UTC"):
            text = text[:-4] + "+00:00"
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError as error:
            raise SeamlineError(
                SYNTAX_ERROR,
                f"{value.this.name!r} is not a timestamp",
                location=location_of(value),
            ) from error
        return TableVersion(
            "timestamp", moment if moment.tzinfo else time_zones.instant(moment, zone)
        )
    raise SeamlineError(
        NOT_SUPPORTED,
        "a version must be a literal",
        location=location_of(version),
        hint="FOR VERSION AS OF 123, FOR VERSION AS OF 'tag', FOR TIMESTAMP AS OF TIMESTAMP '…'.",
    )

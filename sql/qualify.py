"""Names, types and functions of a query resolved against the tables it reads.

`references` says which tables a parsed query names; whoever knows them supplies their columns as
`Relation`s; `qualify` then gives a `BoundQuery`, in which every column belongs to a relation, every
conversion is explicit and every function is one of the verified ones. Identifiers ignore case, as
in Trino; the columns of the result keep the case they were declared or written with.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.qualify import qualify as sqlglot_qualify
from sqlglot.schema import MappingSchema

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    NOT_SUPPORTED,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    ErrorCode,
    Location,
    SeamlineError,
)
from seamline.sql import parse
from seamline.sql.binder.bind import bind
from seamline.sql.binder.naming import UnusedNames
from seamline.sql.binder.scope import Output, location_of
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
        name: The parts as written.
        version: Time travel, if asked for.
        location: Where in the statement.
    """

    name: tuple[str, ...]
    version: TableVersion | None = None
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Relation:
    """The columns behind a reference.

    Attributes:
        columns: Every column, hidden ones included, as declared.
        hidden: Names that `SELECT *` leaves out.
    """

    columns: tuple[Field, ...]
    hidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class BoundScan:
    """One reference of a bound query.

    Attributes:
        scan_id: Name of the relation in the bound tree, `scan_0`, `scan_1`, …; no name in the
            statement begins with it.
        reference: What the statement said.
        columns: The columns the query uses, as declared, in declared order.
    """

    scan_id: str
    reference: TableReference
    columns: tuple[Field, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query whose every name, type and function is settled.

    Attributes:
        tree: The tree; tables are scans by id, columns are lower-case; never changed in place.
        scans: The references, in the order of the text.
        output: Name and type of each column of the result.
    """

    tree: exp.Expr
    scans: tuple[BoundScan, ...]
    output: tuple[Output, ...]


def references(tree: exp.Expr) -> list[TableReference]:
    """The tables a query names, in the order of the text; common table expressions are not.

    Raises:
        SeamlineError: NOT_SUPPORTED, SYNTAX_ERROR.
    """
    if any(with_.args.get("recursive") for with_ in tree.find_all(exp.With)):
        raise SeamlineError(NOT_SUPPORTED, "WITH RECURSIVE is not supported", hint="")
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            raise SeamlineError(
                NOT_SUPPORTED,
                "a function cannot be read as a table",
                hint="After FROM stands a table, a query in brackets, VALUES or UNNEST.",
            )
    return [_reference(table) for table in _tables(tree)]


def qualify(tree: exp.Expr, relations: Sequence[Relation], *, now: datetime.datetime) -> BoundQuery:
    """Binds a query.

    Args:
        tree: As parsed, parameters already filled in.
        relations: What `references(tree)` stand for, in the same order.
        now: The moment the statement was asked, for CURRENT_TIMESTAMP and its kin; aware.

    Raises:
        SeamlineError: COLUMN_NOT_FOUND, COLUMN_AMBIGUOUS, TYPE_MISMATCH, FUNCTION_NOT_FOUND,
            NOT_SUPPORTED, GROUPING_ERROR and the like.
    """
    tree = tree.copy()
    written = _written_names(tree)
    natural = next((j for j in tree.find_all(exp.Join) if j.method), None)
    if natural is not None:
        raise SeamlineError(
            NOT_SUPPORTED, f"{natural.method} JOIN is not supported", hint="Use JOIN … USING."
        )
    names = UnusedNames(tree, (c.name for relation in relations for c in relation.columns))
    by_id: dict[str, Relation] = {}
    found: list[tuple[str, TableReference]] = []
    for number, table in enumerate(_tables(tree)):
        scan_id = names.scan(number)
        found.append((scan_id, _reference(table)))
        by_id[scan_id] = relations[number]
        _rename(table, scan_id)
    names.give(tree)
    fields = {scan_id: _fields(relation) for scan_id, relation in by_id.items()}
    try:
        tree = _qualify_names(tree, by_id, fields)
        column_types = {s: {n: f.type for n, f in own.items()} for s, own in fields.items()}
        tree, output, used = bind(tree, column_types, now)
    except RecursionError as error:
        raise SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply") from error
    declared = {name: f.name for own in fields.values() for name, f in own.items()}
    return BoundQuery(
        tree=tree,
        scans=tuple(
            BoundScan(
                scan_id,
                reference,
                tuple(f for n, f in fields[scan_id].items() if (scan_id, n) in used),
            )
            for scan_id, reference in found
        ),
        output=tuple(
            Output(name, column.type)
            for name, column in zip(_output_names(output, written, declared), output, strict=True)
        ),
    )


def _qualify_names(
    tree: exp.Expr, by_id: Mapping[str, Relation], fields: Mapping[str, Mapping[str, Field]]
) -> exp.Expr:
    schema = MappingSchema(
        {scan_id: dict.fromkeys(own, "unknown") for scan_id, own in fields.items()},
        visible={
            scan_id: [n for n, f in own.items() if f.name not in by_id[scan_id].hidden]
            for scan_id, own in fields.items()
        },
        dialect=_DIALECT,  # sqlglot takes its rules for aliases from here
        normalize=False,
    )
    if not by_id:
        schema = MappingSchema({"_": {"_": "unknown"}}, dialect=_DIALECT, normalize=False)
    try:
        qualified: exp.Expr = sqlglot_qualify(
            tree,
            schema=schema,
            dialect=_DIALECT,
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
    except OptimizeError as error:
        text = str(error).split("\n", maxsplit=1)[0]
        code = next((code for part, code in _CODES.items() if part in text), SYNTAX_ERROR)
        name = text.removeprefix("Unknown column: ")
        unknown = next((c for c in tree.find_all(exp.Column) if c.name == name), None)
        place = location_of(unknown.this) if unknown is not None else None
        raise SeamlineError(code, text.rstrip("."), location=place) from error
    except SqlglotError as error:
        raise SeamlineError(SYNTAX_ERROR, str(error).split("\n", maxsplit=1)[0]) from error
    return qualified


_DIALECT = "seamlinedialect, normalization_strategy=case_insensitive"
_CODES: Mapping[str, ErrorCode] = {
    "mbiguous": COLUMN_AMBIGUOUS,
    "Alias already used": COLUMN_AMBIGUOUS,
    "Unknown table": COLUMN_NOT_FOUND,
    "Unknown column": COLUMN_NOT_FOUND,
    "Cannot automatically join": COLUMN_NOT_FOUND,
}
"""What sqlglot's messages are about."""


def _fields(relation: Relation) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for field in relation.columns:
        if field.name.lower() in fields:
            raise SeamlineError(
                COLUMN_AMBIGUOUS,
                f"the columns {fields[field.name.lower()].name!r} and {field.name!r} differ only "
                "in case",
                hint="SQL identifiers ignore case: rename one of them.",
            )
        fields[field.name.lower()] = field
    return fields


def _tables(tree: exp.Expr) -> list[exp.Table]:
    """The table nodes that are not common table expressions, in the order of the text.

    Raises:
        SeamlineError: SYNTAX_ERROR for a function or a name of too many parts in its place.
    """
    tables = list(tree.find_all(exp.Table, bfs=False))
    for table in tables:
        parse.table_name(table)
    return sorted((table for table in tables if not _is_cte(table)), key=_place)


def _place(table: exp.Table) -> tuple[int, int]:
    meta = table.this.meta
    return meta.get("line", 0), meta.get("col", 0)


def _is_cte(table: exp.Table) -> bool:
    """Whether a WITH that reaches the table defines its name; a CTE sees only earlier ones."""
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
            definitions = above.expressions[:position]
        if any(cte.alias.lower() == name for cte in definitions):
            return True
        below, above = above, above.parent
    return False


def _reference(table: exp.Table) -> TableReference:
    identifier = table.this
    meta = identifier.meta
    location = Location(meta["line"], _column(meta)) if "line" in meta else None
    for argument in ("sample", "pivots", "hints", "only", "ordinality", "when", "changes"):
        if table.args.get(argument):
            raise SeamlineError(
                NOT_SUPPORTED, f"{argument} on a table is not supported", location=location
            )
    return TableReference(parse.table_name(table), _version(table), location)


def _column(meta: Mapping[str, int]) -> int:
    return max(1, meta["col"] - (meta["end"] - meta["start"]))


def _version(table: exp.Table) -> TableVersion | None:
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
            raise SeamlineError(SYNTAX_ERROR, f"{value.this.name!r} is not a timestamp") from error
        return TableVersion(
            "timestamp", moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        )
    raise SeamlineError(
        NOT_SUPPORTED,
        "a version must be written out",
        hint="FOR VERSION AS OF 123, FOR VERSION AS OF 'tag', FOR TIMESTAMP AS OF TIMESTAMP '…'.",
    )


def _rename(table: exp.Table, scan_id: str) -> None:
    """The reference becomes its scan; what the statement called it stays as its alias."""
    if not table.alias:
        alias = table.args.get("alias")
        columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name), columns=columns))
    table.set("this", exp.to_identifier(scan_id))
    for argument in ("db", "catalog", "version"):
        table.set(argument, None)


def _written_names(tree: exp.Expr) -> list[str | exp.Star | exp.Identifier | None]:
    """What a statement calls its columns: alias, column's identifier, star, or None for none."""
    select = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    names: list[str | exp.Star | exp.Identifier | None] = []
    for projection in select.expressions if isinstance(select, exp.Select) else ():
        match projection:
            case exp.Star() | exp.Column(this=exp.Star()):
                names.append(exp.Star())
            case exp.Alias():
                names.append(projection.alias)
            case exp.Column():
                names.append(projection.this)
            case exp.Dot():
                names.append(projection.expression)
            case _:
                names.append(None)
    return names


def _output_names(
    output: Sequence[Output],
    written: Sequence[str | exp.Star | exp.Identifier | None],
    declared: Mapping[str, str],
) -> list[str]:
    """Columns are called as declared, aliases as written, and nameless ones as Trino calls them."""
    stars = sum(isinstance(name, exp.Star) for name in written)
    from_star = len(output) - len(written) + stars
    names: list[str] = []
    for name in written:
        match name:
            case exp.Star():
                count = from_star if stars == 1 else 0
                found = output[len(names) : len(names) + count]
                names.extend(declared.get(column.name, column.name) for column in found)
            case exp.Identifier():
                names.append(declared.get(name.name.lower(), name.name))
            case None:
                names.append(f"_col{len(names)}")
            case _:
                names.append(name)
    if len(names) != len(output):  # several stars: aliases lose their case
        return [declared.get(column.name, column.name) for column in output]
    return names

"""Prepared statements: kept by the client as texts, which it sends along with its requests.

`executed` replaces EXECUTE by the prepared statement. DESCRIBE INPUT and DESCRIBE OUTPUT are
answered from the plan of the statement with nulls in place of its parameters.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from seamline.errors import (
    INVALID_PARAMETERS,
    PREPARED_STATEMENT_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    STATEMENT_TOO_LARGE,
    Location,
    SeamlineError,
)
from seamline.gateway.commands.rows import Rows, done, table
from seamline.gateway.query.queries import Planned
from seamline.gateway.statements.statement import StatementRequest
from seamline.seam.seam import Seam
from seamline.sql import parameters, parse, types
from seamline.sql.binder.scope import location_of
from seamline.sql.expressions.calls import Call
from seamline.sql.expressions.naming import name_of_scan_column
from seamline.sql.near import did_you_mean
from seamline.sql.statements import (
    Deallocate,
    DescribePrepared,
    Execute,
    Prepare,
    Query,
    Statement,
)
from seamline.sql.types import Field, Type

Values = Sequence[Any] | Mapping[str, Any]
"""Values of placeholders: Python values, or syntax tree nodes."""

_OF_PREPARED = (Prepare, Execute, Deallocate, DescribePrepared)


def prepare(statement: Prepare, request: StatementRequest) -> Rows:
    """Answers PREPARE: the statement is parsed, and kept by the client.

    Raises:
        SeamlineError: whatever is wrong with the statement; STATEMENT_NOT_ALLOWED,
            STATEMENT_TOO_LARGE.
    """
    _read(statement.text, request)
    size, longest = len(urllib.parse.quote_plus(statement.text)), request.prepared_bytes_max
    if longest is not None and size > longest:
        raise SeamlineError(
            STATEMENT_TOO_LARGE,
            f"the statement takes {size:,} bytes in a header, but at most {longest:,} fit",
            location=statement.location,
            hint="EXECUTE IMMEDIATE takes statements of any length.",
        )
    return done({"prepared": {statement.name: statement.text}})


def deallocate(statement: Deallocate, request: StatementRequest) -> Rows:
    """Answers DEALLOCATE PREPARE.

    Raises:
        SeamlineError: PREPARED_STATEMENT_NOT_FOUND.
    """
    _text_of(statement.name, request, statement.location)
    return done({"prepared": {statement.name: None}})


def executed(statement: Execute, request: StatementRequest) -> tuple[Statement, Values]:
    """Returns the statement that EXECUTE names, and the values of its parameters.

    Raises:
        SeamlineError: PREPARED_STATEMENT_NOT_FOUND, INVALID_PARAMETERS; whatever is wrong with the
            statement.
    """
    text = statement.text or _text_of(statement.name, request, statement.location)
    found = _read(text, request)
    row = parameters.bind(statement.values, request.parameters)
    values = list(row.expressions)
    for value in values:
        varying = value.find(exp.Column, exp.Query, exp.Star)
        if varying is not None:
            raise SeamlineError(
                INVALID_PARAMETERS,
                "a parameter must be a constant",
                location=location_of(varying),
                hint="USING takes literals, and expressions of literals.",
            )
    return found, values


def described(statement: DescribePrepared, request: StatementRequest) -> Statement:
    """Returns the statement that DESCRIBE INPUT or DESCRIBE OUTPUT is about.

    Raises:
        SeamlineError: PREPARED_STATEMENT_NOT_FOUND; whatever is wrong with the statement.
    """
    return _read(_text_of(statement.name, request, statement.location), request)


def _read(text: str, request: StatementRequest) -> Statement:
    found = parse.parse(text, dialect=request.dialect)
    if isinstance(found, _OF_PREPARED):
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED, "a statement about prepared statements cannot itself be prepared"
        )
    return found


def _text_of(name: str, request: StatementRequest, location: Location | None) -> str:
    found = request.prepared.get(name)
    if found is None:
        raise SeamlineError(
            PREPARED_STATEMENT_NOT_FOUND,
            f"there is no prepared statement {name}",
            location=location,
            hint=did_you_mean(name, request.prepared),
        )
    return found


# --- DESCRIBE ------------------------------------------------------------------------------------


def with_nulls(query: Query) -> exp.Expr:
    """Returns a query's tree with nulls for its parameters; each null has its number.

    Row counts and percentages cannot be null.
    """
    tree = query.tree.copy()
    for node in list(tree.find_all(exp.Placeholder)):
        if isinstance(node.parent, _COUNTS):
            node.replace(exp.Literal.number(1))
            continue
        null = exp.Null()
        null.meta[_NUMBER] = node.meta.get("number", 0)
        node.replace(null)
    return tree


_NUMBER = "parameter"
_COUNTS = (exp.Limit, exp.Offset, exp.Fetch, exp.TableSample)


def input_rows(query: Query, planned: Planned | None, given: Sequence[Field] = ()) -> Rows:
    """Answers DESCRIBE INPUT: the type each parameter is converted to, as far as it is known.

    Args:
        query: The statement.
        planned: Its plan with nulls; None when it has none.
        given: The columns of a table that the query's own columns are written to, in order.
    """
    found = dict.fromkeys(range(query.placeholders), str(types.UNKNOWN))
    if planned is not None:
        for node in planned.plan.logical.query.tree.find_all(exp.Null):
            around = node.parent
            if _NUMBER in node.meta and isinstance(around, Call):
                found[node.meta[_NUMBER]] = str(around.spec.returns)
    for place in query.tree.find_all(exp.Placeholder):
        if isinstance(place.parent, _COUNTS) and not place.this:
            is_share = isinstance(place.parent, exp.TableSample)
            found[place.meta["number"]] = str(types.DOUBLE if is_share else types.BIGINT)
    found |= {number: str(field.type) for number, field in _written(query.tree, given)}
    rows = [(number, found[number]) for number in sorted(found)]
    return table({"Position": types.BIGINT, "Type": types.VARCHAR}, rows)


def _written(tree: exp.Expr | None, given: Sequence[Field]) -> Iterator[tuple[int, Field]]:
    """Yields the parameters that are written to columns as they are: number, and column."""
    match tree:
        case exp.Subquery():
            yield from _written(tree.this, given)
        case exp.SetOperation():
            yield from _written(tree.this, given)
            yield from _written(tree.expression, given)
        case exp.Select(expressions=[exp.Star()]):
            yield from _written(tree.args["from_"].this, given)
        case exp.Select():
            yield from _in_row(tree.expressions, given)
        case exp.Values():
            for row in tree.expressions:
                yield from _in_row(row.expressions, given)


def _in_row(values: Sequence[exp.Expr], given: Sequence[Field]) -> Iterator[tuple[int, Field]]:
    for value, field in zip(values, given, strict=False):
        if value.is_star:
            return
        for node in _branches(value.unalias()):
            if isinstance(node, exp.Placeholder) and not node.this:
                yield node.meta["number"], field


def _branches(value: exp.Expr) -> Iterator[exp.Expr | None]:
    """Yields what a value may be; those of MERGE are in `CASE … THEN … END`."""
    if isinstance(value, exp.Case):
        yield from (each.args["true"] for each in value.args["ifs"])
        yield value.args.get("default")
    else:
        yield value


_OUTPUT = {
    "Column Name": types.VARCHAR,
    "Catalog": types.VARCHAR,
    "Schema": types.VARCHAR,
    "Table": types.VARCHAR,
    "Type": types.VARCHAR,
    "Type Size": types.BIGINT,
    "Aliased": types.BOOLEAN,
}
_SIZES: Mapping[Type, int] = {
    types.BOOLEAN: 1,
    types.TINYINT: 1,
    types.SMALLINT: 2,
    types.INTEGER: 4,
    types.REAL: 4,
    types.DATE: 4,
    types.BIGINT: 8,
    types.DOUBLE: 8,
    types.UUID: 16,
}


_UNNAMED = re.compile(r"_col\d+")


def _size(type_: Type) -> int:
    """Returns the bytes of a value in Trino, or 0 if they differ from value to value."""
    match type_:
        case types.Decimal(precision):
            return 8 if precision <= 18 else 16
        case types.Timestamp(precision, zoned):
            return 8 if precision <= (3 if zoned else 6) else 12
        case types.Time():
            return 8
    return _SIZES.get(type_, 0)


def output_rows(planned: Planned | None) -> Rows:
    """Answers DESCRIBE OUTPUT: the result's columns, and the tables that plain ones come from."""
    if planned is None:
        return table(_OUTPUT, [])
    query = planned.plan.logical.query
    seams = {scan.scan_id: scan.seam for scan in planned.plan.logical.scans}
    origins = list(_origins(query.tree, seams)) or [None] * len(query.output)
    rows = []
    for column, origin in zip(query.output, origins, strict=True):
        catalog, schema, name, own = origin or ("", "", "", column.name.lower())
        aliased = column.name.lower() != own if origin else not _UNNAMED.fullmatch(column.name)
        size = _size(column.type)
        rows.append((column.name, catalog, schema, name, str(column.type), size, aliased))
    return table(_OUTPUT, rows)


def _origins(
    tree: exp.Expr, seams: Mapping[str, Seam]
) -> Iterator[tuple[str, str, str, str] | None]:
    """Yields (catalog, schema, table, column) of each result that is a table's column, or None."""
    if not isinstance(tree, exp.Select):
        return
    from_, joins = tree.args.get("from_"), tree.args.get("joins") or ()
    tables = [node.this for node in (from_, *joins) if node is not None]
    seam_of = {t.alias: seams[t.name] for t in tables if t.name in seams}
    for projection in tree.expressions:
        node = projection.unalias()
        seam = seam_of.get(node.table) if isinstance(node, exp.Column) else None
        if seam is None:
            yield None
        else:
            catalog, *schema, name = seam.table
            yield catalog, ".".join(schema), name, name_of_scan_column(node.name)

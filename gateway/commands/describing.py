"""DESCRIBE INPUT and DESCRIBE OUTPUT: what is known of a prepared statement before it is run.

Both are answered from the plan of its query with nulls in place of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from seamline.gateway.commands.context import Context
from seamline.gateway.commands.rows import Rows, table
from seamline.gateway.query.queries import Planned
from seamline.seam.seam import Seam
from seamline.sql import types
from seamline.sql.expressions.calls import Call
from seamline.sql.expressions.naming import name_of_scan_column
from seamline.sql.parsing.statements import Explain, Query
from seamline.sql.types import Field, Type

Inputs = tuple[exp.Expr, Sequence[Field]]
"""The tree of a query, and the columns of a table that its own columns are written to, in order."""


def output(context: Context[Any]) -> Rows:
    """Answers DESCRIBE OUTPUT about a statement, which has columns if it is or has a query.

    Raises:
        SeamlineError: whatever is wrong with the query.
    """
    parsed = context.parsed
    query = parsed.query if isinstance(parsed, Explain) else parsed
    if not isinstance(query, Query):
        return table(_OUTPUT, [])
    planned = context.plan(context.query(query, with_nulls(query)))
    context.statement.described = planned.plan.logical.query.output
    return _output_rows(planned)


def inputs(
    context: Context[Any],
    query: Query | None,
    written: Callable[[Context[Any], exp.Expr], Inputs] | None,
) -> Rows:
    """Answers DESCRIBE INPUT: the type each parameter is converted to, as far as it is known.

    Args:
        context: The statement.
        query: Its query; None if it has none, and so no parameters.
        written: Returns the tree of the query, and the columns of the table that it is written to.

    Raises:
        SeamlineError: whatever is wrong with the statement.
    """
    if query is None:
        return table(_INPUT, [])
    tree = with_nulls(query)
    tree, fields = (tree, ()) if written is None else written(context, tree)
    return _input_rows(query, context.plan(context.query(query, tree)), fields)


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


_INPUT = {"Position": types.BIGINT, "Type": types.VARCHAR}


def _input_rows(query: Query, planned: Planned, written: Sequence[Field]) -> Rows:
    types_of = dict.fromkeys(range(query.placeholders), str(types.UNKNOWN))
    for node in planned.plan.logical.query.tree.find_all(exp.Null):
        call = node.parent
        if _NUMBER in node.meta and isinstance(call, Call):
            types_of[node.meta[_NUMBER]] = str(call.spec.returns)
    for placeholder in query.tree.find_all(exp.Placeholder):
        if isinstance(placeholder.parent, _COUNTS) and not placeholder.this:
            is_share = isinstance(placeholder.parent, exp.TableSample)
            types_of[placeholder.meta["number"]] = str(types.DOUBLE if is_share else types.BIGINT)
    types_of |= {number: str(field.type) for number, field in _written(query.tree, written)}
    rows = [(number, types_of[number]) for number in sorted(types_of)]
    return table(_INPUT, rows)


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


def _output_rows(planned: Planned) -> Rows:
    """Returns the result's columns, and the tables that plain ones come from."""
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

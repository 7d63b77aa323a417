"""FROM: sources and their joins."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    NOT_SUPPORTED,
    STATEMENT_TOO_LARGE,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import functions
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import common_type, implicit_cast, require_equality
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.restricted import restricted
from seamline.sql.binder.rows import compared, fields_of
from seamline.sql.binder.samples import sampled
from seamline.sql.binder.scope import (
    Column,
    Group,
    Output,
    Scope,
    Source,
    output_column,
    unsupported,
)
from seamline.sql.binder.shapes import renamed
from seamline.sql.binder.unnest import bind_unnest
from seamline.sql.binder.views import Expansion, bind_view, expansion_of
from seamline.sql.expressions.calls import CallSpec, call
from seamline.sql.expressions.naming import scan_column
from seamline.sql.locations import locate_errors, location_of
from seamline.sql.types import Row


def _bind_source(
    binder: Binder, node: exp.Expr, scope: Scope, *, keeps_row: bool = False
) -> exp.Expr:
    """Binds one source of FROM or JOIN, and makes its columns visible in the scope.

    Args:
        binder: Binds the source.
        node: The parsed source.
        scope: The preceding sources.
        keeps_row: Whether UNNEST of nothing returns a row of nulls.
    """
    if _is_group(node):
        return _bind_group(binder, node, scope)
    sample = node.args.pop("sample", None)
    match node:
        case exp.Table():
            node, source = _bind_table(binder, node, scope)
        case exp.Subquery():
            node, source = _bind_derived(binder, node, scope)
        case exp.Values():
            source = _bind_values(binder, node, scope)
        case exp.Unnest():
            node, source = _bind_unnest(binder, node, scope, keeps_row=keeps_row)
        case exp.Lateral():
            node, source = _bind_lateral(binder, node, scope)
        case _:
            raise unsupported(node)
    if sample is not None:
        node, source = sampled(binder, node, source, sample)
    _refuse_twice(source, scope)
    scope.add(source)
    return node


def _refuse_twice(source: Source, scope: Scope) -> None:
    if source.name and any(source.name == other.name for other in scope.sources):
        raise SeamlineError(
            COLUMN_AMBIGUOUS,
            f"{source.name[-1]} appears twice in FROM",
            hint="Give one an alias.",
        )


def _name_of(node: exp.Expr) -> tuple[str, ...]:
    """Returns the alias of a source as a name; empty if it has none."""
    return (node.alias.lower(),) if node.alias else ()


def _bind_table(binder: Binder, node: exp.Table, scope: Scope) -> tuple[exp.Expr, Source]:
    scan_id = node.meta.get("scan_id")
    if scan_id is None:
        cte = scope.ctes[node.name.lower()]
        name = _name_of(node) or (node.name.lower(),)
        node.set("this", exp.to_identifier(cte.alias))
        return node, _called(binder, node, name, renamed(cte.output, node.args.get("alias")))
    relation = binder.relations[scan_id]
    alias = binder.new_alias()
    columns = tuple(
        dataclasses.replace(column, node=exp.column(scan_column(column.name), alias))
        for column in relation.columns
    )
    called, name = node.args.get("alias"), _name_of(node) or relation.name
    for argument in ("db", "catalog", "version"):
        node.set(argument, None)
    node.set("this", exp.to_identifier(scan_id))
    node.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    source = Source(name, alias, columns)
    bound: exp.Expr = node
    restriction = binder.restrictions.get(scan_id)
    if restriction:
        bound, source = restricted(binder, node, source, restriction)
    if called is not None and called.args.get("columns"):
        source = dataclasses.replace(source, columns=_named_anew(source.columns, called))
    return bound, source


def _named_anew(columns: Sequence[Column], called: exp.TableAlias) -> tuple[Column, ...]:
    """Returns the columns that `*` shows, renamed if an alias names them."""
    shown = [column for column in columns if not column.hidden]
    names = renamed([Output(column.name, column.type) for column in shown], called)
    return tuple(
        dataclasses.replace(column, name=output.name)
        for column, output in zip(shown, names, strict=True)
    )


def _called(
    binder: Binder, node: exp.Expr, name: tuple[str, ...], output: Sequence[Output]
) -> Source:
    """Returns a source of computed columns, and aliases its node in the bound tree."""
    alias = binder.new_alias()
    node.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    columns = tuple(
        Column(column.name, column.type, exp.column(output_column(i), alias))
        for i, column in enumerate(output)
    )
    return Source(name, alias, columns)


def _with_columns(node: exp.Expr, count: int) -> None:
    """Names the columns of a source that has no column names of its own."""
    columns = [exp.to_identifier(output_column(i)) for i in range(count)]
    node.args["alias"].set("columns", columns)


def _bind_derived(binder: Binder, node: exp.Subquery, scope: Scope) -> tuple[exp.Expr, Source]:
    expansion = expansion_of(node)
    if expansion is not None:
        return _bind_view(binder, node, expansion)
    inner, output = binder.query(node.this, scope.outer, scope.ctes)
    node.set("this", inner)
    return node, _called(binder, node, _name_of(node), renamed(output, node.args.get("alias")))


def _bind_view(binder: Binder, node: exp.Subquery, view: Expansion) -> tuple[exp.Expr, Source]:
    called, name = node.args["alias"], _name_of(node) if view.is_renamed else view.name
    inner, columns = bind_view(binder, node.this, view)
    node.set("this", inner)
    source = _called(binder, node, name, columns)
    bound: exp.Expr = node
    if view.restriction:
        bound, source = restricted(binder, node, source, view.restriction)
    if called.args.get("columns"):
        source = dataclasses.replace(source, columns=_named_anew(source.columns, called))
    return bound, source


def _bind_values(binder: Binder, node: exp.Values, scope: Scope) -> Source:
    rows = []
    inside = Scope(scope.outer, scope.ctes)
    for row in node.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        match [binder.expression(cell, inside) for cell in cells]:
            case [(value, Row() as type_)]:
                rows.append(fields_of(value, type_))
            case typed:
                rows.append(typed)
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise SeamlineError(TYPE_MISMATCH, "the rows of VALUES differ in length", hint="")
    targets = [
        common_type([row[i][1] for row in rows], f"column {i + 1} of VALUES") for i in range(width)
    ]
    for value, _ in itertools.chain.from_iterable(rows):
        refuse_aggregates(value, "VALUES")
        refuse_windows(value, "VALUES")
    node.set(
        "expressions",
        [
            exp.Tuple(
                expressions=[
                    implicit_cast(*cell, target) for cell, target in zip(row, targets, strict=True)
                ]
            )
            for row in rows
        ],
    )
    nameless = [Output("", type_) for type_ in targets]
    output = renamed(nameless, node.args.get("alias"))
    source = _called(binder, node, _name_of(node), output)
    _with_columns(node, width)
    return source


def _bind_unnest(
    binder: Binder, node: exp.Unnest, scope: Scope, *, keeps_row: bool
) -> tuple[exp.Expr, Source]:
    query, output = bind_unnest(binder, node, scope, keeps_row=keeps_row)
    source = _beside(query, scope)
    return source, _called(binder, source, _name_of(node), renamed(output, node.args.get("alias")))


def _bind_lateral(binder: Binder, node: exp.Lateral, scope: Scope) -> tuple[exp.Expr, Source]:
    if not isinstance(node.this, exp.Subquery) or any(
        node.args.get(key) for key in ("view", "outer", "ordinality", "cross_apply")
    ):
        raise unsupported(node)
    query, output = binder.query(node.this, scope, scope.ctes)
    source = _beside(query, scope)
    return source, _called(binder, source, _name_of(node), renamed(output, node.args.get("alias")))


def _beside(query: exp.Expr, scope: Scope) -> exp.Expr:
    """Returns a query as a source, LATERAL if it reads the preceding sources."""
    inner = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    if any(scope.owns(column) for column in query.find_all(exp.Column)):
        return exp.Lateral(this=inner)
    return inner


# --- Joins ---------------------------------------------------------------------------------------


def bind_from(binder: Binder, node: exp.Select, scope: Scope) -> None:
    """Binds FROM and its joins, if there is a FROM."""
    from_ = node.args.get("from_")
    if from_ is None:
        return
    joins = list(node.args.get("joins") or ())
    while _is_group(from_.this) and not _is_called(from_.this):  # redundant parentheses
        first, more = _opened(from_.this)
        from_.set("this", first)
        joins = [*more, *joins]
    _check_count(joins)
    with locate_errors(from_):
        from_.set("this", _bind_source(binder, from_.this, scope))
    bound = []
    for join in joins:
        with locate_errors(join):
            bound += [*_bind_join(binder, join, scope), join]
    node.set("joins", bound)


def _is_group(node: exp.Expr) -> bool:
    """Whether a source is several joined ones: in parentheses, or with conditions further on."""
    return bool(node.args.get("joins")) or _is_bracket(node)


def _is_bracket(node: exp.Expr) -> bool:
    """Whether the node stands for parentheses around sources, not around a query."""
    if not isinstance(node, exp.Subquery):
        return False
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return bool(inner.alias) or _is_group(inner)
    return not isinstance(inner, exp.Query)


def _is_called(group: exp.Expr) -> bool:
    """Whether joined sources have an alias as a whole."""
    if group.args.get("joins"):
        return False  # an alias is that of the first source
    if group.args.get("sample"):
        raise SeamlineError(
            NOT_SUPPORTED,
            "joins in brackets cannot be sampled",
            hint="Sample the tables that are joined.",
        )
    return bool(group.alias)


def _opened(group: exp.Expr) -> tuple[exp.Expr, list[exp.Join]]:
    """Returns the first of some joined sources, and the joins of the others."""
    joins = group.args.pop("joins", None)
    return (group, joins) if joins else (group.this, [])


def _size(node: exp.Expr) -> int:
    """Returns the number of relations in a source."""
    inner = _size(node.this) if _is_bracket(node) else 1
    return inner + sum(_size(join.this) for join in node.args.get("joins") or ())


def _bind_group(binder: Binder, node: exp.Expr, scope: Scope) -> exp.Expr:
    """Binds joined sources as one query; they keep their names unless the whole has an alias."""
    is_called, inside = _is_called(node), Scope(scope.outer, scope.ctes)
    query = exp.select().from_(node.this if is_called else node, copy=False)
    bind_from(binder, query, inside)
    alias, nodes, columns = binder.new_alias(), dict[str, exp.Expr](), dict[int, Column]()
    for column in (*inside.row, *(c for source in inside.sources for c in source.columns)):
        if id(column) not in columns:
            name = output_column(len(nodes))
            nodes[name] = column.node
            columns[id(column)] = dataclasses.replace(column, node=exp.column(name, alias))
    scope.groups[alias] = Group(query, inside, nodes)
    row = [columns[id(column)] for column in inside.row]
    if is_called:
        sources = [Source(_name_of(node), alias, _named_anew(row, node.args["alias"]))]
        row = list(sources[0].columns)
    else:
        sources = [
            Source(s.name, alias, tuple(columns[id(c)] for c in s.columns)) for s in inside.sources
        ]
    for source in sources:
        _refuse_twice(source, scope)
    scope.sources += sources
    scope.row += row
    called = exp.TableAlias(this=exp.to_identifier(alias))
    return exp.Subquery(this=query, alias=called)


def _check_count(joins: Sequence[exp.Join]) -> None:
    """Refuses more relations than DuckDB plans in seconds, as it tries conditions of every pair.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE.
    """
    count = 1 + sum(_size(join.this) for join in joins if (join.side or "").upper() != "LEFT")
    if count > _JOINED_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE,
            f"a query joins {count} relations; at most {_JOINED_MAX} are allowed",
            hint="Join some of them in a subquery with its own GROUP BY or LIMIT, or by LEFT JOIN.",
        )


_JOINED_MAX = 64


def _bind_join(binder: Binder, join: exp.Join, scope: Scope) -> list[exp.Join]:
    """Binds a join: its source, then its condition over everything visible by then.

    Returns:
        The joins that must precede it: those of the subqueries of its condition.
    """
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if join.method not in {"", "NATURAL"} or kind not in {"", "INNER", "CROSS", "OUTER"}:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{' '.join(filter(None, (join.method, kind)))} JOIN is not supported",
            hint="INNER, LEFT, RIGHT, FULL, CROSS and NATURAL JOIN are.",
        )
    if side and isinstance(join.this, exp.Unnest | exp.Lateral):
        _check_outer(join, side)
    keeps_row = side == "LEFT" and isinstance(join.this, exp.Unnest)
    if keeps_row:
        side = ""
        for key, value in (("side", None), ("kind", "CROSS"), ("on", None)):
            join.set(key, value)
    left, before = list(scope.row), list[exp.Join]()
    aliases = {source.alias for source in scope.sources}
    join.set("this", _bind_source(binder, join.this, scope, keeps_row=keeps_row))
    on, using = join.args.get("on"), join.args.get("using")
    if join.method == "NATURAL":
        using = _shared(left, scope.row[len(left) :])
        join.set("method", None)
        if not using:
            on = exp.Boolean(this=True)
    if using:
        join.set("on", _bind_using(binder, using, len(left), side, scope))
        join.set("using", None)
    elif on is not None:
        condition = binder.boolean(on, scope, "ON")
        refuse_aggregates(condition, "ON")
        refuse_windows(condition, "ON")
        if side == "LEFT" and not isinstance(join.this, exp.Lateral):
            condition = _filter_right(join, condition, aliases)
        if side:
            condition, before = hoisted(binder, condition, scope)
        join.set("on", condition)
        if side and isinstance(join.this, exp.Lateral):
            _filter_inside(join)
    elif side:
        raise SeamlineError(NOT_SUPPORTED, f"{side} JOIN needs ON or USING", hint="")
    return before


def hoisted(binder: Binder, bound: exp.Expr, scope: Scope) -> tuple[exp.Expr, list[exp.Join]]:
    """Moves subqueries that do not read the rows around them out of a bound expression.

    Args:
        binder: Names the sources.
        bound: The expression, changed in place.
        scope: The rows around it.

    Returns:
        The expression, and one join for each of those subqueries, which has its value.
    """
    held, joins = exp.Paren(this=bound), []
    for subquery in list(held.find_all(exp.Subquery, exp.Exists)):
        is_value = isinstance(subquery, exp.Exists) or not isinstance(
            subquery.parent, exp.In | exp.Exists | exp.From | exp.Join | exp.SetOperation
        )
        is_inside = subquery.find_ancestor(exp.Query) is not None
        if is_value and not is_inside and not any(map(scope.owns, subquery.find_all(exp.Column))):
            alias = binder.new_alias()
            subquery.replace(exp.column(output_column(0), alias))
            query = exp.select(exp.alias_(subquery, output_column(0)))
            called = exp.TableAlias(this=exp.to_identifier(alias))
            joins.append(exp.Join(this=exp.Subquery(this=query, alias=called), kind="CROSS"))
    outside: exp.Expr = held.this
    return outside, joins


def _shared(left: Sequence[Column], right: Sequence[Column]) -> list[exp.Expr]:
    """Returns the column names that both sides of a NATURAL JOIN have."""
    names = {column.folded for column in right if column.name and not column.hidden}
    shared = [c.folded for c in left if c.folded in names and not c.hidden]
    return [exp.to_identifier(name) for name in dict.fromkeys(shared)]


def _filter_right(join: exp.Join, condition: exp.Expr, before: set[str]) -> exp.Expr:
    """Moves conditions with subqueries about the right side of LEFT JOIN into it, as a filter.

    Returns:
        The other conditions.
    """
    inside, outside = list[exp.Expr](), list[exp.Expr]()
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        reads_left = any(column.table in before for column in part.find_all(exp.Column))
        is_inside = part.find(exp.Query) is not None and not reads_left
        (inside if is_inside else outside).append(part.copy())
    if not inside:
        return condition
    source = join.this
    alias = exp.TableAlias(this=exp.to_identifier(source.alias_or_name))
    filtered = exp.select("*").from_(source).where(exp.and_(*inside, copy=False), copy=False)
    join.set("this", exp.Subquery(this=filtered, alias=alias))
    return exp.and_(*outside, copy=False) if outside else exp.Boolean(this=True)


def _filter_inside(join: exp.Join) -> None:
    """Moves the condition of LEFT JOIN LATERAL inside as a filter, which keeps the same rows."""
    lateral, on = join.this, join.args["on"]
    if not _is_true(on):
        inner = exp.Subquery(this=lateral.this.this, alias=lateral.args["alias"].copy())
        filtered = exp.select("*").from_(inner).where(on, copy=False)
        lateral.set("this", exp.Subquery(this=filtered))
        join.set("on", exp.Boolean(this=True))


def _is_true(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this)


def _check_outer(join: exp.Join, side: str) -> None:
    """Refuses outer joins of UNNEST and LATERAL other than LEFT JOIN, which keeps the left rows.

    UNNEST is further limited to ON TRUE.
    """
    what, on = join.this.key.upper(), join.args.get("on")
    is_plain = _is_true(on) if isinstance(join.this, exp.Unnest) else on is not None
    if side != "LEFT" or not is_plain:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{side} JOIN {what} is not supported with this condition",
            hint=f"LEFT JOIN {what} … ON TRUE is.",
        )


def _bind_using(
    binder: Binder, names: Sequence[exp.Expr], width: int, side: str, scope: Scope
) -> exp.Expr:
    """Returns the condition of USING; each named column comes once, before all others in the row.

    Args:
        binder: Binds the columns.
        names: The names in USING.
        width: The number of columns that the left side has in the row.
        side: LEFT, RIGHT, FULL or nothing.
        scope: The scope of both sides.
    """
    merged, replaced, conditions = [], [], []
    for name in names:
        one = _of_side(name, scope.row[:width])
        other = _of_side(name, scope.row[width:])
        common = common_type([one.type, other.type], f"USING ({name.name})")
        require_equality(common, "USING")
        sides = [implicit_cast(*binder.column(c), common) for c in (one, other)]
        conditions.append(compared(exp.EQ, sides[0], sides[1], common))
        value = {"": sides[0], "LEFT": sides[0], "RIGHT": sides[1]}.get(side)
        if value is None:
            resolved = functions.resolve("coalesce", [common, common])
            spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
            value = call(spec, sides)
        merged.append(Column(one.name, common, value.copy()))
        replaced += [one, other]
    scope.row = [*merged, *(c for c in scope.row if not any(c is r for r in replaced))]
    return exp.and_(*conditions, copy=False)


def _of_side(name: exp.Expr, columns: Sequence[Column]) -> Column:
    matches = [column for column in columns if column.folded == name.name.lower()]
    if len(matches) != 1:
        code = COLUMN_AMBIGUOUS if matches else COLUMN_NOT_FOUND
        what = "stands for several on" if matches else "is not on"
        raise SeamlineError(
            code, f"column {name.name} {what} one side of USING", location=location_of(name)
        )
    return matches[0]

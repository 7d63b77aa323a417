"""Rewrites subqueries that read the rows around them into forms that the engines plan.

Neither engine accepts them as group keys, which become columns of a source, nor in the condition
of an outer join, whose right side becomes LATERAL and has the condition as a filter.

Spark refuses them in more places. Each is moved to a place that gives the same rows:

- the condition of an inner join moves to WHERE
- beside groups, the groups become a source of their own, and the values are computed above them
- where an aggregate, a subquery further inside, or a condition that has one or is below a LIMIT,
  reads a column of the query around, the sources of the query between become one source that has
  that column, too
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.sql.expressions.calls import Call
from seamline.sql.trees import nodes_of_kind

_SOURCES = ("from_", "joins")
Named = Callable[[], str]
"""Generates names that no source of the tree has."""


def move_for_spark(tree: exp.Expr, new_name: Named) -> None:
    """Moves correlated subqueries to where Spark plans them.

    Args:
        tree: A bound tree, changed in place.
        new_name: Names new sources.
    """
    if next(_values(tree), None) is None and tree.find(exp.Lateral) is None:
        return
    for select in list(tree.find_all(exp.Select)):
        _filter_after_joins(select)
    for select in list(tree.find_all(exp.Select)):
        if _computes_beside_groups(select):
            _group_inside(select, new_name())
    for select in list(tree.find_all(exp.Select)):
        parts = (
            *_aggregated(select),
            *_conditions_with_queries(select),
            *_conditions_below_limit(select),
        )
        read = [column for part in parts for column in _of_outside(part, select)]
        if read:
            bring_inside(select, read, new_name(), _SOURCES)
    while reads := next(_too_far(tree), None):
        bring_inside(*reads, new_name(), _SOURCES)


def group_inside(tree: exp.Expr, condition: Callable[[exp.Select], bool]) -> None:
    """Makes the groups of some queries a source of their own if a value beside them is correlated.

    Args:
        tree: A bound tree, changed in place.
        condition: Which queries.
    """
    for number, select in enumerate(nodes_of_kind(tree, exp.Select)):
        if condition(select) and _computes_beside_groups(select):
            _group_inside(select, f"_grouped{number}")


def _group_inside(select: exp.Select, alias: str) -> None:
    """Turns the groups of a query into its only source, above which the rest is computed."""
    groups = InnerQuery(alias)
    group = select.args.get("group")
    grouped = list(keys(group.expressions)) if group is not None else []

    def replace(node: exp.Expr) -> exp.Expr:
        is_inside = node in grouped or aggregate_of(node, select) is not None
        return groups.column(node) if is_inside else node

    for part in computed_of_groups(select):
        part.transform(replace, copy=False)
    groups.take_groups(select)
    select.set("from_", exp.From(this=groups.source()))


# --- Joins ---------------------------------------------------------------------------------------


def _filter_after_joins(select: exp.Select) -> None:
    """Moves conditions of inner joins that read other queries to WHERE, unless rows are added."""
    joins, names = select.args.get("joins") or [], _names(select)
    for index, join in enumerate(joins):
        condition = join.args.get("on")
        adds_rows = any((j.side or "").upper() in {"RIGHT", "FULL"} for j in joins[index + 1 :])
        if join.side or adds_rows or condition is None:
            continue
        conditions, moved = list[exp.Expr](), list[exp.Expr]()
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            reads_out = any(c.table and c.table not in names for c in part.find_all(exp.Column))
            (moved if reads_out or part.find(exp.Query) else conditions).append(part.copy())
        if moved:
            join.set(
                "on", exp.and_(*conditions, copy=False) if conditions else exp.Boolean(this=True)
            )
            select.where(*moved, copy=False)


# --- Groups --------------------------------------------------------------------------------------


def _computes_beside_groups(select: exp.Select) -> bool:
    """Whether something beside the aggregates of a query depends on another query's rows."""
    parts = list(computed_of_groups(select))
    aggregates = [a for part in parts for a in part.walk() if aggregate_of(a, select)]
    if not aggregates and select.args.get("group") is None:
        return False
    names = _names(select)
    inside = {id(node) for aggregate in aggregates for node in aggregate.walk()}
    for part in parts:
        for column in part.find_all(exp.Column):
            is_deeper = column.find_ancestor(exp.Select) is not select
            reads_out = (
                bool(column.table) and column.table not in names and _is_outer(column, select)
            )
            if id(column) not in inside and (column.table in names if is_deeper else reads_out):
                return True
    return False


def _aggregated(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields the aggregates of a query, its keys, and the windows over its rows."""
    group = select.args.get("group")
    if group is not None:
        yield group
    for part in computed_of_groups(select):
        for node in part.walk():
            is_window = isinstance(node, exp.Window) and node.find_ancestor(exp.Select) is select
            if is_window or aggregate_of(node, select):
                yield node


def _conditions_with_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields the conditions of WHERE that have a subquery: Spark loses columns beside those."""
    where = select.args.get("where")
    condition = where.this if where is not None else None
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if part is not None and part.find(exp.Query) is not None:
            yield part


def _conditions_below_limit(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields the conditions of WHERE below a LIMIT that Spark would apply to all rows at once.

    For each row around, it limits the rows that are equal to a column of that row, but not those
    that are equal to an expression, nor those chosen by a condition that reads only that row.
    """
    where = select.args.get("where")
    if where is None or not _is_limited(select):
        return
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        if not _is_equal_to_outside(part, select):
            yield part


def _is_limited(select: exp.Select) -> bool:
    """Whether the query, or one around it in the same subquery, has a LIMIT or an OFFSET."""
    node: exp.Expr | None = select
    while node is not None and not _is_level(node):
        if isinstance(node, exp.Query) and (node.args.get("limit") or node.args.get("offset")):
            return True
        node = node.parent
    return False


def _is_equal_to_outside(part: exp.Expr, select: exp.Select) -> bool:
    """Whether a condition is that something of this query is equal to a column around it."""
    if not isinstance(part, exp.EQ):
        return False
    names = _names(select)
    for one, other in ((part.this, part.expression), (part.expression, part.this)):
        read = [column.table in names for column in one.find_all(exp.Column)]
        is_outside = isinstance(other, exp.Column) and other.table not in names
        if is_outside and read and all(read):
            return True
    return False


def _of_outside(part: exp.Expr, select: exp.Select) -> Iterator[exp.Column]:
    """Yields the columns of enclosing queries that a part of a query reads itself."""
    names = _names(select)
    for column in part.find_all(exp.Column):
        is_own = not column.table or column.table in names
        if not is_own and column.find_ancestor(exp.Select) is select:
            yield column


def aggregate_of(node: exp.Expr, select: exp.Select) -> Call | None:
    """Returns the aggregate over this query's rows that a node is, with its FILTER if it has one.

    None for all else, also for an aggregate of a window: it is computed over groups.
    """
    aggregate = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(aggregate, Call) or aggregate.spec.overload.kind != "aggregate":
        return None
    is_own = not _is_of_window(node) and node.find_ancestor(exp.Query) is select
    return aggregate if is_own else None


def _is_of_window(node: exp.Expr) -> bool:
    """Whether the node is the function that OVER belongs to."""
    while isinstance(node.parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def keys(items: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """Yields the keys of a GROUP BY, those of its grouping sets among them."""
    for item in items:
        if isinstance(item, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
            yield from keys(item.expressions)
        elif isinstance(item, exp.Paren):
            yield from keys([item.this])
        else:
            yield item


# --- Columns from further out --------------------------------------------------------------------


def _too_far(tree: exp.Expr) -> Iterator[tuple[exp.Select, list[exp.Column]]]:
    """Yields a query, and the columns from around it that a query further inside reads."""
    for column in tree.find_all(exp.Column):
        levels = list(_levels(column))
        if len(levels) < 2:
            continue
        between = levels[-2].find_ancestor(exp.Select)
        is_source = levels[-2].find_ancestor(exp.From, exp.Join, exp.Select) is not between
        if between is not None and not is_source and not between.is_star:
            yield between, [column]


def _levels(column: exp.Column) -> Iterator[exp.Expr]:
    """Yields the subqueries between a column and the query whose source it belongs to."""
    node: exp.Expr | None = column
    passed = list[exp.Expr]()
    while column.table and node is not None:
        if isinstance(node, exp.Select) and column.table in _names(node):
            yield from passed
            return
        if _is_level(node):
            passed.append(node)
        node = node.parent


def _is_outer(column: exp.Column, select: exp.Select) -> bool:
    """Whether an enclosing query of this one has the column."""
    node = select.parent
    while node is not None:
        if isinstance(node, exp.Select) and column.table in _names(node):
            return True
        node = node.parent
    return False


def _values(tree: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in tree.walk() if _is_level(node))


def _is_level(node: exp.Expr) -> bool:
    """Whether the node is a subquery that Spark evaluates for a row: a value, or LATERAL."""
    if isinstance(node, exp.Subquery):
        return not isinstance(node.parent, _NO_LEVELS)
    return isinstance(node, exp.Exists | exp.Lateral)


_NO_LEVELS = (
    exp.From,
    exp.Join,
    exp.SetOperation,
    exp.Subquery,
    exp.Lateral,
    exp.CTE,
    exp.Exists,
    type(None),
)


def compute_keys_inside(select: exp.Select, new_name: Named) -> None:
    """Turns the rows of a query into one source, which has its keys with subqueries as columns.

    Neither engine groups by a subquery that reads the row.

    Args:
        select: The query, changed in place.
        new_name: Names the source.
    """
    group = select.args.get("group")
    subqueries = [key for key in keys(group.expressions) if key.find(exp.Query)] if group else []
    if subqueries:
        bring_inside(select, subqueries, new_name())


def bring_inside(
    select: exp.Select,
    expressions: Iterable[exp.Expr],
    alias: str,
    clauses: Iterable[str] = ("from_", "joins", "where"),
) -> Mapping[exp.Expr, str]:
    """Turns the rows of a query into one source, which has some expressions as columns.

    Args:
        select: The query, changed in place.
        expressions: The expressions.
        alias: The source's name.
        clauses: What of the query makes its rows.

    Returns:
        The names of these columns.
    """
    names = _names(select)
    inside = InnerQuery(alias)
    inside.take(select, clauses)
    copies = {node.copy() for node in expressions}

    def replace(node: exp.Expr) -> exp.Expr:
        is_own = isinstance(node, exp.Column) and node.table in names
        return inside.column(node) if is_own or node in copies else node

    select.transform(replace, copy=False)
    select.set("from_", exp.From(this=inside.source()))
    return inside.names


def join_laterally(select: exp.Select, new_name: Named) -> None:
    """Makes `a LEFT JOIN b ON c` `a LEFT JOIN LATERAL (SELECT … FROM b WHERE c) ON TRUE`.

    It does so where c has a subquery. A RIGHT JOIN of two sources is a LEFT JOIN of their reverse.

    Args:
        select: The query, changed in place.
        new_name: Names the sources.

    Raises:
        SeamlineError: NOT_SUPPORTED for FULL JOIN, and for RIGHT JOIN after other joins.
    """
    for index, join in enumerate(select.args.get("joins") or ()):
        side, condition = (join.side or "").upper(), join.args.get("on")
        if not side or condition is None or condition.find(exp.Query) is None:
            continue
        if side == "FULL" or (side == "RIGHT" and index > 0):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"a subquery in ON of this {side} JOIN that reads its rows is not supported",
                hint="Join the subquery, or filter one side in a subquery of its own.",
            )
        first = select.args["from_"]
        if side == "RIGHT":
            left, right = first.this, join.this
            first.set("this", right)
            join.set("this", left)
            join.set("side", "LEFT")
        _filter_inside(select, join, new_name())


def _filter_inside(select: exp.Select, join: exp.Join, alias: str) -> None:
    """Makes the source of a join LATERAL, and its condition a filter there."""
    filtered, name = join.this, join.this.alias_or_name
    inside = InnerQuery(alias)
    inside.select.where(join.args["on"].copy(), copy=False).set("from_", exp.From(this=filtered))
    join.set("on", exp.Boolean(this=True))
    join.set("this", exp.Placeholder())

    def replace(node: exp.Expr) -> exp.Expr:
        is_inside = isinstance(node, exp.Column) and node.table == name
        return inside.column(node) if is_inside else node

    select.transform(replace, copy=False)
    lateral = inside.source()
    join.set("this", exp.Lateral(this=exp.Subquery(this=lateral.this), alias=lateral.args["alias"]))


# --- Shapes --------------------------------------------------------------------------------------


def computed_of_groups(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields what a query computes from its groups."""
    yield from select.expressions
    for argument in ("having", "order"):
        if select.args.get(argument) is not None:
            yield select.args[argument]


def _names(select: exp.Select) -> set[str]:
    """Returns the names of a query's own sources."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    return {part.this.alias_or_name for part in parts if part is not None}


class InnerQuery:
    """A query that a source is made of, with a column for each expression that is read outside.

    Attributes:
        select: The query.
        names: The names of its columns, by their expressions.

    Args:
        alias: The source's name.
    """

    def __init__(self, alias: str) -> None:
        self.select = exp.Select(expressions=[])
        self.names: dict[exp.Expr, str] = {}
        self._alias = alias

    def take(self, select: exp.Select, clauses: Iterable[str]) -> None:
        """Moves clauses of another query here."""
        for clause in clauses:
            self.select.set(clause, select.args.get(clause))
            select.set(clause, None)

    def take_groups(self, select: exp.Select) -> None:
        """Moves everything up to the groups of another query here, whose HAVING becomes WHERE."""
        self.take(select, ("from_", "joins", "where", "group"))
        having = select.args.get("having")
        if having is not None:
            select.set("where", exp.Where(this=having.this))
            select.set("having", None)

    def column(self, node: exp.Expr) -> exp.Column:
        """Returns the column, as it is read outside, that has the values of an expression."""
        if node not in self.names:
            self.names[node.copy()] = name = f"c{len(self.names)}"
            self.select.append("expressions", exp.alias_(node.copy(), name))
        return exp.column(self.names[node], self._alias)

    def source(self) -> exp.Subquery:
        """Returns the source, which has a column even if none is read."""
        if not self.names:
            self.column(exp.Boolean(this=True))
        return source(self.select, self._alias)


def source(query: exp.Expr, alias: str) -> exp.Subquery:
    """Returns a query as a source of this name."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))

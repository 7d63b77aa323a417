"""Rewrites a bound tree into a form that DuckDB can evaluate.

Inside a lambda, before `IN (SELECT …)` and beside UNNEST, DuckDB cannot resolve columns of outer
queries, and many of our templates put an argument into a lambda. Such a subquery gets those columns
as a source of its own.

DuckDB evaluates a correlated subquery as a join with the rows around it. Where aggregates in the
subquery find no rows, the values beside them become null. So the outer join of LEFT JOIN LATERAL
moves inside it, and a value that is taken from a query in FROM depends on a column of that query.

DuckDB answers windows without partition and order row by row, even where that is not the frame, and
its threads get in each other's way where an aggregate is over all rows. So a moving frame gets an
order and an aggregate a partition in which all rows are equal.

DuckDB multiplies decimals of more than 18 digits many times more slowly than those that fit into a
bigint. So arithmetic whose result may need more is tried in bigints, and computed with all digits
for the rows that do need them.

DuckDB computes a random condition before the joins and UNNEST that it reads nothing of, so that one
number decides on many rows. Such a condition gets to depend on every source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from seamline.sql.decimals import DIGITS_OF_BIGINT, decimal_of
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import VOLATILE, Call, has_aggregate
from seamline.sql.expressions.correlated import group_inside
from seamline.sql.trees import nodes_of, nodes_of_kind
from seamline.sql.types import INTEGERS, Decimal, Type


def bring_columns_near(tree: exp.Expr, has_lambda: Callable[[Call], bool]) -> None:
    """Copies columns of outer queries into the query itself where DuckDB would not find them.

    Args:
        tree: A bound tree, changed in place.
        has_lambda: Whether the SQL of a call contains a lambda.
    """
    group_inside(tree, _unnests)
    further: dict[int, list[exp.Column]] = {}
    selects: dict[int, tuple[exp.Select, set[str]]] = {}
    for column in nodes_of_kind(tree, exp.Column):
        select = column.find_ancestor(exp.Select)
        if select is None or select.parent is None or not column.table:
            continue
        _, names = selects.setdefault(id(select), (select, _names_of(_sources_of(select))))
        if column.table in names:
            continue
        is_inside = any(map(has_lambda, _calls_around(column, select)))
        if is_inside or _is_looked_for(column, select) or _is_beside_unnest(column, select):
            further.setdefault(id(select), []).append(column)
    for number, (select_id, columns) in enumerate(further.items()):
        _bring_near(selects[select_id][0], columns, f"_near{number}")


def keep_rows_of_aggregates(tree: exp.Expr) -> None:
    """Makes subqueries keep the row that their aggregates return for no rows.

    Args:
        tree: A bound tree, changed in place.
    """
    for join in nodes_of_kind(tree, exp.Join):
        if (join.side or "").upper() == "LEFT" and isinstance(join.this, exp.Lateral):
            join.this.set("this", exp.Subquery(this=_kept(join.this.this.this)))
            for key, value in (("side", None), ("kind", "CROSS"), ("on", None)):
                join.set(key, value)
    for subquery in nodes_of_kind(tree, exp.Subquery):
        query = subquery.this
        if isinstance(query, exp.Select) and not isinstance(subquery.parent, _NO_VALUES):
            _use_a_column(query)


def fill_bare_windows(tree: exp.Expr) -> None:
    """Gives a window without partition and order one in which all rows are equal.

    A moving frame gets an order, an aggregate over all rows a partition.

    Args:
        tree: A bound tree, changed in place.
    """
    for window in nodes_of_kind(tree, exp.Window):
        if window.args.get("partition_by") or window.args.get("order") is not None:
            continue
        frame = window.args.get("spec")
        function = window.this.find(Call)
        if frame is not None and frame.args.get("start") != "UNBOUNDED":
            window.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Boolean(this=True))]))
        elif function is not None and function.spec.overload.kind == "aggregate":
            window.set("partition_by", [exp.Null()])


def draw_for_each_row(tree: exp.Expr) -> None:
    """Makes random conditions of WHERE and ON depend on a value of each source.

    Args:
        tree: A bound tree, changed in place.
    """
    for select in nodes_of_kind(tree, exp.Select):
        sources: list[exp.Expr] = []
        for part in (select.args.get("from_"), *(select.args.get("joins") or ())):
            if part is not None:
                sources.append(part.this)
                _depend_on(part.args.get("on"), sources, select)
        where = select.args.get("where")
        _depend_on(where and where.this, sources, select)


def try_bigints(tree: exp.Expr) -> None:
    """Tries sums and products of decimals in bigints where their types allow for more digits.

    DuckDB computes two decimals of at most 18 digits in bigints, and fails if these overflow.

    Args:
        tree: A bound tree, changed in place.
    """
    tried: set[int] = set()
    failed: set[int] = set()
    for call in nodes_of_kind(tree, Call):
        value = _summed(call)
        if id(call) in tried or not _may_need_more(value):
            continue
        narrow = _narrow(value, failed)
        if narrow is not None:
            tried.update(id(inner) for inner in nodes_of_kind(call, Call))
            call.replace((_tried if value is call else _tried_sum)(call, value, narrow))


def _summed(call: Call) -> exp.Expr:
    """Returns the argument of a sum over all rows of a group; of another call, the call itself."""
    name, around = call.spec.overload.name, call.parent
    if name != "sum" or call.args.get("distinct") or isinstance(around, exp.Filter | exp.Window):
        return call
    value: exp.Expr = call.expressions[0].unnest()
    return value


def _tried(call: Call, _: exp.Expr, narrow: exp.Expr) -> exp.Expr:
    # not COALESCE, of which DuckDB computes parts that another expression has as well
    attempt = exp.Anonymous(this="TRY", expressions=[narrow])
    return _case(exp.Not(this=_is_null(attempt)), attempt.copy(), call.copy())


def _tried_sum(call: Call, value: exp.Expr, narrow: exp.Expr) -> exp.Expr:
    """Returns the sum of what fits into bigints, and of what does not."""
    attempt = exp.Anonymous(this="TRY", expressions=[narrow])
    rest = _case(_is_null(attempt), value.copy())
    fitting, further = (Call(expressions=[each], spec=call.spec) for each in (attempt.copy(), rest))
    total = exp.Paren(this=exp.Add(this=fitting, expression=further))
    return exp.Coalesce(this=total, expressions=[fitting.copy(), further.copy()])


def _case(condition: exp.Expr, value: exp.Expr, other: exp.Expr | None = None) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=other)


def _is_null(node: exp.Expr) -> exp.Is:
    return exp.Is(this=node, expression=exp.Null())


def _may_need_more(node: exp.Expr) -> bool:
    """Whether a node is arithmetic whose result may have more digits than a bigint holds."""
    if not isinstance(node, Call) or node.spec.overload.name not in _ARITHMETIC:
        return False
    returns = node.spec.returns
    return isinstance(returns, Decimal) and returns.precision > DIGITS_OF_BIGINT


_ARITHMETIC = {"$add": exp.Add, "$subtract": exp.Sub, "$multiply": exp.Mul}


def _narrow(node: exp.Expr, failed: set[int]) -> exp.Expr | None:
    """Returns decimal arithmetic in bigints; None for other expressions.

    Its operands cost nothing to compute once more, and are the same each time.

    Args:
        node: The arithmetic.
        failed: Nodes that are other expressions; further ones are added.
    """
    if id(node) in failed:
        return None
    narrow = _narrow_call(node, failed) if isinstance(node, Call) else None
    if isinstance(node, exp.Paren):
        narrow = _narrow(node.this, failed)
    if narrow is None:
        failed.add(id(node))
    return narrow


def _narrow_call(call: Call, failed: set[int]) -> exp.Expr | None:
    spec = call.spec
    if not _may_need_more(call):
        return call.copy() if _fits(spec.returns) and _is_cheap(call) else None
    operands = []
    for operand, type_ in zip(call.expressions, spec.parameters, strict=True):
        narrow = _narrow(operand, failed)
        if narrow is None and _is_cheap(operand):
            narrow = operand.copy() if _fits(type_) else _in_bigint(operand, type_)
        if narrow is None:
            return None
        operands.append(narrow)
    scales = [decimal_of(type_).scale for type_ in spec.parameters]
    scale = sum(scales) if spec.overload.name == "$multiply" else max(scales)
    if scale != decimal_of(spec.returns).scale or scale >= DIGITS_OF_BIGINT:
        return None
    one, other = operands
    return exp.Paren(this=_ARITHMETIC[spec.overload.name](this=one, expression=other))


def _fits(type_: Type) -> bool:
    return isinstance(type_, Decimal) and type_.precision <= DIGITS_OF_BIGINT


def _in_bigint(operand: exp.Expr, type_: Type) -> exp.Expr | None:
    """Returns a whole number as a decimal of 18 digits, which most have."""
    if decimal_of(type_).scale:
        return None
    return exp.cast(operand.copy(), exp.DataType.build(f"DECIMAL({DIGITS_OF_BIGINT}, 0)"))


def _is_cheap(node: exp.Expr) -> bool:
    """Whether an expression consists of columns and numbers, with arithmetic that cannot fail."""
    return all(
        isinstance(part, exp.Column | exp.Identifier | exp.Literal | exp.Paren)
        or (isinstance(part, Call) and _is_cheap_call(part))
        for part in nodes_of(node)
    )


def _is_cheap_call(call: Call) -> bool:
    spec = call.spec
    if spec.overload.name != "cast":
        return spec.overload.name in {*_ARITHMETIC, "$negate"}
    types_ = (spec.parameters[0], spec.returns)
    are_exact = all(type_ in INTEGERS or isinstance(type_, Decimal) for type_ in types_)
    return are_exact and not casts.may_fail(*types_)


def _depend_on(condition: exp.Expr | None, sources: list[exp.Expr], select: exp.Select) -> None:
    if condition is None or len(sources) < 2:
        return
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    for part in list(parts):
        if _is_random(part):
            nulls = [exp.Is(this=_value_of(s, select), expression=exp.Null()) for s in sources]
            first = exp.If(this=exp.and_(*nulls), true=part.copy())
            part.replace(exp.Case(ifs=[first], default=part.copy()))


def _is_random(node: exp.Expr) -> bool:
    """Whether an expression draws a number itself, outside of its subqueries."""
    inner = node.walk(prune=lambda part: isinstance(part, exp.Query))
    return any(isinstance(call, Call) and call.spec.overload.name in VOLATILE for call in inner)


def _value_of(source: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns a column of a source, or its rows as a whole if the query reads no column of it."""
    alias = source.alias_or_name
    for column in select.find_all(exp.Column):
        if column.table == alias:
            return column.copy()
    return exp.column(exp.to_identifier(alias))


_NO_VALUES = (exp.From, exp.Join, exp.Lateral, exp.CTE, exp.In, exp.Exists, exp.SetOperation)
_SOURCES = (exp.Table, exp.Subquery, exp.Values, exp.Unnest, exp.Lateral)


def _kept(query: exp.Expr) -> exp.Select:
    """Wraps a query so that its rows are left-joined to a row that always exists."""
    one = exp.Subquery(this=exp.select(exp.Literal.number(1)), alias=_alias("_one"))
    inner = exp.Subquery(this=query, alias=_alias("_kept"))
    all_of = exp.Column(this=exp.Star(), table=exp.to_identifier("_kept"))
    outer = exp.select(all_of).from_(one)
    outer.set("joins", [exp.Join(this=inner, side="LEFT", on=exp.Boolean(this=True))])
    return outer


def _use_a_column(query: exp.Select) -> None:
    """Makes a value depend on a correlated query in FROM if it uses no column of FROM."""
    sources = _sources_of(query)
    names = _names_of(sources)
    value = query.expressions[0]
    if has_aggregate(value) or any(c.table in names for c in value.find_all(exp.Column)):
        return
    for source in sources:
        if isinstance(source, exp.Subquery) and _reads_around(source, names):
            used = exp.column(source.named_selects[0], source.alias)
            one, result = exp.Is(this=used, expression=exp.Null()), value.unalias()
            both = exp.Case(ifs=[exp.If(this=one, true=result.copy())], default=result.copy())
            result.replace(both)
            return


def _reads_around(source: exp.Expr, names: set[str]) -> bool:
    in_scope = names | _names_of(source.find_all(*_SOURCES))
    return any(c.table and c.table not in in_scope for c in source.find_all(exp.Column))


def _bring_near(select: exp.Select, columns: list[exp.Column], alias: str) -> None:
    projections: dict[str, exp.Expr] = {}
    for column in columns:
        name = f"{column.table}_{column.name}"
        projections.setdefault(name, exp.alias_(column.copy(), exp.to_identifier(name)))
        column.replace(exp.column(exp.to_identifier(name), alias))
    query = exp.select(*projections.values())
    _add_in_front(select, exp.Subquery(this=query, alias=_alias(alias)))


def _sources_of(select: exp.Select) -> list[exp.Expr]:
    """Returns the sources in the FROM clause of the query itself."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    return [part.this for part in parts if part is not None]


def _names_of(sources: Iterable[exp.Expr]) -> set[str]:
    return {source.alias_or_name for source in sources}


def _calls_around(column: exp.Expr, select: exp.Select) -> list[Call]:
    calls, node = [], column.parent
    while node is not None and node is not select:
        if isinstance(node, Call):
            calls.append(node)
        node = node.parent
    return calls


def _is_looked_for(column: exp.Expr, select: exp.Select) -> bool:
    """Whether a column is, or is part of, what precedes IN and a query."""
    node = column
    while node is not select and node.parent is not None:
        if (
            isinstance(node.parent, exp.In)
            and node.parent.args.get("query")
            and node.arg_key == "this"
        ):
            return True
        node = node.parent
    return False


def _is_beside_unnest(column: exp.Expr, select: exp.Select) -> bool:
    """Whether a column is in no source of the query, one of which unnests an array."""
    node = column
    while node.parent is not None and node.parent is not select:
        node = node.parent
    if isinstance(node, exp.From | exp.Join):
        return False
    return _unnests(select)


def _unnests(select: exp.Select) -> bool:
    """Whether a source of the query unnests an array."""
    calls = (call for source in _sources_of(select) for call in nodes_of_kind(source, Call))
    return any(call.spec.overload.name == "$unnest" for call in calls)


def _add_in_front(select: exp.Select, source: exp.Subquery) -> None:
    """Adds the source before all others, or after them where an outer join would lose it."""
    before, joins = select.args.get("from_"), select.args.get("joins") or []
    if before is None:
        select.set("from_", exp.From(this=source))
    elif any((join.side or "").upper() in {"RIGHT", "FULL"} for join in joins):
        select.set("joins", [*joins, exp.Join(this=source, kind="CROSS")])
    else:
        select.set("from_", exp.From(this=source))
        select.set("joins", [exp.Join(this=before.this, kind="CROSS"), *joins])


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))

"""WITH RECURSIVE: a query for the initial rows, and one for the rows that follow from each row.

Each level holds the rows that follow from those of the previous level. UNION ALL ends with an empty
level, UNION with a level without new rows. Rows of UNION ALL carry the number of their level, since
recursion over cyclic data would never end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion, types
from seamline.sql.binder.conversions import implicit_cast, require_comparable
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.scope import Cte, Output, Scope, output_column
from seamline.sql.binder.shapes import renamed, unwrapped
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.expressions.casts import in_zones
from seamline.sql.locations import location_of

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder

LEVELS_MAX = 1000
_FAILURE = f"EVALUATION_FAILED: WITH RECURSIVE goes deeper than {LEVELS_MAX} levels"
_MORE = ("order", "limit", "offset", "with_")
_NOT_OF_ROWS = ("distinct", "group", "having", "windows", *_MORE)


def reads_itself(cte: exp.CTE) -> bool:
    """Whether the query of a common table expression refers to the expression itself."""
    return bool(_references(cte.this, cte.alias))


def bind_recursive(
    binder: Binder, cte: exp.CTE, outer: Scope | None, ctes: Mapping[str, Cte]
) -> tuple[exp.Expr, Cte]:
    """Binds a common table expression that reads itself; returns its query and its columns.

    Raises:
        SeamlineError: NOT_SUPPORTED unless it is a UNION of two queries, the second of which reads
            the whole exactly once, row by row; TYPE_MISMATCH.
    """
    union, step, reference = _parts(cte)
    first, output = binder.query(union.this, outer, ctes)
    cte_ = Cte(binder.new_alias(), tuple(renamed(output, cte.args.get("alias"))))
    bound, step_output = binder.query(step, outer, {**ctes, cte.alias.lower(): cte_})
    assert isinstance(bound, exp.Select)
    for projection in bound.expressions:
        refuse_aggregates(projection, "the second part of WITH RECURSIVE")
        refuse_windows(projection, "the second part of WITH RECURSIVE")
    _convert(bound, step_output, cte_.output, cte)
    if union.args.get("distinct"):
        for column in cte_.output:
            require_comparable(column.type, "UNION")
        return exp.Union(this=first, expression=bound, distinct=True), cte_
    first = _numbered(binder, first, len(output), bound, reference.alias)
    return exp.Union(this=first, expression=bound, distinct=False), cte_


def _parts(cte: exp.CTE) -> tuple[exp.Union, exp.Select, exp.Table]:
    """Returns the union, its second query, and where the second query reads the whole."""
    union = unwrapped(cte.this)
    if type(union) is not exp.Union or any(union.args.get(key) for key in _MORE):
        raise _misshapen(cte, "is a query, UNION or UNION ALL, and a query that reads it")
    step = unwrapped(union.expression)
    if _references(union.this, cte.alias):
        raise _misshapen(cte, "cannot read itself before UNION")
    if not isinstance(step, exp.Select) or any(step.args.get(key) for key in _NOT_OF_ROWS):
        raise _misshapen(cte, "is computed row by row: SELECT … FROM … WHERE … after UNION")
    references = _references(step, cte.alias)
    from_, joins = step.args.get("from_"), step.args.get("joins") or ()
    sources = [source.this for source in (from_, *joins) if source is not None]
    if len(references) != 1 or not any(source is references[0] for source in sources):
        raise _misshapen(cte, "reads itself once, in FROM")
    sides = [(join.side or "").upper() for join in joins]
    index = next(i for i, source in enumerate(sources) if source is references[0])
    if {"RIGHT", "FULL"} & set(sides[index:]) or (index and sides[index - 1] in {"LEFT", "FULL"}):
        raise _misshapen(cte, "cannot be replaced by nulls in an outer join")
    return union, step, references[0]


def _references(node: exp.Expr, name: str) -> list[exp.Table]:
    """Returns the places where a query reads a common table expression of that name."""
    return [
        table
        for table in node.find_all(exp.Table)
        if table.meta.get("scan_id") is None and table.name.lower() == name.lower()
    ]


def _misshapen(cte: exp.CTE, what: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"WITH RECURSIVE: {cte.alias} {what}",
        location=location_of(cte.args["alias"]),
        hint="WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) …",
    )


def _convert(
    step: exp.Select, output: list[Output], targets: tuple[Output, ...], cte: exp.CTE
) -> None:
    """Converts the columns of the second query to the types of the first."""
    if len(output) != len(targets):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"the sides of UNION have {len(targets)} and {len(output)} columns",
            location=location_of(cte.args["alias"]),
            hint="Select as many columns on both sides.",
        )
    for projection, one, target in zip(step.expressions, output, targets, strict=True):
        if not coercion.can_coerce(one.type, target.type):
            raise SeamlineError(
                TYPE_MISMATCH,
                f"column {target.name} of {cte.alias} is {target.type}, but then {one.type}",
                location=location_of(cte.args["alias"]),
                hint=f"CAST it to {one.type} in the first query.",
            )
        if repr(in_zones(one.type, target.type)) != repr(target.type):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"column {target.name} of {cte.alias} has a time zone, but then another",
                location=location_of(cte.args["alias"]),
                hint="Name one zone in both queries: x AT TIME ZONE 'UTC'.",
            )
        projection.set("this", implicit_cast(projection.this, one.type, target.type))


def _numbered(
    binder: Binder, first: exp.Expr, width: int, step: exp.Select, reference: str
) -> exp.Select:
    """Numbers the levels, and makes one that is too deep fail."""
    level, alias = output_column(width), binder.new_alias()
    names = [output_column(index) for index in range(width)]
    around = exp.select(*(exp.alias_(exp.column(name, alias), name) for name in names))
    around.append("expressions", exp.alias_(exp.Literal.number(1), level))
    source = first if isinstance(first, exp.Subquery) else exp.Subquery(this=first)
    source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    template = f"(CASE WHEN {{0}} < {LEVELS_MAX} THEN {{0}} + 1 ELSE {{failure}}('{_FAILURE}') END)"
    overload = constructor(
        "$level",
        template.replace("{failure}", "error"),
        template.replace("{failure}", "raise_error"),
    )
    spec = CallSpec(overload, (types.INTEGER,), types.INTEGER)
    deeper = call(spec, [exp.column(level, reference)])
    step.append("expressions", exp.alias_(deeper, level))
    return around.from_(source, copy=False)

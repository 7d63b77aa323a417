"""DELETE, UPDATE and MERGE: parsed into a query of the rows that change, and their changes.

A changed row is identified by its file and its position there. So a change is a query like any
other: of the rows of the table that a condition holds for, or of a join of the source of a MERGE
with the table. Each case of a MERGE takes the rows that no case before it has taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from seamline.errors import (
    NOT_SUPPORTED,
    SYNTAX_ERROR,
    SeamlineError,
)
from seamline.sql import locations
from seamline.sql.columns import FILE_PATH, FILE_POSITION
from seamline.sql.parsing.definitions import table_name
from seamline.sql.parsing.queries import checked, parse_tree
from seamline.sql.parsing.statements import ChangeRows, RowCase, Truncate

STARTS = frozenset({"DELETE", "UPDATE", "MERGE", "TRUNCATE"})
"""The keywords that such a statement begins with."""


class _Case(NamedTuple):
    """A case: which of the rows it takes, what it does with them, and the values they get."""

    condition: exp.Expr | None
    does: RowCase
    values: list[exp.Expr]


def row_changes(sql: str, tokens: Sequence[Token]) -> ChangeRows | Truncate:
    """Parses a statement that changes rows.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_NOT_ALLOWED, NOT_SUPPORTED.
    """
    tree = parse_tree(sql, tokens)
    match tree:
        case exp.Delete():
            _only(tree, {"this", "where"})
            return _of_table(tree, _Case(None, RowCase("DELETE"), []))
        case exp.Update():
            _only(tree, {"this", "expressions", "where"})
            return _of_table(tree, _assigning(tree, None))
        case exp.Merge():
            _only(tree, {"this", "using", "on", "whens"})
            return _merge(tree)
        case exp.TruncateTable():
            _only(tree, {"expressions"})
            if len(tree.expressions) == 1:
                table = tree.expressions[0]
                return Truncate(table_name(table), location=locations.location_of(table))
    raise SeamlineError(
        SYNTAX_ERROR,
        f"{tokens[0].text.upper()} cannot be parsed",
        location=locations.location_of(tree),
        hint="DELETE FROM t WHERE …; UPDATE t SET c = … WHERE …; MERGE INTO t USING s ON … "
        "WHEN MATCHED THEN …; TRUNCATE TABLE t",
    )


def _only(tree: exp.Expr, clauses: set[str]) -> None:
    """Refuses clauses of other dialects, and parts of a table's name that change what it is."""
    target = tree.this
    unsupported = [name for name, value in tree.args.items() if value and name not in clauses]
    if isinstance(target, exp.Table):
        unsupported += [
            name for name, value in target.args.items() if value and name not in _OF_TABLE
        ]
    if unsupported:
        word = unsupported[0].rstrip("_").replace("_", " ").upper()
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{tree.key.upper().removesuffix('TABLE')} with {word} is not supported",
            location=locations.location_of(tree),
            hint="A condition selects the rows; MERGE takes them from another table or a query.",
        )


_OF_TABLE = frozenset({"this", "db", "catalog", "alias"})


def _of_table(tree: exp.Delete | exp.Update, case: _Case) -> ChangeRows:
    query = exp.select(*_chosen(tree.this, [case], None)).from_(tree.this.copy())
    where = tree.args.get("where")
    if where is not None:
        query.set("where", where.copy())
    return _change(tree, query, [case])


def _merge(tree: exp.Merge) -> ChangeRows:
    """Joins the source with the table, and takes the rows that some case applies to."""
    target, source = tree.this, tree.args["using"]
    cases = [_case(when) for when in tree.args["whens"].expressions]
    adds = any(case.does.action == "INSERT" for case in cases)
    number = exp.column(_CASE, _CASE, quoted=True) if len(cases) > 1 else None
    query = exp.select(*_chosen(target, cases, number)).from_(source.copy())
    query = query.join(target.copy(), on=tree.args["on"].copy(), join_type="LEFT" if adds else "")
    if number is None:
        return _change(tree, query.where(_takes(target, cases[0])), cases)
    name = exp.TableAlias(this=exp.to_identifier(_CASE, quoted=True))
    case_number = exp.alias_(_number_of(target, cases), _CASE, quoted=True)
    lateral = exp.Lateral(this=exp.Subquery(this=exp.select(case_number)), alias=name)
    query.append("joins", exp.Join(this=lateral, kind="CROSS"))
    is_taken = exp.Not(this=exp.Is(this=number.copy(), expression=exp.Null()))
    return _change(tree, query.where(is_taken), cases)


_CASE = "$case"


def _change(tree: exp.Expr, query: exp.Select, cases: Sequence[_Case]) -> ChangeRows:
    target = tree.this
    name = table_name(exp.Table(**{k: target.args.get(k) for k in ("this", "db", "catalog")}))
    location = locations.location_of(target)
    does = tuple(case.does for case in cases)
    return ChangeRows(tree.key.upper(), name, checked(query), does, location=location)


# --- Cases ---------------------------------------------------------------------------------------


def _case(when: exp.When) -> _Case:
    condition, then = when.args.get("condition"), when.args["then"]
    if when.args.get("source"):
        raise _no_case(when, "WHEN NOT MATCHED BY SOURCE")
    match then:
        case exp.Update() if when.args["matched"]:
            return _assigning(then, condition)
        case exp.Insert() if not when.args["matched"]:
            return _inserting(when, then, condition)
        case exp.Var() if then.name.upper() == "DELETE" and when.args["matched"]:
            return _Case(condition, RowCase("DELETE"), [])
    matched = "MATCHED" if when.args["matched"] else "NOT MATCHED"
    raise _no_case(when, f"WHEN {matched} THEN {then.name or then.key.upper()}")


def _assigning(tree: exp.Update, condition: exp.Expr | None) -> _Case:
    if not tree.expressions:
        raise _no_assignment(tree)
    columns, values = [], []
    for assignment in tree.expressions:
        column = assignment.this if isinstance(assignment, exp.EQ) else None
        if not isinstance(column, exp.Column) or column.args.get("table"):
            raise _no_assignment(assignment)
        columns.append(column.name)
        values.append(assignment.expression)
    return _Case(condition, RowCase("UPDATE", tuple(columns), len(values)), values)


def _no_assignment(node: exp.Expr) -> SeamlineError:
    return SeamlineError(
        SYNTAX_ERROR,
        "SET takes assignments: the name of a column, = and a value",
        location=locations.location_of(node),
    )


def _inserting(when: exp.When, tree: exp.Insert, condition: exp.Expr | None) -> _Case:
    listed, source = tree.this, tree.expression
    if isinstance(listed, exp.Star) or not isinstance(source, exp.Tuple | exp.Paren):
        raise _no_case(when, "INSERT without VALUES")
    names = list(_items(listed)) if listed is not None else []
    if not all(isinstance(n, exp.Column) and not n.args.get("table") for n in names):
        raise _no_case(when, "INSERT into anything but columns")
    values = list(_items(source))
    columns = tuple(column.name for column in names)
    if columns and len(columns) != len(values):
        raise SeamlineError(
            SYNTAX_ERROR,
            f"INSERT names {len(columns)} columns, but VALUES has {len(values)}",
            location=locations.location_of(source),
        )
    return _Case(condition, RowCase("INSERT", columns, len(values)), values)


def _items(listed: exp.Expr) -> Iterator[exp.Expr]:
    yield from listed.expressions if isinstance(listed, exp.Tuple) else [listed.this]


def _no_case(when: exp.Expr, what: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"{what} is not supported in MERGE",
        location=locations.location_of(when) or locations.location_of(when.root()),
        hint="WHEN MATCHED [AND …] THEN UPDATE SET … or DELETE; WHEN NOT MATCHED [AND …] THEN "
        "INSERT (…) VALUES (…)",
    )


# --- The query -----------------------------------------------------------------------------------


def _chosen(
    target: exp.Expr, cases: Sequence[_Case], number: exp.Expr | None
) -> Iterator[exp.Expr]:
    """Yields what identifies a changed row, its case, and all values it may get.

    Args:
        target: The table.
        cases: The cases.
        number: The number of a row's case; None if there is only one.
    """
    yield _own(target, FILE_PATH)
    yield _own(target, FILE_POSITION)
    yield exp.Literal.number(1) if number is None else number
    for position, case in enumerate(cases, 1):
        for value in case.values:
            item = value.copy()
            if number is not None:  # rows of other cases may lack such a value
                is_case = exp.EQ(this=number.copy(), expression=exp.Literal.number(position))
                item = exp.Case(ifs=[exp.If(this=is_case, true=item)])
            yield item
    if any(case.does.action == "UPDATE" for case in cases):
        yield exp.Column(this=exp.Star(), table=_alias(target))


def _number_of(target: exp.Expr, cases: Sequence[_Case]) -> exp.Case:
    """Returns the number of the first case that takes a row, or null."""
    ifs = [
        exp.If(this=_takes(target, case), true=exp.Literal.number(number))
        for number, case in enumerate(cases, 1)
    ]
    return exp.Case(ifs=ifs)


def _takes(target: exp.Expr, case: _Case) -> exp.Expr:
    is_there: exp.Expr = exp.Is(this=_own(target, FILE_POSITION), expression=exp.Null())
    if case.does.action != "INSERT":
        is_there = exp.Not(this=is_there)
    if case.condition is None:
        return is_there
    return exp.And(this=is_there, expression=exp.Paren(this=case.condition.copy()))


def _own(target: exp.Expr, column: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(column, quoted=True), table=_alias(target))


def _alias(target: exp.Expr) -> exp.Identifier:
    alias = target.args.get("alias")
    name: exp.Identifier = (alias.this if alias is not None else target.this).copy()
    return name

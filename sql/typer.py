"""Types of a qualified query, and its canonical form.

Goes through the tree once, from the inside out. Each expression comes back with its type, in a
form that both engines read alike: conversions explicit, functions and ambiguous operators as
`Call`s, moments like CURRENT_TIMESTAMP as literals. A node that is not named here is refused, so
that nothing reaches an engine whose meaning has not been settled.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sqlglot import exp

from seamline.sql import casts, coercion, functions, types
from seamline.sql.calls import Call, CallSpec, call
from seamline.sql.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    GROUPING_ERROR,
    INVALID_ARGUMENT,
    INVALID_LITERAL,
    INVALID_PARAMETERS,
    NOT_SUPPORTED,
    TYPE_MISMATCH,
    Location,
    SeamlineError,
)
from seamline.sql.functions import Overload
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type

Typed = tuple[exp.Expr, Type]


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A column of a result: name and type."""

    name: str
    type: Type


class _Scope:
    """The sources visible at one level of a query, and the level around it."""

    def __init__(self, outer: _Scope | None, ctes: Mapping[str, Sequence[Output]]) -> None:
        self.outer = outer
        self.ctes = dict(ctes)
        self.sources: dict[str, dict[str, Type]] = {}
        self.scan_ids: dict[str, str] = {}
        self.aliases: dict[str, Type] = {}

    def find(self, source: str) -> _Scope | None:
        """The nearest level that has the source."""
        scope: _Scope | None = self
        while scope is not None and source not in scope.sources:
            scope = scope.outer
        return scope


class Typer:
    """Types one query.

    Attributes:
        used: (scan id, column) pairs that the query reads.
    """

    def __init__(self, relations: Mapping[str, Mapping[str, Type]], now: datetime.datetime) -> None:
        self._relations = relations
        self._now = now.astimezone(datetime.UTC)
        self.used: set[tuple[str, str]] = set()

    # --- Queries -------------------------------------------------------------------------------

    def query(self, tree: exp.Expr) -> tuple[exp.Expr, list[Output]]:
        """The query in canonical form, and its columns."""
        return self._query(tree, None, {})

    def _query(
        self,
        node: exp.Expr,
        outer: _Scope | None,
        ctes: Mapping[str, Sequence[Output]],
    ) -> tuple[exp.Expr, list[Output]]:
        ctes = self._with(node, outer, ctes)
        match node:
            case exp.Select():
                return self._select(node, outer, ctes)
            case exp.SetOperation():
                return self._set_operation(node, outer, ctes)
            case exp.Subquery():
                inner, output = self._query(node.this, outer, ctes)
                node.set("this", inner)
                self._order_by_outputs(node, output)
                return node, output
        raise _unsupported(node)

    def _with(
        self,
        node: exp.Expr,
        outer: _Scope | None,
        ctes: Mapping[str, Sequence[Output]],
    ) -> Mapping[str, Sequence[Output]]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise SeamlineError(NOT_SUPPORTED, "WITH RECURSIVE is not supported")
        known = dict(ctes)
        for cte in with_.expressions:
            inner, output = self._query(cte.this, outer, known)
            cte.set("this", inner)
            known[cte.alias] = _renamed(output, cte.args.get("alias"))
        return known

    def _select(
        self, node: exp.Select, outer: _Scope | None, ctes: Mapping[str, Sequence[Output]]
    ) -> tuple[exp.Expr, list[Output]]:
        _check_clauses(node)
        scope = _Scope(outer, ctes)
        if from_ := node.args.get("from_"):
            from_.set("this", self._source(from_.this, scope))
        for join in node.args.get("joins") or ():
            self._join(join, scope)
        self._condition(node, "where", scope)
        output = self._projections(node, scope)
        self._group(node, scope)
        self._condition(node, "having", scope)
        for definition in node.args.get("windows") or ():
            self._window_definition(definition, scope)
        self._order(node, scope)
        self._limits(node)
        if node.args.get("distinct"):
            for column in output:
                _require_comparable(column.type, "DISTINCT")
        _check_grouping(node, scope)
        return node, output

    def _projections(self, node: exp.Select, scope: _Scope) -> list[Output]:
        output = []
        rewritten = []
        for projection in node.expressions:
            name = projection.alias_or_name
            inner, type_ = self._expression(projection.unalias(), scope)
            if isinstance(type_, types.Interval):
                raise SeamlineError(
                    NOT_SUPPORTED, "an interval cannot be a result", hint="Use date_diff."
                )
            rewritten.append(exp.alias_(inner, exp.to_identifier(name)))
            output.append(Output(name, type_))
        node.set("expressions", rewritten)
        scope.aliases = {column.name: column.type for column in output}
        return output

    def _set_operation(
        self, node: exp.SetOperation, outer: _Scope | None, ctes: Mapping[str, Sequence[Output]]
    ) -> tuple[exp.Expr, list[Output]]:
        left, left_output = self._query(node.this, outer, ctes)
        right, right_output = self._query(node.expression, outer, ctes)
        if len(left_output) != len(right_output):
            raise SeamlineError(
                TYPE_MISMATCH,
                f"the sides of {node.key.upper()} have {len(left_output)} and "
                f"{len(right_output)} columns",
                hint="Select as many columns on both sides.",
            )
        output = []
        for one, other in zip(left_output, right_output, strict=True):
            common = coercion.common_type(one.type, other.type)
            if common is None:
                raise SeamlineError(
                    TYPE_MISMATCH,
                    f"column {one.name} of {node.key.upper()} is {one.type} on one side, "
                    f"{other.type} on the other",
                )
            if isinstance(node, exp.Except | exp.Intersect) or node.args.get("distinct"):
                _require_comparable(common, node.key.upper())
            output.append(Output(one.name, common))
        node.set("this", _cast_outputs(left, left_output, output))
        node.set("expression", _cast_outputs(right, right_output, output))
        self._order_by_outputs(node, output)
        return node, output

    def _order_by_outputs(self, node: exp.Expr, output: Sequence[Output]) -> None:
        """ORDER BY and LIMIT of a combination speak only of its columns."""
        scope = _Scope(None, {})
        scope.aliases = {column.name: column.type for column in output}
        self._order(node, scope)
        self._limits(node)

    # --- Clauses -------------------------------------------------------------------------------

    def _source(self, node: exp.Expr, scope: _Scope) -> exp.Expr:
        name = node.alias_or_name
        match node:
            case exp.Table():
                columns, scan_id = self._table(node, scope)
            case exp.Subquery():
                inner, output = self._query(node.this, None, scope.ctes)
                node.set("this", inner)
                columns = {c.name: c.type for c in _renamed(output, node.args.get("alias"))}
                scan_id = None
            case exp.Values():
                columns, scan_id = self._values(node, scope), None
            case exp.Unnest():
                columns, scan_id = self._unnest(node, scope), None
            case _:
                raise _unsupported(node)
        if name in scope.sources:
            raise SeamlineError(
                COLUMN_AMBIGUOUS, f"{name} stands twice in FROM", hint="Give one an alias."
            )
        scope.sources[name] = columns
        if scan_id is not None:
            scope.scan_ids[name] = scan_id
        for join in node.args.get("joins") or ():
            self._join(join, scope)
        return node

    def _table(self, node: exp.Table, scope: _Scope) -> tuple[dict[str, Type], str | None]:
        if node.name in scope.ctes and node.name not in self._relations:
            output = _renamed(scope.ctes[node.name], node.args.get("alias"))
            return {column.name: column.type for column in output}, None
        if node.args.get("alias") is not None and node.args["alias"].args.get("columns"):
            raise SeamlineError(
                NOT_SUPPORTED,
                "columns of a table cannot be renamed in FROM",
                hint="Select from it in a subquery with AS.",
            )
        return dict(self._relations[node.name]), node.name

    def _values(self, node: exp.Values, scope: _Scope) -> dict[str, Type]:
        rows = []
        for row in node.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            rows.append([self._expression(cell, scope) for cell in cells])
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise SeamlineError(TYPE_MISMATCH, "the rows of VALUES differ in length", hint="")
        wanted = [
            self._common([row[i][1] for row in rows], f"column {i + 1} of VALUES")
            for i in range(width)
        ]
        node.set(
            "expressions",
            [
                exp.Tuple(
                    expressions=[_cast(*cell, want) for cell, want in zip(row, wanted, strict=True)]
                )
                for row in rows
            ],
        )
        alias = node.args.get("alias")
        names = [c.name for c in alias.args.get("columns") or ()] if alias else []
        names += [f"_col_{i}" for i in range(len(names), width)]
        if alias is not None:
            alias.set("columns", [exp.to_identifier(name) for name in names[:width]])
        return dict(zip(names, wanted, strict=False))

    def _unnest(self, node: exp.Unnest, scope: _Scope) -> dict[str, Type]:
        if len(node.expressions) != 1 or node.args.get("offset"):
            raise SeamlineError(
                NOT_SUPPORTED, "UNNEST takes one array, without ORDINALITY", hint=""
            )
        inner, type_ = self._expression(node.expressions[0], scope)
        if not isinstance(type_, Array):
            raise SeamlineError(TYPE_MISMATCH, f"UNNEST of {type_} is not supported", hint="")
        if isinstance(type_.element, Row):
            raise SeamlineError(
                NOT_SUPPORTED,
                "UNNEST of an array of rows is not supported",
                hint="element_at(array, n).field reads one of them.",
            )
        node.set("expressions", [inner])
        alias = node.args.get("alias")
        columns = alias.args.get("columns") if alias is not None else None
        if not columns:
            raise SeamlineError(
                NOT_SUPPORTED, "UNNEST needs a name", hint="CROSS JOIN UNNEST(a) AS t(x)."
            )
        return {columns[0].name: type_.element}

    def _join(self, join: exp.Join, scope: _Scope) -> None:
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        if join.method or kind not in {"", "INNER", "CROSS", "OUTER"}:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{' '.join(filter(None, (join.method, kind)))} JOIN is not supported",
                hint="INNER, LEFT, RIGHT, FULL and CROSS JOIN are.",
            )
        if isinstance(join.this, exp.Unnest) and side:
            raise SeamlineError(
                NOT_SUPPORTED, f"{side} JOIN UNNEST is not supported", hint="Use CROSS JOIN."
            )
        join.set("this", self._source(join.this, scope))
        on = join.args.get("on")
        if on is not None:
            join.set("on", self._boolean(on, scope, "ON"))
        elif side:
            raise SeamlineError(NOT_SUPPORTED, f"{side} JOIN needs ON or USING", hint="")

    def _condition(self, node: exp.Expr, clause: str, scope: _Scope) -> None:
        found = node.args.get(clause)
        if found is not None:
            found.set("this", self._boolean(found.this, scope, clause.upper()))

    def _group(self, node: exp.Select, scope: _Scope) -> None:
        group = node.args.get("group")
        if group is None:
            return
        for key in ("totals", "all"):
            if group.args.get(key):
                raise SeamlineError(NOT_SUPPORTED, f"GROUP BY {key.upper()} is not supported")
        group.set("expressions", [self._group_item(e, scope) for e in group.expressions])
        for key in ("grouping_sets", "cube", "rollup"):
            for item in group.args.get(key) or ():
                if isinstance(item, exp.Expr):
                    self._group_item(item, scope)

    def _group_item(self, node: exp.Expr, scope: _Scope) -> exp.Expr:
        if isinstance(node, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
            node.set("expressions", [self._group_item(e, scope) for e in node.expressions])
            return node
        if isinstance(node, exp.Paren):
            node.set("this", self._group_item(node.this, scope))
            return node
        inner, type_ = self._expression(node, scope)
        _require_comparable(type_, "GROUP BY")
        return inner

    def _order(self, node: exp.Expr, scope: _Scope) -> None:
        order = node.args.get("order")
        if order is None:
            return
        for ordered in order.expressions:
            inner, type_ = self._expression(ordered.this, scope)
            if not functions.is_ordered(type_):
                raise SeamlineError(TYPE_MISMATCH, f"{type_} cannot be ordered", hint="")
            ordered.set("this", inner)
            if ordered.args.get("with_fill"):
                raise SeamlineError(NOT_SUPPORTED, "WITH FILL is not supported")
            ordered.set("nulls_first", bool(ordered.args.get("nulls_first")))

    def _limits(self, node: exp.Expr) -> None:
        limit = node.args.get("limit")
        if isinstance(limit, exp.Fetch):
            options = limit.args.get("limit_options")
            if options is not None and (
                options.args.get("percent") or options.args.get("with_ties")
            ):
                raise SeamlineError(NOT_SUPPORTED, "FETCH … WITH TIES or PERCENT is not supported")
            count = limit.args.get("count") or exp.Literal.number(1)
            node.set("limit", exp.Limit(expression=_row_count(count)))
        elif isinstance(limit, exp.Limit):
            if limit.expression.name.upper() == "ALL":
                node.set("limit", None)
            else:
                limit.set("expression", _row_count(limit.expression))
        offset = node.args.get("offset")
        if offset is not None:
            offset.set("expression", _row_count(offset.expression))

    # --- Expressions ---------------------------------------------------------------------------

    def _boolean(self, node: exp.Expr, scope: _Scope, where: str) -> exp.Expr:
        inner, type_ = self._expression(node, scope)
        if not coercion.can_coerce(type_, types.BOOLEAN):
            raise SeamlineError(TYPE_MISMATCH, f"{where} needs a boolean, not {type_}", hint="")
        return _cast(inner, type_, types.BOOLEAN)

    def _common(self, found: Sequence[Type], what: str) -> Type:
        common = coercion.common_type_of(found)
        if common is None:
            listed = ", ".join(dict.fromkeys(str(type_) for type_ in found))
            raise SeamlineError(TYPE_MISMATCH, f"{what} mixes {listed}")
        return common

    def _expression(self, node: exp.Expr, scope: _Scope) -> Typed:
        for class_ in type(node).__mro__:
            handler = _HANDLERS.get(class_)
            if handler is not None:
                return handler(self, node, scope)
        raise _unsupported(node)

    def _column(self, node: exp.Column, scope: _Scope) -> Typed:
        name, source = node.name, node.table
        if not source:
            if name in scope.aliases:
                return node, scope.aliases[name]
            raise _unknown_column(node, scope)
        level = scope.find(source)
        columns = level.sources.get(source, {}) if level is not None else {}
        if level is None or name not in columns:
            raise _unknown_column(node, scope)
        if source in level.scan_ids:
            self.used.add((level.scan_ids[source], name))
        type_ = columns[name]
        if isinstance(type_, types.Unsupported):
            raise SeamlineError(
                NOT_SUPPORTED, f"column {name} has the type {type_}", location=_place(node)
            )
        return node, type_

    def _dot(self, node: exp.Dot, scope: _Scope) -> Typed:
        inner, type_ = self._expression(node.this, scope)
        name = node.expression.name
        field = type_.field(name) if isinstance(type_, Row) else None
        if field is None or not isinstance(type_, Row):
            raise SeamlineError(
                COLUMN_NOT_FOUND,
                f"{type_} has no field {name}",
                location=_place(node.expression),
                hint="",
            )
        return _field(inner, type_, field), field.type

    def _literal(self, node: exp.Literal, _: _Scope) -> Typed:
        if node.is_string:
            return node, types.VARCHAR
        text = node.name.lower()
        if "e" in text:
            return _typed_text(text, types.DOUBLE, float(text)), types.DOUBLE
        if "." in text:
            return _decimal_literal(text)
        value = int(text)
        for type_, limit in ((types.INTEGER, 2**31), (types.BIGINT, 2**63)):
            if value < limit:
                return exp.Literal.number(value), type_
        return _decimal_literal(text)

    def _boolean_literal(self, node: exp.Boolean, _: _Scope) -> Typed:
        return node, types.BOOLEAN

    def _null(self, node: exp.Null, _: _Scope) -> Typed:
        return node, types.UNKNOWN

    def _bytes(self, node: exp.HexString, _: _Scope) -> Typed:
        digits = str(node.this).replace(" ", "")
        try:
            raw = bytes.fromhex(digits)
        except ValueError as error:
            raise SeamlineError(INVALID_LITERAL, f"X'{digits}' is not hexadecimal") from error
        return _constant(f"unhex('{raw.hex().upper()}')", types.VARBINARY, raw), types.VARBINARY

    def _paren(self, node: exp.Paren, scope: _Scope) -> Typed:
        inner, type_ = self._expression(node.this, scope)
        return exp.Paren(this=inner), type_

    def _logic(self, node: exp.Connector, scope: _Scope) -> Typed:
        kind = type(node)
        operands = [
            self._boolean(operand, scope, kind.__name__.upper())
            for operand in node.flatten(unnest=False)
        ]
        combine = exp.and_ if kind is exp.And else exp.or_
        return combine(*operands, copy=False), types.BOOLEAN

    def _not(self, node: exp.Not, scope: _Scope) -> Typed:
        inner = self._boolean(node.this, scope, "NOT")
        return exp.Not(this=_bracketed(inner)), types.BOOLEAN

    def _comparison(self, node: exp.Binary, scope: _Scope) -> Typed:
        left, left_type = self._expression(node.this, scope)
        right, right_type = self._expression(node.expression, scope)
        common = coercion.common_type(left_type, right_type)
        if common is None:
            raise SeamlineError(
                TYPE_MISMATCH,
                f"{left_type} cannot be compared with {right_type}",
                hint=_comparison_hint(left_type, right_type),
            )
        if isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
            _require_comparable(common, "a comparison")
        elif not functions.is_ordered(common):
            raise SeamlineError(TYPE_MISMATCH, f"values of {common} have no order", hint="")
        kind = type(node)
        return (
            kind(
                this=_operand(_cast(left, left_type, common)),
                expression=_operand(_cast(right, right_type, common)),
            ),
            types.BOOLEAN,
        )

    def _is(self, node: exp.Is, scope: _Scope) -> Typed:
        inner, type_ = self._expression(node.this, scope)
        if isinstance(node.expression, exp.Null):
            return exp.Is(this=_operand(inner), expression=exp.Null()), types.BOOLEAN
        if isinstance(node.expression, exp.Boolean) and type_ == types.BOOLEAN:
            return exp.Is(this=_operand(inner), expression=node.expression), types.BOOLEAN
        raise _unsupported(node)

    def _between(self, node: exp.Between, scope: _Scope) -> Typed:
        if node.args.get("symmetric"):
            raise SeamlineError(NOT_SUPPORTED, "BETWEEN SYMMETRIC is not supported")
        parts = [self._expression(node.args[k], scope) for k in ("this", "low", "high")]
        common = self._common([type_ for _, type_ in parts], "BETWEEN")
        if not functions.is_ordered(common):
            raise SeamlineError(TYPE_MISMATCH, f"values of {common} have no order", hint="")
        value, low, high = (_operand(_cast(*part, common)) for part in parts)
        return exp.Between(this=value, low=low, high=high), types.BOOLEAN

    def _in(self, node: exp.In, scope: _Scope) -> Typed:
        if isinstance(node.this, exp.Tuple):
            raise SeamlineError(
                NOT_SUPPORTED, "IN over several columns is not supported", hint="Use EXISTS."
            )
        value, value_type = self._expression(node.this, scope)
        subquery = node.args.get("query")
        if subquery is not None:
            inner, output = self._query(subquery, scope, scope.ctes)
            if len(output) != 1:
                raise SeamlineError(TYPE_MISMATCH, "IN needs a query of one column", hint="")
            common = self._common([value_type, output[0].type], "IN")
            _require_comparable(common, "IN")
            inner = _cast_outputs(inner, output, [Output(output[0].name, common)])
            query = inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
            return (
                exp.In(this=_operand(_cast(value, value_type, common)), query=query),
                types.BOOLEAN,
            )
        items = [self._expression(item, scope) for item in node.expressions]
        if not items:
            raise _unsupported(node)
        common = self._common([value_type, *(type_ for _, type_ in items)], "IN")
        _require_comparable(common, "IN")
        return (
            exp.In(
                this=_operand(_cast(value, value_type, common)),
                expressions=[_cast(*item, common) for item in items],
            ),
            types.BOOLEAN,
        )

    def _like(self, node: exp.Like, scope: _Scope) -> Typed:
        sides = []
        for key in ("this", "expression"):
            inner, type_ = self._expression(node.args[key], scope)
            if not coercion.can_coerce(type_, types.VARCHAR):
                raise SeamlineError(TYPE_MISMATCH, f"LIKE needs varchar, not {type_}", hint="")
            sides.append(_operand(_cast(inner, type_, types.VARCHAR)))
        return exp.Like(this=sides[0], expression=sides[1]), types.BOOLEAN

    def _escape(self, node: exp.Escape, scope: _Scope) -> Typed:
        if not isinstance(node.this, exp.Like) or not _is_text(node.expression, length=1):
            raise SeamlineError(NOT_SUPPORTED, "ESCAPE needs one character, written out", hint="")
        inner, _ = self._expression(node.this, scope)
        return exp.Escape(this=inner, expression=node.expression), types.BOOLEAN

    def _exists(self, node: exp.Exists, scope: _Scope) -> Typed:
        inner, _ = self._query(_unwrapped(node.this), scope, scope.ctes)
        return exp.Exists(this=inner), types.BOOLEAN

    def _subquery(self, node: exp.Subquery, scope: _Scope) -> Typed:
        inner, output = self._query(node.this, scope, scope.ctes)
        if len(output) != 1:
            raise SeamlineError(
                TYPE_MISMATCH, f"a scalar subquery has one column, not {len(output)}", hint=""
            )
        return exp.Subquery(this=inner), output[0].type

    def _case(self, node: exp.Case, scope: _Scope) -> Typed:
        operand = node.args.get("this")
        branches = node.args["ifs"]
        if operand is None:
            tests = [self._boolean(b.this, scope, "WHEN") for b in branches]
        else:
            value = self._expression(operand, scope)
            found = [self._expression(b.this, scope) for b in branches]
            common = self._common([value[1], *(type_ for _, type_ in found)], "CASE")
            _require_comparable(common, "CASE")
            tests = [
                exp.EQ(this=_operand(_cast(*value, common).copy()), expression=_cast(*f, common))
                for f in found
            ]
        values = [self._expression(b.args["true"], scope) for b in branches]
        default = node.args.get("default")
        other = self._expression(default, scope) if default is not None else None
        all_types = [type_ for _, type_ in values] + ([other[1]] if other else [])
        common = self._common(all_types, "CASE")
        return (
            exp.Case(
                ifs=[
                    exp.If(this=test, true=_cast(*value, common))
                    for test, value in zip(tests, values, strict=True)
                ],
                default=_cast(*other, common) if other else None,
            ),
            common,
        )

    def _if(self, node: exp.If, scope: _Scope) -> Typed:
        case = exp.Case(
            ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false")
        )
        return self._case(case, scope)

    def _cast_node(self, node: exp.Cast, scope: _Scope) -> Typed:
        safe = isinstance(node, exp.TryCast)
        if isinstance(node.this, exp.Literal) and node.this.is_string and not safe:
            found = _literal_of_type(node)
            if found is not None:
                return found
        target = types.from_sqlglot(node.to)
        if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "row":
            return self._row_as(node.this, target, scope)
        inner, source = self._expression(node.this, scope)
        if target == types.TIME:
            raise SeamlineError(NOT_SUPPORTED, "Spark has no type time", hint="")
        if source == target:
            return inner, target
        return _convert(inner, source, target, safe=safe), target

    def _row_as(self, node: exp.Anonymous, target: Type, scope: _Scope) -> Typed:
        if not isinstance(target, Row) or len(target.fields) != len(node.expressions):
            raise SeamlineError(TYPE_MISMATCH, f"the row does not fit {target}", hint="")
        members = []
        for field, argument in zip(target.fields, node.expressions, strict=True):
            inner, type_ = self._expression(argument, scope)
            same = type_ == field.type
            members.append(inner if same else _convert(inner, type_, field.type, safe=False))
        return _row(members, target), target

    # --- Operators and functions -----------------------------------------------------------------

    def _arithmetic(self, node: exp.Binary, scope: _Scope) -> Typed:
        name = _OPERATORS[type(node)]
        left, right = node.this, node.expression
        if isinstance(_inner(right), exp.Interval) and name in {"$add", "$subtract"}:
            return self._move(left, cast("exp.Interval", _inner(right)), scope, back=name != "$add")
        if isinstance(_inner(left), exp.Interval) and name == "$add":
            return self._move(right, cast("exp.Interval", _inner(left)), scope, back=False)
        operands = [self._expression(left, scope), self._expression(right, scope)]
        found = [type_ for _, type_ in operands]
        if types.DATE in found or types.TIMESTAMP in found or types.TIMESTAMP_TZ in found:
            raise SeamlineError(
                TYPE_MISMATCH,
                f"{found[0]} and {found[1]} cannot be added or subtracted",
                hint="x + INTERVAL '1' DAY moves a time, date_diff('day', a, b) compares two.",
            )
        for type_ in found:
            if not types.is_numeric(type_) and type_ != types.UNKNOWN:
                raise SeamlineError(TYPE_MISMATCH, f"arithmetic needs numbers, not {type_}")
        return self._call(name, _numbers_alike(operands), scope)

    def _move(self, node: exp.Expr, interval: exp.Interval, scope: _Scope, *, back: bool) -> Typed:
        count, unit = _interval(interval)
        time = self._expression(node, scope)
        amount = (_typed_number(-count if back else count), types.BIGINT)
        return self._call(f"$date_add_{unit}", [amount, time], scope)

    def _negate(self, node: exp.Neg, scope: _Scope) -> Typed:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            text = node.this.name.lower()
            if "e" not in text and "." not in text and int(text) == 2**63:
                return _typed_number(-(2**63)), types.BIGINT
        return self._call("$negate", [self._expression(node.this, scope)], scope)

    def _concat(self, node: exp.Expr, scope: _Scope) -> Typed:
        if isinstance(node, exp.Concat):
            parts = [self._expression(part, scope) for part in node.expressions]
            return self._call("concat", parts, scope)
        operands = [self._expression(node.args[k], scope) for k in ("this", "expression")]
        return self._call("$concat", operands, scope)

    def _coalesce(self, node: exp.Coalesce, scope: _Scope) -> Typed:
        arguments = [self._expression(a, scope) for a in (node.this, *node.expressions)]
        return self._call("coalesce", arguments, scope)

    def _extract(self, node: exp.Extract, scope: _Scope) -> Typed:
        part = node.this.name.lower()
        if part not in functions.FUNCTIONS or part in {"last_day_of_month"}:
            raise SeamlineError(NOT_SUPPORTED, f"EXTRACT({part.upper()} …) is not supported")
        return self._call(part, [self._expression(node.expression, scope)], scope)

    def _trim(self, node: exp.Trim, scope: _Scope) -> Typed:
        position = str(node.args.get("position") or "BOTH").upper()
        name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
        arguments = [self._expression(node.this, scope)]
        if node.expression is not None:
            arguments.append(self._expression(node.expression, scope))
            name = f"${name}"
        return self._call(name, arguments, scope)

    def _substring(self, node: exp.Substring, scope: _Scope) -> Typed:
        arguments = [
            self._expression(node.args[key], scope)
            for key in ("this", "start", "length")
            if node.args.get(key) is not None
        ]
        return self._call("substr", arguments, scope)

    def _position(self, node: exp.StrPosition, scope: _Scope) -> Typed:
        arguments = [self._expression(node.args[key], scope) for key in ("substr", "this")]
        return self._call("$position", arguments, scope)

    def _bracket(self, node: exp.Bracket, scope: _Scope) -> Typed:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise _unsupported(node)
        operands = [
            self._expression(node.this, scope),
            self._expression(node.expressions[0], scope),
        ]
        return self._call("$subscript", operands, scope)

    def _array(self, node: exp.Array, scope: _Scope) -> Typed:
        items = [self._expression(item, scope) for item in node.expressions]
        common = self._common([type_ for _, type_ in items], "ARRAY") if items else types.UNKNOWN
        returns = Array(common)
        overload = _constructor("$array", "[{args}]", "array({args})")
        spec = CallSpec(overload, (common,) * len(items), returns)
        return call(spec, [_cast(*item, common) for item in items]), returns

    def _now_literal(self, node: exp.Expr, _: _Scope) -> Typed:
        moment = self._now.replace(tzinfo=None)
        if isinstance(node, exp.CurrentDate):
            return _moment(moment.date(), types.DATE)
        if isinstance(node, exp.Localtimestamp):
            return _moment(moment, types.TIMESTAMP)
        return _moment(self._now, types.TIMESTAMP_TZ)

    def _at_time_zone(self, node: exp.AtTimeZone, scope: _Scope) -> Typed:
        zone = node.args["zone"]
        inner, type_ = self._expression(node.this, scope)
        if _is_text(zone) and zone.name.upper() in {"UTC", "Z", "+00:00"}:
            if type_ in {types.TIMESTAMP_TZ, types.TIMESTAMP}:
                return _cast(inner, type_, types.TIMESTAMP_TZ), types.TIMESTAMP_TZ
        raise SeamlineError(
            NOT_SUPPORTED, "instants are in UTC here", hint="Convert time zones in the client."
        )

    def _function(self, node: exp.Anonymous, scope: _Scope) -> Typed:
        name = node.name.lower()
        if name in _MOMENTS and not node.expressions:
            return self._now_literal(_MOMENTS[name](), scope)
        if name in {"date_trunc", "date_add", "date_diff"}:
            return self._by_unit(name, node, scope)
        if name == "row":
            return self._row_constructor(node, scope)
        if name == "map":
            return self._map_constructor(node, scope)
        if name == "typeof" and len(node.expressions) == 1:
            _, type_ = self._expression(node.expressions[0], scope)
            return exp.Literal.string(str(type_)), types.VARCHAR
        if name == "date" and len(node.expressions) == 1:
            inner, type_ = self._expression(node.expressions[0], scope)
            return _convert(inner, type_, types.DATE, safe=False), types.DATE
        return self._plain_call(name, node, scope)

    def _plain_call(self, name: str, node: exp.Anonymous, scope: _Scope) -> Typed:
        expressions = node.expressions
        distinct = len(expressions) == 1 and isinstance(expressions[0], exp.Distinct)
        if distinct:
            expressions = expressions[0].expressions
        if name == "count" and len(expressions) == 1 and isinstance(expressions[0], exp.Star):
            expressions = []
        for argument in expressions:
            if isinstance(argument, exp.Order | exp.Lambda | exp.Star | exp.Kwarg):
                raise SeamlineError(
                    NOT_SUPPORTED, f"{argument.key.upper()} inside {name}() is not supported"
                )
        arguments = [self._expression(argument, scope) for argument in expressions]
        typed, type_ = self._call(name, arguments, scope)
        assert isinstance(typed, Call)
        if distinct:
            if typed.spec.overload.kind != "aggregate" or not arguments:
                raise SeamlineError(NOT_SUPPORTED, f"{name}(DISTINCT …) is not supported")
            _require_comparable(arguments[0][1], "DISTINCT")
            if len(arguments) > 1:
                raise SeamlineError(NOT_SUPPORTED, f"{name}(DISTINCT a, b) is not supported")
            typed.set("distinct", True)
        return typed, type_

    def _call(self, name: str, arguments: Sequence[Typed], _: _Scope) -> Typed:
        resolved = functions.resolve(name, [type_ for _, type_ in arguments])
        converted = [
            _cast(inner, type_, wanted)
            for (inner, type_), wanted in zip(arguments, resolved.parameters, strict=True)
        ]
        spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
        return call(spec, converted), resolved.returns

    def _by_unit(self, name: str, node: exp.Anonymous, scope: _Scope) -> Typed:
        unit = node.expressions[0] if node.expressions else None
        if unit is None or not _is_text(unit):
            raise SeamlineError(NOT_SUPPORTED, f"{name} needs its unit written out", hint="")
        full_name = f"${name}_{unit.name.lower()}"
        if full_name not in functions.FUNCTIONS:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"{name} has no unit {unit.name!r}",
                hint="Units are second, minute, hour, day, week, month, quarter and year.",
            )
        arguments = [self._expression(argument, scope) for argument in node.expressions[1:]]
        if name == "date_diff" and len(arguments) == 2:
            common = self._common([type_ for _, type_ in arguments], "date_diff")
            arguments = [(_cast(*argument, common), common) for argument in arguments]
        return self._call(full_name, arguments, scope)

    def _row_constructor(self, node: exp.Anonymous, scope: _Scope) -> Typed:
        items = [self._expression(item, scope) for item in node.expressions]
        type_ = Row(tuple(Field(f"field{i}", t) for i, (_, t) in enumerate(items)))
        return _row([inner for inner, _ in items], type_), type_

    def _map_constructor(self, node: exp.Anonymous, scope: _Scope) -> Typed:
        arguments = [self._expression(argument, scope) for argument in node.expressions]
        found = [type_ for _, type_ in arguments]
        match found:
            case [Array(key), Array(value)]:
                type_ = Map(key, value)
                overload = _constructor("$map", "map({0}, {1})", "map_from_arrays({0}, {1})")
                return call(
                    CallSpec(overload, tuple(found), type_), [a for a, _ in arguments]
                ), type_
        raise SeamlineError(TYPE_MISMATCH, "MAP needs two arrays", hint="MAP(ARRAY[…], ARRAY[…]).")

    # --- Aggregates and windows -------------------------------------------------------------------

    def _filter(self, node: exp.Filter, scope: _Scope) -> Typed:
        inner, type_ = self._expression(node.this, scope)
        if not isinstance(inner, Call) or inner.spec.overload.kind != "aggregate":
            raise SeamlineError(NOT_SUPPORTED, "FILTER needs an aggregate function", hint="")
        condition = self._boolean(node.expression.this, scope, "FILTER")
        return exp.Filter(this=inner, expression=exp.Where(this=condition)), type_

    def _window(self, node: exp.Window, scope: _Scope) -> Typed:
        inner, type_ = self._expression(node.this, scope)
        function = (
            inner.this
            if isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls)
            else inner
        )
        if not isinstance(function, Call) or function.spec.overload.kind == "scalar":
            raise SeamlineError(
                NOT_SUPPORTED, "OVER needs an aggregate or window function", hint=""
            )
        if function.args.get("distinct"):
            raise SeamlineError(NOT_SUPPORTED, "DISTINCT with OVER is not supported", hint="")
        node.set("this", inner)
        self._window_definition(node, scope)
        return node, type_

    def _window_definition(self, node: exp.Window, scope: _Scope) -> None:
        partitions = []
        for partition in node.args.get("partition_by") or ():
            inner, type_ = self._expression(partition, scope)
            _require_comparable(type_, "PARTITION BY")
            partitions.append(inner)
        node.set("partition_by", partitions)
        self._order(node, scope)
        frame = node.args.get("spec")
        if frame is not None:
            _check_frame(frame)

    def _nulls(self, node: exp.Expr, scope: _Scope) -> Typed:
        inner, type_ = self._expression(node.this, scope)
        names = {"lag", "lead", "first_value", "last_value", "nth_value"}
        if not isinstance(inner, Call) or inner.spec.overload.name not in names:
            raise SeamlineError(
                NOT_SUPPORTED,
                "IGNORE NULLS is for lag, lead and first, last and nth value",
                hint="",
            )
        return type(node)(this=inner), type_


_Handler = Callable[[Typer, Any, _Scope], Typed]

_HANDLERS: dict[type[Any], _Handler] = {
    exp.Column: Typer._column,
    exp.Dot: Typer._dot,
    exp.Literal: Typer._literal,
    exp.Boolean: Typer._boolean_literal,
    exp.Null: Typer._null,
    exp.HexString: Typer._bytes,
    exp.Paren: Typer._paren,
    exp.And: Typer._logic,
    exp.Or: Typer._logic,
    exp.Not: Typer._not,
    exp.EQ: Typer._comparison,
    exp.NEQ: Typer._comparison,
    exp.LT: Typer._comparison,
    exp.LTE: Typer._comparison,
    exp.GT: Typer._comparison,
    exp.GTE: Typer._comparison,
    exp.NullSafeEQ: Typer._comparison,
    exp.NullSafeNEQ: Typer._comparison,
    exp.Is: Typer._is,
    exp.Between: Typer._between,
    exp.In: Typer._in,
    exp.Like: Typer._like,
    exp.Escape: Typer._escape,
    exp.Exists: Typer._exists,
    exp.Subquery: Typer._subquery,
    exp.Case: Typer._case,
    exp.If: Typer._if,
    exp.Cast: Typer._cast_node,
    exp.TryCast: Typer._cast_node,
    exp.Add: Typer._arithmetic,
    exp.Sub: Typer._arithmetic,
    exp.Mul: Typer._arithmetic,
    exp.Div: Typer._arithmetic,
    exp.Mod: Typer._arithmetic,
    exp.Neg: Typer._negate,
    exp.DPipe: Typer._concat,
    exp.Concat: Typer._concat,
    exp.Coalesce: Typer._coalesce,
    exp.Extract: Typer._extract,
    exp.Trim: Typer._trim,
    exp.Substring: Typer._substring,
    exp.StrPosition: Typer._position,
    exp.Bracket: Typer._bracket,
    exp.Array: Typer._array,
    exp.CurrentTimestamp: Typer._now_literal,
    exp.CurrentDate: Typer._now_literal,
    exp.Localtimestamp: Typer._now_literal,
    exp.AtTimeZone: Typer._at_time_zone,
    exp.Anonymous: Typer._function,
    exp.Filter: Typer._filter,
    exp.Window: Typer._window,
    exp.IgnoreNulls: Typer._nulls,
    exp.RespectNulls: Typer._nulls,
}
"""What an expression may be made of; anything else is refused."""

_OPERATORS: dict[type[Any], str] = {
    exp.Add: "$add",
    exp.Sub: "$subtract",
    exp.Mul: "$multiply",
    exp.Div: "$divide",
    exp.Mod: "$modulus",
}
_MOMENTS: dict[str, type[Any]] = {
    "now": exp.CurrentTimestamp,
    "current_timestamp": exp.CurrentTimestamp,
    "current_date": exp.CurrentDate,
    "localtimestamp": exp.Localtimestamp,
}


# --- Conversions ---------------------------------------------------------------------------------


def _cast(node: exp.Expr, source: Type, target: Type) -> exp.Expr:
    """The value as another type, where that needs no asking."""
    if source == target:
        return node
    return _convert(node, source, target, safe=False)


def _convert(node: exp.Expr, source: Type, target: Type, *, safe: bool) -> exp.Expr:
    overload = casts.overload(source, target, safe=safe)
    return call(CallSpec(overload, (source,), target), [node])


def _cast_outputs(query: exp.Expr, output: Sequence[Output], wanted: Sequence[Output]) -> exp.Expr:
    """A query whose columns have the wanted types; unchanged when they have them already."""
    if [column.type for column in output] == [column.type for column in wanted]:
        return query
    source = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    source.set("alias", exp.TableAlias(this=exp.to_identifier("_typed")))
    projections = [
        exp.alias_(
            _cast(exp.column(exp.to_identifier(one.name), "_typed"), one.type, want.type),
            exp.to_identifier(want.name),
        )
        for one, want in zip(output, wanted, strict=True)
    ]
    return exp.select(*projections).from_(source)


def _numbers_alike(operands: Sequence[Typed]) -> list[Typed]:
    """Operands of arithmetic in one family: floating, decimal or integer; NULL joins the other."""
    found = [type_ for _, type_ in operands]
    if all(type_ == types.UNKNOWN for type_ in found):
        return [(_cast(*operand, types.INTEGER), types.INTEGER) for operand in operands]
    known = [type_ for type_ in found if type_ != types.UNKNOWN]
    found = [known[0] if type_ == types.UNKNOWN else type_ for type_ in found]
    wanted = found
    if any(type_ in types.FLOATS for type_ in found):
        wanted = [types.DOUBLE if types.DOUBLE in found else types.REAL] * len(found)
    elif any(isinstance(type_, Decimal) for type_ in found):
        wanted = [coercion.as_decimal(type_) or type_ for type_ in found]
    elif len(found) > 1:
        wanted = [max(found, key=types.INTEGERS.index)] * len(found)
    return [(_cast(*operand, want), want) for operand, want in zip(operands, wanted, strict=True)]


def _constructor(name: str, duckdb: str, spark: str) -> Overload:
    return Overload(
        name=name,
        kind="scalar",
        parameters=(),
        variadic=True,
        returns="T",
        duckdb=duckdb,
        spark=spark,
    )


def _row(members: Sequence[exp.Expr], type_: Row) -> exp.Expr:
    names = [field.name for field in type_.fields]

    def duckdb(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        pairs = ", ".join(f"{types.quoted(n)} := {a}" for n, a in zip(names, args, strict=True))
        return f"struct_pack({pairs})"

    def spark(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        pairs = ", ".join(f"{_spark_text(n)}, {a}" for n, a in zip(names, args, strict=True))
        return f"named_struct({pairs})"

    overload = dataclasses.replace(_constructor("$row", "", ""), duckdb=duckdb, spark=spark)
    return call(CallSpec(overload, tuple(f.type for f in type_.fields), type_), members)


def _field(row: exp.Expr, type_: Row, field: Field) -> exp.Expr:
    name = field.name

    def duckdb(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        text = name.replace("'", "''")
        return f"struct_extract({args[0]}, '{text}')"

    def spark(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        quoted = name.replace("`", "``")
        return f"{args[0]}.`{quoted}`"

    overload = dataclasses.replace(
        _constructor(f"$field {name}", "", ""), duckdb=duckdb, spark=spark
    )
    return call(CallSpec(overload, (type_,), field.type), [row])


def _spark_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# --- Literals ------------------------------------------------------------------------------------


def _constant(template: str, type_: Type, value: Any) -> exp.Expr:
    """An expression without arguments, the same text on both engines."""
    escaped = template.replace("{", "{{").replace("}", "}}")
    return call(CallSpec(_constructor("$constant", escaped, escaped), (), type_, value), [])


def _typed_text(text: str, type_: Type, value: Any) -> exp.Expr:
    """A literal whose type each engine is told."""
    template = f"CAST('{text}' AS {{type}})"
    return call(CallSpec(_constructor("$literal", template, template), (), type_, value), [])


def _typed_number(value: int) -> exp.Expr:
    if value == -(2**63):
        return _typed_text(str(value), types.BIGINT, value)
    return _constant(f"CAST({value} AS BIGINT)", types.BIGINT, value)


def _decimal_literal(text: str) -> Typed:
    value = decimal.Decimal(text)
    parts = value.as_tuple()
    scale = max(0, -int(parts.exponent))
    precision = max(len(parts.digits), scale, 1)
    if precision > types.MAX_DECIMAL_PRECISION:
        raise SeamlineError(INVALID_LITERAL, f"the number {text[:50]} has more than 38 digits")
    type_ = Decimal(precision, scale)
    return _typed_text(format(value, "f"), type_, value), type_


def _moment(value: datetime.date, type_: Type) -> Typed:
    text = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return _typed_text(text, type_, value), type_


def _literal_of_type(node: exp.Cast) -> Typed | None:
    """DATE '…', TIMESTAMP '…', DECIMAL '…': checked here, so that no engine has to read them."""
    text = node.this.name
    kind = node.to.this
    try:
        if kind == exp.DType.DATE:
            return _moment(datetime.date.fromisoformat(text), types.DATE)
        if kind in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ}:
            return _timestamp_literal(text, kind)
        if kind == exp.DType.DECIMAL and not node.to.expressions:
            return _signed_decimal(text)
    except ValueError as error:
        what = "timestamp" if kind != exp.DType.DATE else "date"
        raise SeamlineError(
            INVALID_LITERAL, f"{text!r} is not a {what}", location=_place(node.this)
        ) from error
    return None


def _timestamp_literal(text: str, kind: exp.DType) -> Typed:
    cleaned = text.strip()
    if cleaned.upper().endswith(" UTC"):
        cleaned = cleaned[:-4] + "+00:00"
    moment = datetime.datetime.fromisoformat(cleaned)
    if moment.tzinfo is None and kind == exp.DType.TIMESTAMP:
        return _moment(moment, types.TIMESTAMP)
    instant = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return _moment(instant.astimezone(datetime.UTC), types.TIMESTAMP_TZ)


def _signed_decimal(text: str) -> Typed:
    try:
        inner, type_ = _decimal_literal(text.lstrip("+-"))
    except decimal.InvalidOperation as error:
        raise SeamlineError(INVALID_LITERAL, f"{text!r} is not a number") from error
    if text.startswith("-"):
        resolved = functions.resolve("$negate", [type_])
        return call(CallSpec(resolved.overload, resolved.parameters, type_), [inner]), type_
    return inner, type_


def _interval(node: exp.Interval) -> tuple[int, str]:
    """How many of which unit.

    Raises:
        SeamlineError: NOT_SUPPORTED for an interval of several units or of a fraction.
    """
    unit = node.args.get("unit")
    unit_name = unit.name.lower().rstrip("s") if unit is not None else ""
    value = node.this
    text = value.name if isinstance(value, exp.Literal) else ""
    if isinstance(value, exp.Neg):
        text = "-" + value.this.name
    if f"$date_add_{unit_name}" not in functions.FUNCTIONS or not text.lstrip("+-").isdigit():
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{node.sql('trino')} is not supported",
            hint="INTERVAL 'whole number' SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR.",
        )
    return int(text), unit_name


def _row_count(node: exp.Expr) -> exp.Expr:
    inner = _inner(node)
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit():
        return exp.Literal.number(int(inner.name))
    raise SeamlineError(NOT_SUPPORTED, "LIMIT and OFFSET need a whole number, written out", hint="")


def _is_text(node: exp.Expr, length: int | None = None) -> bool:
    return (
        isinstance(node, exp.Literal)
        and node.is_string
        and (length is None or len(node.name) == length)
    )


# --- Shapes --------------------------------------------------------------------------------------


def _inner(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _unwrapped(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Subquery) and not node.args.get("with_") else node


def _bracketed(node: exp.Expr) -> exp.Expr:
    return node if isinstance(node, exp.Paren | exp.Column | Call) else exp.Paren(this=node)


def _operand(node: exp.Expr) -> exp.Expr:
    """An operand of a comparison: in brackets when it is itself a comparison or logic."""
    if isinstance(node, exp.Binary | exp.Not | exp.Between | exp.In | exp.Escape):
        return exp.Paren(this=node)
    return node


def _renamed(output: Sequence[Output], alias: exp.Expr | None) -> list[Output]:
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not columns:
        return list(output)
    if len(columns) != len(output):
        raise SeamlineError(
            TYPE_MISMATCH, f"{len(columns)} names for {len(output)} columns", hint=""
        )
    return [Output(n.name, c.type) for n, c in zip(columns, output, strict=True)]


def _require_comparable(type_: Type, where: str) -> None:
    if not functions.is_comparable(type_):
        raise SeamlineError(TYPE_MISMATCH, f"{where} cannot compare values of {type_}", hint="")


def _check_clauses(node: exp.Select) -> None:
    for key in ("qualify", "laterals", "match", "locks", "connect", "prewhere", "sample", "hint",
                "kind", "into", "cluster", "distribute", "sort", "settings", "format", "options",
                "pivots", "operation_modifiers", "exclude"):  # fmt: skip
        if node.args.get(key):
            raise SeamlineError(
                NOT_SUPPORTED, f"{key.upper()} is not supported in a query", hint=""
            )
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise SeamlineError(NOT_SUPPORTED, "DISTINCT ON is not supported", hint="")


def _check_frame(frame: exp.Expr) -> None:
    kind = str(frame.args.get("kind") or "").upper()
    bounds = [frame.args.get("start"), frame.args.get("end")]
    plain = all(
        bound is None
        or isinstance(bound, str)
        or (kind == "ROWS" and isinstance(bound, exp.Literal) and not bound.is_string)
        for bound in bounds
    )
    if kind not in {"ROWS", "RANGE"} or not plain or frame.args.get("exclude"):
        raise SeamlineError(
            NOT_SUPPORTED,
            "this window frame is not supported",
            hint="ROWS with whole numbers, or RANGE with UNBOUNDED and CURRENT ROW.",
        )


# --- Grouping ------------------------------------------------------------------------------------


def _check_grouping(node: exp.Select, scope: _Scope) -> None:
    """In a grouped query, whatever is not aggregated must be one of the grouping expressions."""
    group = node.args.get("group")
    checked = [projection.unalias() for projection in node.expressions]
    having = node.args.get("having")
    if having is not None:
        checked.append(having.this)
    order = node.args.get("order")
    ordered = [item.this for item in order.expressions] if order is not None else []
    if where := node.args.get("where"):
        _refuse_aggregates(where.this, "WHERE")
    if group is None and not any(_has_aggregate(e) for e in (*checked, *ordered)):
        if having is not None:
            raise SeamlineError(GROUPING_ERROR, "HAVING needs GROUP BY or an aggregate", hint="")
        return
    keys = list(_group_keys(group)) if group is not None else []
    for expression in (*checked, *ordered):
        _check_grouped(expression, keys, scope)


def _group_keys(group: exp.Group) -> list[exp.Expr]:
    keys: list[exp.Expr] = []
    pending = list(group.expressions)
    for key in ("grouping_sets", "cube", "rollup"):
        pending += [e for e in group.args.get(key) or () if isinstance(e, exp.Expr)]
    while pending:
        item = pending.pop()
        if isinstance(item, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
            pending += item.expressions
        elif isinstance(item, exp.Paren):
            pending.append(item.this)
            keys.append(item)
        else:
            keys.append(item)
    return keys


def _has_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Subquery | exp.Exists | exp.Select | exp.SetOperation):
        return False
    if isinstance(node, exp.Window):
        below: list[Any] = [*_function_arguments(node.this), *(node.args.get("partition_by") or ())]
        if node.args.get("order") is not None:
            below += [item.this for item in node.args["order"].expressions]
        return any(_has_aggregate(child) for child in below)
    if isinstance(node, Call) and node.spec.overload.kind == "aggregate":
        return True
    return any(_has_aggregate(child) for child in node.iter_expressions())


def _function_arguments(node: exp.Expr) -> list[exp.Expr]:
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    return list(node.expressions)


def _refuse_aggregates(node: exp.Expr, where: str) -> None:
    if _has_aggregate(node):
        raise SeamlineError(GROUPING_ERROR, f"{where} cannot hold an aggregate", hint="Use HAVING.")


def _check_grouped(node: exp.Expr, keys: Sequence[exp.Expr], scope: _Scope) -> None:
    if any(node == key for key in keys):
        return
    match node:
        case Call() if node.spec.overload.kind == "aggregate":
            for argument in node.expressions:
                _refuse_aggregates(argument, f"{node.spec.overload.name}()")
            return
        case exp.Filter():
            return
        case exp.Window():
            parts: list[Any] = [
                *_function_arguments(node.this),
                *(node.args.get("partition_by") or ()),
            ]
            if node.args.get("order") is not None:
                parts += [item.this for item in node.args["order"].expressions]
            for part in parts:
                _check_grouped(part, keys, scope)
            return
        case exp.Column():
            if node.table in scope.sources:
                raise SeamlineError(
                    GROUPING_ERROR,
                    f"column {node.name} is neither grouped nor aggregated",
                    location=_place(node),
                )
            return
        case exp.Subquery() | exp.Exists() | exp.Select():
            return
    for child in node.iter_expressions():
        _check_grouped(child, keys, scope)


# --- Messages ------------------------------------------------------------------------------------


def _place(node: exp.Expr) -> Location | None:
    identifier = (
        node if isinstance(node, exp.Identifier | exp.Literal) else node.find(exp.Identifier)
    )
    meta = identifier.meta if identifier is not None else {}
    if "line" not in meta:
        return None
    return Location(meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"])))


def _unknown_column(node: exp.Column, scope: _Scope) -> SeamlineError:
    name = node.name
    owners = [s for s, columns in scope.sources.items() if name in columns]
    place = _place(node.this)
    if not node.table and len(owners) > 1:
        return SeamlineError(
            COLUMN_AMBIGUOUS,
            f"column {name} is in {' and in '.join(owners)}",
            location=place,
        )
    if node.table and scope.find(node.table) is None:
        return SeamlineError(
            COLUMN_NOT_FOUND, f"there is no table {node.table} in FROM", location=place
        )
    known = sorted({n for columns in scope.sources.values() for n in columns})
    near = [n for n in known if n[:3] == name[:3] or name in n][:5]
    hint = f"Near it: {', '.join(near)}." if near else None
    return SeamlineError(
        COLUMN_NOT_FOUND, f"column {name} does not exist", location=place, hint=hint
    )


def _comparison_hint(left: Type, right: Type) -> str | None:
    times = {types.DATE: "DATE '…'", types.TIMESTAMP: "TIMESTAMP '…'",
             types.TIMESTAMP_TZ: "TIMESTAMP '… UTC'"}  # fmt: skip
    for one, other in ((left, right), (right, left)):
        if one in times and other == types.VARCHAR:
            return f"Write the text as {times[one]}."
    return None


def _unsupported(node: exp.Expr) -> SeamlineError:
    text = node.sql("trino")
    return (
        SeamlineError(
            NOT_SUPPORTED,
            f"{text[:80]} ({type(node).__name__}) is not supported",
            location=_place(node),
        )
        if not isinstance(node, exp.Placeholder)
        else SeamlineError(INVALID_PARAMETERS, "a placeholder has no value")
    )

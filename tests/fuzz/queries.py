"""Random queries: joins, groups, windows, set operations, subqueries, over tables or each other.

Every answer is determined: what picks some of the rows sorts by all columns first, what looks at
neighbours sorts by columns without equals, and sums of floating numbers are of few digits.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence

from fuzz import schema
from fuzz.expressions import Column, Expressions, Scope, is_plain, is_result
from fuzz.nodes import NOTHING, Node, listed, option, ours, same
from fuzz.schema import Table
from seamline.sql import types
from seamline.sql.functions import is_comparable, is_ordered
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type

QUERY = "query"
_CALLS = 8
"""Calls of functions in one query, so that Spark plans them once."""


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A query.

    Attributes:
        node: The query as a tree.
        columns: Its columns, called c0, c1, …
        is_sorted: Whether the order of its rows is part of the answer.
        unique: Places of columns that no two rows have alike.
    """

    node: Node
    columns: tuple[Type, ...]
    is_sorted: bool = False
    unique: tuple[int, ...] = ()


_ONE = same("integer", "1")


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    node: Node
    scope: Scope


def statement(seed: object, tables: Sequence[Table]) -> Query:
    """A random statement over tables."""
    return _Queries(random.Random(f"query {seed}"), tables).statement()


class _Queries:
    def __init__(self, chance: random.Random, tables: Sequence[Table]) -> None:
        self._chance = chance
        self._tables = tables
        self._names = itertools.count()
        self._ctes: list[tuple[str, Query]] = []
        self._subqueries_left = 2
        self._plain = chance.random() < 0.5
        self._expressions = Expressions(chance, self._subquery, plain=self._plain)

    def _compares(self, type_: Type) -> bool:
        """Whether values of the type can be compared here."""
        return is_comparable(type_) and (is_plain(type_) or not self._plain)

    def _name(self) -> str:
        return f"x{next(self._names)}"

    def _likely(self, share: float) -> bool:
        return self._chance.random() < share

    # --- Statements ----------------------------------------------------------------------------

    def statement(self) -> Query:
        """With its CTEs and its order."""
        ctes = []
        for _ in range(self._chance.choice((0, 0, 0, 0, 1, 2))):
            name, query = self._name(), self._query(1)
            ctes.append(same("cte", f"{name} AS ({{0}})", query.node))
            self._ctes.append((name, query))
        word = "WITH"
        if self._likely(0.05):
            name, word = self._name(), "WITH RECURSIVE"
            all_ = self._chance.choice((" ALL", ""))
            step = self._chance.choice(("c0 + 1, c1 * 2", "c0 + 2, c1 - c0"))
            text = f"SELECT 1, 1 UNION{all_} SELECT {step} FROM {name} WHERE c0 < 6"
            ctes.append(same("cte", f"{name}(c0, c1) AS ({text})"))
            pair = (types.INTEGER, types.INTEGER)
            self._ctes.append((name, Query(_ONE, pair, unique=(0,))))
        query = self._sorted(self._query(2))
        if not ctes:
            return query
        node = same(QUERY, f"{word} {{0}} {{1}}", listed(ctes), query.node)
        return dataclasses.replace(query, node=node)

    def _query(self, depth: int, wanted: Sequence[Type] | None = None) -> Query:
        if depth > 0 and self._likely(0.15):
            return self._set_operation(depth, wanted)
        return self._select(depth, wanted)

    def _set_operation(self, depth: int, wanted: Sequence[Type] | None) -> Query:
        one = self._select(depth - 1, wanted)
        other = self._select(depth - 1, one.columns)
        words = ["UNION ALL", "UNION ALL"]
        if all(is_comparable(type_) for type_ in one.columns):
            words += ["UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
        word = self._chance.choice(words)
        node = same(QUERY, f"({{0}}) {word} ({{1}})", one.node, other.node)
        return Query(node, one.columns)

    def _sorted(self, query: Query) -> Query:
        """By all columns, if they have an order; with a limit, sometimes."""
        if not all(map(is_ordered, query.columns)) or not self._likely(0.4):
            return query
        places = list(range(1, len(query.columns) + 1))
        self._chance.shuffle(places)
        endings = ("", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST")
        keys = ", ".join(f"{place}{self._chance.choice(endings)}" for place in places)
        limits = ("", "", " LIMIT 3", " OFFSET 1 LIMIT 5", " LIMIT 0", " FETCH FIRST 2 ROWS ONLY")
        limit = self._chance.choice(limits)
        plain = {" OFFSET 1 LIMIT 5": " LIMIT 5 OFFSET 1", " FETCH FIRST 2 ROWS ONLY": " LIMIT 2"}
        cut = option(Node("limit", limit.strip(), plain.get(limit, limit).strip()))
        order = same("order", f"ORDER BY {keys}{{0}}", cut if limit else NOTHING)
        columns = ", ".join(f"q.c{place}" for place in range(len(query.columns)))
        node = same(QUERY, f"SELECT {columns} FROM ({{0}}) AS q{{1}}", query.node, option(order))
        return Query(node, query.columns, is_sorted=True)

    # --- SELECT --------------------------------------------------------------------------------

    def _select(self, depth: int, wanted: Sequence[Type] | None = None) -> Query:
        source = self._from(depth)
        where = None
        if self._likely(0.5):
            where = same("where", "WHERE {0}", self._expressions.condition(source.scope))
        clauses = same("from", "FROM {0}{1}", source.node, option(where))
        roll = self._chance.random()
        if wanted is None and roll < 0.3:
            return self._grouped(clauses, source.scope)
        if wanted is None and roll < 0.45:
            return self._windowed(clauses, source.scope)
        return self._projected(clauses, source.scope, wanted, depth)

    def _projected(
        self, clauses: Node, scope: Scope, wanted: Sequence[Type] | None, depth: int
    ) -> Query:
        if wanted is None:
            count = self._chance.choice((1, 2, 3, 5))
            items = [self._item(scope, depth) for _ in range(count)]
            if not self._plain and self._likely(0.25):
                items = [self._expressions.call(scope) for _ in range(_CALLS)]
        else:
            items = [(self._expressions.of(type_, scope, 2), type_) for type_ in wanted]
        items = [item for item in items if is_result(item[1])] or [(_ONE, types.INTEGER)]
        kinds = tuple(type_ for _, type_ in items)
        unique: tuple[int, ...] = ()
        word = "SELECT"
        if wanted is None and scope.unique and self._likely(0.3):
            items += [(column.node, column.type) for column in scope.unique]
            unique = tuple(range(len(kinds), len(items)))
            kinds = tuple(type_ for _, type_ in items)
        elif all(map(is_comparable, kinds)) and self._likely(0.12):
            word = "SELECT DISTINCT"
            if all(map(is_ordered, kinds)):
                unique = tuple(range(len(kinds)))
        named = [_named(node, place) for place, (node, _) in enumerate(items)]
        node = same(QUERY, f"{word} {{0}} {{1}}", listed(named), clauses)
        return Query(node, kinds, unique=unique)

    def _item(self, scope: Scope, depth: int) -> tuple[Node, Type]:
        if depth > 0 and self._likely(0.06):
            found = self._scalar(scope)
            if found is not None:
                return found
        return self._expressions.any(scope)

    # --- FROM ----------------------------------------------------------------------------------

    def _from(self, depth: int) -> _Source:
        found = self._source(depth)
        for _ in range(self._chance.choice((0, 0, 0, 1, 1, 2))):
            found = self._joined(found, self._source(depth - 1))
        if not self._plain and self._likely(0.1):
            found = self._unnested(found)
        return found

    def _source(self, depth: int) -> _Source:
        roll = self._chance.random()
        if depth > 0 and roll < 0.2:
            query = self._query(depth - 1)
            if self._likely(0.3):
                query = self._sorted(query)
            return self._derived(query, "({0})")
        if self._ctes and roll < 0.35:
            name, query = self._chance.choice(self._ctes)
            alias = self._name()
            node = same("source", f"{name} AS {alias}")
            return _Source(node, _scope_of(query, alias))
        if roll < 0.42:
            return self._values()
        if depth > 0 and roll < 0.5:
            joined = self._joined(self._source(depth - 1), self._source(depth - 1))
            return _Source(same("source", "({0})", joined.node), joined.scope)
        return self._stored(self._chance.choice(self._tables))

    def _derived(self, query: Query, form: str) -> _Source:
        alias = self._name()
        node = same("source", f"{form} AS {alias}", query.node)
        return _Source(node, _scope_of(query, alias))

    def _values(self) -> _Source:
        kinds = [schema.any_type(self._chance) for _ in range(2)]
        rows = [
            [self._expressions.literal(type_) for type_ in kinds]
            for _ in range(self._chance.choice((1, 3)))
        ]
        alias = self._name()
        lines = listed([same("line", "({0})", listed(row)) for row in rows])
        node = same("source", f"(VALUES {{0}}) AS {alias}(c0, c1)", lines)
        columns = [Column(f"{alias}.c{place}", type_) for place, type_ in enumerate(kinds)]
        return _Source(node, Scope(tuple(columns)))

    def _stored(self, table: Table) -> _Source:
        alias = self._name()
        columns = tuple(Column(f"{alias}.{_written(f)}", f.type) for f in table.columns)
        node = same("source", f"{table.name} AS {alias}")
        return _Source(node, Scope(columns, columns[:1]))

    def _joined(self, left: _Source, right: _Source) -> _Source:
        both = (*left.scope.columns, *right.scope.columns)
        unique: tuple[Column, ...] = ()
        if left.scope.unique and right.scope.unique:
            unique = (*left.scope.unique, *right.scope.unique)
        scope = Scope(both, unique)
        kind = self._chance.choice(
            ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS")
        )
        if kind == "CROSS":
            return _Source(same("source", "{0} CROSS JOIN {1}", left.node, right.node), scope)
        on = self._on(left.scope, right.scope, scope, is_full=kind == "FULL JOIN")
        node = same("source", f"{{0}} {kind} {{1}} ON {{2}}", left.node, right.node, on)
        return _Source(node, scope)

    def _on(self, left: Scope, right: Scope, both: Scope, *, is_full: bool) -> Node:
        tests = Expressions(self._chance, plain=self._plain)  # no subquery in ON
        pairs = [
            (one, other)
            for one in left.columns
            for other in right.columns
            if one.type == other.type and self._compares(one.type)
        ]
        if not pairs:
            return same("boolean", "true") if is_full else tests.condition(both, 1)
        parts = []
        for one, other in self._chance.sample(
            pairs, min(len(pairs), self._chance.choice((1, 1, 2)))
        ):
            form = same if is_plain(one.type) else ours
            parts.append(form("boolean", "({0} = {1})", one.node, other.node))
        on = parts[0]
        for part in parts[1:]:
            on = same("boolean", "({0} AND {1})", on, part)
        if not is_full and self._likely(0.2):
            on = same("boolean", "({0} AND {1})", on, tests.condition(both, 1))
        return on

    def _unnested(self, left: _Source) -> _Source:
        alias = self._name()
        arrays = [c for c in left.scope.columns if isinstance(c.type, Array)]
        if arrays and self._likely(0.7):
            column = self._chance.choice(arrays)
            node, type_ = column.node, column.type
        else:
            type_ = Array(types.BIGINT)
            node = self._expressions.of(type_, left.scope, 1)
        assert isinstance(type_, Array)
        if isinstance(type_.element, Row):
            return left
        form = self._chance.choice(
            (
                f"{{0}} CROSS JOIN UNNEST({{1}}) AS {alias}(c0)",
                f"{{0}} LEFT JOIN UNNEST({{1}}) AS {alias}(c0) ON true",
                f"{{0}} CROSS JOIN UNNEST({{1}}) WITH ORDINALITY AS {alias}(c0, o)",
            )
        )
        added = [Column(f"{alias}.c0", type_.element)]
        if "ORDINALITY" in form:
            added.append(Column(f"{alias}.o", types.BIGINT))
        unique = (*left.scope.unique, added[-1]) if len(added) > 1 and left.scope.unique else ()
        scope = Scope((*left.scope.columns, *added), unique)
        return _Source(ours("source", form, left.node, node), scope)

    # --- Groups --------------------------------------------------------------------------------

    def _grouped(self, clauses: Node, scope: Scope) -> Query:
        count = self._chance.choice((0, 1, 1, 2))
        columns = [c for c in scope.columns if is_comparable(c.type)]
        keys: list[tuple[Node, Type]] = []
        for _ in range(min(count, len(columns))):
            column = self._chance.choice(columns)
            keys.append((column.node, column.type))
            if self._likely(0.3):
                found, type_ = self._expressions.any(scope, 2)
                if is_comparable(type_):
                    keys[-1] = found, type_
        values = [self._aggregate(scope) for _ in range(self._chance.choice((1, 2, 3)))]
        items = [*keys, *values]
        named = [_named(node, place) for place, (node, _) in enumerate(items)]
        places = ", ".join(str(place + 1) for place in range(len(keys)))
        group = option(same("group", f"GROUP BY {places}")) if keys else NOTHING
        is_plain_group = True
        names = {column.name for column in scope.columns}
        if keys and all(node.sql in names for node, _ in keys) and self._likely(0.3):
            group, several = self._grouping_sets([node for node, _ in keys])
            is_plain_group = False
            named.append(_named(several, len(items)))
            items.append((several, types.BIGINT))
        having = NOTHING
        if self._likely(0.2):
            having = option(same("having", "HAVING {0}", self._having(scope)))
        node = same(QUERY, "SELECT {0} {1}{2}{3}", listed(named), clauses, group, having)
        kinds = tuple(type_ for _, type_ in items)
        sortable = is_plain_group and keys and all(is_ordered(type_) for _, type_ in keys)
        return Query(node, kinds, unique=tuple(range(len(keys))) if sortable else ())

    def _grouping_sets(self, keys: Sequence[Node]) -> tuple[Node, Node]:
        """GROUP BY of several sets of keys, and the number that says which."""
        names = [key.sql for key in keys]
        alone = ", ".join(f"({name})" for name in names)
        every = ", ".join(names)
        form = self._chance.choice(
            (
                f"ROLLUP ({every})",
                f"CUBE ({every})",
                f"GROUPING SETS ({alone}, ())",
                f"GROUPING SETS (({every}), ())",
                f"GROUPING SETS (({every}), {alone})",
            )
        )
        return option(same("group", f"GROUP BY {form}")), same("bigint", f"grouping({every})")

    def _having(self, scope: Scope) -> Node:
        value, type_ = self._aggregate(scope)
        if not is_ordered(type_) or not self._compares(type_):
            return same("boolean", "count(*) > 1")
        form = same if is_plain(type_) else ours
        return form("boolean", "{0} > {1}", value, self._expressions.literal(type_))

    def _aggregate(self, scope: Scope) -> tuple[Node, Type]:
        node, type_ = self._aggregate_alone(scope)
        if self._likely(0.15):
            test = self._expressions.condition(scope, 1)
            node = same(str(type_), "{0} FILTER (WHERE {1})", node, test)
        return node, type_

    def _aggregate_alone(self, scope: Scope) -> tuple[Node, Type]:
        inside = Expressions(self._chance, plain=self._plain)
        value, type_ = inside.any(scope, 2)
        kind = str(type_)
        match self._chance.choice((0, 1, 2, 3, 4, 8)) if self._plain else self._chance.randrange(9):
            case 0:
                return same("bigint", "count(*)"), types.BIGINT
            case 1:
                distinct = "DISTINCT " if is_comparable(type_) and self._likely(0.6) else ""
                return same("bigint", f"count({distinct}{{0}})", value), types.BIGINT
            case 2 | 3 if is_ordered(type_) and (is_plain(type_) or not self._plain):
                form = same if is_plain(type_) else ours
                return form(kind, f"{self._chance.choice(('min', 'max'))}({{0}})", value), type_
            case 4:
                test = inside.condition(scope, 1)
                return same("boolean", "bool_or({0})", test), types.BOOLEAN
            case 5:
                return self._total(inside, scope)
            case 6:
                return self._collected(value, type_, scope)
            case 7:
                return self._statistic(inside, scope)
        integer = inside.of(types.INTEGER, scope, 2)
        return same("bigint", "sum({0})", integer), types.BIGINT

    def _total(self, inside: Expressions, scope: Scope) -> tuple[Node, Type]:
        type_ = self._chance.choice(schema.DECIMALS)
        value = inside.of(type_, scope, 2)
        distinct = self._chance.choice(("", "", "DISTINCT "))
        if self._likely(0.5):
            total = Decimal(types.MAX_DECIMAL_PRECISION, type_.scale)
            return ours(str(total), f"sum({distinct}{{0}})", value), total
        return ours(str(type_), f"avg({distinct}{{0}})", value), type_

    def _statistic(self, inside: Expressions, scope: Scope) -> tuple[Node, Type]:
        small = [c for c in scope.columns if c.name.endswith((".k", ".id"))]
        name = self._chance.choice(
            ("avg", "stddev", "var_pop", "corr", "regr_slope", "geometric_mean", "bitwise_and_agg",
             "bitwise_xor_agg", "count_if", "approx_distinct", "skewness", "sum", "avg")
        )  # fmt: skip
        if name.startswith("bitwise"):
            return ours("bigint", f"{name}({{0}})", inside.of(types.BIGINT, scope, 1)), types.BIGINT
        if name == "count_if":
            return ours("bigint", "count_if({0})", inside.condition(scope, 1)), types.BIGINT
        if name == "approx_distinct":
            return ours(
                "bigint", f"{name}({{0}})", inside.of(types.VARCHAR, scope, 1)
            ), types.BIGINT
        if not small:
            return same("bigint", "count(*)"), types.BIGINT
        one, other = (self._chance.choice(small).node for _ in range(2))
        if name in {"corr", "regr_slope"}:
            text = f"{name}(CAST({{0}} AS double), CAST({{1}} AS double))"
            return ours("double", text, one, other), types.DOUBLE
        return ours("double", f"{name}(CAST({{0}} AS double) / 4)", one), types.DOUBLE

    def _collected(self, value: Node, type_: Type, scope: Scope) -> tuple[Node, Type]:
        if not scope.unique:
            return same("bigint", "count({0})", value), types.BIGINT
        order = ", ".join(column.name for column in scope.unique)
        key = scope.unique[0]
        match self._chance.randrange(4):
            case 0:
                text = Expressions(self._chance, plain=self._plain).of(types.VARCHAR, scope, 1)
                form = f"listagg({{0}}, ',') WITHIN GROUP (ORDER BY {order})"
                return ours("varchar", form, text), types.VARCHAR
            case 1 if len(scope.unique) == 1:
                name = self._chance.choice(("max_by", "min_by"))
                return ours(str(type_), f"{name}({{0}}, {key.name})", value), type_
            case 2:
                text = Expressions(self._chance, plain=self._plain).of(types.VARCHAR, scope, 1)
                found = Map(types.VARCHAR, types.BIGINT)
                return ours(str(found), "histogram({0})", text), found
        array = Array(type_)
        return ours(str(array), f"array_agg({{0}} ORDER BY {order})", value), array

    # --- Windows -------------------------------------------------------------------------------

    def _windowed(self, clauses: Node, scope: Scope) -> Query:
        items = [self._window(scope) for _ in range(self._chance.choice((1, 2)))]
        items += [self._expressions.any(scope, 1) for _ in range(self._chance.choice((0, 1)))]
        unique = tuple(range(len(items), len(items) + len(scope.unique)))
        items += [(column.node, column.type) for column in scope.unique]
        named = [_named(node, place) for place, (node, _) in enumerate(items)]
        node = same(QUERY, "SELECT {0} {1}", listed(named), clauses)
        return Query(node, tuple(type_ for _, type_ in items), unique=unique)

    def _window(self, scope: Scope) -> tuple[Node, Type]:
        groups = [c for c in scope.columns if is_comparable(c.type)]
        partition = ""
        if groups and self._likely(0.6):
            partition = f"PARTITION BY {self._chance.choice(groups).name}"
        if not scope.unique:
            return same("bigint", f"count(*) OVER ({partition})"), types.BIGINT
        ending = self._chance.choice(("", " DESC", " NULLS FIRST"))
        keys = [column.name for column in scope.unique]
        ordered = [c.name for c in scope.columns if is_ordered(c.type)]
        if self._likely(0.3):
            keys.insert(0, self._chance.choice(ordered))
        order = f"ORDER BY {', '.join(f'{key}{ending}' for key in keys)}"
        if self._likely(0.15):
            return self._over_a_range(scope, partition)
        frame = ""
        if self._likely(0.4):
            frame = self._chance.choice(
                (
                    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
                    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                    " ROWS 2 PRECEDING",
                    " ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
                )
            )
        return self._over(scope, f"{partition} {order}", frame)

    def _over_a_range(self, scope: Scope, partition: str) -> tuple[Node, Type]:
        """An aggregate of the rows that are near by value, equals included."""
        numbers = [c for c in scope.columns if c.type in (types.INTEGER, types.BIGINT)]
        key = self._chance.choice(numbers or list(scope.unique))
        frames = [
            "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "GROUPS BETWEEN CURRENT ROW AND 2 FOLLOWING",
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        ]
        if numbers:
            frames += [
                "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
                "RANGE 3 PRECEDING",
                "RANGE BETWEEN 1 FOLLOWING AND 5 FOLLOWING",
            ]
        window = f"{partition} ORDER BY {key.name} {self._chance.choice(frames)}"
        name = self._chance.choice(("count(*)", f"min({key.name})", f"count({key.name})"))
        type_ = key.type if name.startswith("min") else types.BIGINT
        return same(str(type_), f"{name} OVER ({window})"), type_

    def _over(self, scope: Scope, window: str, frame: str) -> tuple[Node, Type]:
        inside = Expressions(self._chance, plain=self._plain)
        value, type_ = inside.any(scope, 1)
        kind = str(type_)
        match self._chance.randrange(7):
            case 0:
                name = self._chance.choice(("row_number()", "rank()", "dense_rank()", "ntile(3)"))
                return same("bigint", f"{name} OVER ({window})"), types.BIGINT
            case 1:
                name = self._chance.choice(("percent_rank()", "cume_dist()"))
                return same("double", f"{name} OVER ({window})"), types.DOUBLE
            case 2:
                name = self._chance.choice(("lag({0})", "lead({0})", "lag({0}, 2)", "lead({0}, 0)"))
                return same(kind, f"{name} OVER ({window})", value), type_
            case 3:
                name = self._chance.choice(("first_value", "last_value"))
                return same(kind, f"{name}({{0}}) OVER ({window}{frame})", value), type_
            case 4:
                return same(kind, f"nth_value({{0}}, 2) OVER ({window}{frame})", value), type_
            case 5 if is_ordered(type_) and (is_plain(type_) or not self._plain):
                form = same if is_plain(type_) else ours
                return form(kind, f"max({{0}}) OVER ({window}{frame})", value), type_
        small = inside.of(types.INTEGER, scope, 0)
        total = same("bigint", f"CAST(sum({{0}}) OVER ({window}{frame}) AS bigint)", small)
        return total, types.BIGINT

    # --- Subqueries ----------------------------------------------------------------------------

    def _subquery(self, scope: Scope) -> Node | None:
        """A boolean of a query over a table, correlated or not."""
        columns = [c for c in scope.columns if self._compares(c.type)]
        if self._subqueries_left <= 0 or not columns:
            return None
        self._subqueries_left -= 1
        inner = self._stored(self._chance.choice(self._tables))
        pairs = [(o, i) for o in columns for i in inner.scope.columns if o.type == i.type]
        if not pairs:
            return None
        outer, own = self._chance.choice(pairs)
        form = same if is_plain(own.type) else ours
        tests = Expressions(self._chance, plain=self._plain)
        if self._likely(0.35):
            word = self._chance.choice(("EXISTS", "NOT EXISTS"))
            equal = form("boolean", "({0} = {1})", own.node, outer.node)
            rest = option(None)
            if self._likely(0.4):
                rest = option(same("and", "AND {0}", tests.condition(inner.scope, 1)))
            return same(
                "boolean", f"{word} (SELECT 1 FROM {{0}} WHERE {{1}}{{2}})", inner.node, equal, rest
            )
        where = option(None)
        if self._likely(0.4):
            where = option(same("where", "WHERE {0}", tests.condition(inner.scope, 1)))
        query = same(QUERY, "SELECT {0} FROM {1}{2}", own.node, inner.node, where)
        words = ["IN", "IN", "NOT IN"]
        if is_ordered(own.type):
            words += ["<= ALL", "> ANY"]
        word = self._chance.choice(words)
        if word in {"<= ALL", "> ANY"}:
            form = ours if not is_plain(own.type) else same
        return form("boolean", f"({{0}} {word} ({{1}}))", outer.node, query)

    def _scalar(self, scope: Scope) -> tuple[Node, Type] | None:
        """The greatest of a column of a table, correlated or not."""
        inner = self._stored(self._chance.choice(self._tables))
        ordered = [c for c in inner.scope.columns if is_ordered(c.type) and self._compares(c.type)]
        own = self._chance.choice(ordered)
        pairs = [
            (o, i)
            for o in scope.columns
            for i in inner.scope.columns
            if o.type == i.type and self._compares(i.type)
        ]
        where = NOTHING
        if pairs and self._likely(0.6):
            outer, key = self._chance.choice(pairs)
            equal = (same if is_plain(key.type) else ours)(
                "boolean", "({0} = {1})", key.node, outer.node
            )
            where = option(same("where", "WHERE {0}", equal))
        form = same if is_plain(own.type) else ours
        text = "(SELECT max({0}) FROM {1}{2})"
        return form(str(own.type), text, own.node, inner.node, where), own.type


def _named(node: Node, place: int) -> Node:
    return same("item", f"{{0}} AS c{place}", node)


def _written(field: Field) -> str:
    return types.quote(field.name) if field.name != "order" else '"order"'


def _scope_of(query: Query, alias: str) -> Scope:
    columns = tuple(
        Column(f"{alias}.c{place}", type_, is_stored=False)
        for place, type_ in enumerate(query.columns)
    )
    return Scope(columns, tuple(columns[place] for place in query.unique))

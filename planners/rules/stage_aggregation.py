"""Finds an aggregation over one table that can be computed in stages.

All rows of the query must come from one scan through projections and filters, each row by itself,
so that what is computed of two sets of rows is what is computed of their union. Above the
aggregation, the query may be anything. Plans are left as they are where a part of the aggregation
has no stages, where a value could differ the next time it is computed, and where the rows that
count are not simply those of both tiers: in upsert tables, changes, and past moments. What says
where a row is stored may change although the row does not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from seamline.planners.plan.aggregates import StagedAggregation
from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.sql import types
from seamline.sql.columns import FILE_FIELDS
from seamline.sql.expressions.calls import Call, CallSpec, call, has_aggregate, is_repeatable
from seamline.sql.expressions.naming import scan_column
from seamline.sql.expressions.partials import Staged, is_kept, staged
from seamline.sql.functions import GROUPING
from seamline.sql.trees import copy_of, nodes_of, nodes_of_kind
from seamline.sql.types import Field, Type

_TREES_MAX = 128


def stage_aggregation(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    if plan.row is not None or len(plan.scans) != 1 or not _is_plain(plan.scans[0]):
        return plan
    (scan,) = plan.scans
    aggregation = _aggregation(_Query(plan.query.tree, scan.scan_id, scan.columns))
    return dataclasses.replace(plan, aggregation=aggregation) if aggregation else plan


def _is_plain(scan: Scan) -> bool:
    facts, seam = scan.facts, scan.seam
    is_now = not seam.as_of and seam.changes is None and seam.cold_end is None
    is_stored = not any(column in FILE_FIELDS for column in scan.columns)
    return facts.reads_cold and facts.newest is None and is_now and is_stored


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """A query, compared by the identity of its tree, which does not change."""

    tree: exp.Expr
    scan_id: str
    columns: tuple[Field, ...]

    def __hash__(self) -> int:
        return id(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Query) and other.tree is self.tree


class _NotStagedError(Exception):
    """The query has no aggregation in stages."""


@functools.lru_cache(_TREES_MAX)
def _aggregation(query: _Query) -> StagedAggregation | None:
    try:
        return _Stages(query).aggregation()
    except _NotStagedError:
        return None


class _Stages:
    """The stages of the only aggregation over a query's scan.

    Raises:
        _NotStagedError: if it has none.
    """

    def __init__(self, query: _Query) -> None:
        if not is_repeatable(query.tree):
            raise _NotStagedError
        self._query = query
        nodes = nodes_of(query.tree)
        self._tables = [node for node in nodes if isinstance(node, exp.Table)]
        table = self._only(query.scan_id)
        named: dict[str, Type] = {scan_column(c.name): c.type for c in query.columns}
        self._select, self._types = self._climb(table, named)
        self._source = _source_of(self._select).alias_or_name
        group = self._select.args.get("group")
        self._keys: list[exp.Expr] = _distinct(_keys_in(group) if group is not None else ())
        self._parts: list[tuple[exp.Expr, Staged, int]] = []
        """Each aggregate, its stages, and the number of its first part."""
        self._place = next(i for i, node in enumerate(nodes) if node is self._select)

    def _only(self, name: str) -> exp.Table:
        """Returns the only place where a scan or a common table expression is read."""
        tables = [table for table in self._tables if table.name == name]
        if len(tables) != 1 or any(v for k, v in tables[0].args.items() if k not in _OF_TABLE):
            raise _NotStagedError
        return tables[0]

    def _climb(
        self, source: exp.Expr, columns: Mapping[str, Type]
    ) -> tuple[exp.Select, Mapping[str, Type]]:
        """Returns the SELECT that aggregates, and the types of the columns that it reads."""
        while True:
            from_ = source.parent
            select = from_.parent if isinstance(from_, exp.From) else None
            if not isinstance(select, exp.Select):
                raise _NotStagedError
            used = {key for key, value in select.args.items() if value}
            if "group" in used or has_aggregate(_shell(select)):
                if not used <= _OF_AGGREGATION:
                    raise _NotStagedError
                return select, columns
            if not used <= _OF_PROJECTION:
                raise _NotStagedError
            named: dict[str, Type] = {}
            for projection in select.expressions:
                _require_simple(projection, source.alias_or_name)
                type_ = _type_of(projection.unalias(), columns)
                if type_ is not None:
                    named[projection.alias_or_name] = type_
            if select.args.get("where") is not None:
                _require_simple(select.args["where"], source.alias_or_name)
            columns, source = named, self._reader(select)

    def _reader(self, select: exp.Select) -> exp.Expr:
        """Returns where a query's rows are read."""
        parent = select.parent
        if isinstance(parent, exp.CTE) and not parent.args["alias"].columns:
            return self._only(parent.alias)
        if isinstance(parent, exp.Subquery) and _is_bare(parent):
            return parent
        raise _NotStagedError

    def aggregation(self) -> StagedAggregation:
        """Returns the stages."""
        changed = copy_of(self._select)
        assert isinstance(changed, exp.Select)
        for clause in ("where", "from_"):
            changed.set(clause, None)
        for clause in ("expressions", "group", "having", "order"):
            value = changed.args.get(clause)
            for node in value if isinstance(value, list) else [value] if value else []:
                self._finish(node)
        if self._select.args.get("where") is not None:
            _require_simple(self._select.args["where"], self._source)
        columns = self._columns()
        partials_id = f"{self._query.scan_id}partials"
        rows = self._rows(columns, partials_id)
        changed.set("from_", exp.From(this=rows))
        return StagedAggregation(
            self._query.scan_id,
            partials_id,
            columns,
            len(self._keys),
            self._merged(columns, rows),
            self._in_place(changed),
            all(stages.is_exact for _, stages, _ in self._parts),
        )

    def _finish(self, node: exp.Expr) -> None:
        """Computes an expression of the aggregating SELECT from partial aggregates, in place."""
        for number, key in enumerate(self._keys):
            if node == key:
                node.replace(exp.column(_key(number), _PARTIALS))
                return
        if isinstance(node, exp.Query | exp.Window):
            raise _NotStagedError
        inner = node.this if isinstance(node, exp.Filter) else node
        if isinstance(inner, Call) and _is_aggregate(inner):
            stages, first = self._part(node, inner)
            columns = [exp.column(_part(first + n), _PARTIALS) for n in range(len(stages.parts))]
            node.replace(stages.result(columns))
            return
        if isinstance(node, exp.Column):
            if node.table:
                raise _NotStagedError
            return
        for child in list(node.iter_expressions()):
            self._finish(child)

    def _part(self, node: exp.Expr, inner: Call) -> tuple[Staged, int]:
        """Returns the stages of an aggregate, and the number of its first part."""
        for same, stages, first in self._parts:
            if same == node:
                return stages, first
        _require_simple(node, self._source, but=inner)
        made = staged(inner)
        if made is None:
            raise _NotStagedError
        first = sum(len(stages.parts) for _, stages, _ in self._parts)
        self._parts.append((node.copy(), made, first))
        return made, first

    def _columns(self) -> tuple[Field, ...]:
        fields = []
        for number, key in enumerate(self._keys):
            _require_simple(key, self._source)
            type_ = _type_of(key, self._types)
            if type_ is None or not is_kept(type_):
                raise _NotStagedError
            fields.append(Field(_key(number), type_))
        for _, stages, first in self._parts:
            for number, part in enumerate(stages.parts):
                fields.append(Field(_part(first + number), part.node.spec.returns))
        return tuple(fields)

    def _rows(self, columns: Sequence[Field], partials_id: str) -> exp.Subquery:
        """Returns partial aggregates: those that there are, and those of the scan's rows."""
        kept = exp.Select(
            expressions=[
                exp.alias_(exp.column(scan_column(c.name), _KEPT), c.name) for c in columns
            ]
        )
        kept.set("from_", exp.From(this=exp.to_table(partials_id, alias=_KEPT)))
        computed = exp.Select(
            expressions=[exp.alias_(node, name) for name, node in self._computed()]
        )
        computed.set("from_", exp.From(this=self._inlined(_source_of(self._select))))
        if self._select.args.get("where") is not None:
            computed.set("where", copy_of(self._select.args["where"]))
        if self._keys:
            computed.set("group", exp.Group(expressions=[copy_of(key) for key in self._keys]))
        both = exp.Union(this=kept, expression=computed, distinct=False)
        return exp.Subquery(this=both, alias=exp.TableAlias(this=exp.to_identifier(_PARTIALS)))

    def _computed(self) -> list[tuple[str, exp.Expr]]:
        named = [(_key(number), copy_of(key)) for number, key in enumerate(self._keys)]
        for node, stages, first in self._parts:
            for number, part in enumerate(stages.parts):
                value: exp.Expr = copy_of(part.node)
                if isinstance(node, exp.Filter):
                    value = exp.Filter(this=value, expression=copy_of(node.expression))
                named.append((_part(first + number), value))
        return named

    def _inlined(self, source: exp.Expr) -> exp.Expr:
        """Returns a copy of a source, with common table expressions in their places."""
        if isinstance(source, exp.Table) and source.name == self._query.scan_id:
            return copy_of(source)
        if isinstance(source, exp.Table):
            definition = next(
                cte for cte in nodes_of_kind(self._query.tree, exp.CTE) if cte.alias == source.name
            )
            copied = copy_of(definition.this)
            inner, alias = definition.this, source.alias_or_name
        else:
            copied, inner, alias = copy_of(source.this), source.this, source.alias_or_name
        copied.set("from_", exp.From(this=self._inlined(_source_of(inner))))
        return exp.Subquery(this=copied, alias=exp.TableAlias(this=exp.to_identifier(alias)))

    def _merged(self, columns: Sequence[Field], rows: exp.Subquery) -> exp.Expr:
        keys = [_column(column) for column in columns[: len(self._keys)]]
        values: list[exp.Expr] = list(keys)
        for _, stages, first in self._parts:
            for number, part in enumerate(stages.parts):
                type_ = part.node.spec.returns
                column = exp.column(_part(first + number), _PARTIALS)
                values.append(call(CallSpec(part.merge, (type_,), type_), [column]))
        named = [exp.alias_(v, c.name) for v, c in zip(values, columns, strict=True)]
        merged = exp.Select(expressions=named, from_=exp.From(this=copy_of(rows)))
        if keys:
            merged.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return merged

    def _in_place(self, changed: exp.Select) -> exp.Expr:
        if self._place == 0:
            return changed
        tree = copy_of(self._query.tree)
        nodes_of(tree)[self._place].replace(changed)
        return tree


_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
_PARTIALS, _KEPT = "partials", "kept"
_OF_TABLE = frozenset({"this", "alias"})
_OF_PROJECTION = frozenset({"expressions", "from_", "where"})
_OF_AGGREGATION = _OF_PROJECTION | {"group", "having", "order", "limit", "offset", "with_"}


def _key(number: int) -> str:
    return f"g{number}"


def _part(number: int) -> str:
    return f"a{number}"


def _column(field: Field) -> exp.Column:
    return exp.column(field.name, _PARTIALS)


def _source_of(select: exp.Expr) -> exp.Expr:
    source: exp.Expr = select.args["from_"].this
    return source


def _shell(select: exp.Select) -> exp.Expr:
    """Returns what a SELECT computes, without the queries that it reads."""
    parts = [*select.expressions, select.args.get("having"), select.args.get("order")]
    return exp.Tuple(expressions=[part.copy() for part in parts if part is not None])


def _keys_in(group: exp.Expr) -> Iterator[exp.Expr]:
    """Yields what groups are made by, in whichever sets.

    Raises:
        _NotStagedError: if the clause has anything else.
    """
    if any(value for name, value in group.args.items() if name != "expressions"):
        raise _NotStagedError
    nodes = list(group.expressions)
    for node in nodes:
        if isinstance(node, exp.Paren):
            nodes.append(node.this)
        elif isinstance(node, _SETS):
            nodes.extend(node.expressions)
        else:
            yield node


def _is_aggregate(node: Call) -> bool:
    return node.spec.overload.kind == "aggregate" and node.spec.overload.name != GROUPING


def _is_bare(subquery: exp.Subquery) -> bool:
    if any(value for key, value in subquery.args.items() if key not in _OF_TABLE):
        return False
    return not subquery.args["alias"].columns if subquery.args.get("alias") else False


def _distinct(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    distinct: list[exp.Expr] = []
    for key in keys:
        if key not in distinct:
            distinct.append(key)
    return distinct


def _require_simple(node: exp.Expr, source: str, but: Call | None = None) -> None:
    """Requires an expression that each row of a source has by itself."""
    for part in nodes_of(node):
        if isinstance(part, exp.Query | exp.Window | exp.Unnest):
            raise _NotStagedError
        if isinstance(part, exp.Column) and part.table != source:
            raise _NotStagedError
        if isinstance(part, Call) and part is not but and part.spec.overload.kind != "scalar":
            raise _NotStagedError


def _type_of(node: exp.Expr, columns: Mapping[str, Type]) -> Type | None:
    """Returns the type of an expression; None if it cannot be told from the tree."""
    match node:
        case exp.Column():
            return columns.get(node.name)
        case Call():
            return node.spec.returns
        case exp.Paren():
            return _type_of(node.this, columns)
        case exp.Literal():
            return types.VARCHAR if node.is_string else None
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            values += [node.args["default"]] if node.args.get("default") is not None else []
            branches = {
                _type_of(value, columns) for value in values if not isinstance(value, exp.Null)
            }
            return branches.pop() if len(branches) == 1 else None
        case exp.Predicate() | exp.Connector() | exp.Not() | exp.Boolean():
            return types.BOOLEAN
    return None

"""Names for what has none in a statement: its scans, its derived tables, its computed columns.

None of them is anywhere in the statement or among the columns of its tables, whatever the case; nor
does a name there begin with that of a scan, so that engines can make further names of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from sqlglot import exp

_STEMS = ("scan{}_", "_from{}_", "_col{}_")
_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Dot, exp.Star)


class UnusedNames:
    """The names of one statement.

    Args:
        tree: The statement, as parsed.
        columns: Names of the columns of its tables.
    """

    def __init__(self, tree: exp.Expr, columns: Iterable[str]) -> None:
        written = {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}
        taken = tuple(written.union(name.lower() for name in columns))
        for mark in itertools.chain([""], map(str, itertools.count(1))):
            stems = tuple(stem.format(mark) for stem in _STEMS)
            if not any(name.startswith(stems) for name in taken):
                break
        self._scan, self._from, self._column = stems

    def scan(self, number: int) -> str:
        """The name of a scan."""
        return f"{self._scan}{number}"

    def give(self, tree: exp.Expr) -> None:
        """Names the derived tables and the computed columns that a statement leaves nameless."""
        for number, source in enumerate(tree.find_all(exp.Subquery, exp.Values, exp.Unnest)):
            if isinstance(source.parent, exp.From | exp.Join):
                self._name_source(source, number)
        for select in tree.find_all(exp.Select):
            expressions = [self._named(e, i) for i, e in enumerate(select.expressions)]
            select.set("expressions", expressions)

    def _name_source(self, source: exp.Expr, number: int) -> None:
        if isinstance(source, exp.Subquery) and not isinstance(source.this, exp.Query):
            return  # a join in brackets, which has its tables' names
        alias = source.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(f"{self._from}{number}"))
        if isinstance(source, exp.Values):
            first = source.expressions[0]
            width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
            further = (self._column_name(i) for i in range(len(alias.columns), width))
            alias.set("columns", [*alias.columns, *further])
        source.set("alias", alias)

    def _named(self, projection: exp.Expr, number: int) -> exp.Expr:
        if isinstance(projection.unnest(), _NAMED) or projection.is_star:
            return projection
        name = self._column_name(number)
        if not isinstance(projection, exp.Subquery):
            return exp.alias_(projection, name)
        if not projection.alias:
            projection.set("alias", exp.TableAlias(this=name))
        return projection

    def _column_name(self, number: int) -> exp.Identifier:
        return exp.to_identifier(f"{self._column}{number}")

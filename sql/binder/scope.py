"""Name resolution: what is visible at one level of a query, and what a name there stands for.

Names follow Trino's rule. At each level, from the innermost outwards, the longest leading part of a
dotted name that is a column, qualified or not, means that column. The remaining parts are fields in
it. Case is ignored.

In the bound tree nothing keeps a name from the statement: sources get names that no column has, and
the columns of a query are named by position. So neither engine can resolve a name to anything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    INVALID_PARAMETERS,
    NOT_SUPPORTED,
    SeamlineError,
)
from seamline.sql.functions import COLUMNS
from seamline.sql.locations import location_of
from seamline.sql.near import did_you_mean
from seamline.sql.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A column of a result: its name, '' if nothing can refer to it, and its type."""

    name: str
    type: Type


Typed = tuple[exp.Expr, Type]
"""An expression in canonical form, and its type."""


def output_column(index: int) -> str:
    """Returns the name of a column of a bound query, by its position from 0."""
    return f"c{index}"


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column that a level of a query sees.

    Attributes:
        name: The name as declared, or as the statement names it; '' if it has none.
        type: Its type.
        node: The node that stands for it in the bound tree.
        scan: Scan id and lower-case name, if it is read from a table.
        hidden: Whether `*` leaves it out.
        twins: The columns of its table, including itself, whose names differ only in case, if any.
        sort_only: Whether ORDER BY may use it, and nothing else.
    """

    name: str
    type: Type
    node: exp.Expr
    scan: tuple[str, str] | None = None
    hidden: bool = False
    twins: tuple[str, ...] = ()
    sort_only: bool = False

    @property
    def folded(self) -> str:
        """The name in lower case, for lookups that ignore case."""
        return self.name.lower()


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A relation of FROM.

    Attributes:
        name: The lower-case name that may qualify its columns, in full or by its last parts; empty
            if it has no name.
        alias: Its name in the bound tree.
        columns: Its columns in order.
    """

    name: tuple[str, ...]
    alias: str
    columns: tuple[Column, ...]

    def is_called(self, parts: Sequence[str]) -> bool:
        """Whether these qualifying parts of a column name mean this source."""
        return 0 < len(parts) <= len(self.name) and self.name[-len(parts) :] == tuple(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression: its name in the bound tree, and its columns."""

    alias: str
    output: tuple[Output, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A parenthesized join.

    Attributes:
        query: The query that it becomes in the bound tree, which returns the columns that are read.
        scope: What is visible inside the parentheses.
        nodes: The expressions of the columns that it may return, by column name.
    """

    query: exp.Select
    scope: Scope
    nodes: Mapping[str, exp.Expr]


class Scope:
    """The columns visible at one level of a query, and the level around it.

    Attributes:
        outer: The level around it.
        ctes: Common table expressions by lower-case name.
        sources: The relations of FROM so far.
        row: The columns that an unqualified name, or `*`, may mean: those of all sources, but only
            one for the two of a USING.
        results: Results of the select list so far, by lower-case alias; they are searched last.
        windows: Bound definitions of WINDOW by lower-case name.
        groups: Parenthesized joins among the sources, by alias.
        map_keys: Keys of GROUP BY whose values hold maps.
        is_of_order: Whether it holds the results of a query for its ORDER BY; `outer` is then the
            level that they are computed from.
        depth: The number of lambdas around it.
    """

    def __init__(
        self, outer: Scope | None, ctes: Mapping[str, Cte], *, is_of_order: bool = False
    ) -> None:
        self.outer = outer
        self.ctes = ctes
        self.sources: list[Source] = []
        self.row: list[Column] = []
        self.results: dict[str, Typed] = {}
        self.windows: dict[str, exp.Window] = {}
        self.groups: dict[str, Group] = {}
        self.map_keys: list[Typed] = []
        self.is_of_order = is_of_order
        self.depth = 0

    def add(self, source: Source) -> None:
        """Makes the columns of a source visible."""
        self.sources.append(source)
        self.row.extend(source.columns)

    def owns(self, node: exp.Column) -> bool:
        """Whether a column of the bound tree belongs to a source of this level."""
        return any(source.alias == node.table for source in self.sources)

    def read_groups(self, bound: exp.Expr) -> None:
        """Makes each parenthesized join return what the bound query of this level reads of it."""
        if not self.groups:
            return
        read = {(column.table, column.name) for column in bound.find_all(exp.Column)}
        for alias, group in self.groups.items():
            projections = [
                exp.alias_(node, name)
                for name, node in group.nodes.items()
                if (alias, name) in read
            ]
            nothing = exp.alias_(exp.Literal.number(1), output_column(0))
            group.query.set("expressions", projections or [nothing])
            group.scope.read_groups(group.query)

    def named(self, parts: Sequence[str]) -> list[Column]:
        """Returns the columns of this level that a complete lower-case name means."""
        *table, name = parts
        if not name:
            return []
        if not table:
            return [column for column in self.row if column.folded == name]
        return [
            column
            for source in self.sources
            if source.is_called(table)
            for column in source.columns
            if column.folded == name
        ]


def resolve(
    names: Sequence[exp.Identifier], scope: Scope
) -> tuple[Column | Typed, Sequence[exp.Identifier]]:
    """Resolves a dotted name to a column or a select-list result; the remaining parts are fields.

    Raises:
        SeamlineError: COLUMN_NOT_FOUND, COLUMN_AMBIGUOUS.
    """
    parts = [name.name.lower() for name in names]
    level: Scope | None = scope
    while level is not None:
        for count in range(len(parts), 0, -1):
            matches = level.named(parts[:count])
            if len(matches) > 1 and not matches[0].twins:
                raise _ambiguous(names[:count], level, matches)
            if matches:
                return matches[0], names[count:]
        level = level.outer
    result = scope.results.get(parts[0])
    if result is not None:
        return result, names[1:]
    raise _unknown(names, scope)


def _ambiguous(
    names: Sequence[exp.Identifier], scope: Scope, candidates: Sequence[Column]
) -> SeamlineError:
    owners = [
        ".".join(source.name)
        for source in scope.sources
        if source.name and any(column in source.columns for column in candidates)
    ]
    where = f" is in {' and in '.join(owners)}" if len(owners) > 1 else " stands for several"
    return SeamlineError(
        COLUMN_AMBIGUOUS, f"column {_text(names)}{where}", location=location_of(names[-1])
    )


def _unknown(names: Sequence[exp.Identifier], scope: Scope) -> SeamlineError:
    """Returns the error for a name that no level has: its table or its column is unknown."""
    parts = [name.name.lower() for name in names]
    levels = [scope]
    while levels[-1].outer is not None:
        levels.append(levels[-1].outer)
    is_table = any(s.is_called(parts[:-1]) for level in levels for s in level.sources)
    if len(parts) > 1 and not is_table:
        tables = {s.name[-1] for level in levels for s in level.sources if s.name}
        return SeamlineError(
            COLUMN_NOT_FOUND,
            f"there is no table {_text(names[:-1])} in FROM",
            location=location_of(names[-1]),
            hint=did_you_mean(parts[-2], tables),
        )
    name = parts[-1]
    if names[-1].name.upper() == "CURRENT_PATH" and not names[-1].args.get("quoted"):
        return SeamlineError(
            NOT_SUPPORTED,
            "current_path is not supported",
            location=location_of(names[-1]),
            hint="Names are looked up in current_schema.",
        )
    candidates = {column.name for level in levels for column in level.row if column.name}
    if not name.startswith("$"):
        candidates = {other for other in candidates if not other.startswith("$")}
    hints = [did_you_mean(name, candidates)]
    if len(names) == 1 and names[0].args.get("quoted"):
        hints.append(f"A text is in single quotes: '{names[0].name}'.")
    elif name in COLUMNS:
        hints.append(f"Write {COLUMNS[name]}.")
    return SeamlineError(
        COLUMN_NOT_FOUND,
        f"column {name} does not exist",
        location=location_of(names[-1]),
        hint=" ".join(filter(None, hints)) or None,
    )


def _text(names: Sequence[exp.Identifier]) -> str:
    return ".".join(name.name for name in names)


def unsupported(node: exp.Expr) -> SeamlineError:
    """Returns the error for a node of an unknown kind."""
    if isinstance(node, exp.Placeholder):
        return SeamlineError(INVALID_PARAMETERS, "a placeholder has no value")
    form, instead = _OTHERS.get(type(node), (node.sql("trino")[:80], None))
    return SeamlineError(
        NOT_SUPPORTED, f"{form} is not supported", hint=instead, location=location_of(node)
    )


_OTHERS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.BitwiseAnd: ("the operator &", "bitwise_and(x, y) does that."),
    exp.BitwiseLeftShift: ("the operator <<", "bitwise_left_shift(x, n) does that."),
    exp.BitwiseNot: ("the operator ~", "bitwise_not(x) does that."),
    exp.BitwiseOr: ("the operator |", "bitwise_or(x, y) does that."),
    exp.BitwiseRightShift: ("the operator >>", "bitwise_right_shift(x, n) does that."),
    exp.BitwiseXor: ("the operator ^", "bitwise_xor(x, y) does that."),
    exp.Glob: ("GLOB", "LIKE and regexp_like(x, '…') find patterns."),
    exp.ILike: ("ILIKE", "lower(x) LIKE '…' finds letters of either case."),
    exp.JSONExtract: ("the operator ->", "json_extract(x, '$.field') does that."),
    exp.JSONExtractScalar: ("the operator ->>", "json_extract_scalar(x, '$.field') does that."),
    exp.Overlaps: ("OVERLAPS", "start1 < end2 AND start2 < end1 does that."),
    exp.RegexpLike: ("RLIKE", "regexp_like(x, '…') does that."),
    exp.SimilarTo: ("SIMILAR TO", "regexp_like(x, '^…$') does that."),
}
"""Operators of other dialects, and what to write instead."""

"""Random expressions of a wanted type over the columns of a scope."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fuzz import schema
from fuzz.arguments import HINTS, LEFT_OUT
from fuzz.nodes import Node, listed, ours, same
from seamline.errors import SeamlineError
from seamline.sql import coercion, types
from seamline.sql.expressions import casts
from seamline.sql.functions import FUNCTIONS, is_comparable, is_ordered, patterns, resolve
from seamline.sql.types import Array, Decimal, Field, Function, Map, Row, Timestamp, Type

DEPTH = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column that an expression may read.

    Attributes:
        name: As it is written.
        type: Its type.
        is_stored: Whether its values are a table's own, not those of one of several equal rows.
    """

    name: str
    type: Type
    is_stored: bool = True

    @property
    def node(self) -> Node:
        """Reading it."""
        return same(str(self.type), self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may read.

    Attributes:
        columns: The columns.
        unique: Columns that no two rows have alike, if there are such; they can be sorted by.
    """

    columns: tuple[Column, ...]
    unique: tuple[Column, ...] = ()

    def of(self, type_: Type) -> list[Column]:
        """Columns of a type."""
        return [column for column in self.columns if column.type == type_]


EMPTY = Scope(())


class Expressions:
    """Makes expressions.

    Args:
        chance: Decides.
        subquery: Makes a boolean from a query over the scope; None for no subqueries.
        plain: Whether to use only what means the same in plain DuckDB.
    """

    def __init__(
        self,
        chance: random.Random,
        subquery: Callable[[Scope], Node | None] | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self._chance = chance
        self._subquery = subquery
        self._plain = plain
        self._names = itertools.count()

    # --- Any type ------------------------------------------------------------------------------

    def of(self, type_: Type, scope: Scope, depth: int = DEPTH) -> Node:
        """An expression of a type."""
        columns = scope.of(type_)
        roll = self._chance.random()
        if columns and (depth <= 0 or roll < 0.35):
            return self._chance.choice(columns).node
        if depth <= 0 or roll < 0.42:
            return self.literal(type_)
        if roll < 0.5:
            return self._conditional(type_, scope, depth - 1)
        if roll < 0.58:
            found = self._cast(type_, scope, depth - 1)
            if found is not None:
                return found
        if roll < 0.78 and not self._plain:
            found = self._call(type_, scope, depth - 1)
            if found is not None:
                return found
        return self._operation(type_, scope, depth - 1)

    def any(self, scope: Scope, depth: int = DEPTH) -> tuple[Node, Type]:
        """An expression of any type, with its type; often that of a column."""
        if scope.columns and self._chance.random() < 0.6:
            type_ = self._chance.choice(scope.columns).type
        else:
            type_ = self._chance.choice(list(calls().values()))[0].returns
            if not is_result(type_) or self._chance.random() < 0.6:
                type_ = schema.any_type(self._chance)
        return self.of(type_, scope, depth), type_

    def literal(self, type_: Type) -> Node:
        """A constant."""
        value = schema.value(self._chance, type_)
        return Node(str(type_), schema.literal(value, type_), plain_literal(value, type_))

    def condition(self, scope: Scope, depth: int = DEPTH) -> Node:
        """A boolean, more often a comparison than not."""
        return self._boolean(scope, depth - 1)

    # --- By type -------------------------------------------------------------------------------

    def _operation(self, type_: Type, scope: Scope, depth: int) -> Node:
        if self._plain and not _is_plainly_made(type_):
            return self._conditional(type_, scope, depth)
        match type_:
            case types.BOOLEAN:
                return self._boolean(scope, depth)
            case types.VARCHAR:
                return self._text(scope, depth)
            case types.DATE | Timestamp():
                return self._moment(type_, scope, depth)
            case Decimal():
                return self._decimal(type_, scope, depth)
            case Array(element):
                items = [
                    self.of(element, scope, depth - 1) for _ in range(self._chance.choice((1, 2)))
                ]
                array = ours(str(type_), "ARRAY[{0}]", listed(items))
                return ours(str(type_), f"CAST({{0}} AS {type_})", array)
            case Row(fields):
                items = [self.of(field.type, scope, depth - 1) for field in fields]
                row = Node("row", "", None, tuple(items))
                holes = ", ".join(f"{{{place}}}" for place in range(len(items)))
                row = dataclasses.replace(row, sql=f"ROW({holes})")
                return ours(str(type_), f"CAST({{0}} AS {type_})", row)
        if types.is_numeric(type_):
            return self._arithmetic(type_, scope, depth)
        return self._taken_out(type_, scope) or self._conditional(type_, scope, depth)

    def _taken_out(self, type_: Type, scope: Scope) -> Node | None:
        """An element or field of a column."""
        found: list[Node] = []
        for column in scope.columns:
            match column.type:
                case Array(element) if element == type_:
                    found.append(ours(str(type_), "element_at({0}, 1)", column.node))
                case Map(types.VARCHAR, value) if value == type_:
                    found.append(ours(str(type_), "element_at({0}, 'a')", column.node))
                case Row(fields):
                    found += [
                        ours(str(type_), f"({{0}}).{types.quoted(f.name)}", column.node)
                        for f in fields
                        if f.type == type_
                    ]
        return self._chance.choice(found) if found else None

    def _arithmetic(self, type_: Type, scope: Scope, depth: int) -> Node:
        kind = str(type_)
        one, other = self.of(type_, scope, depth), self.of(type_, scope, depth)
        operator = self._chance.choice("++--*" if self._plain else "++--*/%")
        if operator in "/%":
            return ours(kind, f"({{0}} {operator} {{1}})", one, other)
        if type_ in types.FLOATS:
            return ours(kind, f"({{0}} {operator} {{1}})", one, other)
        return same(kind, f"({{0}} {operator} {{1}})", one, other)

    def _decimal(self, type_: Decimal, scope: Scope, depth: int) -> Node:
        """Of decimals and integers of other sizes, whose result is then cast."""
        one_type, other_type = (
            self._chance.choice((*schema.DECIMALS, types.BIGINT, types.INTEGER)) for _ in range(2)
        )
        if not isinstance(one_type, Decimal) and not isinstance(other_type, Decimal):
            one_type = type_
        operator = self._chance.choice("++--*/%")
        if operator == "*" and _scale(one_type) + _scale(other_type) > types.MAX_DECIMAL_PRECISION:
            operator = "+"
        one, other = self.of(one_type, scope, depth), self.of(other_type, scope, depth)
        inner = ours("decimal", f"({{0}} {operator} {{1}})", one, other)
        return ours(str(type_), f"CAST({{0}} AS {type_})", inner)

    def _text(self, scope: Scope, depth: int) -> Node:
        one = self.of(types.VARCHAR, scope, depth)
        match self._chance.choice((0, 1, 3)) if self._plain else self._chance.randrange(4):
            case 0:
                return same("varchar", "({0} || {1})", one, self.of(types.VARCHAR, scope, depth))
            case 1:
                source = self._chance.choice((types.INTEGER, types.BIGINT, types.DATE))
                return same("varchar", "CAST({0} AS varchar)", self.of(source, scope, depth))
            case 2:
                length = self._chance.choice((0, 1, 3))
                return ours("varchar", f"CAST({{0}} AS varchar({length}))", one)
        return same("varchar", "replace({0}, 'a', 'bb')", one)

    def _moment(self, type_: Type, scope: Scope, depth: int) -> Node:
        kind, one = str(type_), self.of(type_, scope, depth)
        unit = self._chance.choice(("DAY", "MONTH", "YEAR", "WEEK"))
        if isinstance(type_, Timestamp):
            unit = self._chance.choice((unit, "HOUR", "SECOND", "MINUTE"))
        match self._chance.randrange(3):
            case 0:
                unit = "DAY" if unit == "WEEK" else unit
                amount = self._chance.choice((1, 3, 31, 400))
                sign = self._chance.choice("+-")
                return ours(kind, f"({{0}} {sign} INTERVAL '{amount}' {unit})", one)
            case 1:
                return ours(kind, f"date_trunc('{unit.lower()}', {{0}})", one)
        number = self.of(types.INTEGER, scope, min(depth, 1))
        return ours(kind, f"date_add('{unit.lower()}', {{0}} % 1000, {{1}})", number, one)

    # --- Booleans ------------------------------------------------------------------------------

    def _boolean(self, scope: Scope, depth: int) -> Node:
        roll = self._chance.random()
        if roll < 0.12 and self._subquery is not None:
            found = self._subquery(scope)
            if found is not None:
                return found
        if roll < 0.34 and depth > 0:
            one, other = self._boolean(scope, depth - 1), self._boolean(scope, depth - 1)
            word = self._chance.choice(("AND", "OR", "AND NOT"))
            return same("boolean", f"({{0}} {word} {{1}})", one, other)
        if roll < 0.4:
            return same("boolean", "(NOT {0})", self._boolean(scope, depth - 1))
        if roll < 0.48:
            return self._null_test(scope, depth)
        if roll < 0.54:
            pattern = self._chance.choice(("'a%'", "'%b'", "'_'", "'%'", "''", "'x_y%'"))
            return same("boolean", f"({{0}} LIKE {pattern})", self.of(types.VARCHAR, scope, depth))
        return self._comparison(scope, depth)

    def _null_test(self, scope: Scope, depth: int) -> Node:
        one, type_ = self.any(scope, depth - 1)
        if self._chance.random() < 0.5 or not is_comparable(type_):
            word = self._chance.choice(("IS NULL", "IS NOT NULL"))
            return same("boolean", f"({{0}} {word})", one)
        word = self._chance.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        return same("boolean", f"({{0}} {word} {{1}})", one, self.of(type_, scope, depth - 1))

    def _comparison(self, scope: Scope, depth: int) -> Node:
        one, type_ = self.any(scope, depth - 1)
        if not is_comparable(type_) or (self._plain and not is_plain(type_)):
            return same("boolean", "({0} IS NULL)", one)
        other_type = self._partner(type_)
        other = self.of(other_type, scope, depth - 1)
        form = same if other_type == type_ and is_plain(type_) else ours
        signs = ("=", "<>") if not is_ordered(type_) else ("=", "=", "<>", "<", "<=", ">", ">=")
        match self._chance.randrange(8):
            case 0:
                word = self._chance.choice(("IN", "NOT IN"))
                items = [self.of(type_, scope, 0) for _ in range(self._chance.choice((1, 2, 3)))]
                return form("boolean", f"({{0}} {word} ({{1}}))", one, listed(items))
            case 1 if is_ordered(type_):
                return form(
                    "boolean", "({0} BETWEEN {1} AND {2})", one, other, self.of(type_, scope, 0)
                )
        return form("boolean", f"({{0}} {self._chance.choice(signs)} {{1}})", one, other)

    def _partner(self, type_: Type) -> Type:
        """A type that compares with it, most often itself."""
        if self._plain or self._chance.random() < 0.75:
            return type_
        numbers: tuple[Type, ...] = (*types.INTEGERS, *types.FLOATS, *schema.DECIMALS)
        moments: tuple[Type, ...] = (types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ)
        for group in (numbers, moments):
            if type_ in group:
                return self._chance.choice(group)
        return type_

    # --- Conditionals, casts, calls ------------------------------------------------------------

    def _conditional(self, type_: Type, scope: Scope, depth: int) -> Node:
        kind = str(type_)
        one, other = self.of(type_, scope, depth), self.of(type_, scope, depth)
        match self._chance.randrange(4):
            case 0:
                return same(kind, "coalesce({0}, {1})", one, other)
            case 1 if is_comparable(type_) and (is_plain(type_) or not self._plain):
                form = same if is_plain(type_) else ours
                return form(kind, "nullif({0}, {1})", one, other)
            case 2:
                value, value_type = self.any(scope, depth - 1)
                if is_comparable(value_type) and (is_plain(value_type) or not self._plain):
                    when = self.of(value_type, scope, 0)
                    form = same if is_plain(value_type) else ours
                    return form(
                        kind, "CASE {0} WHEN {1} THEN {2} ELSE {3} END", value, when, one, other
                    )
        test = self._boolean(scope, depth - 1)
        return same(kind, "CASE WHEN {0} THEN {1} ELSE {2} END", test, one, other)

    def _cast(self, type_: Type, scope: Scope, depth: int) -> Node | None:
        sources = [
            t
            for t in (*_SOURCES, *(c.type for c in scope.columns))
            if _casts(t, type_) and (not self._plain or _is_plain_cast(t, type_))
        ]
        if not sources:
            return None
        source = self._chance.choice(sources)
        word = self._chance.choice(("CAST", "TRY_CAST"))
        inner = self.of(source, scope, depth)
        form = same if _is_plain_cast(source, type_) else ours
        return form(str(type_), f"{word}({{0}} AS {type_})", inner)

    def call(self, scope: Scope, depth: int = 1) -> tuple[Node, Type]:
        """A call of any function, all signatures being alike, with its type."""
        made = self._chance.choice(self._chance.choice(list(calls().values())))
        return self._made(made, scope, depth - 1), made.returns

    def _call(self, type_: Type, scope: Scope, depth: int) -> Node | None:
        found = calls_of().get(str(type_))
        if not found:
            return None
        return self._made(self._chance.choice(self._chance.choice(found)), scope, depth)

    def _made(self, made: Signature, scope: Scope, depth: int) -> Node:
        arguments = [
            self.argument(made.name, place, parameter, scope, depth)
            for place, parameter in enumerate(made.parameters)
        ]
        return ours(str(made.returns), f"{made.name}({{0}})", listed(arguments))

    def argument(self, name: str, place: int, type_: Type, scope: Scope, depth: int) -> Node:
        """An argument of a function, one that it can do something with if that is known."""
        hints = [hint for hint in HINTS.get((name, place), ()) if _fits(hint, type_)]
        if hints and self._chance.random() < 0.9:
            hint = self._chance.choice(hints)
            return ours(str(type_), f"json_parse({hint})" if type_ == types.JSON else hint)
        if isinstance(type_, Function):
            return self._lambda(type_, scope, depth)
        return self.of(type_, scope, depth)

    def _lambda(self, type_: Function, scope: Scope, depth: int) -> Node:
        names = [f"l{next(self._names)}" for _ in type_.parameters]
        given = tuple(Column(n, t) for n, t in zip(names, type_.parameters, strict=True))
        inner = Expressions(self._chance)  # a lambda has no subquery
        inner._names = self._names
        body = inner.of(type_.returns, Scope((*given, *given, *scope.columns)), min(depth, 1))
        return ours("lambda", f"({', '.join(names)}) -> {{0}}", body)


def _fits(hint: str, type_: Type) -> bool:
    if hint.startswith("'"):
        return type_ in (types.VARCHAR, types.JSON)
    if hint.startswith("X"):
        return isinstance(type_, types.Varbinary)
    return types.is_numeric(type_) and (("e0" in hint) == (type_ in types.FLOATS))


def _is_plain_cast(source: Type, target: Type) -> bool:
    """Whether DuckDB's own cast means the same; a narrowing one fails, or is null."""
    return source in types.INTEGERS and target in types.INTEGERS


def _is_plainly_made(type_: Type) -> bool:
    """Whether an operator of DuckDB's own gives the type as Trino's does."""
    return type_ in (types.BOOLEAN, types.VARCHAR) or type_ in types.INTEGERS


def _scale(type_: Type) -> int:
    return type_.scale if isinstance(type_, Decimal) else 0


def is_plain(type_: Type) -> bool:
    """Whether DuckDB compares values as Trino does: not where NaN may be."""
    return not any(
        types.contains(type_, t) for t in (*types.FLOATS, types.JSON)
    ) and not isinstance(type_, Array | Row | Map)


def plain_literal(value: Any, type_: Type) -> str | None:
    """A constant in DuckDB's own SQL; None for what is nested or cannot be written."""
    if isinstance(type_, Array | Map | Row):
        return None
    name = "VARCHAR" if type_ == types.JSON else types.to_duckdb(type_)
    if value is None:
        return f"CAST(NULL AS {name})"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS {name})"
    text = str(value).replace("'", "''").replace("\0", "")
    return f"CAST('{text}' AS {name})"


# --- The registry --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """A call that can be made: a name, and types of its arguments and of its result."""

    name: str
    parameters: tuple[Type, ...]
    returns: Type


@dataclasses.dataclass(frozen=True, slots=True)
class _Given:
    """A lambda of known types."""

    arity: int
    returns: Type

    def result(self, parameters: tuple[Type, ...]) -> Type:
        """See `Lambda`."""
        return self.returns


_ASSIGNMENTS = 12
_ELEMENTS: Sequence[Type] = (
    types.VARCHAR, types.BIGINT, types.DOUBLE, types.INTEGER, Decimal(9, 2), types.DATE,
    types.TIMESTAMP, types.BOOLEAN, types.REAL, types.VARBINARY, types.TIMESTAMP_TZ, types.UUID,
    Decimal(38, 9), Array(types.BIGINT), types.anonymous_row((types.BIGINT, types.VARCHAR)),
    Row((Field("x", types.BIGINT), Field("M", types.VARCHAR))),
)  # fmt: skip


@functools.cache
def calls() -> dict[str, list[Signature]]:
    """Calls of every scalar function, by signature and what variables stand for."""
    chance = random.Random("calls")
    found: dict[str, list[Signature]] = {}
    for overload in itertools.chain.from_iterable(FUNCTIONS.values()):
        if overload.kind != "scalar" or overload.name.startswith("$") or overload.name in LEFT_OUT:
            continue
        for _ in range(_ASSIGNMENTS):
            made = assigned(overload, chance)
            if made is not None and made not in found.setdefault(overload.signature, []):
                found[overload.signature].append(made)
    return {signature: made for signature, made in found.items() if made}


@functools.cache
def calls_of() -> dict[str, list[list[Signature]]]:
    """The same by type of the result: a list a signature."""
    found: dict[str, dict[str, list[Signature]]] = {}
    for signature, found_ in calls().items():
        for one in found_:
            found.setdefault(str(one.returns), {}).setdefault(signature, []).append(one)
    return {type_: list(by_signature.values()) for type_, by_signature in found.items()}


def assigned(overload: Any, chance: random.Random) -> Signature | None:
    """A call of an overload, with types for its variables; None if it would be another's."""
    ordered = [type_ for type_ in _ELEMENTS if is_ordered(type_)]
    numbers = [*types.INTEGERS, *types.FLOATS, *schema.DECIMALS]
    bound = {
        **{variable: chance.choice(_ELEMENTS) for variable in ("T", "U", "E", "S", "R", "any")},
        **{variable: chance.choice(ordered) for variable in "OK"},
        "N": chance.choice(numbers),
        "I": chance.choice(types.INTEGERS),
        **{variable: chance.choice(schema.DECIMALS) for variable in "CD"},
    }
    repeated = list(overload.parameters[-1:]) * chance.choice((0, 1, 2)) * overload.variadic
    parameters = [
        patterns.substitute(patterns.parsed(p), bound) for p in (*overload.parameters, *repeated)
    ]
    if not all(is_result(p) for p in parameters if not isinstance(p, Function)):
        return None
    arguments = [
        _Given(len(p.parameters), p.returns) if isinstance(p, Function) else p for p in parameters
    ]
    try:
        resolved = resolve(overload.name, arguments)
    except SeamlineError:
        return None
    if resolved.overload is not overload:
        return None
    return Signature(overload.name, resolved.parameters, resolved.returns)


def is_result(type_: Type) -> bool:
    """Whether values of the type can be made and given back."""
    return not types.contains(type_, types.Interval) and not isinstance(
        type_, types.Char | types.Unsupported | Function
    )


_SOURCES: Sequence[Type] = (
    *types.INTEGERS, *types.FLOATS, types.VARCHAR, types.DATE, types.TIMESTAMP,
    types.TIMESTAMP_TZ, types.BOOLEAN, types.UUID, types.JSON, *schema.DECIMALS,
)  # fmt: skip


def casts_between() -> Iterator[tuple[Type, Type]]:
    """Every pair of types of which the one can be cast to the other."""
    yield from (pair for pair in itertools.product(_SOURCES, _SOURCES) if _casts(*pair))


@functools.cache
def _casts(source: Type, target: Type) -> bool:
    if source == target:
        return False
    try:
        casts.overload(source, target, safe=True)
        casts.overload(source, target, safe=False)
    except SeamlineError:
        return coercion.can_coerce(source, target)
    return True


def simplest(kind: str) -> Node | None:
    """The least expression of a type, by the type's name."""
    try:
        type_ = types.parse(kind)
    except SeamlineError:
        return None
    return Node(kind, schema.literal(None, type_), plain_literal(None, type_))

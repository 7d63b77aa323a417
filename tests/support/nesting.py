"""Calls of every function of the registry inside each other, as far as their types allow."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator

from sqlglot import exp

from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.binder.conversions import explicit_cast
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import CallSpec, call
from seamline.sql.functions import FUNCTIONS, Overload, Resolved, resolve
from seamline.sql.functions.patterns import parsed, substitute
from seamline.sql.types import Type

VARIABLES: dict[str, Type] = {
    "T": types.VARCHAR,
    "U": types.BIGINT,
    "any": types.VARCHAR,
    "E": types.VARCHAR,
    "K": types.VARCHAR,
    "O": types.BIGINT,
    "N": types.DOUBLE,
    "I": types.BIGINT,
    "D": types.Decimal(12, 2),
    "C": types.Decimal(10, 4),
    "S": types.VARCHAR,
    "R": types.VARCHAR,
    "timestamp": types.TIMESTAMP,
    "timestamp with time zone": types.TIMESTAMP_TZ,
}
"""What a variable of a signature stands for."""

NOW = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)

SAMPLES: dict[Type, str] = {
    types.BOOLEAN: "true",
    types.TINYINT: "CAST(3 AS tinyint)",
    types.SMALLINT: "CAST(3 AS smallint)",
    types.INTEGER: "3",
    types.BIGINT: "CAST(2 AS bigint)",
    types.REAL: "CAST(2.5e0 AS real)",
    types.DOUBLE: "2.5e0",
    types.Decimal(12, 2): "CAST(2.25 AS decimal(12,2))",
    types.Decimal(10, 4): "CAST(1.5 AS decimal(10,4))",
    types.VARCHAR: "'2bc'",
    types.VARBINARY: "X'326263'",
    types.JSON: "JSON '[1, 2]'",
    types.DATE: "DATE '2024-02-29'",
    types.TIMESTAMP: "TIMESTAMP '2024-02-29 01:02:03.456'",
    types.TIMESTAMP_TZ: "TIMESTAMP '2024-02-29 01:02:03.456 UTC'",
    types.TIME: "TIME '01:02:03.456'",
    types.INTERVAL_DAY: "INTERVAL '36' HOUR",
    types.INTERVAL_YEAR: "INTERVAL '14' MONTH",
    types.Array(types.VARCHAR): "ARRAY['a', '2bc']",
    types.Map(types.VARCHAR, types.VARCHAR): "MAP(ARRAY['2bc'], ARRAY['x'])",
}
"""A value of each type."""


RANDOM = {"shuffle", "random", "rand", "uuid"}
"""What answers otherwise each time."""


def parameters_of(overload: Overload) -> list[Type]:
    """Types that an overload takes; of what repeats, three."""
    patterns = list(overload.parameters) + list(overload.parameters[-1:]) * 2 * overload.variadic
    return [substitute(parsed(p), VARIABLES) for p in patterns]


def scalars() -> Iterator[tuple[Resolved, int]]:
    """Every scalar overload with each of its parameters in turn: the place to nest in."""
    for overload in itertools.chain.from_iterable(FUNCTIONS.values()):
        taken = parameters_of(overload)
        if any(isinstance(type_, types.Function) for type_ in taken):
            continue  # a lambda is not a value; tests/slt/lambdas.slt nests them
        if overload.kind == "scalar" and taken:
            resolved = resolve(overload.name, taken)
            for place, type_ in enumerate(resolved.parameters):
                if converts(resolved.returns, type_):
                    yield resolved, place


def converts(source: Type, target: Type) -> bool:
    """Whether a result of the one type can be made an argument of the other."""
    try:
        casts.overload(source, target, safe=False)
    except SeamlineError:
        return False
    return True


def nested(resolved: Resolved, place: int, depth: int) -> exp.Expr:
    """The call inside itself, that deep, over columns."""
    node: exp.Expr = exp.column("x0", "t")
    for level in range(depth):
        arguments: list[exp.Expr] = [
            exp.column(f"x{i}", "t") for i in range(len(resolved.parameters))
        ]
        if level:
            wanted = resolved.parameters[place]
            same = resolved.returns == wanted
            arguments[place] = (
                node if same else explicit_cast(node, resolved.returns, wanted, safe=False)
            )
        spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
        node = call(spec, arguments)
    return node


def statements(resolved: Resolved, place: int, depth: int) -> tuple[str, str] | None:
    """The calls inside each other, and one after another; None for what nobody can write."""
    name = resolved.overload.name
    if (
        name.startswith("$")
        or name in RANDOM
        or any(type_ not in SAMPLES for type_ in resolved.parameters)
    ):
        return None
    samples, type_ = [SAMPLES[t] for t in resolved.parameters], resolved.parameters[place]
    arguments = [*samples[:place], "{}", *samples[place + 1 :]]
    form = f"CAST({name}({', '.join(arguments)}) AS {type_})"
    source = steps = f"(VALUES {samples[place]}) AS v(x)"
    inside = f"CAST(v.x AS {type_})"
    for _ in range(depth):
        inside = form.format(inside)
        steps = f"(SELECT {form.format('v.x')} AS x FROM {steps}) AS v"
    return f"SELECT {inside} FROM {source}", f"SELECT v.x FROM {steps}"

"""Goal: an expression has on DuckDB the type that it is bound with, whatever its arguments are.

Another one would be found out by whatever is around it: a function that DuckDB does not find for
such an argument, or finds another one for. Method: DuckDB says the type of a call of each signature
with values, and with nulls, in all of its arguments and in each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest
from fuzz import schema
from fuzz.expressions import EMPTY, Expressions, Signature, calls
from support import nesting

from seamline.connectors.duckdb.instances import Instance
from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.binder.qualify import qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.types import Function

CALLS_OF_A_SIGNATURE = 2


def statements(chance: random.Random, made: Signature) -> Iterator[str]:
    expressions = Expressions(chance)
    values, nulls = [], []
    for place, type_ in enumerate(made.parameters):
        node = expressions.argument(made.name, place, type_, EMPTY, 0)
        is_lambda = isinstance(type_, Function)
        values.append(node.trino)
        nulls.append(node.trino if is_lambda else schema.literal(None, type_))
    for place in range(len(values)):
        arguments = [*values[:place], nulls[place], *values[place + 1 :]]
        yield f"SELECT {made.name}({', '.join(arguments)})"
    for arguments in (values, nulls):
        yield f"SELECT {made.name}({', '.join(arguments)})"


def difference(instance: Instance, sql: str) -> str:
    query = parse.parse(sql)
    assert isinstance(query, parse.Query)
    try:
        bound = qualify(query.tree, [], now=nesting.NOW)
    except SeamlineError:
        return ""  # a literal that is none
    instance.learn(render.kernels(bound.tree, "duckdb"))
    (found,) = instance.connection.sql(render.to_duckdb(bound.tree)).types
    wanted = types.to_duckdb(bound.output[0].type)
    same = str(found).replace('"', "") == wanted.replace('"', "")
    return "" if same else f"{sql} is {found}, not {wanted}"


@pytest.mark.prove
def test_a_call_has_the_type_that_it_is_bound_with() -> None:
    chance, wrong = random.Random(1), []
    with duckdb.connect(":memory:") as connection:
        instance = Instance(connection)
        for found in calls().values():
            for made in found[:CALLS_OF_A_SIGNATURE]:
                wrong += [w for s in statements(chance, made) if (w := difference(instance, s))]
    assert not wrong, "\n".join(wrong)

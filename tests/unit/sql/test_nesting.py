"""Goal: calls inside calls are as much text as there are calls, for every function and engine.

Method: each function of the registry is nested in itself, in each of its arguments, up to twelve
deep, through a cast where its types ask for one; so does each pair of casts. Each level must add
the same length, whatever is rendered. And what such a call answers is what the same calls answer
one after another, each in a query of its own.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp
from support import nesting
from support.gateway import Gateway

from seamline.errors import INTERNAL_ERROR, SeamlineError
from seamline.sql import types
from seamline.sql.binder.conversions import explicit_cast
from seamline.sql.binder.qualify import qualify, references
from seamline.sql.engines import render
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import CallSpec, call
from seamline.sql.functions import FUNCTIONS, resolve
from seamline.sql.parsing import parse

DEPTH = 12
RENDER = {"duckdb": render.to_duckdb, "spark": render.to_spark}
ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.prove)]
SCALARS = list(nesting.scalars())


def text_of(engine: str, node: exp.Expr) -> int:
    return len(RENDER[engine](exp.select(node)))


def uneven(size: Callable[[int], int]) -> list[int]:
    """Sizes by depth, as far as a level adds more than the third one did; none if none does."""
    sizes = [size(1), size(2), size(3)]
    step = sizes[2] - sizes[1] + 16
    for depth in range(4, DEPTH + 1):
        sizes.append(size(depth))
        if sizes[-1] - sizes[-2] > step:
            return sizes
    return []


def size_of(engine: str, make: Callable[[int], exp.Expr]) -> Callable[[int], int]:
    return lambda depth: text_of(engine, make(depth))


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_nested_calls_grow_with_their_depth(engine: str) -> None:
    wrong = {
        (resolved.overload.signature, place): found
        for resolved, place in SCALARS
        if (found := uneven(size_of(engine, functools.partial(nesting.nested, resolved, place))))
    }
    assert not wrong


@pytest.mark.soak
@pytest.mark.parametrize("engine", RENDER)
def test_nested_casts_grow_with_their_depth(engine: str) -> None:
    def there_and_back(
        source: types.Type, target: types.Type, depth: int, *, safe: bool
    ) -> exp.Expr:
        node: exp.Expr = exp.column("x", "t")
        for _ in range(depth):
            node = explicit_cast(node, source, target, safe=safe)
            node = explicit_cast(node, target, source, safe=safe)
        return node

    wrong = {}
    for one, other in itertools.permutations(nesting.SAMPLES, 2):
        if nesting.converts(one, other) and nesting.converts(other, one):
            for safe in (False, True):
                make = functools.partial(there_and_back, one, other, safe=safe)
                if found := uneven(size_of(engine, make)):
                    wrong[str(one), str(other), safe] = found
    assert not wrong


@pytest.mark.prove
@pytest.mark.parametrize("engine", ENGINES)
def test_an_aggregate_repeats_no_argument(engine: str) -> None:
    """A long argument makes the call longer by its own length."""
    deep = resolve("lower", [types.VARCHAR])
    for overload in itertools.chain.from_iterable(FUNCTIONS.values()):
        taken = nesting.parameters_of(overload)
        if overload.kind == "scalar" or not taken or overload.parts:
            continue
        resolved = resolve(overload.name, taken)
        spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
        for place, depth in itertools.product(range(len(taken)), (1, 101)):
            arguments: list[exp.Expr] = [exp.column(f"x{i}", "t") for i in range(len(taken))]
            long = nesting.nested(deep, 0, depth)
            if resolved.parameters[place] != types.VARCHAR:
                cast = casts.overload(types.VARCHAR, types.BIGINT, safe=False)
                long = call(CallSpec(cast, (types.VARCHAR,), types.BIGINT), [long])
            arguments[place] = long
            size = text_of(engine, call(spec, arguments))
            assert size <= text_of(engine, long) + 1000, overload.signature


def test_a_statement_of_nested_calls_is_little_work() -> None:
    """The one that took 20 seconds, and its kind: nodes bound and text written, counted."""
    for call_, start in (
        ("substr({}, 2)", "s"),
        ("CAST(CAST(TRY_CAST({} AS double) AS bigint) AS varchar)", "s"),
        ("greatest({}, 1)", "1"),
        ("nullif({}, 'a')", "s"),
        ("CASE {} WHEN 'a' THEN 'b' END", "s"),
        ("split_part({}, ',', 2)", "s"),
        ("date_diff('month', DATE '2024-01-01', date_add('day', {}, DATE '2024-01-01'))", "1"),
    ):

        def work(depth: int, call_: str = call_, start: str = start) -> int:
            sql = start
            for _ in range(depth):
                sql = call_.format(sql)
            tree = parse.parse(f"SELECT {sql} FROM (VALUES 'a') AS t(s)")
            assert isinstance(tree, parse.Query)
            assert not references(tree.tree)
            bound = qualify(tree.tree, [], now=nesting.NOW).tree
            return sum(1 for _ in bound.walk()) + sum(
                len(write(bound)) for write in RENDER.values()
            )

        assert not uneven(work), call_


@pytest.mark.soak
def test_nested_calls_answer_as_one_after_another(offline_gateway: Gateway) -> None:
    wrong = []
    for resolved, place in SCALARS:
        pair = nesting.statements(resolved, place, 3)
        if pair is not None:
            found = [answer(offline_gateway, sql) for sql in pair]
            if repr(found[0]) != repr(found[1]):
                wrong.append((pair[0], found))
    assert not wrong


def answer(gateway: Gateway, sql: str) -> Any:
    try:
        return gateway.rows(sql, "duckdb")
    except SeamlineError as error:
        assert error.code is not INTERNAL_ERROR, sql
        return error.code.name

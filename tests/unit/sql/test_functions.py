"""Goal: nothing that can be called goes without an answer that somebody has read.

Method: the statements of all text files are bound, and what they call is compared with the table of
functions; every conversion is bound and run, and which there are is a golden file.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterator

import pytest
from support import golden, slt
from support.gateway import Gateway
from support.sources import ROOT

from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.binder.qualify import qualify, references
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import Call
from seamline.sql.functions import FUNCTIONS, Overload, resolve
from seamline.sql.parsing import parse

NOW = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
FILES = [*(ROOT / "tests" / "slt").glob("*.slt"), *(ROOT / "tests" / "unit" / "sql").glob("*.slt")]
NOT_CALLED = {
    ("substring", ("varchar", "bigint")),  # listed for people; the grammar makes it substr
    ("substring", ("varchar", "bigint", "bigint")),
}

Signature = tuple[str, tuple[str, ...]]


def signature(overload: Overload) -> Signature:
    return overload.name, overload.parameters


@functools.cache
def called() -> frozenset[Signature]:
    """Every signature that a statement of the text files calls."""
    return frozenset(
        found
        for path in FILES
        for case in slt.parse(path)
        for found in calls_in(case, slt.zone(path) or "UTC")
    )


def calls_in(case: slt.Case, zone: str) -> Iterator[Signature]:
    try:
        parsed = parse.parse(case.sql)
        if not isinstance(parsed, parse.Query) or references(parsed.tree):
            return
        bound = qualify(parsed.tree, [], now=NOW, zone=zone)
    except SeamlineError:
        return
    for node in bound.tree.find_all(Call):
        yield signature(node.spec.overload)


@pytest.mark.prove
def test_every_signature_has_a_case() -> None:
    declared = {signature(o) for overloads in FUNCTIONS.values() for o in overloads}
    assert declared - called() == NOT_CALLED


# --- Conversions ---------------------------------------------------------------------------------

TYPES = (
    *(types.BOOLEAN, *types.INTEGERS, *types.FLOATS, types.Decimal(9, 2), types.VARCHAR),
    *(types.VARBINARY, types.DATE, types.TIME, types.TIME_TZ, types.TIMESTAMP, types.TIMESTAMP_TZ),
    *(types.UUID, types.INTERVAL_DAY, types.INTERVAL_YEAR),
    *(types.JSON, types.Char(3)),
    types.Array(types.INTEGER),
)


def conversion(source: types.Type, target: types.Type) -> str:
    try:
        casts.overload(source, target, safe=False)
    except SeamlineError as error:
        return error.code.name
    return "yes"


def test_which_conversions_there_are(rewrite: bool) -> None:
    lines = []
    for source in TYPES:
        answers = {target: conversion(source, target) for target in TYPES if target != source}
        for answer in ("yes", "NOT_SUPPORTED"):
            found = ", ".join(str(t) for t, a in answers.items() if a == answer)
            lines.append(f"{source} → {answer}: {found or 'none'}\n")
    golden.check(ROOT / "tests" / "golden" / "casts.txt", "".join(lines), rewrite=rewrite)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith("$")])
def test_what_a_row_is_called_inside_is_nothing_to_read(name: str) -> None:
    """Neither in its signatures nor in the error for arguments that it does not take."""
    assert not [o.signature for o in FUNCTIONS[name] if "$" in o.signature]
    with pytest.raises(SeamlineError) as caught:
        resolve(name, [types.Row((types.Field("a", types.DATE, 1),))] * 9)
    assert "$" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        ("1 ILIKE 'a'", "ILIKE"),
        ("1 SIMILAR TO 'a'", "SIMILAR TO"),
        ("'a' RLIKE 'a'", "RLIKE"),
        ("'a' -> 'b'", "->"),
        ("1 & 2", "&"),
        ("1 ^ 2", "^"),
        ("1 << 2", "<<"),
    ],
)
def test_operators_of_others_are_named_with_what_does_that(operation: str, named: str) -> None:
    query = parse.parse(f"SELECT {operation}")
    assert isinstance(query, parse.Query)
    with pytest.raises(SeamlineError) as caught:
        qualify(query.tree, [], now=NOW)
    assert caught.value.code.name == "NOT_SUPPORTED"
    assert named in caught.value.message
    assert "(" in caught.value.hint


def test_every_conversion_runs_and_keeps_null(offline_gateway: Gateway) -> None:
    pairs = [
        (source, target)
        for source, target in itertools.product(TYPES, TYPES)
        if conversion(source, target) == "yes"
    ]
    columns = [
        f"{cast}(CAST(NULL AS {source}) AS {target})"
        for source, target in pairs
        for cast in ("CAST", "TRY_CAST")
    ]
    assert offline_gateway.rows(f"SELECT {', '.join(columns)}") == [(None,) * len(columns)]

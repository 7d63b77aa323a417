"""Every .slt file means the same on DuckDB, on Spark, and over HTTP with the DB-API.

Method: each case is run by each route and compared with what the file says. Spark plans for a third
of a second whatever it is asked, so it has one file in the first pass, and the rest among the long
proofs. `pytest --rewrite tests/slt` fills the expected half from DuckDB; a person reads the
difference.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support import slt
from support.gateway import Gateway

FILES = sorted(pathlib.Path(__file__).parent.glob("*.slt"))
ROUTES = ("duckdb", "http", "spark")
SPARK_FIRST = "grouping"
"""The file that Spark has in the first pass."""


def runs() -> Iterator[Any]:
    for path, route in itertools.product(FILES, ROUTES):
        is_long = route == "spark" and path.stem != SPARK_FIRST
        marks = [pytest.mark.prove] if is_long else []
        yield pytest.param(path, route, marks=marks, id=f"{path.stem}-{route}")


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize(("path", "route"), list(runs()))
def test_file(
    path: pathlib.Path, route: str, gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    run = gateway.http_route if route == "http" else gateway.route(route)
    if request.config.getoption("--rewrite") and route == "duckdb":
        slt.rewrite(path, run)
    cases = [case for case in slt.parse(path) if route not in case.skips]
    wrong = [
        f"{path.name}:{case.line} by {route}\n{case.sql}\n"
        f"--- expected\n{slt.expected(case)}\n--- found\n{found}"
        for case in cases
        if (found := slt.answer(case, run)) != slt.expected(case)
    ]
    assert not wrong, "\n\n".join(wrong)
    assert cases

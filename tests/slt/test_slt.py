"""Every .slt file means the same on DuckDB, on Spark, and over HTTP with the DB-API.

Method: each case is run by all three routes and compared with what the file says. `pytest --rewrite
tests/slt` fills the expected half from DuckDB; a person reads the difference.
"""

from __future__ import annotations

import pathlib

import pytest
from support import slt
from support.gateway import Gateway

FILES = sorted(pathlib.Path(__file__).parent.glob("*.slt"))


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path: pathlib.Path, gateway: Gateway, request: pytest.FixtureRequest) -> None:
    routes = {
        "duckdb": gateway.route("duckdb"),
        "spark": gateway.route("spark"),
        "http": gateway.http_route,
    }
    if request.config.getoption("--rewrite"):
        slt.rewrite(path, routes["duckdb"])
    wrong = []
    cases = slt.parse(path)
    for case in cases:
        for name, route in routes.items():
            if name in case.skips:
                continue
            found = slt.answer(case, route)
            if found != slt.expected(case):
                wrong.append(
                    f"{path.name}:{case.line} by {name}\n{case.sql}\n"
                    f"--- expected\n{slt.expected(case)}\n--- found\n{found}"
                )
    assert not wrong, "\n\n".join(wrong)
    assert cases

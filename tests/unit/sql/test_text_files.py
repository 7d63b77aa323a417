"""Goal: what `functions.slt` says holds before a broker or Spark is started.

Method: each case on DuckDB alone. Files that both engines answer are in tests/slt.
"""

from __future__ import annotations

import pathlib

from support import slt
from support.gateway import Gateway


def test_functions(offline_gateway: Gateway) -> None:
    path = pathlib.Path(__file__).with_name("functions.slt")
    route = offline_gateway.route("duckdb")
    cases = [case for case in slt.parse(path) if "duckdb" not in case.skips]
    wrong = [
        f"{path.name}:{case.line}\n{case.sql}\n--- says\n{slt.expected(case)}\n--- found\n{found}"
        for case, found in zip(cases, slt.answers(cases, route), strict=True)
        if found != slt.expected(case)
    ]
    assert not wrong, "\n\n".join(wrong)

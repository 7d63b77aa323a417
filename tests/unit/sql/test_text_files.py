"""Goal: what the files in tests/slt say holds before a broker or Spark is started.

Method: every file on DuckDB alone; those in tests/slt also agree on Spark and over HTTP there,
where the first pass has them.
"""

from __future__ import annotations

import pathlib

import pytest
from support import slt
from support.gateway import Gateway
from support.sources import ROOT

HERE = pathlib.Path(__file__).parent

FILES = [
    HERE / "functions.slt",
    *(
        pytest.param(path, marks=pytest.mark.prove)
        for path in sorted((ROOT / "tests" / "slt").glob("*.slt"))
    ),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path: pathlib.Path, offline_gateway: Gateway) -> None:
    route = offline_gateway.route("duckdb")
    cases = [case for case in slt.parse(path) if "duckdb" not in case.skips]
    written = slt.over_values(path, cases)
    wrong = [
        f"{path.name}:{case.line}\n{case.sql}\n--- says\n{slt.expected(case)}\n--- found\n{found}"
        for case, found in zip(cases, slt.answers(written, route), strict=True)
        if found != slt.expected(case)
    ]
    assert not wrong, "\n\n".join(wrong)

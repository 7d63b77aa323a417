"""Goal: the judge of TPC answers finds a wrong cell, row or number of rows, and nothing else."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from tpc.answers import difference

SAME: list[tuple[Any, Any]] = [
    ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")]),
    ([(Decimal("0.33"),)], [(1 / 3,)]),
    ([(Decimal("-7.125"),)], [(-7.1245,)]),
    ([(1e18 + 512,)], [(1e18,)]),
    ([(None, 1), (None, 2)], [(None, 2), (None, 1)]),
    ([(datetime.date(2024, 2, 29),)], [(datetime.datetime(2024, 2, 29),)]),
    ([], []),
]
OTHER: list[tuple[Any, Any]] = [
    ([(1,)], [(1,), (1,)]),
    ([(1,), (1,)], [(1,), (2,)]),
    ([(Decimal("0.34"),)], [(1 / 3,)]),
    ([(1.0001,)], [(1.0,)]),
    ([(None,)], [(0,)]),
    ([("a",)], [("A",)]),
    ([("1",)], [(1,)]),
    ([(True,)], [(1,)]),
    ([(1, 2)], [(1,)]),
    ([(datetime.datetime(2024, 2, 29, 1),)], [(datetime.date(2024, 2, 29),)]),
]


@pytest.mark.parametrize(("found", "wanted"), SAME)
def test_same_answers_have_no_difference(found: Any, wanted: Any) -> None:
    assert difference(found, wanted) == ""
    assert difference(wanted, found) == ""


@pytest.mark.parametrize(("found", "wanted"), OTHER)
def test_other_answers_have_one(found: Any, wanted: Any) -> None:
    assert difference(found, wanted)
    assert difference(wanted, found)

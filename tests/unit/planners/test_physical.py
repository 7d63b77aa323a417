"""Goal: scans of one table share its tail and its seam; the engine is chosen by what a plan reads.

Method: plans of a few scans, made by hand, and the limits around them.
"""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from seamline.errors import NOT_SUPPORTED, TAIL_TOO_LARGE, ErrorCode, SeamlineError
from seamline.planners.plan.estimate import Estimate, estimate
from seamline.planners.plan.logical import Kind, LogicalPlan, Scan, TableFacts
from seamline.planners.plan.physical import physical_plan
from seamline.planners.plan.route import Limits, Route, route
from seamline.seam.files import ColdPlan, DataFile
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import ColdPart, LogPart, Seam
from seamline.sql.binder.qualify import BoundQuery, qualify
from seamline.sql.parsing import parse

NOW = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
UNIFIED = Seam(
    table=("lake", "default", "t"),
    table_uuid="u",
    schema_id=0,
    cold=ColdPart(7),
    log=LogPart(cluster="default", topic="t", topic_id="topic-1"),
    boundary=Offsets({0: 10, 1: 20}),
    end=Offsets({0: 15, 1: 20}),
)
DECODER = DecoderSpec("t", "json", "fail", ())
COLD = Seam(table=UNIFIED.table, table_uuid="u", schema_id=0, cold=ColdPart(3))


def scan(scan_id: str, seam: Seam, kind: Kind, *ranges: OffsetRange) -> Scan:
    return Scan(scan_id, TableFacts(kind, seam, decoder=DECODER), (), hot_ranges=ranges)


def plan(*scans: Scan) -> LogicalPlan:
    parsed = parse.parse("SELECT 1")
    assert isinstance(parsed, parse.Query)
    query: BoundQuery = qualify(parsed.tree, [], now=NOW)
    return LogicalPlan(query, scans)


def cold(size: int, unsupported: str | None = None) -> ColdPlan:
    return ColdPlan(7, (DataFile("f", "PARQUET", size, 100),), 1, 100, unsupported)


def test_scans_of_a_table_share_one_reading_that_is_enough_for_each() -> None:
    one = scan("scan_0", UNIFIED, "unified", OffsetRange(0, 10, 12))
    other = scan("scan_1", UNIFIED, "hot", OffsetRange(0, 13, 15), OffsetRange(1, 20, 21))
    logical = plan(one, other)
    found = physical_plan(logical, estimate(logical), Route("duckdb", ""))
    tail = found.tails[UNIFIED.key]
    assert tail.ranges == (OffsetRange(0, 10, 15), OffsetRange(1, 20, 21))
    assert found.estimate.hot_rows == tail.offsets == 6


@pytest.mark.parametrize("turned", [False, True])
def test_the_seam_of_a_table_is_its_whole_seam_in_whatever_order_it_is_read(turned: bool) -> None:
    """A token made of the cold part alone could not repeat the statement."""
    scans = [scan("scan_0", UNIFIED, "unified"), scan("scan_1", COLD, "cold")]
    logical = plan(*(reversed(scans) if turned else scans))
    found = physical_plan(logical, estimate(logical), Route("duckdb", ""))
    assert found.seams == (UNIFIED,)


def test_a_table_of_then_and_of_now_are_two() -> None:
    then = dataclasses.replace(UNIFIED, as_of="2024-01-01", end=Offsets({0: 12, 1: 20}))
    one = scan("scan_0", UNIFIED, "unified", *UNIFIED.hot_ranges)
    other = scan("scan_1", then, "unified", *then.hot_ranges)
    logical = plan(one, other)
    found = physical_plan(logical, estimate(logical), Route("duckdb", ""))
    assert found.seams == (UNIFIED, then)
    assert [tail.ranges for tail in found.tails.values()] == [UNIFIED.hot_ranges, then.hot_ranges]


def test_a_table_that_is_only_read_cold_has_no_tail() -> None:
    logical = plan(dataclasses.replace(scan("scan_0", COLD, "cold"), files=cold(5)))
    found = physical_plan(logical, estimate(logical), Route("duckdb", ""))
    assert found.tails == {}
    assert found.seams == (COLD,)


# --- Route ---------------------------------------------------------------------------------------

LIMITS = Limits(duckdb_cold_bytes_max=1000, duckdb_tail_rows_max=50)
NO_SPARK = Limits(duckdb_cold_bytes_max=1000, duckdb_tail_rows_max=50, spark=False)


@pytest.mark.parametrize(
    ("asked", "size", "tail", "unsupported", "limits", "expected"),
    [
        ("auto", 1000, 50, None, LIMITS, "duckdb"),
        ("auto", 1001, 50, None, LIMITS, "spark"),
        ("auto", 1001, 50, None, NO_SPARK, "duckdb"),
        ("auto", 0, 51, None, LIMITS, "spark"),
        ("auto", 0, 51, None, NO_SPARK, TAIL_TOO_LARGE),
        ("auto", 0, 0, "equality deletes", LIMITS, "spark"),
        ("auto", 0, 0, "equality deletes", NO_SPARK, NOT_SUPPORTED),
        ("duckdb", 1001, 50, None, LIMITS, "duckdb"),
        ("duckdb", 0, 51, None, LIMITS, TAIL_TOO_LARGE),
        ("duckdb", 0, 0, "equality deletes", LIMITS, NOT_SUPPORTED),
        ("spark", 0, 0, None, LIMITS, "spark"),
        ("spark", 0, 0, None, NO_SPARK, NOT_SUPPORTED),
    ],
)
def test_the_engine_is_asked_for_or_follows_from_what_is_read(
    asked: str,
    size: int,
    tail: int,
    unsupported: str | None,
    limits: Limits,
    expected: str | ErrorCode,
) -> None:
    files = {"scan_0": cold(size, unsupported)}
    reads = Estimate(cold_rows=100, cold_bytes=size, hot_rows=tail)
    if isinstance(expected, str):
        found = route(asked, reads, files, limits)
        assert found.engine == expected
        assert found.reason
        return
    with pytest.raises(SeamlineError) as caught:
        route(asked, reads, files, limits)
    assert caught.value.code is expected

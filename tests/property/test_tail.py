"""Goal: a pruned tail still holds every row that the predicate keeps, and the seam stays as it is.

Method: records with keys and with times in no order are written to a log in memory, partly tiered;
every single comparison at its edges, and random combinations of them, narrow the tail by each rule
and by all of them.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from support.examples import examples
from support.predicates import Row, keeps
from support.story import NO_DEADLINE, TOPIC, Story

from seamline.planners.pipeline import RULES, Rule, apply
from seamline.planners.plan.logical import LogicalPlan, Scan, TableFacts
from seamline.planners.rules.prune_tail_by_key import PARTITIONERS, key_bytes, partition_of
from seamline.planners.rules.prune_tail_by_time import moments
from seamline.planners.rules.push_predicates import push_predicates
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange
from seamline.sql import predicates
from seamline.sql.binder.qualify import BoundQuery
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate

PARTITIONS = 3
KEY = "user"
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "b", "ü", "a b", "user-1"]) | st.integers(-3, 3),
    "json": st.sampled_from(["a", 'q"', "ü", 7, -1]),
    "int32": st.integers(-3, 3),
    "int64": st.integers(-3, 3),
    "bytes": st.binary(max_size=3),
}
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
TIMES = st.integers(-6, 6).map(lambda ms: START + datetime.timedelta(milliseconds=ms))
SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def leaves(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    return (
        st.builds(Comparison, st.just(column), SIGNS, values)
        | st.builds(In, st.just(column), st.lists(values, max_size=3).map(tuple))
        | st.builds(IsNull, st.just(column), st.booleans())
    )


def predicates_over(keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    leaf = (
        leaves("_kafka_partition", st.integers(-1, PARTITIONS))
        | leaves("_kafka_offset", st.integers(-1, 8))
        | leaves("_kafka_timestamp", TIMES)
        | st.builds(Comparison, st.just(KEY), st.sampled_from(["=", "<>"]), keys)
        | st.builds(In, st.just(KEY), st.lists(keys, max_size=3).map(tuple))
        | leaves("other", st.integers(0, 1))
    )
    return st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda p: And(tuple(p)))
            | st.lists(inner, max_size=3).map(lambda p: Or(tuple(p)))
        ),
        max_leaves=6,
    )


def spelt(key: Any, key_format: str, number: int) -> bytes | None:
    """A record's key, in one of the spellings that its format has for it."""
    if key_format == "json":
        spellings = [json.dumps(key), json.dumps(key, ensure_ascii=False), f"{json.dumps(key)} "]
    elif key_format == "string" and isinstance(key, int):
        spellings = [str(key), f"{key:+}", f"{key:04}"]
    else:
        return key_bytes(key, key_format)
    return spellings[number % len(spellings)].encode()


def told(
    records: Sequence[tuple[Any, datetime.datetime]], tiered: int, binding: TopicBinding
) -> tuple[Story, list[Row]]:
    """A topic of these records, that many of them tiered, and the rows of its tail."""
    story = Story(PARTITIONS)
    rows: list[Row] = []
    for number, (key, moment) in enumerate(records):
        raw = spelt(key, binding.key_format, number)
        story.log.clock.now_ms = round(moment.timestamp() * 1000)
        partition = partition_of(raw, binding) if raw is not None else None
        if partition is None:  # anywhere
            partition = len(rows) % PARTITIONS
        offset = story.log.produce(TOPIC, partition, b"", key=raw)
        rows.append(
            {
                "_kafka_partition": partition,
                "_kafka_offset": offset,
                "_kafka_timestamp": moment,
                KEY: key,
                "other": None,
            }
        )
    if tiered:
        story.tier(records_max=tiered)
    boundary = story.boundary.next
    return story, [r for r in rows if r["_kafka_offset"] >= boundary[r["_kafka_partition"]]]


def scan_of(story: Story, binding: TopicBinding, predicate: Predicate) -> Scan:
    seam = story.pin()
    assert seam is not None
    facts = TableFacts("unified", seam, binding)
    scan = Scan("scan_0", facts, (), predicate, hot_ranges=seam.hot_ranges)
    asked = {
        ms: story.log.offsets_at(TOPIC, seam.log.topic_id, seam.end, ms, NO_DEADLINE)
        for ms in moments(scan)
    }
    return dataclasses.replace(scan, offsets_at=asked)


def pruned(scan: Scan, rules: tuple[Rule, ...]) -> Scan:
    query = BoundQuery(exp.select("1"), (), ())
    (after,) = apply(rules, LogicalPlan(query, (scan,))).scans
    return after


def within(row: Row, ranges: tuple[OffsetRange, ...]) -> bool:
    return any(
        r.partition == row["_kafka_partition"] and r.start <= row["_kafka_offset"] < r.end_exclusive
        for r in ranges
    )


PRUNING = tuple(rule for rule in RULES if rule is not push_predicates)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("key_format", KEYS)
@examples(60)
@given(data=st.data())
def test_no_row_that_the_predicate_keeps_is_lost(data: st.DataObject, key_format: str) -> None:
    keys = KEYS[key_format]
    binding = TopicBinding(
        "default",
        TOPIC,
        key=KEY,
        key_format=key_format,
        key_partitioner=data.draw(st.sampled_from(sorted(PARTITIONERS))),
        key_partitions=PARTITIONS,
    )
    records = data.draw(st.lists(st.tuples(keys, TIMES), min_size=9, max_size=25))
    story, rows = told(records, data.draw(st.sampled_from([0, 0, 4])), binding)
    predicate = data.draw(predicates_over(keys))
    check_pruned(scan_of(story, binding, predicate), rows)


def check_pruned(scan: Scan, rows: Sequence[Row]) -> None:
    assert scan.predicate is not None
    wanted = [row for row in rows if keeps(scan.predicate, row)]
    for rules in [*((rule,) for rule in PRUNING), PRUNING]:
        after = pruned(scan, rules)
        lost = [row for row in wanted if not within(row, after.hot_ranges)]
        assert not lost, predicates.describe(scan.predicate)
        assert after.facts is scan.facts, "pruning never changes the seam"
        assert all(any(_contains(w, r) for w in scan.hot_ranges) for r in after.hot_ranges)


def _contains(whole: OffsetRange, part: OffsetRange) -> bool:
    same = whole.partition == part.partition
    return same and whole.start <= part.start < part.end_exclusive <= whole.end_exclusive


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("tiered", [0, 7])
def test_every_single_comparison_is_exact_at_its_edges(tiered: int) -> None:
    binding = TopicBinding(
        "default", TOPIC, key=KEY, key_partitioner="crc32", key_partitions=PARTITIONS
    )
    moments_ = [START + datetime.timedelta(milliseconds=n * 7 % 5) for n in range(24)]
    story, rows = told([(f"k{n}", m) for n, m in enumerate(moments_)], tiered, binding)
    edges: dict[str, list[Any]] = {
        "_kafka_partition": list(range(-1, PARTITIONS + 1)),
        "_kafka_offset": list(range(-1, 14)),
        "_kafka_timestamp": [START + n * datetime.timedelta(microseconds=500) for n in range(12)],
        KEY: [f"k{n}" for n in range(-1, 25)],
    }
    for column, values in edges.items():
        for sign, value in itertools.product(["=", "<>", "<", "<=", ">", ">="], values):
            check_pruned(scan_of(story, binding, Comparison(column, sign, value)), rows)
        for pair in itertools.combinations(values, 2):
            check_pruned(scan_of(story, binding, In(column, pair)), rows)
        for null in (IsNull(column), IsNull(column, negated=True), In(column, ())):
            check_pruned(scan_of(story, binding, null), rows)


def test_pruning_does_prune() -> None:
    """What the property allows a rule that does nothing must not."""
    binding = TopicBinding(
        "default", TOPIC, key=KEY, key_partitioner="murmur2", key_partitions=PARTITIONS
    )
    story, _ = told(
        [(f"k{n}", START + n * datetime.timedelta(seconds=1)) for n in range(30)], 0, binding
    )
    late = START + datetime.timedelta(seconds=25)
    for predicate, rule in (
        (Comparison("_kafka_partition", "=", 1), "position"),
        (Comparison("_kafka_timestamp", ">", late), "time"),
        (Comparison(KEY, "=", "k3"), "key"),
    ):
        after = pruned(scan_of(story, binding, predicate), PRUNING)
        assert after.pruned_by == (rule,)
        assert 0 < sum(map(len, after.hot_ranges)) < 15

"""Goal: whatever is pushed to the scans of a query, its rows stay the same.

Method: random conditions of every form that is pushed, and of some that are not, in WHERE and ON of
every kind of join, over tiny tables full of nulls and odd numbers; the rules are applied, rows that
the scans may leave out are left out, and the answers compared.
"""

from __future__ import annotations

import dataclasses

from hypothesis import example, given
from hypothesis import strategies as st
from support import plans
from support.examples import examples

from seamline.errors import LOG_TRIMMED, SeamlineError
from seamline.planners.pipeline import ASKS, RULES, apply, reduced
from seamline.seam.offsets import Offsets

BID = [
    *(f"b.price {sign} {n}" for sign in ("=", "<>", "<", ">=") for n in (5, -3)),
    *("5 > b.price", "b.price BETWEEN 1 AND 10", "b.price IN (5, 10)", "b.price NOT IN (5, -3)"),
    *("b.channel LIKE 'a%'", "b.channel NOT LIKE 'a%'", "b.channel LIKE 'a'", "b.channel IS NULL"),
    *("b.ok", "NOT b.ok", "b.ok IS NOT NULL", "b.score > 0e0", "NOT (b.score < 0e0)"),
    *("b.auction = 1", "b.auction IN (1, 7)", "b._kafka_partition = 0", "b._kafka_offset >= 6"),
    *("length(b.channel) = 1", "b.price IN (5, NULL)", "b.price + 1 > 5"),
    "b._kafka_timestamp >= TIMESTAMP '2024-05-01 11:15:00 UTC'",
]
AUCTION = ["a.seller = 'x'", "a.seller IS NULL", "a.reserve > 5", "a.reserve <> 1", "a.id = 3"]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


def conditions(leaves: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: (
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda parts: f"({' '.join(parts)})"
            )
            | inner.map(lambda one: f"(NOT {one})")
        ),
        max_leaves=4,
    )


def check(sql: str) -> None:
    before = plans.logical(sql)
    after = apply(RULES, plans.with_moments(apply(ASKS, before)))
    assert plans.answer(after) == plans.answer(before), sql


@examples(60)
@given(conditions(BID))
def test_conditions_of_one_table(where: str) -> None:
    check(f"SELECT * FROM bids b WHERE {where}")


@examples(80)
@given(conditions(BID), st.integers(0, 12), st.integers(0, 17))
@example("b._kafka_partition = 0", 4, 6)
@example("b._kafka_timestamp >= TIMESTAMP '2024-05-01 11:15:00 UTC'", 4, 7)
@example("b.auction = 1", 5, 17)
def test_a_log_that_has_lost_records_changes_no_answer(where: str, first: int, second: int) -> None:
    """A query is answered as if they were there, or not at all."""
    before = plans.logical(f"SELECT * FROM bids b WHERE {where}")
    (scan,) = before.scans
    starts = {0: first, 1: second}
    lost = Offsets({p: o for p, o in starts.items() if o > scan.seam.boundary[p]})
    facts = dataclasses.replace(scan.facts, log_start=lost)
    cut = dataclasses.replace(before, scans=(dataclasses.replace(scan, facts=facts),))
    try:
        found = reduced(plans.with_moments(apply(ASKS, cut)))
    except SeamlineError as error:
        assert error.code is LOG_TRIMMED
        return
    assert plans.answer(found) == plans.answer(before)
    assert all(r.start >= lost.get(r.partition, 0) for r in found.scans[0].hot_ranges)


@examples(80)
@given(st.sampled_from(JOINS), conditions(BID + AUCTION), conditions(BID + AUCTION))
@example("LEFT JOIN", "b.price = 5", "((a.seller IS NULL AND a.reserve IS NULL) OR a.id = 4)")
@example("RIGHT JOIN", "b.price = 5", "b.price IS NULL OR a.seller = 'x'")
@example("FULL JOIN", "a.seller = 'x'", "b.channel IS NULL")
def test_conditions_of_a_join(join: str, on: str, where: str) -> None:
    check(
        "SELECT b.price, b.channel, a.id, a.seller FROM bids b"
        f" {join} auctions a ON b.auction = a.id AND {on} WHERE {where}"
    )


@examples(40)
@given(
    st.tuples(st.sampled_from(JOINS), st.sampled_from(JOINS)), conditions(AUCTION), conditions(BID)
)
def test_conditions_of_two_joins(joins: tuple[str, str], on: str, where: str) -> None:
    check(
        f"SELECT b.price, a.id, c.id FROM bids b {joins[0]} auctions a ON b.auction = a.id"
        f" {joins[1]} auctions c ON c.id = b.auction AND {on} WHERE {where}"
    )

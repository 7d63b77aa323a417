"""Goal: whoever computes far more than others lately lets them go first, and nobody else does."""

from __future__ import annotations

from seamline.connectors.duckdb.shares import Shares


def test_who_is_alone_lets_nobody_go_first() -> None:
    shares = Shares()
    shares.add("ann", 1e6)
    assert not shares.is_over("ann")
    assert not shares.is_over("bob")


def test_equals_do_not_let_each_other_go_first() -> None:
    shares = Shares(lambda: 0.0)
    for owner in "abcd":
        shares.add(owner, 3.0)
    assert not any(map(shares.is_over, "abcd"))


def test_whoever_is_far_above_the_average_goes_last() -> None:
    shares = Shares(lambda: 0.0)
    for owner, seconds in {"ann": 0.4, "bob": 0.5, "eve": 6.0, "mallory": 9.0}.items():
        shares.add(owner, seconds)
    assert [shares.is_over(each) for each in ("ann", "bob", "eve", "mallory")] == [
        False,
        False,
        True,
        True,
    ]


def test_what_was_computed_long_ago_is_forgotten() -> None:
    now = [0.0]
    shares = Shares(lambda: now[0])
    shares.add("eve", 30.0)
    now[0] = 20.0
    shares.add("ann", 0.1)
    shares.add("bob", 0.1)
    assert not shares.is_over("eve")
    now[0] = 10_000.0
    shares.add("eve", 0.1)
    assert not shares.is_over("eve"), "the others have gone"

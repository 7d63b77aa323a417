"""Goal: the one cache keeps what was used last, within its bounds, and nothing for too long.

Method: small caches under a clock that the test turns; random sequences against a plain model.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.connectors.cache import Cache, FairCache


def test_what_was_least_recently_used_is_evicted() -> None:
    cache: Cache[str, int] = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_values_are_bounded_by_what_they_weigh() -> None:
    cache: Cache[str, str] = Cache(4, weight=len)
    cache.put("a", "xx")
    cache.put("b", "yy")
    cache.put("c", "z")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, "yy", "z")


def test_a_value_that_is_too_heavy_is_kept_by_itself() -> None:
    cache: Cache[str, str] = Cache(4, weight=len)
    cache.put("a", "x")
    cache.put("b", "far too long")
    assert (cache.get("a"), cache.get("b")) == (None, "far too long")
    cache.put("c", "z")
    assert (cache.get("b"), cache.get("c")) == (None, "z")


def test_a_value_ends_after_its_time_and_lives_on_when_it_is_put_again() -> None:
    now = [0.0]
    cache: Cache[str, int] = Cache(8, ttl_s=10, clock=lambda: now[0])
    cache.put("a", 1)
    cache.put("b", 2)
    now[0] = 9.0
    cache.put("b", 3)
    assert cache.get("a") == 1
    now[0] = 10.0
    assert (cache.get("a"), cache.get("b")) == (None, 3)


def test_nothing_lives_for_no_time() -> None:
    cache: Cache[str, int] = Cache(8, ttl_s=0, clock=lambda: 1.0)
    cache.put("a", 1)
    assert cache.get("a") is None


def test_a_value_is_made_once_and_a_failure_is_not_kept() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        if len(made) == 1:
            raise OSError
        return made[-1]

    cache: Cache[str, int] = Cache(8)
    with pytest.raises(OSError):
        cache.get_or_make("a", make)
    assert [cache.get_or_make("a", make) for _ in range(3)] == [1, 1, 1]
    assert cache.pop("a") == 1
    assert cache.pop("a") is None


def test_making_a_value_holds_nobody_up() -> None:
    cache: Cache[str, int] = Cache(8)
    cache.put("other", 7)
    entered, free = threading.Event(), threading.Event()

    def slow() -> int:
        entered.set()
        assert free.wait(60)
        return 1

    thread = threading.Thread(target=cache.get_or_make, args=("slow", slow))
    thread.start()
    assert entered.wait(60)
    assert cache.get("other") == 7
    free.set()
    thread.join()
    assert cache.get("slow") == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(1, 6))), st.integers(1, 8))
def test_it_is_what_a_list_in_order_of_use_would_be(
    steps: Sequence[tuple[int, int | None]], weight_max: int
) -> None:
    cache: Cache[int, int] = Cache(weight_max, weight=lambda value: value)
    model: list[tuple[int, int]] = []  # (key, value), the least recently used first
    for key, value in steps:
        before = next((v for k, v in model if k == key), None)
        if value is None:
            assert cache.get(key) == before
            value = before
        else:
            cache.put(key, value)
        if value is None:
            continue
        model = [(k, v) for k, v in model if k != key]
        room = weight_max - min(value, weight_max)
        while sum(min(v, weight_max) for _, v in model) > room:
            model.pop(0)
        model.append((key, value))
    assert {k: cache.get(k) for k in range(6)} == {k: dict(model).get(k) for k in range(6)}


WEIGHT_MAX = 24
OWNERS = ("ann", "bob", "eve")


@given(st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(0, 5), st.integers(1, 30))))
def test_an_owner_of_little_loses_nothing_to_others(steps: Sequence[tuple[str, int, int]]) -> None:
    cache: FairCache[int, int] = FairCache(WEIGHT_MAX, weight=lambda value: value, ttl_s=10)
    put: dict[str, dict[int, int]] = {owner: {} for owner in OWNERS}
    most = dict.fromkeys(OWNERS, 0)  # that each has ever held: what is gone does not come back
    for owner, key, value in steps:
        cache.put(owner, key, value)
        put[owner][key] = value
        most[owner] = max(most[owner], sum(put[owner].values()))
        kept = {
            each: {k: cache.get(each, k) for k in values if cache.get(each, k) is not None}
            for each, values in put.items()
        }
        assert kept[owner][key] == value
        counted = [
            min(v or 0, WEIGHT_MAX // 2) for values in kept.values() for v in values.values()
        ]
        assert sum(counted) <= WEIGHT_MAX
        for each, values in put.items():
            assert kept[each].items() <= values.items()
            if most[each] <= WEIGHT_MAX // (2 * len(OWNERS)):
                assert kept[each] == values


def test_a_value_of_an_owner_ends_after_its_time_or_when_it_is_taken_out() -> None:
    now = [0.0]
    cache: FairCache[str, int] = FairCache(8, weight=lambda _: 1, ttl_s=10, clock=lambda: now[0])
    cache.put("ann", "a", 1)
    cache.put("ann", "b", 2)
    assert (cache.pop("ann", "a"), cache.pop("ann", "a"), cache.pop("bob", "b")) == (1, None, None)
    now[0] = 10.0
    assert cache.get("ann", "b") is None

"""Goal: in no minute more happens than may, and whoever waits as told comes in time.

Method: random moments, and a count over every window of them; the wait that is told is kept.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamline.gateway.statements.rates import MINUTE_S, MinuteRate, ProcessLoad


class Clock:
    """A clock that stands still."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


PAUSES = st.integers(0, 320).map(lambda eighths: eighths / 8)
"""Seconds of which sums and differences are exact."""


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from("ab"), PAUSES), max_size=60))
def test_no_minute_has_more(count_max: int, steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    rate = MinuteRate(count_max, clock)
    taken: dict[str, list[float]] = {"a": [], "b": []}
    for key, pause_s in steps:
        clock.now += pause_s
        last_minute = [at for at in taken[key] if clock.now - at < MINUTE_S]
        wait_s = rate.wait_s(key)
        assert (wait_s > 0) == (len(last_minute) == count_max)
        if wait_s == 0:
            rate.count(key)
            taken[key].append(clock.now)


@given(st.integers(1, 5))
def test_who_waits_as_told_comes_in_time(count_max: int) -> None:
    clock = Clock()
    rate = MinuteRate(count_max, clock)
    for _ in range(count_max):
        rate.count("a")
        clock.now += 1
    clock.now += rate.wait_s("a")
    assert rate.wait_s("a") == 0


def test_nothing_is_the_limit_unless_one_is_set() -> None:
    rate = MinuteRate(0)
    for _ in range(1000):
        rate.count("a")
    assert rate.wait_s("a") == 0


def test_load_is_what_was_used_lately() -> None:
    clock, used = Clock(), Clock()
    load = ProcessLoad(clock, used)
    found = [load.is_high]
    for seconds, seconds_used in ((1, 0.9), (0.01, 0.0), (1, 0.0)):
        clock.now, used.now = clock.now + seconds, used.now + seconds_used
        found.append(load.is_high)
    assert found == [False, True, True, False], "a moment says nothing"

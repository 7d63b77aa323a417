"""Consumers of their own are few, and those far behind have them in turn."""

from __future__ import annotations

import dataclasses

from seamline.gateway.tail.own_consumers import SHARED_LAG_MAX, OwnConsumers

FAR = SHARED_LAG_MAX + 1


@dataclasses.dataclass(eq=False)
class Reader:
    """A reader that counts how often it is woken."""

    woken: int = 0

    def wake(self) -> None:
        """See `Reader.wake`."""
        self.woken += 1


def test_those_at_rest_have_them_while_there_are_few() -> None:
    consumers = OwnConsumers(count_max=3, resting_max=2)
    first, second, third, fourth = (Reader() for _ in range(4))
    assert consumers.take(first, lag=0)
    assert consumers.take(second, lag=0)
    assert consumers.take(second, lag=0), "it has one"
    assert not consumers.take(third, lag=0)
    assert not consumers.is_over(first, lag=0)
    assert consumers.take(third, lag=1)
    assert consumers.is_over(first, lag=0)
    assert not consumers.is_over(third, lag=1)
    assert not consumers.take(fourth, lag=1)
    consumers.give_back(first)
    assert not consumers.is_over(second, lag=0)
    assert fourth.woken == 0, "it can share one"


def test_who_is_far_behind_gets_one_in_turn() -> None:
    consumers = OwnConsumers(count_max=1, resting_max=1, turn_s=0.0)
    first, second, third = (Reader() for _ in range(3))
    assert consumers.take(first, lag=FAR)
    assert not consumers.is_over(first, lag=FAR)
    for waiting in (second, third):
        assert not consumers.take(waiting, lag=FAR)
    assert consumers.is_over(first, lag=FAR)
    consumers.give_back(first)
    assert (second.woken, third.woken) == (1, 0)
    assert consumers.take(second, lag=FAR)
    consumers.give_back(third)
    assert not consumers.is_over(second, lag=FAR), "nobody waits any longer"


def test_a_turn_lasts_some_time() -> None:
    consumers = OwnConsumers(count_max=1, resting_max=1, turn_s=600.0)
    first, second = Reader(), Reader()
    assert consumers.take(first, lag=FAR)
    assert not consumers.take(second, lag=FAR)
    assert not consumers.is_over(first, lag=FAR)
    assert consumers.is_over(first, lag=0)

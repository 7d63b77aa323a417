"""Goal: a seed replays a run's decisions, and every kind of fault is used often enough in any run.

Method: schedules of several seeds and lengths are compared and counted.
"""

from __future__ import annotations

import collections

import pytest
from chaos.schedule import ROUND_S, schedule, wanted_uses

LANES = {"one": ["a"], "three": ["b", "c", "d"]}


def test_a_seed_replays() -> None:
    assert schedule(3, 10, LANES) == schedule(3, 10, LANES)
    assert schedule(3, 10, LANES) != schedule(4, 10, LANES)
    alone = schedule(3, 10, {"one": ["a"]})
    assert alone["one"] == schedule(3, 10, LANES)["one"], "a lane does not depend on the others"


@pytest.mark.parametrize("minutes", [0.5, 3, 6, 10])
def test_every_kind_is_used_often_enough_and_in_time(minutes: float) -> None:
    for seed in range(10):
        decisions = [d for lane in schedule(seed, minutes, LANES).values() for d in lane]
        used = collections.Counter(decision.fault for decision in decisions)
        assert set(used) == {"a", "b", "c", "d"}
        assert min(used.values()) >= wanted_uses(minutes)
        assert all(0 <= decision.at_s < 60 * minutes for decision in decisions)
    assert wanted_uses(10) == 2


def test_a_lane_keeps_to_its_part_of_each_round() -> None:
    plan = schedule(1, 10, LANES, {"three": (0.5, 0.75)})
    used: dict[int, list[str]] = collections.defaultdict(list)
    for decision in plan["three"]:
        number, within = divmod(decision.at_s, ROUND_S)
        assert 0.5 <= within / ROUND_S <= 0.75
        used[int(number)].append(decision.fault)
    assert sorted(used) == list(range(3))
    shares = [collections.Counter(faults) for faults in used.values()]
    assert all(share == shares[0] for share in shares), "every round uses every kind alike"
    assert set(shares[0]) == {"b", "c", "d"}

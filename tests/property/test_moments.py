"""Goal: the table as of a past moment is the same whenever it is asked for.

Method: generated histories of two partitions, whose records have late times and times far in the
future, tiered at any point. Once each partition has a record that is later than the moment, nothing
that follows (records of any times, batches, retention that leaves what has not been tiered, the
passing of time) changes the answer.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from simulation.reading import Sources, at_moment, read
from simulation.world import World
from support.examples import examples

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.tiering.step import tier_once

AGES = st.sampled_from([0, 0, 0, 3, 50, -1, -5, -60, -100_000])
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), AGES),
    st.tuples(st.sampled_from(["tier", "clock", "trim"]), st.integers(0, 1), st.integers(0, 90)),
)
Step = tuple[str, int, int]


def run(world: World, step: Step) -> None:
    match step:
        case "append", partition, age_ms:
            world.append(partition, age_ms=age_ms)
        case "clock", _, milliseconds:
            world.clock.advance(1 + milliseconds)
        case "trim", partition, _:
            world.trim(partition, dict(world.head.mark.next).get(partition, 0))
        case _:
            tier_once(world.table, world.log, NoDeadline(), records_max=3)
            world.note_commits()


def rows(world: World, moment_ms: int) -> list[tuple[int | None, int | None]]:
    sources = Sources(world.catalog, world.log)
    now_ms = world.clock.now_ms
    answer = read(sources, world.table.open, at_moment(moment_ms), now_ms=now_ms)
    return sorted((partition, offset) for partition, offset, _, _ in answer.rows)


@examples(120)
@given(st.lists(STEPS, max_size=12), st.lists(STEPS, max_size=12))
@example([("append", 0, 0), ("append", 0, -60), ("append", 0, 0)], [("clock", 0, 90)])
@example([("append", 0, -60), ("append", 0, 0)], [("tier", 0, 0), ("trim", 0, 0), ("clock", 0, 90)])
def test_a_moment_does_not_depend_on_now(before: list[Step], after: list[Step]) -> None:
    world = World(2)
    for step in before:
        run(world, step)
    moment_ms = world.clock.now_ms
    world.clock.advance(1)
    for partition in (0, 1):
        world.append(partition)
    first = rows(world, moment_ms)
    for step in after:
        run(world, step)
        assert rows(world, moment_ms) == first, step

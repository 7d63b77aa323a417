"""Goal: facts are of one moment and of one table, however a statement spells its name.

Method: the product's own path over the in-memory world, with a catalog that folds names as some do
and in which every look finds the table changed since the one before. Spellings are generated.
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from fakes.faulty import BehindLog
from fakes.memory import MemoryView, Untimed
from hypothesis import given
from hypothesis import strategies as st
from simulation.reading import Answer, Sources, read
from simulation.world import CATALOG, TOPIC, World
from support.examples import examples

from seamline.errors import (
    HISTORY_CHANGED,
    LOG_TRUNCATED,
    TABLE_NOT_FOUND,
    TOPIC_RECREATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.query import tokens
from seamline.gateway.query.tokens import After
from seamline.gateway.tiering.step import tier_once


class RestlessCatalog:
    """A catalog that ignores case, in which something happens at every look.

    Args:
        world: The table and its log.
        folds: Whether it answers to names in any case itself.
    """

    name = CATALOG

    def __init__(self, world: World, *, folds: bool) -> None:
        self._world = world
        self._folds = folds
        self._numbers = itertools.count()

    def load(self, identifier: tuple[str, ...]) -> MemoryView:
        """See `Catalog.load`: a record is tiered, and another one comes."""
        folded = tuple(part.lower() for part in identifier)
        known = folded if self._folds else identifier
        found = self._world.catalog.load(known)
        tier_once(self._world.table, self._world.log, Untimed(), records_max=1)
        self._world.log.produce(TOPIC, 0, str(next(self._numbers)).encode())
        return found

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`."""
        return self._world.catalog.namespaces()

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`."""
        return self._world.catalog.has_namespace(namespace)

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        return self._world.catalog.tables(namespace)


@pytest.fixture(params=[True, False], ids=["folding catalog", "exact catalog"])
def sources(request: pytest.FixtureRequest) -> tuple[World, Sources]:
    world = World()
    for number in range(6):
        world.log.produce(TOPIC, 0, f"first {number}".encode())
    return world, Sources(RestlessCatalog(world, folds=request.param), world.log)


def answer(world: World, sources: Sources, *spellings: str, **options: object) -> Answer:
    statement = " UNION ALL ".join(
        f"SELECT _kafka_partition, _kafka_offset, value FROM {name}" for name in spellings
    )
    return read(sources, world.table.open, statement, **options)  # type: ignore[arg-type]


def cased(text: str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.sampled_from([c.lower(), c.upper()]) for c in text)).map("".join)


def spellings() -> st.SearchStrategy[str]:
    """Ways to write lake.default.orders."""
    table = cased("orders") | cased("orders").map(lambda name: f'"{name}"')
    schema = cased("default").map(lambda name: f'"{name}"')
    return (
        table
        | st.tuples(schema, table).map(".".join)
        | st.tuples(schema, table).map(lambda parts: ".".join(("lake", *parts)))
    )


@examples(50)
@given(st.data())
def test_a_table_has_one_seam_however_it_is_spelled(data: st.DataObject) -> None:
    world = World()
    for number in range(6):
        world.log.produce(TOPIC, 0, f"first {number}".encode())
    folds = data.draw(st.booleans())
    found = answer(
        world,
        Sources(RestlessCatalog(world, folds=folds), world.log),
        *data.draw(st.lists(spellings(), min_size=2, max_size=4)),
    )
    assert len(found.seams) == 1
    first, *others = (sorted(rows) for rows in found.scans)
    assert all(rows == first for rows in others)
    assert [row[1] for row in first] == list(range(found.seam.end[0]))


@pytest.mark.parametrize(
    "spelling", ["orders", "ORDERS", '"default"."Orders"', "lake.default.orders"]
)
def test_tokens_and_sessions_know_the_table_by_its_id(
    sources: tuple[World, Sources], spelling: str
) -> None:
    first = answer(*sources, "orders")
    token = [tokens.decode(tokens.encode(first.seam))]
    again = answer(*sources, spelling, token=token)
    assert sorted(again.rows) == sorted(first.rows)
    assert first.seam.cold.snapshot_id is not None
    seen = tokens.decode(tokens.encode(answer(*sources, "orders").seam))
    world, _ = sources
    world.table.roll_back(first.seam.cold.snapshot_id)
    with pytest.raises(SeamlineError) as caught:
        answer(*sources, spelling, after=After((seen,)))
    assert caught.value.code is HISTORY_CHANGED


def test_a_token_of_a_dropped_table_says_so(sources: tuple[World, Sources]) -> None:
    world, own = sources
    token = tokens.decode(tokens.encode(answer(world, own, "orders").seam))
    elsewhere = dataclasses.replace(token, table_uuid="another")
    with pytest.raises(SeamlineError) as caught:
        answer(world, own, "ORDERS", token=[elsewhere])
    assert caught.value.code is HISTORY_CHANGED


def test_what_is_not_there_is_not_found(sources: tuple[World, Sources]) -> None:
    with pytest.raises(SeamlineError) as caught:
        answer(*sources, "order")
    assert caught.value.code is TABLE_NOT_FOUND


@pytest.mark.parametrize(
    ("requests", "code"), [(0, TOPIC_RECREATED), (12, TOPIC_RECREATED), (99, LOG_TRUNCATED)]
)
def test_a_topic_that_was_recreated_is_not_taken_for_a_truncated_one(
    requests: int, code: ErrorCode
) -> None:
    world = World()
    for number in range(6):
        world.log.produce(TOPIC, 0, f"first {number}".encode())
    tier_once(world.table, world.log, Untimed(), records_max=100)
    former = world.log.bounds([TOPIC], "read_committed", Untimed())[TOPIC]
    world.log.delete_topic(TOPIC)
    world.log.create_topic(TOPIC, len(former.end))
    behind = BehindLog(world.log, former.topic_id, requests)
    with pytest.raises(SeamlineError) as caught:
        read(Sources(world.catalog, behind), world.table.open, f"SELECT value FROM {TOPIC}")
    assert caught.value.code is code

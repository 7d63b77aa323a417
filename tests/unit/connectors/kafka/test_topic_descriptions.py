"""What a topic is, when brokers have no ids or do not know of the newest one yet.

Goal: no id that all topics share, and none from a broker that lags behind, is believed.
Method: answers in the client's own types; generated histories of a topic that is recreated and
grows, told by brokers of which some are late; clusters of the client library's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from confluent_kafka import Node, TopicPartitionInfo, Uuid
from confluent_kafka.admin import AdminClient, TopicDescription
from hypothesis import given
from hypothesis import strategies as st

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.requests import retried
from seamline.connectors.kafka.topic_descriptions import NO_ID, agreed, partitions_of
from seamline.errors import KAFKA_UNAVAILABLE, NOT_SUPPORTED, SeamlineError
from seamline.gateway.deadline import no_deadline

NODE = Node(1, "localhost", 9092)


def topic(number: int, partitions: int = 2) -> TopicDescription:
    """The topic as it was created for the nth time."""
    infos = [TopicPartitionInfo(p, NODE, [NODE], [NODE]) for p in reversed(range(partitions))]
    return TopicDescription("t", Uuid(0, number), False, infos)


HISTORIES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4)


def test_a_topic_without_an_id_is_refused() -> None:
    assert str(topic(0).topic_id) == NO_ID
    for views in ([topic(0)], [topic(0), topic(0)], [topic(1), topic(0)]):
        with pytest.raises(SeamlineError) as caught:
            agreed([{"t": view} for view in views])
        assert caught.value.code is NOT_SUPPORTED
        assert "2.8" in (caught.value.hint or "")


@given(HISTORIES, st.integers(0, 3), st.integers(0, 3))
def test_only_what_two_brokers_tell_is_believed(
    history: Sequence[tuple[int, int]], first: int, second: int
) -> None:
    views = [topic(*history[min(late, len(history) - 1)]) for late in (first, second)]
    same = str(views[0].topic_id) == str(views[1].topic_id)
    if same and partitions_of(views[0]) == partitions_of(views[1]):
        assert agreed([{"t": view} for view in views])["t"] is views[0]
        return
    with pytest.raises(SeamlineError) as caught:
        agreed([{"t": view} for view in views])
    assert caught.value.code is KAFKA_UNAVAILABLE


def test_brokers_are_asked_until_the_one_that_lags_has_caught_up() -> None:
    told = iter([(1, 2), (1, 2), (2, 2)])

    def ask() -> str:
        found = agreed([{"t": topic(number)} for number in next(told)])
        return str(found["t"].topic_id)

    refreshed: list[int] = []
    assert retried(ask, no_deadline(), lambda: refreshed.append(1)) == str(Uuid(0, 2))
    assert len(refreshed) == 2, "each time of brokers that are chosen anew"


def test_one_view_is_enough_where_one_broker_is() -> None:
    assert partitions_of(agreed([{"t": topic(1, 3)}])["t"]) == (0, 1, 2)


@pytest.mark.parametrize("brokers", [1, 3])
def test_no_other_broker_is_asked_where_one_decides(brokers: int) -> None:
    """These brokers name the same controller, as they did before they elected without ZooKeeper."""
    own = AdminClient({"test.mock.num.brokers": str(brokers), "log_level": 0})
    known = own.list_topics(timeout=10).brokers.values()
    assert len(known) == brokers
    addresses = ",".join(f"{broker.host}:{broker.port}" for broker in known)
    cluster = Cluster(ClusterConfig(name="mock", bootstrap_servers=addresses))
    with contextlib.closing(cluster):
        assert cluster.other(cluster.admin, "a topic", no_deadline()) is None

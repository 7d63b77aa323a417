"""Goal: clients of a cluster are let go when of no use, and wait for no request of others.

Method: a cluster that does not answer, and what clients are made with.
"""

from __future__ import annotations

import socket

import pytest

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import FOLLOW_WAIT_MS, READ_WAIT_MS, Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.errors import DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.seam.log import READ_COMMITTED, READ_UNCOMMITTED


def test_an_admin_client_that_was_asked_in_vain_is_let_go() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        cluster = Cluster(
            ClusterConfig(name="silent", bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}")
        )
        before = cluster.admin
        with pytest.raises(SeamlineError) as caught:
            KafkaLog(cluster).bounds(["t"], READ_COMMITTED, StatementDeadline(0.3))
        assert caught.value.code in (KAFKA_UNAVAILABLE, DEADLINE_EXCEEDED)
        assert cluster.admin is not before
        cluster.close()


@pytest.mark.parametrize("isolation", [READ_COMMITTED, READ_UNCOMMITTED])
def test_a_reader_leaves_no_fetch_behind_that_the_next_one_waits_for(
    isolation: str,
) -> None:
    """The broker answers one request of a connection after the other."""
    anywhere = ClusterConfig(name="any", bootstrap_servers="127.0.0.1:1")
    cluster = Cluster(anywhere)
    assert cluster.consumer_properties(isolation, READ_WAIT_MS)["fetch.wait.max.ms"] <= 1
    assert cluster.consumer_properties(isolation, FOLLOW_WAIT_MS)["fetch.wait.max.ms"] > 1
    with cluster.consumer(isolation) as reader:
        pass
    with cluster.consumer(isolation, wait_ms=FOLLOW_WAIT_MS) as follower:
        assert follower is not reader  # each has what it is made for
    with cluster.consumer(isolation) as again:
        assert again is reader
    cluster.close()

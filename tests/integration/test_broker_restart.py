"""A broker that comes back is read again at once.

Goal: after a restart of the broker, bounds of a topic are known as soon as it answers, from clients
that knew its leaders before.
Method: a stack of its own, whose broker is ended and started between two reads of the same client.
"""

from __future__ import annotations

import pathlib
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from seamline.connectors.base import READ_COMMITTED
from seamline.connectors.kafka.cluster import Cluster, ClusterConfig
from seamline.connectors.kafka.log import KafkaLog
from seamline.gateway.deadline import no_deadline
from seamline.gateway.local.stack import LocalStack


@pytest.mark.integration
def test_leaders_are_looked_up_after_a_restart(tmp_path: pathlib.Path) -> None:
    stack = LocalStack(tmp_path)
    servers = stack.up(lambda _: None).bootstrap_servers
    assert servers is not None
    cluster = Cluster(ClusterConfig("local", servers))
    try:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 3)])["t"].result(30)
        log = KafkaLog(cluster)
        before = log.bounds(["t"], READ_COMMITTED, no_deadline())["t"]
        for _ in range(2):
            stack.down(lambda _: None)
            stack.up(lambda _: None)
            started = time.monotonic()
            assert log.bounds(["t"], READ_COMMITTED, no_deadline())["t"].end == before.end
            assert time.monotonic() - started < 9, "leaders are not waited for until they expire"
    finally:
        cluster.close()
        stack.down(lambda _: None)

"""A broker that comes back is read again at once.

Goal: after a restart of the broker, bounds of a topic are known as soon as it answers, from clients
that knew its leaders before.
Method: a stack of its own, whose broker is ended and started between two reads of the same client.
"""

from __future__ import annotations

import contextlib
import pathlib
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.waiting import wait_until

from seamline.connectors.base import READ_COMMITTED
from seamline.connectors.kafka.cluster import Cluster, ClusterConfig
from seamline.connectors.kafka.log import KafkaLog
from seamline.gateway.deadline import no_deadline
from seamline.gateway.local.stack import LocalStack
from seamline.sql.errors import SeamlineError


def _check_fewer_partitions(admin: AdminClient, log: KafkaLog, old_id: str) -> None:
    """A topic made again with fewer partitions is another topic, not one that is missing."""
    admin.delete_topics(["t"])["t"].result(30)
    wait_until(lambda: "t" not in admin.list_topics(timeout=5).topics)
    admin.create_topics([NewTopic("t", 1)])["t"].result(30)
    found = []

    def is_known() -> bool:
        with contextlib.suppress(SeamlineError):  # a new topic takes a moment to get its log
            found.append(log.bounds(["t"], READ_COMMITTED, no_deadline())["t"])
        return bool(found)

    wait_until(is_known, 20)
    assert found[0].topic_id != old_id
    assert dict(found[0].end) == {0: 0}


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
        _check_fewer_partitions(admin, log, before.topic_id)
    finally:
        cluster.close()
        stack.down(lambda _: None)

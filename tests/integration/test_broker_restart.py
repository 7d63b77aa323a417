"""A broker that comes back is read again at once, and not for what it was when it lost its log.

Goal: after a restart of the broker, bounds of a topic are known as soon as it answers, from clients
that knew its leaders before. A log that came back shorter is never read on from the old boundary,
also when it has grown past it again.
Method: a stack of its own, whose broker is ended and started between two reads of the same client;
meanwhile its files are as they were, or gone.
"""

from __future__ import annotations

import contextlib
import pathlib
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.errors import LOG_TRUNCATED, SeamlineError
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.local.stack import LocalStack
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange


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


@pytest.mark.soak
@pytest.mark.integration
def test_leaders_are_looked_up_after_a_restart(tmp_path: pathlib.Path) -> None:
    stack = LocalStack(tmp_path)
    servers = stack.up(lambda _: None).bootstrap_servers
    assert servers is not None
    cluster = Cluster(ClusterConfig(name="local", bootstrap_servers=servers))
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


@pytest.mark.soak
@pytest.mark.integration
def test_a_log_that_was_cut_is_not_read_on(tmp_path: pathlib.Path) -> None:
    """pitfall: the boundary of a log that lost records, applied to what was written since."""
    with (
        contextlib.closing(Stack(tmp_path)) as stack,
        contextlib.closing(Gateway(stack.config)) as gateway,
    ):
        stack.create_topic("t", 1)
        stack.create_table("t", "id bigint")
        stack.produce("t", [{"id": i} for i in range(20)])
        stack.move_boundary("t")
        stack.produce("t", [{"id": i} for i in range(20, 25)])
        assert gateway.rows("SELECT id FROM t ORDER BY id") == [(i,) for i in range(20, 25)]
        stack.restart_broker(without_log_of="t")
        for total in (5, 20, 40):  # below the boundary, at it, beyond
            stack.produce("t", [{"id": -1}] * (total - stack.bounds("t").end[0]))
            error = gateway.statement("SELECT id FROM t").error
            assert error is not None, total
            assert error.code is LOG_TRUNCATED, (total, error)
        log = stack.connections.log("default")
        for end in (20, 40):
            read = log.read("t", [OffsetRange(0, 0, 40)], READ_COMMITTED, no_deadline())
            assert sum(map(len, read)) == 40, "now a client of the pool knows the log as it is"
            beyond = OffsetRange(0, 20, end)
            with pytest.raises(SeamlineError) as caught:
                list(log.read("t", [beyond], READ_COMMITTED, no_deadline(), epochs={0: 0}))
            assert caught.value.code is LOG_TRUNCATED

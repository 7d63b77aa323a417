"""Clients of a cluster that does not answer are let go, so that the next request starts anew."""

from __future__ import annotations

import socket

import pytest

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.errors import DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE, SeamlineError
from seamline.gateway.query.deadline import StatementDeadline
from seamline.seam.log import READ_COMMITTED


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

"""Lets a table go on after records were lost that it had not tiered yet.

`seamline table resume` and ALTER TABLE … EXECUTE resume. The loss is recorded in the table, in a
commit that lands only if nobody else has committed since the loss was measured.
"""

from __future__ import annotations

import time

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import alterations
from seamline.gateway.names import TableName
from seamline.gateway.tiering import step
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary


def resume(
    connections: Connections, name: TableName, deadline: Deadline, *, by: str, accept_loss: bool
) -> Boundary:
    """Raises the boundary of a table to where its log begins, and records what is lost.

    Args:
        connections: Clusters and catalogs.
        name: The table.
        deadline: Bounds requests to the log.
        by: Who accepts the loss.
        accept_loss: Whether it is accepted; if not, the error says what would be lost.

    Returns:
        The boundary from which the table goes on.

    Raises:
        SeamlineError: as `step.resume`.
    """

    def work() -> Boundary:
        opened = alterations.load(connections, name)
        binding = TopicBinding.required(opened.state.properties, name.display)
        log = connections.log(binding.cluster)
        table = SparkTierTable(
            None,  # a commit without rows needs no Spark
            connections.catalog(name.catalog),
            name.path,
            log,
            connections.cluster(binding.cluster).config,
            tasks_min=1,
            opened=opened,
        )
        now_ms = time.time_ns() // 1_000_000
        return step.resume(table, log, deadline, now_ms=now_ms, by=by, accept_loss=accept_loss)

    return commits.insist(work)

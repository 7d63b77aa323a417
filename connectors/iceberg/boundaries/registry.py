"""The boundary providers by name, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.boundaries.columns import Columns
from seamline.connectors.iceberg.boundaries.fluss import Fluss
from seamline.connectors.iceberg.boundaries.kafka_connect import ControlTopics, KafkaConnect
from seamline.connectors.iceberg.boundaries.positions import PositionReader
from seamline.connectors.iceberg.boundaries.provider import (
    AdoptedIceberg,
    Answer,
    Answers,
    Provider,
    ScannedTable,
)
from seamline.connectors.iceberg.boundaries.spark_streaming import SparkStreaming
from seamline.connectors.iceberg.boundaries.stream_loader import StreamLoader
from seamline.connectors.iceberg.boundaries.watermark import Watermark
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import EXACT
from seamline.seam.table import Snapshot

if TYPE_CHECKING:
    from seamline.connectors.protocols.hot_logs import HotLog

PROVIDERS: Mapping[str, type[Provider[AdoptedIceberg]]] = {
    provider.name: provider
    for provider in (Columns, Fluss, KafkaConnect, SparkStreaming, StreamLoader, Watermark)
}
_ANSWERS_MAX = 10_000
PROPERTY = f"{PROPERTY_PREFIX}boundary-provider"

Logs = Callable[[str], "HotLog"]
"""Returns the log of a cluster, given the cluster's name."""


class Unknown(Provider[AdoptedIceberg]):
    """Stands in for a provider that does not exist."""

    name = "unknown"
    trust = EXACT

    def answer(self, snapshot: Snapshot) -> Answer | None:  # noqa: ARG002 - always raises
        """See `Provider.answer`.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION.
        """
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"the boundary provider {self.adopted.binding.boundary_provider!r} of "
            f"{self.adopted.state.display_name} is not known",
            hint=f"It is one of: {', '.join(PROVIDERS)}.",
        )


class Providers:
    """Creates the boundary providers of tables. Safe to share between threads."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._positions = PositionReader()
        self._reports = ControlTopics()
        self._answers: Answers = Cache(_ANSWERS_MAX)

    def of(self, table: ScannedTable) -> Provider[AdoptedIceberg] | None:
        """Returns the provider of a table; None if Seamline itself copies the topic into it.

        An error in the table's binding is raised only when its boundary is needed, since the
        snapshots themselves can still be read.
        """
        if PROPERTY not in table.state.properties:
            return None
        binding: TopicBinding | None
        try:
            binding = TopicBinding.from_properties(table.state.properties)
        except SeamlineError:
            return None  # whoever needs the binding gets the same error
        if binding is None or binding.boundary_provider is None:
            return None
        return PROVIDERS.get(binding.boundary_provider, Unknown)(
            AdoptedIceberg(
                state=table.state,
                binding=binding,
                log=lambda: self._logs(binding.cluster),
                answers=self._answers,
                table=table,
                positions=self._positions,
                reports=self._reports,
            )
        )

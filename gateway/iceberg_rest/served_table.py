"""One table as one statement of an engine sees it: pinned, and described in Iceberg's terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.typedef import TableVersion

from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.metadata_files import MetadataFile
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.tail_files import TailLayout
from seamline.connectors.iceberg.virtual import Json
from seamline.gateway.names import TableName
from seamline.planners.plan.physical import TailRead
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam
from seamline.seam.upserts import Newest

UNPARTITIONED_SPEC_ID = 1_000_000
"""Id of the unpartitioned spec for tails that would fall into too many partitions, in tables that
have no unpartitioned spec of their own; far above any spec id that a table reaches."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServedTail:
    """The tail of a pinned table.

    Attributes:
        seam: Where it begins and ends.
        snapshot_id: Id of the virtual snapshot that holds it.
        decoder: How its records are decoded.
    """

    seam: Seam
    snapshot_id: int
    decoder: DecoderSpec


@dataclasses.dataclass(frozen=True, slots=True)
class ServedTable:
    """A pinned table.

    Attributes:
        name: Its name.
        cold: The table in its own catalog.
        file: Its own metadata.
        base: The same metadata, in a format version to which virtual snapshots can be added.
        tail: Its tail; None if there is only its own head.
        moment_ms: A moment that every reader's clock has passed; None for a plain table.
    """

    name: TableName
    cold: IcebergTable
    file: MetadataFile
    base: Json = dataclasses.field(compare=False)
    tail: ServedTail | None
    moment_ms: int | None = None

    def tail_read(self, ranges: Sequence[OffsetRange], columns: Sequence[str]) -> TailRead:
        """Returns the request for the named columns of ranges of its tail."""
        assert self.tail is not None
        return TailRead(self.tail.seam, tuple(ranges), self.tail.decoder, tuple(columns))

    @property
    def uuid(self) -> str:
        """Iceberg's id of the table."""
        return self.cold.state.uuid

    @property
    def version(self) -> TableVersion:
        """Format version of the metadata that is served."""
        return cast("TableVersion", self.base["format-version"])

    @property
    def unpartitioned(self) -> PartitionSpec:
        """The partition spec for rows that are not to be partitioned."""
        specs = self.cold.iceberg.metadata.partition_specs
        own = next((spec for spec in specs if not spec.fields), None)
        return own or PartitionSpec(spec_id=UNPARTITIONED_SPEC_ID)

    def require_own_files(self) -> None:
        """Requires that the metadata names only the table's own files, as other readers read them.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, COLD_FILE_MISSING, STORAGE_UNAVAILABLE.
        """
        head = self.tail.seam.cold.snapshot_id if self.tail else self.cold.state.current_snapshot_id
        self.cold.require_own_files(head)

    def layout(self) -> TailLayout:
        """Returns how its tail is laid out in files."""
        metadata = self.cold.iceberg.metadata
        assert self.tail is not None
        return TailLayout(
            schema=metadata.schema_by_id(self.tail.seam.schema_id) or metadata.schema(),
            columns=self.tail.decoder.stored,
            spec=metadata.spec(),
            unpartitioned=self.unpartitioned,
            order=metadata.sort_order_by_id(metadata.default_sort_order_id)
            or metadata.sort_orders[0],
            format_version=self.version,
            properties=dict(metadata.properties),
        )

    def newest(self) -> Newest | None:
        """Returns how to tell which of its rows count; None if all do."""
        binding = TopicBinding.from_properties(self.cold.state.properties)
        assert self.tail is not None
        assert binding is not None
        return Newest.of(binding, self.tail.decoder)

    def source(self) -> str:
        """Describes, as text, what determines the rows of given offsets, besides the layout.

        The leaders are part of it: a new one may continue at offsets that the log has lost.
        """
        assert self.tail is not None
        seam, decoder = self.tail.seam, self.tail.decoder
        leaders = sorted(seam.log.end_epochs.items())
        return repr((self.uuid, seam.log.topic_id, seam.log.isolation, leaders, decoder))


def served_tail(table: IcebergTable, seam: Seam, decoder: DecoderSpec | None) -> ServedTail | None:
    """Returns the tail of a seam, or None if it is empty or there is no log."""
    if decoder is None or seam.cold.snapshot_id is None or not seam.hot_ranges:
        return None
    state = table.state
    own_id = virtual.snapshot_id(seam, state.snapshots, decoder.on_error, state.format_version)
    return ServedTail(seam, own_id, decoder)


def is_unified(table: IcebergTable) -> bool:
    """Returns whether the table is bound to a topic."""
    return TopicBinding.from_properties(table.state.properties) is not None

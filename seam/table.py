"""The state of a cold table: its snapshots, schemas and references, as given in its metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from seamline.errors import SNAPSHOT_GONE, SeamlineError
from seamline.sql.types import Field, Row

if TYPE_CHECKING:
    from seamline.seam.boundary import BoundaryProvider


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state of a table, without its files."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str
    summary: Mapping[str, str] = dataclasses.field(hash=False)
    schema_id: int | None = None
    sequence_number: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table in one version of its schema."""

    schema_id: int
    columns: tuple[Field, ...]

    @property
    def row(self) -> Row:
        """The columns as a row type."""
        return Row(self.columns)


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A branch or a tag, and how long its writer keeps it and its snapshots, if that is set."""

    snapshot_id: int
    kind: str
    max_age_ms: int | None = None
    snapshots_min: int | None = None
    max_snapshot_age_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TableState:
    """The metadata of a cold table at one moment.

    Attributes:
        name: (catalog, namespace…, table).
        uuid: Iceberg's id of the table; a table that was dropped and recreated has another.
        properties: Table properties; Seamline's own start with `seamline.`.
        schemas: Every schema the table has had, by id.
        current_schema_id: The schema new statements see.
        snapshots: The snapshots that have not expired, by id.
        refs: Branches and tags; `main` is the table's own line.
        current_snapshot_id: Head of `main`; None before the first commit.
        snapshot_log: (timestamp_ms, snapshot_id) each time the head of `main` changed, oldest
            first.
        location: Location of the table's files.
        metadata_location: The file this state was read from; changes with every commit.
        format_version: 1, 2 or 3.
        expired: Snapshots that lead from the head to its boundary although some have expired;
            empty if none has.
        provider: If another writer copies the topic into the table, tells how much of the log each
            snapshot holds; None if Seamline does, whose snapshots carry this themselves.
    """

    name: tuple[str, ...]
    uuid: str
    properties: Mapping[str, str] = dataclasses.field(hash=False)
    schemas: Mapping[int, TableSchema] = dataclasses.field(hash=False)
    current_schema_id: int
    snapshots: Mapping[int, Snapshot] = dataclasses.field(hash=False)
    refs: Mapping[str, SnapshotRef] = dataclasses.field(hash=False)
    current_snapshot_id: int | None
    snapshot_log: tuple[tuple[int, int], ...] = ()
    location: str = ""
    metadata_location: str = ""
    format_version: int = 2
    expired: Mapping[int, Snapshot] = dataclasses.field(default_factory=dict, hash=False)
    provider: BoundaryProvider | None = dataclasses.field(
        default=None, hash=False, compare=False, repr=False
    )

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """Yields the snapshot and its ancestors, newest first, until one has expired."""
        while snapshot_id is not None and (snapshot := self.snapshots.get(snapshot_id)):
            yield snapshot
            snapshot_id = snapshot.parent_id

    def lineage(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """Yields the same, and then what is known of the expired ones."""
        while snapshot_id is not None:
            snapshot = self.expired.get(snapshot_id) or self.snapshots.get(snapshot_id)
            if snapshot is None:
                return
            yield snapshot
            snapshot_id = snapshot.parent_id

    def sequence_number(self, snapshot_id: int | None) -> int:
        """Returns a snapshot's place in the order of the table's commits; 0 if unknown."""
        snapshot = self.snapshots.get(snapshot_id) if snapshot_id is not None else None
        return snapshot.sequence_number if snapshot is not None else 0

    def schema_of(self, snapshot_id: int) -> TableSchema:
        """Returns the schema a snapshot was written with.

        Raises:
            SeamlineError: SNAPSHOT_GONE when the table no longer has the snapshot.
        """
        snapshot = self.snapshots.get(snapshot_id)
        if snapshot is None:
            raise SeamlineError(
                SNAPSHOT_GONE, f"snapshot {snapshot_id} of {self.display_name} is no longer kept"
            )
        schema_id = snapshot.schema_id
        return self.schemas[self.current_schema_id if schema_id is None else schema_id]

    @property
    def schema(self) -> TableSchema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def display_name(self) -> str:
        """Dotted name for messages."""
        return ".".join(self.name)

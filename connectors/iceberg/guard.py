"""Checks tables before they are used: every file that their metadata names must be their own.

The metadata names manifest lists, older metadata files and statistics files. Manifest lists name
manifests, and manifests name data and delete files. What the metadata names is checked when a table
is loaded. The rest is checked when it is read, or all at once if somebody else is going to read it.
Files never change, so each is checked once. On this machine, however, a data file may become a
link, so its path is checked each time it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.foreign_metadata import files_of
from seamline.connectors.iceberg.heads import HEADS_BYTES_MAX, added, bytes_of
from seamline.connectors.places import CatalogPlaces, TablePlaces

KNOWN_MAX = 100_000


class Checks:
    """Remembers what has been checked. Safe to share between threads."""

    def __init__(self) -> None:
        self._checked: Cache[Hashable, bool] = Cache(KNOWN_MAX)

    def require(
        self, places: TablePlaces, container: Hashable, named: Callable[[], Iterable[str]]
    ) -> None:
        """Requires whatever a file, or a part of it, names to be one of the table's own files.

        Args:
            places: Where the table's own files may be.
            container: Identifies the file, or the part of it, that names others.
            named: Returns the files that it names; called only the first time.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        if self._checked.get((places, container)) is None:
            places.require(named())
            self._checked.put((places, container), True)

    def are_done(self, places: TablePlaces, container: Hashable) -> bool:
        """Whether what a file, or a part of it, names has been checked."""
        return self._checked.get((places, container)) is not None


class CatalogGuard:
    """Checks the metadata of a catalog's tables. Safe to share between threads."""

    def __init__(self, places: CatalogPlaces) -> None:
        self.places = places
        self._checked: Cache[TablePlaces, _Checked] = Cache(
            HEADS_BYTES_MAX, weight=lambda checked: bytes_of(checked.metadata)
        )

    def check(self, table: PyTable) -> TablePlaces:
        """Returns where the table's files may be, once all files its metadata names are there.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        name = ".".join((self.places.catalog, *table.name()))
        places = self.places.of_table(name, table.metadata.location)
        checked, location = self._checked.get(places), table.metadata_location or ""
        if checked != _Checked(location, table.metadata):  # whatever it was there before
            places.require(named_files(table, checked.metadata if checked else None))
            self._checked.put(places, _Checked(location, table.metadata))
        return places


class _Checked(NamedTuple):
    location: str
    metadata: TableMetadata


def named_files(table: PyTable, checked: TableMetadata | None = None) -> Iterator[str]:
    """Yields the files that a table's metadata names, and the metadata file itself.

    Args:
        table: The table.
        checked: Metadata of the table; what it shares with this one is left out.
    """
    metadata = table.metadata
    if table.metadata_location:
        yield table.metadata_location
    snapshots, log = metadata.snapshots, metadata.metadata_log
    if checked is not None:
        snapshots = [*added(snapshots, checked.snapshots)]
        log = [*added(log, checked.metadata_log)]
    yield from itertools.chain.from_iterable(map(files_of, snapshots))
    yield from (entry.metadata_file for entry in log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)

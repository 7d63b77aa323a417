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

from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.foreign_metadata import files_of
from seamline.connectors.places import CatalogPlaces, TablePlaces

KNOWN_MAX = 100_000
METADATA_KNOWN_MAX = 256


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


class CatalogGuard:
    """Checks the metadata of a catalog's tables. Safe to share between threads.

    Args:
        places: Where its tables may be.
    """

    def __init__(self, places: CatalogPlaces) -> None:
        self.places = places
        self._checked: Cache[tuple[TablePlaces, str], TableMetadata] = Cache(METADATA_KNOWN_MAX)

    def check(self, table: PyTable) -> TablePlaces:
        """Returns where the table's files may be, once all files its metadata names are there.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        name = ".".join((self.places.catalog, *table.name()))
        places = self.places.of_table(name, table.metadata.location)
        key = (places, table.metadata_location or "")
        if self._checked.get(key) != table.metadata:  # whatever it was at the same location before
            places.require(named_files(table))
            self._checked.put(key, table.metadata)
        return places


def named_files(table: PyTable) -> Iterator[str]:
    """Yields the files that a table's metadata names, and the metadata file itself."""
    metadata = table.metadata
    if table.metadata_location:
        yield table.metadata_location
    yield from itertools.chain.from_iterable(map(files_of, metadata.snapshots))
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)

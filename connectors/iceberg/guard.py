"""Tables looked at before they are used: every file their metadata names must be their own.

The metadata names lists of manifests, older metadata and statistics; lists name manifests, these
data files and deletes. The first are looked at when a table is loaded, the others when they are
read, or all together where somebody else is to read them. Files never change, so each is looked at
once; but on this machine a data file may become a link, which is seen each time it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator

from pyiceberg.table import Table as PyTable

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.foreign_metadata import files_of
from seamline.connectors.iceberg.places import CatalogPlaces, TablePlaces

KNOWN_MAX = 100_000


class Checks:
    """What was looked at and need not be again. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: Cache[Hashable, bool] = Cache(KNOWN_MAX)

    def require(
        self, places: TablePlaces, container: Hashable, named: Callable[[], Iterable[str]]
    ) -> None:
        """All that a file, or a part of it, names must be of the table's own files.

        Args:
            places: Where these may lie.
            container: Tells the file, or its part, from every other.
            named: Gives what it names; asked the first time only.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        if self._known.get((places, container)) is None:
            places.require(named())
            self._known.put((places, container), True)


class CatalogGuard:
    """Looks at the metadata of a catalog's tables. Safe to share between threads.

    Args:
        places: Where its tables may lie.
    """

    def __init__(self, places: CatalogPlaces) -> None:
        self.places = places
        self._checks = Checks()

    def check(self, table: PyTable) -> TablePlaces:
        """Where the table's files may lie, when all that its metadata names do.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        name = ".".join((self.places.catalog, *table.name()))
        places = self.places.of_table(name, table.metadata.location)
        self._checks.require(places, table.metadata_location or "", lambda: named_files(table))
        return places


def named_files(table: PyTable) -> Iterator[str]:
    """The files that a table's metadata names, itself among them."""
    metadata = table.metadata
    if table.metadata_location:
        yield table.metadata_location
    yield from itertools.chain.from_iterable(map(files_of, metadata.snapshots))
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)

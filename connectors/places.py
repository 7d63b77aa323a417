"""Decides where the files of tables may be, whatever their metadata says.

A gateway opens files with rights that the writer of a table's metadata need not have. So a table
must be in its catalog's warehouse or under locations that the configuration adds, and its files
must be under the table. A location is interpreted as its readers interpret it: schemes in any case
and under any of their names, doubled slashes, links followed. A location that they might interpret
differently counts as nowhere.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote

from seamline.errors import LOCATION_NOT_ALLOWED, SeamlineError

FILE = "file"
SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb"}
"""Names that mean the same store."""
BUCKETS = frozenset({"s3", "gs"})
"""Stores whose address comes from the configuration; for others, the location names the host."""
_HADOOP = frozenset({"hdfs", "viewfs"})
"""Stores that may be named without a host, which means the configured one."""
STORES = BUCKETS | _HADOOP | {FILE, "abfs", "wasb", "oss", "hf"}
"""Stores that PyIceberg opens. A warehouse with another scheme is a name that its catalog knows."""
_URL = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)")
_NO_NAMES = frozenset({"", ".", ".."})
_CUT = re.compile(r"[\x00-\x1f?#]")
"""Characters that end a location for some readers but not for others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The place that a location resolves to.

    Attributes:
        scheme: The store.
        authority: Its bucket, container or host; empty for files of this machine.
        path: The path in it, without a slash at its end.
    """

    scheme: str
    authority: str
    path: str

    def holds(self, other: Place) -> bool:
        """Whether the other place is below this one."""
        return (self.scheme, self.authority) == (other.scheme, other.authority) and (
            other.path.startswith(f"{self.path}/")
        )


def place_of(location: str, real: Callable[[str], str] = os.path.realpath) -> Place | None:
    """Resolves a location; returns None if it cannot be resolved with certainty.

    Args:
        location: The location.
        real: Resolves the links in the path of a folder.
    """
    if _CUT.search(location) or ".." in map(_decoded, location.split("/")):
        return None
    if location.startswith("/"):
        return _file(location, real)
    match = _URL.fullmatch(location)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    scheme, authority = SCHEMES.get(scheme, scheme), match["authority"] or ""
    if scheme == FILE:
        return _file(match["path"], real) if authority.lower() in {"", "localhost"} else None
    if not (authority or scheme in _HADOOP):
        return None
    return Place(scheme, authority, match["path"].rstrip("/"))


def _file(path: str, real: Callable[[str], str]) -> Place | None:
    """Resolves the path of a file on this machine, following links."""
    if not path.startswith("/"):
        return None
    folder, _, name = path.rstrip("/").rpartition("/")
    real_path = f"{real(folder or '/')}/{name}"
    if name in {"", "."} or os.path.islink(real_path):  # noqa: PTH114 - called for every file
        real_path = os.path.realpath(real_path)
    return Place(FILE, "", f"/{real_path.strip('/')}".rstrip("/"))


def _is_plain(folder: Place | None, name: str) -> bool:
    """Whether a name certainly is that of a file in a folder, so that it need not be resolved."""
    if folder is None or name in _NO_NAMES or "%" in name or _CUT.search(name):
        return False
    return folder.scheme != FILE or not os.path.islink(f"{folder.path}/{name}")  # noqa: PTH114


def _decoded(part: str) -> str:
    """Percent-decodes a part of a path, however many times it has been encoded."""
    while "%" in part and (plain := unquote(part)) != part:
        part = plain
    return part


@dataclasses.dataclass(frozen=True, slots=True)
class TablePlaces:
    """Where the files of one table may be.

    Attributes:
        table: The table's full name, for messages.
        own: Its location.
        shared: Places where files of any table of its catalog may be.
    """

    table: str
    own: Place
    shared: tuple[Place, ...] = ()

    @classmethod
    def of(cls, table: str, location: str, shared: Iterable[str]) -> TablePlaces:
        """Returns the places of a table whose location is allowed.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED if readers may interpret the location differently.
        """
        own = place_of(location)
        if own is None:
            raise SeamlineError(
                LOCATION_NOT_ALLOWED,
                f"table {table} is in {location!r}, which readers may interpret differently",
            )
        return cls(table, own, places_of(tuple(shared)))

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, where a file may become a link at any time."""
        return self.own.scheme == FILE

    def require(self, locations: Iterable[str]) -> None:
        """Requires the files that the table's metadata names to be the table's own.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        roots, real = (self.own, *self.shared), functools.cache(os.path.realpath)
        folders: dict[str, Place | None] = {}
        for location in locations:
            folder, _, name = location.rpartition("/")
            if folder not in folders:
                folders[folder] = self._own_folder(folder, real)
            if _is_plain(folders[folder], name):
                continue
            place = place_of(location, real)
            if place is None or not any(root.holds(place) for root in roots):
                raise SeamlineError(
                    LOCATION_NOT_ALLOWED,
                    f"table {self.table} names a file outside its location: {location}",
                    hint="If files of its tables may be there, add the folder to "
                    f"catalogs.{self.table.partition('.')[0]}.data_locations.",
                )

    def _own_folder(self, folder: str, real: Callable[[str], str]) -> Place | None:
        """Returns the place of a folder, if files directly in it are the table's own."""
        place = place_of(folder, real)
        roots = (self.own, *self.shared)
        is_own = place is not None and any(root == place or root.holds(place) for root in roots)
        return place if is_own else None

    def allow(self, location: str) -> bool:
        """Whether files of the table may be put under a location."""
        place = place_of(location)
        return place is not None and any(
            root == place or root.holds(place) for root in (self.own, *self.shared)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogPlaces:
    """Where the tables of a catalog may be.

    Attributes:
        catalog: Name of the catalog, for messages.
        warehouse: Its warehouse, if that is a location.
        further: Other places where tables may be.
        shared: Locations where files of any table may be.
    """

    catalog: str
    warehouse: Place | None
    further: tuple[Place, ...]
    shared: tuple[str, ...]

    @classmethod
    def of(
        cls, catalog: str, warehouse: str, further: Iterable[str], shared: Iterable[str]
    ) -> CatalogPlaces:
        """Returns the places that the configuration of a catalog names."""
        own = place_of(warehouse)
        if own is not None and own.scheme not in STORES:
            own = None
        return cls(catalog, own, places_of(tuple(further)), tuple(shared))

    def of_table(self, table: str, location: str) -> TablePlaces:
        """Returns the places of a table of the catalog, given its full name and its location.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED when the table itself is elsewhere.
        """
        places = TablePlaces.of(table, location, self.shared)
        if not self._allow(places.own):
            raise SeamlineError(
                LOCATION_NOT_ALLOWED,
                f"table {table} is in {location}, where tables of the catalog may not be",
                hint=f"If they may be, add the location to catalogs.{self.catalog}.locations.",
            )
        return places

    def require(self, location: str) -> None:
        """Requires a metadata file to be where tables of the catalog, or their files, may be.

        Metadata has to be read before it says which table it belongs to.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """
        place = place_of(location)
        if place is None or not (
            self._allow(place) or any(root.holds(place) for root in places_of(self.shared))
        ):
            raise SeamlineError(
                LOCATION_NOT_ALLOWED,
                f"catalog {self.catalog} says that the metadata of a table is in {location}",
                hint=f"If its tables may be there, add it to catalogs.{self.catalog}.locations.",
            )

    def _allow(self, place: Place) -> bool:
        if self.warehouse is None and not self.further:  # only the catalog knows its places
            return place.scheme in BUCKETS
        inside = self.warehouse is not None and self.warehouse.holds(place)
        return inside or any(root == place or root.holds(place) for root in self.further)


@functools.lru_cache(maxsize=64)
def places_of(locations: tuple[str, ...]) -> tuple[Place, ...]:
    """Resolves configured locations; leaves out those that cannot be resolved."""
    return tuple(place for location in locations if (place := place_of(location)) is not None)

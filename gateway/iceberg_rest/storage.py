"""Decides where the files of virtual snapshots are stored, and removes them again.

They are stored under a prefix of the gateway, never under a table's location. So a job that looks
for orphan files in a table does not see them, and their removal cannot touch the table. Engines
read them, so they must have access to that prefix. A gateway's files are under its own id, so that
several gateways may share a location.
"""

from __future__ import annotations

import contextlib
import logging
import pathlib
import secrets
from collections.abc import Iterable
from urllib.parse import urlparse

from pyiceberg.io import FileIO, load_file_io

from seamline.connectors.duckdb.storage import local_path
from seamline.connectors.files import kept_text, private_folder
from seamline.connectors.places import FILE, place_of
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.model import Config
from seamline.gateway.iceberg_rest.served_table import ServedTable

_LOG = logging.getLogger("seamline.iceberg")
OWN_FOLDER = "_seamline"
"""Seamline's folder in a warehouse that is not on this machine. No namespace has such a name, and
tools that list a warehouse skip names with this prefix."""
PROBE = "probe.txt"
PROBE_TEXT = b"A file of a Seamline gateway. Whoever can read this can read its live tables.\n"


class SnapshotStorage:
    """The gateway's storage prefix for each catalog."""

    def __init__(self, config: Config, connections: Connections) -> None:
        self._config = config
        self._connections = connections
        state = pathlib.Path(config.state_directory)
        self._gateway_id = kept_text(state / "gateway-id", lambda: secrets.token_hex(6))
        self._default = (state / "live").resolve()
        private_folder(self._default)

    def folder(self, catalog: str, table_location: str | None = None) -> str:
        """Returns the location under which all files for a catalog's tables are stored.

        Args:
            catalog: Name of the catalog.
            table_location: Location of the table that it is needed for; a warehouse's name need not
                be a location.

        Raises:
            SeamlineError: INVALID_CONFIG when engines could not reach the default location.
        """
        location = self._config.iceberg.location or self._derived(catalog, table_location)
        return f"{location.rstrip('/')}/{self._gateway_id}/{catalog}"

    def _derived(self, catalog: str, table_location: str | None) -> str:
        """Returns a prefix that a table's readers can reach, and in which no table is stored."""
        config = self._config.catalogs[catalog]
        theirs = place_of(table_location or config.warehouse)
        if theirs is None or theirs.scheme == FILE:
            return self._default.as_uri()
        for location in (config.warehouse, *config.locations):
            place = place_of(location)
            if place is not None and (place.scheme, place.authority) == (
                theirs.scheme,
                theirs.authority,
            ):
                return f"{location.rstrip('/')}/{OWN_FOLDER}"
        raise SeamlineError(
            INVALID_CONFIG,
            f"catalog {catalog} stores tables in {table_location or config.warehouse}, none "
            "of its configured locations is in that storage, and iceberg.location is not set",
            hint="Set iceberg.location to a prefix in the same storage, outside every "
            "table, that this gateway can write and the engines can read.",
        )

    def probe(self, catalog: str) -> str:
        """Returns the location of a small file with which readers test their access to the folder.

        Raises:
            SeamlineError: INVALID_CONFIG.
            OSError: when the file cannot be written.
        """
        path = f"{self.folder(catalog)}/{PROBE}"
        target = self.io(catalog, path).new_output(path)
        if not target.exists():
            with target.create(overwrite=True) as stream:
                stream.write(PROBE_TEXT)
        return path

    def io(self, catalog: str, path: str) -> FileIO:
        """Returns access to a location, with the catalog's credentials."""
        return load_file_io(dict(self._connections.catalog(catalog).pyiceberg.properties), path)

    def io_of(self, table: ServedTable) -> FileIO:
        """Returns access to the gateway's own files for a table."""
        return self.io(table.name.catalog, self.folder_of(table))

    def folder_of(self, table: ServedTable) -> str:
        """Returns the location of the gateway's own files for a table."""
        return f"{self.folder(table.name.catalog, table.cold.state.location)}/{table.uuid}"

    def remove(self, paths: Iterable[str]) -> bool:
        """Removes files of the gateway; files that are already gone are not an error.

        Returns:
            Whether no file is left.
        """
        left = False
        for path in paths:
            try:
                self.io(self._catalog_of(path), path).delete(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                _LOG.warning("%s could not be removed: %s", path, error)
                left = True
            _remove_empty_folder(path)
        return not left

    def _catalog_of(self, path: str) -> str:
        """Returns the catalog whose credentials give access to a file of the gateway."""
        named = (name for name in self._config.catalogs if f"/{self._gateway_id}/{name}/" in path)
        return next(named, self._config.default_catalog)


def _remove_empty_folder(path: str) -> None:
    if urlparse(path).scheme in {"", "file"}:
        with contextlib.suppress(OSError):
            pathlib.Path(local_path(path)).parent.rmdir()

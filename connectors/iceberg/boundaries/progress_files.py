"""Reads small files beside a table that say how far its writer got.

Their names come from the table, which must not choose what we read: the files must be where the
table's own files may be.
"""

from __future__ import annotations

from typing import Any, Protocol

from seamline.connectors.iceberg.errors import storage_errors
from seamline.errors import BOUNDARY_MISSING, SeamlineError
from seamline.seam.table import TableState

SIZE_MAX = 16 << 20


class OwnFiles(Protocol):
    """A table that says which files are its own, and opens them."""

    @property
    def state(self) -> TableState:
        """See `ColdTable.state`."""

    @property
    def file_access(self) -> Any:
        """See `ColdTable.file_access`."""

    def require_own_place(self, location: str) -> None:
        """Requires a file that the table names to be where the table's own files may be.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED.
        """


def read_text(table: OwnFiles, path: str) -> str:
    """Returns the text of a file, up to `SIZE_MAX` bytes.

    Raises:
        SeamlineError: LOCATION_NOT_ALLOWED, BOUNDARY_MISSING if there is no such file,
            STORAGE_UNAVAILABLE.
    """
    table.require_own_place(path)
    with storage_errors(path):
        try:
            with table.file_access.new_input(path).open() as stream:
                return bytes(stream.read(SIZE_MAX)).decode("utf-8", "replace")
        except FileNotFoundError as error:
            raise SeamlineError(
                BOUNDARY_MISSING,
                f"the boundary of {table.state.display_name} is in {path}, which is missing",
            ) from error

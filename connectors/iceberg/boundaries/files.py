"""Small files beside a table that say how far its writer got.

Their names come from the table, which chooses no place for us to read: they must lie where the
table's own files may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamline.connectors.iceberg.errors import storage_errors
from seamline.errors import BOUNDARY_MISSING, SeamlineError

if TYPE_CHECKING:
    from seamline.connectors.iceberg.catalog import IcebergTable

SIZE_MAX = 16 << 20


def read_text(table: IcebergTable, path: str) -> str:
    """The text of a file.

    Raises:
        SeamlineError: LOCATION_NOT_ALLOWED, BOUNDARY_MISSING where there is no such file,
            STORAGE_UNAVAILABLE.
    """
    table.require_own_place(path)
    try:
        with storage_errors(path), table.iceberg.io.new_input(path).open() as stream:
            return bytes(stream.read(SIZE_MAX)).decode("utf-8", "replace")
    except FileNotFoundError as error:
        raise SeamlineError(
            BOUNDARY_MISSING,
            f"the boundary of {table.state.display_name} is in {path}, which is not there",
        ) from error

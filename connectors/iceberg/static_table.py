"""Tables known by their metadata file alone, for reading where there is no catalog."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable


def static_table(location: str, properties: Mapping[str, str]) -> StaticTable:
    """The table of a metadata file. None of its own properties decides how files are reached.

    Args:
        location: The file.
        properties: Of the storage.

    Raises:
        OSError: when the file cannot be read.
    """
    io = load_file_io(dict(properties), location)
    metadata = FromInputFile.table_metadata(io.new_input(location))
    return StaticTable(("static-table", location), metadata, location, io, NoopCatalog("none"))

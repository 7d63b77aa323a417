"""Loads tables from their metadata file alone, for reading without a catalog."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable


def static_table(location: str, properties: Mapping[str, str]) -> StaticTable:
    """Loads the table of a metadata file.

    None of the table's own properties decides how its files are accessed.

    Raises:
        OSError: when the file cannot be read.
    """
    io = load_file_io(dict(properties), location)
    metadata = FromInputFile.table_metadata(io.new_input(location))
    return StaticTable(("static-table", location), metadata, location, io, NoopCatalog("none"))

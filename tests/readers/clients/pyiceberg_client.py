"""Readers of tables that PyIceberg has loaded: itself, Polars, Daft, and Iceberg in Rust.

Each reads with means of its own. The argument says which.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from readers.clients.protocol import Settings, serve

Read = Callable[[Table], pa.Table]


def pyiceberg(table: Table) -> pa.Table:
    return table.scan().to_arrow()


def polars_native(table: Table) -> pa.Table:
    """It uses what came with the table, and HTTP without TLS, only when it is told to."""
    import polars

    options = {**table.config, "aws_allow_http": "true"} if table.config else None
    lazy = polars.scan_iceberg(table, reader_override="native", storage_options=options)
    return lazy.collect().to_arrow()


def polars_pyiceberg(table: Table) -> pa.Table:
    import polars

    return polars.scan_iceberg(table, reader_override="pyiceberg").collect().to_arrow()


def daft(table: Table) -> pa.Table:
    import daft as library

    return library.read_iceberg(table).to_arrow()


def rust(table: Table) -> pa.Table:
    """By DataFusion, from the metadata file on."""
    from datafusion import SessionContext
    from pyiceberg_core.datafusion import IcebergDataFusionTable

    context = SessionContext()
    name, location = list(table.name()), table.metadata_location
    provider = IcebergDataFusionTable(name, location, dict(table.config))
    context.register_table("live", provider)
    return context.table("live").to_arrow_table()


READS: Mapping[str, Read] = {
    read.__name__: read for read in (pyiceberg, polars_native, polars_pyiceberg, daft, rust)
}


class LoadedTables:
    """The tables as PyIceberg loads them."""

    def __init__(self, settings: Settings) -> None:
        self._read = READS[sys.argv[2]]
        self._catalogs = {
            name: RestCatalog(name, uri=f"{settings.url}/{root}")
            for name, root in (("live", "iceberg"), ("planned", "iceberg-plan"))
        }

    def count(self, catalog: str, table: str) -> int:
        return int(self.rows(catalog, table).num_rows)

    def rows(self, catalog: str, table: str) -> pa.Table:
        return self._read(self._catalogs[catalog].load_table(("default", table)))


if __name__ == "__main__":
    serve(LoadedTables)

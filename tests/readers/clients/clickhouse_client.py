"""ClickHouse, in this process."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from chdb.session import Session

from readers.clients.protocol import Settings, serve


class ClickHouseTables:
    """ClickHouse with a database over the catalog."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open()

    def _open(self) -> None:
        settings, storage = self._settings, self._settings.storage
        key, secret = storage["s3.access-key-id"], storage["s3.secret-access-key"]
        self._session = Session()
        self._session.query("SET allow_database_iceberg = 1")
        self._session.query(
            f"CREATE DATABASE live ENGINE = DataLakeCatalog('{settings.url}/iceberg/v1', "
            f"'{key}', '{secret}') SETTINGS catalog_type = 'rest', warehouse = 'lake', "
            f"vended_credentials = 0, storage_endpoint = '{storage['s3.endpoint']}/lake'"
        )

    def count(self, catalog: str, table: str) -> int:
        return int(self._select("count() AS n", catalog, table)["n"][0].as_py())

    def rows(self, catalog: str, table: str) -> pa.Table:
        return self._select("*", catalog, table)

    def _select(self, what: str, catalog: str, table: str) -> Any:
        """A string is bytes of any kind there."""
        try:
            found = self._session.query(
                f"SELECT {what} FROM {catalog}.`default.{table}` "
                "SETTINGS output_format_arrow_string_as_string = 0",
                "Arrow",
            )
        except RuntimeError:  # what it had put out goes before the next answer otherwise
            self._session.close()
            self._open()
            raise
        return pa.ipc.open_file(pa.py_buffer(found.bytes())).read_all()


if __name__ == "__main__":
    serve(ClickHouseTables)

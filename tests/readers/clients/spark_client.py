"""Spark of any version, with Iceberg's runtime and the settings that are printed for it."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from readers.clients.protocol import Settings, serve


class SparkTables:
    """A session that knows the gateway's catalogs."""

    def __init__(self, settings: Settings) -> None:
        builder = SparkSession.builder.master("local[1]").appName("reader")
        for key, value in settings.conf.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()

    def count(self, catalog: str, table: str) -> int:
        found = self._spark.sql(f"SELECT count(*) FROM {catalog}.default.{table}")
        return int(found.collect()[0][0])

    def rows(self, catalog: str, table: str) -> pa.Table:
        found = self._spark.sql(f"SELECT * FROM {catalog}.default.{table}")
        if hasattr(found, "toArrow"):
            return found.toArrow()
        return pa.Table.from_batches(found._collect_as_arrow())


if __name__ == "__main__":
    serve(SparkTables)

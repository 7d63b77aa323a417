"""The table formats: what can be the cold side of a table, and what can be done with it here.

Nothing else asks which format a table has: it asks what the format can do. A new one is a new entry
in `FORMATS`, and a folder with its catalog, which loads each table as a `ColdTable`.
"""

from __future__ import annotations

import dataclasses

from seamline.errors import NOT_SUPPORTED, SeamlineError


@dataclasses.dataclass(frozen=True, slots=True)
class TableFormat:
    """A table format. Every one has snapshots, and DuckDB reads every one.

    Attributes:
        name: Its name in `system.metadata.catalogs`.
        title: Its name in messages.
        catalog_types: The types of its catalogs in the configuration.
        catalog: The class of its catalogs, a `FormatCatalog`, as `module:class`: imported when the
            first of them is opened.
        extra: The extra that installs what the class imports; None if the gateway's own does.
        is_writable: Whether its tables can be created, changed and tiered into. Adopting a table of
            a format that is not prints what the configuration must say about it.
        is_listed: Whether its catalogs know their tables and where these are. For others, the
            configuration lists the tables.
        is_for_spark: Whether Spark reads it, too.
        is_served: Whether the Iceberg REST catalog serves its tables, with virtual snapshots.
    """

    name: str
    title: str
    catalog_types: tuple[str, ...]
    catalog: str
    extra: str | None = None
    is_writable: bool = False
    is_listed: bool = False
    is_for_spark: bool = False
    is_served: bool = False

    def refuses(self, what: str) -> SeamlineError:
        """Returns the error for a request that its tables cannot serve."""
        limits = [
            *(() if self.is_writable else ("are read-only",)),
            *(() if self.is_for_spark else ("only DuckDB reads them",)),
        ]
        return SeamlineError(
            NOT_SUPPORTED,
            f"{what}: {self.title} tables {', and '.join(limits)}",
            hint="Query it with the engine 'auto' or 'duckdb'; only its own writer changes it.",
        )


FORMATS: tuple[TableFormat, ...] = (
    TableFormat(
        name="iceberg",
        title="Iceberg",
        catalog_types=("sql", "rest", "hive", "glue", "dynamodb", "bigquery", "in-memory"),
        catalog="seamline.connectors.iceberg.tables.catalog:IcebergCatalog",
        is_writable=True,
        is_listed=True,
        is_for_spark=True,
        is_served=True,
    ),
    TableFormat(
        name="delta",
        title="Delta",
        catalog_types=("delta",),
        catalog="seamline.connectors.delta.catalog:DeltaCatalog",
        extra="delta",
    ),
)


def by_catalog_type() -> dict[str, TableFormat]:
    """Returns the format of the tables of each type of catalog."""
    return {name: one for one in FORMATS for name in one.catalog_types}

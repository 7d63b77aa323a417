"""The stack's catalog, one SQLite file that PyIceberg and Spark share."""

from __future__ import annotations

import contextlib
import sqlite3

from pyiceberg.exceptions import NamespaceAlreadyExistsError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.errors import CATALOG_UNAVAILABLE, SeamlineError


def prepare_catalog(config: CatalogConfig, namespace: str) -> None:
    """Creates the database, its tables and the namespace if they are missing.

    Raises:
        SeamlineError: CATALOG_UNAVAILABLE.
    """
    database = make_url(config.uri).database or ""
    try:
        _let_readers_and_writer_meet(database)
        with contextlib.closing(IcebergCatalog(config).pyiceberg) as catalog:
            if not catalog.namespace_exists((namespace,)):
                with contextlib.suppress(NamespaceAlreadyExistsError):  # another program was first
                    catalog.create_namespace((namespace,))
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise SeamlineError(
            CATALOG_UNAVAILABLE,
            f"the catalog {database} cannot be used: {getattr(error, 'orig', None) or error}",
            hint="Restore the file from a copy, or stop the program that holds it.",
        ) from error


def _let_readers_and_writer_meet(database: str) -> None:
    """Sets WAL mode, which the file keeps, so that a reader does not wait for the writer."""
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")

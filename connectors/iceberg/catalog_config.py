"""Opens the PyIceberg catalogs that the configuration describes."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import load_catalog

from seamline.connectors.config import CatalogConfig
from seamline.connectors.dependencies import Dependency
from seamline.connectors.iceberg.guard import CatalogGuard
from seamline.connectors.iceberg.places import CatalogPlaces
from seamline.connectors.iceberg.pyiceberg_internals import (
    CachingSqlCatalog,
    GuardedCatalog,
    PatientRestCatalog,
)


def open_catalog(config: CatalogConfig, dependency: Dependency) -> GuardedCatalog:
    """Opens the catalog that a configuration describes.

    Args:
        config: The configuration.
        dependency: What its requests are calls to, once it is open.
    """
    catalog = _opened(config)
    if isinstance(catalog, PatientRestCatalog):
        catalog.dependency = dependency
    places = CatalogPlaces.of(
        config.name, config.warehouse, config.locations, config.data_locations
    )
    catalog.guard = CatalogGuard(places)
    return catalog


def _opened(config: CatalogConfig) -> GuardedCatalog:
    properties: dict[str, Any] = {**config.address, **config.properties}
    if config.type == "sql":
        return CachingSqlCatalog(config.name, **properties)
    if config.type == "rest":
        return PatientRestCatalog(config.name, **properties)
    catalog: Any = load_catalog(config.name, type=config.type, **properties)
    kind = type(catalog)
    catalog.__class__ = type(kind.__name__, (GuardedCatalog, kind), {})
    guarded: GuardedCatalog = catalog
    return guarded

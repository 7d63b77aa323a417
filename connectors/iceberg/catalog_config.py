"""Opens the PyIceberg catalogs that the configuration describes."""

from __future__ import annotations

import importlib
from typing import Any

from pyiceberg.catalog import BOTOCORE_SESSION, load_catalog
from pyiceberg.exceptions import NotInstalledError

from seamline.connectors.config import CatalogConfig
from seamline.connectors.dependencies import Dependency
from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.iceberg.guard import CatalogGuard
from seamline.connectors.iceberg.pyiceberg_internals import (
    CachingSqlCatalog,
    CountedCatalog,
    GuardedCatalog,
    PatientRestCatalog,
)
from seamline.connectors.places import CatalogPlaces
from seamline.errors import INVALID_CONFIG, SeamlineError

_RETRIES = "glue.max-retries"
_RETRIES_DEFAULT = 2
"""How often a request to Glue is repeated before it fails."""


def open_catalog(config: CatalogConfig, dependency: Dependency) -> GuardedCatalog:
    """Opens the catalog that a configuration describes.

    Raises:
        SeamlineError: INVALID_CONFIG when the driver of its type is not installed.
    """
    try:
        catalog = _opened(config)
    except NotInstalledError as error:
        raise SeamlineError(
            INVALID_CONFIG,
            f"catalog {config.name}: the driver for type {config.type} is not installed",
            hint=f"pip install 'pyiceberg[{config.type}]'",
        ) from error
    catalog.dependency = dependency
    places = CatalogPlaces.of(
        config.name, config.warehouse, config.locations, config.data_locations
    )
    catalog.guard = CatalogGuard(places)
    return catalog


def _opened(config: CatalogConfig) -> GuardedCatalog:
    properties: dict[str, Any] = {**config.address, **config.properties}
    if config.type == "rest":
        return PatientRestCatalog(config.name, config.login, **properties)
    catalog: Any
    if config.type == "sql":
        catalog = CachingSqlCatalog(config.name, **properties)
    elif config.type == "hive":
        hive = _driver("seamline.connectors.iceberg.hive")
        catalog = hive.PatientHiveCatalog(config.name, **properties)
    else:
        is_of_amazon = config.type in {"glue", "dynamodb"}
        limits = _limits_of_amazon(properties) if is_of_amazon else {}
        catalog = load_catalog(config.name, type=config.type, **(properties | limits))
        catalog.properties = properties  # those of its files, too
    kind = type(catalog)
    catalog.__class__ = type(kind.__name__, (CountedCatalog, kind), {})
    counted: GuardedCatalog = catalog
    return counted


def _limits_of_amazon(properties: dict[str, Any]) -> dict[str, Any]:
    """Returns the properties of a catalog of Amazon's whose requests take a limited time.

    The configuration's number of retries is a text, which Amazon's library does not take.

    Raises:
        SeamlineError: INVALID_CONFIG when it is no number.
    """
    session = _driver("botocore.session").get_session()
    session.set_default_client_config(
        _driver("botocore.config").Config(
            connect_timeout=pyiceberg_internals.CONNECT_S, read_timeout=pyiceberg_internals.READ_S
        )
    )
    retries = str(properties.get(_RETRIES, _RETRIES_DEFAULT))
    if not retries.isdecimal():
        raise SeamlineError(INVALID_CONFIG, f"{_RETRIES} is {retries!r}, which is not a number")
    return {BOTOCORE_SESSION: session, _RETRIES: int(retries)}


def _driver(module: str) -> Any:
    """Imports a module that needs the driver of a type of catalog."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise NotInstalledError(str(error)) from error

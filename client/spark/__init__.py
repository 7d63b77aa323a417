"""Spark support: live tables as a catalog, and the data source that reads them in executors.

The catalog is only configuration and needs no Seamline code in Spark. The data source needs
`seamline[gateway,spark]` on the driver and on every executor.
"""

from __future__ import annotations

import importlib
from typing import Any

from seamline.errors import MISSING_EXTRA, SeamlineError
from seamline.spark.catalog import configuration, configure_spark

__all__ = ["configuration", "configure_spark", "register"]


def register(spark: Any) -> None:
    """Registers the data source `format("seamline")` with a Spark session.

    Args:
        spark: A Spark session, classic or Connect, 4.0 or newer.

    Raises:
        SeamlineError: MISSING_EXTRA when the data source's packages are not installed.
    """
    try:
        source = importlib.import_module("seamline.connectors.spark.source")
    except ModuleNotFoundError as error:
        raise SeamlineError(
            MISSING_EXTRA,
            f"the Spark data source needs {error.name}, which is not installed",
            hint="pip install 'seamline[gateway,spark]'",
        ) from error
    spark.dataSource.register(source.SeamlineDataSource)

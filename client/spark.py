"""For Spark: the data source that reads unified tables in executors.

Needs `seamline[gateway,spark]` on the driver and on every executor.
"""

from __future__ import annotations

import importlib
from typing import Any

from seamline.sql.errors import MISSING_EXTRA, SeamlineError


def register(spark: Any) -> None:
    """Makes `format("seamline")` known to a Spark session.

    Args:
        spark: A Spark session, classic or Connect, 4.0 or newer.

    Raises:
        SeamlineError: MISSING_EXTRA.
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

"""Live tables in any Spark with the Iceberg runtime: only configuration, no Seamline code in Spark.

    builder = configure_spark(SparkSession.builder, "http://127.0.0.1:8474")
    builder.getOrCreate().sql("SELECT count(*) FROM live.default.bids")

Works with Spark 3.5 and later. The catalog is read-only. A statement sees every record that was
acknowledged before it began, and it sees one seam per table, however often it names the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

CATALOG = "live"
ICEBERG_VERSION = "1.11.0"
SPARK_MIN = (3, 5)
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SCALA = {(3, 5): "2.12"}
_SCALA_DEFAULT = "2.13"
SESSIONS_HEADER = "Seamline-Sessions"


def configuration(
    url: str,
    token: str | None = None,
    *,
    user: str | None = None,
    password: str = "",
    name: str = CATALOG,
    warehouse: str | None = None,
    planned: bool = False,
    properties: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Returns the Spark settings that make a gateway's live tables a catalog.

    These may also be set in a running session, with `spark.conf.set`.

    Args:
        url: Address of the gateway.
        token: Access token, if the gateway requires one.
        user: User, instead of a token. Needs Iceberg 1.9.
        password: The user's password.
        name: Name of the catalog in statements.
        warehouse: Which of the gateway's catalogs to use; None for its default one.
        planned: Whether the gateway plans scans, so that only the part of the tail that a statement
            needs is written. Needs Iceberg 1.11.
        properties: Further properties of the catalog, such as `s3.endpoint`.
    """
    root = f"{url.rstrip('/')}/{'iceberg-plan' if planned else 'iceberg'}"
    settings = {
        "type": "rest",
        "uri": root,
        # a cached table would hide records that arrived later
        "cache-enabled": "false",
        **(_by_token(root, token) if user is None else _by_password(user, password)),
        # request storage credentials, in case the gateway vends them to readers
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    if warehouse is not None:
        settings["warehouse"] = warehouse
    settings.update(properties or {})
    prefix = f"spark.sql.catalog.{name}"
    return {
        # otherwise `${env:…}` in someone else's view would read the user's environment variables
        "spark.sql.variable.substitute": "false",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in settings.items()},
    }


def _by_token(root: str, token: str | None) -> dict[str, str]:
    settings = {
        # the session that comes with a table tells the gateway which requests are one statement's
        "rest.auth.type": "oauth2",
        "oauth2-server-uri": f"{root}/v1/oauth/tokens",
        "token-refresh-enabled": "false",
        f"header.{SESSIONS_HEADER}": "1",
    }
    return settings if token is None else {**settings, "token": token}


def _by_password(user: str, password: str) -> dict[str, str]:
    """Returns the settings for basic authentication; such a client sends no session along."""
    return {
        "rest.auth.type": "basic",
        "rest.auth.basic.username": user,
        "rest.auth.basic.password": password,
    }


def packages(spark_version: str, scala: str | None = None) -> str:
    """Returns the Maven coordinates of the Iceberg runtime for a version of Spark.

    Args:
        spark_version: Spark version, such as `4.0.5`.
        scala: Scala version, such as `2.13`; None for the usual one for that Spark version.

    Raises:
        ValueError: when the Spark version is too old, or not a version.
    """
    line = spark_line(spark_version)
    if line < SPARK_MIN:
        raise ValueError(f"Spark {spark_version} is older than 3.5")
    scala = scala or _SCALA.get(line, _SCALA_DEFAULT)
    runtime = f"iceberg-spark-runtime-{line[0]}.{line[1]}_{scala}"
    return f"org.apache.iceberg:{runtime}:{ICEBERG_VERSION}"


def spark_line(spark_version: str) -> tuple[int, int]:
    """Returns the major and minor number of a version.

    Raises:
        ValueError: when it is not a version.
    """
    match = re.match(r"(\d+)\.(\d+)", spark_version)
    if match is None:
        raise ValueError(f"{spark_version!r} is not a version of Spark")
    return int(match[1]), int(match[2])


def configure_spark(
    builder: Any,
    url: str,
    token: str | None = None,
    *,
    user: str | None = None,
    password: str = "",
    name: str = CATALOG,
    warehouse: str | None = None,
    planned: bool = False,
    properties: Mapping[str, str] | None = None,
    resolve_packages: bool = True,
) -> Any:
    """Returns a builder for Spark sessions with the gateway's live tables as a catalog.

    Args:
        builder: `SparkSession.builder`, or the result of one of its methods.
        url: Address of the gateway.
        token: Access token, if the gateway requires one.
        user: User, instead of a token; see `configuration`.
        password: The user's password.
        name: Name of the catalog in statements.
        warehouse: Which of the gateway's catalogs to use; None for its default one.
        planned: Whether the gateway plans scans; see `configuration`.
        properties: Further properties of the catalog.
        resolve_packages: Whether Spark should download the Iceberg runtime, and enable its SQL
            extensions; False if Spark already has it.
    """
    conf = configuration(
        url,
        token,
        user=user,
        password=password,
        name=name,
        warehouse=warehouse,
        planned=planned,
        properties=properties,
    )
    if resolve_packages:
        import pyspark

        conf["spark.jars.packages"] = packages(pyspark.__version__)
        conf["spark.sql.extensions"] = EXTENSIONS
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder

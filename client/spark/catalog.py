"""Live tables in any Spark with Iceberg's runtime: configuration only, no code of ours in it.

    builder = configure_spark(SparkSession.builder, "http://127.0.0.1:8474")
    builder.getOrCreate().sql("SELECT count(*) FROM live.default.bids")

Works with Spark 3.5 and later. The catalog reads; a statement sees every record that was
acknowledged before it began, and sees one seam of each table however often it names it.
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
    """Spark settings that make a gateway's live tables a catalog.

    These may also be set in a running session, with `spark.conf.set`.

    Args:
        url: Address of the gateway.
        token: Access token, if the gateway wants one.
        user: User, instead of a token. Needs Iceberg 1.9.
        password: The user's password.
        name: What statements call the catalog.
        warehouse: Which of the gateway's catalogs; None is its default one.
        planned: Whether the gateway plans scans, so that only what a statement asks of the tail is
            written. Needs Iceberg 1.11.
        properties: Further properties of the catalog, such as `s3.endpoint`.
    """
    root = f"{url.rstrip('/')}/{'iceberg-plan' if planned else 'iceberg'}"
    own = {
        "type": "rest",
        "uri": root,
        # a cached table would hide what has arrived since
        "cache-enabled": "false",
        **(_by_token(root, token) if user is None else _by_password(user, password)),
        # keys for the storage, where the gateway has some for readers
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    if warehouse is not None:
        own["warehouse"] = warehouse
    own.update(properties or {})
    prefix = f"spark.sql.catalog.{name}"
    return {
        # else `${env:…}` in a view that somebody else wrote reads the environment of its user
        "spark.sql.variable.substitute": "false",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in own.items()},
    }


def _by_token(root: str, token: str | None) -> dict[str, str]:
    own = {
        # by the session that comes with a table, the gateway knows what belongs to one statement
        "rest.auth.type": "oauth2",
        "oauth2-server-uri": f"{root}/v1/oauth/tokens",
        "token-refresh-enabled": "false",
        f"header.{SESSIONS_HEADER}": "1",
    }
    return own if token is None else {**own, "token": token}


def _by_password(user: str, password: str) -> dict[str, str]:
    """A client that sends these with every request sends no session along."""
    return {
        "rest.auth.type": "basic",
        "rest.auth.basic.username": user,
        "rest.auth.basic.password": password,
    }


def packages(spark_version: str, scala: str | None = None) -> str:
    """Maven coordinates of Iceberg's runtime for a version of Spark.

    Args:
        spark_version: Such as `4.0.5`.
        scala: Such as `2.13`; None is the one that version is usually built with.

    Raises:
        ValueError: when that version is too old or not a version.
    """
    line = spark_line(spark_version)
    if line < SPARK_MIN:
        raise ValueError(f"Spark {spark_version} is older than 3.5")
    scala = scala or _SCALA.get(line, _SCALA_DEFAULT)
    runtime = f"iceberg-spark-runtime-{line[0]}.{line[1]}_{scala}"
    return f"org.apache.iceberg:{runtime}:{ICEBERG_VERSION}"


def spark_line(spark_version: str) -> tuple[int, int]:
    """Major and minor number of a version.

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
    """A builder of Spark sessions in which the gateway's live tables are a catalog.

    Args:
        builder: `SparkSession.builder`, or what its methods gave.
        url: Address of the gateway.
        token: Access token, if the gateway wants one.
        user: User, instead of a token; see `configuration`.
        password: The user's password.
        name: What statements call the catalog.
        warehouse: Which of the gateway's catalogs; None is its default one.
        planned: Whether the gateway plans scans; see `configuration`.
        properties: Further properties of the catalog.
        resolve_packages: Whether Spark is to fetch Iceberg's runtime; False where it has it.
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

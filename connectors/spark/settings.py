"""Spark's settings for Seamline: the same catalogs, UTC, ANSI, and nothing left open.

They are in one place, so that the local server, a tiering application and the printed configuration
agree.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Collection, Mapping

from seamline.connectors.config import CatalogConfig, region_of
from seamline.connectors.jvm import jars
from seamline.connectors.machine import cores
from seamline.errors import INVALID_CONFIG, SeamlineError

SESSION: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.runSQLOnFiles": "false",
    # else `${env:…}` in a user's text reveals the server's environment, properties and secrets
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    # Iceberg's max(uuid) from statistics is not a string, and its max of doubles ignores NaN
    "spark.sql.iceberg.aggregate-push-down.enabled": "false",
    # it takes a column of the right side for a result of the left side that has its name
    "spark.sql.optimizer.replaceExceptWithFilter": "false",
    # two lose the outer columns of a correlated subquery when they move it below a UNION, and
    # every table with a tail is a UNION; one, of two names, moves a subquery below a LIMIT, where
    # it becomes a join, and a sort below a join is dropped
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in (
            "CombineUnions",
            "PushProjectionThroughUnion",
            "PushProjectionThroughLimit",
            "PushProjectionThroughLimitAndOffset",
        )
    ),
}
"""Settings of a session, on a server of ours or of somebody else's."""


@dataclasses.dataclass(frozen=True, slots=True)
class SparkSettings:
    """How Spark is started here.

    Attributes:
        master: Master of a Spark started here.
        driver_memory: Its memory.
        catalogs: Catalogs it must know.
        jars: Jar files it needs; none when they are resolved as packages or a cluster has them.
        conf: Further settings, which take precedence.
        directory: Where it may have a folder of its own.
        withheld: Values that no variable of its environment may have: secrets it does not need.
        java_options: Further options of its Java.
    """

    master: str
    driver_memory: str
    catalogs: tuple[CatalogConfig, ...]
    jars: tuple[pathlib.Path, ...]
    conf: Mapping[str, str]
    directory: pathlib.Path
    withheld: frozenset[str] = frozenset()
    java_options: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether all of it is in one process."""
        return self.master.startswith("local")

    @property
    def scratch(self) -> pathlib.Path:
        """The folder for its logs and scratch files."""
        return self.directory / "spark"

    def static_conf(self) -> dict[str, str]:
        """Returns the settings that must be there when Spark starts."""
        scratch = self.scratch
        conf = {
            "spark.master": self.master,
            "spark.driver.memory": self.driver_memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.shuffle.partitions": str(cores()),
            "spark.sql.extensions": (
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            ),
            "spark.driver.extraJavaOptions": shlex.join(
                (
                    f"-Dderby.system.home={scratch}",
                    "-Djava.net.preferIPv4Stack=true",
                    "-Duser.timezone=UTC",
                    *self.java_options,
                )
            ),
            **SESSION,
        }
        paths = [str(jar) for jar in self.jars]
        if self.is_local:
            # on the class path, not copied and loaded apart, so that an archive has their classes
            conf["spark.driver.extraClassPath"] = ":".join(paths)
            conf["spark.authenticate"] = "true"  # its own ports, with a secret it makes itself
            conf["spark.python.daemon.module"] = "seamline.connectors.spark.daemon"
        else:
            del conf["spark.driver.host"], conf["spark.driver.bindAddress"]
            conf["spark.jars"] = ",".join(paths)
        for catalog in self.catalogs:
            conf.update(catalog_conf(catalog))
        return {**conf, **self.conf}


def environment(withheld: Collection[str] = ()) -> dict[str, str]:
    """Returns the environment of a Spark started here: this interpreter for its Python workers.

    Our own settings are left out.

    Args:
        withheld: Values that no variable may have.
    """
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SEAMLINE_") and value not in withheld
        },
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


_SAME_IN_SPARK = (
    "s3.", "client.", "gcs.", "adls.", "rest.", "header.",
    "token", "credential", "scope", "oauth2-server-uri", "audience", "resource",
)  # fmt: skip
"""Prefixes of PyIceberg's properties that mean the same to Iceberg in Java."""


def catalog_conf(catalog: CatalogConfig) -> dict[str, str]:
    """Returns the Spark settings of a catalog of the configuration.

    Raises:
        SeamlineError: INVALID_CONFIG when Spark's form of it is not known.
    """
    own: dict[str, str] = {
        "type": {"sql": "jdbc"}.get(catalog.type, catalog.type),
        **catalog.address,
        "cache-enabled": "false",
    }
    if catalog.type == "sql":
        own["uri"] = jdbc_uri(catalog.uri)
        own["jdbc.schema-version"] = "V1"
    if catalog.stores & jars.STORES.keys():
        # else Spark uses Hadoop's, which knows none of these properties, and often not the store
        own["io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
    region = region_of(catalog.properties)
    if region is not None:
        own["client.region"] = region
    own.update({k: v for k, v in catalog.properties.items() if k.startswith(_SAME_IN_SPARK)})
    own.update(_login_of(catalog))
    own.update(catalog.spark)
    prefix = f"spark.sql.catalog.{catalog.name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in own.items()},
    }


_LOGINS = ("credential", "token", "rest.auth.type")
"""Properties of a catalog that tell Iceberg in Java how to log in."""


def _login_of(catalog: CatalogConfig) -> dict[str, str]:
    """Returns the properties for the login of a catalog, which Iceberg in Java does by itself."""
    login = catalog.login
    if not login or any(name in catalog.spark for name in _LOGINS):
        return {}
    if login.type != "oidc" or ":" in login.client_id:
        raise SeamlineError(
            INVALID_CONFIG,
            f"it is not known how Spark logs in to catalog {catalog.name} by login {login.type}",
            hint=f"Set one of {', '.join(_LOGINS)} in catalogs.{catalog.name}.spark.",
        )
    optional = {"scope": login.scope, "audience": login.audience}
    return {
        "credential": f"{login.client_id}:{login.client_secret}",
        "oauth2-server-uri": login.url,
        "token-exchange-enabled": "false",  # few identity providers renew tokens by exchange
        **{name: value for name, value in optional.items() if value},
    }


_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(?P<path>[^?]+)(?:\?.*)?")
_SERVER = re.compile(r"(?P<kind>postgresql|mysql)(?:\+\w+)?://(?P<rest>.+)")


def jdbc_uri(uri: str) -> str:
    """Converts an SQLAlchemy URL to the JDBC URL of the same database.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    if match := _SQLITE.fullmatch(uri):
        return f"jdbc:sqlite:{match['path']}?busy_timeout=30000"
    if match := _SERVER.fullmatch(uri):
        return f"jdbc:{match['kind']}://{match['rest']}"
    raise SeamlineError(
        INVALID_CONFIG,
        f"it is not known how Spark reaches the catalog at {uri.split('://')[0]}://",
        hint="Set catalogs.<name>.spark.uri.",
    )

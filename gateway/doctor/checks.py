"""The list of checks, in the order in which they are reported."""

from __future__ import annotations

import datetime
import functools
import os
from collections import Counter
from collections.abc import Collection, Iterator

from seamline.errors import SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.load import Loaded, secret_values
from seamline.gateway.config.model import Config, LimitsConfig, SparkConfig, TailConfig
from seamline.gateway.doctor import certificates, installation, machine, resources
from seamline.gateway.doctor.examination import Check
from seamline.gateway.doctor.findings import Finding, of_error, ok, secrets_of, skipped

INSTALLATION = "Installation"
CONFIGURATION = "Configuration"
JAVA = "Java and jars"
MACHINE = "Disk, port and gateway"
RESOURCES = "Memory, files and proxies"
CERTIFICATES = "Certificates"
SPARK = "Spark"
TABLES = "Tables"


def secrets(loaded: Loaded | None) -> tuple[str, ...]:
    """Returns the secret values of a configuration, which no finding may show."""
    return () if loaded is None else secrets_of(secret_values(loaded))


def of_machine(loaded: Loaded | None, problem: SeamlineError | None) -> list[Check]:
    """Returns the checks that need no other service.

    Args:
        loaded: The configuration; None if it cannot be used.
        problem: Why it cannot be used.
    """
    config = loaded.config if loaded is not None else None
    made = [
        Check(INSTALLATION, installation.look),
        Check(CONFIGURATION, lambda: _configuration(loaded, problem)),
        Check(JAVA, machine.java),
        Check(JAVA, lambda: machine.jar_sets(config)),
    ]
    if config is None:
        made.append(Check(MACHINE, lambda: machine.before_the_first_start(os.environ)))
        made.append(
            Check(RESOURCES, lambda: _resources(LimitsConfig(), TailConfig(), SparkConfig()))
        )
    else:
        made.append(Check(MACHINE, lambda: machine.folders(config)))
        made.append(Check(MACHINE, lambda: machine.gateway(config)))
        made.append(Check(RESOURCES, lambda: _resources(config.limits, config.tail, config.spark)))
        made.append(Check(RESOURCES, lambda: resources.proxies(_urls(config), os.environ)))
        made.append(Check(CERTIFICATES, lambda: _certificates(config)))
    return made


def of_the_outside(
    connections: Connections, seconds: float, *, writes: bool, starts_spark: bool
) -> list[Check]:
    """Returns the checks of clusters, registries, catalogs and Spark.

    Args:
        connections: The catalogs and clusters of the configuration.
        seconds: How long each check may take.
        writes: Whether to make small writes, to see whether they are possible.
        starts_spark: Whether to start a local Spark.
    """
    from seamline.gateway.doctor import catalogs, clusters, spark

    config = connections.config
    made: list[Check] = []
    for name, cluster in config.clusters.items():
        made.append(Check(_cluster(name), functools.partial(clusters.look, cluster, seconds)))
        if cluster.schema_registry.address:
            ask = functools.partial(clusters.schema_registry, cluster, seconds)
            made.append(Check(f"Schema registry of {name}", ask))
    made += [
        Check(_catalog(name), functools.partial(catalogs.look, connections, name, writes=writes))
        for name in config.catalogs
    ]
    longest = max(seconds, spark.START_S if starts_spark else spark.ANSWER_S)
    made.append(Check(SPARK, lambda: spark.look(config, starts=starts_spark), longest))
    return made


def of_tables(connections: Connections, wrong: Collection[str], seconds: float) -> list[Check]:
    """Returns the check of the unified tables; none if every catalog is down.

    Args:
        connections: The catalogs and clusters of the configuration.
        wrong: The headings of the checks that found something wrong.
        seconds: How long the check may take.
    """
    from seamline.gateway.deadline import StatementDeadline
    from seamline.gateway.doctor import tables

    config = connections.config
    away = {name for name in config.clusters if _cluster(name) in wrong}
    away |= {name for name in config.catalogs if _catalog(name) in wrong}
    if away >= set(config.catalogs):
        return []
    return [Check(TABLES, lambda: tables.look(connections, away, StatementDeadline(seconds)))]


def _resources(limits: LimitsConfig, tail: TailConfig, spark: SparkConfig) -> Iterator[Finding]:
    return resources.look(limits, tail, spark if machine.has_spark() else None)


def _urls(config: Config) -> dict[str, str]:
    """Returns the addresses of the catalogs that are reached over HTTP."""
    return {
        _catalog(name): catalog.uri
        for name, catalog in config.catalogs.items()
        if catalog.uri.startswith(("http://", "https://"))
    }


def _certificates(config: Config) -> Iterator[Finding]:
    tls = config.http.tls
    files = {"http.tls.certificate": tls.certificate, "http.tls.client_ca": tls.client_ca}
    for name, cluster in config.clusters.items():
        for setting in certificates.CLUSTER_FILES:
            files[f"clusters.{name}.properties.{setting}"] = cluster.properties.get(setting)
    return certificates.look(files, datetime.datetime.now(datetime.UTC))


def _cluster(name: str) -> str:
    return f"Cluster {name}"


def _catalog(name: str) -> str:
    return f"Catalog {name}"


def _configuration(loaded: Loaded | None, problem: SeamlineError | None) -> Iterator[Finding]:
    if problem is not None:
        for line in problem.message.split("\n"):  # one for each wrong value
            yield of_error(SeamlineError(problem.code, line, hint=problem.hint))
        yield skipped(
            "clusters, catalogs, tables, Spark, the gateway: the configuration names them"
        )
    if loaded is None:
        return
    file = loaded.sources[""]
    others = Counter(source for source in loaded.sources.values() if not source.startswith(file))
    counts = [f"{count} from {source}" for source, count in others.items()]
    yield ok(f"{file} is valid" + (f", plus {', '.join(counts)}" if counts else ""))

"""The Spark of a gateway: a remote one, or a local one that is started when needed."""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import os
import pathlib
import threading
from collections.abc import Iterable

from seamline.connectors.jvm import jars
from seamline.connectors.jvm.ivy import Report
from seamline.connectors.jvm.java import Java, find_java
from seamline.connectors.protocols.deadlines import Compute, at_once
from seamline.connectors.spark import class_archive
from seamline.connectors.spark.engine import SparkEngine
from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.settings import SparkSettings
from seamline.gateway.config.model import Config

_LOG = logging.getLogger("seamline.spark")
_TAIL_PARTITIONS = 8
_PACKAGES = "spark.jars.packages"


def spark_engine(config: Config, compute: Compute = at_once) -> SparkEngine | None:
    """Returns the engine; None when Spark's client is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        return None
    clusters = config.clusters
    remote = config.spark.remote
    if remote is not None:
        return SparkEngine(
            lambda: remote,
            lambda: None,
            clusters,
            tail_partitions=_TAIL_PARTITIONS,
            compute=compute,
        )
    server: list[ConnectServer] = []
    making = threading.Lock()

    def url() -> str:
        with making:
            if not server:
                server.append(ConnectServer(settings(config)))
        return server[0].url()

    def close() -> None:
        for running in server:
            running.close()

    engine = SparkEngine(url, close, clusters, tail_partitions=_TAIL_PARTITIONS, compute=compute)
    if config.spark.start_early:
        engine.warm_up()
    return engine


def settings(
    config: Config, report: Report = _LOG.info, *, is_brief: bool = False
) -> SparkSettings:
    """Returns the settings of a Spark that is started here.

    Args:
        config: The configuration.
        report: Takes progress of fetching jars.
        is_brief: Whether it works for less than a minute: then its Java compiles code quickly, not
            well.

    Raises:
        SeamlineError: JARS_UNAVAILABLE, JAVA_NOT_FOUND, JAVA_UNSUPPORTED.
    """
    java = find_java(os.environ)  # reports problems in one line, where Spark takes many
    conf = dict(config.spark.conf)
    files: tuple[pathlib.Path, ...] = ()
    catalogs = tuple(one for one in config.catalogs.values() if one.format.is_for_spark)
    stores = {store for catalog in catalogs for store in catalog.stores}
    if config.spark.packages:
        conf[_PACKAGES] = _with(jars.spark_packages(stores), conf.get(_PACKAGES, ""))
    else:
        files = jars.spark_jars(report, stores)
    made = SparkSettings(
        master=config.spark.master,
        driver_memory=config.spark.driver_memory,
        catalogs=catalogs,
        jars=files,
        conf=conf,
        directory=pathlib.Path(config.state_directory),
        withheld=frozenset(filter(None, (config.tokens.secret,))),
    )
    return dataclasses.replace(made, java_options=_java_options(made, java, is_brief=is_brief))


def _java_options(made: SparkSettings, java: Java, *, is_brief: bool) -> tuple[str, ...]:
    brief = ("-XX:TieredStopAtLevel=1",) if is_brief else ()
    if not made.jars or not made.is_local:
        return brief
    archive = class_archive.archive_of(made.jars, java)
    return (*brief, *(class_archive.java_options(archive) if archive.exists() else ()))


def _with(ours: Iterable[str], configured: str) -> str:
    """Returns the configured packages, and those of ours that are not among them in any version."""
    theirs = [one.strip() for one in configured.split(",") if one.strip()]
    versioned = {one.rpartition(":")[0] for one in theirs}
    return ",".join([*theirs, *(one for one in ours if one.rpartition(":")[0] not in versioned)])

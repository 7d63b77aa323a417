"""The pinned jars, fetched once per user into a cache.

A set of jars has a directory of its own, named after what it holds, and that directory exists only
when it is complete: it is fetched elsewhere and moved there. Processes that want the same set at
once wait for one of them. A complete set needs no network, no Ivy and no Java.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping

from seamline.connectors.files import exclusive, named_write_errors
from seamline.connectors.jvm import ivy
from seamline.connectors.jvm.ivy import Report
from seamline.errors import JARS_UNAVAILABLE

DIRECTORY_VARIABLE = "SEAMLINE_JARS"


@dataclasses.dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are fetched together.

    Attributes:
        name: What progress and errors call them.
        coordinates: `organisation:module:version` of each.
        transitive: Whether what they depend on belongs to the set.
    """

    name: str
    coordinates: tuple[str, ...]
    transitive: bool

    @property
    def directory_name(self) -> str:
        """Name of its directory; differs when anything in the set does."""
        identity = repr((self.coordinates, self.transitive)).encode()
        return f"{self.name}-{hashlib.sha256(identity).hexdigest()[:12]}"

    @property
    def file_names(self) -> tuple[str, ...]:
        """File names of the coordinates themselves, in their order."""
        parts = (text.split(":") for text in self.coordinates)
        return tuple(f"{module}-{version}.jar" for _, module, version in parts)


KAFKA = JarSet(
    "kafka",
    ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
)
"""A whole broker, and the small logger without which it would log nothing."""

SPARK = JarSet(
    "spark",
    (
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
    transitive=False,
)
"""What Spark's wheel lacks; everything these depend on is in the wheel."""

KAFKA_CONNECT = JarSet(
    "kafka-connect",
    (
        "org.apache.kafka:connect-runtime:4.1.2",
        "org.apache.kafka:connect-json:4.1.2",
        "org.apache.kafka:connect-transforms:4.1.2",
        "org.apache.iceberg:iceberg-kafka-connect:1.11.0",
        "org.apache.iceberg:iceberg-parquet:1.11.0",
        "org.apache.iceberg:iceberg-orc:1.11.0",
        "org.xerial:sqlite-jdbc:3.50.3.0",
        "org.slf4j:slf4j-simple:2.0.17",
    ),
    transitive=True,
)
"""A worker of Kafka Connect with Iceberg's sink, whose tables the demo adopts."""


STORES = {
    "s3": JarSet("s3", ("org.apache.iceberg:iceberg-aws-bundle:1.11.0",), transitive=False),
    "gs": JarSet("gs", ("org.apache.iceberg:iceberg-gcp-bundle:1.11.0",), transitive=False),
    "abfs": JarSet("abfs", ("org.apache.iceberg:iceberg-azure-bundle:1.11.0",), transitive=False),
}
"""What Iceberg needs in Spark to reach an object store, by the store's scheme."""


def cache_directory(environment: Mapping[str, str]) -> pathlib.Path:
    """Where this user's jars are kept."""
    named = environment.get(DIRECTORY_VARIABLE)
    if named:
        return pathlib.Path(named).absolute()
    base = pathlib.Path(environment.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore relative ones
        base = pathlib.Path.home() / ".cache"
    return base / "seamline" / "jars"


def kafka_jars(report: Report) -> pathlib.Path:
    """The directory with a broker's jars.

    Raises:
        SeamlineError: See `fetch`.
    """
    return fetch(KAFKA, cache_directory(os.environ), report)


def connect_jars(report: Report) -> pathlib.Path:
    """The directory with the jars of Kafka Connect and Iceberg's sink.

    Raises:
        SeamlineError: See `fetch`.
    """
    return fetch(KAFKA_CONNECT, cache_directory(os.environ), report)


def spark_jars(report: Report, stores: Iterable[str] = ()) -> tuple[pathlib.Path, ...]:
    """The jars that Spark needs besides its own.

    Args:
        report: Takes progress.
        stores: Schemes of the object stores it reads and writes.

    Raises:
        SeamlineError: See `fetch`.
    """
    cache = cache_directory(os.environ)
    return tuple(
        fetch(wanted, cache, report) / name
        for wanted in _wanted(stores)
        for name in wanted.file_names
    )


def spark_packages(stores: Iterable[str] = ()) -> tuple[str, ...]:
    """The Maven coordinates of the same."""
    return tuple(one for wanted in _wanted(stores) for one in wanted.coordinates)


def _wanted(stores: Iterable[str]) -> list[JarSet]:
    return [SPARK, *(STORES[store] for store in sorted(set(stores)) if store in STORES)]


def fetch(jars: JarSet, cache: pathlib.Path, report: Report) -> pathlib.Path:
    """The directory with the jars of a set; fetches them when they are not there yet.

    Args:
        jars: What is wanted.
        cache: Directory that holds one directory a set.
        report: Takes progress.

    Raises:
        SeamlineError: JARS_UNAVAILABLE, DISK_FULL, and when they must be fetched MISSING_EXTRA,
            JAVA_NOT_FOUND, JAVA_UNSUPPORTED.
    """
    target = cache / jars.directory_name
    if target.is_dir():
        return target
    hint = f"Correct the rights, or set {DIRECTORY_VARIABLE} to a directory you may write."
    with named_write_errors(cache, JARS_UNAVAILABLE, hint=hint):
        cache.mkdir(parents=True, exist_ok=True)
        waiting = f"{jars.name}: another process fetches the jars, waiting for it"
        with exclusive(cache / f"{jars.directory_name}.lock", lambda: report(waiting)) as lock:
            if not target.is_dir():
                _fetch(jars, target, lock, report)
    return target


def _fetch(jars: JarSet, target: pathlib.Path, lock: int, report: Report) -> None:
    report(f"{jars.name}: fetching the jars into {target.parent} (only the first time)")
    work = target.with_suffix(".partial")
    shutil.rmtree(work / "jars", ignore_errors=True)  # copies; Ivy's cache beside it stays
    found = ivy.retrieve(
        jars.name,
        jars.coordinates,
        transitive=jars.transitive,
        work=work,
        lock=lock,
        report=report,
    )
    found.rename(target)
    shutil.rmtree(work)

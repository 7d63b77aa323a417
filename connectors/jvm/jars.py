"""The pinned jars, fetched once per user into a cache.

Each set of jars has its own directory, named after its contents. The directory exists only when the
set is complete: the jars are fetched elsewhere and moved there. Processes that need the same set at
once wait for one of them to fetch it. A complete set needs no network, no Ivy and no Java.

A file of a pinned set is used only if it has the SHA-256 that is listed in `jars.sha256`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping

from seamline.connectors.files import exclusive, named_write_errors
from seamline.connectors.jvm import ivy
from seamline.connectors.jvm.ivy import Report
from seamline.errors import JARS_CHANGED, JARS_UNAVAILABLE, SeamlineError

DIRECTORY_VARIABLE = "SEAMLINE_JARS"
CHECKSUMS = pathlib.Path(__file__).with_name("jars.sha256")
"""Lines of `<SHA-256>  <file name>`, as `sha256sum` writes them."""


@dataclasses.dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are fetched together.

    Attributes:
        name: Their name in progress and errors.
        coordinates: `organisation:module:version` of each, optionally with `:classifier`.
        transitive: Whether their dependencies belong to the set.
        is_pinned: Whether each of its files must have a checksum in `jars.sha256`.
        megabytes: About how large they are together; None if that is not known in advance.
    """

    name: str
    coordinates: tuple[str, ...]
    transitive: bool
    is_pinned: bool = False
    megabytes: int | None = None

    @property
    def directory_name(self) -> str:
        """The name of its directory, which differs when anything in the set does."""
        identity = repr((self.coordinates, self.transitive)).encode()
        return f"{self.name}-{hashlib.sha256(identity).hexdigest()[:12]}"

    @property
    def file_names(self) -> tuple[str, ...]:
        """The file names of the coordinates themselves, in the same order."""
        parts = (text.split(":") for text in self.coordinates)
        return tuple(f"{module}-{version}.jar" for _, module, version, *_ in parts)


KAFKA = JarSet(
    "kafka",
    ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
    is_pinned=True,
    megabytes=45,
)
"""A whole broker, and the small logger without which it would log nothing."""

SPARK = JarSet(
    "spark",
    (
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.12.0",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
    transitive=False,
    is_pinned=True,
    megabytes=72,
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
    is_pinned=True,
    megabytes=78,
)
"""A Kafka Connect worker with Iceberg's sink, whose tables the demo adopts."""


STORES = {
    "s3": JarSet(
        "s3",
        ("org.apache.iceberg:iceberg-aws-bundle:1.11.0",),
        transitive=False,
        is_pinned=True,
        megabytes=64,
    ),
    "gs": JarSet(
        "gs",
        ("org.apache.iceberg:iceberg-gcp-bundle:1.11.0",),
        transitive=False,
        is_pinned=True,
    ),
    "abfs": JarSet("abfs", ("org.apache.iceberg:iceberg-azure-bundle:1.11.0",), transitive=False),
}
"""What Iceberg needs in Spark to reach an object store, by the store's scheme.

Not every mirror has the Azure bundle, so it has no checksum.
"""

PINNED = tuple(jars for jars in (KAFKA, SPARK, KAFKA_CONNECT, *STORES.values()) if jars.is_pinned)


def cache_directory(environment: Mapping[str, str]) -> pathlib.Path:
    """Returns the directory where this user's jars are kept."""
    named = environment.get(DIRECTORY_VARIABLE)
    if named:
        return pathlib.Path(named).absolute()
    base = pathlib.Path(environment.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore relative ones
        base = pathlib.Path.home() / ".cache"
    return base / "seamline" / "jars"


def kafka_jars(report: Report) -> pathlib.Path:
    """Returns the directory with a broker's jars.

    Raises:
        SeamlineError: See `fetch`.
    """
    return fetch(KAFKA, cache_directory(os.environ), report)


def connect_jars(report: Report) -> pathlib.Path:
    """Returns the directory with the jars of Kafka Connect and Iceberg's sink.

    Raises:
        SeamlineError: See `fetch`.
    """
    return fetch(KAFKA_CONNECT, cache_directory(os.environ), report)


def spark_jars(report: Report, stores: Iterable[str] = ()) -> tuple[pathlib.Path, ...]:
    """Returns the jars that Spark needs besides its own.

    Args:
        report: Takes progress.
        stores: Schemes of the object stores that it reads and writes.

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
    """Returns the Maven coordinates of the jars of `spark_jars`."""
    return tuple(one for wanted in _wanted(stores) for one in wanted.coordinates)


def _wanted(stores: Iterable[str]) -> list[JarSet]:
    return [SPARK, *(STORES[store] for store in sorted(set(stores)) if store in STORES)]


def fetch(jars: JarSet, cache: pathlib.Path, report: Report) -> pathlib.Path:
    """Returns the directory with the jars of a set, fetching them if they are not there yet.

    Args:
        jars: The requested set.
        cache: Directory that holds one directory per set.
        report: Takes progress.

    Raises:
        SeamlineError: JARS_UNAVAILABLE, JARS_CHANGED, DISK_FULL, and when they must be fetched
            MISSING_EXTRA, JAVA_NOT_FOUND, JAVA_UNSUPPORTED.
    """
    target = cache / jars.directory_name
    if target.is_dir():
        return target
    hint = f"Correct the permissions, or set {DIRECTORY_VARIABLE} to a directory you may write to."
    with named_write_errors(cache, JARS_UNAVAILABLE, hint=hint):
        cache.mkdir(parents=True, exist_ok=True)
        waiting = f"{jars.name}: another process is fetching the jars; waiting for it"
        with exclusive(cache / f"{jars.directory_name}.lock", lambda: report(waiting)) as lock:
            if not target.is_dir():
                _fetch(jars, target, lock, report)
    return target


def _fetch(jars: JarSet, target: pathlib.Path, lock: int, report: Report) -> None:
    size = f", about {jars.megabytes} MB" if jars.megabytes is not None else ""
    report(f"{jars.name}: fetching the jars{size} into {target.parent} (only the first time)")
    work = target.with_suffix(".partial")
    shutil.rmtree(work / "jars", ignore_errors=True)  # copies; Ivy's cache beside it stays
    found = ivy.retrieve(
        jars.name,
        jars.coordinates,
        transitive=jars.transitive,
        work=work,
        lock=lock,
        report=report,
        megabytes=jars.megabytes,
    )
    if jars.is_pinned:
        check(found, checksums())
    found.rename(target)
    shutil.rmtree(work)


def checksums() -> dict[str, str]:
    """Returns the SHA-256 of each file of the sets above, by its name."""
    lines = CHECKSUMS.read_text(encoding="ascii").splitlines()
    return {name: checksum for checksum, name in (line.split() for line in lines)}


def check(directory: pathlib.Path, wanted: Mapping[str, str]) -> None:
    """Checks that every file is the one that was tested.

    Args:
        directory: The directory of the fetched files.
        wanted: The SHA-256 of each file, by its name.

    Raises:
        SeamlineError: JARS_CHANGED, which names the first file that differs or is not known.
    """
    for path in sorted(directory.iterdir()):
        found = sha256(path)
        if found != wanted.get(path.name):
            raise SeamlineError(
                JARS_CHANGED,
                f"{path.name} is not the file that was published: its SHA-256 is {found}, but "
                f"should be {wanted.get(path.name, 'no such file')}",
            )


def sha256(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pin(report: Report) -> None:
    """Rewrites the checksums for the sets above as they are today; for use after changing one."""
    found: dict[str, str] = {}
    for jars in PINNED:
        with tempfile.TemporaryDirectory() as folder:
            unchecked = dataclasses.replace(jars, is_pinned=False)
            for path in fetch(unchecked, pathlib.Path(folder), report).iterdir():
                checksum = sha256(path)
                if found.setdefault(path.name, checksum) != checksum:
                    raise SeamlineError(JARS_CHANGED, f"two files are called {path.name}")
    lines = [f"{checksum}  {name}\n" for name, checksum in sorted(found.items())]
    CHECKSUMS.write_text("".join(lines), encoding="ascii")

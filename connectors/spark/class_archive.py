"""An archive of Spark's classes, as Java keeps them in memory: a Spark that maps it starts sooner.

Most of what a small job costs is loading classes: reading them from jars, parsing and verifying
them. Java can write those that a program used into a file when it ends, and map that file the next
time. The program here is a Spark that does a little of everything. It runs once for each user, Java
and set of jars; the file is beside the jars. Java ignores an archive if a jar has been replaced. So
the archive's name says which files it is of, and as of when.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence

from seamline.connectors.files import exclusive, named_write_errors
from seamline.connectors.jvm import jars
from seamline.connectors.jvm.ivy import Report, pyspark_folder
from seamline.connectors.jvm.java import Java, find_java
from seamline.connectors.spark import submission
from seamline.connectors.spark.settings import SparkSettings
from seamline.errors import JARS_UNAVAILABLE, SPARK_UNAVAILABLE, SeamlineError

_FORMAT = 1
"""To be raised when the program does more."""
_MAKE_S_MAX = 300.0
_CATALOG = "archived"
_TABLE = f"{_CATALOG}.default.t"
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
_STATEMENTS = (
    f"CREATE TABLE {_TABLE} (k BIGINT, s STRING, d DECIMAL(18, 2), t TIMESTAMP, b BINARY,"
    " a ARRAY<INT>, m MAP<STRING, INT>, r STRUCT<x: INT, y: STRING>)"
    " USING iceberg PARTITIONED BY (bucket(2, k)) TBLPROPERTIES ('format-version' = '2')",
    f"INSERT INTO {_TABLE} SELECT id, concat('s', id), id / 3, timestamp_micros(id),"
    " encode(string(id), 'UTF-8'), array(1, 2), map('a', 1), named_struct('x', 1, 'y', 'z')"
    " FROM range(2000)",
    f"MERGE INTO {_TABLE} t USING (SELECT * FROM {_TABLE} WHERE k < 10) n ON t.k = n.k"
    " WHEN MATCHED AND n.k = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET *"
    " WHEN NOT MATCHED THEN INSERT *",
    f"SELECT s, count(*), sum(d), avg(k), max(t) FROM {_TABLE} WHERE k > 1 AND s LIKE 's%'"
    " GROUP BY s HAVING count(*) > 0 ORDER BY 2 DESC, 1 LIMIT 5",
    f"SELECT l.k, row_number() OVER (PARTITION BY r.r.x ORDER BY l.k) FROM {_TABLE} l"
    f" JOIN {_TABLE} r ON l.k = r.k + 1 WHERE l.t > timestamp_micros(5)",
    f"SELECT k, s FROM {_TABLE} UNION ALL SELECT k, s FROM VALUES (1, 'a') AS v(k, s)",
)


def java_options(archive: pathlib.Path) -> tuple[str, ...]:
    """Returns the options with which a Java maps an archive, and says nothing if it does not."""
    return f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_SILENT


def archive_of(
    files: Sequence[pathlib.Path], java: Java, home: pathlib.Path | None = None
) -> pathlib.Path:
    """Returns where the archive of a local Spark is, or would be.

    Its name consists of a part for the paths of all that Java compares with an archive, and one for
    their sizes and times.

    Args:
        files: The jars on its class path besides its own, in this order.
        java: What it runs on.
        home: Spark's folder; by default, PySpark's in this environment.
    """
    home = home or pyspark_folder()
    runtime = java.path.resolve().parents[1] / "lib"
    compared = [
        *(runtime / "modules", runtime / "server" / "classes.jsa"),
        *sorted((home / "jars").glob("*.jar")),
        *files,
    ]
    states = [(str(path), *_size_and_time(path)) for path in compared]
    parts = (_digest(runtime, home, *files), _digest(_FORMAT, java.build, *states))
    return jars.cache_directory(os.environ) / f"spark-classes-{'-'.join(parts)}.jsa"


def _size_and_time(path: pathlib.Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:  # Java finds that out, too
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def prepare(report: Report, stores: Iterable[str] = ()) -> None:
    """Fetches the jars of a local Spark, and archives its classes, unless both are there.

    Args:
        report: Takes progress.
        stores: Schemes of the object stores that it reads and writes.

    Raises:
        SeamlineError: SPARK_UNAVAILABLE, JARS_UNAVAILABLE, DISK_FULL, JAVA_NOT_FOUND, ….
    """
    files = jars.spark_jars(report, stores)
    archive = archive_of(files, find_java(os.environ))
    if not archive.exists():
        _make(archive, files, report)


def _make(archive: pathlib.Path, files: Sequence[pathlib.Path], report: Report) -> None:
    variable = jars.DIRECTORY_VARIABLE
    hint = f"Correct the permissions, or set {variable} to a directory you may write to."
    waiting = "spark: another process is archiving the classes; waiting for it"
    with (
        named_write_errors(archive.parent, JARS_UNAVAILABLE, hint=hint),
        exclusive(archive.with_name(f"{_paths_part(archive)}.lock"), lambda: report(waiting)),
        tempfile.TemporaryDirectory(prefix="classes-", dir=archive.parent) as folder,
    ):
        if archive.exists():
            return
        report(f"spark: archiving its classes in {archive.parent} (only the first time)")
        written = pathlib.Path(folder, archive.name)
        command = [sys.executable, "-m", __name__, str(written), *map(str, files)]
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_MAKE_S_MAX,
                check=True,
            )
        except subprocess.SubprocessError as error:
            output = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise SeamlineError(
                SPARK_UNAVAILABLE,
                f"a Spark whose classes are archived failed: {output.splitlines()[-1:] or error}",
            ) from error
        written.rename(archive)
        remove_older(archive)


def remove_older(archive: pathlib.Path) -> None:
    """Removes the archives of what was at the same paths before, which no Java maps any more."""
    for other in archive.parent.glob(f"{_paths_part(archive)}-*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)


def _paths_part(archive: pathlib.Path) -> str:
    return archive.stem.rpartition("-")[0]


def _run(archive: pathlib.Path, files: tuple[pathlib.Path, ...]) -> None:
    """The program: its Java writes the archive when it ends."""
    folder = archive.parent
    catalog = f"spark.sql.catalog.{_CATALOG}"
    conf = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(folder / "warehouse"),
        "spark.plugins": _PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    recording = (f"-XX:ArchiveClassesAtExit={archive}", "-XX:TieredStopAtLevel=1")
    settings = SparkSettings("local[1]", "1g", (), files, conf, folder, java_options=recording)
    spark = submission.start_in_process(settings)
    for statement in _STATEMENTS:
        spark.sql(statement).toArrow()
    rows = spark.range(100).mapInArrow(lambda batches: batches, "id BIGINT")
    rows.selectExpr("id AS k", "string(id) AS s").writeTo(f"{_CATALOG}.default.w").create()
    submission.stop(spark, within_s=_MAKE_S_MAX)


if __name__ == "__main__":
    _run(pathlib.Path(sys.argv[1]), tuple(map(pathlib.Path, sys.argv[2:])))

"""Goal: a local Spark maps the archive of its classes, and works without one that does not fit.

Method: a real Spark in a process of its own, which prints what its Java has mapped; and a real
Java, which judges an archive after any change of what it is of.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from support import offline

from seamline.connectors.jvm import ivy, jars
from seamline.connectors.jvm.java import Java, find_java
from seamline.connectors.spark import class_archive
from seamline.gateway.app.spark import settings

START = """
import pathlib, sys
from seamline.connectors.spark import submission
from seamline.gateway.app.spark import settings
from seamline.gateway.config.load import load

config = load(pathlib.Path(sys.argv[1]), environment={}).config
session = submission.start_in_process(settings(config, is_brief=True), is_quiet=True)
java = session.sparkContext._gateway.proc
print(pathlib.Path(f"/proc/{java.pid}/maps").read_text())
print(pathlib.Path(f"/proc/{java.pid}/cmdline").read_text())
submission.stop(session)
"""


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.prove
def test_a_local_spark_maps_its_archive(tmp_path: pathlib.Path) -> None:
    class_archive.prepare(print)
    archive = class_archive.archive_of(jars.spark_jars(print), find_java(os.environ))
    command = [sys.executable, "-c", START, str(offline.write(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert str(archive) in done.stdout


MAIN = "org.apache.ivy.Main"


class Archived:
    """A Java program of two jars, one of which is Spark's own, and the archive of its classes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.java = find_java(os.environ)
        self.home = folder / "pyspark"
        self.own, self.other = self.home / "jars" / "ivy.jar", folder / "other.jar"
        self.own.parent.mkdir(parents=True)
        jars_of_spark = ivy.pyspark_folder() / "jars"
        shutil.copy(next(jars_of_spark.glob("ivy-*.jar")), self.own)
        shutil.copy(next(jars_of_spark.glob("slf4j-api-*.jar")), self.other)
        self._archive = folder / "classes.jsa"
        assert self.runs(f"-XX:ArchiveClassesAtExit={self._archive}")
        self.path = self.path_of([self.other])

    def path_of(self, files: Sequence[pathlib.Path]) -> pathlib.Path:
        return class_archive.archive_of(files, self.java, self.home)

    def runs(self, *options: str) -> bool:
        files = ":".join(map(str, [*sorted(self.own.parent.iterdir()), self.other]))
        command = [str(self.java.path), *options, "-cp", files, MAIN, "-version"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0

    def fits(self) -> bool:
        """Whether Java maps the archive."""
        return self.runs(f"-XX:SharedArchiveFile={self._archive}", "-Xshare:on")


def touch(jar: pathlib.Path) -> None:
    os.utime(jar, (1e9, 1e9))


def grow(jar: pathlib.Path) -> None:
    before = jar.stat()
    jar.write_bytes(jar.read_bytes() + b" ")
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))


def precede(jar: pathlib.Path) -> None:
    shutil.copy2(jar, jar.with_name("a.jar"))


def leave(jar: pathlib.Path) -> None:
    assert jar.exists()


def remove(jar: pathlib.Path) -> None:
    jar.unlink()


CHANGES: dict[str, Callable[[Archived], None]] = {
    f"{change.__name__} {jar}": functools.partial(
        lambda program, change, jar: change(getattr(program, jar)), change=change, jar=jar
    )
    for change in (leave, touch, grow, remove)
    for jar in ("own", "other")
} | {"precede": lambda program: precede(program.own)}


@pytest.mark.parametrize("change", CHANGES)
def test_what_java_would_not_map_has_another_archive(tmp_path: pathlib.Path, change: str) -> None:
    program = Archived(tmp_path)
    assert program.fits()
    CHANGES[change](program)
    is_same = program.path_of([program.other]) == program.path
    assert is_same == change.startswith("leave")
    assert program.fits() == is_same or change.endswith("other"), "a jar of which it has no class"


@pytest.mark.parametrize("file", ["lib/modules", "lib/server/classes.jsa"])
@pytest.mark.parametrize("change", [touch, grow, remove])
def test_another_java_at_the_same_path_has_another_archive(
    tmp_path: pathlib.Path, file: str, change: Callable[[pathlib.Path], None]
) -> None:
    java = Java(tmp_path / "java" / "bin" / "java", 17, "17.0.1")
    part = tmp_path / "java" / file
    part.parent.mkdir(parents=True)
    part.write_bytes(b"of Java")
    archive = class_archive.archive_of([], java, tmp_path)
    assert archive == class_archive.archive_of([], java, tmp_path)
    assert archive != class_archive.archive_of([], Java(java.path, 17, "17.0.2"), tmp_path)
    change(part)
    assert archive != class_archive.archive_of([], java, tmp_path)


def test_older_archives_of_the_same_paths_are_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(jars.DIRECTORY_VARIABLE, str(tmp_path))
    java = find_java(os.environ)
    files = [tmp_path / "a.jar", tmp_path / "b.jar"]
    archives = []
    for content in (b"1", b"22", b"333"):
        files[0].write_bytes(content)
        archives.append(class_archive.archive_of(files, java))
    kept = [
        archives[-1],
        class_archive.archive_of(files[::-1], java),
        class_archive.archive_of(files[:1], java),
        class_archive.archive_of(files, java, tmp_path),
        tmp_path / "spark-classes-0123456789ab.jsa",  # of an earlier release
    ]
    for path in (*archives, *kept):
        path.touch()
    class_archive.remove_older(archives[-1])
    assert {*tmp_path.glob("*.jsa")} == {*kept}


def test_java_ignores_what_is_no_archive(tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "x.jsa"
    archive.write_bytes(b"no archive")
    command = [str(find_java(os.environ).path), *class_archive.java_options(archive)]
    command = [*command, "-cp", str(tmp_path), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    assert all("cds" not in line for line in done.stderr.splitlines())


def test_jars_of_a_cluster_are_fetched_and_those_of_a_local_spark_are_on_its_class_path(
    tmp_path: pathlib.Path,
) -> None:
    local = settings(offline.config(tmp_path)).static_conf()
    assert "spark.jars" not in local
    assert len(local["spark.driver.extraClassPath"].split(":")) == len(jars.spark_jars(print))
    cluster = settings(offline.config(tmp_path, spark__master="spark://example:7077")).static_conf()
    assert "spark.driver.extraClassPath" not in cluster
    assert len(cluster["spark.jars"].split(",")) == len(jars.spark_jars(print))

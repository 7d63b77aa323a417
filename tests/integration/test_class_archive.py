"""Goal: a local Spark maps the archive of its classes, and works without one that does not fit.

Method: a real Spark in a process of its own, which prints what its Java has mapped; and a real
Java whose archive is no archive.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from support import offline

from seamline.connectors.jvm import jars
from seamline.connectors.jvm.java import find_java
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


def test_another_java_or_other_jars_have_another_archive(tmp_path: pathlib.Path) -> None:
    java = find_java(os.environ)
    files = [tmp_path / "a.jar", tmp_path / "b.jar"]
    archive = class_archive.archive_of(files, java)
    assert archive == class_archive.archive_of(files, java)
    others = [
        class_archive.archive_of(files[::-1], java),
        class_archive.archive_of(files[:1], java),
        class_archive.archive_of(files, type(java)(java.path, java.version, "another build")),
    ]
    assert archive not in others


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

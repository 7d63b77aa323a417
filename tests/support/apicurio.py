"""Apicurio Registry for tests: a registry that nobody here wrote, from Maven Central.

Its application is published as an archive, which is fetched once per user, beside the jars, and
runs in a Java process of its own with a database in memory.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator

from seamline.connectors.jvm.java import find_java
from seamline.gateway.dev.local.ports import free_port
from support.maven import fetched
from support.waiting import wait_until

VERSION = "3.0.9"
"""The newest that runs on Java 17."""
_NAME = "apicurio-registry-app"
_WANTED = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="seamline" module="apicurio"/>
<configurations><conf name="default"/></configurations>
<dependencies>
<dependency org="io.apicurio" name="{_NAME}" rev="{VERSION}" transitive="false" conf="default">
<artifact name="{_NAME}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
</dependency>
</dependencies></ivy-module>
"""
_SETTINGS = """<ivysettings>
<settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""The archive is there, and the description of what it was made of is not."""


def _application() -> pathlib.Path:
    """The folder of the application."""
    return fetched(f"{_NAME}-{VERSION}", _WANTED, settings=_SETTINGS, unpack=_unpack)


def _unpack(folder: pathlib.Path) -> None:
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


@contextlib.contextmanager
def apicurio(directory: pathlib.Path) -> Iterator[str]:
    """A running registry, its log in a folder.

    Yields:
        The address of its API that is Confluent's.
    """
    jar = _application() / f"{_NAME}-{VERSION}-runner.jar"
    port = free_port()
    with (directory / "apicurio.log").open("wb") as output:
        process = subprocess.Popen(
            [str(find_java(os.environ).path), "-Xmx512m", "-jar", str(jar)],
            env={**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": "127.0.0.1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        wait_until(lambda: _answers(url), 120, "Apicurio to answer")
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

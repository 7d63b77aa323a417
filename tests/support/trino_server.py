"""Trino itself, with its own Iceberg connector: the engine, where `trino_clients` are its clients.

It needs a newer Java than Seamline does, which is looked for beside Seamline's own.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import trino

from seamline.connectors.jvm.java import find_java
from support.maven import fetched
from support.waiting import wait_until

VERSION = "483"
JAVA_MIN = 25
_PLUGINS = ("iceberg", "hive", "exchange-filesystem", "tpch")
"""Modules whose packaging hides that they are jars like any other."""
_IVY = """
<ivy-module version="2.0">
<info organisation="seamline" module="trino-server"/>
<configurations><conf name="default"/></configurations>
<dependencies>
<dependency org="io.trino" name="trino-testing" rev="{version}" conf="default-&gt;default"/>
{plugins}
</dependencies>
</ivy-module>
"""
_PLUGIN = """
<dependency org="io.trino" name="trino-{name}" rev="{version}" conf="default-&gt;default">
<artifact name="trino-{name}" type="jar"/>
</dependency>
"""
SOURCE = pathlib.Path(__file__).parents[1] / "readers" / "clients" / "trino" / "TrinoServer.java"


def java() -> pathlib.Path | None:
    """A Java that Trino runs on, beside the one that Seamline uses; None if there is none."""
    homes = find_java(os.environ).path.resolve().parents[2]
    for release in sorted(homes.glob("*/release")):
        text = release.read_text(encoding="utf-8")
        found = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
        if found and int(found[1]) >= JAVA_MIN:
            return release.parent / "bin" / "java"
    return None


def local_files(url: str) -> dict[str, str]:
    """Properties of a catalog at an address whose tables are on this machine."""
    return {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": url,
        "fs.local.enabled": "true",
        "local.location": "/",
    }


class Trino:
    """A running Trino.

    Args:
        url: Its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._port = int(url.rsplit(":", 1)[1])

    def rows(self, sql: str, catalog: str = "live", **session: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, with values as Python has them.

        Args:
            sql: The statement.
            catalog: What a name without a catalog refers to.
            session: Properties of the session; `a__b` is the property `b` of the catalog `a`.

        Raises:
            trino.exceptions.TrinoQueryError: what Trino ended it with.
        """
        connection = trino.dbapi.connect(  # type: ignore[no-untyped-call]
            host="127.0.0.1",
            port=self._port,
            user="tests",
            catalog=catalog,
            schema="default",
            timezone="UTC",
            session_properties={name.replace("__", "."): v for name, v in session.items()},
        )
        with contextlib.closing(connection):
            cursor = connection.cursor()
            cursor.execute(sql)
            return [tuple(map(_plain, row)) for row in cursor.fetchall()]


def _plain(value: Any) -> Any:
    """A value with rows as dictionaries."""
    if isinstance(value, tuple) and hasattr(value, "_names"):
        return dict(zip(value._names, map(_plain, value), strict=True))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return (
        [_plain(item) for item in value]
        if isinstance(value, Sequence | set) and not isinstance(value, str | bytes)
        else value
    )


@contextlib.contextmanager
def trino_server(
    directory: pathlib.Path, catalogs: Mapping[str, Mapping[str, str]]
) -> Iterator[Trino]:
    """Trino over some catalogs, until the block ends.

    Args:
        directory: Where its log is kept.
        catalogs: The properties of each.
    """
    program = java()
    assert program is not None
    ready = directory / "address"
    settings = [f"{c}/{name}={v}" for c, found in catalogs.items() for name, v in found.items()]
    plugins = "".join(_PLUGIN.format(name=name, version=VERSION) for name in _PLUGINS)
    description = _IVY.format(version=VERSION, plugins=plugins)
    jars = fetched(f"trino-server-{VERSION}", description, classified=True)
    with (
        (directory / "trino.log").open("wb") as log,
        subprocess.Popen(
            [
                *(str(program), "-Xmx1500m", "-XX:+UseSerialGC", "-Duser.timezone=UTC"),
                *("--add-modules", "jdk.incubator.vector", "-cp", f"{jars}/*"),
                *(str(SOURCE), str(ready), *settings),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={k: v for k, v in os.environ.items() if k != "JDK_JAVA_OPTIONS"},
        ) as process,
    ):
        try:
            wait_until(
                lambda: ready.exists() or process.poll() is not None, what="Trino", seconds=900
            )
            assert process.poll() is None, (directory / "trino.log").read_text()[-3000:]
            yield Trino(ready.read_text(encoding="utf-8"))
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)

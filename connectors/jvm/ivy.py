"""Fetches published jars with the Ivy in PySpark's wheel, so that Maven is not needed.

Files come from Ivy's default repositories, or from those of the settings file that
`SEAMLINE_IVY_SETTINGS` names (a mirror behind a firewall). What was fetched before an interruption
is in Ivy's own cache and is not fetched again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from xml.sax.saxutils import quoteattr

from seamline.connectors import supervision
from seamline.connectors.files import disk_full
from seamline.connectors.jvm.java import find_java
from seamline.errors import JARS_UNAVAILABLE, MISSING_EXTRA, SeamlineError

SETTINGS_VARIABLE = "SEAMLINE_IVY_SETTINGS"

Report = Callable[[str], None]
"""Takes a human-readable line of progress."""

_PATTERN = "[artifact]-[revision].[ext]"
_PROXY_PORT = 8080
_FOUND_PER_REPORT = 10
_TOLD_EVERY_S = 3.0
# Without these, Java waits forever when it gets no answer.
_NETWORK = (
    "-Dsun.net.client.defaultConnectTimeout=15000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
_NOISE = re.compile(r"::::|:: USE VERBOSE|-- artifact|={2,}|at |\.\.\. \d+ more|\.*$")


def retrieve(
    name: str,
    coordinates: Sequence[str],
    *,
    transitive: bool,
    work: pathlib.Path,
    lock: int,
    report: Report,
    megabytes: int | None = None,
) -> pathlib.Path:
    """Fetches jars and returns the directory they are in, `work/jars`.

    Args:
        name: Their name in progress lines.
        coordinates: `organisation:module:version` of each; with `:classifier` for a jar other than
            the module's main one.
        transitive: Whether to fetch their dependencies too.
        work: A directory for Ivy's files; what an earlier try left there is reused.
        lock: File descriptor that locks `work`. Ivy inherits it, so that the lock is held until Ivy
            has ended, even when this process is killed.
        report: Takes progress.
        megabytes: The size of all of them, if it is known.

    Raises:
        SeamlineError: MISSING_EXTRA, JAVA_NOT_FOUND, JAVA_UNSUPPORTED, JARS_UNAVAILABLE, DISK_FULL.
    """
    work.mkdir(parents=True, exist_ok=True)
    description = work / "ivy.xml"
    description.write_text(module_description(name, coordinates, transitive=transitive))
    cache = work / "cache"
    progress = Progress(
        name,
        report,
        done=len(list(cache.rglob("*.jar"))),
        received_bytes=lambda: _bytes_in(cache),
        megabytes=megabytes,
    )
    exit_code = _run(_command(work), lock, progress)
    if exit_code != 0:
        if any("No space left on device" in line for line in progress.lines):
            raise disk_full(work)
        problem = last_problem(progress.lines)
        raise SeamlineError(JARS_UNAVAILABLE, f"the jars of {name} cannot be fetched: {problem}")
    return work / "jars"


def module_description(name: str, coordinates: Sequence[str], *, transitive: bool) -> str:
    """Returns Ivy's description of a module that depends on these jars."""
    dependencies = "".join(_dependency(text, transitive=transitive) for text in coordinates)
    return (
        f'<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra">'
        f'<info organisation="seamline" module={quoteattr(name)}/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{dependencies}</dependencies></ivy-module>\n"
    )


def _dependency(text: str, *, transitive: bool) -> str:
    organisation, module, version, *classifiers = text.split(":")
    artifacts = "".join(
        f'<artifact name={quoteattr(module)} type="jar" e:classifier={quoteattr(classifier)}/>'
        for classifier in classifiers
    )
    return (
        f"<dependency org={quoteattr(organisation)} name={quoteattr(module)}"
        f' rev={quoteattr(version)} transitive="{str(transitive).lower()}"'
        f' conf="default->default">{artifacts}</dependency>\n'
    )


class Progress:
    """Reads Ivy's output and reports its progress.

    Args:
        name: The name of the jars.
        report: Takes progress.
        done: Jars that an earlier try has fetched.
        received_bytes: Returns the size of what has been fetched.
        megabytes: The size of all jars, if it is known.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        name: str,
        report: Report,
        *,
        done: int = 0,
        received_bytes: Callable[[], int] = lambda: 0,
        megabytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lines: list[str] = []
        self._name = name
        self._report = report
        self._found = 0
        self._done = done
        self._received_bytes = received_bytes
        self._megabytes = megabytes
        self._clock = clock
        self._began, self._before_bytes = clock(), received_bytes()

    def read(self, line: str) -> None:
        """Takes the next line of output."""
        self.lines.append(line)
        text = line.strip()
        if text.startswith("found "):
            self._found += 1
            if self._found % _FOUND_PER_REPORT == 0:
                self._report(f"{self._name}: looking up dependencies, {self._found} found")
        elif text.startswith("downloading "):
            if self._done == 0:
                self._began, self._before_bytes = self._clock(), self._received_bytes()
        elif text.startswith("[SUCCESSFUL ]"):
            self._done += 1
            self.tell()

    def tell(self) -> float:
        """Reports how much has been fetched, once something has; returns when to do it again."""
        received_bytes = self._received_bytes()
        if self._done or received_bytes > self._before_bytes:
            jars = f"{self._done} of {max(self._done, self._found)} jars"
            self._report(f"{self._name}: {jars}{self._amount(received_bytes)}")
        return _TOLD_EVERY_S

    def _amount(self, received_bytes: int) -> str:
        megabytes = received_bytes / 1e6
        if self._megabytes is None:
            return f", {megabytes:.0f} MB"
        share = min(1.0, megabytes / self._megabytes)
        text = f", {megabytes:.0f} of about {self._megabytes} MB ({share:.0%})"
        seconds = self._clock() - self._began
        rate = (received_bytes - self._before_bytes) / seconds if seconds > 0 else 0
        left = self._megabytes * 1e6 - received_bytes
        return f"{text}, {left / rate:.0f} s left" if rate > 0 and left > 0 else text


def _bytes_in(folder: pathlib.Path) -> int:
    """Returns the size of the jars in a folder, whole or partly fetched."""
    total = 0
    for file in folder.rglob("*.jar*"):
        with contextlib.suppress(FileNotFoundError):  # a part has just become whole
            total += file.stat().st_size
    return total


def last_problem(lines: Sequence[str]) -> str:
    """Returns the last line of Ivy's output that says something about what went wrong."""
    for line in reversed(lines):
        text = line.strip()
        if text and not _NOISE.match(text):
            return text.removeprefix(":: ").strip()
    return "Ivy said nothing"


def _command(work: pathlib.Path) -> Sequence[str]:
    java = find_java(os.environ)
    settings = os.environ.get(SETTINGS_VARIABLE)
    return [
        *(str(java.path), *_NETWORK, *proxy_options(urllib.request.getproxies())),
        *("-jar", str(_ivy_jar())),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(work / "ivy.xml"), "-confs", "default", "-cache", str(work / "cache")),
        *("-retrieve", f"{work / 'jars'}/{_PATTERN}"),
    ]


def proxy_options(proxies: Mapping[str, str]) -> list[str]:
    """Returns the options that give Java the proxies which other programs take from variables."""
    options = []
    for scheme in ("http", "https"):
        parts = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if parts.hostname:
            port = parts.port or _PROXY_PORT
            options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={port}"]
    return options


def pyspark_folder() -> pathlib.Path:
    """Returns the folder of PySpark, which is not imported for that.

    Raises:
        SeamlineError: MISSING_EXTRA.
    """
    spark = importlib.util.find_spec("pyspark")
    if spark is None or not spark.submodule_search_locations:
        raise SeamlineError(
            MISSING_EXTRA,
            "fetching jars and a local Spark need pyspark, which is not installed",
            hint="pip install 'seamline[spark]'",
        )
    return pathlib.Path(spark.submodule_search_locations[0])


def _ivy_jar() -> pathlib.Path:
    jars = pyspark_folder() / "jars"
    found = sorted(jars.glob("ivy-*.jar"))
    if not found:
        raise SeamlineError(
            MISSING_EXTRA,
            f"there is no Ivy in {jars}",
            hint="Install PySpark from its wheel: pip install --force-reinstall 'seamline[spark]'",
        )
    return found[-1]


def _run(command: Sequence[str], lock: int, progress: Progress) -> int:
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(lock,),
    ) as process:
        assert process.stdout is not None
        telling = supervision.Loop("jars", progress.tell)
        try:
            for line in process.stdout:
                progress.read(line)
            return process.wait()
        finally:
            telling.stop()
            telling.join()
            process.kill()  # matters when this was interrupted; otherwise it has ended

"""Passes settings to spark-submit in files, as everybody on a machine can read command lines.

There are two files, in a folder that only we can enter: Spark's properties, and the options of its
Java, which Spark itself would put on the command line. Spark reads them only while it starts.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from seamline.connectors import supervision
from seamline.connectors.files import private_folder
from seamline.connectors.spark.settings import SparkSettings, environment

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SUBMIT_VARIABLE = "PYSPARK_SUBMIT_ARGS"
_STOP_S = 10.0
_SILENCE = """\
status = off
# without an appender, Spark would take its own configuration
appender.nothing.type = Null
appender.nothing.name = nothing
rootLogger.level = off
rootLogger.appenderRef.nothing.ref = nothing
# the program behind PySpark would set a level of its own
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


def options(conf: Mapping[str, str], folder: pathlib.Path) -> list[str]:
    """Returns the options with which spark-submit reads the settings; its own defaults stay.

    Args:
        conf: Spark's settings.
        folder: Where the files are written; only its owner may enter it.
    """
    properties = dict(conf)
    if _JAVA_OPTIONS in conf:
        arguments = folder / "java.options"
        _write(arguments, "".join(map(_argument, shlex.split(conf[_JAVA_OPTIONS]))))
        properties[_JAVA_OPTIONS] = f'"@{_quoted(str(arguments))}"'
    file = folder / "spark.properties"
    _write(file, "".join(f"{_escaped(k)}={_escaped(v)}\n" for k, v in properties.items()))
    return ["--properties-file", str(file), "--load-spark-defaults"]


def start_in_process(settings: SparkSettings, *, is_quiet: bool = False) -> Any:
    """Starts a classic Spark session, whose Java is a child of this process.

    Signals of a terminal or a shell's job do not reach that Java: it is in a session of its own.

    Args:
        settings: How it is started.
        is_quiet: Whether it logs nothing; its failures are raised either way.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    private_folder(settings.scratch)
    with tempfile.TemporaryDirectory(prefix="start-", dir=settings.scratch) as name:
        folder, conf = pathlib.Path(name), settings.static_conf()
        if is_quiet:
            conf = _silenced(conf, folder)
        ours = shlex.join(options(conf, folder))
        theirs = os.environ.get(_SUBMIT_VARIABLE, "pyspark-shell")
        with _environment({**environment(settings.withheld), _SUBMIT_VARIABLE: f"{ours} {theirs}"}):
            if SparkContext._gateway is None:  # noqa: SLF001
                gateway = launch_gateway(popen_kwargs={"start_new_session": True})
                SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
            return SparkSession.builder.appName("seamline").getOrCreate()


def start_interruptibly(settings: SparkSettings, *, is_quiet: bool = False) -> Any:
    """Starts the same; Ctrl-C, which Spark would handle itself, aborts it and kills its Java."""
    before = _children()
    try:
        return supervision.interruptibly(
            "spark-start", lambda: start_in_process(settings, is_quiet=is_quiet)
        )
    except KeyboardInterrupt:
        for pid in _children() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def stop(session: Any, *, within_s: float = _STOP_S) -> None:
    """Stops the last session of this process, and waits until the Java of a classic one is gone.

    That Java ends by itself once nobody can write to it, unless a library in it waits for threads
    of its own; then it is killed.

    Args:
        session: The session.
        within_s: Seconds after which it is killed.
    """
    session.stop()
    context = getattr(session, "_sc", None)  # a session of Spark Connect has none
    java = context._gateway.proc if context is not None else None  # noqa: SLF001
    if java is not None:
        java.stdin.close()
        try:
            java.wait(within_s)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()


def _silenced(conf: Mapping[str, str], folder: pathlib.Path) -> dict[str, str]:
    """Returns settings under which nothing is logged, from the first moment on."""
    file = folder / "log4j2.properties"
    _write(file, _SILENCE)
    options = f"{conf.get(_JAVA_OPTIONS, '')} {shlex.quote(f'-Dlog4j2.configurationFile={file}')}"
    return {**conf, _JAVA_OPTIONS: options.strip()}


def _children() -> set[int]:
    """Returns the processes that this one has started; none if the system does not report them."""
    children: set[int] = set()
    for path in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            children.update(map(int, path.read_text(encoding="ascii").split()))
    return children


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets the environment of what the block starts; restores it at the end."""
    hidden = {n: v for n, v in os.environ.items() if n not in variables or n == _SUBMIT_VARIABLE}
    for name in hidden:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        del os.environ[_SUBMIT_VARIABLE]
        os.environ.update(hidden)


def _write(path: pathlib.Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
        file.write(text)


def _argument(option: str) -> str:
    """Returns one option as a line of a file that `java @file` reads."""
    return f'"{_quoted(option)}"\n'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _escaped(text: str) -> str:
    """Escapes a key or a value for Java's property files, whatever it contains."""
    utf16 = text.encode("utf-16-be")
    units = struct.unpack(f">{len(utf16) // 2}H", utf16)
    plain = (chr(unit) if unit < 128 else "" for unit in units)
    return "".join(
        c if c.isalnum() or (c and c in "._-/,") else f"\\u{unit:04x}"
        for c, unit in zip(plain, units, strict=True)
    )

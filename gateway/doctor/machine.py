"""Checks what the gateway needs from this machine: Java, jars, folders with space, and its port.

It also checks whether a gateway runs there already, and whether it is of this release.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pathlib
import shutil
import ssl
import stat
import tempfile
from collections.abc import Iterator, Mapping

from seamline.connectors.jvm import ivy, jars
from seamline.connectors.jvm.jars import JarSet
from seamline.connectors.jvm.java import find_java
from seamline.dbapi.version import VERSION
from seamline.errors import PORT_TAKEN, SeamlineError
from seamline.gateway.config.file_locations import local_state_directory
from seamline.gateway.config.model import Config, HttpConfig
from seamline.gateway.doctor.findings import Finding, Level, of_error, ok, skipped, warning, wrong

_ROOM_BYTES_MIN = 1 << 30
_ANSWER_S = 3.0


def java() -> Iterator[Finding]:
    """Checks the Java that Spark and the local broker run on."""
    try:
        home = find_java(os.environ)
    except SeamlineError as error:
        yield of_error(error, Level.WARNING)
        return
    origin = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "PATH"
    yield ok(f"Java {home.version} at {home.path}, from {origin}")


def has_spark() -> bool:
    """Returns whether PySpark is installed."""
    return importlib.util.find_spec("pyspark") is not None


def jar_sets(config: Config | None) -> Iterator[Finding]:
    """Checks the jars in the cache, and their checksums."""
    cache = jars.cache_directory(os.environ)
    sets = [jars.SPARK] if has_spark() else []
    ivy_settings = os.environ.get(ivy.SETTINGS_VARIABLE)
    if ivy_settings and not pathlib.Path(ivy_settings).is_file():
        yield wrong(
            f"{ivy.SETTINGS_VARIABLE} is {ivy_settings}, which is not a file",
            "Correct it, or unset it to fetch jars from the default repositories.",
        )
    if config is not None:
        stores = {store for catalog in config.catalogs.values() for store in catalog.stores}
        sets += [jars.STORES[store] for store in sorted(stores & jars.STORES.keys())]
        if config.spark.remote is not None or config.spark.packages:
            sets = []
            yield skipped("jars of Spark: its own cluster, or Maven, provides them")
    for each in sets:
        yield _jar_set(each, cache, "Spark needs them")
    yield _jar_set(jars.KAFKA, cache, "`seamline local up` needs them")


def _jar_set(jar_set: JarSet, cache: pathlib.Path, why: str) -> Finding:
    folder = cache / jar_set.directory_name
    if not folder.is_dir():
        size = f"about {jar_set.megabytes} MB" if jar_set.megabytes is not None else "once"
        if not has_spark():
            return warning(
                f"jars of {jar_set.name} are not in {cache}: {why}, and PySpark, which fetches "
                "them, is not installed",
                "pip install 'seamline[spark]', or set SEAMLINE_JARS to a copy of the folder.",
            )
        return Finding(
            Level.SKIPPED,
            f"jars of {jar_set.name} are not in {cache}: {why}, and downloads them ({size})",
            "The first start fetches them. Without the internet, set SEAMLINE_JARS to a copy of "
            "the folder from a machine that has it.",
        )
    files = list(folder.iterdir())
    if jar_set.is_pinned:
        try:
            jars.check(folder, jars.checksums())
        except SeamlineError as error:
            remedy = f"Remove {folder}; the next start fetches them again."
            return Finding(Level.WRONG, error.message, remedy, error.code.name)
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    checked = "checksums as published" if jar_set.is_pinned else "without published checksums"
    return ok(f"{len(files)} jars of {jar_set.name}, {megabytes:.0f} MB, {checked}")


# --- Folders -------------------------------------------------------------------------------------


def folders(config: Config) -> Iterator[Finding]:
    """Checks permissions and free space of the state directory and the temporary directory."""
    state = pathlib.Path(config.state_directory)
    yield _folder("state directory", state, config.limits.spill_bytes)
    if state.is_dir():
        mode = stat.S_IMODE(state.stat().st_mode)
        if mode & 0o077:
            yield warning(
                f"state directory {state} is accessible to others ({mode:o}): it holds results",
                f"chmod 700 {state}",
            )
    yield _folder("temporary files", pathlib.Path(tempfile.gettempdir()), _ROOM_BYTES_MIN)
    if config.iceberg.location is None:
        return
    yield ok(f"tails for other engines are stored at {config.iceberg.location}")


def before_the_first_start(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks what `seamline local up` and a gateway with default settings need."""
    from seamline.gateway.app.server import check_port

    yield _folder("local stack", local_state_directory(environment), _ROOM_BYTES_MIN)
    yield _folder("temporary files", pathlib.Path(tempfile.gettempdir()), _ROOM_BYTES_MIN)
    http = HttpConfig()
    try:
        check_port(http.host, http.port)
    except SeamlineError as error:
        yield of_error(error, Level.WARNING)
    else:
        yield ok(f"port {http.port} of {http.host} is free")


def _folder(what: str, path: pathlib.Path, bytes_wanted: int) -> Finding:
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        return wrong(f"{what} {path}: {there} is not a folder", "Choose another one.")
    if not os.access(there, os.W_OK | os.X_OK):
        return wrong(
            f"{what} {path} cannot be written by this user", f"Correct the permissions of {there}."
        )
    free = shutil.disk_usage(there).free
    text = f"{what} {path}, {free / 1e9:.1f} GB free"
    if free < min(bytes_wanted, _ROOM_BYTES_MIN):
        return wrong(text, "Free space on that disk, or choose a folder on another.")
    if free < bytes_wanted:
        return warning(
            f"{text}, and one statement may spill {bytes_wanted / 1e9:.1f} GB",
            "Free space, or lower limits.spill_bytes.",
        )
    return ok(text)


# --- Port and gateway ----------------------------------------------------------------------------


def gateway(config: Config) -> Iterator[Finding]:
    """Checks what listens at the address of this configuration's gateway."""
    from seamline.gateway.access.authentication import check_listening
    from seamline.gateway.app.server import check_port

    try:
        check_listening(config)
    except SeamlineError as error:
        yield of_error(error)
    yield from _tls(config)
    is_held = _is_held(pathlib.Path(config.state_directory))
    try:
        check_port(config.http.host, config.http.port)
    except SeamlineError as error:
        if error.code is not PORT_TAKEN:
            yield of_error(error)
            return
        yield _listener(config, error)
        return
    where = f"{config.http.host}:{config.http.port}"
    if is_held:
        yield warning(
            f"a gateway keeps its state in {config.state_directory}, and none listens on {where}",
            "It may have another port (--port), or be stopping.",
        )
    else:
        yield ok(f"port {config.http.port} of {config.http.host} is free; no gateway runs here")


def _tls(config: Config) -> Iterator[Finding]:
    if config.http.tls.certificate is None:
        return
    from seamline.gateway.http.tls import ServerTls

    try:
        ServerTls(config.http.tls)
    except SeamlineError as error:
        yield of_error(error)
    else:
        yield ok(f"the gateway's certificate {config.http.tls.certificate} can be used")


def _is_held(directory: pathlib.Path) -> bool:
    """Returns whether a gateway has locked the state directory."""
    try:
        with (directory / "gateway.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _listener(config: Config, taken: SeamlineError) -> Finding:
    """Checks whether the program on the port is a gateway of this release, or something else."""
    import json

    import urllib3

    http = config.http
    host = f"[{http.host}]" if ":" in http.host else http.host
    host = "127.0.0.1" if host in {"0.0.0.0", "[::]"} else host  # noqa: S104 - not listening
    url = f"{'https' if http.tls.certificate else 'http'}://{host}:{http.port}"
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing secret is sent
    pool = urllib3.PoolManager(timeout=_ANSWER_S, retries=False, ssl_context=context)
    try:
        answer = pool.request("GET", f"{url}/api/v1/info")
        body = json.loads(answer.data)
    except (urllib3.exceptions.HTTPError, ValueError):
        return of_error(taken)
    if answer.status == 401 and "error" in body:
        return ok(f"a gateway answers at {url}; it requires authentication to tell its version")
    if body.get("product") != "seamline":
        return of_error(taken)
    version = str(body.get("version"))
    if version != VERSION:
        return warning(
            f"the gateway at {url} is Seamline {version}, this is {VERSION}",
            "Restart it with this release.",
        )
    return ok(f"a gateway answers at {url}, of this version")

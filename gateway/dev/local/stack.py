"""The embedded stack of one folder: broker, catalog, warehouse and the gateway's configuration.

`up` can be called at any time and by several processes: it finds what runs, starts what does not,
and recovers the data of a broker that was killed. If it is interrupted, no process that it started
is left behind. `down` ends the broker and keeps the data.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

from seamline.connectors.files import (
    exclusive,
    make_folder,
    named_write_errors,
    private_files,
    private_folder,
)
from seamline.connectors.jvm import jars
from seamline.connectors.jvm.ivy import Report
from seamline.connectors.jvm.java import Java, find_java
from seamline.errors import (
    INVALID_ARGUMENT,
    LOCAL_STACK_FAILED,
    PORT_TAKEN,
    SeamlineError,
)
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.dev.local import ports, state
from seamline.gateway.dev.local.broker import FREE_BYTES_MIN, Broker
from seamline.gateway.dev.local.broker_log import start_failure
from seamline.gateway.dev.local.state import State
from seamline.gateway.process import ProcessIdentity, is_running, uninterrupted

_STARTS_MAX = 3
_LOOK_EVERY_S = 0.5
_UNUSABLE = frozenset("?#%,\\\n")


@dataclasses.dataclass(frozen=True, slots=True)
class StackStatus:
    """The status of a stack.

    Attributes:
        directory: The folder that holds all of it.
        config_file: The gateway's configuration.
        log_file: The broker's log.
        running: Whether the broker's process runs.
        ready: Whether it answers clients.
        pid: The id of its process, if it runs.
        bootstrap_servers: Its address for clients, if it runs.
    """

    directory: pathlib.Path
    config_file: pathlib.Path
    log_file: pathlib.Path
    running: bool
    ready: bool
    pid: int | None
    bootstrap_servers: str | None


class LocalStack:
    """The stack of one folder.

    Args:
        directory: Holds everything; created when missing.
        free_bytes_min: The free disk space below which the broker is not started.
    """

    def __init__(self, directory: pathlib.Path, *, free_bytes_min: int = FREE_BYTES_MIN) -> None:
        self._directory = directory.expanduser().resolve()
        self._config_file = self._directory / FILE_NAME
        self._state_file = self._directory / "local.json"
        self._broker = Broker(self._directory / "kafka", free_bytes_min=free_bytes_min)

    def up(self, report: Report, kafka_port: int | None = None) -> StackStatus:
        """Starts what does not run yet, and returns when the broker answers clients.

        Args:
            report: Called with progress messages.
            kafka_port: The broker's port; None takes the last port, or a free one.

        Raises:
            SeamlineError: JAVA_NOT_FOUND, JAVA_UNSUPPORTED, JARS_UNAVAILABLE, MISSING_EXTRA,
                PORT_TAKEN, DISK_FULL, INVALID_CONFIG, CATALOG_UNAVAILABLE, LOCAL_STACK_FAILED.
        """
        self._check_directory()
        with self._locked(report):
            self._prepare_catalog()  # first: if this fails, nothing is started
            last = state.read(self._state_file)
            if last is not None and _runs(last):
                self._join(last, kafka_port)
                return self._finish(last)
            try:
                return self._finish(self._start(report, kafka_port, last))
            except BaseException:
                self._stop()
                raise

    def down(self, report: Report) -> bool:
        """Ends the broker and keeps the data.

        Returns:
            Whether there was anything to end.

        Raises:
            SeamlineError: LOCAL_STACK_FAILED.
        """
        if not self._state_file.exists():
            return False
        with self._locked(report):
            return self._stop()

    def status(self) -> StackStatus:
        """Returns what runs now.

        Raises:
            SeamlineError: LOCAL_STACK_FAILED when the state cannot be parsed.
        """
        last = state.read(self._state_file)
        running = last is not None and _runs(last)
        here = last if running else None
        return StackStatus(
            directory=self._directory,
            config_file=self._config_file,
            log_file=self._broker.log,
            running=running,
            ready=here is not None and self._broker.is_ready(here.ports),
            pid=here.process.pid if here and here.process else None,
            bootstrap_servers=here.ports.bootstrap_servers if here else None,
        )

    def wait(self, report: Report) -> None:
        """Waits until the broker is ended with `down`.

        Raises:
            SeamlineError: LOCAL_STACK_FAILED when it exited on its own.
        """
        last = state.read(self._state_file)
        while last is not None and _runs(last):
            time.sleep(_LOOK_EVERY_S)
        with self._locked(report):  # a `down` in progress finishes first
            last = state.read(self._state_file)
        if last is not None and last.process is not None and not _runs(last):
            raise start_failure(self._broker.log, "the broker exited on its own")

    def _start(self, report: Report, kafka_port: int | None, last: State | None) -> State:
        java = find_java(os.environ)
        directory = jars.kafka_jars(report)
        if last is not None and last.process is not None:
            report("kafka: the last broker was not stopped; recovering its data")

        def start(attempts: int) -> State:
            """Starts the broker, and retries on other ports if one was taken in between."""
            first = attempts == _STARTS_MAX
            chosen = ports.choose(kafka_port, last.ports if last else None, in_order=first)
            report(f"kafka: starting on {chosen.bootstrap_servers} (Java {java.version})")
            self._broker.prepare(java, directory, chosen)
            process = self._launch(java, directory, chosen)
            try:
                self._broker.wait_until_ready(process, chosen)
            except SeamlineError as error:
                if error.code is not PORT_TAKEN or attempts == 1:
                    raise
                return start(attempts - 1)
            return State(chosen, process)

        return start(_STARTS_MAX)

    def _launch(self, java: Java, directory: pathlib.Path, chosen: ports.Ports) -> ProcessIdentity:
        """Starts the process and records it: both or neither."""
        with uninterrupted():
            process = self._broker.launch(java, directory)
            try:
                state.write(self._state_file, State(chosen, process))
            except OSError:
                self._broker.stop(process)
                raise
        return process

    def _join(self, running: State, kafka_port: int | None) -> None:
        """Waits for a broker that another process started."""
        if kafka_port not in (None, running.ports.kafka):
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"the broker is already running on port {running.ports.kafka}, not {kafka_port}",
                hint="Stop it with `seamline local down` first, or leave out --kafka-port.",
            )
        assert running.process is not None
        self._broker.wait_until_ready(running.process, running.ports)

    def _stop(self) -> bool:
        last = state.read(self._state_file)
        if last is None or last.process is None:
            return False
        was_running = is_running(last.process)
        self._broker.stop(last.process)
        state.write(self._state_file, State(last.ports, None))
        return was_running

    def _prepare_catalog(self) -> None:
        from seamline.gateway.dev.local import settings
        from seamline.gateway.dev.local.catalog import prepare_catalog

        private_folder(self._directory / "warehouse")
        prepare_catalog(settings.catalog_config(self._directory), settings.SCHEMA)
        for file in self._directory.glob("catalog.db*"):
            file.chmod(0o600)  # including files of earlier versions

    def _finish(self, running: State) -> StackStatus:
        """Writes the gateway's configuration, and returns the status."""
        from seamline.gateway.dev.local import settings

        servers = running.ports.bootstrap_servers
        if self._config_file.exists():
            before = self._config_file.read_text(encoding="utf-8")
            text = settings.updated_text(before, servers)
        else:
            before, text = None, settings.new_text(self._directory, servers)
        if text != before:
            self._config_file.write_text(text, encoding="utf-8")
        return self.status()

    def _check_directory(self) -> None:
        unusable = sorted(_UNUSABLE & set(str(self._directory)))
        if unusable:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"the state folder {self._directory} has {unusable[0]!r} in its path",
                hint="Choose another with --state: catalogs, brokers and Spark read paths as URIs.",
            )

    @contextmanager
    def _locked(self, report: Report) -> Iterator[None]:
        hint = "Correct the permissions of the folder, or choose another with --state."
        with named_write_errors(self._directory, LOCAL_STACK_FAILED, hint=hint):
            make_folder(self._directory)
            waiting = "waiting for another `seamline local` in this folder"
            lock = exclusive(self._directory / "local.lock", lambda: report(waiting))
            with private_files(), lock:
                yield


def _runs(last: State) -> bool:
    return last.process is not None and is_running(last.process)

"""Processes of the stack under attack: started, watched, killed, paused, and started again.

Each runs in a session of its own, so that a signal reaches all of it and nothing else. A watcher
starts again whatever ended, and remembers what ended without having been told to.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import psutil

_NICENESS = 10
_STOP_S = 6.0
_LOOK_S = 0.1
_AGAIN_S = 1.0


def behind_others(command: Sequence[str]) -> list[str]:
    """A command that leaves the processor to brokers and gateways when it is scarce.

    Else a gateway starts for a minute beside what was killed with it, and no read is answered.
    """
    return ["nice", "-n", str(_NICENESS), *command]


class Process:
    """One supervised process.

    Args:
        name: What it is called in reports; also its log's name.
        command: Returns the command of the next start.
        log: Takes its output.
        environment: Its whole environment.
        is_ready: Whether it does its work.
        output: Takes its standard output by line, instead of the log.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        log: pathlib.Path,
        environment: Mapping[str, str],
        *,
        is_ready: Callable[[], bool] = lambda: True,
        output: Callable[[str], None] | None = None,
        directory: pathlib.Path | None = None,
    ) -> None:
        self.name = name
        self.deaths: list[str] = []
        self.starts = 0
        self._command = command
        self._log = log
        self._environment = environment
        self._is_ready = is_ready
        self._output = output
        self._directory = directory
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = False

    def start(self) -> None:
        """Starts it, and lets the watcher start it again whenever it ends."""
        with self._lock:
            self._wanted = True
            self._spawn()

    def watch(self) -> None:
        """Starts it again if it has ended and should run."""
        with self._lock:
            process = self._process
            if not self._wanted or process is None or process.poll() is None:
                return
            self.deaths.append(f"{self.name} ended by itself with {process.returncode}")
        time.sleep(_AGAIN_S)  # what fails at once must not be started in a tight loop
        self._spawn_after(process)

    def _spawn_after(self, ended: subprocess.Popen[bytes]) -> None:
        """Starts it again unless somebody else has, or it is no longer needed."""
        with self._lock:
            if self._wanted and self._process is ended:
                self._spawn()

    def is_ready_within(self, seconds: float, ended: threading.Event | None = None) -> bool:
        """Waits until it does its work, or nobody waits any more; whether it does."""
        ends_at = time.monotonic() + seconds
        while self.pid is None or not self._is_ready():
            if time.monotonic() > ends_at or (ended is not None and ended.is_set()):
                return False
            time.sleep(_LOOK_S)
        return True

    def wait_until_ready(self, seconds: float) -> None:
        """Waits until it does its work.

        Raises:
            TimeoutError: It did not in time.
        """
        if not self.is_ready_within(seconds):
            raise TimeoutError(f"{self.name} was not ready within {seconds:g} s")

    @property
    def pid(self) -> int | None:
        """Its id while it runs."""
        with self._lock:
            process = self._process
            return process.pid if process is not None and process.poll() is None else None

    def kill_and_restart(self) -> None:
        """Ends it without warning, and starts it again."""
        with self._lock:
            self._signal(signal.SIGKILL)
            self._reap()
            self._spawn()

    def stop_and_restart(self) -> None:
        """Asks it to end, waits until it has, and starts it again."""
        with self._lock:
            self._stop()
            self._spawn()

    def pause(self) -> None:
        """Stops its clock."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it continue."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Ends it for good."""
        with self._lock:
            self._wanted = False
            self._stop()

    def _spawn(self) -> None:
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                list(self._command()),
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._output else log,
                stderr=log,
                cwd=self._directory,
                start_new_session=True,
            )
        if self._output is not None:
            threading.Thread(target=self._take, args=(self._process,), daemon=True).start()

    def _take(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert self._output is not None
        for line in process.stdout:
            if line.endswith(b"\n"):  # a killed writer leaves half a line
                self._output(line.decode())

    def _signal(self, number: int) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                _signal_all(self._process.pid, number)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        """Waits for it, and ends whatever is left of its group."""
        if self._process is None:
            return
        self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _signal_all(pid: int, number: int) -> None:
    """Signals a process and all that it has started, in whatever sessions they are."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)


class Watcher:
    """Starts again what ended.

    Args:
        processes: What it watches.
    """

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops watching."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for process in self._processes:
                process.watch()

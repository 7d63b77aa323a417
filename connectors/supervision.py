"""Background work: everything is started, reported and retried in the same way.

    Loop      a step that is run repeatedly, until its owner ends it
    Crew      a few threads for the steps of many loops, which run when there is work for them
    start     work done once, in its own thread; `later` does so after a delay, and
              `interruptibly` waits for it
    attempt   a part of such work whose failure must not prevent the rest

An exception raised there, by our code or by any code below it, affects nothing else. It gets a
name, is logged and counted. A loop continues after a pause, which doubles with every failure in a
row until a step succeeds. Metrics and health are computed from what is recorded here.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import math
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from seamline.connectors.files import is_full
from seamline.errors import DISK_FULL, INTERNAL_ERROR, SeamlineError, sentence

_LOG = logging.getLogger("seamline.background")

_CREW_IDLE_S = 10.0
_DOUBLINGS_MAX = 30
_LOOK_S_MAX = 3600.0

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between tries."""

    first_s: float = 0.5
    max_s: float = 60.0

    def pause_s(self, failures: int) -> float:
        """Returns how long to wait after this many failures in a row."""
        doublings = min(max(0, failures - 1), _DOUBLINGS_MAX)
        return min(self.max_s, self.first_s * float(2**doublings))


Step = Callable[[], float | None]
"""One round; returns the seconds until the next, or None to end the loop."""

AfterFailure = Callable[[SeamlineError, int], float | None]
"""(error, failures in a row) → the seconds until the next try, or None to end the loop."""


class Rounds:
    """A step that is run repeatedly, and how it went.

    Args:
        name: Its name in metrics and logs; loops of one kind share it.
        step: One round.
        backoff: Pauses after failures.
        after_failure: Chooses the pause instead, and may report the failure.
        at_end: Called in the same thread after the last round.
        is_told: Whether `after_failure` reports failures, so that they need not be logged as
            errors.

    Attributes:
        name: Its name.
        error: Why the last step failed; None once one has succeeded.
        failures_in_a_row: How many steps have failed since one succeeded.
        last_success_at: When a step last succeeded, in seconds since the epoch; None before.
        has_finished: Whether it has ended as intended.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        *,
        backoff: Backoff = Backoff(),
        after_failure: AfterFailure | None = None,
        at_end: Callable[[], object] = lambda: None,
        is_told: bool = False,
    ) -> None:
        self.name = name
        self.error: SeamlineError | None = None
        self.failures_in_a_row = 0
        self.last_success_at: float | None = None
        self.has_finished = False
        self._step = step
        self._backoff = backoff
        self._after_failure = after_failure or (lambda _, failures: backoff.pause_s(failures))
        self._at_end = at_end
        self._is_told = is_told
        self._well_at = time.monotonic()
        self._stopping = threading.Event()

    @property
    def quiet_s(self) -> float:
        """Seconds since a step last succeeded, or since the loop began."""
        return time.monotonic() - self._well_at

    def _end(self) -> None:
        attempt(self.name, self._at_end)
        with _lock:
            _loops.discard(self)

    def _round(self) -> float | None:
        try:
            pause_s = self._step()
        except BaseException as error:  # noqa: BLE001 - as promised
            self.failures_in_a_row += 1
            self.error = _report(self.name, error, self.error, is_told=self._is_told)
            return self._pause_s(self.error)
        self.error = None
        self.failures_in_a_row = 0
        self.last_success_at, self._well_at = time.time(), time.monotonic()
        return pause_s

    def _pause_s(self, error: SeamlineError) -> float | None:
        try:
            return self._after_failure(error, self.failures_in_a_row)
        except BaseException as own:  # noqa: BLE001 - a failing callback must not end the loop
            _report(self.name, own)
            return self._backoff.pause_s(self.failures_in_a_row)


class Loop(Rounds):
    """Runs a step repeatedly in its own thread.

    Args:
        name: See `Rounds`.
        step: See `Rounds`.
        delay_s: Seconds before the first round.
        how: See `Rounds`.
    """

    def __init__(self, name: str, step: Step, *, delay_s: float = 0.0, **how: Any) -> None:
        super().__init__(name, step, **how)
        self._delay_s = delay_s
        self._thread = threading.Thread(target=self._run, name=f"seamline-{name}", daemon=True)
        with _lock:  # whoever has a loop finds it among the others
            self._thread.start()
            _loops.add(self)

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Lets the current step finish and starts no other."""
        self._stopping.set()

    def join(self, seconds: float | None = None) -> None:
        """Waits until it has ended."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._stopping.wait(self._delay_s)
            while not self._stopping.is_set():
                pause_s = self._round()
                if pause_s is None:
                    break
                self._stopping.wait(pause_s)
            self.has_finished = True
        finally:
            self._end()


class Crew:
    """Threads that run the rounds of many loops, which share them. Safe to share between threads.

    There are as many threads as rounds that are due, within a limit; each ends when it has been
    idle for some time. Rounds are run in the order in which they became due.
    """

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._changed = threading.Condition()
        self._due: collections.deque[Callable[[], None]] = collections.deque()
        self._threads = 0
        self._idle = 0

    def run(self, work: Callable[[], None]) -> None:
        """Runs work, which must not raise, in one of the threads."""
        with self._changed:
            self._due.append(work)
            if self._idle >= len(self._due):
                self._changed.notify()
            elif self._threads < self._threads_max:
                thread = threading.Thread(
                    target=self._run, name=f"seamline-{self._name}", daemon=True
                )
                self._threads += attempt(self._name, thread.start)

    def run_next(self, work: Callable[[], None]) -> None:
        """Runs work as `run` does, without another thread: for work, which ends after this call."""
        with self._changed:
            self._due.append(work)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                is_due = self._changed.wait_for(lambda: bool(self._due), _CREW_IDLE_S)
                self._idle -= 1
                if not is_due:
                    self._threads -= 1
                    return
                work = self._due.popleft()
            work()


class CrewLoop(Rounds):
    """Runs a step in the threads of a crew, when it is woken or its pause is over.

    A step returns infinity to pause until it is woken; one that is woken while it runs is run
    again.

    Args:
        crew: The crew.
        name: See `Rounds`.
        step: See `Rounds`.
        how: See `Rounds`.
    """

    def __init__(self, crew: Crew, name: str, step: Step, **how: Any) -> None:
        super().__init__(name, step, **how)
        self._crew = crew
        self._changing = threading.Lock()
        self._is_running = self._is_woken = False
        self._cancel: Callable[[], None] = lambda: None
        self._ended = threading.Event()
        with _lock:
            _loops.add(self)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.is_set()

    @property
    def quiet_s(self) -> float:
        """See `Rounds.quiet_s`; 0 while no round is due after one that succeeded."""
        is_pausing = not (self._is_running or self._is_woken or self.error)
        return 0.0 if is_pausing else super().quiet_s

    def wake(self) -> None:
        """Makes the next round due now."""
        with self._changing:
            if self._is_woken or self._ended.is_set():
                return
            self._is_woken = True
            if self._is_running:
                return
            self._cancel()
        self._crew.run(self._run)

    def stop(self) -> None:
        """Lets the current step finish and starts no other."""
        self._stopping.set()
        self.wake()

    def join(self, seconds: float | None = None) -> None:
        """Waits until it has ended."""
        self._ended.wait(seconds)

    def _run(self) -> None:
        with self._changing:
            self._is_running, self._is_woken = True, False
        pause_s = None if self._stopping.is_set() else self._round()
        if pause_s is None:
            self._end()
            self.has_finished = True
            self._ended.set()
            return
        with self._changing:
            self._is_running = False
            if not self._is_woken and pause_s:
                if pause_s < math.inf:
                    self._cancel = _timers.add(time.monotonic() + pause_s, self.wake)
                return
            self._is_woken = True
        self._crew.run_next(self._run)


def start(name: str, work: Callable[[], object]) -> bool:
    """Does work once, in its own thread that nobody waits for; returns whether it started."""
    thread = threading.Thread(
        target=attempt, args=(name, work), name=f"seamline-{name}", daemon=True
    )
    return attempt(name, thread.start)  # the system may refuse another thread


def later(seconds: float, name: str, work: Callable[[], object]) -> Callable[[], None]:
    """Does work once, after a delay, in its own thread.

    Returns:
        A function that cancels it.
    """
    return _timers.add(time.monotonic() + seconds, lambda: start(name, work))


def interruptibly(name: str, work: Callable[[], T]) -> T:
    """Does work that must not be interrupted, and waits for it; Ctrl-C ends only the wait.

    Returns:
        What the work returns.

    Raises:
        BaseException: what the work raises.
    """
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            outcome.put((None, error))

    threading.Thread(target=run, name=f"seamline-{name}", daemon=True).start()
    result, error = outcome.get()
    if error is not None:
        raise error
    return cast("T", result)


def attempt(name: str, work: Callable[[], object]) -> bool:
    """Does work here and now; returns whether it succeeded."""
    try:
        work()
    except KeyboardInterrupt:  # only the main thread gets it, and there it is no failure
        raise
    except BaseException as error:  # noqa: BLE001 - as promised
        _report(name, error)
        return False
    return True


# --- Delays --------------------------------------------------------------------------------------


class _Timers:
    """Work that is due later, most of which is canceled: one thread waits for all of it.

    Starting a thread for each, as `threading.Timer` does, takes as long as parsing a statement.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[object, tuple[float, Callable[[], object]]] = {}
        self._looks_at = 0.0
        self._thread: threading.Thread | None = None

    def add(self, due_at: float, work: Callable[[], object]) -> Callable[[], None]:
        """Adds work, which must not block; returns a function that cancels it."""
        key = object()
        with self._changed:
            if self._thread is None or not self._thread.is_alive():  # a fork has none
                self._thread = threading.Thread(
                    target=self._run, name="seamline-timers", daemon=True
                )
                self._thread.start()
            self._due[key] = due_at, work
            if due_at < self._looks_at:
                self._changed.notify()

        def cancel() -> None:
            with self._changed:
                self._due.pop(key, None)

        return cancel

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [key for key, (due_at, _) in self._due.items() if due_at <= now]
                works = [self._due.pop(key)[1] for key in due]
                if not works:
                    self._looks_at = min(
                        (due_at for due_at, _ in self._due.values()), default=now + _LOOK_S_MAX
                    )
                    self._changed.wait(min(self._looks_at - now, _LOOK_S_MAX))
            for work in works:
                work()


_timers = _Timers()


# --- Outcomes ------------------------------------------------------------------------------------

_lock = threading.Lock()
_loops: set[Rounds] = set()
_failures: collections.Counter[tuple[str, str]] = collections.Counter()


def loops() -> list[Rounds]:
    """Returns the loops of this process that have not ended."""
    with _lock:
        return list(_loops)


def failures() -> Mapping[tuple[str, str], int]:
    """Returns how often work has failed in this process, by its name and the error's name."""
    with _lock:
        return dict(_failures)


def quiet_seconds() -> Mapping[str, float]:
    """Returns, per loop name, the longest time in seconds since such a loop last succeeded."""
    quiet: dict[str, float] = {}
    for loop in loops():
        quiet[loop.name] = max(loop.quiet_s, quiet.get(loop.name, 0.0))
    return quiet


def named(error: BaseException) -> SeamlineError:
    """Returns our error for any exception."""
    if isinstance(error, SeamlineError):
        return error
    if is_full(error):
        return SeamlineError(DISK_FULL, str(error))
    message = " ".join(sentence(str(error)).split())[:300]
    frame = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    where = f" ({frame.filename.rpartition('/')[2]}:{frame.lineno})" if frame else ""
    failure = SeamlineError(INTERNAL_ERROR, f"{type(error).__name__}: {message}{where}")
    failure.__cause__ = error
    return failure


def _report(
    name: str,
    error: BaseException,
    before: SeamlineError | None = None,
    *,
    is_told: bool = False,
) -> SeamlineError:
    failure = named(error)
    with _lock:
        _failures[name, failure.code.name] += 1
    is_known = before is not None and (before.code, before.message) == (
        failure.code,
        failure.message,
    )
    is_verbose = failure.code is INTERNAL_ERROR and _LOG.isEnabledFor(logging.INFO)
    with contextlib.suppress(Exception):  # a log that cannot be written must not stop anything
        if is_known:
            _LOG.info("%s failed again: %s", name, failure.code.name)
        else:
            level = logging.INFO if is_told else logging.ERROR
            _LOG.log(level, "%s: %s", name, failure, exc_info=error if is_verbose else None)
    return failure

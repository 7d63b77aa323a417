"""The catalogs, clusters, registries and stores that we depend on, each behind a circuit breaker.

    Dependency          one of them: every call to it passes through `call`
    Opener              opens its client once, for all who need it
    letting_others_run  a wait that does not keep its caller's runner

A call that ends without an answer after `SLOW_S` opens the breaker: until the dependency is tried
again, further calls fail at once, with an error that says since when it has not answered, and when
it is tried again. Then it is asked anything at all, or where there is no such question, one call is
let through as a probe; an answer closes the breaker. Failures that come at once cost nobody
anything and leave the breaker closed, so a dependency that is restarted is used as soon as it is
back. Nor does a call open it that failed although the dependency answers others: then a part of it
is away, such as the broker that leads one topic.

A call that takes longer than `SLOW_S` lets its caller's runner go, so work that needs something
else goes on. At most `SLOW_CALLS_MAX` calls to one dependency may be that slow; further ones fail.
"""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import datetime
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from seamline.connectors import supervision
from seamline.connectors.supervision import Backoff
from seamline.errors import (
    CANCELED,
    DEADLINE_EXCEEDED,
    RETRY_AFTER,
    STORAGE_UNAVAILABLE,
    ErrorCode,
    ErrorKind,
    SeamlineError,
)

T = TypeVar("T")

SLOW_S = 1.0
SLOW_CALLS_MAX = 64
OPENING_S = 60.0
"""How long to wait at most until a client is open."""
_RETRIES = Backoff(first_s=2.0, max_s=30.0)
_NO_ANSWER = frozenset({CANCELED, DEADLINE_EXCEEDED})
"""Errors of our own that end a call, and say nothing about the dependency."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outage:
    """A dependency that does not answer.

    Attributes:
        kind: What it is: `catalog`, `cluster`, `registry`, `storage` or `login keys`.
        name: Its name in the configuration.
        since: When it was first noticed.
        error: The last failure.
        is_open: Whether calls fail at once.
    """

    kind: str
    name: str
    since: datetime.datetime
    error: SeamlineError
    is_open: bool


_calling: contextvars.ContextVar[frozenset[Dependency]] = contextvars.ContextVar(
    "calling", default=frozenset()
)
"""What this context is calling already."""


def _is_os_error(error: BaseException) -> bool:
    return isinstance(error, OSError)


class Dependency:
    """One dependency, and whether it answers. Safe to share between threads.

    Args:
        kind: See `Outage.kind`.
        name: See `Outage.name`.
        code: The error for its failure to answer.
        is_failure: Whether an error that is not one of ours means the same.
        quick_failures: Whether failures that come at once are outages, too; those of a store may
            mean a single file.
        answers: Asks it anything at all, within a short time, after a call that failed slowly and
            before the first one is tried again; returns whether it answers.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        code: ErrorCode,
        *,
        is_failure: Callable[[BaseException], bool] = _is_os_error,
        quick_failures: bool = True,
        answers: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.name = name
        self.code = code
        self._is_failure = is_failure
        self._quick_failures = quick_failures
        self._answers = answers
        self._clock = clock
        self._lock = threading.Lock()
        self._outage: Outage | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._is_probed = False
        self._slow = 0

    def __str__(self) -> str:
        """Kind and name, for messages."""
        return f"{self.kind} {self.name}"

    @property
    def outage(self) -> Outage | None:
        """The present outage, or None if the last call that ended was answered."""
        return self._outage

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Makes one call, whose time the caller must bound; a call within a call is part of it.

        Raises:
            SeamlineError: with the dependency's code, while its breaker is open, or too many calls
                are waiting for it.
        """
        calling = _calling.get()
        if self in calling:
            yield
            return
        is_probe = self._admit() and not self._is_back()
        began_at = self._clock()
        token = _calling.set(calling | {self})
        try:
            with letting_others_run(self._count_slow):
                yield
        except BaseException as error:
            self._note(error, self._clock() - began_at, is_probe=is_probe)
            raise
        else:
            self._answered()
        finally:
            _calling.reset(token)
            if is_probe:
                self._is_probed = False

    def require(self) -> None:
        """Requires that a call is possible now.

        Raises:
            SeamlineError: as `call`.
        """
        with self._lock:
            self._require()

    def _admit(self) -> bool:
        """Lets a call through; returns whether it is the one that probes."""
        with self._lock:
            self._require()
            self._is_probed = self._is_open
            return self._is_probed

    @property
    def _is_open(self) -> bool:
        return self._outage is not None and self._outage.is_open

    def _require(self) -> None:
        outage = self._outage
        if outage is not None and outage.is_open:
            wait_s = self._retry_at - self._clock()
            if wait_s > 0 or self._is_probed:
                raise self._refusal(outage, max(0.0, wait_s))
        if self._slow >= SLOW_CALLS_MAX:
            raise SeamlineError(
                self.code, f"{self} does not answer: {self._slow} calls are waiting for it"
            )

    def _refusal(self, outage: Outage, wait_s: float) -> SeamlineError:
        when = f"in {math.ceil(wait_s)} s" if wait_s else "at this moment"
        return SeamlineError(
            self.code,
            f"{self} has not answered since {outage.since:%Y-%m-%d %H:%M:%S} UTC and is tried "
            f"again {when}; last failure: {outage.error.message}",
            hint=outage.error.hint,
            details={
                self.kind: self.name,
                "since": outage.since.isoformat(),
                RETRY_AFTER: math.ceil(wait_s) or 1,
            },
        )

    def _is_back(self) -> bool:
        """Asks a dependency whose breaker is open; returns False if it can only be tried.

        Raises:
            SeamlineError: when it still does not answer.
        """
        if self._answers is None:
            return False
        outage = self._outage
        try:
            if outage is None or self._is_there():
                self._answered()
                return True
            self._failed(outage.error, is_open=True, is_probe=True)
            raise self._refusal(outage, max(0.0, self._retry_at - self._clock()))
        finally:
            self._is_probed = False

    def _count_slow(self, change: int) -> None:
        with self._lock:
            self._slow += change

    def _note(self, error: BaseException, took_s: float, *, is_probe: bool) -> None:
        """Notes what the failure of a call says about the dependency."""
        code = error.code if isinstance(error, SeamlineError) else None
        if code is self.code or (code is None and self._is_failure(error)):
            is_open = is_probe or took_s >= SLOW_S
            is_first = is_probe or not self._is_open  # those that waited together learn the same
            if is_open and is_first and self._is_there():
                self._answered()
            elif is_open or self._quick_failures:
                self._failed(error, is_open=is_open, is_probe=is_probe)
        elif code is not None and code not in _NO_ANSWER and not _is_outage(code):
            self._answered()

    def _is_there(self) -> bool:
        """Whether it answers anything at all."""
        if self._answers is None:
            return False
        with letting_others_run(self._count_slow):
            return self._answers()

    def _failed(self, error: BaseException, *, is_open: bool, is_probe: bool) -> None:
        if isinstance(error, SeamlineError):
            last = again(error)
        else:
            last = SeamlineError(self.code, f"{self}: {error}")
        with self._lock:
            before = self._outage
            was_open = before is not None and before.is_open
            if is_open and (is_probe or not was_open):  # not each of those that wait together
                self._failures += 1
                self._retry_at = self._clock() + _RETRIES.pause_s(self._failures)
            since = before.since if before else datetime.datetime.now(datetime.UTC)
            self._outage = Outage(self.kind, self.name, since, last, is_open or was_open)

    def _answered(self) -> None:
        with self._lock:
            self._outage = None
            self._failures = 0


def storage_of(owner: str) -> Dependency:
    """Returns the store with the files of a catalog or a table."""
    return Dependency("storage", owner, STORAGE_UNAVAILABLE, quick_failures=False)


def _is_outage(code: ErrorCode) -> bool:
    """Whether an error says that something, perhaps another dependency, does not answer."""
    return code.kind is ErrorKind.EXTERNAL and code.retriable


def again(error: SeamlineError) -> SeamlineError:
    """Returns a copy of an error that several callers end with."""
    return SeamlineError(
        error.code, error.message, hint=error.hint, details=error.details, subject=error.subject
    )


class Opener(Generic[T]):
    """Opens a client when it is first needed, in a thread of its own. Safe to share.

    All who need it meanwhile share the outcome. After a failure, the next who needs it starts over.
    """

    def __init__(self, dependency: Dependency, make: Callable[[], T]) -> None:
        self._dependency = dependency
        self._make = make
        self._lock = threading.Lock()
        self._opening: concurrent.futures.Future[T] | None = None

    def get(self) -> T:
        """Returns the client.

        Raises:
            SeamlineError: what opening it failed with.
        """
        opening = self._opening
        if opening is not None and _is_open(opening):
            return opening.result()
        opening = self._start()
        try:
            with letting_others_run():
                return opening.result(OPENING_S)
        except concurrent.futures.TimeoutError as error:
            raise SeamlineError(
                self._dependency.code,
                f"{self._dependency} does not answer: it was not open within {OPENING_S:.0f} s",
            ) from error
        except SeamlineError as error:
            raise again(error) from error

    def _start(self) -> concurrent.futures.Future[T]:
        with self._lock:
            opening = self._opening
            if opening is not None and (not opening.done() or _is_open(opening)):
                return opening
            self._dependency.require()
            opening = self._opening = concurrent.futures.Future()
        if not supervision.start("opener", lambda: self._open(opening)):
            opening.set_exception(
                SeamlineError(self._dependency.code, "no thread could be started to open it")
            )
        return opening

    def _open(self, opening: concurrent.futures.Future[T]) -> None:
        try:
            with self._dependency.call():
                opening.set_result(self._make())
        except BaseException as error:  # noqa: BLE001 - raised again for those who wait
            opening.set_exception(error)


def _is_open(opening: concurrent.futures.Future[T]) -> bool:
    return opening.done() and opening.exception() is None


# --- Waits ---------------------------------------------------------------------------------------


class Caller(abc.ABC):
    """Who makes calls, and has a place to run that others need while it only waits.

    It may make several calls at once, from several threads, and gives up its one place while any of
    them is slow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits = 0
        self._has_place = True
        self._is_returning = False

    def block(self) -> None:
        """Notes that a call is slow. Returns at once, and is called from any thread."""
        with self._lock:
            self._waits += 1
            if self._has_place:
                self._has_place = False
                self.release()

    def unblock(self) -> None:
        """Notes that a slow call has ended; after the last one, waits for a place again."""
        with self._lock:
            self._waits -= 1
            if self._waits or self._has_place or self._is_returning:
                return
            self._is_returning = True
        self.regain()  # without the lock, so that `block` returns at once
        with self._lock:
            self._has_place, self._is_returning = True, False

    @abc.abstractmethod
    def release(self) -> None:
        """Gives up the place. Returns at once."""

    @abc.abstractmethod
    def regain(self) -> None:
        """Takes a place again; may wait for it."""


_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("caller", default=None)


@contextlib.contextmanager
def calls_of(caller: Caller) -> Iterator[None]:
    """Attributes the calls that are made in this context to a caller."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


@contextlib.contextmanager
def letting_others_run(
    count: Callable[[int], None] = lambda _: None,
) -> Iterator[None]:
    """A wait for something outside: once it is slow, the caller's place is given to others.

    Args:
        count: Called with 1 once it is slow, and with -1 when a slow one has ended.
    """
    wait = _SlowWait(_caller.get(), count)
    cancel = supervision.later(SLOW_S, "slow wait", wait.begin)
    try:
        yield
    finally:
        cancel()
        wait.end()


class _SlowWait:
    """One wait, which becomes slow if it does not end before that."""

    def __init__(self, caller: Caller | None, count: Callable[[int], None]) -> None:
        self._caller = caller
        self._count = count
        self._lock = threading.Lock()
        self._is_slow = self._has_ended = False

    def begin(self) -> None:
        with self._lock:
            if self._has_ended:
                return
            self._is_slow = True
            self._count(1)
            if self._caller is not None:
                self._caller.block()

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
            if not self._is_slow:
                return
            self._count(-1)
        if self._caller is not None:
            self._caller.unblock()

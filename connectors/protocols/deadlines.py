"""The time limit of a statement, and computations that it can end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Deadline(Protocol):
    """The time limit of a statement, and whether the statement was canceled."""

    def check(self) -> None:
        """Raises DEADLINE_EXCEEDED if time is up, CANCELED if the statement was canceled."""

    def remaining_s(self) -> float:
        """Returns the seconds left; never negative."""

    def pause(self, seconds: float) -> None:
        """Waits, but not past the end of the statement."""

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Calls `stop` when the deadline has passed or the statement was canceled.

        It is called from another thread, repeatedly until it is unregistered. It must return soon.

        Returns:
            A function that unregisters it.
        """


class Compute(Protocol):
    """Runs a pure computation of a statement; `at_once` is one implementation."""

    def __call__(self, compute: Callable[[], T], deadline: Deadline) -> T:
        """Returns the computation's result, or raises the error that ended the statement."""


def at_once(compute: Callable[[], T], deadline: Deadline) -> T:  # noqa: ARG001 - see `Compute`
    """Runs a computation that never needs to be interrupted."""
    return compute()


class NoDeadline:
    """A deadline that never passes."""

    def check(self) -> None:
        """See `Deadline.check`."""

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return 3600.0

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`."""
        time.sleep(seconds)

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - never called
        """See `Deadline.on_end`."""
        return lambda: None

"""Waiting for a condition, with a deadline and never by the clock alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 60.0, what: str = "") -> T:
    """Polls until the condition gives something true, and returns that.

    Raises:
        AssertionError: when it does not within the time.
    """
    ends_at = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < ends_at, f"not within {seconds} s: {what or condition}"
        time.sleep(0.02)

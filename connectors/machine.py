"""What the machine gives this process."""

from __future__ import annotations

import os


def cores() -> int:
    """Returns how many cores this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

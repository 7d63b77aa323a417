"""The memory of the gateway's own process: what is freed goes back to the system.

Decoded rows, results and the trees of statements come and go by megabytes, in more than a hundred
threads. Left to themselves, the allocators keep what was once needed in each of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

import pyarrow as pa

_YOUNG_MAX = 50_000
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Names of malloc.h."""
_RETURNED_BYTES = 2 << 20
"""Pieces of memory from this size on are returned to the system as soon as they are freed."""
_HEAPS_MAX = 4


def settle_memory() -> None:
    """Sets up garbage collection and memory for followers.

    Ten thousand messages at a time are freed by reference counts. To the garbage collector they
    look like objects that stay: every few polls it would walk everything the process holds. And
    decoded rows come and go by megabytes, which Arrow's own allocators keep but the system's
    returns; `ARROW_DEFAULT_MEMORY_POOL` decides when it is set. The system's returns what is large
    only as long as it is not told that the large is common, and keeps a heap for each of many
    threads: both are bounded, where it is the GNU one.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError, OSError):
        system = ctypes.CDLL(None)
        system.mallopt(_M_MMAP_THRESHOLD, _RETURNED_BYTES)
        system.mallopt(_M_ARENA_MAX, _HEAPS_MAX)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX)


def give_back_memory() -> None:
    """Returns to the system what the GNU allocator holds and nobody uses."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)

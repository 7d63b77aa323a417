"""The memory of the gateway's own process: freed memory is returned to the system.

Decoded rows, results and statement trees come and go by the megabyte, in more than a hundred
threads. Left to themselves, the allocators keep whatever each of the threads once needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

import pyarrow as pa

_YOUNG_MAX = 50_000
_OLDER_MAX = (3, 1)
"""Collections after which older objects are collected, too. Only a collection frees the trees of
statements, and nothing else runs meanwhile: with Python's (10, 10), that could be two seconds."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Constants of malloc.h."""
_RETURNED_BYTES = 2 << 20
"""Blocks of at least this size are returned to the system as soon as they are freed."""
_HEAPS_MAX = 4


def settle_memory() -> None:
    """Sets up garbage collection and memory for followers.

    Followers free ten thousand messages at a time by reference counting. To the garbage collector,
    these look like objects that stay: every few polls it would walk everything the process holds.

    Decoded rows come and go by the megabyte. Arrow's own allocators keep that memory, while the
    system's allocator returns it, unless `ARROW_DEFAULT_MEMORY_POOL` chooses another. The GNU
    allocator stops returning large blocks once they become common, and keeps a heap for each of
    many threads: where it is the system's allocator, both are bounded here.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError, OSError):
        system = ctypes.CDLL(None)
        system.mallopt(_M_MMAP_THRESHOLD, _RETURNED_BYTES)
        system.mallopt(_M_ARENA_MAX, _HEAPS_MAX)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, *_OLDER_MAX)


def give_back_memory() -> None:
    """Returns the GNU allocator's unused memory to the system."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)

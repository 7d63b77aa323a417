"""Packs values that contain Arrow data into one piece of memory, to be read without copying.

Processes hand such pieces to each other. A piece begins with a table of its parts: the pickled
value and the buffers it refers to. Each part starts at a multiple of 64 bytes, as Arrow requires.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

_ALIGNMENT = 64
_PADDING = bytes(_ALIGNMENT)


def packed(
    value: Any, reduce: Mapping[type, Callable[[Any], Any]] | None = None
) -> list[memoryview]:
    """Returns a packed value as consecutive parts.

    Args:
        value: The value.
        reduce: How to pickle objects of some types, as for `copyreg`.
    """
    buffers: list[pickle.PickleBuffer] = []
    sink = pa.BufferOutputStream()
    pickler = pickle.Pickler(sink, protocol=5, buffer_callback=buffers.append)
    if reduce is not None:
        pickler.dispatch_table = reduce
    pickler.dump(value)
    contents = [memoryview(sink.getvalue()), *(buffer.raw() for buffer in buffers)]
    sizes = [content.nbytes for content in contents]
    head = struct.pack(f"<{len(sizes) + 1}Q", len(sizes), *sizes)
    parts = [memoryview(head + _PADDING[: -len(head) % _ALIGNMENT])]
    for content in contents:
        parts.append(content)
        if content.nbytes % _ALIGNMENT:
            parts.append(memoryview(_PADDING)[: -content.nbytes % _ALIGNMENT])
    return parts


def unpacked(piece: pa.Buffer) -> Any:
    """Returns the value of a piece; its data stays in the piece.

    Only for pieces that one of our own processes packed: unpickling can run code.
    """
    (count,) = struct.unpack_from("<Q", piece)
    sizes = struct.unpack_from(f"<{count}Q", piece, 8)
    start = _next(8 * (count + 1))
    buffers = []
    for size in sizes:
        buffers.append(piece.slice(start, size))
        start = _next(start + size)
    return pickle.loads(buffers[0], buffers=buffers[1:])  # noqa: S301 - see above


def _next(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT

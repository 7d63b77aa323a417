"""The hot side of a scan, as an engine gets it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from seamline.seam.offsets import OffsetRange, Offsets


@dataclasses.dataclass(frozen=True, slots=True)
class TailSource:
    """A tail that has not been read, for an engine whose workers read the log themselves.

    Attributes:
        cluster: Name of the cluster.
        topic: Name of the topic.
        ranges: What to read.
        isolation: The isolation to read with.
        decoder: A `DecoderSpec`, opaque here.
    """

    cluster: str
    topic: str
    ranges: tuple[OffsetRange, ...]
    isolation: str
    decoder: Any


@dataclasses.dataclass(frozen=True, slots=True)
class TailFile:
    """A Parquet file of decoded rows of one partition, in offset order.

    Attributes:
        path: Its path, on this machine.
        start: First offset to read from it.
        end_exclusive: Exclusive end of the offsets to read.
        whole: Whether these are all its rows.
        row_count: How many rows are to be read from it.
    """

    path: str
    start: int
    end_exclusive: int
    whole: bool
    row_count: int


@dataclasses.dataclass(frozen=True, slots=True)
class SpilledTail:
    """A decoded tail that is partly in files.

    Attributes:
        rows: The part in memory, with the requested columns.
        files: The rest, with all columns.
    """

    rows: pa.Table
    files: tuple[TailFile, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FollowedTail:
    """A tail that a scan reads in full from a followed log, with all of its records cached here.

    Attributes:
        log: The followed log. In the same log, equal offsets are the same records.
        start: First offset of each partition.
        end: Exclusive end of each partition.
    """

    log: object
    start: Offsets
    end: Offsets

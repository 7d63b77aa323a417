"""Files written for planned scans, and reused if the same scan is planned while they last."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.tail_files import TailLayout, plan_files, write_file
from seamline.gateway.iceberg_rest.leases import Leases

KIND = "plan"
_CACHED_MAX = 256


class PlanFiles:
    """The files of one gateway's plans. Safe to share between threads."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._known: Cache[str, tuple[str, tuple[DataFile, ...]]] = Cache(_CACHED_MAX)

    def find(self, key: str) -> tuple[DataFile, ...] | None:
        """Returns the files of a key and renews their lease; None if there are none any longer."""
        cached = self._known.get(key)
        if cached is None or self._leases.renew([cached[0]]):
            return None
        return cached[1]

    def write(
        self, key: str, tables: Iterator[pa.Table], layout: TailLayout, io: FileIO, folder: str
    ) -> tuple[DataFile, ...]:
        """Writes rows, and remembers the files under a key.

        Raises:
            OSError: when a file cannot be written.
        """
        lease_id = f"plan-{uuid.uuid4().hex}"
        files: list[DataFile] = []
        paths: list[str] = []
        for rows in tables:
            planned = plan_files(rows, layout, f"{folder}/{lease_id}")
            paths += [file.path for file in planned]
            self._leases.hold(lease_id, KIND, paths, {})
            files += [write_file(io, file, layout) for file in planned]
        self._leases.hold(lease_id, KIND, paths, {})
        written = tuple(files)
        self._known.put(key, (lease_id, written))
        return written

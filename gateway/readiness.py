"""Whether a gateway should get statements, and which of its dependencies are away.

It should as long as it accepts them and has disk space for their results. A catalog or cluster
that does not answer is reported, but no reason: it does not answer other gateways either, and
statements that need something else are answered.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.connectors.dependencies import Outage
from seamline.connectors.files import disk_full
from seamline.errors import SHUTTING_DOWN, SeamlineError

FREE_BYTES_MIN = 16 << 20
"""A disk with less free space is full: a result of one chunk more would not fit."""


class Readiness(Collector):
    """The readiness of one gateway. Safe to share between threads.

    Args:
        accepts_statements: Whether it is not about to stop.
        folders: Where it keeps results and spilled rows.
        outages: Returns the dependencies that do not answer.
    """

    def __init__(
        self,
        accepts_statements: Callable[[], bool],
        folders: Sequence[pathlib.Path],
        outages: Callable[[], Sequence[Outage]],
    ) -> None:
        self._accepts_statements = accepts_statements
        self._folders = folders
        self.outages = outages

    def require(self) -> None:
        """Requires that it is ready.

        Raises:
            SeamlineError: SHUTTING_DOWN, DISK_FULL.
        """
        if not self._accepts_statements():
            raise SeamlineError(SHUTTING_DOWN, "the gateway is stopping")
        for folder in self._folders:
            if _free_bytes(folder) < FREE_BYTES_MIN:
                raise disk_full(folder)

    def folder_bytes(self) -> dict[str, int]:
        """Returns the free bytes on the disk of each folder."""
        return {folder.name: _free_bytes(folder) for folder in self._folders}

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of dependencies that are away, and of disks."""
        away = GaugeMetricFamily(
            "seamline_dependency_away_since_seconds",
            "When a dependency that does not answer was first noticed, in seconds since 1970.",
            labels=("kind", "name"),
        )
        for outage in self.outages():
            away.add_metric((outage.kind, outage.name), outage.since.timestamp())
        yield away
        free = GaugeMetricFamily(
            "seamline_disk_free_bytes",
            "Free space on the disk of a folder of the state directory.",
            labels=("folder",),
        )
        for name, size in self.folder_bytes().items():
            free.add_metric((name,), size)
        yield free


def _free_bytes(folder: pathlib.Path) -> int:
    """Returns the free bytes on a folder's disk; the folder is created when it is needed."""
    for existing in (folder, *folder.parents):
        with contextlib.suppress(FileNotFoundError):
            return shutil.disk_usage(existing).free
    return 0

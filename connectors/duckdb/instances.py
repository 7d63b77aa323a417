"""Locked-down instances of DuckDB: created ahead, and reused by statements over the same files.

An instance reads the files it was locked to and nothing else, cannot load extensions, and its
configuration can no longer be changed. It is locked to what statements over the same snapshots have
read, so that reads of different parts of a table share one, and the footers that it has read. It
runs one statement at a time. Creating and closing one costs some milliseconds of a core, so
instances are created while nobody waits. One that ran its statement to the end is kept, since
statements mostly return to files that were read before. One that stopped half-way is never used
again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.cache import Cache
from seamline.connectors.duckdb.storage import as_pattern
from seamline.sql.kernels.kernel import Use
from seamline.sql.quoting import quoted_text
from seamline.sql.slices import unsliced
from seamline.sql.types import quoted

_WRONG_OPTIMIZERS = (
    "deliminator",  # loses and repeats rows where a subquery compares several of the outer columns
    "window_self_join",  # computes what is below a window twice, so that random values differ
)
AHEAD = 2
KEPT_MAX = 4
"""Each holds a thread and a few hundred kilobytes."""
KERNELS_MAX = 100
"""An instance that has learned more is not kept: statements may define kernels of their own."""
SHARED_FILES_MAX = 256
"""Files of snapshots that an instance is locked to if its statement does not read all of them."""
_SHARED_MAX = 16

Files = frozenset[str]
Snapshots = frozenset[tuple[tuple[str, ...], int | None]]
"""Names of tables, and which of their snapshots."""


class Instance:
    """An instance, used by one statement at a time.

    Args:
        connection: DuckDB's connection, not locked yet.
        snapshots: What the files that it is going to be locked to belong to.

    Attributes:
        files: The files that it may read; None until it is locked to them.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, snapshots: Snapshots = frozenset()
    ) -> None:
        self.connection = connection
        self.files: Files | None = None
        self._snapshots = snapshots
        self._registered: list[str] = []
        self._copied: list[str] = []
        self._variables: list[str] = []
        self._kernels: set[str] = set()
        self._lock = threading.Lock()
        self._in_use = True
        self._interrupted = False

    def register(self, name: str, rows: pa.Table) -> None:
        """Makes an Arrow table readable, until the statement ends."""
        self.connection.register(name, unsliced(rows))
        self._registered.append(name)

    def copy(self, name: str, rows: pa.Table) -> None:
        """Copies an Arrow table into one of DuckDB's own, until the statement ends."""
        given = f"{name}_given"
        self.connection.register(given, unsliced(rows))
        try:
            self.connection.execute(f"CREATE TEMP TABLE {quoted(name)} AS FROM {quoted(given)}")
            self._copied.append(name)
        finally:
            self.connection.unregister(given)

    def set_bits(self, name: str, bits: bytes) -> None:
        """Sets a variable of bits, until the statement ends."""
        given = f"{name}_given"
        self.connection.register(given, pa.table({"bits": pa.array([bits], pa.large_binary())}))
        try:
            self.connection.execute(
                f"SET VARIABLE {quoted(name)} = (SELECT CAST(bits AS BIT) FROM {quoted(given)})"
            )
            self._variables.append(name)
        finally:
            self.connection.unregister(given)

    def learn(self, kernels: Mapping[str, Use]) -> None:
        """Makes kernels callable, for as long as the instance is kept."""
        for name in kernels.keys() - self._kernels:
            kernels[name].teach(self.connection)
            self._kernels.add(name)

    def serves(self, files: Files, snapshots: Snapshots) -> bool:
        """Whether it may read exactly these files, or all of them and others of the snapshots."""
        if self.files is None:
            return False
        is_shared = bool(snapshots) and self._snapshots == snapshots
        return self.files == files or (is_shared and self.files >= files)

    def lock(self, files: Files) -> None:
        """Restricts the instance to these files from here on."""
        # DuckDB requires both: the pattern as it is read, and the file that it matches
        listed = ", ".join(map(quoted_text, sorted(files.union(map(as_pattern, files)))))
        self.connection.execute(f"SET allowed_paths = [{listed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")
        self.files = files

    def interrupt(self) -> None:
        """Interrupts the statement; does nothing once it has given the instance back."""
        with self._lock:
            if self._in_use:
                self._interrupted = True
                with contextlib.suppress(duckdb.Error):
                    self.connection.interrupt()

    def begin(self) -> None:
        """Marks the instance as used by a statement."""
        with self._lock:
            self._in_use = True

    def end(self) -> bool:
        """Ends its use and drops what was registered; returns whether it is fit for another."""
        with self._lock:
            self._in_use = False
        for name in self._registered:
            self.connection.unregister(name)
        self._registered.clear()
        for name in self._copied:
            self.connection.execute(f"DROP TABLE {quoted(name)}")
        self._copied.clear()
        for name in self._variables:
            self.connection.execute(f"RESET VARIABLE {quoted(name)}")
        self._variables.clear()
        return not self._interrupted and len(self._kernels) <= KERNELS_MAX

    def close(self) -> None:
        """Closes the instance."""
        with contextlib.suppress(duckdb.Error):
            self.connection.close()


class Instances:
    """Creates, keeps and closes instances. Safe to share between threads."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._ready: queue.SimpleQueue[duckdb.DuckDBPyConnection] = queue.SimpleQueue()
        self._maker = concurrent.futures.ThreadPoolExecutor(1, "seamline-duckdb")
        self._lock = threading.Lock()
        self._kept: list[Instance] = []
        self._shared: Cache[Snapshots, Files] = Cache(_SHARED_MAX)
        self._closed = False

    def take(self, files: Files, snapshots: Snapshots = frozenset()) -> Instance:
        """Returns an instance kept locked to these files, or one that is not locked yet.

        Args:
            files: The files that a statement reads.
            snapshots: What all of them belong to, if others of the same may be readable with them.
        """
        with self._lock:
            kept = reversed(self._kept)
            instance = next((i for i in kept if i.serves(files, snapshots)), None)
            if instance is not None:
                self._kept.remove(instance)
        if instance is not None:
            instance.begin()
            return instance
        try:
            connection = self._ready.get_nowait()
        except queue.Empty:
            connection = self._make()
        self.warm_up()
        return Instance(connection, snapshots)

    def shared(self, files: Files, snapshots: Snapshots) -> Files:
        """Returns the files with others of their snapshots that statements have read before."""
        if not snapshots:
            return files
        files |= self._shared.get(snapshots) or files
        if len(files) <= SHARED_FILES_MAX:
            self._shared.put(snapshots, files)
        return files

    def give_back(self, instance: Instance, *, finished: bool) -> None:
        """Keeps an instance whose statement ran to its end, else closes it.

        Args:
            instance: The instance.
            finished: Whether the statement's last row was read.
        """
        try:
            unharmed = instance.end()
        except duckdb.Error:
            unharmed = False
        dropped = [instance]
        if finished and unharmed and instance.files is not None:
            with self._lock:
                if not self._closed:
                    self._kept.append(instance)
                    dropped = self._kept[:-KEPT_MAX]
                    del self._kept[:-KEPT_MAX]
        for one in dropped:
            one.close()

    def warm_up(self) -> None:
        """Creates instances ahead of the next statements, in the background."""
        self._maker.submit(supervision.attempt, "duckdb", self._refill)

    def close(self) -> None:
        """Closes the idle instances; those in use are closed when they are given back."""
        self._maker.shutdown(cancel_futures=True)
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, []
        for instance in kept:
            instance.close()
        while not self._ready.empty():
            self._ready.get_nowait().close()

    def _refill(self) -> None:
        while self._ready.qsize() < AHEAD:
            self._ready.put(self._make())

    def _make(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config=self._config)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET parquet_metadata_cache = true")  # data files never change
        connection.execute(f"SET disabled_optimizers = '{','.join(_WRONG_OPTIMIZERS)}'")
        return connection

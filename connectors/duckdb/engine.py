"""DuckDB as an engine: an instance of a statement reads files of its snapshots, and no others."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pathlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp

from seamline.connectors.arrow import conform
from seamline.connectors.cache import Cache
from seamline.connectors.chunks import ResultFile
from seamline.connectors.duckdb.errors import named_error, spill_error
from seamline.connectors.duckdb.hidden import HiddenRowsCache
from seamline.connectors.duckdb.instances import Files, Instance, Instances, Snapshots
from seamline.connectors.duckdb.relation import (
    DELETES,
    ROWS,
    HiddenRows,
    data_paths,
    relation_sql,
    unreplaced_sql,
)
from seamline.connectors.duckdb.storage import attach, is_remote
from seamline.connectors.files import private_folder
from seamline.connectors.newest import of_keys
from seamline.connectors.protocols.deadlines import Compute, Deadline, NoDeadline, at_once
from seamline.connectors.protocols.engine_tails import SpilledTail, TailFile, TailSource
from seamline.connectors.protocols.engines import EngineQuery, EngineScan, ResultStream
from seamline.errors import INTERNAL_ERROR, NOT_SUPPORTED, TAIL_TOO_LARGE, SeamlineError
from seamline.seam.files import DataFile
from seamline.sql import types
from seamline.sql.engines import render
from seamline.sql.kernels.kernel import Use
from seamline.sql.types import quoted

_LOG = logging.getLogger("seamline.duckdb")
BATCH_ROWS = 65_536
_WRITTEN_MAX = 200_000
"""Total length of remembered texts; a text longer than a tenth of it is not remembered."""
_COPIED_PART = 4
"""A statement may fill one part in this many of its memory with copies of tails."""
_ESTIMATED_PART = 4
"""The rows of files estimate a scan whose tail has at most one part in this many of them."""
_READ_MANY = 3
"""A tail that so many scans of a statement read is copied for all of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """A query as DuckDB's SQL, except for how its relations are read.

    Attributes:
        text: Its text in parts, of which every second one is the id of a scan.
        kernels: The kernels that it calls, by name.
        schema: See `EngineQuery`.
        scans: See `EngineQuery`.
        tails: See `EngineQuery`.
        file: See `EngineQuery`; this engine does not write to it.
    """

    text: tuple[str, ...]
    kernels: Mapping[str, Use]
    schema: pa.Schema
    scans: tuple[EngineScan, ...]
    tails: Mapping[str, pa.Table | SpilledTail | TailSource]
    file: ResultFile | None = None

    def over(self, relations: Mapping[str, str]) -> str:
        """Returns its text, with a SELECT in place of each scan."""
        parts = list(self.text)
        parts[1::2] = [relations[scan_id] for scan_id in parts[1::2]]
        return "".join(parts)


class Writer:
    """Renders queries as DuckDB's SQL; a tree that is run again is not rendered again."""

    def __init__(self) -> None:
        self._known: Cache[int, _Written] = Cache(_WRITTEN_MAX, weight=_Written.length)

    def statement(
        self, query: EngineQuery, deadline: Deadline, compute: Compute = at_once
    ) -> Statement:
        """Returns the statement of a query."""
        statement = self._known.get(id(query.tree))
        if statement is None:
            statement = compute(lambda: _Written.of(query), deadline)
            if statement.length() <= _WRITTEN_MAX // 10:
                self._known.put(id(query.tree), statement)
        return Statement(
            statement.text, statement.kernels, query.schema, query.scans, query.tails, query.file
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Written:
    """The text of a tree, which is kept with it: while it is, no other tree has its id."""

    tree: exp.Expr
    text: tuple[str, ...]
    kernels: Mapping[str, Use]

    @classmethod
    def of(cls, query: EngineQuery) -> _Written:
        mark = f"\0{secrets.token_hex(8)}\0"  # which no statement's own text contains
        relations = {s.scan_id: f"{mark}{s.scan_id}{mark}" for s in query.scans}
        text = tuple(render.to_duckdb(query.tree, relations).split(mark))
        return cls(query.tree, text, render.kernels(query.tree, DuckDBEngine.name))

    def length(self) -> int:
        return sum(map(len, self.text))


class DuckDBEngine:
    """Runs queries in this process. Safe to share between threads.

    Args:
        memory_bytes: How much one statement may hold in memory before it spills.
        threads: Threads of one statement.
        spill_directory: Where it spills; nothing else is ever written there.
        spill_bytes: How much it may spill.
    """

    name = "duckdb"

    def __init__(
        self, *, memory_bytes: int, threads: int, spill_directory: str, spill_bytes: int
    ) -> None:
        private_folder(pathlib.Path(spill_directory))
        self._spill_directory = spill_directory
        self._spill_bytes = spill_bytes
        self._copied_bytes_max = memory_bytes // _COPIED_PART
        self._writer = Writer()
        self._hidden = HiddenRowsCache()
        self._instances = Instances(
            {
                "memory_limit": f"{memory_bytes // 1024}KiB",
                "threads": str(threads),
                "temp_directory": spill_directory,
                "max_temp_directory_size": f"{spill_bytes // 1024}KiB",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "preserve_insertion_order": "false",
            }
        )

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        with _named_errors(deadline):
            statement = self._writer.statement(query, deadline)
        return self.run_statement(statement, deadline)

    def run_statement(self, query: Statement, deadline: Deadline) -> ResultStream:
        """Starts a statement.

        Raises:
            SeamlineError: named after the cause.
        """
        files = _files(query)
        snapshots = _snapshots(query, files)
        instance = self._instances.take(files, snapshots)
        forget = deadline.on_end(instance.interrupt)
        finished = False

        def close() -> None:
            forget()
            self._instances.give_back(instance, finished=finished)

        def batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
            nonlocal finished
            with _logged(sql), self._spilling():
                yield from _batches(reader, query.schema, deadline)
            reader.close()
            finished = not any(map(is_remote, files))  # access to remote files may end

        try:
            with _named_errors(deadline):
                if instance.files is None:
                    attach(instance.connection, query.scans)
                    instance.lock(self._instances.shared(files, snapshots))
                sql = self._prepare(instance, query)
            with _logged(sql), self._spilling(), _named_errors(deadline):
                reader = instance.connection.execute(sql).to_arrow_reader(BATCH_ROWS)
        except BaseException:
            close()
            raise
        return ResultStream(query.schema, batches(reader), close)

    @contextlib.contextmanager
    def _spilling(self) -> Iterator[None]:
        """Names what a statement fails with when it cannot spill any more."""
        try:
            yield
        except SeamlineError as error:
            raise spill_error(error, self._spill_directory, self._spill_bytes) from error

    def _prepare(self, instance: Instance, query: Statement) -> str:
        """Registers the inputs, and returns the statement's text."""
        tails = {name: _parts(tail) for name, tail in query.tails.items()}
        newest = self._newest(query, tails)
        tails |= newest
        copies = _copies(instance, query, tails, self._copied_bytes_max)
        relations: dict[str, str] = {}
        for scan in query.scans:
            rows, spilled = (scan.rows, ()) if scan.tail is None else tails[scan.tail]
            copy = copies.get(scan.tail or "")
            counted = _counted(scan, rows)
            if rows is not None and copy is None and counted is None:
                instance.register(scan.own_name(ROWS), _lower_case(rows))
            is_newest = scan.tail in newest
            hidden = self._hide(instance, scan, rows) if is_newest else None
            if scan.deletes is not None and hidden is None:
                instance.register(scan.own_name(DELETES), _local(scan.deletes))
            rows_sql = relation_sql(
                scan, spilled, copy, counted=counted, is_newest=is_newest, hidden=hidden
            )
            relations[scan.scan_id] = render.scan_rows(scan.columns, rows_sql, self.name)
        instance.learn(query.kernels)
        return query.over(relations)

    def _newest(
        self, query: Statement, tails: Mapping[str, tuple[pa.Table, tuple[TailFile, ...]]]
    ) -> dict[str, tuple[pa.Table, tuple[TailFile, ...]]]:
        """Returns the newest rows of tails in which only those count, if all are in memory."""
        newest: dict[str, tuple[pa.Table, tuple[TailFile, ...]]] = {}
        for scan in query.scans:
            if scan.newest is not None and scan.tail is not None and scan.tail not in newest:
                rows, files = tails[scan.tail]
                if not files:
                    if sum(other.tail == scan.tail for other in query.scans) == 1:
                        rows = of_keys(rows, scan.tail_predicate, scan.newest)
                    newest[scan.tail] = (self._hidden.newest(rows, scan), ())
        return newest

    def _hide(
        self, instance: Instance, scan: EngineScan, newest: pa.Table | None
    ) -> HiddenRows | None:
        """Returns what a tail's newest rows hide of a scan's files; the instance learns it, too."""
        if newest is None:
            return None
        hidden = self._hidden.find(instance.connection, scan, newest)
        if hidden is not None:
            for name, bits in hidden.variables(scan):
                instance.set_bits(name, bits)
        return hidden

    def warm_up(self) -> None:
        """Creates instances ahead of the next statements, in the background."""
        self._instances.warm_up()

    def close(self) -> None:
        """Releases what no statement uses."""
        self._instances.close()


def _files(query: Statement) -> Files:
    """Returns every file that a statement reads."""
    spilled = [tail.files for tail in query.tails.values() if isinstance(tail, SpilledTail)]
    tails = {file.path for files in spilled for file in files}
    return frozenset(tails.union(*map(data_paths, query.scans)))


def _snapshots(query: Statement, files: Files) -> Snapshots:
    """Returns the snapshots that all files of a statement belong to; none if any does not.

    Nor for remote files, which only the statement's own access opens.
    """
    scans = [scan for scan in query.scans if scan.cold is not None]
    if any(map(is_remote, files)) or files != set().union(*map(data_paths, scans)):
        return frozenset()
    if any(scan.snapshot_id is None for scan in scans):
        return frozenset()
    return frozenset((scan.table, scan.snapshot_id) for scan in scans)


def _copies(
    instance: Instance,
    query: Statement,
    tails: Mapping[str, tuple[pa.Table, tuple[TailFile, ...]]],
    bytes_max: int,
) -> dict[str, str]:
    """Copies the tails of a join to DuckDB's own tables, whose row counts decide the join order.

    DuckDB knows nothing about an Arrow table, and assumes that it has one row. Reading an Arrow
    table costs less than copying it, so there are no copies for a statement over one relation, nor
    of a tail that hardly changes the row counts of its few scans: files have most of the rows.

    Returns:
        The tables' names, by tail.
    """
    tables = [scan for scan in query.scans if scan.table]  # all but partial aggregates
    if len(tables) < 2 or sum(rows.nbytes for rows, _ in tails.values()) > bytes_max:
        return {}
    copies: dict[str, str] = {}
    for scan in query.scans:
        if scan.tail is not None and scan.columns and scan.tail not in copies:
            rows, _ = tails[scan.tail]
            scans = sum(other.tail == scan.tail for other in query.scans)
            if scans >= _READ_MANY or not _is_estimated(scan, rows):
                copies[scan.tail] = scan.own_name(ROWS)
                instance.copy(scan.own_name(ROWS), _lower_case(rows))
    return copies


def _is_estimated(scan: EngineScan, rows: pa.Table) -> bool:
    """Whether DuckDB's estimate of a scan is near enough without its rows in memory."""
    if scan.newest is not None or scan.cold is None:
        return False
    return bool(rows.num_rows * _ESTIMATED_PART <= scan.cold.rows)


def read_scan(scan: EngineScan, replaced: pa.Table | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one scan's files, outside any statement.

    Args:
        scan: A scan whose files are inspected; no tail.
        replaced: Keys of an upsert table's tail, whose rows in the files do not count.

    Raises:
        SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID.
    """
    schema = pa.schema([types.arrow_field(column) for column in scan.columns])
    with open_scan(scan) as (connection, relation):
        if replaced is not None:
            rows, keys = scan.own_name(ROWS), scan.own_name("keys")
            connection.register(rows, _lower_case(replaced))
            # a table of DuckDB's own, to which it can apply the filters that a join pushes down
            connection.execute(f"CREATE TABLE {quoted(keys)} AS FROM {quoted(rows)}")
            relation = unreplaced_sql(scan, keys)
        reader = connection.sql(relation).to_arrow_reader(BATCH_ROWS)
        yield from _batches(reader, schema, NoDeadline())


def find_hidden_rows(
    scan: EngineScan,
    newest: pa.Table,
    deletes_of: Callable[[Sequence[DataFile]], pa.Table | None],
    cache: HiddenRowsCache,
    deadline: Deadline,
    *,
    memory_bytes: int,
) -> HiddenRows:
    """Finds what the tail of a scan hides of its files, outside any statement.

    Args:
        scan: A scan of files whose rows can be identified by position; it says what its tail is.
        newest: The newest rows of its tail, all of them.
        deletes_of: Returns the deletes of files.
        cache: What has been found before, at no later moment of the tail; new findings are added.
        deadline: The deadline of the request.
        memory_bytes: How much memory DuckDB may use.

    Raises:
        SeamlineError: UPSERT_ORDER_UNKNOWN, COLD_FILE_MISSING, COLD_FILE_INVALID, MEMORY_LIMIT.
    """
    with _named_errors(deadline), _opened(scan) as connection:
        connection.execute(f"SET memory_limit = '{memory_bytes // 1024}KiB'")
        connection.execute("SET temp_directory = ''")
        forget = deadline.on_end(connection.interrupt)
        try:
            hidden = cache.find(connection, scan, newest, deletes_of)
        finally:
            forget()
    assert hidden is not None
    return hidden


@contextlib.contextmanager
def _opened(scan: EngineScan) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields an instance that can read the files of a scan."""
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        attach(connection, [scan])
        yield connection


@contextlib.contextmanager
def open_scan(scan: EngineScan) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """Yields an instance that can read the files of one scan, and a query of the scan's rows.

    Args:
        scan: A scan whose files are inspected; no tail.

    Raises:
        SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID.
    """
    with _named_errors(NoDeadline()), _opened(scan) as connection:
        if scan.deletes is not None:
            connection.register(scan.own_name(DELETES), _local(scan.deletes))
        yield connection, relation_sql(scan)


def _batches(
    reader: pa.RecordBatchReader, schema: pa.Schema, deadline: Deadline
) -> Iterator[pa.RecordBatch]:
    with _named_errors(deadline):
        for batch in reader:
            deadline.check()
            yield conform(batch, schema)


def _parts(
    tail: pa.Table | SpilledTail | TailSource,
) -> tuple[pa.Table, tuple[TailFile, ...]]:
    """Returns the part of a tail that is in memory, and the files that hold the rest."""
    if isinstance(tail, TailSource):
        raise SeamlineError(TAIL_TOO_LARGE, f"the tail of {tail.topic} was not read")
    rows, files = (tail.rows, tail.files) if isinstance(tail, SpilledTail) else (tail, ())
    return rows, files


def _counted(scan: EngineScan, rows: pa.Table | None) -> int | None:
    """Returns how many rows a scan has in memory, if only their number matters."""
    if rows is None or scan.columns or scan.newest is not None:
        return None
    return int(rows.num_rows)


def _lower_case(table: pa.Table) -> pa.Table:
    return table.rename_columns([name.lower() for name in table.column_names])


def _local(deletes: pa.Table) -> pa.Table:
    """Returns deletes with their paths as `read_parquet` reports them in `filename`."""
    paths = pa.compute.replace_substring_regex(deletes.column("path"), "^file:(//)?", "")
    return pa.table({"path": paths, "position": deletes.column("position")})


@contextlib.contextmanager
def _logged(sql: str) -> Iterator[None]:
    """Logs the SQL of a statement that DuckDB refuses, or that fails without a specific error."""
    try:
        yield
    except SeamlineError as error:
        if error.code in (NOT_SUPPORTED, INTERNAL_ERROR):
            _LOG.warning("DuckDB: %s\n%s", error.summary, sql)
        raise


@contextlib.contextmanager
def _named_errors(deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.InterruptException):
            deadline.check()
        raise named_error(error) from error
    except (pa.ArrowInvalid, OSError) as error:  # from inside the reader
        deadline.check()
        raise named_error(error) from error

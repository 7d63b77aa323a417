"""Live tables read in every way: PyIceberg, Spark with and without planning, and our own SQL."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import pathlib
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from seamline.connectors.spark.sessions import connect
from seamline.gateway.iceberg_rest import routes as iceberg
from seamline.spark import configuration
from support.gateway import Gateway
from support.iceberg_java import iceberg_java
from support.rest_answers import Watch
from support.stack import Stack

FILES, PLANNED = "live", "planned"
"""Names of the two catalogs in Spark."""


class LiveReaders:
    """A gateway of its own over the stack, its answers watched, with clients of every kind.

    Args:
        stack: The stack.
        directory: Where the gateway keeps its state.
        clock: What the gateway takes for the time.
        settings: Settings of the Iceberg catalog that differ from the defaults.
    """

    def __init__(
        self,
        stack: Stack,
        directory: pathlib.Path,
        clock: Callable[[], float] = time.time,
        **settings: Any,
    ) -> None:
        self.stack = stack
        changed = {
            "state_directory": str(directory),
            "iceberg": stack.config.iceberg.model_copy(update=settings),
        }
        config = stack.config.model_copy(update=changed)
        self.gateway = Gateway(config, clock)
        self.watch = Watch(self.gateway.app)

    def close(self) -> None:
        """Ends everything."""
        if "spark" in self.__dict__:
            self.spark.stop()
        self.gateway.close()

    # --- Clients -------------------------------------------------------------------------------

    @functools.cached_property
    def pyiceberg(self) -> RestCatalog:
        """PyIceberg over the catalog that plans nothing."""
        return RestCatalog("live", uri=f"{self.gateway.url}{iceberg.FILES}")

    @functools.cached_property
    def pyiceberg_planned(self) -> RestCatalog:
        """PyIceberg over the catalog that plans scans."""
        return RestCatalog("planned", uri=f"{self.gateway.url}{iceberg.PLANNED}")

    @functools.cached_property
    def spark(self) -> Any:
        """A Spark session with only the printed configuration, for both catalogs."""
        session = connect(self.stack.spark_url)
        for name, planned in ((FILES, False), (PLANNED, True)):
            conf = configuration(self.gateway.url, name=name, planned=planned)
            for key, value in conf.items():
                session.conf.set(key, value)
        return session

    def load(self, name: str) -> Table:
        """The table as PyIceberg sees it now."""
        table: Table = self.pyiceberg.load_table(("default", name))
        return table

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of a statement in Spark."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    # --- The same rows in every way --------------------------------------------------------------

    def every_way(
        self,
        name: str,
        snapshot_id: int,
        columns: Sequence[str],
        *,
        unread_by: Collection[str] = (),
        engine: str = "duckdb",
    ) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of a virtual snapshot, by who read them; each sorted.

        Args:
            name: The table.
            snapshot_id: The virtual snapshot.
            columns: What is read of it.
            unread_by: Readers that are left out.
            engine: What the gateway's own SQL runs on.
        """
        quoted = ", ".join(f"`{column}`" for column in columns)
        ours = ", ".join(f'"{column}"' for column in columns)
        ways: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
            "pyiceberg": lambda: _scanned(self.load(name), snapshot_id, columns),
            "pyiceberg planned": lambda: _scanned(
                self.pyiceberg_planned.load_table(("default", name)), snapshot_id, columns
            ),
            "spark": lambda: self.sql(
                f"SELECT {quoted} FROM {FILES}.default.{name} VERSION AS OF {snapshot_id}"
            ),
            "spark planned": lambda: self.sql(
                f"SELECT {quoted} FROM {PLANNED}.default.{name} VERSION AS OF {snapshot_id}"
            ),
            "sql": lambda: self.gateway.rows(
                f"SELECT {ours} FROM {name} FOR VERSION AS OF {snapshot_id}", engine
            ),
        }
        return {way: canonical(read()) for way, read in ways.items() if way not in unread_by}


@contextlib.contextmanager
def watched(readers: LiveReaders) -> Iterator[LiveReaders]:
    """The readers until the block ends; every answer of their gateway must have been valid.

    All table metadata must have been what engines on Java load, too.
    """
    with contextlib.closing(readers):
        yield readers
        assert not readers.watch.wrong, readers.watch.wrong[:3]
        with iceberg_java() as java:
            problems = filter(None, map(java.problem, readers.watch.metadata))
            assert not (found := list(problems)), found[:3]


def _scanned(table: Table, snapshot_id: int, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    scan = table.scan(snapshot_id=snapshot_id, selected_fields=tuple(columns))
    found = scan.to_arrow()
    return list(zip(*(found.column(c).to_pylist() for c in columns), strict=True))


def canonical(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows in one form, whoever read them, sorted."""
    return sorted((tuple(_plain(cell) for cell in row) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return repr(value)
        case bytes() | bytearray():
            return f"0x{bytes(value).hex()}"
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case datetime.datetime():
            utc = value.astimezone(datetime.UTC) if value.tzinfo else value
            return utc.replace(tzinfo=None).isoformat()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Mapping():
            return {str(key): _plain(item) for key, item in sorted(value.items())}
        case tuple() if hasattr(value, "asDict"):
            return _plain(value.asDict())
        case list() if value and all(isinstance(e, tuple) and len(e) == 2 for e in value):
            return _plain(dict(value))  # a map, as Arrow gives it
        case list():
            return [_plain(item) for item in value]
    raise AssertionError(f"{type(value)} is not expected in a result")

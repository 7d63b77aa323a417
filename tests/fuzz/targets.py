"""Seamline, asked over tables whose rows are cold, hot and both."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from support.engine_tables import Storage, bound, table_of
from support.gateway import Gateway
from support.stack import Stack

from fuzz.answers import Answer, answer_of
from fuzz.oracle import arrow_rows
from fuzz.queries import Query
from fuzz.schema import Table
from seamline.connectors.chunks import read_chunk
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.protocols.engines import Engine
from seamline.errors import SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import tables as commands
from seamline.gateway.deadline import no_deadline
from seamline.gateway.statements.statement import Statement
from seamline.gateway.tiering.step import tier_once
from seamline.sql import types
from seamline.sql.row_filters_and_masks import Restriction

_TIMEOUT_S = 300.0


class Target(Protocol):
    """What answers queries over one set of tables."""

    def answer(self, query: Query, engine: str) -> Answer:
        """What an engine answers."""


class Offline:
    """The engine over DuckDB alone; no broker, no catalog.

    Args:
        tables: The tables.
        folder: Where their files are.
        engine: The engine.
        restrictions: What may be seen of tables, by their names.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        folder: pathlib.Path,
        engine: Engine,
        restrictions: Mapping[str, Restriction] | None = None,
    ) -> None:
        storage = Storage(folder)
        self._restrictions = restrictions
        self._engine = engine
        self._columns = {table.name: table.columns for table in tables}
        self._stored = {
            table.name: storage.stored(arrow_rows(table), _place(table)) for table in tables
        }

    def answer(self, query: Query, engine: str) -> Answer:
        """See `Target.answer`."""
        assert engine == "duckdb"
        try:
            found = self.table(query)
        except SeamlineError as error:
            return Answer(None, error.code.name, error.message)
        except KeyError as error:  # shrinking took the table away
            return Answer(None, "TABLE_NOT_FOUND", str(error))
        return answer_of(query, found)

    def table(self, query: Query) -> pa.Table:
        """The rows of the answer.

        Raises:
            SeamlineError: named after the cause.
        """
        query_bound, read = bound(query.node.trino, self._columns, self._restrictions)
        return table_of(self._engine, query_bound, read, self._stored)


def duckdb_engine(folder: pathlib.Path) -> DuckDBWorkers:
    """An engine that spills into a folder."""
    return DuckDBWorkers(
        memory_bytes=1 << 29, threads=1, spill_directory=str(folder / "spill"), spill_bytes=1 << 28
    )


def _place(table: Table) -> str:
    places = {0: "hot", len(table.rows): "cold"}
    return places.get(table.cold, ("both", "recent", "spilled", "deleted", "known")[table.cold % 5])


class Live:
    """A gateway over a broker and a catalog, with both engines.

    Args:
        tables: The tables.
        stack: The broker, the catalog and Spark.
        gateway: The gateway.
        schema: The schema the tables are made in.
    """

    def __init__(
        self, tables: Sequence[Table], stack: Stack, gateway: Gateway, schema: str
    ) -> None:
        self._gateway = gateway
        self._schema = schema
        for table in tables:
            _place_rows(table, stack, schema)

    def answer(self, query: Query, engine: str) -> Answer:
        """See `Target.answer`."""
        return self.with_token(query, engine)[0]

    def with_token(
        self, query: Query, engine: str, token: str | None = None
    ) -> tuple[Answer, str | None]:
        """What an engine answers, at the seams of a token if there is one; and its own token."""
        statement = self._gateway.statement(
            query.node.trino, engine, schema=self._schema, timeout_s=_TIMEOUT_S, token=token
        )
        return self._answer(query, statement), statement.receipt.get("token")

    def _answer(self, query: Query, statement: Statement) -> Answer:
        if statement.error is not None:
            return Answer(None, statement.error.code.name, statement.error.message)
        spool = statement.spool
        assert spool is not None
        schema = pa.schema([(c.name, types.to_arrow(c.type)) for c in statement.output])
        batches: list[pa.RecordBatch] = []
        for index in range(spool.chunk_count):
            data = spool.chunk(index, 0)
            assert data is not None
            batches += read_chunk(data)
        columns = [
            pa.chunked_array([batch.column(place) for batch in batches], field.type)
            for place, field in enumerate(schema)
        ]
        return answer_of(
            query, pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(schema))])
        )


def _place_rows(table: Table, stack: Stack, schema: str) -> None:
    topic = f"{schema}.{table.name}"
    stack.create_topic(topic, 1)
    session = resolution.session(stack.config)
    definition = commands.TableDefinition(
        name=resolution.resolve((schema, table.name), session, stack.connections),
        topic=topic,
        cluster="default",
        columns=commands.parse_fields(table.definition),
    )
    commands.create(stack.connections, definition, no_deadline())
    stack.produce(topic, table.records())
    if table.cold:
        log = stack.connections.log("default")
        tiered = stack.tier_table(table.name, schema)
        tier_once(tiered, log, no_deadline(), records_max=table.cold)

"""A feed: the rows of a table as they arrive, batch by batch, for a client that stays connected.

Each batch is a statement of its own, which reads the changes since the token of the previous one.
Before it runs, only the log and the catalog are asked whether there is anything new. Between two
batches a feed holds nothing but its token, so it can continue on any gateway, and a slow client
costs nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa

from seamline.connectors.chunks import read_chunk
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.gateway.access.audit import NOWHERE, Origin
from seamline.gateway.access.rights import Principal
from seamline.gateway.query.pin import OFFSETS_MAX
from seamline.gateway.query.seams import Seams
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import Statement, StatementRequest
from seamline.sql.binder.scope import Output

NOW = "now"
_CHANGES = "SELECT * FROM TABLE(changes(table => ?, from_token => ?, offsets_max => ?))"
_WHERE = f"{_CHANGES} WHERE ("


@dataclasses.dataclass(frozen=True, slots=True)
class FeedRequest:
    """What a client subscribes to.

    Attributes:
        table: The table, as SQL writes it.
        start: Where it begins: after a token, at the `beginning`, or `now`.
        where: An SQL condition that the rows satisfy; empty for none.
        catalog: Default catalog for the table name.
        schema: Default schema for the table name.
    """

    table: str
    start: str = NOW
    where: str = ""
    catalog: str | None = None
    schema: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FeedBatch:
    """The rows that have arrived.

    Attributes:
        output: Name and type of each column.
        rows: The rows, in the order of the log within each partition.
        token: The token that continues after them.
    """

    output: tuple[Output, ...]
    rows: tuple[pa.RecordBatch, ...]
    token: str


class Feed:
    """One client's feed.

    Args:
        service: Runs statements.
        seams: Pins tables.
        request: What the client wants.
        caller: The client.
        wait: Waits until a statement has ended.
        origin: Where the client's requests come from.
    """

    def __init__(
        self,
        service: Service,
        seams: Seams,
        request: FeedRequest,
        caller: Principal,
        wait: Callable[[Statement], None],
        origin: Origin = NOWHERE,
    ) -> None:
        self._service = service
        self._seams = seams
        self._request = request
        self._caller = caller
        self._wait = wait
        self._origin = origin
        self._token = request.start
        self._end: object = None

    @property
    def is_open(self) -> bool:
        """Whether the gateway still accepts statements."""
        return self._service.accepts_statements

    def begin(self) -> FeedBatch:
        """Returns the first batch; if the feed begins now, it has whatever has arrived since then.

        Raises:
            SeamlineError: whatever the statement would raise.
        """
        if self._token == NOW:
            condition = self._request.where or "TRUE"
            head = f"SELECT * FROM {self._request.table} WHERE FALSE AND ("
            sql = f"{head}{condition}\n)"
            self._read(StatementRequest(sql), head, continues=False)
            return self._read(self._changes())
        return self._read(self._changes(), continues=False)

    def next(self, *, is_due: bool = False) -> FeedBatch | None:
        """Returns what has arrived since the last batch; None if nothing has that may be seen.

        Args:
            is_due: Whether to return a batch in any case, for the sake of its new token.

        Raises:
            SeamlineError: whatever the statement would raise.
        """
        request = self._request
        if is_due:
            return self._read(self._changes())
        seam = self._seams.pin(
            request.table,
            self._caller,
            catalog=request.catalog,
            schema=request.schema,
            token=None,
            whole=False,
        )
        if seam["end"] == self._end:
            return None
        batch = self._read(self._changes())
        return batch if any(rows.num_rows for rows in batch.rows) else None

    def _changes(self) -> StatementRequest:
        where = self._request.where
        changes = f"{_WHERE}{where}\n)" if where else _CHANGES
        return StatementRequest(
            f"{changes} ORDER BY _kafka_partition, _kafka_offset",
            parameters=[self._request.table, self._token, OFFSETS_MAX],
        )

    def _read(
        self, request: StatementRequest, head: str = _WHERE, *, continues: bool = True
    ) -> FeedBatch:
        placed = dataclasses.replace(
            request, catalog=self._request.catalog, schema=self._request.schema
        )
        statement = self._service.submit(placed, self._caller, self._origin, continues=continues)
        try:
            self._wait(statement)
            error = statement.error
            if error is not None:
                location, where = error.location, self._request.where
                error.location = location and location.within(where, len(head))
                raise error
            spool, receipt = statement.spool, statement.whole_receipt
            assert spool is not None
            chunks = [spool.chunk(index, 0.0) for index in range(spool.chunk_count)]
            rows = tuple(b for chunk in chunks if chunk is not None for b in read_chunk(chunk))
            if len(receipt["tables"]) != 1:
                raise SeamlineError(
                    NOT_SUPPORTED,
                    "the condition of a feed reads another table",
                    hint="Read all of the table's rows, and query other tables with a statement.",
                )
            (table,) = receipt["tables"]
            self._token, self._end = receipt["token"], table["end"]
            return FeedBatch(statement.output, rows, self._token)
        finally:
            self._service.forget(statement)

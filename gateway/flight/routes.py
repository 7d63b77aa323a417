"""The Arrow Flight calls that Flight SQL uses.

    Handshake       logs in once by password, and returns a token
    GetFlightInfo   submits a statement, and returns a ticket for its rows; also for metadata lists
    GetSchema       returns columns; a query is planned, but not run
    DoGet           returns the rows of a ticket as they are produced
    DoPut           runs an update, or takes the parameters of a prepared statement
    DoAction        prepares, closes and cancels statements; sets and returns session options

All other Flight calls are refused by name. Each call identifies its caller, and its answer is for
that caller alone: a ticket is of no use to anybody else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from seamline.errors import INVALID_REQUEST, NOT_SUPPORTED, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import updates
from seamline.gateway.flight import messages
from seamline.gateway.flight.actions import Actions
from seamline.gateway.flight.callers import AUTHORIZATION, Callers
from seamline.gateway.flight.columns import columns_of
from seamline.gateway.flight.flight_data import flight_data, schema_bytes, table_data
from seamline.gateway.flight.listings import Listings
from seamline.gateway.flight.parameter_rows import read_rows
from seamline.gateway.flight.prepared import PreparedStatements, only
from seamline.gateway.flight.running import NO_COLUMNS, Call, Running
from seamline.gateway.flight.sessions import Sessions
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import FINAL, Statement

_COMMAND = 2
"""The type of a descriptor that carries a command."""
_UNKNOWN = -1
_TICKET = "TicketStatementQuery"


class Routes:
    """Answers calls. Safe to share between threads.

    Args:
        service: Runs statements.
        callers: Identifies callers.
        request_bytes_max: How much a client may send in one call.
        resolve: Returns the catalog and schema that a principal's names, or None, resolve to;
            raises an error if they are wrong.
    """

    def __init__(
        self,
        service: Service,
        callers: Callers,
        request_bytes_max: int,
        resolve: Callable[[Principal, str | None, str | None], resolution.Session],
    ) -> None:
        self._service = service
        self._callers = callers
        self._request_bytes_max = request_bytes_max
        self._running = Running(service)
        self._prepared = PreparedStatements(self._running)
        self._listings = Listings(self._running)
        self._sessions = Sessions()
        self._actions = Actions(service, self._prepared, self._sessions, callers.audit, resolve)

    def handshake(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Logs in the caller that the headers identify."""
        caller = self._callers.identify(context, "Handshake")
        context.send_initial_metadata(((AUTHORIZATION, self._callers.token(caller)),))
        for _ in itertools.islice(requests, 1):
            yield messages.new("HandshakeResponse")

    def flight_info(self, requests: Iterator[Any], context: Any) -> Any:
        """Submits the statement or metadata command of a descriptor."""
        call, descriptor = self._call(context, "GetFlightInfo"), _first(requests)
        name, command = _command(descriptor)
        schema = self._listings.schema(name, command)
        if schema is not None:
            info = _info(descriptor, schema, bytes(descriptor.cmd), _UNKNOWN)
        else:
            info = self._submitted(call, descriptor, name, command)
        call.session.offer(context)
        return info

    def schema(self, requests: Iterator[Any], context: Any) -> Any:
        """Returns the columns of a descriptor's statement or metadata command."""
        call, descriptor = self._call(context, "GetSchema"), _first(requests)
        name, command = _command(descriptor)
        columns = self._listings.schema(name, command)
        if columns is None:
            if name == "CommandStatementQuery":
                messages.check_alone(command)
                columns = self._prepared.describe(call, command.query).columns
            elif name == "CommandPreparedStatementQuery":
                handle = command.prepared_statement_handle
                columns = self._prepared.find(call, handle).description.columns
            else:
                raise _unknown(name)
        call.session.offer(context)
        return messages.new("SchemaResult", schema=schema_bytes(columns))

    def get(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Yields the rows of a ticket."""
        call = self._call(context, "DoGet")
        name, command = messages.unpacked(_first(requests).ticket)
        if name != _TICKET:
            if self._listings.schema(name, command) is None:
                raise _unknown(name)
            yield from table_data(self._listings.answer(call, name, command))
            return
        statement_id = command.statement_handle.decode(errors="replace")
        statement = self._service.statement(statement_id, call.caller.principal)
        chunks = self._running.chunks(call, statement)
        columns = _columns(statement)
        if columns is NO_COLUMNS:
            for _ in chunks:
                pass
            yield from table_data(columns.empty_table())
        else:
            yield from flight_data(chunks, columns)

    def put(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Runs an update, or takes the parameters of a prepared statement."""
        call = self._call(context, "DoPut")
        first = _first(requests)
        name, command = _command(first.flight_descriptor)
        data = itertools.chain([first], requests)
        if name == "CommandStatementUpdate":
            messages.check_alone(command)
            result = _update_result(self._running.update(call, command.query))
        elif name == "CommandPreparedStatementUpdate":
            result = _update_result(self._updated(call, command.prepared_statement_handle, data))
        elif name == "CommandPreparedStatementQuery":
            handle = command.prepared_statement_handle
            self._prepared.bind(call, handle, self._rows(data))
            bound = messages.new("DoPutPreparedStatementResult", prepared_statement_handle=handle)
            result = bound.SerializeToString()
        else:
            raise _unknown(name)
        call.session.offer(context)
        yield messages.new("PutResult", app_metadata=result)

    def action(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Executes an action."""
        call, action = self._call(context, "DoAction"), _first(requests)
        bodies = self._actions.answer(call, action.type, action.body)
        call.session.offer(context)
        yield from (messages.new("Result", body=body) for body in bodies)

    def list_actions(self, _: Any, context: Any) -> Iterator[Any]:
        """Yields the supported actions."""
        self._call(context, "ListActions")
        for name, description in self._actions.described():
            yield messages.new("ActionType", type=name, description=description)

    def refused(self, method: str, _: Iterator[Any], context: Any) -> None:
        """Refuses a call that is not part of Flight SQL."""
        self._call(context, method)
        raise SeamlineError(
            NOT_SUPPORTED, f"{method} is not supported", hint="Use the calls that Flight SQL uses."
        )

    def _call(self, context: Any, method: str) -> Call:
        caller = self._callers.identify(context, method)
        return Call(caller, self._sessions.begin(caller), context)

    def _submitted(self, call: Call, descriptor: Any, name: str, command: Any) -> Any:
        if name == "CommandStatementQuery":
            messages.check_alone(command)
            statement = self._running.begin(call, command.query)
        elif name == "CommandPreparedStatementQuery":
            prepared = self._prepared.find(call, command.prepared_statement_handle)
            values = only(prepared.parameter_sets())
            statement = self._running.begin(call, prepared.text, values)
        else:
            raise _unknown(name)
        handle = statement.statement_id.encode()
        ticket = messages.packed(_TICKET, statement_handle=handle)
        return _info(descriptor, _columns(statement), ticket, _row_count(statement))

    def _updated(self, call: Call, handle: bytes, data: Iterator[Any]) -> int:
        """Runs an update once per row of parameters; returns the number of rows written by all."""
        prepared, values = self._prepared.find(call, handle), self._rows(data)
        if values.num_columns:
            prepared = self._prepared.bind(call, handle, values)
        rows = prepared.parameter_sets()
        return sum(self._running.update(call, prepared.text, row) for row in rows)

    def _rows(self, data: Iterator[Any]) -> pa.Table:
        return read_rows(data, self._request_bytes_max)


def _first(requests: Iterator[Any]) -> Any:
    """Returns the first message of a call; most calls have only one.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    message = next(requests, None)
    if message is None:
        raise SeamlineError(INVALID_REQUEST, "the call has no message")
    return message


def _command(descriptor: Any) -> tuple[str, Any]:
    """Returns the command of a descriptor, with its name.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    if descriptor.type != _COMMAND:
        raise SeamlineError(
            INVALID_REQUEST,
            "the descriptor has no command",
            hint="Flight SQL's descriptors contain commands, not paths.",
        )
    return messages.unpacked(descriptor.cmd)


def _unknown(name: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"{name[:100]} is not supported here",
        hint="Statements are SQL: no Substrait, no bulk ingestion, no transactions.",
    )


def _columns(statement: Statement) -> pa.Schema:
    """Returns the columns that the client sees; none if a statement only reports what it did."""
    if not updates.has_result(statement):
        return NO_COLUMNS
    return columns_of(statement.tell_columns())


def _row_count(statement: Statement) -> int:
    if updates.update_type(statement) is not None and not updates.has_result(statement):
        return updates.rows_written(statement) or 0
    is_complete = statement.state in FINAL and statement.spool is not None
    return statement.spool.row_count if is_complete and statement.spool is not None else _UNKNOWN


def _info(descriptor: Any, schema: pa.Schema, ticket: bytes, rows: int) -> Any:
    endpoint = messages.new("FlightEndpoint", ticket=messages.new("Ticket", ticket=ticket))
    return messages.new(
        "FlightInfo",
        schema=schema_bytes(schema),
        flight_descriptor=descriptor,
        endpoint=[endpoint],
        total_records=rows,
        total_bytes=_UNKNOWN,
        ordered=True,
    )


def _update_result(rows: int) -> bytes:
    return bytes(messages.new("DoPutUpdateResult", record_count=rows).SerializeToString())

"""The supported actions of Flight SQL: prepared statements, cancellation, and the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seamline.errors import (
    INVALID_REQUEST,
    NOT_SUPPORTED,
    STATEMENT_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.access.audit import AuditLog
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.rules import Action
from seamline.gateway.catalogs import resolution
from seamline.gateway.flight import messages
from seamline.gateway.flight.callers import Caller
from seamline.gateway.flight.flight_data import schema_bytes
from seamline.gateway.flight.prepared import PreparedStatements
from seamline.gateway.flight.running import Call
from seamline.gateway.flight.sessions import NAMES, Sessions, check_option
from seamline.gateway.statements import audited, session_properties
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import FINAL

_CANCELLED, _CANCELLING, _NOT_CANCELLABLE = 1, 2, 3
_CLOSED, _NOT_CLOSEABLE = 1, 3
_INVALID_NAME, _INVALID_VALUE = 1, 2
_END_S = 5.0

Answer = Callable[[Call, bytes], Iterator[bytes]]


class Actions:
    """Executes actions. Safe to share between threads.

    Args:
        service: Runs statements.
        prepared: The prepared statements.
        sessions: The sessions of clients.
        audit: Records who ends statements.
        resolve: Returns the catalog and schema that a principal's names, or None, resolve to;
            raises an error if they are wrong.
    """

    def __init__(
        self,
        service: Service,
        prepared: PreparedStatements,
        sessions: Sessions,
        audit: AuditLog,
        resolve: Callable[[Principal, str | None, str | None], resolution.Session],
    ) -> None:
        self._service = service
        self._prepared = prepared
        self._sessions = sessions
        self._audit = audit
        self._resolution = resolve
        self._answers: Mapping[str, tuple[str, Answer]] = {
            "CreatePreparedStatement": ("Prepares a statement", self._prepare),
            "ClosePreparedStatement": ("Closes a prepared statement", self._close),
            "CancelFlightInfo": ("Ends a statement", self._cancel),
            "CancelQuery": ("Ends a statement; for older clients", self._cancel_query),
            "SetSessionOptions": ("Sets options of the session", self._set_options),
            "GetSessionOptions": ("Returns the options of the session", self._get_options),
            "CloseSession": ("Closes the session", self._close_session),
        }

    def described(self) -> Iterator[tuple[str, str]]:
        """Yields the name and the description of each action."""
        for name, (description, _) in self._answers.items():
            yield name, description

    def answer(self, call: Call, name: str, body: bytes) -> list[bytes]:
        """Executes an action, and returns its answer.

        Raises:
            SeamlineError: NOT_SUPPORTED for an unknown action, and what each action raises.
        """
        if name not in self._answers:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"there is no action {name[:100]}",
                hint=f"The actions are {', '.join(self._answers)}.",
            )
        return list(self._answers[name][1](call, body))

    def _prepare(self, call: Call, body: bytes) -> Iterator[bytes]:
        request = messages.unpacked_as("ActionCreatePreparedStatementRequest", body)
        messages.check_alone(request)
        handle, prepared = self._prepared.prepare(call, request.query)
        yield messages.packed(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle.encode(),
            dataset_schema=schema_bytes(prepared.description.columns),
            parameter_schema=schema_bytes(prepared.description.parameters),
            is_update=prepared.description.is_update,
        )

    def _close(self, call: Call, body: bytes) -> Iterator[bytes]:
        request = messages.unpacked_as("ActionClosePreparedStatementRequest", body)
        self._prepared.close(call, request.prepared_statement_handle)
        yield from ()

    # --- Ending statements -----------------------------------------------------------------------

    def _cancel(self, call: Call, body: bytes) -> Iterator[bytes]:
        info = messages.read("CancelFlightInfoRequest", body).info
        yield messages.new(
            "CancelFlightInfoResult", status=self._end(call, info)
        ).SerializeToString()

    def _cancel_query(self, call: Call, body: bytes) -> Iterator[bytes]:
        request = messages.unpacked_as("ActionCancelQueryRequest", body)
        info = messages.read("FlightInfo", request.info)
        yield messages.packed("ActionCancelQueryResult", result=self._end(call, info))

    def _end(self, call: Call, info: Any) -> int:
        """Ends the statement of a FlightInfo, and returns the status of the cancellation.

        Raises:
            SeamlineError: INVALID_REQUEST, STATEMENT_NOT_FOUND.
        """
        if len(info.endpoint) != 1:
            raise SeamlineError(INVALID_REQUEST, "the FlightInfo does not come from this gateway")
        name, ticket = messages.unpacked(info.endpoint[0].ticket.ticket)
        if name != "TicketStatementQuery":
            return _NOT_CANCELLABLE
        statement_id = ticket.statement_handle.decode(errors="replace")
        try:
            statement = self._service.statement(statement_id, call.caller.principal, Action.KILL)
        except SeamlineError as error:
            if error.code is not STATEMENT_NOT_FOUND:
                raise
            return _NOT_CANCELLABLE  # unknown, or ended with its rows fetched
        self._record(call.caller)
        if statement.state in FINAL:
            statement.close()
            return _CANCELLED
        statement.cancel()
        return _CANCELLED if statement.wait(_END_S) in FINAL else _CANCELLING

    def _record(self, caller: Caller) -> None:
        """Records in the audit log that the caller ends a statement, which may be another's."""
        if self._audit.is_on:
            fields = audited.who(caller.principal, caller.origin)
            self._audit.write("request", {**fields, "request": "Flight CancelFlightInfo"})

    # --- Sessions --------------------------------------------------------------------------------

    def _set_options(self, call: Call, body: bytes) -> Iterator[bytes]:
        request = messages.read("SetSessionOptionsRequest", body)
        answer = messages.new("SetSessionOptionsResult")
        for name, value in request.session_options.items():
            error = self._set_option(call, name, _text(value))
            if error is not None:
                answer.errors[name].value = error
        yield answer.SerializeToString()

    def _set_option(self, call: Call, name: str, value: str | None) -> int | None:
        """Sets an option, or unsets it if the value is None; returns the error value, or None."""
        if name not in NAMES and name.lower() not in session_properties.PROPERTIES:
            return _INVALID_NAME
        if name not in NAMES:
            name = name.lower()
        try:
            if value is not None:
                check_option(name, value)
                options = {**call.session.options, name: value}
                self._resolve(call, options)
        except SeamlineError:
            return _INVALID_VALUE
        if name in NAMES:
            call.session.session.change({name: value})
        else:
            call.session.session.change({"properties": {name: value}})
        return None

    def _get_options(self, call: Call, _: bytes) -> Iterator[bytes]:
        answer, options = messages.new("GetSessionOptionsResult"), call.session.options
        session = self._resolve(call, options)
        options |= {"catalog": session.catalog, "schema": session.schema}
        for name, value in options.items():
            answer.session_options[name].string_value = value
        yield answer.SerializeToString()

    def _resolve(self, call: Call, options: Mapping[str, str]) -> resolution.Session:
        catalog, schema = (options.get(name) for name in NAMES)
        return self._resolution(call.caller.principal, catalog, schema)

    def _close_session(self, call: Call, _: bytes) -> Iterator[bytes]:
        status = _CLOSED if self._sessions.close(call.caller) else _NOT_CLOSEABLE
        yield messages.new("CloseSessionResult", status=status).SerializeToString()


def _text(value: Any) -> str | None:
    """Returns an option's value as the text that SET SESSION takes; None if it has no value."""
    kind = value.WhichOneof("option_value")
    if kind is None:
        return None
    option = getattr(value, kind)
    if kind == "string_list_value":
        return ",".join(option.values)
    return str(option).lower() if isinstance(option, bool) else str(option)

"""Runs the statements of calls: submits them, awaits them, sends rows, ends them with the call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.chunks import read_chunk
from seamline.errors import STATEMENT_NOT_ALLOWED, STATEMENT_NOT_FOUND, SeamlineError
from seamline.gateway.commands import updates
from seamline.gateway.flight.callers import Caller
from seamline.gateway.flight.sessions import CallSession
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import FINAL, State, Statement

_CHECK_S = 1.0
_FOREVER_S = 1e9
"""Calls without a deadline have more seconds left than this."""
NO_COLUMNS = pa.schema([])


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of a client."""

    caller: Caller
    session: CallSession
    context: Any


class _Watch:
    """Ends a statement when its call does, until it is released."""

    def __init__(self, call: Call, statement: Statement) -> None:
        self._statement = statement
        self._is_released = False
        if not call.context.add_callback(self._end):
            self._end()

    def release(self) -> None:
        """Leaves the statement as it is when the call ends."""
        self._is_released = True

    def _end(self) -> None:
        if not self._is_released:
            self._statement.cancel()


class Running:
    """Runs the statements of calls. Safe to share between threads."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def begin(
        self,
        call: Call,
        text: str,
        parameters: Any = (),
        *,
        prepared: Mapping[str, str] | None = None,
        continues: bool = False,
    ) -> Statement:
        """Submits a statement and waits for its columns, or for its end if it is an update.

        Columns are known once it is planned, and rows follow them: a client can end it meanwhile,
        but only by what it does with the columns. A call with a deadline waits for the first rows
        as well, since the client has said how long they may take.

        Args:
            call: The call that it ends with.
            text: The statement's SQL.
            parameters: Values of its placeholders.
            prepared: The prepared statements that it refers to, instead of the session's.
            continues: Whether it has already been counted, as part of another statement.

        Raises:
            SeamlineError: the error of the statement.
        """
        request, caller = call.session.request(text, parameters), call.caller
        if prepared is not None:
            request = dataclasses.replace(request, prepared=prepared)
        statement = self._service.submit(
            request, caller.principal, caller.origin, continues=continues
        )
        watch = _Watch(call, statement)
        has_deadline = call.context.time_remaining() < _FOREVER_S
        while statement.spool is None and statement.state not in FINAL:
            statement.wait_for_result(_CHECK_S)
            statement.touch()
            if not has_deadline and statement.tell_columns():
                break
        if updates.update_type(statement) is not None:
            while statement.wait(_CHECK_S) not in FINAL:
                pass
        watch.release()
        call.session.take(statement)
        if statement.error is not None:
            raise statement.error
        return statement

    def count(self, call: Call, text: str) -> None:
        """Counts a description of a statement as a statement.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        request, caller = call.session.request(text), call.caller
        self._service.count(request, caller.principal, caller.origin)

    def update(self, call: Call, text: str, parameters: Any = ()) -> int:
        """Runs an update to its end.

        Returns:
            The number of rows that it wrote.

        Raises:
            SeamlineError: the error of the statement; STATEMENT_NOT_ALLOWED for a query.
        """
        statement = self.begin(call, text, parameters)
        if updates.update_type(statement) is None:
            self._service.forget(statement)
            raise SeamlineError(
                STATEMENT_NOT_ALLOWED,
                "the statement is a query, and was sent as an update",
                hint="Execute it as a query to get its rows.",
            )
        written = updates.rows_written(statement)
        statement.close()
        return written or 0

    def rows(
        self,
        call: Call,
        text: str,
        parameters: Sequence[Any] = (),
        *,
        prepared: Mapping[str, str] | None = None,
        continues: bool = False,
    ) -> pa.Table:
        """Returns all rows of a small result; the arguments are those of `begin`."""
        statement = self.begin(call, text, parameters, prepared=prepared, continues=continues)
        chunks = list(self.chunks(call, statement))
        schema = statement.spool.schema if statement.spool is not None else NO_COLUMNS
        return pa.Table.from_batches([b for chunk in chunks for b in read_chunk(chunk)], schema)

    def forget(self, statement: Statement) -> None:
        """Releases a statement that its client does not know about."""
        self._service.forget(statement)

    def chunks(self, call: Call, statement: Statement) -> Iterator[bytes]:
        """Yields the chunks of a result as they are produced, and releases it after the last one.

        Raises:
            SeamlineError: why there are no more.
        """
        watch = _Watch(call, statement)
        while statement.spool is None and statement.state not in FINAL:
            statement.wait_for_result(_CHECK_S)
            statement.touch()
        call.session.take(statement)
        index, spool = 0, statement.spool
        while spool is not None and statement.error is None:
            if not spool.has_chunk(index, _CHECK_S):
                # it may have ended since the check, with a chunk that the check did not find
                has_ended = spool.complete or statement.state in FINAL
                if has_ended and index >= spool.chunk_count:
                    break
                statement.touch()
                continue
            data = spool.chunk(index, 0.0)
            assert data is not None
            yield data
            index += 1
            statement.touch()
        while statement.wait(_CHECK_S) not in FINAL:
            pass
        watch.release()
        if statement.error is not None:
            raise statement.error
        if statement.state is not State.SUCCEEDED:
            raise SeamlineError(STATEMENT_NOT_FOUND, "the result has been released")
        statement.hand_over()
        statement.close()

"""Statements: what clients ask for, and the state and the result of each."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seamline.connectors import supervision
from seamline.errors import CANCELED, READ_CONFLICT, STATEMENT_LOST, SeamlineError
from seamline.gateway.access.audit import NOWHERE, Origin
from seamline.gateway.access.rights import Principal, Sight
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.statements.spool import ResultSpool
from seamline.sql.binder.scope import Output
from seamline.sql.parsing import statements as sql

NO_TRANSACTION = "NONE"
_ISSUER_BYTES, _OWN_BYTES = 6, 12
_ID = re.compile("[A-Za-z0-9_-]{24}")


class StatementIds:
    """Issues ids of statements, and recognises those of other gateways and of earlier processes."""

    def __init__(self) -> None:
        self._issuer = secrets.token_urlsafe(_ISSUER_BYTES)

    def new(self) -> str:
        """Returns a new id, which begins with the issuer and cannot be guessed."""
        return self._issuer + secrets.token_urlsafe(_OWN_BYTES)

    def require(self, statement_id: str) -> None:
        """Requires that an id, if it is one, was issued here.

        Raises:
            SeamlineError: STATEMENT_LOST.
        """
        if _ID.fullmatch(statement_id) and not statement_id.startswith(self._issuer):
            raise SeamlineError(
                STATEMENT_LOST,
                f"the gateway that ran statement {statement_id} is gone, and its result with it",
            )


class State(enum.Enum):
    """The states of a statement; the last four are final."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"


PATIENCE_S = 1.0
"""Seconds that a statement told to end may take to do so by itself."""
FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED, State.CLOSED})


@dataclasses.dataclass(frozen=True, slots=True)
class StatementRequest:
    """What a client asks for.

    Attributes:
        statement: The SQL text.
        parameters: Values for placeholders: a list, or a dict by name.
        catalog: Default catalog of its names.
        schema: Default schema of its names.
        dialect: The SQL dialect it is written in, if not the default one.
        engine: `auto`, `duckdb` or `spark`; None means the session's, or else `auto`.
        token: Token of an earlier receipt, to read the same rows again.
        after: Session tokens and write tokens that it must not fall behind.
        freshness: `latest`, `bounded '500ms'` or `cached`; None means the session's, or else
            `latest`.
        result_cache: Whether its result may be that of another statement; None means the session's,
            or else that it may.
        aggregates: Which aggregates may be merged from partial ones: `off`, `exact` or `all`; None
            means the session's, or else `exact`.
        timeout_s: Seconds it may take; None means the gateway's limit.
        row_limit: Rows after which the result is cut off and marked as such.
        time_zone: The zone in which local times become instants, unless the session sets another;
            None means UTC.
        properties: The session's properties, by name.
        prepared: The session's prepared statements: texts by name.
        transaction: The session's transaction, `NO_TRANSACTION` outside of any; None where sessions
            have no transactions.
        source: The program it comes from, as the program calls itself.
        client_tags: Tags that the program adds.
        carries_tokens: Whether the client sends back the tokens that earlier answers gave it; if
            not, INSERT ends only once its rows can be read.
        prepared_bytes_max: Longest text that can be prepared, in bytes as encoded in a URL; None
            for any length.
    """

    statement: str
    parameters: Any = ()
    catalog: str | None = None
    schema: str | None = None
    dialect: str | None = None
    engine: str | None = None
    token: str | None = None
    after: tuple[str, ...] = ()
    freshness: str | None = None
    result_cache: bool | None = None
    aggregates: str | None = None
    timeout_s: float | None = None
    row_limit: int | None = None
    time_zone: str | None = None
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    prepared: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    transaction: str | None = None
    source: str | None = None
    client_tags: tuple[str, ...] = ()
    carries_tokens: bool = True
    prepared_bytes_max: int | None = None


class Statement:
    """One statement and everything that is known about it. Safe to read from any thread.

    Attributes:
        parsed: The parsed statement; for EXECUTE, the one that was prepared. None at first.
        changes: Changes to the client's session: `catalog`, `schema`, `properties` and `prepared`
            by name, `transaction`. A value that is None is unset; what is absent stays unchanged.
        tables: The tables it reads, with their columns, as far as it has been planned.
        sight: How much of these tables its principal may see.
        receipt: What its result reflects, as far as its principal may know.
        whole_receipt: What its result reflects, for the gateway itself.
        writes: The table it writes; None if it writes none.
        is_read: Whether it is known to be a query, which can be run again without harm.
        described: The columns, with types, of the query that it describes, if it describes one.
        held: Whether it does not run before its client has shown that it knows the id.
        is_blocked: Whether its thread waits for something outside, and cannot notice that it has
            been told to end.

    Args:
        request: What the client asks for.
        caller: The principal who asks.
        timeout_s: Seconds it may take.
        origin: Where the request comes from.
        on_end: Called once, when the statement has ended.
        statement_id: Its id; a new one by default.
    """

    def __init__(
        self,
        request: StatementRequest,
        caller: Principal,
        timeout_s: float,
        origin: Origin = NOWHERE,
        on_end: Callable[[Statement], None] = lambda _: None,
        statement_id: str | None = None,
    ) -> None:
        self.statement_id = StatementIds().new() if statement_id is None else statement_id
        self.request = request
        self.caller = caller
        self.origin = origin
        self.parsed: sql.Statement | None = None
        self.tables: Sequence[Mapping[str, Any]] = ()
        self.sight = Sight()
        self.is_read = False
        self.writes: str | None = None
        self.described: tuple[Output, ...] = ()
        self._on_end = on_end
        self.deadline = StatementDeadline(timeout_s)
        self.submitted_at = time.time()
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.touched_at = time.monotonic()
        self.output: tuple[Output, ...] = ()
        self.receipt: dict[str, Any] = {}
        self.whole_receipt: Mapping[str, Any] = {}
        self.progress: dict[str, Any] = {}
        self.changes: Mapping[str, Any] = {}
        self.write_token: str | None = None
        self.error: SeamlineError | None = None
        self.truncated = False
        self.held = False
        self.is_blocked = False
        self.handed_over = False
        self._spool: ResultSpool | None = None
        self._planned: tuple[Output, ...] = ()
        self._told: tuple[Output, ...] = ()
        self._state = State.PENDING
        self._has_rows = False
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._awaited = threading.Condition(lock)  # the end, and early rows
        self._should_have_ended_at: float | None = None
        self._forget: Callable[[], None] = lambda: None  # its time may be up immediately
        self._forget = self.deadline.on_end(self._give_up)

    @property
    def principal(self) -> str:
        """The name of the principal who submitted it, and owns its result and tokens."""
        return self.caller.name

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @property
    def spool(self) -> ResultSpool | None:
        """The result, once there is one."""
        return self._spool

    @property
    def size_bytes(self) -> int:
        """The size of what is kept of it: its text and its result."""
        return len(self.request.statement) + (self._spool.size_bytes if self._spool else 0)

    @property
    def trino_state(self) -> str:
        """Its state as named in Trino's protocol and tables."""
        match self.state:
            case State.PENDING:
                return "QUEUED"
            case State.RUNNING:
                return "RUNNING" if self.progress.get("engine") else "PLANNING"
            case State.SUCCEEDED:
                return "FINISHED"
        return "FAILED"

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was submitted; once it has ended, the seconds it took."""
        return (self.finished_at or time.time()) - self.submitted_at

    @property
    def waited_s(self) -> float:
        """Seconds that it waited before it was run; so far, if it still waits."""
        return (self.started_at or self.finished_at or time.time()) - self.submitted_at

    @property
    def asked_for_at(self) -> float:
        """When its client last asked for it, in seconds since 1970."""
        return time.time() - (time.monotonic() - self.touched_at)

    def begin(self) -> bool:
        """Moves it from waiting to running; returns False if it was canceled while it waited."""
        return self._move(State.RUNNING, only_from=State.PENDING)

    def planned(self, output: tuple[Output, ...]) -> None:
        """Notes which columns its rows will have, each time that it is planned.

        Raises:
            SeamlineError: READ_CONFLICT if its client has been told other columns.
        """
        with self._changed:
            if self._told and self._told != output:
                raise SeamlineError(READ_CONFLICT, "the columns of the result have changed")
            self._planned = output
            self._changed.notify_all()

    def tell_columns(self) -> tuple[Output, ...]:
        """Returns its columns as far as they are known, which from then on stay the same."""
        with self._changed:
            self._told = self._planned if self._spool is None else self.output
            return self._told

    def opened(self, output: tuple[Output, ...], spool: ResultSpool) -> None:
        """Notes that its columns are known and rows are about to come."""
        spool.on_early_rows = self._note_rows
        with self._changed:
            self.output = output
            self._spool = spool
            self._changed.notify_all()
            has_failed = self._state in FINAL - {State.SUCCEEDED}
        if has_failed:  # it was given up, and its work has not noticed yet
            spool.close()

    def succeed(self) -> None:
        """Notes that every row is there."""
        if self._spool is not None:
            self._spool.finish()
        self._move(State.SUCCEEDED)

    def fail(self, error: SeamlineError) -> None:
        """Ends it with an error, and without a result."""
        with self._changed:
            if self._state in FINAL:
                return
            error.query_id = self.statement_id
            error.__cause__ = error.__context__ = None
            self.error = error.with_traceback(None)  # its frames hold trees and rows
        if self._spool is not None:
            supervision.attempt("statement", functools.partial(self._spool.abort, error))
        self._move(State.CANCELED if error.code is CANCELED else State.FAILED)

    def cancel(self, why: str = "the statement was canceled") -> None:
        """Asks it to end; everybody who waits for it learns why."""
        error = SeamlineError(CANCELED, why)
        self.deadline.cancel(error)
        if self._state is State.PENDING:
            self.fail(error)

    def close(self) -> None:
        """Releases its result."""
        self.cancel()
        if self._spool is not None:
            self._spool.close()
        with self._changed:
            had_ended = self._state in FINAL
            self._state = State.CLOSED
            self._changed.notify_all()
            self._awaited.notify_all()
        if not had_ended:
            self._tell_end()

    def wait(self, seconds: float) -> State:
        """Waits until it has ended or the time is up; returns its state."""
        return self._wait(lambda: self._state in FINAL, seconds)

    def wait_for_rows(self, seconds: float) -> State:
        """Waits until it has ended, rows can be fetched before that, or the time is up.

        Returns:
            Its state.
        """
        return self._wait(lambda: self._has_rows or self._state in FINAL, seconds)

    def wait_for_plan(self, seconds: float) -> bool:
        """Waits until the columns are known, it has ended, or the time is up.

        Returns:
            Whether its client has been told the columns.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._planned or self._spool is not None or self._state in FINAL, seconds
            )
            return bool(self._told)

    def wait_for_result(self, seconds: float) -> None:
        """Waits until its result is open, it has ended, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._spool is not None or self._state in FINAL, seconds)

    def is_wanted(self, quiet_s: float) -> bool:
        """Whether it has not ended yet, or somebody may still fetch its rows.

        Args:
            quiet_s: Seconds without a request after which a client is considered gone.
        """
        if self._state not in FINAL and not self.held:
            return True
        if self._state not in {State.PENDING, State.SUCCEEDED} or self.handed_over:
            return False
        return time.monotonic() - self.touched_at < quiet_s

    def hand_over(self) -> None:
        """Notes that its last rows are on their way to the client."""
        self.handed_over = True

    def touch(self) -> None:
        """Notes that its client is still interested."""
        self.touched_at = time.monotonic()

    def _give_up(self) -> None:
        """Ends it if no runner has taken it, or if its work cannot or does not end by itself.

        What the work still holds is released once it notices.
        """
        now = time.monotonic()
        if self._should_have_ended_at is None:
            self._should_have_ended_at = now
        waits = self._state is State.PENDING or self.is_blocked
        if waits or now - self._should_have_ended_at > PATIENCE_S:
            try:
                self.deadline.check()
            except SeamlineError as error:
                self.fail(error)

    def _wait(self, has_come: Callable[[], bool], seconds: float) -> State:
        self.touch()
        with self._changed:
            self._awaited.wait_for(has_come, seconds)
        self.touch()
        return self._state

    def _note_rows(self) -> None:
        with self._changed:
            self._has_rows = True
            self._awaited.notify_all()

    def _move(self, state: State, only_from: State | None = None) -> bool:
        with self._changed:
            if self._state in FINAL or (only_from and self._state is not only_from):
                return False
            self._state = state
            if state is State.RUNNING:
                self.started_at = time.time()
            if state in FINAL:
                self.finished_at = time.time()
                self.deadline.close()
                self._forget()
                if self.request.parameters or self.request.prepared:
                    self.request = dataclasses.replace(self.request, parameters=(), prepared={})
                if isinstance(self.parsed, sql.Query):  # its tree is many times its text
                    self.parsed = None
                self._awaited.notify_all()
            self._changed.notify_all()
        if state in FINAL:
            self._tell_end()
        return True

    def _tell_end(self) -> None:
        supervision.attempt("statement", lambda: self._on_end(self))

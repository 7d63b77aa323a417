"""The service: submit, status, fetch, cancel. It knows nothing about HTTP, engines or tables.

Statements wait for one of a fixed number of runners, run under their deadline, and leave a result
and a receipt. The next statement to run is the oldest of the principal with the fewest running, so
nobody waits for the many statements of someone else. A statement that waits for a catalog, a
cluster or the like gives its runner to others until it has an answer. While this process is busy
and others have statements too, a principal with more than one waiting, or with a long one, runs one
at a time. Whatever goes wrong becomes a named error of the statement. A result that nobody fetches
is released after a while, and a running statement that nobody asks about is canceled.
"""

from __future__ import annotations

import collections
import concurrent.futures
import logging
import math
import sys
import threading
import time
from collections.abc import Callable

from seamline.connectors import dependencies, supervision
from seamline.errors import (
    INVALID_REQUEST,
    RETRY_AFTER,
    SHUTTING_DOWN,
    STATEMENT_NOT_FOUND,
    STATEMENT_TOO_LARGE,
    TOO_MANY_STATEMENTS,
    SeamlineError,
)
from seamline.gateway.access.audit import NOWHERE, AuditLog, Origin
from seamline.gateway.access.rights import Principal, Rights
from seamline.gateway.access.rules import Action
from seamline.gateway.config.model import LimitsConfig
from seamline.gateway.statements import audited, session_properties
from seamline.gateway.statements.history import History, Summary, summary_of
from seamline.gateway.statements.metrics import Metrics
from seamline.gateway.statements.rates import MinuteRate, ProcessLoad
from seamline.gateway.statements.statement import (
    FINAL,
    State,
    Statement,
    StatementIds,
    StatementRequest,
)
from seamline.planners.plan.route import ENGINES

_LOG = logging.getLogger("seamline.service")
ABANDONED_S = 300.0
CROWDED_ABANDONED_S = 60.0
_HELD_MAX = 64
"""Statements of one principal whose clients have yet to ask for their first page."""
QUIET_S = 5.0
_DRAIN_LOOK_S = 0.1
_LONG = 2_000
"""Characters of a statement whose analysis keeps this process busy for milliseconds."""
_LATELY_S = 1.0
_CALLS_MAX = 3000
"""Nested calls that a deeply nested statement may take; each of them is small."""
_BLOCKED_MAX = 256
"""Statements that may wait for catalogs, clusters and the like besides those that run."""
_RETURN_LOOK_S = 1.0


class Service:
    """One gateway's statements. Safe to share between threads.

    Args:
        limits: How many statements may run, and for how long.
        answer: Runs a statement to its result.
        metrics: Counts statements that ended.
        rights_of: Returns a principal's rights; by default, everything with their own statements.
        audit: Records every statement that has ended, or was refused.
        load: How busy this process is.
        is_short: Whether a statement is known to wait for nothing and to compute next to nothing;
            by default, none is.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        answer: Callable[[Statement], None],
        metrics: Metrics,
        rights_of: Callable[[Principal], Rights] = Rights,
        audit: AuditLog | None = None,
        load: ProcessLoad | None = None,
        is_short: Callable[[StatementRequest, Principal], bool] = lambda _request, _caller: False,
    ) -> None:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _CALLS_MAX))
        self._limits = limits
        self._answer = answer
        self._metrics = metrics
        self._rights_of = rights_of
        self._audit = audit or AuditLog()
        self._runners = concurrent.futures.ThreadPoolExecutor(
            limits.statements_running_max + _BLOCKED_MAX, "seamline-statement"
        )
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._looking = 0
        self._blocked = 0
        self._returning = 0
        self.ids = StatementIds()
        self._statements: dict[str, Statement] = {}
        self._waiting: list[Statement] = []
        self._history = History(limits.principal_history_max)
        self._rate = MinuteRate(limits.statements_per_minute_max)
        self._own_rate = MinuteRate(limits.principal_statements_per_minute_max)
        self._running: collections.Counter[str] = collections.Counter()
        self._ran_at: dict[str, float] = {}
        self._load = load or ProcessLoad()
        self._is_short = is_short
        self._refusing = threading.Event()
        self._stopping = threading.Event()

    def submit(
        self,
        request: StatementRequest,
        caller: Principal,
        origin: Origin = NOWHERE,
        *,
        continues: bool = False,
        held: bool = False,
    ) -> Statement:
        """Accepts a statement; it runs as soon as a runner is free, or here if it is short.

        Args:
            request: What the client asks for.
            caller: The principal who asks.
            origin: Where the request comes from.
            continues: Whether it continues an earlier statement, and so does not count against the
                limits per minute.
            held: Whether it only waits until it is started, and does not count as waiting before.

        Raises:
            SeamlineError: INVALID_REQUEST, INVALID_SESSION_PROPERTY, TOO_MANY_STATEMENTS,
                SHUTTING_DOWN.
        """
        try:
            return self._accept(request, caller, origin, continues=continues, held=held)
        except SeamlineError as error:
            audited.refused(self._audit, request, caller, origin, error)
            raise

    def count(self, request: StatementRequest, caller: Principal, origin: Origin = NOWHERE) -> None:
        """Counts a request to describe a statement against the limits per minute, like a statement.

        The statements run for it then continue it; see `submit`.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        try:
            with self._lock:
                self._count(caller)
        except SeamlineError as error:
            audited.refused(self._audit, request, caller, origin, error)
            raise

    def _accept(
        self,
        request: StatementRequest,
        caller: Principal,
        origin: Origin,
        *,
        continues: bool,
        held: bool,
    ) -> Statement:
        request = session_properties.applied(request)
        if request.engine is not None and request.engine not in ENGINES:
            raise SeamlineError(
                INVALID_REQUEST,
                f"engine {request.engine!r} is not known",
                hint=f"engine must be one of: {', '.join(ENGINES)}",
            )
        longest = self._limits.statement_seconds_max
        timeout_s = longest if request.timeout_s is None else min(longest, request.timeout_s)
        if timeout_s <= 0:
            raise SeamlineError(INVALID_REQUEST, "timeout must be greater than zero")
        with self._lock:
            if self._refusing.is_set():
                raise SeamlineError(SHUTTING_DOWN, "the gateway is stopping")
            if not held:
                self._check_waiting(caller)
            if not continues:
                self._count(caller)
            at_end = self._write_down if continues else self._ended
            statement = Statement(request, caller, timeout_s, origin, at_end, self.ids.new())
            statement.held = held
            self._statements[statement.statement_id] = statement
            begins = not held and self._is_short(request, caller) and self._begin(statement)
            if not held and not begins:
                self._waiting.append(statement)
                self._wake_runner()
        if held:
            self._drop_held(caller)
        if begins:
            self._run_begun(statement)
            with self._lock:
                if self._waiting:
                    self._wake_runner()
        return statement

    def start(self, statement: Statement) -> None:
        """Lets a statement run that was held until now; does nothing for any other.

        It fails with TOO_MANY_STATEMENTS if too many are waiting.
        """
        with self._lock:
            if not statement.held or self._stopping.is_set():
                return
            statement.held = False
            try:
                self._check_waiting(statement.caller)
            except SeamlineError as error:
                refusal = error
            else:
                self._waiting.append(statement)
                self._wake_runner()
                return
        statement.fail(refusal)

    def _drop_held(self, caller: Principal) -> None:
        """Ends the oldest of a principal's held statements while there are too many.

        Nobody has asked for their first page, and they wait for nothing else.
        """
        with self._lock:
            own = [s for s in self._statements.values() if s.held and s.principal == caller.name]
            held = [s for s in own if s.state is State.PENDING]
        for statement in held[: max(0, len(held) - _HELD_MAX)]:
            statement.cancel("many statements were submitted, and nobody asked for its first page")

    def _count(self, caller: Principal) -> None:
        """Counts another statement, unless too many have come within a minute.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        limits = self._limits
        rates = (
            (
                self._own_rate,
                caller.name,
                f"{caller.name} has",
                "principal_statements_per_minute_max",
            ),
            (self._rate, "", "clients have", "statements_per_minute_max"),
        )
        for rate, key, who, limit in rates:
            wait_s = rate.wait_s(key)
            if wait_s > 0:
                allowed = getattr(limits, limit)
                message = f"{who} submitted {allowed:,} statements within a minute"
                raise _too_many(message, limit, allowed, wait_s)
        for rate, key, *_ in rates:
            rate.count(key)

    def _check_waiting(self, caller: Principal) -> None:
        """Checks that another statement may wait; those with a free runner do not count as waiting.

        Raises:
            SeamlineError: TOO_MANY_STATEMENTS.
        """
        limits = self._limits
        self._waiting = [s for s in self._waiting if s.state is State.PENDING]
        own = sum(s.principal == caller.name for s in self._waiting)
        own -= limits.principal_running_max - self._running[caller.name]
        if own >= limits.principal_queued_max:
            message = f"{own:,} statements of {caller.name} are waiting"
            raise _too_many(message, "principal_queued_max", limits.principal_queued_max)
        free = limits.statements_running_max - self._running.total() - self._returning
        if len(self._waiting) - free >= limits.statements_queued_max:
            message = f"{len(self._waiting):,} statements are waiting"
            raise _too_many(message, "statements_queued_max", limits.statements_queued_max)

    def statement(
        self, statement_id: str, caller: Principal, action: Action | None = None
    ) -> Statement:
        """Returns a statement of the caller; those of others do not exist for the caller.

        Args:
            statement_id: Its id.
            caller: The principal who asks.
            action: An action for which the rules may let the caller use the statements of others,
                too.

        Raises:
            SeamlineError: STATEMENT_NOT_FOUND; STATEMENT_LOST for one of another gateway.
        """
        with self._lock:
            statement = self._statements.get(statement_id)
        if statement is None:
            self.ids.require(statement_id)
        if (
            statement is None
            or statement.state is State.CLOSED
            or not self._may(caller, statement, action)
        ):
            raise SeamlineError(STATEMENT_NOT_FOUND, f"there is no statement {statement_id}")
        if statement.principal == caller.name:
            statement.touch()
        return statement

    def forget(self, statement: Statement) -> None:
        """Releases a statement that nobody else knows about."""
        with self._lock:
            self._statements.pop(statement.statement_id, None)
        statement.close()

    def summaries(self, caller: Principal) -> list[Summary]:
        """Returns summaries of the latest statements that a principal may see, newest first.

        These include statements of which nothing else remains.
        """
        by_id = {summary.statement_id: summary for summary in self._history.all()}
        with self._lock:
            current = list(self._statements.values())
        for statement in current:
            if statement.state is not State.CLOSED:
                by_id[statement.statement_id] = summary_of(statement)
        seen = [s for s in by_id.values() if self._may_act(caller, s.user, Action.VIEW)]
        return sorted(seen, key=lambda s: s.submitted_at, reverse=True)

    def statements(self, caller: Principal) -> list[Statement]:
        """Returns the statements that a principal may see, newest first."""
        with self._lock:
            current = list(self._statements.values())
        seen = [s for s in current if self._may(caller, s, Action.VIEW)]
        return sorted(seen, key=lambda s: s.submitted_at, reverse=True)

    def all(self) -> list[Statement]:
        """Returns every statement that has not been released, of all principals."""
        with self._lock:
            return list(self._statements.values())

    @property
    def accepts_statements(self) -> bool:
        """Whether new statements are accepted: until it drains or closes."""
        return not self._refusing.is_set()

    def drain(self, seconds_max: float) -> None:
        """Refuses new statements, and waits until those accepted have ended and been fetched.

        Args:
            seconds_max: How long to wait at most.
        """
        with self._lock:
            self._refusing.set()
            accepted = list(self._statements.values())
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline and any(s.is_wanted(QUIET_S) for s in accepted):
            if self._stopping.wait(_DRAIN_LOOK_S):
                return

    def sweep(self) -> None:
        """Releases results that nobody asks for, and cancels statements that nobody asks about.

        They are canceled sooner while others wait for a runner. Also releases the oldest results
        while there are too many.
        """
        now = time.monotonic()
        with self._lock:
            is_crowded = any(s.state is State.PENDING for s in self._waiting)
            quiet_s_max = CROWDED_ABANDONED_S if is_crowded else ABANDONED_S
            for statement_id, statement in list(self._statements.items()):
                idle = now - statement.touched_at
                if statement.state in FINAL and idle > self._limits.result_seconds:
                    del self._statements[statement_id]
                    supervision.attempt("sweeper", statement.close)
                elif statement.state not in FINAL and idle > quiet_s_max:
                    supervision.attempt("sweeper", statement.cancel)
            for statement in self._crowded_out():
                self._statements.pop(statement.statement_id, None)
                supervision.attempt("sweeper", statement.close)

    def _crowded_out(self) -> list[Statement]:
        """Returns the ended statements that exceed the limits.

        They are the oldest ones of their principal, or of the principal who holds the most.
        """
        limits, crowded_out = self._limits, []
        kept: dict[str, list[Statement]] = collections.defaultdict(list)
        sizes: collections.Counter[str] = collections.Counter()
        ended = [s for s in self._statements.values() if s.state in FINAL]
        for statement in sorted(ended, key=lambda s: s.touched_at, reverse=True):
            own, name = kept[statement.principal], statement.principal
            size = sizes[name] + statement.size_bytes
            if len(own) >= limits.principal_results_max or size > limits.principal_results_bytes:
                crowded_out.append(statement)
                continue
            own.append(statement)
            sizes[name] = size
        while sizes.total() > limits.results_bytes:
            name = max(sizes, key=lambda name: sizes[name])
            crowded_out.append(kept[name].pop())
            sizes[name] -= crowded_out[-1].size_bytes
        return crowded_out

    def close(self) -> None:
        """Cancels running statements, and waits for them."""
        with self._lock:
            self._refusing.set()
            self._stopping.set()
            running = list(self._statements.values())
        for statement in running:
            statement.cancel()
        self._runners.shutdown(wait=True, cancel_futures=True)
        for statement in running:
            if statement.spool is not None:
                statement.spool.close()

    def _may(self, caller: Principal, statement: Statement, action: Action | None) -> bool:
        return self._may_act(caller, statement.principal, action)

    def _may_act(self, caller: Principal, owner: str, action: Action | None) -> bool:
        if owner == caller.name:
            return True
        return action is not None and self._rights_of(caller).may(action, owner)

    def _ended(self, statement: Statement) -> None:
        self._history.add(statement)
        self._write_down(statement)

    def _write_down(self, statement: Statement) -> None:
        audited.ended(self._audit, statement)

    # --- Runners -------------------------------------------------------------------------------

    def _wake_runner(self) -> None:
        """Has another thread look for a statement to run, if one more may run."""
        if self._running.total() + self._looking < self._limits.statements_running_max:
            self._looking += 1
            self._runners.submit(supervision.attempt, "statement", self._run_next)

    def _run_next(self) -> None:
        """Runs statements until none may run: a runner that has ended one looks for the next."""
        statement = self._take(is_woken=True)
        while statement is not None:
            self._run_begun(statement)
            statement = self._take()

    def _run_begun(self, statement: Statement) -> None:
        try:
            with dependencies.calls_of(_Runner(self, statement)):
                self._run(statement)
        finally:
            with self._lock:
                self._running[statement.principal] -= 1
                self._changed.notify_all()

    def _begin(self, statement: Statement) -> bool:
        """Begins a statement that may run at once, as none waits; returns whether it did."""
        limits, name = self._limits, statement.principal
        is_full = self._running.total() + self._returning >= limits.statements_running_max
        if is_full or self._running[name] >= limits.principal_running_max or self._waiting:
            return False
        return self._note_begin(statement)

    def _note_begin(self, statement: Statement) -> bool:
        """Moves a statement to running and counts it, unless it was canceled before."""
        if not statement.begin():
            return False
        self._ran_at[statement.principal] = time.monotonic()
        self._running[statement.principal] += 1
        return True

    def _take(self, *, is_woken: bool = False) -> Statement | None:
        """Returns the next statement to run, or None if none may run.

        It is the oldest of the principal with the fewest running.
        """
        with self._lock:
            self._looking -= is_woken
            if self._stopping.is_set():
                return None
            while True:
                may = self._may_run()
                if not may:
                    return None
                statement = min(may, key=lambda s: self._running[s.principal])
                self._waiting.remove(statement)
                if self._note_begin(statement):
                    if self._waiting:  # for the statements that had to wait for this one
                        self._wake_runner()
                    return statement

    def release_runner(self, statement: Statement) -> bool:
        """Lets another statement run while one waits for something outside.

        Returns:
            Whether it does; not if very many wait already.
        """
        with self._lock:
            if self._blocked >= _BLOCKED_MAX:
                return False
            self._blocked += 1
            self._running[statement.principal] -= 1
            self._changed.notify_all()
            if self._waiting and not self._stopping.is_set():
                self._wake_runner()
        return True

    def regain_runner(self, statement: Statement) -> None:
        """Waits until a statement that has waited for something outside may run again."""
        with self._changed:
            self._blocked -= 1
            self._returning += 1
            try:
                while not self._may_return(statement):
                    self._changed.wait(_RETURN_LOOK_S)
            finally:
                self._returning -= 1
                self._running[statement.principal] += 1

    def _may_return(self, statement: Statement) -> bool:
        """Whether a statement may run again; one that has ended only has to notice it."""
        is_over = statement.state in FINAL or self._stopping.is_set()
        return is_over or self._running.total() < self._limits.statements_running_max

    def _may_run(self) -> list[Statement]:
        """Returns the waiting statements of principals who may have another one running."""
        if self._running.total() + self._returning >= self._limits.statements_running_max:
            return []
        waiting = collections.Counter(s.principal for s in self._waiting)
        now = time.monotonic()
        self._ran_at = {
            name: at
            for name, at in self._ran_at.items()
            if self._running[name] or now - at <= _LATELY_S
        }
        shares = len(waiting.keys() | self._ran_at.keys()) > 1 and self._load.is_high

        def may(statement: Statement) -> bool:
            name = statement.principal
            count = self._running[name]
            if count >= self._limits.principal_running_max:
                return False
            if not (shares and count):
                return True
            return waiting[name] <= 1 and len(statement.request.statement) <= _LONG

        return [s for s in self._waiting if may(s)]

    def _run(self, statement: Statement) -> None:
        try:
            self._answer(statement)
            statement.succeed()
        except SeamlineError as error:
            statement.fail(error)
        except RecursionError:
            statement.fail(SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply"))
        except BaseException as error:  # noqa: BLE001 - a statement ends with a named error
            _LOG.exception("statement %s failed", statement.statement_id)
            statement.fail(supervision.named(error))
        self._metrics.finished(statement)
        _LOG.info(
            "statement %s by %s: %s in %.3f s",
            statement.statement_id,
            statement.principal,
            statement.error.code.name if statement.error else statement.state.value,
            statement.elapsed_s,
        )


class _Runner(dependencies.Caller):
    """The runner of one statement, for the calls that the statement makes."""

    def __init__(self, service: Service, statement: Statement) -> None:
        super().__init__()
        self._service = service
        self._statement = statement
        self._is_released = False

    def release(self) -> None:
        """See `Caller.release`."""
        self._statement.is_blocked = True
        self._is_released = self._service.release_runner(self._statement)

    def regain(self) -> None:
        """See `Caller.regain`."""
        self._statement.is_blocked = False
        if self._is_released:
            self._service.regain_runner(self._statement)


def _too_many(message: str, limit: str, allowed: int, wait_s: float = 1.0) -> SeamlineError:
    """Returns the error for a number of statements that has reached its limit."""
    return SeamlineError(
        TOO_MANY_STATEMENTS,
        f"{message}; limits.{limit} is {allowed:,}",
        details={"limit": f"limits.{limit}", "allowed": allowed, RETRY_AFTER: math.ceil(wait_s)},
    )

"""Scan plans, which clients submit, fetch page by page, and cancel.

A plan belongs to the principal that asked for it. It is kept until it is canceled or nobody has
asked for it for a while. If there are too many plans, the principal with the most loses its oldest.
The files that a plan names have their own leases and outlive it, because an engine drops a plan
before it reads. If there are several principals, each may have at most half of the threads.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import secrets
import threading
import time
from collections.abc import Callable

from seamline.connectors import supervision
from seamline.connectors.iceberg.tables.scan import FileTask
from seamline.errors import PLAN_NOT_FOUND, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.iceberg_rest.scans import ScanPlan

TASKS_PER_PAGE = 1000
"""Files in one page of a plan."""
WAIT_S = 30.0
"""Seconds to wait for a new plan; a client has to poll for one that takes longer."""
KEPT_S = 600.0
PLANS_MAX = 1000
_WORKERS = 8
_OWN_WORKERS = 4
"""Maximum number for one principal, if there are several."""


_Made = concurrent.futures.Future[ScanPlan]


@dataclasses.dataclass(slots=True)
class SubmittedPlan:
    """One plan.

    Attributes:
        plan_id: Its id.
        principal: Who asked for it.
        table: Full name of the table.
        deadline: Cancels it.
        result: The plan, once it is made.
        touched_at: When it was last asked for, in monotonic seconds.
        page_size: Number of files in one page.
        canceled: Whether it was canceled, in which case it has no files.
    """

    plan_id: str
    principal: str
    table: tuple[str, ...]
    deadline: StatementDeadline
    result: _Made
    touched_at: float
    page_size: int = TASKS_PER_PAGE
    canceled: bool = False

    @property
    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self.result.done()

    def pages(self) -> int:
        """Returns the number of pages of a successful plan."""
        return max(1, -(-len(self.result.result().tasks) // self.page_size))

    def page(self, number: int) -> tuple[FileTask, ...]:
        """Returns one page of its files."""
        start = number * self.page_size
        return self.result.result().tasks[start : start + self.page_size]


class ScanPlans:
    """The plans of one gateway. Safe to share between threads.

    Args:
        seconds_max: Seconds that a plan may take at most.
        page_size: Number of files in one page.
        shared: Whether there are several principals.
    """

    def __init__(
        self, seconds_max: float, page_size: int = TASKS_PER_PAGE, *, shared: bool = False
    ) -> None:
        self._seconds_max = seconds_max
        self._page_size = page_size
        self._lock = threading.Lock()
        self._plans: dict[str, SubmittedPlan] = {}
        self._workers = _Workers(_OWN_WORKERS if shared else _WORKERS)

    def submit(
        self,
        principal: str,
        table: tuple[str, ...],
        make: Callable[[StatementDeadline], ScanPlan],
    ) -> SubmittedPlan:
        """Starts a plan and waits briefly for it.

        Raises:
            SeamlineError: its error, if it has failed by then.
        """
        deadline = StatementDeadline(self._seconds_max)
        result = self._workers.submit(principal, lambda: _run(make, deadline))
        plan_id, now = secrets.token_urlsafe(18), time.monotonic()
        plan = SubmittedPlan(plan_id, principal, table, deadline, result, now, self._page_size)
        with self._lock:
            self._plans[plan.plan_id] = plan
            self._drop_old()
        try:
            result.result(WAIT_S)
        except concurrent.futures.TimeoutError:
            pass
        except BaseException:
            self._forget(plan.plan_id)
            raise
        return plan

    def find(self, plan_id: str, principal: str, table: tuple[str, ...]) -> SubmittedPlan:
        """Returns a plan of a principal for a table.

        Raises:
            SeamlineError: PLAN_NOT_FOUND.
        """
        with self._lock:
            plan = self._plans.get(plan_id)
            if plan is None or plan.principal != principal or plan.table != table:
                raise SeamlineError(PLAN_NOT_FOUND, f"there is no plan {plan_id}")
            plan.touched_at = time.monotonic()
            return plan

    def cancel(self, plan: SubmittedPlan) -> None:
        """Cancels a plan, or releases one that is done."""
        plan.canceled = True
        plan.deadline.cancel()
        gone: _Made = concurrent.futures.Future()
        gone.set_exception(SeamlineError(PLAN_NOT_FOUND, "the plan was canceled"))
        plan.result = gone  # a request that is waiting for it ends now

    def close(self) -> None:
        """Ends every plan."""
        with self._lock:
            plans = list(self._plans.values())
        for plan in plans:
            self.cancel(plan)
        self._workers.close()

    def _forget(self, plan_id: str) -> None:
        with self._lock:
            self._plans.pop(plan_id, None)

    def _drop_old(self) -> None:
        """Drops plans that nobody asks for, and surplus ones. Called with the lock held."""
        now = time.monotonic()
        old = [k for k, plan in self._plans.items() if now - plan.touched_at > KEPT_S]
        for plan_id in old:
            self._plans.pop(plan_id).deadline.cancel()
        while len(self._plans) > PLANS_MAX:
            of = collections.Counter(plan.principal for plan in self._plans.values())
            ((most, _),) = of.most_common(1)
            oldest = next(k for k, plan in self._plans.items() if plan.principal == most)
            self._plans.pop(oldest).deadline.cancel()


class _Workers:
    """Threads that make plans; next is the oldest of the principal with the fewest in progress.

    Args:
        own_max: The number of plans of one principal that are made at once.
    """

    def __init__(self, own_max: int) -> None:
        self._own_max = own_max
        self._threads = concurrent.futures.ThreadPoolExecutor(_WORKERS, "seamline-plan")
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, _Made, Callable[[], ScanPlan]]] = []
        self._running: collections.Counter[str] = collections.Counter()

    def submit(self, principal: str, make: Callable[[], ScanPlan]) -> _Made:
        """Queues a plan to be made, and returns its future."""
        made: _Made = concurrent.futures.Future()
        with self._lock:
            self._waiting.append((principal, made, make))
            self._threads.submit(supervision.attempt, "plan", self._make)
        return made

    def close(self) -> None:
        """Ends the threads; waiting plans are not made."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, made, _ in waiting:
            made.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _make(self) -> None:
        """Makes plans until no other may start now."""
        while (work := self._take()) is not None:
            principal, made, make = work
            try:
                made.set_result(make())
            except BaseException as error:  # noqa: BLE001 - raised again to whoever asks
                made.set_exception(error)
            finally:
                with self._lock:
                    self._running[principal] -= 1

    def _take(self) -> tuple[str, _Made, Callable[[], ScanPlan]] | None:
        with self._lock:
            may = [w for w in self._waiting if self._running[w[0]] < self._own_max]
            if not may:
                return None
            next_ = min(may, key=lambda w: self._running[w[0]])
            self._waiting.remove(next_)
            self._running[next_[0]] += 1
            return next_


def _run(make: Callable[[StatementDeadline], ScanPlan], deadline: StatementDeadline) -> ScanPlan:
    try:
        deadline.check()
        return make(deadline)
    except Exception:
        raise
    except BaseException as error:
        raise supervision.named(error) from error  # libraries raise more than Exception
    finally:
        deadline.close()

"""Limits on the memory that running statements hold together, per principal and in total.

The limit of one statement is enforced in its own process. This module looks at all of these
processes a few times a second. When together they hold too much, it ends the statement that holds
the most, and the next one only after the first has released its memory. The memory that a process
holds before its statement begins does not count, nor do tails, which processes share, nor what
Spark holds.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence

from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import MEMORY_LIMIT, RETRY_AFTER, SeamlineError
from seamline.gateway.config.model import LimitsConfig
from seamline.gateway.statements.statement import State, Statement

LOOK_S = 0.25
_COME_AGAIN_S = 1


class MemoryLimits:
    """Ends statements that together hold too much memory.

    Args:
        limits: How much they may hold.
        statements: Returns all statements.
        held: Returns the bytes that the process of each running statement holds, by the statement's
            deadline.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        statements: Callable[[], Iterable[Statement]],
        held: Callable[[], Mapping[Deadline, int]],
    ) -> None:
        self._own_max = limits.principal_memory_bytes
        self._all_max = limits.statements_memory_bytes
        self._statements = statements
        self._held = held

    def look(self) -> float | None:
        """Ends statements if needed; returns seconds until the next look, None without limits."""
        if not self._own_max and not self._all_max:
            return None
        held = self._held()
        running = [s for s in self._statements() if s.state is State.RUNNING and s.deadline in held]
        sizes = {statement: held[statement.deadline] for statement in running}
        if self._own_max:
            by_principal: dict[str, list[Statement]] = collections.defaultdict(list)
            for statement in running:
                by_principal[statement.principal].append(statement)
            for name, own in by_principal.items():
                limit = "limits.principal_memory_bytes"
                _bound(own, sizes, self._own_max, f"the running statements of {name}", limit)
        if self._all_max:
            limit = "limits.statements_memory_bytes"
            _bound(running, sizes, self._all_max, "the running statements", limit)
        return LOOK_S


def _bound(
    statements: Sequence[Statement],
    sizes: Mapping[Statement, int],
    allowed: int,
    whose: str,
    limit: str,
) -> None:
    """Ends the largest of some statements if together they hold too much."""
    size = sum(sizes[statement] for statement in statements)
    if size <= allowed or any(statement.deadline.canceled for statement in statements):
        return
    details = {"limit": limit, "allowed": allowed, "bytes": size}
    if len(statements) > 1:
        details[RETRY_AFTER] = _COME_AGAIN_S
    largest = max(statements, key=lambda statement: sizes[statement])
    largest.deadline.cancel(
        SeamlineError(
            MEMORY_LIMIT,
            f"{whose} hold {size:,} bytes, this one the most; {limit} is {allowed:,}",
            hint="Run fewer at once, read less, or run it on Spark.",
            details=details,
        )
    )

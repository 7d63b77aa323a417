"""The outcome of statements: the latest of each principal, even after their results are gone.

The number of principals, the statements of each, and the text kept of each statement are bounded.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from seamline.connectors.cache import Cache
from seamline.errors import SeamlineError
from seamline.gateway.statements.statement import State, Statement

TEXT_MAX = 2_000
"""Characters that are kept of a statement's text."""
_PRINCIPALS_MAX = 256
_OF_RECEIPT = ("engine", "as_of", "rows_cold", "rows_hot", "bytes_cold", "bytes_hot", "retries")


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A summary of a statement.

    Attributes:
        statement_id: Its id.
        user: Who submitted it.
        statement: Its text, or the beginning of it.
        is_cut: Whether only the beginning of its text is kept.
        state: Its state; for a statement that has ended, the state that it ended in.
        submitted_at: Seconds since the epoch.
        finished_at: When it ended, in seconds since the epoch; None if it has not ended.
        elapsed_s: Seconds since it was submitted; once it has ended, the seconds it took.
        row_count: Rows of its result so far.
        receipt: A short form of its receipt; empty while that is not known.
        error: The error that it ended with, as JSON.
    """

    statement_id: str
    user: str
    statement: str
    is_cut: bool
    state: State
    submitted_at: float
    finished_at: float | None
    elapsed_s: float
    row_count: int
    receipt: Mapping[str, Any]
    error: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Returns all of it, without the values that are None."""
        body = dataclasses.asdict(self)
        body["state"] = self.state.value
        body["elapsed_s"] = round(self.elapsed_s, 6)
        return {name: value for name, value in body.items() if value is not None}


def summary_of(statement: Statement) -> Summary:
    """Returns the summary of a statement as it is now."""
    text, spool, receipt = statement.request.statement, statement.spool, statement.receipt
    short = {name: receipt[name] for name in _OF_RECEIPT if name in receipt}
    if "tables" in receipt:
        short["tables"] = [".".join(table["table"]) for table in receipt["tables"]]
    return Summary(
        statement_id=statement.statement_id,
        user=statement.principal,
        statement=text[:TEXT_MAX],
        is_cut=len(text) > TEXT_MAX,
        state=statement.state,
        submitted_at=statement.submitted_at,
        finished_at=statement.finished_at,
        elapsed_s=statement.elapsed_s,
        row_count=spool.row_count if spool is not None else 0,
        receipt=short,
        error=_short(statement.error) if statement.error is not None else None,
    )


def _short(error: SeamlineError) -> dict[str, Any]:
    body = error.to_json()
    return {**body, "message": body["message"][:TEXT_MAX]}


class History:
    """The latest statements that have ended. Safe to share between threads.

    Args:
        each_max: How many are kept for each principal.
    """

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._ended: Cache[str, collections.deque[Summary]] = Cache(_PRINCIPALS_MAX)

    def add(self, statement: Statement) -> None:
        """Keeps a statement that has ended."""
        ended = self._ended.get_or_make(
            statement.principal, lambda: collections.deque(maxlen=self._each_max)
        )
        ended.append(summary_of(statement))

    def all(self) -> list[Summary]:
        """Returns the statements of all principals."""
        return [summary for ended in self._ended.values() for summary in tuple(ended)]

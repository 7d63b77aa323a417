"""What a statement other than a query did, as every protocol reports it."""

from __future__ import annotations

from seamline.connectors.chunks import read_chunk
from seamline.gateway.commands import kinds
from seamline.gateway.commands.rows import METRICS, NOTES
from seamline.gateway.statements.statement import State, Statement


def update_type(statement: Statement) -> str | None:
    """Returns its keywords, such as `DROP TABLE`; None for a statement that returns rows."""
    return None if statement.parsed is None else kinds.update_type(statement.parsed)


def has_result(statement: Statement) -> bool:
    """Whether it returns rows that a client may want: those of a query, notes or metrics."""
    return update_type(statement) is None or statement.output in (NOTES, METRICS)


def rows_written(statement: Statement) -> int | None:
    """Returns how many rows it wrote, which is its result; None if it writes none."""
    parsed = statement.parsed
    if parsed is None or statement.state is not State.SUCCEEDED:
        return None
    if not kinds.kind_of(parsed).counts_rows:
        return None
    data = statement.spool.chunk(0, 0) if statement.spool is not None else None
    return None if data is None else int(next(read_chunk(data)).column(0)[0].as_py())

"""What a statement other than a query did, as every protocol reports it."""

from __future__ import annotations

from seamline.connectors.chunks import read_chunk
from seamline.gateway.commands.rows import METRICS, NOTES
from seamline.gateway.statements.statement import State, Statement
from seamline.sql import statements
from seamline.sql.statements import ChangeRows, CreateTableAs, Insert

_WRITING = (Insert, CreateTableAs, ChangeRows)


def update_type(statement: Statement) -> str | None:
    """Returns its keywords, such as `DROP TABLE`; None for a statement that returns rows."""
    return None if statement.parsed is None else statements.update_type(statement.parsed)


def has_result(statement: Statement) -> bool:
    """Whether it returns rows that a client may want: those of a query, notes or metrics."""
    return update_type(statement) is None or statement.output in (NOTES, METRICS)


def rows_written(statement: Statement) -> int | None:
    """Returns how many rows it wrote, which is its result; None if it writes none."""
    if not isinstance(statement.parsed, _WRITING) or statement.state is not State.SUCCEEDED:
        return None
    data = statement.spool.chunk(0, 0) if statement.spool is not None else None
    return None if data is None else int(next(read_chunk(data)).column(0)[0].as_py())

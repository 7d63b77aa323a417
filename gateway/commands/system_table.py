"""The inputs from which the tables of the catalog `system` are computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from seamline.connectors.protocols import Deadline
from seamline.gateway.connections import Sources
from seamline.gateway.query.statements import Statement

Row = tuple[Any, ...]
Statements = Callable[[], Sequence[Statement]]
"""Returns the statements that the caller may see."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The caller's view of the gateway.

    Attributes:
        sources: Catalogs and clusters, as far as the caller may see them.
        deadline: The deadline of the caller's statement.
        statements: Returns the statements that the caller may see.
    """

    sources: Sources
    deadline: Deadline
    statements: Statements


Rows = Callable[[Asked], Iterable[Row]]
"""Returns the rows of a table."""

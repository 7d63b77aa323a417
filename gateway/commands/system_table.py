"""What the tables of the catalog `system` are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from seamline.connectors.protocols import Deadline
from seamline.gateway.connections import Sources
from seamline.gateway.query.statements import Statement

Row = tuple[Any, ...]
Statements = Callable[[], Sequence[Statement]]
"""Gives the statements that whoever asks may see."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What there is for whoever asks.

    Attributes:
        sources: Catalogs and clusters, as they may see them.
        deadline: Their statement's.
        statements: The statements that they may see.
    """

    sources: Sources
    deadline: Deadline
    statements: Statements


Rows = Callable[[Asked], Iterable[Row]]
"""Makes the rows of a table."""

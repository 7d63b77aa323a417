"""The inputs from which the tables of the catalog `system` are computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seamline.connectors.protocols.deadlines import Deadline
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.statements.statement import Statement
from seamline.gateway.system.listings import Only

Row = tuple[Any, ...]
Statements = Callable[[], Sequence[Statement]]
"""Returns the statements that the caller may see."""


@dataclasses.dataclass(frozen=True, slots=True)
class SystemTableRequest:
    """The caller's view of the gateway.

    Attributes:
        sources: Catalogs and clusters, as far as the caller may see them.
        deadline: The deadline of the caller's statement.
        statements: Returns the statements that the caller may see.
        equals: Texts that columns equal in every wanted row; other rows may be left out.
    """

    sources: Sources
    deadline: Deadline
    statements: Statements
    equals: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def only(self, catalog: str, schema: str, table: str) -> Only:
        """Returns the wanted tables.

        Args:
            catalog: The column with their catalog; empty if all are in one.
            schema: The column with their schema.
            table: The column with their name.
        """
        return Only(*(self.equals.get(column) for column in (catalog, schema, table)))


Rows = Callable[[SystemTableRequest], Iterable[Row]]
"""Returns the rows of a table."""

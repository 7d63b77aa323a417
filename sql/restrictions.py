"""What of a table somebody may see: some of its rows, and some columns only changed or not at all.

The expressions are the owner's, in the SQL of statements, over all columns of the table. A row for
which the condition is not true is not there; a column that is denied does not exist; one with a
mask has the mask's value, of the column's type. They hold wherever the table is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp


@dataclasses.dataclass(frozen=True, slots=True)
class Restriction:
    """What of a table's rows and columns may be seen.

    Attributes:
        condition: Rows for which it is not true are left out; None for all rows.
        masks: What stands for columns, by their names in lower case.
        denied: Names of columns that do not exist, in lower case.
    """

    condition: exp.Expr | None = None
    masks: Mapping[str, exp.Expr] = dataclasses.field(default_factory=dict, hash=False)
    denied: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything is left out or changed."""
        return self.condition is not None or bool(self.masks or self.denied)

    @property
    def hides_columns(self) -> bool:
        """Whether the values of some column are not shown."""
        return bool(self.masks or self.denied)


NO_RESTRICTION = Restriction()

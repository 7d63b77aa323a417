"""Access restrictions on a table: row filters, column masks and denied columns.

The expressions are the owner's, in the SQL of statements, over all columns of the table. A row for
which the condition is not true is left out. A denied column does not exist. A masked column has the
mask's value, of the column's type. Restrictions apply wherever the table is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp


@dataclasses.dataclass(frozen=True, slots=True)
class Restriction:
    """The rows and columns of a table that may be seen.

    Attributes:
        condition: Rows for which it is not true are left out; None for all rows.
        masks: Expressions that replace columns, by lower-case column name.
        denied: Lower-case names of columns that do not exist.
    """

    condition: exp.Expr | None = None
    masks: Mapping[str, exp.Expr] = dataclasses.field(default_factory=dict, hash=False)
    denied: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything is left out or changed."""
        return self.condition is not None or bool(self.masks or self.denied)

    def of_user(self, user: str) -> Restriction:
        """Returns the same restriction, whose expressions take this for the current user."""

        def fixed(expression: exp.Expr) -> exp.Expr:
            return expression.transform(
                lambda node: exp.Literal.string(user) if isinstance(node, exp.CurrentUser) else node
            )

        condition = None if self.condition is None else fixed(self.condition)
        masks = {name: fixed(mask) for name, mask in self.masks.items()}
        return Restriction(condition, masks, self.denied)

    @property
    def hides_columns(self) -> bool:
        """Whether the values of any column are masked or denied."""
        return bool(self.masks or self.denied)


NO_RESTRICTION = Restriction()

"""Access restrictions on a table: row filters, column masks and denied columns.

The expressions are the owner's, in the SQL of statements, over all columns of the table. A row for
which the condition is not true is left out. A denied column does not exist. A masked column has the
mask's value, of the column's type. Restrictions apply wherever the table is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlglot import exp


@dataclasses.dataclass(frozen=True, slots=True)
class Restriction:
    """The rows and columns of a table that may be seen.

    Attributes:
        condition: Rows for which it is not true are left out; None for all rows.
        masks: Expressions that replace columns, by lower-case column name.
        denied: Lower-case names of columns that do not exist.
        sort_only: Lower-case names of columns that ORDER BY may use, and nothing else.
    """

    condition: exp.Expr | None = None
    masks: Mapping[str, exp.Expr] = dataclasses.field(default_factory=dict, hash=False)
    denied: frozenset[str] = frozenset()
    sort_only: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything is left out or changed."""
        return self.condition is not None or bool(self.masks or self.denied)

    def of_user(self, user: str, groups: Sequence[str]) -> Restriction:
        """Returns the same restriction, whose expressions take this for the current user."""

        def of_them(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.CurrentUser):
                return exp.Literal.string(user)
            return array_of_groups(groups) if is_of_groups(node) else node

        def fixed(expression: exp.Expr) -> exp.Expr:
            return expression.transform(of_them)

        condition = None if self.condition is None else fixed(self.condition)
        masks = {name: fixed(mask) for name, mask in self.masks.items()}
        return dataclasses.replace(self, condition=condition, masks=masks)

    @property
    def hides_rows(self) -> bool:
        """Whether any row may be left out."""
        return self.condition is not None

    @property
    def hides_columns(self) -> bool:
        """Whether the values of any column are masked or denied."""
        return bool(self.masks or self.denied)


NO_RESTRICTION = Restriction()


def is_of_groups(node: exp.Expr) -> bool:
    """Whether a node of a parsed expression is a call of current_groups()."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "current_groups"


def array_of_groups(groups: Sequence[str]) -> exp.Cast:
    """Returns what current_groups() stands for."""
    texts = exp.Array(expressions=[exp.Literal.string(group) for group in groups])
    return exp.Cast(this=texts, to=exp.DataType.build("array(varchar)", dialect="trino"))

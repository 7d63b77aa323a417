"""Filters Arrow rows conservatively: never keeps too few of them, and rarely too many.

The reader of the rows filters them again. So where engines differ, or Arrow cannot compare, a row
is kept: for example NaN in a comparison, or a null compared with `<>`.
"""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, visit
from pyiceberg.schema import Schema
from pyiceberg.types import UUIDType

from seamline.connectors.iceberg.transforms import leaf, stored


def matching(rows: pa.Table, expression: BooleanExpression, schema: Schema) -> pa.Table:
    """Returns the rows that the expression may keep.

    Args:
        rows: Decoded rows, with at least the columns that the expression refers to.
        expression: Bound to the schema, without negations.
        schema: The columns.
    """
    mask = visit(expression, _Masks(rows, schema))
    return rows.filter(mask)


class _Masks(BoundBooleanExpressionVisitor[Any]):
    """Computes a mask for each part of an expression: a boolean column without nulls."""

    def __init__(self, rows: pa.Table, schema: Schema) -> None:
        self._rows = rows
        self._schema = schema

    def visit_true(self) -> Any:
        return self._all(value=True)

    def visit_false(self) -> Any:
        return self._all(value=False)

    def visit_not(self, child_result: Any) -> Any:  # noqa: ARG002 - PyIceberg's signature
        raise AssertionError("negations have been rewritten before")

    def visit_and(self, left_result: Any, right_result: Any) -> Any:
        return pc.and_(left_result, right_result)

    def visit_or(self, left_result: Any, right_result: Any) -> Any:
        return pc.or_(left_result, right_result)

    def visit_is_null(self, term: BoundTerm) -> Any:
        return pc.is_null(self._column(term))

    def visit_not_null(self, term: BoundTerm) -> Any:
        return pc.is_valid(self._column(term))

    def visit_is_nan(self, term: BoundTerm) -> Any:
        return pc.fill_null(pc.is_nan(self._column(term)), False)

    def visit_not_nan(self, term: BoundTerm) -> Any:
        return pc.fill_null(pc.invert(pc.is_nan(self._column(term))), True)

    def visit_equal(self, term: BoundTerm, literal: Any) -> Any:
        return self._compared(pc.equal, term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Any) -> Any:
        return self._compared(pc.not_equal, term, literal, null=True)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Any) -> Any:
        return self._compared(pc.greater_equal, term, literal)

    def visit_greater_than(self, term: BoundTerm, literal: Any) -> Any:
        return self._compared(pc.greater, term, literal)

    def visit_less_than(self, term: BoundTerm, literal: Any) -> Any:
        return self._compared(pc.less, term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Any) -> Any:
        return self._compared(pc.less_equal, term, literal)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> Any:
        return self._contained(term, literals)

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> Any:  # noqa: ARG002
        return self._all(value=True)

    def visit_starts_with(self, term: BoundTerm, literal: Any) -> Any:
        return pc.fill_null(pc.starts_with(self._column(term), _value(literal)), False)

    def visit_not_starts_with(self, term: BoundTerm, literal: Any) -> Any:  # noqa: ARG002
        return self._all(value=True)

    def _compared(self, function: Any, term: BoundTerm, literal: Any, *, null: bool = False) -> Any:
        column = self._column(term)
        value = self._scalar(term, literal, column.type)
        if value is None:
            return self._all(value=True)
        return self._with_nan(column, pc.fill_null(function(column, value), null))

    def _contained(self, term: BoundTerm, literals: set[Any]) -> Any:
        column = self._column(term)
        values = [self._scalar(term, literal, column.type) for literal in literals]
        if any(value is None for value in values):
            return self._all(value=True)
        known = pa.array([value.as_py() for value in values], column.type)
        return self._with_nan(column, pc.is_in(column, value_set=known))

    def _with_nan(self, column: Any, mask: Any) -> Any:
        if not pa.types.is_floating(column.type):
            return mask
        return pc.or_(mask, pc.fill_null(pc.is_nan(column), False))

    def _column(self, term: BoundTerm) -> Any:
        return stored(leaf(self._rows, self._schema, term.ref().field.field_id))

    def _scalar(self, term: BoundTerm, literal: Any, kind: pa.DataType) -> Any:
        """Converts the literal to the column's type; None when the column cannot hold it."""
        value = _value(literal)
        if isinstance(term.ref().field.field_type, UUIDType):
            value = str(uuid.UUID(bytes=bytes(value)))
        try:
            return pa.scalar(value, kind)
        except (ValueError, TypeError, OverflowError):
            return None

    def _all(self, *, value: bool) -> Any:
        return pa.chunked_array([pa.repeat(pa.scalar(value), self._rows.num_rows)])


def _value(literal: Any) -> Any:
    return literal.value if isinstance(literal, Literal) else literal

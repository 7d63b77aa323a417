"""An aggregation in two stages, whose first need not be computed again for the same files."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from seamline.sql.types import Field


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StagedAggregation:
    """How a query's aggregation is computed from partial aggregates and further rows.

    Partial aggregates are rows of `columns`: the keys of a group, then what is known of its rows.
    There may be several of one group.

    Attributes:
        scan_id: The scan whose rows are aggregated.
        partials_id: The name that the trees have for the partial aggregates, as of another scan.
        columns: The columns of partial aggregates.
        keys: How many of these are keys.
        merged: The query of one partial aggregate for each group of both: partial aggregates, and
            the scan's rows.
        final: The whole query over both.
        is_exact: Whether its result is what it would be in one stage.
    """

    scan_id: str
    partials_id: str
    columns: tuple[Field, ...]
    keys: int
    merged: exp.Expr
    final: exp.Expr
    is_exact: bool


@dataclasses.dataclass(frozen=True, slots=True)
class PartialFiles:
    """Files of a plan whose partial aggregates are there already, so that they are not read.

    Attributes:
        kept: How many files are not read.
        read: How many files are.
    """

    kept: int
    read: int

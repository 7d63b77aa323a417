"""Which manifests and files a scan may leave out: by partition, and by column statistics.

PyIceberg's own evaluators decide. They may keep too many files, never too few. What they fail on
proves nothing, so it is kept: bounds in another form than the column's type has now, as other
writers and older schemas leave them, and literals beside which a transform knows no further value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.iceberg.pyiceberg_internals import Evaluators, statistics_evaluator

_NOT_COMPARABLE = (ValueError, TypeError, ArithmeticError, LookupError, struct.error)
"""What PyIceberg raises of such bounds and literals; UnicodeDecodeError is a ValueError."""


class Pruner:
    """Which manifests and files of one scan may hold rows that a filter keeps.

    Args:
        metadata: The table's; the filter speaks of its current schema.
        io: The table's.
        row_filter: The filter.
        case_sensitive: Whether its names are.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
    ) -> None:
        self._filter = row_filter
        planner = ManifestGroupPlanner(
            table_metadata=metadata, io=io, row_filter=row_filter, case_sensitive=case_sensitive
        )
        self._evaluators = Evaluators(planner)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any of its files may."""
        return self._may(lambda: self._evaluators.of_manifest(manifest))

    def keeps_file(self, file: DataFile) -> bool:
        """Whether the file may."""
        return self._may(lambda: self._evaluators.by_partition(file)) and self._may(
            lambda: self._evaluators.by_statistics(file)
        )

    def _may(self, evaluated: Callable[[], bool]) -> bool:
        return isinstance(self._filter, AlwaysTrue) or _unless_proven(evaluated)


def statistics_filter(schema: Schema, row_filter: BooleanExpression) -> Callable[[DataFile], bool]:
    """Whether a file may hold rows that a filter keeps, by its statistics alone.

    Args:
        schema: The columns that it may speak of; what it says of others proves nothing.
        row_filter: The filter.
    """
    if isinstance(row_filter, AlwaysTrue):
        return lambda _: True
    keeps = statistics_evaluator(schema, row_filter)
    return lambda file: _unless_proven(lambda: keeps(file))


def _unless_proven(evaluated: Callable[[], bool]) -> bool:
    try:
        return evaluated()
    except _NOT_COMPARABLE:
        return True

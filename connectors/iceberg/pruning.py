"""Which manifests and files a scan may leave out: by partition, and by column statistics.

PyIceberg's own evaluators decide. They may keep too many files, never too few. What they fail on
proves nothing, so it is kept: bounds in another form than the column's type has now, as other
writers and older schemas leave them, and literals beside which a transform knows no further value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata

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
        self._planner = ManifestGroupPlanner(
            table_metadata=metadata, io=io, row_filter=row_filter, case_sensitive=case_sensitive
        )
        self._manifest_evaluators: dict[int, Any] = {}
        self._partition_evaluators: dict[int, Any] = {}
        self._metrics = self._planner._build_metrics_evaluator()  # noqa: SLF001 - PyIceberg's own

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any of its files may."""
        return self._may(lambda: self._manifest_evaluator(manifest.partition_spec_id)(manifest))

    def keeps_file(self, file: DataFile) -> bool:
        """Whether the file may."""
        return self._may(lambda: self._partition_evaluator(file.spec_id)(file)) and self._may(
            lambda: self._metrics(file)
        )

    def _may(self, evaluated: Callable[[], Any]) -> bool:
        if isinstance(self._filter, AlwaysTrue):
            return True
        try:
            return bool(evaluated())
        except _NOT_COMPARABLE:
            return True

    def _manifest_evaluator(self, spec_id: int) -> Any:
        if spec_id not in self._manifest_evaluators:
            self._manifest_evaluators[spec_id] = self._planner._build_manifest_evaluator(spec_id)  # noqa: SLF001
        return self._manifest_evaluators[spec_id]

    def _partition_evaluator(self, spec_id: int) -> Any:
        if spec_id not in self._partition_evaluators:
            self._partition_evaluators[spec_id] = self._planner._build_partition_evaluator(spec_id)  # noqa: SLF001
        return self._partition_evaluators[spec_id]

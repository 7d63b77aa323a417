"""Which manifests and files a scan may leave out: by partition, and by column statistics.

PyIceberg's own evaluators decide. They may keep too many files, never too few.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata


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

    @property
    def _keeps_all(self) -> bool:
        return isinstance(self._filter, AlwaysTrue)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether any of its files may."""
        if self._keeps_all:
            return True
        spec_id = manifest.partition_spec_id
        if spec_id not in self._manifest_evaluators:
            self._manifest_evaluators[spec_id] = self._planner._build_manifest_evaluator(spec_id)  # noqa: SLF001
        return bool(self._manifest_evaluators[spec_id](manifest))

    def keeps_file(self, file: DataFile) -> bool:
        """Whether the file may."""
        if self._keeps_all:
            return True
        if file.spec_id not in self._partition_evaluators:
            self._partition_evaluators[file.spec_id] = self._planner._build_partition_evaluator(  # noqa: SLF001
                file.spec_id
            )
        return bool(self._partition_evaluators[file.spec_id](file)) and bool(self._metrics(file))

"""What evolution decides, said to PyIceberg: columns added, widened and renamed by field id."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IcebergType

from seamline.connectors.iceberg.types import to_schema
from seamline.seam.evolution import AddColumn, Change, RenameColumn, WidenColumn
from seamline.sql.types import Field, Type


def apply_changes(update: UpdateSchema, changes: Sequence[Change]) -> None:
    """Says to PyIceberg what is to change; paths are those from before all of it.

    Raises:
        ValueError, ValidationError: it does not let it.
    """
    for change in changes:
        match change:
            case AddColumn(path, type_):
                update.add_column(path, _iceberg_type(type_))
            case WidenColumn(path, _, type_):
                update.update_column(path, field_type=_iceberg_type(type_))
            case RenameColumn(path, name):
                update.rename_column(path, name)


def _iceberg_type(type_: Type) -> IcebergType:
    return to_schema((Field("column", type_),)).fields[0].field_type

"""The format `raw`: a whole part in one column, as bytes or as text.

For topics whose values are not decoded: the column is varbinary or varchar. Text must be valid
UTF-8; a part that is not is bad.
"""

from __future__ import annotations

from seamline.connectors.kafka.formats.text_values import TextValues
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.sql.types import VARBINARY, VARCHAR, Field


def raw_values(column: Field) -> TextValues:
    """Returns a decoder that passes parts through.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if column.type not in {VARBINARY, VARCHAR}:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"column {column.name} is {column.type}, but format raw produces bytes or text",
            hint="declare one column of type varbinary or varchar, such as `value varbinary`",
        )
    return TextValues(column)

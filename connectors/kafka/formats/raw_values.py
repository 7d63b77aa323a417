"""The format `raw`: the whole value in one column, as bytes or as text.

For topics whose values are not decoded: the table has a single column of type varbinary or varchar.
Text must be valid UTF-8; a value that is not is a bad record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.sql.types import VARBINARY, VARCHAR, Field


class RawValues:
    """Passes values through."""

    def __init__(self, columns: tuple[Field, ...]) -> None:
        if len(columns) != 1 or columns[0].type not in {VARBINARY, VARCHAR}:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                "format raw needs exactly one column",
                hint="declare one column of type varbinary or varchar, such as `value varbinary`",
            )
        self._text = columns[0].type == VARCHAR

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[pa.Array], Mapping[int, str]]:
        """See `ValueDecoder.decode`."""
        if not self._text:
            return [pa.array(values, pa.binary())], {}
        try:
            texts = pa.array(values, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return self._one_by_one(values)
        return [texts], {}

    def _one_by_one(
        self, values: Sequence[bytes | None]
    ) -> tuple[list[pa.Array], Mapping[int, str]]:
        texts: list[str | None] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                texts.append(None if value is None else value.decode("utf-8"))
            except UnicodeDecodeError as error:
                texts.append(None)
                bad[index] = f"not UTF-8 at byte {error.start}"
        return [pa.array(texts, pa.string())], bad

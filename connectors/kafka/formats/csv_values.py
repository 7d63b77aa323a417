"""The format `csv`: one line per part, without a header; its fields are the columns in order.

A field is text, as in the format `string`; an empty one is null. A line whose number of fields is
not the number of columns is bad.
"""

from __future__ import annotations

import csv
import io
import sys
from typing import Any

import pyarrow as pa

from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, Parts
from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.connectors.kafka.formats.text_values import value_of_text
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.sql.types import Field, Varbinary, to_arrow

csv.field_size_limit(sys.maxsize)  # of the process; a record is never too large for its own format


class CsvValues:
    """Decodes lines into columns.

    Args:
        columns: The columns, in the order of the fields.
        spelling: Which ways of writing values are accepted.
        separator: The character between fields.
        quote: The character around a field that contains a separator, a quote or a line break.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION for an invalid separator or quote.
    """

    def __init__(
        self,
        columns: tuple[Field, ...],
        spelling: Spelling = PLAIN,
        separator: str = ",",
        quote: str = '"',
    ) -> None:
        if (
            len(separator) != 1
            or len(quote) != 1
            or separator == quote
            or {separator, quote} & {*"\r\n"}
        ):
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"csv_separator {separator!r} and csv_quote {quote!r} must be one character each",
                hint="For example ';' and '\"'.",
            )
        self._columns = columns
        self._spelling = spelling
        self._form = {"delimiter": separator, "quotechar": quote, "strict": True}

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),  # noqa: ARG002 - used by other decoders
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        rows: list[list[Any] | None] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                rows.append(self._row(value))
            except (ValueError, RecursionError) as error:
                rows.append(None)
                bad[index] = str(error)
        arrays = []
        for place, column in enumerate(self._columns):
            cells = [None if row is None else row[place] for row in rows]
            arrays.append(pa.array(cells, to_arrow(column.type)))
        return arrays, bad

    def _row(self, value: bytes | None) -> list[Any]:
        fields = [""] * len(self._columns) if value is None else self._fields(value)
        if len(fields) != len(self._columns):
            raise ValueError(f"{len(fields)} fields where {len(self._columns)} are expected")
        return [
            self._cell(text, column) for text, column in zip(fields, self._columns, strict=True)
        ]

    def _fields(self, value: bytes) -> list[str]:
        try:
            text = value.decode("utf-8")
            lines = list(csv.reader(io.StringIO(text, newline=""), **self._form))  # type: ignore[arg-type]
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 at byte {error.start}") from None
        except csv.Error as error:
            raise ValueError(f"not CSV: {error}") from None
        if len(lines) > 1:
            raise ValueError(f"{len(lines)} lines where one is expected")
        return lines[0] if lines and lines[0] else [""]

    def _cell(self, text: str, column: Field) -> Any:
        if not text:
            if column.required:
                raise ValueError(f"{column.name}: null, but the column is required")
            return None
        if isinstance(column.type, Varbinary):
            return text.encode()
        return value_of_text(text, column.type, column.name, self._spelling)

"""Writes Parquet with the bloom filters, row groups and pages that a table's properties ask for.

PyIceberg's own writer ignores these properties or warns of them, while Iceberg's Java library
follows them. A value that is not a number above 0 counts as none. Unless a table limits the rows of
a page, its bytes do: these files have no index of pages, so that small ones only cost their readers
time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import (
    ParquetFormatModel,
    ParquetFormatWriter,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import Properties

_ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
_PAGE_ROWS = "write.parquet.page-row-limit"
_BLOOM = "write.parquet.bloom-filter-"
_BLOOM_BYTES_MAX = 1 << 20
_ANY_ROWS = 1 << 30
_SAMPLE_ROWS = 1 << 16
"""The first rows of a file show how large they are, and which columns repeat their values."""


class ParquetModel(ParquetFormatModel):
    """How PyIceberg is to write Parquet."""

    def create_writer(
        self, output_file: OutputFile, file_schema: Schema, properties: Properties
    ) -> ParquetFormatWriter:
        """Returns a writer of one file."""
        return _Writer(output_file, file_schema, properties)


class _Writer(ParquetFormatWriter):
    def __init__(
        self, output_file: OutputFile, file_schema: Schema, properties: Properties
    ) -> None:
        ours = (_BLOOM, _ROW_GROUP_BYTES, _PAGE_ROWS)
        own = {k: v for k, v in properties.items() if not k.startswith(ours)}
        super().__init__(output_file, file_schema, own)
        self._asked = properties

    def write(self, table: pa.Table) -> None:
        """Writes rows; the first decide the size of row groups and filters, and dictionaries."""
        if self._writer is None and table.num_rows:
            sample = table.slice(0, _SAMPLE_ROWS)
            columns = {name: _Encoded.of(sample.column(name)) for name in table.column_names}
            row_bytes = sum(c.size_bytes for c in columns.values()) / sample.num_rows
            limit = row_group_rows(self._asked, row_bytes)
            if limit is not None:
                self._row_group_size = min(int(self._row_group_size or limit), limit)
            rows = min(int(self._row_group_size or table.num_rows), table.num_rows)
            plain = {name for name, column in columns.items() if not column.is_dictionary}
            paths = parquet_path_to_id_mapping(self._file_schema)
            self._parquet_writer_kwargs |= {
                "bloom_filter_options": bloom_filters(self._asked, table.schema, rows),
                "max_rows_per_page": _page_rows(self._asked),
                "use_dictionary": [path for path in paths if path not in plain],
            }
        super().write(table)


@dataclasses.dataclass(frozen=True, slots=True)
class _Encoded:
    """How a column's values are stored in a file.

    Attributes:
        size_bytes: About how many bytes they take before they are compressed.
        is_dictionary: Whether each is stored once, with numbers that refer to it.
    """

    size_bytes: float
    is_dictionary: bool

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> _Encoded:
        """Returns the smaller encoding; nested values are taken to repeat.

        pyarrow would store those that hardly repeat, such as ids, twice, while Iceberg's Java
        library also compares sizes first.
        """
        count = len(values) - values.null_count
        if not count or pa.types.is_nested(values.type):
            return cls(values.nbytes if count else 0, is_dictionary=True)
        if isinstance(values.type, pa.BaseExtensionType):
            values = values.cast(values.type.storage_type)
        value_bytes, different = values.nbytes / len(values), pc.count_distinct(values).as_py()
        plain_bytes = count * value_bytes
        dictionary_bytes = different * value_bytes + count * (different - 1).bit_length() / 8
        if dictionary_bytes < plain_bytes:
            return cls(dictionary_bytes, is_dictionary=True)
        return cls(plain_bytes, is_dictionary=False)


def row_group_rows(properties: Mapping[str, str], row_bytes: float) -> int | None:
    """Returns how many rows have the bytes of a row group; None if no size is asked for.

    Args:
        properties: The table's properties.
        row_bytes: Bytes of a row as it is encoded, before it is compressed.
    """
    size = _number(properties.get(_ROW_GROUP_BYTES))
    return None if size is None else max(1, int(min(size / max(1, row_bytes), _ANY_ROWS)))


def _page_rows(properties: Mapping[str, str]) -> int:
    return max(1, int(min(_number(properties.get(_PAGE_ROWS)) or _ANY_ROWS, _ANY_ROWS)))


def bloom_filters(
    properties: Mapping[str, str], schema: pa.Schema, rows: int
) -> dict[str, dict[str, Any]]:
    """Returns the bloom filters that a table asks for, as pyarrow's `ParquetWriter` takes them.

    Args:
        properties: The table's properties.
        schema: The columns of the file; only those of a primitive type have filters.
        rows: How many rows a row group has.
    """
    bytes_max = _number(properties.get(f"{_BLOOM}max-bytes")) or _BLOOM_BYTES_MAX
    filters = {}
    for field in schema:
        is_enabled = properties.get(f"{_BLOOM}enabled.column.{field.name}", "").lower() == "true"
        if not is_enabled or pa.types.is_nested(field.type) or pa.types.is_boolean(field.type):
            continue
        of_column = f"column.{field.name}"
        fpp = _number(properties.get(f"{_BLOOM}fpp.{of_column}")) or _FPP
        fpp = fpp if fpp < 1 else _FPP
        values = int(_number(properties.get(f"{_BLOOM}ndv.{of_column}")) or rows)
        # in eight of a block's words one bit is set for each value
        most = int(bytes_max * -math.log(1 - fpp ** (1 / 8)))
        filters[field.name] = {"ndv": max(1, min(values, most)), "fpp": fpp}
    return filters


_FPP = 0.01


def _number(text: str | None) -> float | None:
    with contextlib.suppress(ValueError):
        value = float(text or "")
        return value if 0 < value < math.inf else None
    return None

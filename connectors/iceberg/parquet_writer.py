"""Writes Parquet with the bloom filters, row groups and pages that a table's properties ask for.

PyIceberg's own writer ignores these properties or warns of them, while Iceberg's Java library
follows them. A value that is not a number above 0 counts as none. Unless a table limits the rows of
a page, its bytes do: these files have no index of pages, so that small ones only cost their readers
time.
"""

from __future__ import annotations

import contextlib
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
"""The first rows of a file decide which columns repeat their values."""


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
            limit = row_group_rows(self._asked, table)
            if limit is not None:
                self._row_group_size = min(int(self._row_group_size or limit), limit)
            rows = min(int(self._row_group_size or table.num_rows), table.num_rows)
            filters = bloom_filters(self._asked, table.schema, rows)
            self._parquet_writer_kwargs |= {
                "bloom_filter_options": filters,
                "max_rows_per_page": _page_rows(self._asked),
                "use_dictionary": dictionary_columns(self._file_schema, table),
            }
        super().write(table)


def row_group_rows(properties: Mapping[str, str], rows: pa.Table) -> int | None:
    """Returns how many rows of a size have the bytes of a row group; None if none is asked for."""
    size = _number(properties.get(_ROW_GROUP_BYTES))
    return None if size is None else max(1, int(size * rows.num_rows / max(1, rows.nbytes)))


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


def dictionary_columns(schema: Schema, rows: pa.Table) -> list[str]:
    """Returns the columns of which each value is stored once, by their paths in the file.

    Those are all but the ones of which that would take more bytes than the values themselves, such
    as ids. pyarrow stores even these twice, as a dictionary and as numbers, while Iceberg's Java
    library does not.

    Args:
        schema: The columns of the file.
        rows: The first rows of the file.
    """
    sample = rows.slice(0, _SAMPLE_ROWS)
    distinct = {name for name in rows.column_names if not _repeats(sample.column(name))}
    return [path for path in parquet_path_to_id_mapping(schema) if path not in distinct]


def _repeats(values: pa.ChunkedArray) -> bool:
    """Whether a dictionary of values and the numbers that refer to it are smaller than the values.

    Those inside of others are taken to be.
    """
    count = len(values) - values.null_count
    if not count or pa.types.is_nested(values.type):
        return True
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    different, value_bytes = pc.count_distinct(values).as_py(), values.nbytes / len(values)
    number_bytes = (different - 1).bit_length() / 8
    return bool(different * value_bytes + count * number_bytes < count * value_bytes)


def _number(text: str | None) -> float | None:
    with contextlib.suppress(ValueError):
        value = float(text or "")
        return value if 0 < value < math.inf else None
    return None

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
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import ParquetFormatModel, ParquetFormatWriter
from pyiceberg.schema import Schema
from pyiceberg.typedef import Properties

_ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
_PAGE_ROWS = "write.parquet.page-row-limit"
_BLOOM = "write.parquet.bloom-filter-"
_BLOOM_BYTES_MAX = 1 << 20
_ANY_ROWS = 1 << 30
_SAMPLE_ROWS = 1 << 14
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
            columns = _encoded(table)
            limit = row_group_rows(self._asked, sum(c.row_bytes for c in columns.values()))
            if limit is not None:
                self._row_group_size = min(int(self._row_group_size or limit), limit)
            rows = min(int(self._row_group_size or table.num_rows), table.num_rows)
            self._parquet_writer_kwargs |= {
                "bloom_filter_options": bloom_filters(self._asked, table.schema, rows),
                "max_rows_per_page": _page_rows(self._asked),
                "use_dictionary": _dictionaries(table.schema, columns),
            }
        super().write(table)


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Returns the columns of which a file should store each value once, by their paths in it.

    Those are all but the ones whose values hardly repeat, such as ids. pyarrow would store these
    twice, while Iceberg's Java library compares sizes first. The first rows decide.
    """
    return _dictionaries(rows.schema, _encoded(rows))


@dataclasses.dataclass(frozen=True, slots=True)
class _Encoded:
    """How a column's values are stored in a file.

    Attributes:
        row_bytes: About how many bytes they take a row, before they are compressed.
        is_dictionary: Whether each is stored once, with numbers that refer to it.
    """

    row_bytes: float
    is_dictionary: bool

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> _Encoded:
        """Returns the smaller encoding; nested values are taken to repeat."""
        count = len(values) - values.null_count
        if not count:
            return cls(0, is_dictionary=True)
        value_bytes = values.nbytes / len(values)
        if pa.types.is_nested(values.type):
            return cls(value_bytes, is_dictionary=True)
        if isinstance(values.type, pa.BaseExtensionType):
            values = values.cast(values.type.storage_type)
        different = pc.count_distinct(values).as_py()
        with_dictionary = different / count * value_bytes + (different - 1).bit_length() / 8
        smaller = min(value_bytes, with_dictionary)
        return cls(smaller * count / len(values), is_dictionary=with_dictionary < value_bytes)


def _encoded(rows: pa.Table) -> dict[str, _Encoded]:
    sample = rows.slice(0, _SAMPLE_ROWS)
    return {name: _Encoded.of(sample.column(name)) for name in rows.column_names}


def _dictionaries(schema: pa.Schema, columns: Mapping[str, _Encoded]) -> list[str]:
    repeated = (field for field in schema if columns[field.name].is_dictionary)
    return [path for field in repeated for path in _paths(field.name, field.type)]


def _paths(path: str, type_: pa.DataType) -> Iterator[str]:
    """Yields the paths of the columns that a field takes in a file."""
    match type_:
        case pa.StructType():
            parts = [(field.name, field.type) for field in type_]
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            parts = [("list.element", type_.value_type)]
        case pa.MapType():
            parts = [("key_value.key", type_.key_type), ("key_value.value", type_.item_type)]
        case _:
            yield path
            return
    for name, part in parts:
        yield from _paths(f"{path}.{name}", part)


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

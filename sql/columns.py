"""The metadata columns of a unified table: where each row came from in the log.

Real columns of the Iceberg table and of the tail alike, hidden from `SELECT *` and usable by name.
"""

from __future__ import annotations

from seamline.sql.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    TIMESTAMP_TZ,
    VARBINARY,
    VARCHAR,
    Array,
    Field,
    Row,
)

PARTITION = "_kafka_partition"
OFFSET = "_kafka_offset"
TIMESTAMP = "_kafka_timestamp"
KEY = "_kafka_key"
HEADERS = "_kafka_headers"
ERROR = "_kafka_error"
BATCH = "_kafka_batch"

METADATA_FIELDS: tuple[Field, ...] = (
    Field(PARTITION, INTEGER),
    Field(OFFSET, BIGINT),
    Field(TIMESTAMP, TIMESTAMP_TZ),
    Field(KEY, VARBINARY),
    Field(HEADERS, Array(Row((Field("key", VARCHAR), Field("value", VARBINARY))))),
    Field(ERROR, VARCHAR),
    Field(BATCH, BIGINT),
)
"""In the order they stand in a table, after its own columns.

`_kafka_error` is the reason a bad record became a row of nulls (policy `null`). `_kafka_batch`
names the tiering batch that wrote the row, the sum of its start offsets, and is null while a row
is hot.
"""

TOPIC_FIELDS: tuple[Field, ...] = (
    Field("value", VARBINARY),
    *(field for field in METADATA_FIELDS if field.name != BATCH),
)
"""Columns of a topic that has no table: its values are not decoded."""

METADATA_TYPES = {field.name: field.type for field in METADATA_FIELDS}

METADATA_NAMES = frozenset(field.name for field in METADATA_FIELDS)

DELETED = "_kafka_deleted"
DELETED_FIELD = Field(DELETED, BOOLEAN)
"""Of a decoded record of an upsert table: whether it removes its key. No column of any table."""

POSITION_NAMES = (PARTITION, OFFSET, TIMESTAMP, BATCH)
"""Those that say which record a row is and which batch brought it; a table must keep them."""

RESERVED_PREFIX = "_kafka_"
RESERVED_BY_ICEBERG = frozenset(
    {
        "_partition",
        "_pos",
        "_file",
        "_deleted",
        "_spec_id",
        "_row_id",
        "_last_updated_sequence_number",
    }
)
"""A table with such a column cannot be compacted."""

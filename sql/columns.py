"""The metadata columns of a unified table: where in the log each row came from.

They are real columns of both the Iceberg table and the tail. `SELECT *` hides them, and statements
can use them by name.
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
"""The metadata columns in table order, after the table's own columns.

`_kafka_error` is the reason a bad record became a row of nulls (policy `null`). `_kafka_batch`
identifies the tiering batch that wrote the row by the sum of its start offsets; it is null while
the row is hot.
"""

TOPIC_FIELDS: tuple[Field, ...] = (
    Field("value", VARBINARY),
    *(field for field in METADATA_FIELDS if field.name != BATCH),
)
"""Columns of a topic without a table; its values are not decoded."""

ERROR_FIELDS: tuple[Field, ...] = (
    Field("partition", INTEGER),
    Field("offset", BIGINT),
    Field("timestamp", TIMESTAMP_TZ),
    Field("code", VARCHAR),
    Field("reason", VARCHAR),
    Field("key", VARBINARY),
    Field("value", VARBINARY),
    Field("headers", Array(Row((Field("key", VARCHAR), Field("value", VARBINARY))))),
)
"""Columns of `t$errors`: the records that cannot be decoded, as the log holds them, and why."""

METADATA_TYPES = {field.name: field.type for field in METADATA_FIELDS}

METADATA_NAMES = frozenset(field.name for field in METADATA_FIELDS)

DELETED = "_kafka_deleted"
DELETED_FIELD = Field(DELETED, BOOLEAN)
"""Whether a decoded record of an upsert table deletes its key; not a column of any table."""

POSITION_NAMES = (PARTITION, OFFSET, TIMESTAMP, BATCH)
"""Columns that identify a row's record and the batch that wrote it; a table must keep them."""

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
"""Column names that Iceberg reserves; a table with such a column cannot be compacted."""

FILE_PATH = "$path"
FILE_POSITION = "$pos"
FILE_FIELDS: tuple[Field, ...] = (
    Field(FILE_PATH, VARCHAR, field_id=2_147_483_646),
    Field(FILE_POSITION, BIGINT, field_id=2_147_483_645),
)
"""Where a row of a plain table is stored: its file, and its position there, from 0.

`SELECT *` hides them, and no file has them. Their ids are those that Iceberg reserves for them.
"""

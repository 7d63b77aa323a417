"""The properties of tables, as `system.metadata.table_properties` lists them.

They are those that `WITH` accepts in CREATE TABLE; the page on tables describes each in full.
"""

from __future__ import annotations

from typing import NamedTuple

_TEXT, _TEXTS, _NUMBER = "varchar", "array(varchar)", "integer"


class Property(NamedTuple):
    """A property of a table, with its default as text."""

    name: str
    default: str
    type: str
    description: str


PROPERTIES = (
    Property("cluster", "", _TEXT, "The cluster of the topic, as configured"),
    Property("columns_from", "[]", _TEXTS, "Where in a record columns come from: column = source"),
    Property("csv_quote", "", _TEXT, "The quote character of CSV fields"),
    Property("csv_separator", "", _TEXT, "The separator between CSV fields"),
    Property("deleted_by", "", _TEXT, "The field that marks deletes in an upsert table"),
    Property("envelope", "", _TEXT, "The envelope of captured changes"),
    Property("evolution", "", _TEXT, "Whether columns follow the schemas of records"),
    Property("format", "json", _TEXT, "How the values of records are encoded"),
    Property("format_version", "2", _NUMBER, "The version of Iceberg's table format"),
    Property("isolation", "read_committed", _TEXT, "The isolation level the log is read with"),
    Property("key", "", _TEXT, "The column that the key of a record repeats"),
    Property("key_format", "string", _TEXT, "How the keys of records are encoded"),
    Property("key_partitioner", "", _TEXT, "The function of a key that selects its partition"),
    Property("key_schema", "", _TEXT, "The schema of all keys"),
    Property("mode", "append", _TEXT, "Whether records add rows, or change those of their keys"),
    Property("on_error", "fail", _TEXT, "What becomes of a record that cannot be decoded"),
    Property("partitioning", "[]", _TEXTS, "How files are partitioned"),
    Property("primary_key", "[]", _TEXTS, "The key columns of an upsert table"),
    Property("sorted_by", "[]", _TEXTS, "How rows are sorted in files"),
    Property("spellings", "[]", _TEXTS, "Further ways of writing values that are accepted"),
    Property("start", "earliest", _TEXT, "Where in the topic the table begins"),
    Property("topic", "", _TEXT, "The topic that the table combines with its Iceberg copy"),
    Property("value_schema", "", _TEXT, "The schema of all values"),
)
"""The properties, by name."""

"""The format `avro`: binary Avro, each value read with the schema it was written with.

The writer's schema is resolved to the table's columns by name, and numbers widen as in Avro. The
exact path reads with fastavro. Bytes after a value make it bad: it was written with another schema.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyruhvro

from seamline.connectors.kafka.formats.avro_depth import check_depth, is_recursive
from seamline.connectors.kafka.formats.avro_schema import carrier, parsed, self_contained
from seamline.connectors.kafka.formats.framed import TypeOf
from seamline.connectors.kafka.formats.framing import zigzag
from seamline.connectors.kafka.formats.parts import PartDecoder
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.connectors.kafka.formats.tree_arrow import NotFastError
from seamline.connectors.kafka.formats.tree_decoder import ToArrow, TreeDecoder
from seamline.connectors.kafka.formats.trees import Node, record_of, spelt
from seamline.connectors.kafka.formats.watching import SchemaWatch, guarded
from seamline.sql.types import Field

_END = -(2**63)
_END_BYTES = b"\xff" * 9 + b"\x01"
"""Put after every value and read as one more field: if it comes back, no bytes are left or missing.

No suffix of it reads as the same number, so a value that is too short cannot borrow from it.
"""


def avro_values(
    schema: Schema,
    columns: tuple[Field, ...],
    *,
    whole: bool,
    spelling: Spelling = PLAIN,
    watch: SchemaWatch | None = None,
) -> PartDecoder:
    """Returns a decoder for values of one schema.

    Args:
        schema: The schema they were written with.
        columns: The columns for the fields of its records, or the one column for the whole value.
        whole: Whether there is one column for the whole value.
        spelling: Which ways of writing times are accepted.
        watch: The watch that checks the schema, if any.

    Raises:
        ValueError: the schema cannot be read.
    """
    node = parsed(schema)
    unfit = watch.meets(record_of(node)) if watch is not None else None
    node = spelt(node, spelling)
    return guarded(TreeDecoder(node, columns, _reader(node), _to_arrow(node), whole=whole), unfit)


def avro_types(schema: Schema) -> TypeOf:
    """Returns what names the types of values of a schema: that of a union's branch comes first.

    Raises:
        ValueError: the schema cannot be read.
    """
    node = parsed(schema)
    names = [branch.name if branch.kind == "record" else None for branch in node.branches]
    if node.kind != "union":
        name = node.name if node.kind == "record" else None
        return lambda _: name

    def name_of(value: bytes) -> str | None:
        branch, _ = zigzag(value, 0, "not Avro: it begins with no branch of a union")
        return names[branch] if 0 <= branch < len(names) else None

    return name_of


def avro_writer(schema: Schema) -> tuple[Node, Callable[[Any], bytes]]:
    """Returns the tree of a schema, and a function that writes values of it.

    The function raises ValueError for a value that the schema cannot hold.

    Raises:
        ValueError: the schema cannot be read.
    """
    node = parsed(schema)
    own = _for_fastavro(node)

    def written(value: Any) -> bytes:
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, own, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the schema cannot hold it: {error}") from None
        return stream.getvalue()

    return node, written


def _to_arrow(node: Node) -> ToArrow | None:
    """Returns a function that decodes a batch of values into carriers, or None if there is none."""
    try:
        fields = [{"name": "value", "type": carrier(node)}, {"name": "end", "type": "long"}]
    except NotFastError:
        return None
    text = json.dumps({"type": "record", "name": "Value", "fields": fields})

    def decoded(values: Sequence[bytes]) -> pa.Array:
        batch = pyruhvro.deserialize_array([value + _END_BYTES for value in values], text)
        if not pa.compute.all(pa.compute.equal(batch.column(1), _END)).as_py():
            raise ValueError("there are too many bytes, or too few")
        return batch.column(0)

    return decoded


def _for_fastavro(node: Node) -> Any:
    """Returns the schema without logical types, which are converted by our own code."""
    try:
        return fastavro.parse_schema(self_contained(node))
    except Exception as error:  # fastavro raises several kinds
        raise ValueError(f"the schema is not Avro: {error}") from error


def _reader(node: Node) -> Callable[[bytes], Any]:
    """Returns the function that reads one value; its stack suffices however deep a value is."""
    own = _for_fastavro(node)
    if not is_recursive(node):
        return functools.partial(_read, schema=own)

    def read(value: bytes) -> Any:
        check_depth(value, node)
        return _read(value, own)

    return read


def _read(value: bytes, schema: Any) -> Any:
    stream = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(stream, schema, None, return_named_type=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"not Avro: text that is not UTF-8 at byte {error.start}") from None
    except EOFError:
        raise ValueError("not Avro: it ends too early") from None
    except Exception as error:  # noqa: BLE001 - whatever fastavro raises, the value is bad
        raise ValueError(f"not Avro: {error!r}"[:200]) from None
    left = len(value) - stream.tell()
    if left:
        raise ValueError(f"not Avro of this schema: {left} bytes follow the value")
    return found

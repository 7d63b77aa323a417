"""Parts that say which schema they were written with, each in the way of its registry.

Where the table names the one schema of all parts, nothing precedes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats.framing import Framing, SchemaId
from seamline.connectors.kafka.formats.own_schema import OwnSchema, own_schema
from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, PartDecoder, Parts, Setting
from seamline.connectors.kafka.formats.registries import bare
from seamline.connectors.protocols.raw_records import Headers
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.encoding import LatestSchema
from seamline.sql.types import Field, to_arrow

OfSchema: TypeAlias = Callable[[OwnSchema], PartDecoder]
"""Makes the decoder for values of one schema; raises ValueError if the schema cannot be read."""


class FramedValues:
    """Decodes parts, each with the decoder of its schema.

    Args:
        setting: Where schemas come from.
        kind: Their kind: `AVRO`, `PROTOBUF`, …
        columns: The columns to decode.
        of_schema: Makes the decoder of one schema.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when the table's own schema cannot be read.
    """

    def __init__(
        self, setting: Setting, kind: str, columns: Sequence[Field], of_schema: OfSchema
    ) -> None:
        self._setting = setting
        self._kind = kind
        self._types = [to_arrow(column.type) for column in columns]
        self._required = next((column.name for column in columns if column.required), None)
        self._of_schema = of_schema
        self._decoders: dict[SchemaId, PartDecoder | str] = {}
        is_text = setting.schema is not None and LatestSchema.parse(setting.schema) is None
        self._own = self._of_all() if is_text else None

    def decode(self, values: Parts, headers: AllHeaders = ()) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        if self._setting.schema is not None:
            self._own = self._own or self._of_all()
            arrays, bad = self._own.decode(values)
            return arrays, self._without_rows(values, bad)
        framing = self._setting.schemas.framing
        alike = None if any(headers) else _of_one_schema(values, framing)
        if alike is not None:
            decoder = self._decoder(alike[0])
            if not isinstance(decoder, str):
                return decoder.decode(alike[1])
        found: dict[int, str] = {}
        groups: dict[SchemaId, tuple[list[int], list[bytes]]] = {}
        for index, value in enumerate(values):
            if value is None:
                continue
            try:
                known = headers[index] if headers else None
                schema_id, payload = framing.read(value, known, self._setting.part, self._kind)
            except ValueError as error:
                found[index] = str(error)
                continue
            indexes, payloads = groups.setdefault(schema_id, ([], []))
            indexes.append(index)
            payloads.append(payload)
        return self._merged(groups, len(values), found), self._without_rows(values, found)

    def _of_all(self) -> PartDecoder:
        """Returns the decoder of the schema that all parts have.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION; SCHEMA_REGISTRY_UNAVAILABLE.
        """
        try:
            own = own_schema(self._setting, self._kind)
            assert own is not None
            return self._of_schema(own)
        except ValueError as error:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION, f"{self._setting.part}_schema: {error}"
            ) from error

    def _merged(
        self,
        groups: Mapping[SchemaId, tuple[list[int], list[bytes]]],
        count: int,
        bad: dict[int, str],
    ) -> list[pa.Array]:
        """Returns the arrays of all groups in the order of the parts; adds bad parts to `bad`."""
        slots: list[int | None] = [None] * count
        chunks: list[list[pa.Array]] = [[] for _ in self._types]
        taken = 0
        for schema_id, (indexes, payloads) in groups.items():
            decoder = self._decoder(schema_id)
            if isinstance(decoder, str):
                bad |= dict.fromkeys(indexes, decoder)
                continue
            arrays, found = decoder.decode(payloads)
            bad |= {indexes[place]: reason for place, reason in found.items()}
            if len(payloads) == count:
                return arrays
            for place, index in enumerate(indexes):
                slots[index] = taken + place
            taken += len(indexes)
            for chunk, array in zip(chunks, arrays, strict=True):
                chunk.append(array)
        order = pa.array(slots, pa.int64())
        return [
            pa.concat_arrays([pa.array([], type_), *chunk]).take(order)
            for type_, chunk in zip(self._types, chunks, strict=True)
        ]

    def _without_rows(self, values: Parts, bad: Bad) -> Bad:
        """Returns what is bad, including null parts if a column is required."""
        if self._required is None:
            return bad
        reason = f"{self._required}: null, but the column is required"
        absent = (index for index, value in enumerate(values) if value is None)
        return {**dict.fromkeys(absent, reason), **bad}

    def _decoder(self, schema_id: SchemaId) -> PartDecoder | str:
        """Returns the decoder of a schema, or why there is none."""
        decoder = self._decoders.get(schema_id)
        if decoder is not None:
            return decoder
        try:
            schema = self._setting.schemas.by_id(schema_id)
        except ValueError as error:
            return str(error)  # it may be registered later
        if schema.kind != self._kind:
            decoder = f"schema id {schema_id} is of the kind {schema.kind}, not {self._kind}"
        else:
            try:
                earlier = functools.partial(self._setting.schemas.earlier, schema_id)
                decoder = self._of_schema(OwnSchema(schema, earlier))
            except ValueError as error:
                decoder = f"schema id {schema_id}: {error}"
        self._decoders[schema_id] = decoder
        return decoder


TypeOf: TypeAlias = Callable[[bytes], str | None]
"""Names the type of a value of one schema; None, or a ValueError, if it says none."""


class FramedTypes:
    """Names the types of parts by their schemas; see `TypesOf`.

    Args:
        setting: Where schemas come from.
        kind: Their kind.
        of_schema: Makes what names the types of values of one schema.
    """

    def __init__(
        self, setting: Setting, kind: str, of_schema: Callable[[OwnSchema], TypeOf]
    ) -> None:
        self._setting = setting
        self._kind = kind
        self._of_schema = of_schema
        self._by_id: dict[SchemaId | None, TypeOf] = {}

    def __call__(self, values: Parts, headers: AllHeaders) -> list[str | None]:
        """Returns the name of each part's type, None for one whose type is not known."""
        by_id: dict[SchemaId | None, TypeOf] = {}  # an unknown schema is looked up once a batch
        return [
            None if value is None else self._name(value, headers[index] if headers else None, by_id)
            for index, value in enumerate(values)
        ]

    def _name(
        self, value: bytes, headers: Headers | None, by_id: dict[SchemaId | None, TypeOf]
    ) -> str | None:
        schema_id: SchemaId | None = None
        payload = value
        try:
            if self._setting.schema is None:
                framing = self._setting.schemas.framing
                schema_id, payload = framing.read(value, headers, self._setting.part, self._kind)
            if schema_id not in by_id:
                by_id[schema_id] = self._of(schema_id)
            return by_id[schema_id](payload)
        except ValueError:
            return None

    def _of(self, schema_id: SchemaId | None) -> TypeOf:
        """Returns what names the types of a schema."""
        if schema_id in self._by_id:
            return self._by_id[schema_id]
        try:
            own = own_schema(self._setting, self._kind)
            if own is None:
                assert schema_id is not None
                own = OwnSchema(self._setting.schemas.by_id(schema_id))
        except ValueError:
            return _unnamed  # it may be registered later
        try:
            type_of = self._of_schema(own) if own.schema.kind == self._kind else _unnamed
        except ValueError:
            type_of = _unnamed
        self._by_id[schema_id] = type_of
        return type_of


def _unnamed(_: bytes) -> None:
    """Names no type."""


def _of_one_schema(values: Parts, framing: Framing) -> tuple[SchemaId, list[bytes | None]] | None:
    """Returns the id and payloads if all parts have one schema and none is null, as nearly always.

    Returns None for other batches.
    """
    first, length = values[0] if values else None, framing.prefix_bytes
    if not first or not framing.mark or len(first) < length or not first.startswith(framing.mark):
        return None
    prefix = first[:length]
    payloads: list[bytes | None] = [
        v[length:] for v in values if v is not None and v[:length] == prefix
    ]
    if len(payloads) < len(values):
        return None
    return framing.read(prefix, None, "", "")[0], payloads


class Unframed:
    """Decodes self-describing parts: if a schema's id precedes them, it is left out.

    No JSON begins with the byte that such an id begins with.
    """

    def __init__(self, decoder: PartDecoder) -> None:
        self._decoder = decoder

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        return self._decoder.decode(unframed(values), headers)


def unframed(values: Parts) -> list[bytes | None]:
    """Returns the parts without the ids before them."""
    return [bare(value) if value else value for value in values]

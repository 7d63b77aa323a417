"""Detects records of schemas that a table's columns do not fit yet, so that none is misread.

Tiering stops at the first such record, and the columns are changed before its batch is written. A
reader shows the table's current schema: fields without a column are left out until they have one. A
value that its column cannot hold yet is a named error, whatever the policy for bad records, since
the record is not bad.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from seamline.connectors.kafka.formats.envelopes import ENVELOPES
from seamline.connectors.kafka.formats.framed import unframed
from seamline.connectors.kafka.formats.framing import SchemaId
from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, PartDecoder, Parts, Setting
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.errors import SCHEMA_NOT_EVOLVED, SeamlineError
from seamline.seam.evolution import Change, WidenColumn, changes
from seamline.seam.records import DecoderSpec
from seamline.sql import types
from seamline.sql.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class Unfit:
    """How to handle records of a schema whose types hold more than the columns do.

    Attributes:
        error: The error for records that the columns do not hold.
        is_always: Whether all records of the schema have this error.
    """

    error: SeamlineError
    is_always: bool


class SchemaWatch:
    """Checks the schemas that values of a table's topic were written with.

    Args:
        spec: How records become rows.

    Attributes:
        needed: The changes that the columns need, if they are why reading ended.
    """

    def __init__(self, spec: DecoderSpec) -> None:
        assert spec.watch is not None
        self._spec = spec
        self._watch = spec.watch
        self.needed: tuple[Change, ...] = ()

    @property
    def is_tiering(self) -> bool:
        """Whether the fields that are seen become columns."""
        return self._watch.is_tiering

    def meets(self, record: Type) -> Unfit | None:
        """Returns how to handle records of a schema that the columns do not hold; None if it fits.

        Args:
            record: The type of the schema's values; see `trees.record_of`.

        Raises:
            SeamlineError: SCHEMA_INCOMPATIBLE; SCHEMA_NOT_EVOLVED when rows are written.
        """
        spec, watch = self._spec, self._watch
        envelope = ENVELOPES.get(spec.encoding.envelope)
        try:
            needed = changes(
                spec.stored,
                record,
                encoding=spec.encoding,
                row=() if envelope is None else envelope.row_path,
                watch=watch,
            )
        except SeamlineError as error:
            raise SeamlineError(error.code, f"topic {spec.topic}: {error.message}") from error
        if watch.is_tiering and needed:
            self.needed = needed
            raise self._error(needed)
        wider = [change for change in needed if isinstance(change, WidenColumn)]
        if not wider:
            return None
        is_rounded = any(change.was == types.REAL for change in wider)
        return Unfit(self._error(wider), is_rounded)

    def _error(self, needed: Sequence[Change]) -> SeamlineError:
        text = "; ".join(map(str, needed))
        return SeamlineError(
            SCHEMA_NOT_EVOLVED, f"topic {self._spec.topic} has records for which {text}"
        )


class Guarded:
    """Decodes records of a schema whose types hold more than the columns do.

    Args:
        decoder: Decodes them.
        unfit: How to handle those that do not fit.
    """

    def __init__(self, decoder: PartDecoder, unfit: Unfit) -> None:
        self._decoder = decoder
        self._unfit = unfit

    def decode(self, values: Parts, headers: AllHeaders = ()) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        arrays, bad = self._decoder.decode(values, headers)
        if bad or (self._unfit.is_always and any(value is not None for value in values)):
            raise self._unfit.error
        return arrays, bad


def guarded(decoder: PartDecoder, unfit: Unfit | None) -> PartDecoder:
    """Returns a decoder that ends at what does not fit yet."""
    return decoder if unfit is None else Guarded(decoder, unfit)


class DescribedValues:
    """Decodes self-describing parts, but still checks their schemas.

    Args:
        decoder: Decodes the parts without the ids before them.
        setting: Where schemas are.
        record_of: Returns the type of a schema's values; raises ValueError if it is not known.
    """

    def __init__(
        self, decoder: PartDecoder, setting: Setting, record_of: Callable[[Schema], Type]
    ) -> None:
        assert setting.watch is not None
        self._decoder = decoder
        self._setting = setting
        self._watch = setting.watch
        self._record_of = record_of
        self._known: dict[SchemaId, Unfit | None] = {}

    def decode(self, values: Parts, headers: AllHeaders = ()) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        unfit = dict(self._unfit(values, headers))
        arrays, bad = self._decoder.decode(unframed(values))
        for index, misfit in unfit.items():
            if misfit.is_always or index in bad:
                raise misfit.error
        return arrays, bad

    def _unfit(self, values: Parts, headers: AllHeaders) -> Iterator[tuple[int, Unfit]]:
        part, framing = self._setting.part, self._setting.schemas.framing
        for index, value in enumerate(values):
            if value is not None:
                try:
                    entry = headers[index] if headers else None
                    schema_id, _ = framing.read(value, entry, part, "JSON")
                    misfit = self._of(schema_id)
                except ValueError:
                    continue  # it names no known schema
                if misfit is not None:
                    yield index, misfit

    def _of(self, schema_id: SchemaId) -> Unfit | None:
        if schema_id not in self._known:
            record = self._record_of(self._setting.schemas.by_id(schema_id))
            self._known[schema_id] = self._watch.meets(record)
        return self._known[schema_id]

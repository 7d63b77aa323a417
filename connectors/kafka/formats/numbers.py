"""The formats `int32` and `int64`: whole numbers, big-endian, as Kafka's serializers write them."""

from __future__ import annotations

import functools

import pyarrow as pa

from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, Parts
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.sql.types import BIGINT, INTEGER, Field, to_arrow


class WholeNumbers:
    """Decodes whole numbers of a fixed size.

    Args:
        size: Bytes per number.
        column: The column they are for.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when the column cannot hold them.
    """

    def __init__(self, size: int, column: Field) -> None:
        fitting = (INTEGER, BIGINT) if size == 4 else (BIGINT,)
        if column.type not in fitting:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"column {column.name} is {column.type}, which cannot hold numbers of the format "
                f"int{size * 8}",
                hint=f"Declare it {' or '.join(map(str, fitting))}.",
            )
        self._size = size
        self._column = column

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),  # noqa: ARG002 - used by other decoders
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        integers: list[int | None] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            if value is not None and len(value) != self._size:
                name = self._column.name
                bad[index] = f"{name}: {len(value)} bytes where int{self._size * 8} is expected"
                value = None
            integers.append(None if value is None else int.from_bytes(value, "big", signed=True))
        return [pa.array(integers, to_arrow(self._column.type))], bad


int32_values = functools.partial(WholeNumbers, 4)
int64_values = functools.partial(WholeNumbers, 8)

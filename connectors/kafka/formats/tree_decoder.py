"""Decodes values of one schema into columns: two code paths, one meaning.

The exact path reads value by value and is the definition. The fast path has a whole batch decoded
into Arrow and is taken only where it returns what the exact one would; whenever anything is
unusual, the exact path decides. A property test of each format checks that the two are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats import tree_arrow
from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, Parts
from seamline.connectors.kafka.formats.tree_values import converter
from seamline.connectors.kafka.formats.trees import Node
from seamline.sql.types import Field, Row, Type, to_arrow

Read: TypeAlias = Callable[[bytes], Any]
"""Reads one value, for `tree_values`; raises ValueError."""
ToArrow: TypeAlias = Callable[[Sequence[bytes]], pa.Array]
"""Decodes a batch, for `tree_arrow`; raises ValueError when the exact path must decide."""

_HALVES_MIN = 64
"""Halves that isolate unusual values are not made smaller than this."""
_ODD = (
    ValueError,
    OverflowError,
    KeyError,
    AttributeError,
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
)


class TreeDecoder:
    """Decodes values of one schema.

    Args:
        node: The schema.
        columns: The columns for the fields of its records, or the one column for the whole value.
        read: Reads one value.
        decoded: Decodes a batch, if anything can.
        whole: Whether there is one column for the whole value.
    """

    def __init__(
        self,
        node: Node,
        columns: tuple[Field, ...],
        read: Read,
        decoded: ToArrow | None,
        *,
        whole: bool,
    ) -> None:
        self._read = read
        self._to_arrow = decoded
        self._whole = whole
        self._type: Type = columns[0].type if whole else Row(columns)
        self._convert = converter(node, self._type, columns[0].name if whole else "")
        self._fast: tree_arrow.Convert | None = None
        try:
            self._fast = tree_arrow.converter(node, self._type, lambda n, t: converter(n, t, ""))
        except tree_arrow.NotFastError:
            self._to_arrow = None

    def decode(
        self,
        values: Parts,
        headers: AllHeaders = (),  # noqa: ARG002 - used by other decoders
    ) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        places = [index for index, value in enumerate(values) if value is not None]
        array, bad = self._decoded([value for value in values if value is not None])
        if len(places) < len(values):
            bad = {places[slot]: reason for slot, reason in bad.items()}
            slots: list[int | None] = [None] * len(values)
            for slot, place in enumerate(places):
                slots[place] = slot
            array = array.take(pa.array(slots, pa.int64()))
        return [array] if self._whole else array.flatten(), bad

    def _decoded(self, values: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        if self._to_arrow is not None and values:
            array = self._decoded_fast(self._to_arrow, values)
            if array is not None:
                return array, {}
            if len(values) >= 2 * _HALVES_MIN:
                half = len(values) // 2
                first, bad = self._decoded(values[:half])
                second, more = self._decoded(values[half:])
                bad |= {half + index: reason for index, reason in more.items()}
                return pa.concat_arrays([first, second]), bad
        return self._decoded_exactly(values)

    def _decoded_exactly(self, values: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        converted: list[Any] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                converted.append(self._convert(self._read(value)))
            except (ValueError, RecursionError) as error:
                converted.append(None)
                bad[index] = str(error)
        return pa.array(converted, to_arrow(self._type)), bad

    def _decoded_fast(self, decoded: ToArrow, values: Sequence[bytes]) -> pa.Array | None:
        """Returns the values, or None when the exact path must decide."""
        assert self._fast is not None
        try:
            return self._fast(decoded(values))
        except _ODD:
            return None
        except BaseException as error:
            if not is_panic(error):
                raise
            return None


def is_panic(error: BaseException) -> bool:
    """Whether an error is the panic of a Rust library, which is not an `Exception`."""
    return type(error).__name__ == "PanicException"

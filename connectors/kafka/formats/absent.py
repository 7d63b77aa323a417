"""Finds the placeholder for a value that a source of changes has not sent.

Debezium has one word for it, and writes it as the column's type allows: as text, as bytes (Base64
in JSON), as key and value of a map, as the only element of a list, as a UUID derived from it, and
in a list of numbers as the bytes of the word, one by one. Treating any of these as a value would
produce a wrong row.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import uuid

import pyarrow as pa
import pyarrow.compute as pc


@dataclasses.dataclass(frozen=True)
class Absent:
    """The placeholder for what was not sent.

    Attributes:
        word: The word.
    """

    word: str

    def places(self, array: pa.Array) -> list[int]:
        """Returns the slots of a column that hold the placeholder, in whatever form."""
        indexes: list[int] = pc.indices_nonzero(self._mask(array)).to_pylist()
        return indexes

    def _mask(self, array: pa.Array) -> pa.Array:
        kind = array.type
        if pa.types.is_string(kind):
            return pc.is_in(array, self._texts)
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return pc.fill_null(pc.equal(array.cast(pa.binary()), self.word.encode()), False)
        if pa.types.is_struct(kind):
            return self._any([self._mask(child) for child in array.flatten()], len(array))
        if pa.types.is_map(kind):
            entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
            return self._of_lists(array, pa.ListArray.from_arrays(array.offsets, entries))
        if pa.types.is_list(kind):
            return self._of_lists(array, array)
        return pa.repeat(pa.scalar(False), len(array))

    def _of_lists(self, array: pa.Array, lists: pa.ListArray) -> pa.Array:
        """Marks lists with an absent element, and lists of numbers that are the word's bytes."""
        inside = pc.indices_nonzero(self._mask(lists.flatten()))
        slots = set(pc.list_parent_indices(lists).take(inside).to_pylist())
        lengths = pc.equal(pc.list_value_length(lists), len(self._numbers))
        if _is_numeric(lists.type.value_type):
            for slot in pc.indices_nonzero(pc.fill_null(lengths, False)).to_pylist():
                if self._is_spelt(lists[slot].as_py()):
                    slots.add(slot)
        return pa.array([slot in slots for slot in range(len(array))], pa.bool_())

    def _is_spelt(self, numbers: list[object]) -> bool:
        """Whether numbers are the bytes of the word; decimals are compared without their scale."""
        digits = [getattr(number, "as_tuple", None) for number in numbers]
        if all(digits):
            scale = digits[0]().exponent  # type: ignore[misc]
            numbers = [None if n is None else int(n.scaleb(-scale)) for n in numbers]  # type: ignore[attr-defined]
        return numbers == self._numbers or numbers == [True] * len(self._numbers)

    @staticmethod
    def _any(masks: list[pa.Array], count: int) -> pa.Array:
        return functools.reduce(pc.or_, masks, pa.repeat(pa.scalar(False), count))

    @functools.cached_property
    def _numbers(self) -> list[int]:
        return list(self.word.encode())

    @functools.cached_property
    def _texts(self) -> pa.Array:
        raw = self.word.encode()
        digest = hashlib.md5(raw, usedforsecurity=False).digest()
        made = str(uuid.UUID(bytes=digest, version=3))
        return pa.array([self.word, base64.b64encode(raw).decode(), made])


def _is_numeric(kind: pa.DataType) -> bool:
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
    )
    return any(is_of(kind) for is_of in kinds)

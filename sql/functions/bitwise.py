"""Functions of the bits of whole numbers, in two's complement."""

from __future__ import annotations

import functools
from collections.abc import Callable

from seamline.sql import types
from seamline.sql.functions.registry import kernel, scalar
from seamline.sql.kernels.kernel import by_row
from seamline.sql.kernels.numbers import bit_count, signed


def _left(value: int, shift: int, bits: int) -> int:
    return signed(value << min(shift, bits), bits) if shift >= 0 else 0


def _right(value: int, shift: int, bits: int) -> int:
    return signed((value & ((1 << bits) - 1)) >> min(shift, bits), bits) if shift >= 0 else 0


def _right_arithmetic(value: int, shift: int, bits: int) -> int:
    return value >> min(shift, bits) if shift >= 0 else (-1 if value < 0 else 0)


_SHIFTS: dict[str, Callable[..., int]] = {
    "bitwise_left_shift": _left,
    "bitwise_right_shift": _right,
    "bitwise_right_shift_arithmetic": _right_arithmetic,
}

for _name, _duckdb, _spark in (
    ("bitwise_and", "({0} & {1})", "({0} & {1})"),
    ("bitwise_or", "({0} | {1})", "({0} | {1})"),
    ("bitwise_xor", "xor({0}, {1})", "({0} ^ {1})"),
):
    scalar(_name, "bigint, bigint -> bigint", _duckdb, _spark)
scalar("bitwise_not", "bigint -> bigint", "(~{0})")
for _index, _type in enumerate(types.INTEGERS):
    for _name, _shift in _SHIFTS.items():
        kernel(
            _name,
            f"{_type}, bigint -> {_type}",
            by_row(functools.partial(_shift, bits=8 << _index)),
        )
kernel("bit_count", "bigint, bigint -> bigint", by_row(bit_count))

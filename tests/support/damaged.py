"""Bytes that went wrong on their way."""

from __future__ import annotations

from hypothesis import strategies as st


def damaged(raw: bytes, data: st.DataObject) -> bytes:
    """The bytes cut short, with more at their end, or with one of them changed."""
    changed = bytearray(raw)
    match data.draw(st.sampled_from(["cut", "add", "change"])):
        case "cut" if changed:
            del changed[data.draw(st.integers(0, len(changed) - 1)) :]
        case "change" if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        case _:
            changed += data.draw(st.binary(min_size=1, max_size=3))
    return bytes(changed)

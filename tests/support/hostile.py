"""Values that nobody should send, and documents with some of them in place of others."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["plain", "2024-01-01", "9" * 400, "²", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def changed(draw: st.DrawFn, valid: Any, values: st.SearchStrategy[Any] = JSON) -> Any:
    """A JSON value with one of its parts replaced, lost or duplicated.

    Args:
        draw: Chooses.
        valid: The value.
        values: What may replace a part.
    """
    whole = copy.deepcopy(valid)
    place = whole
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return whole
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 3)):
            place = inner
            continue
        match draw(st.integers(0, 5)):
            case 0:
                del place[key]
            case 1 if isinstance(place, list):
                place.append(copy.deepcopy(inner))
            case _:
                place[key] = draw(values)
        return whole

"""How often a property is tried: as often as it says in long proofs and soaks, else in part."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

PART = 1 if os.environ.get("EVERY_EXAMPLE") else 16
"""`make prove` and `make soak` set the variable; a soak runs every property once more."""


def examples(count: int, **more: Any) -> settings:
    """Settings of a property that `make soak` tries with that many examples."""
    return settings(max_examples=-(-count // PART), deadline=None, **more)

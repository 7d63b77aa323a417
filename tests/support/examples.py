"""How often a property is tried: in the long proofs as often as it says, before them in part."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

PART = 1 if os.environ.get("EVERY_EXAMPLE") else 4
"""`make prove` sets the variable, and runs the tests of properties once more."""


def examples(count: int, **more: Any) -> settings:
    """Settings of a property that `make prove` tries with that many examples."""
    return settings(max_examples=-(-count // PART), deadline=None, **more)

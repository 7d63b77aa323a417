"""Goal: options of commands mean what the documentation writes.

Method: texts of every unit, and texts that are none.
"""

from __future__ import annotations

import click
import pytest

from seamline.gateway.cli.options import Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("1h", 3600), ("7d", 604_800)],
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["7", "7 days", "-1s", "d", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 500ms, 30s, 5m, 1h or 7d"):
        Duration().convert(text, None, None)

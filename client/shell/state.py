"""What somebody at the prompt has set, and what the last statement has left."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from seamline.commands.lexis import Statement


@dataclasses.dataclass
class State:
    """Settings of a session at the prompt.

    Attributes:
        format: Format of results.
        null: Text of a null; None for what the format has.
        pages: Whether what is longer than the screen is shown in a pager.
        options: How every statement is run, as `Cursor.execute` takes it.
        timing: Whether the time of each statement is shown.
        output: File that results are added to, in the place of the screen.
        token_next: Token that the next statement reads by, and no other.
        last: The last statement that was run.
        receipt: Its receipt.
        token: The last token of a read.
    """

    format: str = "table"
    null: str | None = None
    pages: bool = True
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    timing: bool = False
    output: pathlib.Path | None = None
    token_next: str | None = None
    last: Statement | None = None
    receipt: dict[str, Any] = dataclasses.field(default_factory=dict)
    token: str | None = None

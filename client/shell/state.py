"""The state of a prompt: what the user has set, and what the last statement left behind."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from seamline.terminal.lexis import Statement


@dataclasses.dataclass
class State:
    """The state of a session at the prompt.

    Attributes:
        format: Format of results.
        null: Text of a null; None for the format's default.
        pages: Whether results longer than the screen are shown in a pager.
        options: Options for every statement, as `Cursor.execute` takes them.
        timing: Whether the time of each statement is shown.
        output: File that results are appended to, instead of the screen.
        token_next: Token for the next statement only.
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

"""Client tokens: what a connection has read, and what a producer has written.

Only a gateway can merge tokens, because it signs them. So a connection shared by several threads
keeps the tokens of all concurrent reads, and sends them all. The token of the next read then stands
for every token that was sent with it, and replaces them.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping, Sequence

_SEPARATOR = ","
"""Separates tokens in one string, as gateways accept them; no token contains it."""


class SeenTokens:
    """What a connection has read so far, whichever of its threads read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The tokens that together stand for it; a single one unless reads ran concurrently."""
        return self._tokens

    @property
    def text(self) -> str | None:
        """All of them in one string; None before the first read."""
        return _SEPARATOR.join(self._tokens) or None

    def restart(self, text: str | None) -> None:
        """Starts over, from what another connection has seen, or from nothing."""
        with self._lock:
            self._tokens = tuple(text.split(_SEPARATOR)) if text else ()

    def replace(self, sent: Sequence[str], *tokens: str) -> None:
        """Replaces the tokens that were sent with a read by the token of that read.

        Without a new token they are just dropped, as the session cannot continue from them.
        """
        with self._lock:
            others = (token for token in self._tokens if token not in sent)
            self._tokens = tuple(dict.fromkeys((*others, *tokens)))


def write_token(offsets: Mapping[int, int], table: str | None = None) -> str:
    """Returns a token that makes a statement wait until it sees acknowledged records.

    Pass it to `execute(…, after=token)`. The statement returns once every named offset is readable.
    That may take as long as an open transaction takes to commit. If the deadline passes first, the
    statement fails with WRITE_NOT_VISIBLE and the cause.

    Args:
        offsets: The greatest acknowledged offset of each partition.
        table: The table the records belong to; may be omitted when the statement reads only one.
    """
    body = {"table": table, "offsets": {str(p): int(offset) for p, offset in offsets.items()}}
    text = json.dumps(body, separators=(",", ":")).encode()
    return "w1." + base64.urlsafe_b64encode(text).decode().rstrip("=")

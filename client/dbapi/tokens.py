"""Tokens of a client: what a connection has read, and what somebody has written.

Only a gateway can merge tokens, since it signs them. So a connection that several threads use
keeps the tokens of all reads that ran at once, and sends them all: the token of the next read then
stands for every one that was sent with it, and takes their place.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping, Sequence

_SEPARATOR = ","
"""Separates tokens in one string, as gateways take them; no token contains it."""


class SeenTokens:
    """What a connection has read so far, whichever of its threads read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The tokens that stand for it together; one, unless reads ran at once."""
        return self._tokens

    @property
    def text(self) -> str | None:
        """All of them in one string; None before the first read."""
        return _SEPARATOR.join(self._tokens) or None

    def restart(self, text: str | None) -> None:
        """Starts over, from what another connection has seen or from nothing."""
        with self._lock:
            self._tokens = tuple(text.split(_SEPARATOR)) if text else ()

    def replace(self, sent: Sequence[str], *tokens: str) -> None:
        """Takes the token of a read in the place of those that were sent with it.

        Without one they are only dropped: the session cannot continue from there.
        """
        with self._lock:
            others = (known for known in self._tokens if known not in sent)
            self._tokens = tuple(dict.fromkeys((*others, *tokens)))


def write_token(offsets: Mapping[int, int], table: str | None = None) -> str:
    """A token that makes a statement wait until it sees acknowledged records.

    Give it to `execute(…, after=token)`. The statement answers once every named offset is readable,
    which takes as long as an open transaction takes to commit; at its deadline it fails with
    WRITE_NOT_VISIBLE and the cause.

    Args:
        offsets: Partition to the greatest offset that was acknowledged in it.
        table: The table the records belong to; may be left out when the statement reads only one.
    """
    body = {"table": table, "offsets": {str(p): int(offset) for p, offset in offsets.items()}}
    text = json.dumps(body, separators=(",", ":")).encode()
    return "w1." + base64.urlsafe_b64encode(text).decode().rstrip("=")

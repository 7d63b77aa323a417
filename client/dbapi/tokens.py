"""Write tokens: an acknowledgement of Kafka's, as something a statement can wait for."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping


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

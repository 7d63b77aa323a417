"""Tokens: the seams of a statement, signed, so that its rows can be read again.

A token is compact and versioned, belongs to the principal it was given to, and has an age. What is
in it is not secret; what matters is that nobody can make one up.
"""

from __future__ import annotations

import dataclasses
import pathlib
import secrets
from collections.abc import Sequence
from typing import Any

import itsdangerous

from seamline.connectors.base import Offsets
from seamline.planners.seam import Seam
from seamline.sql.errors import INVALID_TOKEN, TOKEN_EXPIRED, SeamlineError

_VERSION = 1
_SALT = "seamline-token"
LENGTH_MAX = 64_000


@dataclasses.dataclass(frozen=True, slots=True)
class TokenSeam:
    """What a token keeps of a seam: enough to place it again.

    Attributes:
        table: Full name of the table.
        table_uuid: Its id.
        snapshot_id: The cold snapshot.
        schema_id: The schema it was read with.
        topic_id: Id of the topic; empty without one.
        end: Exclusive ends of the reading.
    """

    table: tuple[str, ...]
    table_uuid: str
    snapshot_id: int | None
    schema_id: int
    topic_id: str
    end: Offsets


class TokenSigner:
    """Makes and reads tokens.

    Args:
        secret: Signs them.
        age_seconds_max: Older ones are refused.
    """

    def __init__(self, secret: str, age_seconds_max: int) -> None:
        self._serializer = itsdangerous.URLSafeTimedSerializer(secret, salt=_SALT)
        self._age_seconds_max = age_seconds_max

    def sign(self, seams: Sequence[Seam], principal: str) -> str:
        """The token of a statement."""
        body = [
            [list(s.table), s.table_uuid, s.snapshot_id, s.schema_id, s.topic_id, s.end.to_json()]
            for s in seams
        ]
        token = self._serializer.dumps([_VERSION, principal, body])
        return str(token)

    def read(self, token: str, principal: str) -> tuple[TokenSeam, ...]:
        """The seams of a token.

        Raises:
            SeamlineError: INVALID_TOKEN for one that is forged, broken, of another version or of
                another principal; TOKEN_EXPIRED for one that is too old.
        """
        if len(token) > LENGTH_MAX:
            raise SeamlineError(INVALID_TOKEN, "the token is too long to be one")
        try:
            version, owner, body = self._serializer.loads(token, max_age=self._age_seconds_max)
            if version != _VERSION:
                raise SeamlineError(INVALID_TOKEN, f"the token is of version {version}")
            seams = tuple(_token_seam(entry) for entry in body)
        except itsdangerous.SignatureExpired as error:
            raise SeamlineError(
                TOKEN_EXPIRED, f"the token is older than {self._age_seconds_max} s"
            ) from error
        except (itsdangerous.BadData, ValueError, TypeError, AttributeError) as error:
            raise SeamlineError(
                INVALID_TOKEN, "the token was not given by this gateway, or was changed"
            ) from error
        if owner != principal:
            raise SeamlineError(INVALID_TOKEN, "the token was given to somebody else")
        return seams


def _token_seam(entry: Any) -> TokenSeam:
    table, uuid, snapshot_id, schema_id, topic_id, end = entry
    return TokenSeam(tuple(table), uuid, snapshot_id, schema_id, topic_id, Offsets.from_json(end))


def kept_secret(path: pathlib.Path) -> str:
    """The secret in a file, made and written on the first call; readable by the owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(32), encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()

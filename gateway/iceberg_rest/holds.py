"""Holding a cut steady: what one statement of an engine asks for twice is the same both times.

An engine loads a table when a statement begins and asks for it again while it plans: for each
reference once more, or for the files. These further requests get the cut of the first. They are
known by the session that came with the load and that they carry in the place of the access token;
a client that does not know of sessions gets what its principal was given last. Either way only
for a short time, so that nobody who asks anew is given an old answer.
"""

from __future__ import annotations

import dataclasses
import secrets

import itsdangerous

from seamline.errors import UNAUTHENTICATED, SeamlineError

_SALT = "seamline-iceberg-session"
_PREFIX = "seamline."


@dataclasses.dataclass(frozen=True, slots=True)
class TableSession:
    """Who loaded which table, and which loading it was.

    Attributes:
        principal: Who.
        table: Full name of the table; the session is good for no other.
        session_id: The loading.
    """

    principal: str
    table: tuple[str, ...]
    session_id: str


class SessionTokens:
    """Makes and reads the tokens that stand for sessions.

    Args:
        secret: Signs them.
        age_seconds_max: Older ones are refused.
    """

    def __init__(self, secret: str, age_seconds_max: int) -> None:
        self._serializer = itsdangerous.URLSafeTimedSerializer(secret, salt=_SALT)
        self._age_seconds_max = age_seconds_max

    def sign(self, session: TableSession) -> str:
        """The token of a session."""
        body = [session.principal, list(session.table), session.session_id]
        return f"{_PREFIX}{self._serializer.dumps(body)}"

    def read(self, token: str) -> TableSession | None:
        """The session of a token, None when it is another kind of token.

        Raises:
            SeamlineError: UNAUTHENTICATED for one that is forged or too old.
        """
        if not token.startswith(_PREFIX):
            return None
        try:
            principal, table, session_id = self._serializer.loads(
                token.removeprefix(_PREFIX), max_age=self._age_seconds_max
            )
        except (itsdangerous.BadData, ValueError, TypeError) as error:
            raise SeamlineError(
                UNAUTHENTICATED, "the table's session is not known here, or is too old"
            ) from error
        return TableSession(principal, tuple(table), session_id)


def new_session_id() -> str:
    """An id nobody can guess."""
    return secrets.token_urlsafe(12)

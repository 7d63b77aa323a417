"""Sessions, which identify the requests that belong to one statement of an engine.

An engine loads a table when a statement begins, and asks for it again while it plans: once for each
further reference, or for the files. The load answers with a session, which these further requests
carry in place of the access token.
"""

from __future__ import annotations

import dataclasses
import secrets

import itsdangerous

from seamline.errors import UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.identity import Identity
from seamline.gateway.access.rights import Principal

_SALT = "seamline-iceberg-session"
_PREFIX = "seamline."


@dataclasses.dataclass(frozen=True, slots=True)
class TableSession:
    """One load of a table.

    Attributes:
        identity: Who loaded it.
        table: Full name of the table; the session is valid for no other.
        session_id: Distinguishes the load from others.
    """

    identity: Identity
    table: tuple[str, ...]
    session_id: str


class SessionTokens:
    """Signs and reads the tokens of sessions.

    Args:
        secret: Signs them.
        age_seconds_max: The age in seconds beyond which they are refused.
    """

    def __init__(self, secret: str, age_seconds_max: int) -> None:
        self._serializer = itsdangerous.URLSafeTimedSerializer(secret, salt=_SALT)
        self._age_seconds_max = age_seconds_max

    def sign(self, session: TableSession) -> str:
        """Returns the token of a session."""
        who = session.identity
        proof = [who.method, who.credential, who.expires, who.issuer]
        body = [
            [who.principal.name, who.principal.groups, *proof],
            session.table,
            session.session_id,
        ]
        return f"{_PREFIX}{self._serializer.dumps(body)}"

    def read(self, token: str) -> TableSession | None:
        """Returns the session of a token, or None for another kind of token.

        Raises:
            SeamlineError: UNAUTHENTICATED for a token that is forged or too old.
        """
        if not token.startswith(_PREFIX):
            return None
        try:
            (name, groups, *proof), table, session_id = self._serializer.loads(
                token.removeprefix(_PREFIX), max_age=self._age_seconds_max
            )
            identity = Identity(Principal(name, tuple(groups)), *proof)
        except (itsdangerous.BadData, ValueError, TypeError) as error:
            raise SeamlineError(
                UNAUTHENTICATED, "the table's session is unknown here, or too old"
            ) from error
        return TableSession(identity, tuple(table), session_id)


def new_session_id() -> str:
    """Returns an id that nobody can guess."""
    return secrets.token_urlsafe(12)

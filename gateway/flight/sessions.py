"""Sessions of clients that keep cookies: options, changes by USE and SET SESSION, and tokens seen.

    seamline-NAME: value        a header: an option of this call, which overrides the session's
    cookie: seamline-session=…  the session; each answer to a client without one offers a new one

Options are `catalog`, `schema` and the properties that SHOW SESSION lists. A session is kept once a
client comes back with its cookie or sets an option. It belongs to one principal, and is forgotten
after twelve hours without a call. A client without cookies has only headers; nothing is kept for
it.
"""

from __future__ import annotations

import http.cookies
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from seamline.connectors.cache import FairCache
from seamline.dbapi.tokens import SeenTokens
from seamline.errors import HISTORY_CHANGED, INVALID_REQUEST, INVALID_TOKEN, SeamlineError
from seamline.gateway.flight.callers import Caller
from seamline.gateway.statements import session_properties
from seamline.gateway.statements.statement import Statement, StatementRequest

NAMES = ("catalog", "schema")
_COOKIE = "seamline-session"
_HEADER = "seamline-"
_OPTIONS = ".options"
"""Suffix of the cookie of a session that has options or prepared statements."""
_ID = re.compile(r"([A-Za-z0-9_-]{24})(\.options)?")
_SESSIONS_BYTES_MAX = 64 << 20
"""Memory for all sessions; beyond it, the largest owner loses the least recently used first."""
_EACH_BYTES = 1000
_IDLE_S = 12 * 3600.0
_SOURCE_MAX = 200


class Session:
    """What a client has set and read. Safe to share between threads.

    Attributes:
        options: Values by name.
        prepared: The statements of PREPARE, by name.
        seen: The tokens of what it has read.
    """

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.prepared: dict[str, str] = {}
        self.seen = SeenTokens()

    @property
    def has_options(self) -> bool:
        """Whether it has options or prepared statements, which change what statements mean."""
        return bool(self.options or self.prepared)

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        texts = (*self.options.values(), *self.prepared.values(), *self.prepared, *self.seen.all)
        return _EACH_BYTES + sum(map(len, texts))

    def clear(self) -> None:
        """Forgets what was set; the session must not be used again."""
        self.options, self.prepared = {}, {}

    def change(self, changes: Mapping[str, Any]) -> None:
        """Applies the changes of a statement, in the form of `Statement.changes`."""
        names = {name: changes[name] for name in NAMES if name in changes}
        _update(self.options, {**names, **changes.get("properties", {})})
        _update(self.prepared, changes.get("prepared", {}))


def _update(values: dict[str, str], changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value


class CallSession:
    """The session of one call.

    Args:
        session: The client's session.
        headers: The headers of the call.
        offer: Called with the call's context; sends the client the right cookie if it has none or a
            different one.
    """

    def __init__(
        self, session: Session, headers: Mapping[str, str], offer: Callable[[Any], None]
    ) -> None:
        self.session = session
        self.offer = offer
        self._headers = headers
        self._sent: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, str]:
        """The options that apply to the call, with those of its headers.

        Raises:
            SeamlineError: INVALID_SESSION_PROPERTY for a header that names no option.
        """
        options = dict(self.session.options)
        for header, value in self._headers.items():
            name = header.removeprefix(_HEADER)
            if name != header:
                check_option(name, value)
                options[name] = value
        return options

    def request(self, text: str, parameters: Any = ()) -> StatementRequest:
        """Returns the request for the service, with the session's options.

        Raises:
            SeamlineError: INVALID_SESSION_PROPERTY.
        """
        options = self.options
        catalog, schema = (options.pop(name, None) for name in NAMES)
        self._sent = self.session.seen.all
        after = options.get("after")
        return StatementRequest(
            statement=text,
            parameters=parameters,
            catalog=catalog,
            schema=schema,
            properties=options,
            prepared=dict(self.session.prepared),
            after=(*self._sent, *([after] if after else [])),
            source=self._headers.get("user-agent", "")[:_SOURCE_MAX] or None,
            carries_tokens=False,
        )

    def take(self, statement: Statement) -> None:
        """Updates the session from a finished statement, from either its result or its error."""
        error = statement.error
        if error is not None:
            if error.code in {HISTORY_CHANGED, INVALID_TOKEN}:
                self.session.seen.replace(self._sent)  # reported once; then starts over
            return
        token = statement.receipt.get("session")
        if token:
            self.session.seen.replace(self._sent, token)
        self.session.change(statement.changes)


def check_option(name: str, value: str) -> None:
    """Requires that an option may have a value.

    Raises:
        SeamlineError: INVALID_SESSION_PROPERTY.
    """
    if name not in NAMES:
        session_properties.value_of(name, value)


class Sessions:
    """The sessions of one gateway. Safe to share between threads."""

    def __init__(self) -> None:
        self._sessions: FairCache[str, Session] = FairCache(
            _SESSIONS_BYTES_MAX, weight=lambda session: session.size_bytes, ttl_s=_IDLE_S
        )

    def begin(self, caller: Caller) -> CallSession:
        """Returns the session of a call.

        Raises:
            SeamlineError: INVALID_REQUEST for a session that had options and is no longer known,
                since its names could otherwise silently come to mean other tables.
        """
        cookie_id, has_options = _cookie(caller.headers.get("cookie", ""))
        session_id = cookie_id or secrets.token_urlsafe(18)
        owner = caller.principal.name
        session = self._sessions.get(owner, session_id)
        if session is None and has_options:
            raise SeamlineError(
                INVALID_REQUEST,
                "the session, with everything set in it, is no longer known",
                hint="Reconnect. Sessions are lost when a gateway stops, and dropped "
                "after twelve hours without use; options may be sent as headers instead.",
            )
        session = session or Session()
        if cookie_id is not None:
            self._sessions.put(owner, session_id, session)

        def offer(context: Any) -> None:
            if session.has_options:
                self._sessions.put(owner, session_id, session)
            if cookie_id is None or session.has_options is not has_options:
                mark = _OPTIONS if session.has_options else ""
                cookie = f"{_COOKIE}={session_id}{mark}"
                context.send_initial_metadata((("set-cookie", cookie),))

        return CallSession(session, caller.headers, offer)

    def close(self, caller: Caller) -> bool:
        """Drops the session of a call; returns False if there is none."""
        cookie_id, _ = _cookie(caller.headers.get("cookie", ""))
        owner = caller.principal.name
        session = None if cookie_id is None else self._sessions.pop(owner, cookie_id)
        if session is None:
            return False
        session.clear()
        return True


def _cookie(header: str) -> tuple[str | None, bool]:
    """Returns the session id in a client's cookie, if well-formed, and whether it has options."""
    try:
        cookie = http.cookies.SimpleCookie(header).get(_COOKIE)
    except http.cookies.CookieError:
        return None, False
    match = _ID.fullmatch(cookie.value) if cookie is not None else None
    return (match[1], match[2] is not None) if match is not None else (None, False)

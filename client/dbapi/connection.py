"""Connections: a gateway's address, the session's defaults, and cursors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

from seamline.dbapi import errors
from seamline.dbapi.credentials import Credentials
from seamline.dbapi.cursor import Cursor
from seamline.dbapi.tokens import SeenTokens
from seamline.dbapi.transport import Transport
from seamline.errors import INVALID_ARGUMENT

URL_DEFAULT = "http://127.0.0.1:8474"
_AUTO = "auto"
_COMPRESSIONS = frozenset({None, "lz4", "zstd"})


class Connection:
    """A DB-API connection. Threads may share it, each with a cursor of its own.

    Attributes:
        url: Address of the gateway.
        catalog: Default catalog for names without one.
        schema: Default schema for names without one.
        time_zone: Zone of times without one, unless SET TIME ZONE sets another; None means UTC.
        compression: How rows are compressed in transit: `lz4`, `zstd` or None.
        properties: The session's properties by name, as set by SET SESSION.
        prepared: The session's prepared statements by name, as made by PREPARE.
        last_token: What the connection has read so far; later statements never fall behind it.
            Set it to None to start over, or to another connection's token to continue from there.
            To keep what this connection has read as well, pass the other token to
            `execute(…, after=…)` instead.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials | None = None,
        catalog: str | None = None,
        schema: str | None = None,
        engine: str = "auto",
        time_zone: str | None = None,
        compression: str | None = None,
    ) -> None:
        if compression not in _COMPRESSIONS:
            message = f"the compression {compression!r} is not known"
            raise errors.InterfaceError(INVALID_ARGUMENT, message, hint="It is 'lz4' or 'zstd'.")
        self.catalog = catalog
        self.schema = schema
        self.time_zone = time_zone
        self.compression = compression
        self.properties: dict[str, str] = {}
        self.prepared: dict[str, str] = {}
        self.engine = engine
        self.url = url
        self._credentials = credentials
        self._seen = SeenTokens()
        self._transport = Transport(url, credentials)
        self._closed = False

    @property
    def last_token(self) -> str | None:
        """What the connection has read so far; None before its first read."""
        return self._seen.text

    @last_token.setter
    def last_token(self, token: str | None) -> None:
        self._seen.restart(token)

    @property
    def engine(self) -> str:
        """Engine for statements that do not request one: the session's property `engine`."""
        return self.properties.get("engine", _AUTO)

    @engine.setter
    def engine(self, engine: str) -> None:
        self.properties = _changed(self.properties, {"engine": None if engine == _AUTO else engine})

    def change(self, changes: Mapping[str, Any]) -> None:
        """Applies the changes that a statement such as SET SESSION or USE made to the session."""
        self.catalog = changes.get("catalog", self.catalog)
        self.schema = changes.get("schema", self.schema)
        self.properties = _changed(self.properties, changes.get("properties", {}))
        self.prepared = _changed(self.prepared, changes.get("prepared", {}))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def cursor(self) -> Cursor:
        """Returns a new cursor."""
        self._check_open()
        return Cursor(self, self._transport, self._seen)

    def execute(self, operation: str, parameters: Any = None, **options: Any) -> Cursor:
        """Runs a statement on a new cursor; see `Cursor.execute`."""
        return self.cursor().execute(operation, parameters, **options)

    def again(self) -> Connection:
        """Opens another connection to the same gateway, with the same user and the same names.

        Its time zone and compression are the same, too.
        """
        return Connection(
            self.url,
            credentials=self._credentials,
            catalog=self.catalog,
            schema=self.schema,
            time_zone=self.time_zone,
            compression=self.compression,
        )

    def commit(self) -> None:
        """Required by the DB-API; each statement is a transaction of its own.

        Raises:
            InterfaceError: when the connection is closed.
        """
        self._check_open()

    def rollback(self) -> None:
        """Required by the DB-API; nothing is undone, as a statement that ended has committed.

        Raises:
            InterfaceError: when the connection is closed.
        """
        self._check_open()

    def close(self) -> None:
        """Closes the connection; its cursors cannot be used afterwards."""
        self._closed = True
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.InterfaceError(INVALID_ARGUMENT, "the connection is closed", hint="")


def _changed(current: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Returns a new mapping with the changes, so threads that read the old one are unaffected."""
    both = {**current, **changes}
    return {name: text for name, text in both.items() if text is not None}


def connect(
    url: str | None = None,
    *,
    access_token: str | Callable[[], str] | None = None,
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    catalog: str | None = None,
    schema: str | None = None,
    engine: str = "auto",
    time_zone: str | None = None,
    compression: str | None = None,
    embedded: bool | str = False,
) -> Connection:
    """Connects to a gateway.

    Args:
        url: Address of the gateway; defaults to `SEAMLINE_URL`, then `http://127.0.0.1:8474`.
        access_token: Bearer token, or a function that returns the current token for each request;
            defaults to `SEAMLINE_TOKEN` if no user is given.
        user: User, instead of a token; defaults to `SEAMLINE_USER`.
        password: The user's password; defaults to `SEAMLINE_PASSWORD`.
        ca: File with the CA certificates to trust; defaults to `SEAMLINE_CA`, then to those of the
            system.
        certificate: File with the client certificate; defaults to `SEAMLINE_CERTIFICATE`.
        key: File with the client certificate's key; defaults to `SEAMLINE_KEY`.
        catalog: Default catalog for names without one.
        schema: Default schema for names without one.
        engine: `auto`, `duckdb` or `spark`, for statements that do not request one.
        time_zone: Zone of times without one, such as `Europe/Berlin`; by default UTC.
        compression: `lz4` or `zstd`, to compress rows in transit over a slow network; needs
            `seamline[arrow]`.
        embedded: Run a gateway in this process until the connection is closed. True uses the
            configuration that `seamline serve` would find; a string names the configuration file.
            Needs `seamline[gateway]`.

    Raises:
        InterfaceError: when a URL or a compression is given together with `embedded`, and for an
            unknown compression.
    """
    if embedded:
        from seamline.dbapi.embedded import EmbeddedConnection

        if url is not None or compression is not None:
            message = f"an embedded gateway takes no {'url' if url is not None else 'compression'}"
            raise errors.InterfaceError(INVALID_ARGUMENT, message, hint="Leave one of them out.")
        file = embedded if isinstance(embedded, str) else None
        return EmbeddedConnection(
            file, catalog=catalog, schema=schema, engine=engine, time_zone=time_zone
        )
    return Connection(
        url or os.environ.get("SEAMLINE_URL") or URL_DEFAULT,
        credentials=Credentials(access_token, user, password, ca, certificate, key).or_of(
            os.environ
        ),
        catalog=catalog,
        schema=schema,
        engine=engine,
        time_zone=time_zone,
        compression=compression,
    )

"""How a client authenticates, and which gateway certificates it trusts: credentials and TLS."""

from __future__ import annotations

import base64
import dataclasses
import ssl
from collections.abc import Callable, Mapping

from seamline.dbapi.errors import as_client_error
from seamline.errors import INVALID_ARGUMENT, SeamlineError


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """How a client authenticates to a gateway, and which certificates it trusts.

    Attributes:
        access_token: Bearer token, or a function that returns the current one.
        user: User, instead of a token.
        password: The user's password.
        ca: PEM file with the trusted certificates; None for those of the system.
        certificate: PEM file with the client's own certificate.
        key: File with its key; None when it is in the certificate's file.
    """

    access_token: str | Callable[[], str] | None = None
    user: str | None = None
    password: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def or_of(self, environment: Mapping[str, str]) -> Credentials:
        """Returns these, with gaps filled from variables such as `SEAMLINE_TOKEN`."""
        values = {
            field.name: environment.get(f"SEAMLINE_{field.name.removeprefix('access_').upper()}")
            for field in dataclasses.fields(self)
        }
        if values["access_token"]:
            values["user"] = None
        return self.or_else(Credentials(**values))

    def or_else(self, others: Credentials) -> Credentials:
        """Returns these, with gaps filled from others; never adds a second form of login."""
        left = others
        if self.user is not None or self.access_token is not None:
            left = dataclasses.replace(others, access_token=None, user=None)
        return Credentials(
            *(
                getattr(self, f.name) or getattr(left, f.name) or None
                for f in dataclasses.fields(self)
            )
        )

    def authorization(self) -> str | None:
        """Returns the Authorization header of the next request; None without credentials.

        Raises:
            ProgrammingError: for a token that no header can carry, for an invalid user name, or if
                both a user and a token are given.
        """
        if self.user is not None:
            return self._basic(self.user)
        token = self.given_token()
        if not token:
            return None
        if not (token.isascii() and token.isprintable()):
            raise as_client_error(
                SeamlineError(
                    INVALID_ARGUMENT,
                    "the access token has characters that a header cannot carry",
                    hint="Pass it as it was given, without quotes and line breaks.",
                )
            )
        return f"Bearer {token}"

    def given_token(self) -> str | None:
        """Returns the current access token."""
        return self.access_token() if callable(self.access_token) else self.access_token

    def _basic(self, user: str) -> str:
        if self.access_token is not None or ":" in user or not user:
            raise as_client_error(
                SeamlineError(
                    INVALID_ARGUMENT,
                    "a user name must not be empty or contain a colon"
                    if self.access_token is None
                    else "both a user and an access token were given",
                    hint="Give either user and password, or an access token.",
                )
            )
        return "Basic " + base64.b64encode(f"{user}:{self.password or ''}".encode()).decode()

    def tls(self) -> ssl.SSLContext | None:
        """Returns the TLS context for connections; None if the default is sufficient.

        Raises:
            ProgrammingError: for a file that cannot be used.
        """
        if self.ca is None and self.certificate is None:
            return None
        file = self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                file = self.certificate
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or error
            raise as_client_error(
                SeamlineError(
                    INVALID_ARGUMENT,
                    f"the certificate {file} cannot be used: {cause}",
                    hint="ca, certificate and key name files in PEM.",
                )
            ) from error
        return context

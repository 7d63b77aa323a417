"""How a client says who it is, and whom it trusts to be the gateway."""

from __future__ import annotations

import base64
import dataclasses
import ssl
from collections.abc import Callable, Mapping

from seamline.dbapi.errors import as_client_error
from seamline.errors import INVALID_ARGUMENT, SeamlineError


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows a gateway, and wants to be shown.

    Attributes:
        access_token: Bearer token, or a function that gives the one of the moment.
        user: User, instead of a token.
        password: The user's password.
        ca: File with the certificates that are trusted, in PEM; those of the system without it.
        certificate: File with the client's own certificate, in PEM.
        key: File with its key; None when it is in the certificate's file.
    """

    access_token: str | Callable[[], str] | None = None
    user: str | None = None
    password: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def or_of(self, environment: Mapping[str, str]) -> Credentials:
        """These, and what they leave open as variables have it: `SEAMLINE_TOKEN` and so on."""
        found = {
            field.name: environment.get(f"SEAMLINE_{field.name.removeprefix('access_').upper()}")
            for field in dataclasses.fields(self)
        }
        if found["access_token"]:
            found["user"] = None
        return self.or_else(Credentials(**found))

    def or_else(self, others: Credentials) -> Credentials:
        """These, and what they leave open as others have it; one proof of who asks is enough."""
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
        """The Authorization header of the next request.

        Raises:
            InterfaceError: for a token that no header can carry, or for two proofs at once.
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
        """The access token of the moment."""
        return self.access_token() if callable(self.access_token) else self.access_token

    def _basic(self, user: str) -> str:
        if self.access_token is not None or ":" in user or not user:
            raise as_client_error(
                SeamlineError(
                    INVALID_ARGUMENT,
                    "a user with a colon in the name, or without one, cannot log in"
                    if self.access_token is None
                    else "both a user and an access token were given",
                    hint="Give either user and password, or an access token.",
                )
            )
        return "Basic " + base64.b64encode(f"{user}:{self.password or ''}".encode()).decode()

    def tls(self) -> ssl.SSLContext | None:
        """What connections are made with; None where the usual will do.

        Raises:
            InterfaceError: for a file that cannot be used.
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

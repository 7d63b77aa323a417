"""How a client says who it is, and whom it trusts to be the gateway."""

from __future__ import annotations

import dataclasses
import ssl

from seamline.dbapi.errors import as_client_error
from seamline.errors import INVALID_ARGUMENT, SeamlineError


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows a gateway, and wants to be shown.

    Attributes:
        access_token: Bearer token.
        ca: File with the certificates that are trusted, in PEM; those of the system without it.
        certificate: File with the client's own certificate, in PEM.
        key: File with its key; None when it is in the certificate's file.
    """

    access_token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def authorization(self) -> str | None:
        """The Authorization header of the next request.

        Raises:
            InterfaceError: for a token that no header can carry.
        """
        if not self.access_token:
            return None
        if not (self.access_token.isascii() and self.access_token.isprintable()):
            raise as_client_error(
                SeamlineError(
                    INVALID_ARGUMENT,
                    "the access token has characters that no header can carry",
                    hint="Pass it as it was given, without quotes and line breaks.",
                )
            )
        return f"Bearer {self.access_token}"

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

"""Who sends a request, and how they proved it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from seamline.gateway.access.rights import Principal

TOKEN = "token"  # noqa: S105 - a name of a method
PASSWORD = "password"  # noqa: S105 - another one
CERTIFICATE = "certificate"
JWT = "jwt"
NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """A principal, and the credential that proved who it is.

    Attributes:
        principal: Who it is.
        method: What kind of credential it was.
        credential: Distinguishes it from others of its kind; useless to anyone who reads it.
        expires: When it expires, in seconds since the epoch; None for never.
        issuer: Who signed it, for a certificate that may be revoked.
    """

    principal: Principal
    method: str = NONE
    credential: str = ""
    expires: float | None = None
    issuer: str = ""

    @property
    def has_expired(self) -> bool:
        """Whether the credential has expired."""
        return self.expires is not None and time.time() >= self.expires


@dataclasses.dataclass(frozen=True, slots=True)
class Presented:
    """What a request shows about its sender.

    Attributes:
        authorization: The Authorization header.
        host: The Host header.
        address: The address it comes from.
        certificate: The client's certificate as `ssl.SSLSocket.getpeercert` returns it, once TLS
            has verified it.
        encoded: The same certificate in DER.
    """

    authorization: str | None = None
    host: str = ""
    address: str = ""
    certificate: Mapping[str, Any] | None = None
    encoded: bytes = b""
